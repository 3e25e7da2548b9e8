/* SPDX-License-Identifier: MIT */
/*
 * The digest of content: tells whether it was edited, and stands for ids that are missing.
 */
#ifndef INBOXFS_MAIL_CONTENT_DIGEST_H
#define INBOXFS_MAIL_CONTENT_DIGEST_H

#include <stddef.h>

/* SHA-256 of any bytes, as 64 hex digits and a NUL. */
void content_digest(const void *bytes, size_t len, char ret_digest[65]);

#endif
