/* SPDX-License-Identifier: MIT */
/*
 * Reads /proc/self/mountinfo line by line. Fields are parted by spaces, which within a field are written as
 * "\040"; optional fields end with a "-", and the type stands behind it.
 */
#include "base/mountinfo.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

enum {
    MOUNT_POINT_FIELD = 5, /* counted from 1 */
};

/* "\040" becomes a space, and so on, in place. */
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

/* The mount point of a line, which is changed; NULL: a file system of another type. */
static char *find_mount_point(char *line, const char *type)
{
    const char *behind = strstr(line, " - ");
    size_t len = strlen(type);
    if (behind == NULL || strncmp(behind + 3, type, len) != 0 || behind[3 + len] != ' ')
        return NULL;
    char *rest = NULL;
    char *field = strtok_r(line, " ", &rest);
    for (int i = 1; i < MOUNT_POINT_FIELD && field != NULL; i++)
        field = strtok_r(NULL, " ", &rest);
    if (field != NULL)
        unescape(field);
    return field;
}

/* Makes room for one more and the NULL behind it. */
static int append(char ***paths, size_t count, const char *path)
{
    char **grown = reallocarray(*paths, count + 2, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    *paths = grown;
    grown[count] = path != NULL ? strdup(path) : NULL;
    grown[count + 1] = NULL;
    return path != NULL && grown[count] == NULL ? -ENOMEM : 0;
}

int mountinfo_list(const char *type, char ***ret_paths)
{
    _cleanup_fclose_ FILE *file = fopen("/proc/self/mountinfo", "re");
    _cleanup_mountinfo_ char **paths = NULL;
    _cleanup_free_ char *line = NULL;
    size_t capacity = 0;
    size_t count = 0;
    if (file == NULL)
        return -errno;
    int error = append(&paths, 0, NULL);
    while (error == 0 && getline(&line, &capacity, file) >= 0) {
        const char *path = find_mount_point(line, type);
        if (path != NULL)
            error = append(&paths, count++, path);
    }
    if (error == 0 && ferror(file))
        error = -EIO;
    if (error == 0)
        *ret_paths = TAKE_PTR(paths);
    return error;
}

bool mountinfo_has(const char *type, const char *path)
{
    _cleanup_mountinfo_ char **mounts = NULL;
    bool is_found = false;
    (void)mountinfo_list(type, &mounts);
    for (char **mount = mounts; mount != NULL && *mount != NULL && !is_found; mount++)
        is_found = strcmp(*mount, path) == 0;
    return is_found;
}

void mountinfo_free(char **paths)
{
    for (char **path = paths; path != NULL && *path != NULL; path++)
        free(*path);
    free(paths);
}
