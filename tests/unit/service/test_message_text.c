/* SPDX-License-Identifier: MIT */
/*
 * The text of a message: the bytes of an enclosed message, and lines for SMTP.
 */
#include <string.h>

#include <gmime/gmime.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "service/message.h"

static char *enclose(const char *original, size_t len, size_t *ret_len)
{
    struct message message = {
        .message_id = (char *)"<out@x.example>",
        .subject = (char *)"Fwd",
        .plain_text = (char *)"See below.",
        .from = json_pack("{s:s, s:n}", "address", "alice@inbox.localhost", "name"),
        .to = json_pack("[{s:s, s:s}, {s:s, s:n}]", "address", "rené@x.example", "name", "René", "address",
                        "bob@bücher.example", "name"),
        .forwarded = (char *)original,
        .forwarded_len = len,
    };
    char *raw = message_write(&message, ret_len);
    json_decref(message.from);
    json_decref(message.to);
    return raw;
}

/* Asserts lines of at most 998 bytes that end with CR LF, without a NUL. */
static void assert_fit(const struct strbuf *text)
{
    size_t line = 0;
    for (size_t i = 0; i < text->len; i++) {
        char c = text->data[i];
        assert_int_not_equal(0, c);
        if (c == '\r')
            assert_int_equal('\n', text->data[i + 1]);
        if (c == '\n')
            assert_int_equal('\r', text->data[i - 1]);
        line = c == '\n' ? 0 : line + (c != '\r');
        assert_in_range(line, 0, 998);
    }
    assert_int_equal(0, line);
}

/* ---------------------------------------------------------------- enclosed messages */

#define LINE_500                                         \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define BINARY "Content-Transfer-Encoding: binary\r\n\r\n\0\1\xff\r\n"

static const struct {
    const char *original;
    size_t len;
    bool is_message; /* the text is enclosed as a message, not as a file */
} cases[] = {
    {"Subject: f\xfcr\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n.\r\nFrom me\r\n", 0, true},
    {"\n\nlines\nof LF\n", 0, true},
    {"Subject: long\r\n\r\n" LINE_500 LINE_500 "\r\n", 0, false},
    {BINARY, sizeof(BINARY) - 1, false},
    {"\r\na\rb\r\n", 0, false},
    {"\r\nends with\r", 0, false},
};

TEST(mail_that_no_server_takes_is_enclosed_as_a_file)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t original_len = cases[i].len > 0 ? cases[i].len : strlen(cases[i].original);
        size_t len = 0, file_len = 0;
        _cleanup_free_ char *raw = enclose(cases[i].original, original_len, &len);
        _cleanup_free_ char *file = NULL;
        assert_int_equal(0, message_read_attachment(raw, len, 0, &file, &file_len));
        assert_int_equal(original_len, file_len);
        assert_memory_equal(file, cases[i].original, original_len);
        static const char type[] = "Content-Type: message/rfc822";
        assert_int_equal(cases[i].is_message, memmem(raw, len, type, strlen(type)) != NULL);
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100000);
        assert_int_equal(0, message_write_for_relay(raw, len, &text));
        assert_fit(&text);
        assert_int_equal(cases[i].is_message,
                         strstr(strbuf_str(&text), "filename=forwarded.eml") != NULL &&
                             strstr(strbuf_str(&text), "application/octet-stream") == NULL);
    }
}

TEST(an_enclosed_message_keeps_its_bytes)
{
    static const char *const originals[] = {
        "Subject: x\r\nno header\r\n\r\nx\r\n",
        ("Content-Type: multipart/mixed; boundary=b\r\n\r\nbefore\r\n--b\r\nX: 1\r\nno header\r\nmore\r\n"
         "--b \t\r\nno header\r\n\r\n--b--\r\nbehind"),
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n--b\r\n\r\n--b--",
        ">From x\r\nSubject: x\r\n\r\n",
        "\r\nx",
        "no header",
        "Content-Transfer-Encoding: binary\n\n\n\xff\r\r\n",
        "Subject: s\r\nContent-Type: multipart/signed; boundary=S\r\n\r\n--S\r\n\r\nGrüße\r\n--S--\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(originals); i++) {
        _cleanup_free_ char *file = NULL;
        size_t len = 0;
        _cleanup_free_ char *raw = enclose(originals[i], strlen(originals[i]), &len);
        assert_int_equal(0, message_read_attachment(raw, len, 0, &file, &len));
        assert_string_equal(file, originals[i]);
    }
}

/* ---------------------------------------------------------------- addresses */

TEST(a_non_ascii_domain_is_written_in_ascii)
{
    static const char *const addresses[][2] = {
        {"bob@x.example", "bob@x.example"},
        {"bob@bücher.example", "bob@xn--bcher-kva.example"},
        {"bob@BÜCHER.example", "bob@xn--bcher-kva.example"},
        {"bob@faß.example", "bob@xn--fa-hia.example"},
        {"rené@bücher.example", "rené@xn--bcher-kva.example"},
        {"\"a b\"@bücher.example", "\"a b\"@xn--bcher-kva.example"},
        {"bob@[192.0.2.1]", "bob@[192.0.2.1]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        _cleanup_free_ char *ascii = message_ascii_address(addresses[i][0]);
        assert_string_equal(ascii, addresses[i][1]);
    }
    struct message message = {0};
    message_make_id(&message, "bücher.example");
    assert_non_null(strstr(message.message_id, "@xn--bcher-kva.example>"));
    message_release(&message);
}

/* ---------------------------------------------------------------- lines */

TEST(lines_for_a_relay_end_with_crlf_and_long_lines_are_folded)
{
    static const char *const texts[][2] = {
        {"A: b\nC: d\r\n\nx\n", "A: b\r\nC: d\r\n\r\nx\r\n"},
        {"A: b\r\n\r\nx", "A: b\r\n\r\nx"},
        {"A: b\r\n\r\n\n\r\n", "A: b\r\n\r\n\r\n\r\n"},
        {"Subject: x\r\nIn-Reply-To: <" LINE_500 LINE_500 ">\r\n\r\nx\r\n", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100000);
        assert_int_equal(0, message_write_for_relay(texts[i][0], strlen(texts[i][0]), &text));
        if (texts[i][1] != NULL)
            assert_string_equal(strbuf_str(&text), texts[i][1]);
        else
            assert_fit(&text);
    }
}

int main(void)
{
    g_mime_init();
    return test_run();
}
