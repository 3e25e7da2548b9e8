/* SPDX-License-Identifier: MIT */
/*
 * A webhook is accepted if it is signed with the secret and has a recent timestamp.
 */
#include "mail/webhook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "mail/date.h"
#include "support/test.h"

#define SECRET "s3cret"
#define NOW_MS INT64_C(1795168800000) /* 2026-11-20T10:00:00Z */

/* Returns the result of webhook_check() for a correctly signed body. */
static int check_signed(const char *body, char **ret_inbox_id)
{
    char signature[65];
    hash_hmac_sha256(SECRET, strlen(SECRET), body, strlen(body), signature);
    return webhook_check(SECRET, signature, body, strlen(body), NOW_MS, ret_inbox_id);
}

TEST(check_returns_the_inbox_that_a_signed_body_names)
{
    /* The signature was made by openssl dgst -sha256 -hmac s3cret. */
    static const char body[] = "{\"inbox_id\":\"in-1\",\"timestamp\":\"2026-11-20T10:00:00Z\"}";
    static const char signature[] = "02691cab1f6cd5a3ebaa3bb7f74708290a6b8792b59b427946df2e2bf63b1193";
    char *inbox_id = NULL;
    assert_int_equal(webhook_check(SECRET, signature, body, strlen(body), NOW_MS, &inbox_id), 0);
    assert_string_equal(inbox_id, "in-1");
    free(inbox_id);
}

TEST(only_a_signature_of_the_body_with_the_secret_is_accepted)
{
    static const char body[] = "{\"inbox_id\":\"in-1\",\"timestamp\":\"2026-11-20T10:00:00Z\"}";
    char signature[65];
    char wrong[80];
    char *inbox_id = NULL;
    size_t len = strlen(body);
    hash_hmac_sha256(SECRET, strlen(SECRET), body, len, signature);
    assert_int_equal(webhook_check(SECRET, NULL, body, len, NOW_MS, &inbox_id), -EACCES);
    assert_int_equal(webhook_check(SECRET, "", body, len, NOW_MS, &inbox_id), -EACCES);
    assert_int_equal(webhook_check("s3cre", signature, body, len, NOW_MS, &inbox_id), -EACCES);
    assert_int_equal(webhook_check("", signature, body, len, NOW_MS, &inbox_id), -EACCES);
    assert_int_equal(webhook_check(SECRET, signature, body, len - 1, NOW_MS, &inbox_id), -EACCES);
    assert_int_equal(webhook_check(SECRET, signature, "", 0, NOW_MS, &inbox_id), -EACCES);
    for (size_t i = 0; i < strlen(signature); i++) {
        memcpy(wrong, signature, sizeof(signature));
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_int_equal(webhook_check(SECRET, wrong, body, len, NOW_MS, &inbox_id), -EACCES);
    }
    snprintf(wrong, sizeof(wrong), "sha256=%s", signature);
    assert_int_equal(webhook_check(SECRET, wrong, body, len, NOW_MS, &inbox_id), -EACCES);
    snprintf(wrong, sizeof(wrong), "%.63s", signature);
    assert_int_equal(webhook_check(SECRET, wrong, body, len, NOW_MS, &inbox_id), -EACCES);
    for (char *at = memcpy(wrong, signature, sizeof(signature)); *at != '\0'; at++)
        if (*at >= 'a' && *at <= 'f')
            *at = (char)(*at - 'a' + 'A');
    assert_int_equal(webhook_check(SECRET, wrong, body, len, NOW_MS, &inbox_id), -EACCES);
    assert_null(inbox_id);
}

TEST(a_timestamp_more_than_five_minutes_off_is_refused)
{
    static const struct {
        int64_t away_ms;
        int outcome;
    } cases[] = {
        {0, 0},
        {300 * 1000, 0},
        {-300 * 1000, 0},
        {300 * 1000 + 1, -ESTALE},
        {-300 * 1000 - 1, -ESTALE},
        {-NOW_MS, -ESTALE},
        {INT64_C(1) << 47, -ESTALE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char date[32];
        char body[128];
        char *inbox_id = NULL;
        date_format(NOW_MS + cases[i].away_ms, date);
        snprintf(body, sizeof(body), "{\"timestamp\": \"%s\", \"inbox_id\": \"in-1\"}", date);
        assert_int_equal(check_signed(body, &inbox_id), cases[i].outcome);
        assert_true((inbox_id != NULL) == (cases[i].outcome == 0));
        free(inbox_id);
    }
}

TEST(a_body_without_json_or_timestamp_is_refused)
{
    static const char *const bodies[] = {
        "",
        "{}",
        "null",
        "[\"2026-11-20T10:00:00Z\"]",
        "timestamp=2026-11-20T10:00:00Z",
        "{\"timestamp\":\"2026-11-20T10:00:00Z\"",
        "{\"timestamp\":\"2026-11-20T10:00:00Z\"} {}",
        "{\"timestamp\" \"2026-11-20T10:00:00Z\"}",
        "{\"timestamp\":\"2026-11-20T10:00:00Z\",}",
        "{\"timestamp\":\"yesterday\"}",
        "{\"timestamp\":1795168800}",
        "{\"timestamp\":null}",
        "{\"timestamp\":\"2026-11-20T10:00:00Z\\u0000\"}",
        "{\"email\":{\"timestamp\":\"2026-11-20T10:00:00Z\"}}",
        "{\"subject\":\"\xff\",\"timestamp\":\"2026-11-20T10:00:00Z\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        char *inbox_id = NULL;
        if (check_signed(bodies[i], &inbox_id) != -EBADMSG)
            fail_msg("%s", bodies[i]);
        assert_null(inbox_id);
    }
}

/* The sender of the email controls other fields, such as the subject and the texts. */
TEST(other_fields_of_the_body_are_ignored)
{
    static const char body[] =
        "{\"inbox_id\":\"in-1\",\"subject\":\"\\ud800 \\u0000 "
        "\\\",\\\"inbox_id\\\":\\\"in-2\\\"\",\"n\":1e99,"
        "\"previous_emails\":[{\"inbox_id\":\"in-3\",\"timestamp\":\"\"}],\"html\":null,"
        "\"timestamp\":\"2026-11-20T11:00:00.123+01:00\"}";
    char *inbox_id = NULL;
    assert_int_equal(check_signed(body, &inbox_id), 0);
    assert_string_equal(inbox_id, "in-1");
    free(inbox_id);
}

TEST(a_body_without_an_inbox_id_is_accepted)
{
    static const char *const bodies[] = {
        "{\"timestamp\":\"2026-11-20T10:00:00Z\"}",
        "{\"inbox_id\":null,\"timestamp\":\"2026-11-20T10:00:00Z\"}",
        "{\"inbox_id\":7,\"timestamp\":\"2026-11-20T10:00:00Z\"}",
        "{\"inbox_id\":\"in\\u0000\",\"timestamp\":\"2026-11-20T10:00:00Z\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        char *inbox_id = NULL;
        assert_int_equal(check_signed(bodies[i], &inbox_id), 0);
        assert_null(inbox_id);
    }
}

TEST(the_memory_accepts_each_signature_once)
{
    struct webhook_memory *memory = calloc(1, sizeof(*memory));
    char signature[65];
    assert_non_null(memory);
    for (size_t round = 0; round < 2; round++)
        for (size_t i = 0; i < WEBHOOK_MEMORY_MAX; i++) {
            snprintf(signature, sizeof(signature), "%016zx%048d", i + 1, 0);
            assert_int_equal(webhook_memory_add(memory, signature), round == 0);
        }
    /* One more signature replaces the oldest signature. */
    assert_true(webhook_memory_add(memory, "ffffffffffffffff"));
    assert_true(webhook_memory_add(memory, "0000000000000001"));
    assert_false(webhook_memory_add(memory, "0000000000000003"));
    free(memory);
}
