/* SPDX-License-Identifier: MIT */
/*
 * The names of the spool's files, and what to do with names that are none of them.
 */
#ifndef INBOXFS_OUTBOX_SPOOL_FILES_H
#define INBOXFS_OUTBOX_SPOOL_FILES_H

#include <stddef.h>
#include <stdint.h>

#define SPOOL_VERSION_FILE "version"
#define SPOOL_NUMBERS_FILE "numbers"
#define SPOOL_COUNT_FILE "sent-today"
#define SPOOL_QUARANTINE "quarantine"
#define SPOOL_NEW_SUFFIX ".new"

enum {
    SPOOL_NAME_SIZE = 32
};

void spool_data_name(uint64_t number, char ret_name[SPOOL_NAME_SIZE]);
void spool_envelope_name(uint64_t number, char ret_name[SPOOL_NAME_SIZE]);

struct spool_numbers {
    uint64_t *items; /* the caller frees */
    size_t len;
    size_t capacity;
};

/* All numbers in the folder, each once. Foreign files are quarantined, unfinished ones removed. 0 or -errno.
 */
int spool_files_scan(int dir_fd, struct spool_numbers *ret_numbers);

/* Moves a file into "quarantine", under another name when its own is taken there. What fails is logged. */
void spool_files_quarantine(int dir_fd, const char *name);

#endif
