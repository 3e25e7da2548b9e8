/* SPDX-License-Identifier: MIT */
/*
 * Bodies made of pieces read the same whatever room there is.
 */
#include "http/http_body.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

static void assert_reads(const struct http_body *body, const char *expected)
{
    assert_int_equal(http_body_len(body), strlen(expected));
    for (size_t room = 1; room <= strlen(expected) + 1; room++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1024);
        char piece[64];
        ssize_t got;
        while ((got = http_body_read(body, text.len, piece, room)) > 0)
            strbuf_append(&text, piece, (size_t)got);
        assert_int_equal(got, 0);
        assert_string_equal(strbuf_str(&text), expected);
    }
}

static void pieces_are_read_in_order(void **state)
{
    (void)state;
    _cleanup_close_ int fd = memfd_create("file", MFD_CLOEXEC);
    assert_int_equal(write(fd, "file and more", 13), 13);
    assert_reads(&(struct http_body){.content_type = "t", .head = "head", .head_len = 4}, "head");
    assert_reads(&(struct http_body){.content_type = "t", .tail = "tail", .tail_len = 4}, "tail");
    assert_reads(&(struct http_body){.content_type = "t", .fd = fd, .file_len = 4}, "file");
    assert_reads(&(struct http_body){.content_type = "t",
                                     .head = "head,",
                                     .head_len = 5,
                                     .fd = fd,
                                     .file_len = 4,
                                     .tail = ",tail",
                                     .tail_len = 5},
                 "head,file,tail");
    assert_reads(&(struct http_body){.content_type = "t",
                                     .head = "head,",
                                     .head_len = 5,
                                     .file_bytes = "bytes",
                                     .fd = -1,
                                     .file_len = 5,
                                     .tail = ",tail",
                                     .tail_len = 5},
                 "head,bytes,tail");
}

static void a_file_that_is_too_short_is_an_error(void **state)
{
    (void)state;
    char piece[64];
    _cleanup_close_ int fd = memfd_create("file", MFD_CLOEXEC);
    struct http_body body = {.content_type = "t", .fd = fd, .file_len = 4};
    assert_int_equal(http_body_read(&body, 0, piece, sizeof(piece)), -EIO);
    body.fd = -1;
    assert_int_equal(http_body_read(&body, 0, piece, sizeof(piece)), -EBADF);
}

static void no_content_type_means_no_body(void **state)
{
    (void)state;
    assert_int_equal(http_body_len(&(struct http_body){.head = "x", .head_len = 1}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_read_in_order),
        cmocka_unit_test(a_file_that_is_too_short_is_an_error),
        cmocka_unit_test(no_content_type_means_no_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
