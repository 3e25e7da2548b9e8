/* SPDX-License-Identifier: MIT */
/*
 * In /proc/self/mountinfo spaces separate the fields of a line; a space or backslash inside a field is
 * written in octal, as "\040". A "-" ends the optional fields; the type, the source and the options follow.
 */
#include "base/mountinfo.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

enum { /* counted from 0 */
    DEVICE_FIELD = 2,
    MOUNT_POINT_FIELD = 4,
    OPTIONAL_FIELD = 6,
};

/* Parses a line; the caller frees ret_mount->path. Returns false if the file system has another type. */
static bool parse_line(const char *line, const char *type, struct mount *ret_mount)
{
    g_auto(GStrv) fields = g_strsplit(line, " ", -1);
    guint len = g_strv_length(fields);
    guint end = OPTIONAL_FIELD;
    while (end < len && strcmp(fields[end], "-") != 0)
        end++;
    if (end + 3 >= len || strcmp(fields[end + 1], type) != 0)
        return false;
    const char *owner = strstr(fields[end + 3], ",user_id="); /* the kernel writes "rw" or "ro" before it */
    char *colon;
    unsigned int major = (unsigned int)strtoul(fields[DEVICE_FIELD], &colon, 10);
    unsigned int minor = *colon == ':' ? (unsigned int)strtoul(colon + 1, NULL, 10) : 0;
    *ret_mount = (struct mount){
        .path = g_strcompress(fields[MOUNT_POINT_FIELD]),
        .device = makedev(major, minor),
        .owner = owner != NULL ? strtoll(owner + strlen(",user_id="), NULL, 10) : -1,
    };
    return true;
}

struct mount *mountinfo_list(const char *type)
{
    g_autofree char *text = NULL;
    struct mount mount;
    if (!g_file_get_contents("/proc/self/mountinfo", &text, NULL, NULL))
        return NULL;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GArray *list = g_array_new(TRUE, FALSE, sizeof(struct mount));
    for (char **line = lines; *line != NULL; line++)
        if (parse_line(*line, type, &mount))
            g_array_append_val(list, mount);
    return (struct mount *)(void *)g_array_free(list, FALSE);
}

bool mountinfo_find(const char *type, const char *path, dev_t *ret_device)
{
    _cleanup_mountinfo_ struct mount *mounts = mountinfo_list(type);
    bool is_found = false;
    for (struct mount *mount = mounts; mount != NULL && mount->path != NULL; mount++) {
        if (strcmp(mount->path, path) != 0)
            continue;
        is_found = true;
        if (ret_device != NULL)
            *ret_device = mount->device;
    }
    return is_found;
}

char *mountinfo_real_path(const char *path)
{
    /* realpath(3) would enter the folder if its path ended with a slash. */
    _cleanup_free_ char *bare = g_strdup(path);
    for (size_t len = strlen(bare); len > 1 && bare[len - 1] == '/'; len--)
        bare[len - 1] = '\0';
    return realpath(bare, NULL);
}

void mountinfo_free(struct mount *mounts)
{
    for (struct mount *mount = mounts; mount != NULL && mount->path != NULL; mount++)
        g_free(mount->path);
    g_free(mounts);
}
