/* SPDX-License-Identifier: MIT */
/*
 * A file is found in a form, and malformed forms are refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "service/request.h"

#define FILE_PART "Content-Disposition: form-data; name=\"file\"; filename="

static const struct {
    const char *what;
    const char *body;
    int result;
    const char *name;
    const char *type;
    const char *content;
} cases[] = {
    {"a plain form", "--B\r\n" FILE_PART "\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--B--\r\n", 0,
     "a.txt", "text/plain", "abc"},
    {"no type", "--B\r\n" FILE_PART "\"a\"\r\n\r\nabc\r\n--B--", 0, "a", "application/octet-stream", "abc"},
    {"an empty file", "--B\r\n" FILE_PART "\"a\"\r\n\r\n\r\n--B--\r\n", 0, "a", "application/octet-stream",
     ""},
    {"line ends in the content", "--B\r\n" FILE_PART "\"a\"\r\n\r\n\r\nx\r\n\r\n--B--\r\n", 0, "a",
     "application/octet-stream", "\r\nx\r\n"},
    {"lines that begin like the boundary", "--B\r\n" FILE_PART "\"a\"\r\n\r\nx\r\n--Bc\r\n-B\r\n--B--\r\n", 0,
     "a", "application/octet-stream", "x\r\n--Bc\r\n-B"},
    {"blanks after the boundary", "--B\t \r\n" FILE_PART "\"a\"\r\n\r\nx\r\n--B-- \t\r\n", 0, "a",
     "application/octet-stream", "x"},
    {"a preamble and another field",
     "hello\r\n--B\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\ny\r\n--B\r\n" FILE_PART
     "\"a\"\r\n\r\nabc\r\n--B--\r\n",
     0, "a", "application/octet-stream", "abc"},
    {"backslashed quotes", "--B\r\n" FILE_PART "\"a \\\"b\\\".txt\"\r\n\r\nx\r\n--B--", 0, "a \"b\".txt",
     "application/octet-stream", "x"},
    {"percent-encoded quotes", "--B\r\n" FILE_PART "\"a %22b%22 100%.txt\"\r\n\r\nx\r\n--B--", 0,
     "a \"b\" 100%.txt", "application/octet-stream", "x"},
    {"a backslash", "--B\r\n" FILE_PART "\"a\\b.txt\"\r\n\r\nx\r\n--B--", 0, "a\\b.txt",
     "application/octet-stream", "x"},
    {"raw UTF-8", "--B\r\n" FILE_PART "\"Grüße.txt\"\r\n\r\nx\r\n--B--", 0, "Grüße.txt",
     "application/octet-stream", "x"},
    {"a message",
     "--B\r\n" FILE_PART "\"m\"\r\nContent-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\ny\r\n--B--", 0, "m",
     "message/rfc822", "Subject: x\r\n\r\ny"},
    {"a path as name", "--B\r\n" FILE_PART "\"../../etc/passwd\"\r\n\r\nx\r\n--B--", 0, "passwd",
     "application/octet-stream", "x"},
    {"a bad type", "--B\r\n" FILE_PART "\"a\"\r\nContent-Type: nonsense\r\n\r\nx\r\n--B--", 0, "a",
     "application/octet-stream", "x"},
    {"an empty name", "--B\r\n" FILE_PART "\"\"\r\n\r\nx\r\n--B--", -EINVAL, NULL, NULL, NULL},
    {"a name of dots", "--B\r\n" FILE_PART "\"..\"\r\n\r\nx\r\n--B--", -EINVAL, NULL, NULL, NULL},
    {"a control character in the name", "--B\r\n" FILE_PART "\"a\x01\"\r\n\r\nx\r\n--B--", -EINVAL, NULL,
     NULL, NULL},
    {"no file name", "--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--B--\r\n", -ENOENT,
     NULL, NULL, NULL},
    {"another field's name",
     "--B\r\nContent-Disposition: form-data; name=\"other\"; filename=\"a\"\r\n\r\nx\r\n--B--", -ENOENT, NULL,
     NULL, NULL},
    {"an empty form", "--B--\r\n", -ENOENT, NULL, NULL, NULL},
    {"cut short in the content", "--B\r\n" FILE_PART "\"a\"\r\n\r\nabc", -EBADMSG, NULL, NULL, NULL},
    {"cut short in the headers", "--B\r\n" FILE_PART "\"a\"\r\n", -EBADMSG, NULL, NULL, NULL},
    {"a text without a boundary", "hello", -EBADMSG, NULL, NULL, NULL},
    {"an empty body", "", -EBADMSG, NULL, NULL, NULL},
    {"only the boundary", "--B", -EBADMSG, NULL, NULL, NULL},
};

TEST(the_file_of_a_field_is_found_in_a_form)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        /* The body is on the heap without a NUL, so that the sanitizer finds a read past the end. */
        size_t len = strlen(cases[i].body);
        char *body = malloc(len + 1);
        memcpy(body, cases[i].body, len);
        body = realloc(body, len > 0 ? len : 1);
        struct multipart_file file = {0};
        int result = multipart_find_file("multipart/form-data; boundary=\"B\"", body, len, "file", &file);
        if (result != cases[i].result)
            fail_msg("%s: %d instead of %d", cases[i].what, result, cases[i].result);
        if (result == 0) {
            assert_string_equal(cases[i].name, file.name);
            assert_string_equal(cases[i].type, file.content_type);
            assert_int_equal(strlen(cases[i].content), file.len);
            assert_memory_equal(cases[i].content, file.bytes, file.len);
        }
        free(file.name);
        free(body);
    }
}

TEST(a_truncated_form_is_refused)
{
    const char *whole = cases[5].body;
    for (size_t len = 0; len < strlen(whole) - strlen("--\r\n"); len++) {
        char *body = malloc(len + 1);
        memcpy(body, whole, len);
        struct multipart_file file = {0};
        int result = multipart_find_file("multipart/form-data; boundary=B", body, len, "file", &file);
        assert_true(result == -EBADMSG || result == -ENOENT);
        free(body);
    }
}

TEST(a_form_without_a_boundary_is_refused)
{
    static const char *const types[] = {"multipart/form-data", "multipart/form-data; boundary=", "",
                                        "multipart/form-data; boundary=\"\""};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        struct multipart_file file = {0};
        assert_int_equal(-EBADMSG,
                         multipart_find_file(types[i], cases[0].body, strlen(cases[0].body), "file", &file));
    }
}

TEST(a_boundary_longer_than_the_body_is_refused)
{
    enum {
        BOUNDARY_BYTES = 16 * 1024 * 1024
    };
    _cleanup_free_ char *type = malloc(BOUNDARY_BYTES + 100);
    _cleanup_free_ char *body = malloc(2 * BOUNDARY_BYTES);
    assert_non_null(type);
    assert_non_null(body);
    int len = sprintf(type, "multipart/form-data; boundary=");
    memset(type + len, 'B', BOUNDARY_BYTES);
    type[len + BOUNDARY_BYTES] = '\0';
    memset(body, 'B', 2 * BOUNDARY_BYTES);
    struct multipart_file file = {0};
    assert_int_equal(-EBADMSG, multipart_find_file(type, body, 2 * BOUNDARY_BYTES, "file", &file));
}
