/* SPDX-License-Identifier: MIT */
/*
 * Reads /proc/self/mountinfo line by line. Spaces separate the fields; a space inside a field is written as
 * "\040". A "-" ends the optional fields; the type, the source and the options follow.
 */
#include "base/mountinfo.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

enum { /* counted from 1 */
    DEVICE_FIELD = 3,
    MOUNT_POINT_FIELD = 5,
};

/* Replaces "\040" by a space, and other octal escapes likewise, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* Returns the number of an option, as in "rw,user_id=1000,group_id=1000"; -1 if it is not there. */
static int64_t find_number(const char *options, const char *name)
{
    size_t len = strlen(name);
    for (const char *option = options; option != NULL; option = strchr(option, ',')) {
        option += *option == ',';
        if (strncmp(option, name, len) == 0 && option[len] == '=')
            return strtoll(option + len + 1, NULL, 10);
    }
    return -1;
}

dev_t mountinfo_read_device(const char *text, char **ret_end)
{
    unsigned int major = (unsigned int)strtoul(text, ret_end, 10);
    unsigned int minor = **ret_end == ':' ? (unsigned int)strtoul(*ret_end + 1, ret_end, 10) : 0;
    return makedev(major, minor);
}

/* Parses a line, and changes it: ret_mount->path points into it. Returns false if the type is another. */
static bool parse_line(char *line, const char *type, struct mount *ret_mount)
{
    char *behind = strstr(line, " - ");
    size_t len = strlen(type);
    if (behind == NULL || strncmp(behind + 3, type, len) != 0 || behind[3 + len] != ' ')
        return false;
    char *cursor = NULL;
    char *end;
    strtok_r(behind + 3 + len, " ", &cursor); /* skips the source, which a user chooses */
    ret_mount->owner = find_number(cursor, "user_id");
    *behind = '\0';
    char *field = strtok_r(line, " ", &cursor);
    for (int i = 1; i < MOUNT_POINT_FIELD && field != NULL; i++) {
        if (i == DEVICE_FIELD)
            ret_mount->device = mountinfo_read_device(field, &end);
        field = strtok_r(NULL, " ", &cursor);
    }
    if (field != NULL)
        unescape(field);
    ret_mount->path = field;
    return field != NULL;
}

int mountinfo_list(const char *type, struct mount **ret_mounts)
{
    _cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
    _cleanup_free_ char *line = NULL;
    size_t capacity = 0;
    if (file == NULL)
        return -errno;
    GArray *list = g_array_new(TRUE, FALSE, sizeof(struct mount));
    while (getline(&line, &capacity, file) >= 0) {
        struct mount mount = {.path = NULL};
        if (!parse_line(line, type, &mount))
            continue;
        mount.path = g_strdup(mount.path);
        g_array_append_val(list, mount);
    }
    _cleanup_mountinfo_ struct mount *mounts = (struct mount *)(void *)g_array_free(list, FALSE);
    if (ferror(file))
        return -EIO;
    *ret_mounts = TAKE_PTR(mounts);
    return 0;
}

bool mountinfo_find(const char *type, const char *path, dev_t device, dev_t *ret_device)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    bool is_found = false;
    (void)mountinfo_list(type, &mounts);
    for (struct mount *mount = mounts; mount != NULL && mount->path != NULL; mount++) {
        if ((path != NULL && strcmp(mount->path, path) != 0) || (device != 0 && mount->device != device))
            continue;
        is_found = true;
        if (ret_device != NULL)
            *ret_device = mount->device;
    }
    return is_found;
}

void mountinfo_free(struct mount *mounts)
{
    for (struct mount *mount = mounts; mount != NULL && mount->path != NULL; mount++)
        g_free(mount->path);
    g_free(mounts);
}
