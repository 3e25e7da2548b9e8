/* SPDX-License-Identifier: MIT */
/*
 * Changes to the inboxes of the mirror. Every call tells the listeners what it changed. When an inbox goes or
 * returns, so do its emails, without a word for each.
 */
#ifndef INBOXFS_STORE_MIRROR_INBOXES_H
#define INBOXFS_STORE_MIRROR_INBOXES_H

#include "mail/inbox_record.h"
#include "store/mirror.h"

/* Adds an inbox, or takes over what changed of it. `look`: the list of inboxes that had it, or 0. A record
 * that mail alone names changes nothing of one that is known. *ret_number may be NULL. 0, -EMSGSIZE, -ENOMEM,
 * -EBADMSG (too many inboxes). */
int mirror_put_inbox(struct mirror *mirror, const struct inbox_record *record, enum inbox_origin origin,
                     uint32_t look, uint32_t *ret_number);

/* The inbox that collects mail that names none. */
int mirror_put_inbox_of_no_name(struct mirror *mirror, uint32_t *ret_number);

/* After the list of inboxes that is `look` was complete: it is known which there are, and those that were
 * known when it began and are not in it go, except where mail still names them. */
void mirror_end_inbox_list(struct mirror *mirror, uint32_t look, uint32_t known_before);

/* How many numbers of inboxes have been given. */
uint32_t mirror_inbox_numbers(struct mirror *mirror);

/* What looks at this inbox remember; NULL: no such inbox. */
struct look_memory *mirror_find_look_memory(struct mirror *mirror, uint32_t number);

/* What the inbox held when it was found is known: mail that comes from here on is news. */
void mirror_end_quiet(struct mirror *mirror, uint32_t number);

/* What the folder of every inbox lists has changed: another modification time, later than before, by which
 * the kernel tells a listing that it got before from one that it got after. Tells of each. */
void mirror_touch_inboxes(struct mirror *mirror);

#endif
