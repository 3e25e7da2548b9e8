/* SPDX-License-Identifier: MIT */
/*
 * Reads the frames of a mapped record log from front to back, with few of its pages in memory at once. Of a
 * large file, frames are checked by a thread that goes ahead, while the caller's visits them.
 */
#ifndef INBOXFS_STORE_RECORD_SCAN_H
#define INBOXFS_STORE_RECORD_SCAN_H

#include <stddef.h>

#include "store/record_log.h"

struct record_scan {
    const char *base; /* the mapping; frames are aligned in it */
    size_t bytes;     /* of the file */
    size_t end;       /* behind the last intact frame; at first, where frames begin */
    size_t damaged;   /* places that had to be passed over to get to the next one */
};

/* Visits each intact frame that is not idle. 0, or what the visitor returned. */
int record_scan_run(struct record_scan *scan, record_visitor visitor, void *context);

#endif
