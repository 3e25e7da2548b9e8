/* SPDX-License-Identifier: MIT */
/*
 * Told apart by their lengths first.
 */
#include "mail/email_field.h"

#include <string.h>

enum email_field email_field_kind(const char *key, size_t len)
{
    switch (len) {
    case 2:
        return memcmp(key, "id", 2) == 0 ? FIELD_ID : FIELD_OTHER;
    case 4:
        return memcmp(key, "date", 4) == 0 ? FIELD_DATE : FIELD_OTHER;
    case 6:
        return memcmp(key, "status", 6) == 0 ? FIELD_STATUS : FIELD_OTHER;
    case 7:
        return memcmp(key, "subject", 7) == 0 ? FIELD_SUBJECT : FIELD_OTHER;
    case 8:
        return memcmp(key, "inbox_id", 8) == 0 ? FIELD_INBOX_ID : FIELD_OTHER;
    case 12:
        if (memcmp(key, "from_address", 12) == 0)
            return FIELD_FROM_ADDRESS;
        return memcmp(key, "to_addresses", 12) == 0 ? FIELD_TO_ADDRESSES : FIELD_OTHER;
    case 16:
        return memcmp(key, "user_mark_status", 16) == 0 ? FIELD_MARK : FIELD_OTHER;
    default:
        return FIELD_OTHER;
    }
}
