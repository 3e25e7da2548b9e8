/* SPDX-License-Identifier: MIT */
/*
 * Cleanup attributes: a variable with such an attribute is released at the end of its scope, also on an early
 * return. TAKE_PTR and TAKE_FD return the value of a variable and set the variable to NULL or -1, so that the
 * value is not released.
 */
#ifndef INBOXFS_BASE_CLEANUP_H
#define INBOXFS_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline void cleanup_close(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_fclose(FILE *const *file)
{
    if (*file != NULL)
        fclose(*file);
}

static inline void cleanup_closedir(DIR *const *directory)
{
    if (*directory != NULL)
        closedir(*directory);
}

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir)

/* Defines cleanup_NAME_free(), which calls NAME_free(), for variables of type `struct NAME *` that are
 * declared with _cleanup_(cleanup_NAME_free). */
#define DEFINE_CLEANUP_FREE(name)                                   \
    static inline void cleanup_##name##_free(struct name **pointer) \
    {                                                               \
        name##_free(*pointer);                                      \
    }

#define TAKE_PTR(pointer)                             \
    __extension__({                                   \
        __typeof__(pointer) *take_from_ = &(pointer); \
        __typeof__(pointer) taken_ = *take_from_;     \
        *take_from_ = NULL;                           \
        taken_;                                       \
    })

#define TAKE_FD(fd)               \
    __extension__({               \
        int *take_from_ = &(fd);  \
        int taken_ = *take_from_; \
        *take_from_ = -1;         \
        taken_;                   \
    })

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
