/* SPDX-License-Identifier: MIT */
/*
 * The rules in the order in which they are asked: block list, allow list, Cc and Bcc. SPF, DKIM and DMARC are
 * never asked: mail that did not cross a network has no such verdict, and none is made up.
 */
#include "service/inbox_rules.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool lists(const json_t *entries, const char *text)
{
    size_t i;
    const json_t *entry;
    json_array_foreach (entries, i, entry) {
        if (strcasecmp(json_string_value(entry), text) == 0)
            return true;
    }
    return false;
}

/* `rule`: {"addresses": [], "domains": []}, or JSON's null. */
static bool matches(const json_t *rule, const char *address)
{
    const char *at = strrchr(address, '@');
    return lists(json_object_get(rule, "addresses"), address) ||
           (at != NULL && lists(json_object_get(rule, "domains"), at + 1));
}

static bool is_empty(const json_t *rule)
{
    return json_array_size(json_object_get(rule, "addresses")) == 0 &&
           json_array_size(json_object_get(rule, "domains")) == 0;
}

struct verdict inbox_rules_judge(const json_t *inbox_record, const char *from_address, enum delivery_way way)
{
    const json_t *allowed = json_object_get(inbox_record, "allowed_from_addresses");
    const json_t *blocked = json_object_get(inbox_record, "blocked_from_addresses");
    if (matches(blocked, from_address))
        return (struct verdict){"blocked_from_address", "The sender is on the inbox's block list."};
    if (!is_empty(allowed) && !matches(allowed, from_address))
        return (struct verdict){"not_allowed_from_address", "The sender is not on the inbox's allow list."};
    if (way == DELIVERY_CC && !json_is_true(json_object_get(inbox_record, "allow_cc")))
        return (struct verdict){"not_allowed_cc_address", "The inbox may not be reached by Cc."};
    if (way == DELIVERY_BCC && !json_is_true(json_object_get(inbox_record, "allow_bcc")))
        return (struct verdict){"not_allowed_bcc_address", "The inbox may not be reached by Bcc."};
    return (struct verdict){"valid", NULL};
}
