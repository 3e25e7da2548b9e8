/* SPDX-License-Identifier: MIT */
/*
 * What libfuse has to say. It says it in pieces: they are joined to lines, which are logged with the rest.
 * Its chatter is dropped.
 */
#ifndef INBOXFS_FS_LIBRARY_LOG_H
#define INBOXFS_FS_LIBRARY_LOG_H

#include "base/strbuf.h"

/* From now on, for the whole program. */
void library_log_install(void);

/* What is said on this thread goes into `words` (borrowed) instead, until this is called with NULL. */
void library_log_collect(struct strbuf *words);

#endif
