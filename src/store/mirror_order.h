/* SPDX-License-Identifier: MIT */
/*
 * Emails by their id, and by their place among those of their inbox: the order in which they became known,
 * which is the order of listings.
 */
#ifndef INBOXFS_STORE_MIRROR_ORDER_H
#define INBOXFS_STORE_MIRROR_ORDER_H

#include "store/mirror.h"

/* What the service calls it; NULL: it has no id, or there is no such email. */
const char *mirror_email_id(struct mirror *mirror, uint32_t email);

/* The email of this id, in `inbox` before others. False: no inbox has it. */
bool mirror_find_email_by_id(struct mirror *mirror, uint32_t inbox, const char *id, struct email_view *ret);

/* Its place; false: no such email. */
bool mirror_find_place(struct mirror *mirror, uint32_t email, uint32_t *ret_inbox, size_t *ret_place);

/* Emails of the inbox of this number at `place` and on, in steps of `step` (1 or -1), those that are gone
 * passed over, at most `max` places looked at: how many there are. */
size_t mirror_list_places(struct mirror *mirror, uint32_t number, size_t place, int step,
                          uint32_t *ret_emails, size_t max);

/* Up to `max` emails that are there, the newest and oldest known of each of the first inboxes: how many. */
size_t mirror_pick_some(struct mirror *mirror, uint32_t *ret_emails, size_t max);

#endif
