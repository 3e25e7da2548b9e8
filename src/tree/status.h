/* SPDX-License-Identifier: MIT */
/*
 * The text of status.json. Each open gets a fresh one; what stat(2) says is of the last one, unless that is
 * old, so that a program that opens, asks for the size and reads finds them fit. Its time is when the text
 * last differed from the one before: tar(1) and its kind take a new time for a file that changes while they
 * read it.
 */
#ifndef INBOXFS_TREE_STATUS_H
#define INBOXFS_TREE_STATUS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct tree;

struct status_file {
    pthread_mutex_t lock;
    char *text;          /* protected by lock, like all below: the last one; NULL: none yet */
    size_t len;          /* of it */
    int64_t rendered_ms; /* monotonic time of it */
    int64_t changed_ms;  /* realtime of the first such text */
};

void status_file_init(struct status_file *status);
void status_file_release(struct status_file *status);

/* A new text; the caller frees. 0 or -ENOMEM. */
int status_file_render(struct tree *tree, char **ret_text, size_t *ret_len);

/* What stat(2) is to say: size in bytes, time since 1970. */
void status_file_stat(struct tree *tree, size_t *ret_len, int64_t *ret_changed_ms);

#endif
