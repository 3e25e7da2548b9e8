/* SPDX-License-Identifier: MIT */
/*
 * The boxes of all inboxes, and the file that they are loaded from (record_log.h).
 */
#ifndef INBOXFS_STORE_MAILDIR_FILE_H
#define INBOXFS_STORE_MAILDIR_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/maildir_box.h"
#include "store/record_log.h"

struct maildir_boxes {          /* empty: all zeros */
    struct maildir_box **items; /* by number; NULL where there is none */
    uint32_t len;
    uint32_t capacity;
};

void maildir_boxes_release(struct maildir_boxes *boxes);

/* The box of the inbox with this id, or NULL. */
struct maildir_box *maildir_boxes_find(const struct maildir_boxes *boxes, const char *id);

/* Makes room for a box of this number. 0 or -ENOMEM. */
int maildir_boxes_reserve(struct maildir_boxes *boxes, uint32_t number);
/* Takes over a box (maildir_box_new()) whose number is free. There must be room. */
void maildir_boxes_add(struct maildir_boxes *boxes, struct maildir_box *box);

/* Opens or makes the file in `dir_fd` and loads what it holds; where little of that counts any more, the file
 * is written anew (waits for the disk). 0 or -ENOMEM; the boxes are to be released in any case. */
int maildir_file_open(int dir_fd, struct maildir_boxes *boxes, struct record_log **ret_log);

#endif
