/* SPDX-License-Identifier: MIT */
/*
 * Spare files of the spool: a new envelope is written into one, which then changes places with the envelope
 * there was, and that file is the next spare. So a change neither makes a file nor removes one, which is less
 * for the disk to do; and on ext4 without a journal much less, for there the inode of a removed file is not
 * given again for minutes, and whoever makes a file looks at each of those first.
 *
 * May be used from any thread. Names end in ".new", so that what is left of them is removed at start.
 */
#ifndef INBOXFS_OUTBOX_SPARE_FILES_H
#define INBOXFS_OUTBOX_SPARE_FILES_H

#include <pthread.h>
#include <stddef.h>

#include "outbox/dir_sync.h"

enum {
    SPARE_FILES_MAX = 48 /* kept; senders, uploaders and closes write one each at a time */
};

struct spare_files {
    struct dir_sync *sync;    /* of the folder; borrowed */
    pthread_rwlock_t content; /* held together by those who write into spares; alone by who reads an envelope,
                                 for its file may become a spare meanwhile */
    pthread_mutex_t lock;
    unsigned int kept[SPARE_FILES_MAX]; /* protected by lock, like all below: numbers of those to be had */
    size_t kept_len;
    unsigned int next;
};

void spare_files_init(struct spare_files *spares, struct dir_sync *sync);
/* The files stay, and are removed at the next start. */
void spare_files_release(struct spare_files *spares);

/* file_replace_at() by way of a spare. Nobody else replaces the same name meanwhile. */
int spare_files_replace(struct spare_files *spares, const char *name, const void *bytes, size_t len);

/* file_read_at() of what is replaced like this. */
int spare_files_read(struct spare_files *spares, const char *name, size_t max_bytes, char **ret_bytes,
                     size_t *ret_len);

#endif
