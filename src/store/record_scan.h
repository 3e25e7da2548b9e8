/* SPDX-License-Identifier: MIT */
/*
 * Reads the frames of a record log from front to back, a window of the file at a time.
 */
#ifndef INBOXFS_STORE_RECORD_SCAN_H
#define INBOXFS_STORE_RECORD_SCAN_H

#include <stddef.h>

#include "store/record_log.h"

struct record_scan {
    int fd;
    size_t bytes;      /* of the file */
    size_t end;        /* behind the last intact frame; at first, where frames begin */
    size_t damaged;    /* places that had to be passed over to get to the next one */
    size_t unreadable; /* pages that the disk failed to read: frames in and behind them may be there still */
};

/* Visits each intact frame that is not idle. What cannot be read is passed over. 0, -ENOMEM, or what the
 * visitor returned. */
int record_scan_run(struct record_scan *scan, record_visitor visitor, void *context);

#endif
