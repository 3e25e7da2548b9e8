/* SPDX-License-Identifier: MIT */
/*
 * Names in sent/ and failed/, where one that is taken gets "-2", "-3" … before its extension.
 */
#ifndef INBOXFS_OUTBOX_NUMBERED_NAME_H
#define INBOXFS_OUTBOX_NUMBERED_NAME_H

#include "outbox/item_table.h"

/* `name`, or numbered so that it is free in the folder and a receipt's name fits beside it. The lock is held.
 * The caller frees; NULL without memory. */
char *numbered_name_find(const struct item_table *table, enum outbox_folder folder, const char *name);

#endif
