/* SPDX-License-Identifier: MIT */
/*
 * The first look at the service in a mount: is it there, does it take the key, and is what the cache holds
 * of the account that the key belongs to.
 */
#ifndef INBOXFS_STORE_FIRST_CONTACT_H
#define INBOXFS_STORE_FIRST_CONTACT_H

#include <stdbool.h>

#include "base/cancel.h"
#include "mail/mail_service.h"
#include "store/contact.h"
#include "store/mirror.h"

/* Contract: store_first_contact(). The inboxes that are listed are in the mirror afterwards. */
int first_contact(struct mirror *mirror, struct mail_service *service, struct contact *contact,
                  bool adopt_state, struct cancel *cancel, char **ret_reason);

#endif
