/* SPDX-License-Identifier: MIT */
/*
 * Names in sent/ and failed/, where one that is taken gets "-2", "-3" … before its extension, and one that is
 * too long is shortened there.
 */
#ifndef INBOXFS_OUTBOX_NUMBERED_NAME_H
#define INBOXFS_OUTBOX_NUMBERED_NAME_H

#include "outbox/item_table.h"

/* `name`, shortened so that a receipt's name fits beside it, and numbered so that it is free in the folder.
 * The lock is held. The caller frees; NULL without memory. */
char *numbered_name_find(const struct item_table *table, enum outbox_folder folder, const char *name);

#endif
