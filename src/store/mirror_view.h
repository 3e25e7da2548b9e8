/* SPDX-License-Identifier: MIT */
/*
 * Questions to the mirror, answered from memory. Contracts as those of the same names in store.h.
 */
#ifndef INBOXFS_STORE_MIRROR_VIEW_H
#define INBOXFS_STORE_MIRROR_VIEW_H

#include "store/mirror.h"

bool mirror_find_inbox(struct mirror *mirror, const char *name, struct inbox_view *ret);
bool mirror_get_inbox(struct mirror *mirror, uint32_t inbox, struct inbox_view *ret);
bool mirror_find_email(struct mirror *mirror, uint32_t inbox, const char *name, struct email_view *ret);
bool mirror_find_held(struct mirror *mirror, uint32_t inbox, const char *name, struct email_view *ret);
size_t mirror_list_held(struct mirror *mirror, uint32_t inbox, uint64_t position, struct email_view *ret,
                        uint64_t *ret_positions, size_t max);
bool mirror_shows_held(struct mirror *mirror);
bool mirror_get_email(struct mirror *mirror, uint32_t email, struct email_view *ret);
int mirror_read_email(struct mirror *mirror, uint32_t email, char **ret_json, size_t *ret_len);
int mirror_read_inbox(struct mirror *mirror, uint32_t number, char **ret_json, size_t *ret_len);
size_t mirror_list_inboxes(struct mirror *mirror, uint64_t position, struct inbox_view *ret,
                           uint64_t *ret_positions, size_t max);
size_t mirror_list_emails(struct mirror *mirror, uint32_t inbox, uint64_t position, struct email_view *ret,
                          uint64_t *ret_positions, size_t max);
int64_t mirror_inboxes_changed_ms(struct mirror *mirror);

/* How many there are. */
void mirror_count(struct mirror *mirror, size_t *ret_inboxes, size_t *ret_emails);

/* How many emails there are or were, in all inboxes. */
size_t mirror_email_numbers(struct mirror *mirror);

/* The inbox that collects mail that names none. */
bool mirror_find_inbox_of_no_name(struct mirror *mirror, uint32_t *ret_inbox);

int mirror_find_sender(struct mirror *mirror, const char *address, char **ret_address);

/* Whether there is an inbox with this address. */
bool mirror_has_address(struct mirror *mirror, const char *address);

#endif
