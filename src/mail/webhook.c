/* SPDX-License-Identifier: MIT */
/*
 * The signature, then the two members of the body that count: inbox_id and timestamp.
 */
#include "mail/webhook.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "mail/date.h"
#include "mail/json_reader.h"

enum {
    SIGNATURE_LEN = 64
};

/* Takes as long for a signature that is nearly right as for any other. */
static bool is_signature(const char *text, const char digest[SIGNATURE_LEN + 1])
{
    unsigned int difference = 0;
    if (strlen(text) != SIGNATURE_LEN)
        return false;
    for (size_t i = 0; i < SIGNATURE_LEN; i++)
        difference |= (unsigned int)(text[i] ^ digest[i]);
    return difference == 0;
}

/* What counts of a body; each NULL where it has none. */
struct webhook_body {
    char *inbox_id;
    char *timestamp;
};

static void webhook_body_release(struct webhook_body *body)
{
    free(body->inbox_id);
    free(body->timestamp);
}

static bool is_called(const struct json_scalar *key, const char *name)
{
    return key->len == strlen(name) && memcmp(key->text, name, key->len) == 0;
}

/* A string without NULs; what has another type counts as missing. Of several the last counts. */
static int keep_text(const struct json_scalar *value, char **text)
{
    if (value->kind != JSON_SCALAR_STRING || memchr(value->text, '\0', value->len) != NULL)
        return 0;
    free(*text);
    *text = strndup(value->text, value->len);
    return *text != NULL ? 0 : -ENOMEM;
}

static int read_member(struct json_reader *reader, struct webhook_body *body)
{
    struct json_scalar scalar;
    int error = json_reader_take_key(reader, NULL, &scalar);
    if (error != 0)
        return error;
    char **text = is_called(&scalar, "inbox_id")    ? &body->inbox_id
                  : is_called(&scalar, "timestamp") ? &body->timestamp
                                                    : NULL;
    error = json_reader_take_value(reader, NULL, &scalar);
    return error != 0 || text == NULL ? error : keep_text(&scalar, text);
}

static int read_object(struct json_reader *reader, struct webhook_body *body)
{
    int error = 0;
    if (!json_reader_take(reader, '{'))
        return -EBADMSG;
    if (json_reader_take(reader, '}'))
        return 0;
    do {
        error = read_member(reader, body);
        if (error != 0)
            return error;
    } while (json_reader_take(reader, ','));
    return json_reader_take(reader, '}') && json_reader_is_at_end(reader) ? 0 : -EBADMSG;
}

static int check_timestamp(const char *timestamp, int64_t now_ms)
{
    int64_t made_ms;
    if (timestamp == NULL || date_parse(timestamp, &made_ms) != 0)
        return -EBADMSG;
    return llabs(now_ms - made_ms) <= WEBHOOK_CLOCK_MAX_MS ? 0 : -ESTALE;
}

int webhook_check(const char *secret, const char *signature, const void *body, size_t len, int64_t now_ms,
                  char **ret_inbox_id)
{
    char digest[SIGNATURE_LEN + 1];
    hash_hmac_sha256(secret, strlen(secret), body, len, digest);
    if (signature == NULL || !is_signature(signature, digest))
        return -EACCES;
    _cleanup_(webhook_body_release) struct webhook_body read = {0};
    struct json_reader reader;
    json_reader_init(&reader, body, len);
    int error = read_object(&reader, &read);
    json_reader_release(&reader);
    if (error == 0)
        error = check_timestamp(read.timestamp, now_ms);
    else if (error != -ENOMEM)
        error = -EBADMSG;
    if (error == 0)
        *ret_inbox_id = TAKE_PTR(read.inbox_id);
    return error;
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
