/* SPDX-License-Identifier: MIT */
/*
 * A message as it goes to the relay: fit for every mail server, and with the content that it had.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <gmime/gmime.h>

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
    char *raw = NULL;
    assert_int_equal(0, message_write(&message, &raw, ret_len));
    json_decref(message.from);
    json_decref(message.to);
    return raw;
}

static void assert_fit(const struct strbuf *text)
{
    size_t line = 0;
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->data[i];
        assert_in_range(c, 1, 127);
        if (c == '\r')
            assert_int_equal('\n', text->data[i + 1]);
        if (c == '\n')
            assert_int_equal('\r', text->data[i - 1]);
        line = c == '\n' ? 0 : line + (c != '\r');
        assert_in_range(line, 0, 998);
    }
    assert_int_equal(0, line);
}

/* ---------------------------------------------------------------- what a message encloses */

struct leaves {
    struct strbuf content; /* of all leaves but the first, which is the text around the enclosed message */
    unsigned int len;
};

static void add_leaf(GMimeObject *parent, GMimeObject *object, gpointer context)
{
    (void)parent;
    struct leaves *leaves = context;
    if (GMIME_IS_MESSAGE_PART(object))
        g_mime_message_foreach(g_mime_message_part_get_message(GMIME_MESSAGE_PART(object)), add_leaf, leaves);
    if (!GMIME_IS_PART(object) || leaves->len++ == 0)
        return;
    GMimeStream *stream = g_mime_stream_mem_new();
    g_mime_data_wrapper_write_to_stream(g_mime_part_get_content(GMIME_PART(object)), stream);
    const GByteArray *bytes = g_mime_stream_mem_get_byte_array(GMIME_STREAM_MEM(stream));
    strbuf_append(&leaves->content, bytes->data, bytes->len);
    strbuf_append_char(&leaves->content, '|');
    g_object_unref(stream);
}

static GMimeMessage *parse(const struct strbuf *text)
{
    GMimeStream *stream = g_mime_stream_mem_new_with_buffer(text->data, text->len);
    GMimeParser *parser = g_mime_parser_new_with_stream(stream);
    GMimeMessage *message = g_mime_parser_construct_message(parser, NULL);
    g_object_unref(parser);
    g_object_unref(stream);
    assert_non_null(message);
    return message;
}

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
#define BINARY "Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n"
#define SIGNED_PARTS                                                                                       \
    "--S\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n" \
    "--S\r\nContent-Type: application/pgp-signature\r\n\r\nsignature\r\n--S--\r\n"

/* `content`: of all leaves of the enclosed message, with "|" behind each. */
static const struct {
    const char *name;
    const char *original;
    const char *content;
    size_t original_len; /* where there is a NUL in it */
    size_t content_len;
} cases[] = {
    {.name = "text of 8 bits",
     .original = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: "
                 "8bit\r\n\r\nGrüße\r\n.\r\nFrom me\r\n",
     .content = "Grüße\r\n.\r\nFrom me\r\n"},
    {.name = "text that says nothing of its charset",
     .original = "\r\nGr\xfc\xdf"
                 "e\r\n",
     .content = "Gr\xfc\xdf"
                "e\r\n"},
    {.name = "text of 8 bits that calls itself 7bit",
     .original = "Content-Transfer-Encoding: 7bit\r\n\r\nGrüße\r\n",
     .content = "Grüße\r\n"},
    {.name = "one long line",
     .original = "\r\n" LINE_500 LINE_500 "\r\n",
     .content = LINE_500 LINE_500 "\r\n"},
    {.name = "base64 in one line",
     .original = "Content-Transfer-Encoding: base64\r\n\r\n" LINE_500 LINE_500 "\r\n",
     .content = NULL},
    {.name = "a binary part",
     .original = BINARY "\r\n\0\1\xff\r\r\n\nx\r\n",
     .original_len = sizeof(BINARY "\r\n\0\1\xff\r\r\n\nx\r\n") - 1,
     .content = "\0\1\xff\r\r\n\nx\r\n",
     .content_len = 10},
    {.name = "a carriage return by itself", .original = "\r\na\rb\r\n", .content = "a\rb\r\n"},
    {.name = "parts in parts, with text around them",
     .original = "Content-Type: multipart/mixed; boundary=M\r\nContent-Transfer-Encoding: 8bit\r\n\r\nfür "
                 "alle\r\n--M\r\n"
                 "Content-Type: multipart/alternative; boundary=A\r\n\r\n--A\r\nContent-Type: text/plain; "
                 "charset=utf-8\r\n\r\nGrüße"
                 "\r\n--A\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n<p>Gr\xfc\xdf"
                 "e\r\n--A--\r\n\r\n--M\r\nContent-Type: "
                 "image/png\r\nContent-Transfer-Encoding: base64\r\n\r\nAAEC\r\n--M--\r\nEnde für heute\r\n",
     .content = "Grüße|<p>Gr\xfc\xdf"
                "e|\0\1\2|",
     .content_len = 21},
    {.name = "a message that encloses another",
     .original = "Content-Type: message/rfc822\r\n\r\nSubject: für\r\nFrom: rené@x.example\r\n\r\nGrüße\r\n",
     .content = "Grüße\r\n"},
    {.name = "headers of 8 bits",
     .original = "X-Note: f\xfcr\r\nTo: Grüße <a@x.example>, rené@x.example\r\nContent-Type: text/plain; "
                 "name=\"für.txt\"\r\n\r\nx\r\n",
     .content = "x\r\n"},
    {.name = "long lines in a header",
     .original = "Subject: long\r\nX-Words: " LINE_500 " " LINE_500 " x\r\nX-Word: " LINE_500 LINE_500
                 "\r\nReferences: <" LINE_500 LINE_500 "@x.example>\r\n\r\nx\r\n",
     .content = "x\r\n"},
};

static void enclosed_mail_becomes_fit_and_its_content_stays(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        print_message("%s\n", cases[i].name);
        size_t len = 0;
        size_t original_len = cases[i].original_len > 0 ? cases[i].original_len : strlen(cases[i].original);
        _cleanup_free_ char *raw = enclose(cases[i].original, original_len, &len);
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100000);
        assert_int_equal(0, message_write_for_relay(raw, len, false, &text));
        assert_fit(&text);
        if (cases[i].content == NULL)
            continue;
        GMimeMessage *message = parse(&text);
        struct leaves leaves = {.content = STRBUF_INIT(100000)};
        g_mime_message_foreach(message, add_leaf, &leaves);
        size_t content_len = cases[i].content_len > 0 ? cases[i].content_len : strlen(cases[i].content);
        assert_true(leaves.content.len >= content_len);
        assert_memory_equal(leaves.content.data, cases[i].content, content_len);
        strbuf_release(&leaves.content);
        g_object_unref(message);
    }
}

static void an_enclosed_message_has_the_bytes_that_it_had(void **state)
{
    (void)state;
    static const char *const originals[] = {
        "Subject: x\r\nno header\r\n\r\nx\r\n",
        ("Content-Type: multipart/mixed; boundary=b\r\n\r\nbefore\r\n--b\r\nX: 1\r\nno header\r\nmore\r\n"
         "--b \t\r\nno header\r\n\r\n--b--\r\nbehind"),
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n--b\r\n\r\n--b--",
        ">From x\r\nSubject: x\r\n\r\n",
        "\r\nx",
        "Content-Transfer-Encoding: binary\n\n\n\xff\r\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(originals); i++) {
        _cleanup_free_ char *file = NULL;
        size_t len = 0;
        _cleanup_free_ char *raw = enclose(originals[i], strlen(originals[i]), &len);
        assert_int_equal(0, message_read_attachment(raw, len, 0, &file, &len));
        assert_string_equal(file, originals[i]);
    }
}

static void a_message_without_a_header_is_enclosed_behind_a_blank_line(void **state)
{
    (void)state;
    _cleanup_free_ char *file = NULL;
    size_t len = 0;
    _cleanup_free_ char *raw = enclose("no header", strlen("no header"), &len);
    assert_int_equal(0, message_read_attachment(raw, len, 0, &file, &len));
    assert_string_equal(file, "\r\nno header");
}

static void mail_with_a_signature_of_8_bits_is_enclosed_as_the_file_that_it_was(void **state)
{
    (void)state;
    static const char original[] =
        "Subject: signed\r\nContent-Type: multipart/signed; boundary=S\r\n\r\n" SIGNED_PARTS;
    size_t len = 0;
    _cleanup_free_ char *raw = enclose(original, strlen(original), &len);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100000);
    assert_int_equal(0, message_write_for_relay(raw, len, false, &text));
    assert_fit(&text);
    _cleanup_free_ char *file = NULL;
    size_t file_len = 0;
    assert_int_equal(0, message_read_attachment(text.data, text.len, 0, &file, &file_len));
    assert_true(file_len >= strlen(original));
    assert_memory_equal(file, original, strlen(original));
    assert_non_null(strstr(text.data, "Content-Type: application/octet-stream"));
    assert_non_null(strstr(text.data, "filename=forwarded.eml"));
}

/* ---------------------------------------------------------------- addresses */

static void an_address_beyond_ascii_becomes_a_name_but_where_the_server_takes_it(void **state)
{
    (void)state;
    static const char original[] = "\r\nx\r\n";
    size_t len = 0;
    _cleanup_free_ char *raw = enclose(original, strlen(original), &len);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100000);
    assert_int_equal(0, message_write_for_relay(raw, len, false, &text));
    assert_fit(&text);
    GMimeMessage *message = parse(&text);
    _cleanup_free_ char *to = internet_address_list_to_string(g_mime_message_get_to(message), NULL, FALSE);
    assert_string_equal(to, "\"René <rené@x.example>\": ;, bob@xn--bcher-kva.example");
    g_object_unref(message);

    strbuf_clear(&text);
    assert_int_equal(0, message_write_for_relay(raw, len, true, &text));
    assert_non_null(strstr(text.data, "<rené@x.example>, bob@xn--bcher-kva.example\r\n"));
}

static void a_domain_beyond_ascii_is_written_in_ascii(void **state)
{
    (void)state;
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
    assert_int_equal(0, message_name(&message, "bücher.example"));
    assert_non_null(strstr(message.message_id, "@xn--bcher-kva.example>"));
    message_release(&message);
}

/* ---------------------------------------------------------------- lines */

static void lines_end_with_crlf_and_a_long_one_of_a_header_is_folded(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"A: b\nC: d\r\n\nx\n", "A: b\r\nC: d\r\n\r\nx\r\n"},
        {"A: b\r\n\r\nx", "A: b\r\n\r\nx"},
        {"A: b\r\n\r\n\n\r\n", "A: b\r\n\r\n\r\n\r\n"},
        {"Subject: x\r\nIn-Reply-To: <" LINE_500 LINE_500 ">\r\n\r\nx\r\n", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(100000);
        assert_int_equal(0, message_write_for_relay(texts[i][0], strlen(texts[i][0]), false, &text));
        if (texts[i][1] != NULL)
            assert_string_equal(strbuf_str(&text), texts[i][1]);
        else
            assert_fit(&text);
    }
}

int main(void)
{
    g_mime_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enclosed_mail_becomes_fit_and_its_content_stays),
        cmocka_unit_test(an_enclosed_message_has_the_bytes_that_it_had),
        cmocka_unit_test(a_message_without_a_header_is_enclosed_behind_a_blank_line),
        cmocka_unit_test(mail_with_a_signature_of_8_bits_is_enclosed_as_the_file_that_it_was),
        cmocka_unit_test(an_address_beyond_ascii_becomes_a_name_but_where_the_server_takes_it),
        cmocka_unit_test(a_domain_beyond_ascii_is_written_in_ascii),
        cmocka_unit_test(lines_end_with_crlf_and_a_long_one_of_a_header_is_folded),
    };
    return cmocka_run_group_tests_name("message_text", tests, NULL, NULL);
}
