/* SPDX-License-Identifier: MIT */
/*
 * Emails as Markdown for a language model: one email, and a whole thread.
 */
#ifndef INBOXFS_SERVICE_PROMPT_H
#define INBOXFS_SERVICE_PROMPT_H

#include <jansson.h>
#include <stddef.h>

#include "base/strbuf.h"

/* Appends one email: subject as heading (of `level` 1 to 6), who, when, what is attached, and the text. The
 * record is a content record (its prompts are not looked at). 0 or the buffer's error. */
int prompt_append_email(struct strbuf *out, const json_t *content_record, unsigned int level);

/* Appends a thread: the emails before, oldest first, and the email itself. */
int prompt_append_thread(struct strbuf *out, const json_t *previous, const json_t *content_record);

#endif
