/* SPDX-License-Identifier: MIT */
/*
 * Lanes: a digest over the sender and the sorted recipients.
 */
#include "mail/send_order.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/draft.h"

struct recipients {
    const char **addresses; /* borrowed from the request */
    size_t len;
};

static int collect(const json_t *list, struct recipients *recipients)
{
    size_t more = json_array_size(list);
    if (more == 0)
        return 0;
    const char **grown = realloc(recipients->addresses, (recipients->len + more) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    recipients->addresses = grown;
    for (size_t i = 0; i < more; i++) {
        const char *address = json_string_value(json_object_get(json_array_get(list, i), "address"));
        if (address != NULL)
            grown[recipients->len++] = address;
    }
    return 0;
}

static int compare_addresses(const void *one, const void *other)
{
    return strcasecmp(*(const char *const *)one, *(const char *const *)other);
}

static void append_lower(struct strbuf *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        strbuf_append_char(out, *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c);
    strbuf_append_char(out, '\n');
}

static int digest_sequence(const struct recipients *recipients, const char *from, char ret_sequence[65])
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT((DRAFT_RECIPIENTS_MAX + 2) * (ADDRESS_MAX_BYTES + 1));
    append_lower(&text, from);
    for (size_t i = 0; i < recipients->len; i++)
        append_lower(&text, recipients->addresses[i]);
    if (text.error != 0)
        return text.error == -ENOMEM ? -ENOMEM : -EBADMSG;
    content_digest(text.data, text.len, ret_sequence);
    return 0;
}

int send_order_sequence(const char *request, const char *from, char ret_sequence[65])
{
    static const char *const lists[] = {"to_addresses", "cc_addresses", "bcc_addresses"};
    json_t *root = json_loads(request, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return -EBADMSG;
    }
    struct recipients recipients = {NULL, 0};
    int error = 0;
    for (size_t i = 0; i < ARRAY_LEN(lists) && error == 0; i++)
        error = collect(json_object_get(root, lists[i]), &recipients);
    if (error == 0) {
        if (recipients.len > 1)
            qsort(recipients.addresses, recipients.len, sizeof(*recipients.addresses), compare_addresses);
        error = digest_sequence(&recipients, from, ret_sequence);
    }
    free(recipients.addresses);
    json_decref(root);
    return error;
}
