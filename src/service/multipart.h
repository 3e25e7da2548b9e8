/* SPDX-License-Identifier: MIT */
/*
 * Finds the file in a multipart/form-data body (RFC 7578). The body is a stranger's: it is only looked at,
 * within its bounds.
 */
#ifndef INBOXFS_SERVICE_MULTIPART_H
#define INBOXFS_SERVICE_MULTIPART_H

#include <stddef.h>

struct multipart_file {
    char *name;         /* the file's, UTF-8, valid by file_name_is_valid(); a path before it is cut off */
    char *content_type; /* "type/subtype", "application/octet-stream" where none or a bad one is given */
    const char *bytes;  /* within the body */
    size_t len;
};

/* The first part named `field` that carries a file name. `content_type` is the request's header. 0, -EBADMSG
 * (the body is no such form, or cut short), -ENOENT (no such part), -EINVAL (its file name is not usable),
 * -ENOMEM. */
int multipart_find_file(const char *content_type, const char *body, size_t len, const char *field,
                        struct multipart_file *ret_file);
void multipart_file_release(struct multipart_file *file);

#endif
