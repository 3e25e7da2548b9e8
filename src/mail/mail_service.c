/* SPDX-License-Identifier: MIT */
/*
 * What all implementations of the service's interface share.
 */
#include "mail/mail_service.h"

#include <stdlib.h>

void service_result_release(struct service_result *result)
{
    free(result->detail);
    *result = (struct service_result){.retry_after_ms = -1};
}
