/* SPDX-License-Identifier: MIT */
/*
 * Checks the signature, then reads `timestamp` and `inbox_id` of the body.
 */
#include "mail/webhook.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "mail/date.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

enum {
    SIGNATURE_LEN = 64
};

/* Compares in constant time, so that the time taken does not show how much of a forged signature is right. */
static bool signature_equals(const char *text, const char digest[SIGNATURE_LEN + 1])
{
    unsigned int difference = 0;
    if (strlen(text) != SIGNATURE_LEN)
        return false;
    for (size_t i = 0; i < SIGNATURE_LEN; i++)
        difference |= (unsigned int)(text[i] ^ digest[i]);
    return difference == 0;
}

int webhook_check(const char *secret, const char *signature, const void *body, size_t len, int64_t now_ms,
                  char **ret_inbox_id)
{
    char digest[SIGNATURE_LEN + 1];
    hash_hmac_sha256(secret, strlen(secret), body, len, digest);
    if (signature == NULL || !signature_equals(signature, digest))
        return -EACCES;
    _cleanup_json_ json_t *object = NULL;
    if (json_value_read(body, len, 0, &object) != 0)
        return -EBADMSG;
    const char *timestamp = json_value_text(json_object_get(object, "timestamp"));
    int64_t made_ms;
    if (timestamp == NULL || date_parse(timestamp, &made_ms) != 0)
        return -EBADMSG;
    if (llabs(now_ms - made_ms) > WEBHOOK_CLOCK_MAX_MS)
        return -ESTALE;
    *ret_inbox_id = g_strdup(json_value_text(json_object_get(object, "inbox_id")));
    return 0;
}

bool webhook_memory_add(struct webhook_memory *memory, const char *signature)
{
    char digits[17] = "";
    memcpy(digits, signature, sizeof(digits) - 1);
    uint64_t number = strtoull(digits, NULL, 16);
    for (size_t i = 0; i < WEBHOOK_MEMORY_MAX; i++)
        if (memory->signatures[i] == number)
            return false;
    memory->signatures[memory->next] = number;
    memory->next = (memory->next + 1) % WEBHOOK_MEMORY_MAX;
    return true;
}
