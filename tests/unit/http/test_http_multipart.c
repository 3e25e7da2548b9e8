/* SPDX-License-Identifier: MIT */
/*
 * Multipart framing: a file's name and type cannot break out of their places.
 */
#include "http/http_multipart.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void names_are_quoted(void **state)
{
    static const struct {
        const char *name;
        const char *expected;
    } cases[] = {
        {"report.pdf", "filename=\"report.pdf\"\r\n"},
        {"Übersicht 한글.pdf", "filename=\"Übersicht 한글.pdf\"\r\n"},
        {"a\"; name=\"other", "filename=\"a%22; name=%22other\"\r\n"},
        {"a\r\nX-Evil: 1", "filename=\"a%0D%0AX-Evil: 1\"\r\n"},
        {"back\\slash", "filename=\"back\\slash\"\r\n"},
        {"tab\there", "filename=\"tab_here\"\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_multipart multipart;
        assert_int_equal(http_multipart_init(&multipart, "file", cases[i].name, "text/plain"), 0);
        assert_non_null(strstr(multipart.head, cases[i].expected));
        assert_non_null(strstr(multipart.head, "form-data; name=\"file\"; "));
        assert_null(strstr(multipart.head, "filename*"));
        assert_null(strstr(multipart.head, "\nX-Evil"));
    }
}

static void only_plain_types_pass(void **state)
{
    static const struct {
        const char *type;
        const char *expected;
    } cases[] = {
        {"application/pdf", "Content-Type: application/pdf\r\n\r\n"},
        {"image/svg+xml", "Content-Type: image/svg+xml\r\n\r\n"},
        {"text/plain\r\nX-Evil: 1", "Content-Type: application/octet-stream\r\n\r\n"},
        {"text", "Content-Type: application/octet-stream\r\n\r\n"},
        {"/x", "Content-Type: application/octet-stream\r\n\r\n"},
        {"x/", "Content-Type: application/octet-stream\r\n\r\n"},
        {"", "Content-Type: application/octet-stream\r\n\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_multipart multipart;
        assert_int_equal(http_multipart_init(&multipart, "file", "a", cases[i].type), 0);
        assert_non_null(strstr(multipart.head, cases[i].expected));
    }
}

static void the_boundary_is_the_same_all_through_and_new_each_time(void **state)
{
    (void)state;
    struct http_multipart one, other;
    assert_int_equal(http_multipart_init(&one, "file", "a", "text/plain"), 0);
    assert_int_equal(http_multipart_init(&other, "file", "a", "text/plain"), 0);
    const char *boundary = strstr(one.content_type, "boundary=") + strlen("boundary=");
    assert_memory_equal(one.head + 2, boundary, strlen(boundary));
    assert_memory_equal(one.tail + 4, boundary, strlen(boundary));
    assert_string_not_equal(one.tail, other.tail);
}

static void the_longest_file_name_fits_and_more_is_refused(void **state)
{
    char name[3000];
    (void)state;
    struct http_multipart multipart;
    memset(name, '"', sizeof(name));
    name[255] = '\0';
    assert_int_equal(http_multipart_init(&multipart, "file", name, "text/plain"), 0);
    name[255] = '"';
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(http_multipart_init(&multipart, "file", name, "text/plain"), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_quoted),
        cmocka_unit_test(only_plain_types_pass),
        cmocka_unit_test(the_boundary_is_the_same_all_through_and_new_each_time),
        cmocka_unit_test(the_longest_file_name_fits_and_more_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
