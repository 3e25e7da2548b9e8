/* SPDX-License-Identifier: MIT */
/*
 * Paths and queries: nothing a stranger chose leaves its segment or its value.
 */
#include "http/http_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void segments_are_encoded(void **state)
{
    static const struct {
        const char *id;
        const char *expected;
    } cases[] = {
        {"3c90c3cc-0d44", "/api/3c90c3cc-0d44"},
        {"a/b", "/api/a%2Fb"},
        {"a b?c#d", "/api/a%20b%3Fc%23d"},
        {"ü", "/api/%C3%BC"},
        {"a%2Fb", "/api/a%252Fb"},
        {"x\r\nHost: y", "/api/x%0D%0AHost%3A%20y"},
        {"..", "/api/%252E%252E"},
        {".", "/api/%252E"},
        {"...", "/api/..."},
        {"", "/api/"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
        strbuf_append_str(&path, "/api");
        assert_int_equal(http_path_add_segment(&path, cases[i].id), 0);
        assert_string_equal(strbuf_str(&path), cases[i].expected);
    }
}

static void queries_are_joined(void **state)
{
    (void)state;
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    strbuf_append_str(&path, "/email");
    assert_int_equal(http_path_add_query(&path, "inbox_ids", "a&b=c"), 0);
    assert_int_equal(http_path_add_query(&path, "limit", "100"), 0);
    assert_string_equal(strbuf_str(&path), "/email?inbox_ids=a%26b%3Dc&limit=100");
}

static void a_path_has_a_ceiling(void **state)
{
    (void)state;
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(16);
    assert_true(http_path_add_segment(&path, "an-id-that-is-far-too-long") < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_encoded),
        cmocka_unit_test(queries_are_joined),
        cmocka_unit_test(a_path_has_a_ceiling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
