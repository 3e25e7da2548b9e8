/* SPDX-License-Identifier: MIT */
/*
 * index.jsonl of one inbox as it was at one moment: where each line begins, and which record it is made of.
 * As long as it lives no record is discarded, so lines are written only where somebody reads.
 */
#ifndef INBOXFS_STORE_INDEX_JSONL_H
#define INBOXFS_STORE_INDEX_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "store/index.h"

/* Contracts: those of the same names in store.h. */
int inbox_index_new(struct index *index, uint32_t inbox, struct store_index **ret_index);
void inbox_index_free(struct store_index *index);
int inbox_index_read(const struct store_index *index, uint64_t offset, char *ret_bytes, size_t len,
                     size_t *ret_len);

#endif
