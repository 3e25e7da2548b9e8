/* SPDX-License-Identifier: MIT */
/*
 * A body of several pieces is the same for any buffer size. Text from strangers cannot leave its segment, its
 * value, or its quotes in a multipart head.
 */
#include "http/http_request.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "support/test.h"

/* ---------------------------------------------------------------- body */

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

TEST(the_pieces_of_a_body_are_read_in_order)
{
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

TEST(reading_a_file_that_is_too_short_fails)
{
    char piece[64];
    _cleanup_close_ int fd = memfd_create("file", MFD_CLOEXEC);
    struct http_body body = {.content_type = "t", .fd = fd, .file_len = 4};
    assert_int_equal(http_body_read(&body, 0, piece, sizeof(piece)), -EIO);
    body.fd = -1;
    assert_int_equal(http_body_read(&body, 0, piece, sizeof(piece)), -EBADF);
}

TEST(a_body_without_a_content_type_is_empty)
{
    assert_int_equal(http_body_len(&(struct http_body){.head = "x", .head_len = 1}), 0);
}

/* ---------------------------------------------------------------- path and query */

TEST(path_segments_are_encoded)
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
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
        strbuf_append_str(&path, "/api");
        assert_int_equal(http_path_add_segment(&path, cases[i].id), 0);
        assert_string_equal(strbuf_str(&path), cases[i].expected);
    }
}

TEST(query_parameters_are_encoded_and_joined)
{
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    strbuf_append_str(&path, "/email");
    assert_int_equal(http_path_add_query(&path, "inbox_ids", "a&b=c"), 0);
    assert_int_equal(http_path_add_query(&path, "limit", "100"), 0);
    assert_string_equal(strbuf_str(&path), "/email?inbox_ids=a%26b%3Dc&limit=100");
}

TEST(a_path_longer_than_its_maximum_is_refused)
{
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(16);
    assert_true(http_path_add_segment(&path, "an-id-that-is-far-too-long") < 0);
}

/* ---------------------------------------------------------------- multipart */

TEST(file_names_are_quoted)
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
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_multipart multipart;
        assert_int_equal(http_multipart_init(&multipart, cases[i].name, "text/plain"), 0);
        assert_non_null(strstr(multipart.head, cases[i].expected));
        assert_non_null(strstr(multipart.head, "form-data; name=\"file\"; "));
        assert_null(strstr(multipart.head, "filename*"));
        assert_null(strstr(multipart.head, "\nX-Evil"));
    }
}

TEST(malformed_content_types_are_replaced)
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
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct http_multipart multipart;
        assert_int_equal(http_multipart_init(&multipart, "a", cases[i].type), 0);
        assert_non_null(strstr(multipart.head, cases[i].expected));
    }
}

TEST(each_multipart_body_has_its_own_boundary)
{
    struct http_multipart one, other;
    assert_int_equal(http_multipart_init(&one, "a", "text/plain"), 0);
    assert_int_equal(http_multipart_init(&other, "a", "text/plain"), 0);
    const char *boundary = strstr(one.content_type, "boundary=") + strlen("boundary=");
    assert_memory_equal(one.head + 2, boundary, strlen(boundary));
    assert_memory_equal(one.tail + 4, boundary, strlen(boundary));
    assert_string_not_equal(one.tail, other.tail);
}

TEST(a_file_name_of_255_bytes_fits_and_a_longer_head_is_refused)
{
    char name[3000];
    struct http_multipart multipart;
    memset(name, '"', sizeof(name));
    name[255] = '\0';
    assert_int_equal(http_multipart_init(&multipart, name, "text/plain"), 0);
    name[255] = '"';
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(http_multipart_init(&multipart, name, "text/plain"), -ENAMETOOLONG);
}
