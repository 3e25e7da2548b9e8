/* SPDX-License-Identifier: MIT */
/*
 * What of an email is looked in by a search, read out of its record without making values of the rest: it is
 * done for every email there is.
 */
#ifndef INBOXFS_MAIL_SEARCH_RECORD_H
#define INBOXFS_MAIL_SEARCH_RECORD_H

#include <stddef.h>

struct search_record {
    char *subject;
    char *sender; /* address and name, search_fold()ed */
    char *people; /* everybody's addresses and names */
};

/* From the text of a record (email_record.json). Fields of odd types are passed over. 0, -EBADMSG, -ENOMEM.
 */
int search_record_read(const char *json, size_t len, struct search_record *ret_record);
void search_record_release(struct search_record *record);

#endif
