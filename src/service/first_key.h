/* SPDX-License-Identifier: MIT */
/*
 * The key that the first start makes up and leaves in DIR/api-key, so that a local client can find it.
 */
#ifndef INBOXFS_SERVICE_FIRST_KEY_H
#define INBOXFS_SERVICE_FIRST_KEY_H

#include "service/database.h"

/* Where there never was a key: makes one, or finishes what an interrupted start began. 0 or -errno. */
int first_key_establish(struct database *database, int dir_fd);

#endif
