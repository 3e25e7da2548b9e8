/* SPDX-License-Identifier: MIT */
/*
 * Whether a server lacks one of the lists that it may lack (interface section 3, "Absence"). What speaks
 * against the list speaks against a key that the server does not know, too: so the key is looked at first.
 */
#ifndef INBOXFS_API_LIST_ABSENCE_H
#define INBOXFS_API_LIST_ABSENCE_H

#include "api/list_call.h"

/* True: the list is absent, and is not to be asked for this time; `ret` says so. */
bool list_absence_skips(struct api_service *api, enum optional_endpoint endpoint, struct service_result *ret);

/* After a call of the list: remembers what its outcome tells, and makes of it SERVICE_ABSENT, or the outcome
 * of looking at the key, where that is what it means. */
void list_absence_judge(struct api_service *api, enum optional_endpoint endpoint,
                        const struct list_answer *answer, struct cancel *cancel, struct service_result *ret);

#endif
