/* SPDX-License-Identifier: MIT */
/*
 * Reasons from the bodies of refusals, and the outcome of answers by proxies.
 */
#include "api/outcome.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

/* Returns the text as it is shown; the caller frees it. */
static char *shown(const char *text)
{
    struct service_result result = {.retry_after_ms = -1};
    outcome_set(&result, SERVICE_REJECTED, EINVAL, text);
    return result.detail;
}

TEST(the_reason_is_found_in_the_body)
{
    static const struct {
        const char *body;
        bool is_html;
        const char *reason;
    } cases[] = {
        {"{\"detail\": \"no such inbox\"}", false, "no such inbox"},
        {"{\"detail\": [{\"loc\": [\"body\", \"to_addresses\", 0], \"msg\": \"bad\", \"type\": \"t\"}]}",
         false, "to_addresses.0: bad"},
        {"{\"detail\": [{\"loc\": [\"body\"], \"msg\": \"one\"}, {\"msg\": \"two\"}]}", false, "one; two"},
        {"{\"error\": \"e\", \"message\": \"m\"}", false, "e"},
        {"{\"error\": \"e\", \"detail\": \"d\"}", false, "d"},
        {"{\"message\": \"m\"}", false, "m"},
        {"{\"msg\": \"m\"}", false, "m"},
        {"{\"error_description\": \"e\"}", false, "e"},
        {"{\"error\": {\"message\": \"deeper\"}}", false, "deeper"},
        {"\"a string\"", false, "a string"},
        {"  plain text \n", false, "plain text"},
        {"{\"other\": 1}", false, "{\"other\": 1}"},
        {"{\"detail\": \"cut", false, "{\"detail\": \"cut"},
        {"<html><script>x</script>", false,
         "an HTML page instead of an answer, perhaps of a proxy on the way"},
        {"maintenance", true, "an HTML page instead of an answer, perhaps of a proxy on the way"},
        {"{\"detail\": \"json all the same\"}", true, "json all the same"},
        {"", false, ""},
        {"{\"detail\": \"key the-key is unknown\"}", false, "key ******* is unknown"},
    };
    const struct http_config config = {.base_url = "http://localhost", .api_key = "the-key"};
    struct http_client *client;
    assert_int_equal(http_client_new(&config, &client), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct http_response response = {.status = 400, .is_html = cases[i].is_html};
        _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(4096);
        _cleanup_strbuf_ struct strbuf expected = STRBUF_INIT(4096);
        strbuf_append_str(&body, cases[i].body);
        strbuf_appendf(&expected, "HTTP 400%s%s", *cases[i].reason != '\0' ? ": " : "", cases[i].reason);
        struct service_result result;
        outcome_decide(client, &response, &body, false, &result);
        assert_string_equal(result.detail, expected.data);
        service_result_release(&result);
    }
    http_client_free(client);
}

TEST(an_answer_of_a_proxy_is_recognised_as_foreign)
{
    static const struct {
        int status;
        const char *body;
        bool is_foreign;
        enum service_outcome outcome; /* if the request was a POST */
    } cases[] = {
        {0, "", true, SERVICE_UNKNOWN}, /* the head of the answer was cut off */
        {401, "", false, SERVICE_UNAUTHORIZED},
        {401, "<html>", false, SERVICE_UNAUTHORIZED},
        {403, "{\"detail\": \"no\"}", false, SERVICE_UNAUTHORIZED},
        {403, "<html>blocked by policy</html>", true, SERVICE_RETRY},
        {403, "blocked by policy", true, SERVICE_RETRY},
        {403, "", true, SERVICE_RETRY},
        {407, "{\"detail\": \"no\"}", true, SERVICE_RETRY},
        {302, "", true, SERVICE_REJECTED},
        {404, "{\"detail\": \"no\"}", false, SERVICE_REJECTED},
        {404, "page not found", false, SERVICE_REJECTED},
        {404, "<html>not here</html>", true, SERVICE_REJECTED},
        {400, "<html>bad</html>", true, SERVICE_REJECTED},
        {500, "{\"detail\": \"boom\"}", false, SERVICE_UNKNOWN},
        {502, "<html>bad gateway</html>", true, SERVICE_UNKNOWN},
        {502, "", true, SERVICE_UNKNOWN},
        {502, "{}", true, SERVICE_UNKNOWN},
        {503, "{\"detail\": \"busy\"}", false, SERVICE_RETRY},
        {503, "no server is available", true, SERVICE_RETRY},
        {504, "<html>gateway time-out</html>", true, SERVICE_UNKNOWN},
    };
    const struct http_config config = {.base_url = "http://localhost"};
    struct http_client *client;
    assert_int_equal(http_client_new(&config, &client), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct http_response response = {.status = cases[i].status, .retry_after_ms = -1};
        _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(4096);
        strbuf_append_str(&body, cases[i].body);
        struct service_result result;
        outcome_decide(client, &response, &body, false, &result);
        if (result.is_foreign != cases[i].is_foreign || result.outcome != cases[i].outcome)
            fail_msg("case %zu: foreign %d, outcome %d", i, result.is_foreign, result.outcome);
        service_result_release(&result);
    }
    http_client_free(client);
}

/* libcurl reports no error in this case. */
TEST(an_answer_whose_head_was_cut_off_has_a_reason)
{
    const struct http_response response = {.is_written = true};
    const struct strbuf body = STRBUF_INIT(16);
    struct service_result result;
    outcome_decide(NULL, &response, &body, false, &result);
    assert_int_equal(result.outcome, SERVICE_UNKNOWN);
    assert_string_equal(result.detail, "the head of the answer was cut off");
    service_result_release(&result);
}

TEST(a_field_that_a_refusal_names_is_found)
{
    static const struct {
        const char *body;
        bool names_from;
    } cases[] = {
        {"{\"detail\": [{\"loc\": [\"body\", \"from_address\"], \"msg\": \"x\"}]}", true},
        {"{\"detail\": \"from_address must be an object\"}", true},
        {"{\"from_address\": [\"wrong\"]}", true},
        {"bad 'from_address'", true},
        {"{\"detail\": \"my_from_address and from_addresses\"}", false},
        {"{\"detail\": [{\"loc\": [\"body\", \"subject\"], \"msg\": \"x\", \"input\": {\"from_address\": "
         "1}}]}",
         false},
        {"{\"detail\": [{\"loc\": [\"body\", \"unheard_of\"], \"msg\": \"x\"}]}", false},
        {"{\"detail\": [{\"loc\": [\"body\"], \"msg\": \"x\", \"input\": {\"from_address\": 1}}]}", false},
        {"{\"detail\": \"Bad request\"}", false},
        {"Bad request", false},
        {"<html>from_address</html>", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(4096);
        strbuf_append_str(&body, cases[i].body);
        if (outcome_mentions(&body, "from_address") != cases[i].names_from)
            fail_msg("%s", cases[i].body);
    }
}

TEST(reasons_are_cleaned)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"a\x1b[31mb", "a [31mb"},
        {"a\r\n\tb", "a b"},
        {"a\xc2\x9b"
         "b",
         "a b"},
        {"\xff\xfe", "\ufffd\ufffd"},
        {"\xe2\x82", "\ufffd\ufffd"},
        {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
        {"\xc0\xaf", "\ufffd\ufffd"},
        {"a\xe2\x80\xaetxt", "a txt"},
        {"a\u061cb\u200e \u2028c", "a b c"},
        {"Grüße, 한글 🙂", "Grüße, 한글 🙂"},
        {"   ", ""},
        {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
        {"a\x7f", "a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *reason = shown(cases[i].text);
        assert_string_equal(reason, cases[i].reason);
    }
}

TEST(a_long_reason_is_cut_between_characters)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 20);
    for (int i = 0; i < 100000; i++)
        strbuf_append_str(&text, "ü€");
    _cleanup_free_ char *reason = shown(text.data);
    size_t len = strlen(reason);
    assert_in_range(len, OUTCOME_REASON_MAX_BYTES - 8, OUTCOME_REASON_MAX_BYTES);
    assert_int_equal(len % 5 == 0 || len % 5 == 2, 1);
}
