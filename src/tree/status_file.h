/* SPDX-License-Identifier: MIT */
/*
 * The text of status.json. Each open gets a fresh one; what stat(2) says is the size of the last one, unless
 * that is old, so that a program that opens, asks for the size and reads finds them fit.
 */
#ifndef INBOXFS_TREE_STATUS_FILE_H
#define INBOXFS_TREE_STATUS_FILE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct tree;

struct status_file {
    pthread_mutex_t lock;
    size_t len;          /* protected by lock: of the last text */
    int64_t rendered_ms; /* protected by lock: monotonic time of that; 0: never */
};

void status_file_init(struct status_file *status);
void status_file_release(struct status_file *status);

/* A new text; the caller frees. 0 or -ENOMEM. */
int status_file_render(struct tree *tree, char **ret_text, size_t *ret_len);

/* The size to show, in bytes. */
size_t status_file_size(struct tree *tree);

#endif
