/* SPDX-License-Identifier: MIT */
/*
 * Reads records of email from JSON text, one after the other, with the same memory: a list may be long.
 */
#ifndef INBOXFS_MAIL_EMAIL_READER_H
#define INBOXFS_MAIL_EMAIL_READER_H

#include <stddef.h>

#include "mail/email_record.h"

struct email_reader;

/* `ret_reader` is freed with email_reader_free(). 0 or -ENOMEM. */
int email_reader_new(struct email_reader **ret_reader);
/* NULL-safe. */
void email_reader_free(struct email_reader *reader);

/* Reads the record that the text begins with; *ret_len: how long that is. The record's texts are the
 * reader's, and change when it reads the next. Errors as of email_record_from_text(); a text that is cut off
 * is no JSON. */
int email_reader_read(struct email_reader *reader, const char *text, size_t len,
                      struct email_record *ret_record, size_t *ret_len);

/* Copies the texts of the record last read to `room`, where it has them from then on. How many bytes they
 * took; 0: there is not so much room. */
size_t email_reader_copy(const struct email_reader *reader, struct email_record *record, char *room,
                         size_t room_len);

/* Makes the texts of the record last read its own. 0 or -ENOMEM. */
int email_reader_hand_over(struct email_reader *reader, struct email_record *record);

#endif
