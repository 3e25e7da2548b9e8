/* SPDX-License-Identifier: MIT */
/*
 * The parts of a draft: each part is attached byte for byte, or the draft is refused with a reason that names
 * the part. The draft lists everything that the request cannot express.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/draft.h"
#include "mail/json_writer.h"

#define MULTIPART "To: b@x.example\nContent-Type: multipart/mixed; boundary=B\n\n"
#define MULTIPART_CRLF "To: b@x.example\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n"
#define FILE_PART "--B\nContent-Type: x/y\n"
#define BASE64 "Content-Transfer-Encoding: base64\n"

static struct draft *parse(const char *message)
{
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    if (draft_parse(message, strlen(message), NULL, &draft, &reason) != 0)
        fail_msg("%s: %s", message, reason);
    return draft;
}

static void assert_body(const struct draft *draft, const char *field, const char *text)
{
    _cleanup_json_ json_t *request = json_loads(draft->request, 0, NULL);
    const char *found = json_string_value(json_object_get(request, field));
    assert_string_equal(found == NULL ? "" : found, text);
}

static void assert_part(const struct draft *draft, size_t index, const char *bytes, size_t len)
{
    assert_true(index < draft->parts_len);
    assert_int_equal(draft->parts[index].len, len);
    assert_memory_equal(draft->parts[index].bytes, bytes, len);
}

static void assert_refused(const char *message, const char *words)
{
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    int error = draft_parse(message, strlen(message), NULL, &draft, &reason);
    if (error == 0)
        fail_msg("%s was accepted", message);
    assert_int_equal(error, -EBADMSG);
    assert_string_equal(reason, words);
}

TEST(the_line_end_before_a_boundary_belongs_to_no_part)
{
    static const struct {
        const char *message;
        const char *bytes;
    } cases[] = {
        {MULTIPART FILE_PART "\nx\n--B--\n", "x"},
        {MULTIPART FILE_PART "\nx\n--B--", "x"},
        {MULTIPART FILE_PART "\nx\n\n--B--\n", "x\n"},
        {MULTIPART FILE_PART "\n\n--B--\n", ""},
        {MULTIPART FILE_PART "\n--B--\n", ""},
        {MULTIPART FILE_PART "--B--\n", ""},
        {MULTIPART FILE_PART "\nx\r\n--B--\n", "x"},
        {MULTIPART FILE_PART "\nx\r\r\n--B--\n", "x\r"},
        {MULTIPART FILE_PART "\nx\n--B-- \t\n", "x"},
        {MULTIPART FILE_PART "\nx\n--Bc\n--B--c\n --B\n--B--\n", "x\n--Bc\n--B--c\n --B"},
        {MULTIPART "--B\nContent-Type: x/y\n\nx\n--B--\nbehind\n--B\n", "x"},
        {MULTIPART "before\n--B\n" FILE_PART "\nx\n--B--\n", "x"},
        {MULTIPART_CRLF "--B\r\nContent-Type: x/y\r\n\r\nx\r\ny\r\n--B--\r\n", "x\r\ny"},
        {MULTIPART_CRLF "--B\r\nContent-Type: x/y\r\n\r\nx\r\ny\r\n--B--", "x\r\ny"},
        {MULTIPART_CRLF "--B\r\nContent-Type: x/y\r\n\r\nx\ny\n--B--\r\n", "x\ny"},
        {MULTIPART_CRLF "--B\r\nContent-Type: x/y\r\n\r\nx\r\n\n--B--\r\n", "x\r\n"},
        {MULTIPART_CRLF "--B\r\nContent-Type: x/y\r\n\r\n\r\n--B--\r\n", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct draft *draft = parse(cases[i].message);
        assert_int_equal(draft->parts_len, 1);
        assert_part(draft, 0, cases[i].bytes, strlen(cases[i].bytes));
        draft_free(draft);
    }
}

TEST(a_text_keeps_its_last_line_end_and_gets_none_that_is_missing)
{
    static const struct {
        const char *message;
        const char *text;
    } cases[] = {
        {"To: b@x.example\r\n\r\nx\r\ny", "x\ny"},
        {"To: b@x.example\r\n\r\nx\r\ny\r\n", "x\ny\n"},
        {"To: b@x.example\n\nx\r\ny\n", "x\ny\n"},
        {MULTIPART "--B\n\nx\n\n--B--\n", "x\n"},
        {MULTIPART_CRLF "--B\r\n\r\nx\r\n\r\n--B--\r\n", "x\n"},
        {MULTIPART_CRLF "--B\r\n\r\nx\n--B--", "x"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct draft *draft = parse(cases[i].message);
        assert_body(draft, "plain_text", cases[i].text);
        draft_free(draft);
    }
}

TEST(an_attached_message_is_sent_unchanged)
{
    static const char *const messages[] = {
        "From: a@b\nSubject: s\n\ntext",
        "From: a@b\r\nSubject: s\r\n\r\ntext\r\n",
        "From: a@b\r\nSubject: s\n\nmixed\r\nline\n\rends",
        "X-Odd : =?x?=\nSubject:no blank\n\n--b\n",
        "Subject: parts\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nnever closed",
        "Content-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nSubject: x\n\n",
        "not even a header\n",
        "From someone Fri Nov 20 10:14:36 2026\nSubject: s\n\n>From here\n",
        "Content-Transfer-Encoding: base64\n\n=",
    };
    for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000);
        strbuf_append_str(&text, MULTIPART "--B\n\ntext\n--B\nContent-Type: message/rfc822\n\n");
        strbuf_append_str(&text, messages[i]);
        strbuf_append_str(&text, "\n--B\nContent-Type: multipart/digest; boundary=C\n\n--C\n\n");
        strbuf_append_str(&text, messages[i]);
        strbuf_append_str(&text, "\n--C--\n--B--\n");
        struct draft *draft = parse(strbuf_str(&text));
        assert_int_equal(draft->parts_len, 2);
        for (size_t part = 0; part < 2; part++) {
            assert_string_equal(draft->parts[part].content_type, "message/rfc822");
            assert_part(draft, part, messages[i], strlen(messages[i]));
        }
        draft_free(draft);
    }
}

TEST(transfer_encodings_are_read_in_all_their_spellings)
{
    static const struct {
        const char *encoding;
        const char *content;
        const char *bytes;
    } cases[] = {
        {"quoted-printable;", "a=3D=\nb", "a=b"},
        {"\"quoted-printable\"", "a=3Db", "a=b"},
        {"Quoted-Printable (as usual)", "a=3Db", "a=b"},
        {"quoted-printable", "a=3Db=\n", "a=b"},
        {"8bits", "a=3Db\xc3\xa4", "a=3Db\xc3\xa4"},
        {"8-bit", "a=3Db", "a=3Db"},
        {"7bits", "a=3Db", "a=3Db"},
        {"7-BIT", "a=3Db", "a=3Db"},
        {"", "a=3Db", "a=3Db"},
        {"\n base64", "YT1i", "a=b"},
        {"base64;", "YT\n1i\n", "a=b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000);
        strbuf_appendf(&text, MULTIPART FILE_PART "Content-Transfer-Encoding: %s\n\n%s\n--B--\n",
                       cases[i].encoding, cases[i].content);
        struct draft *draft = parse(strbuf_str(&text));
        assert_part(draft, 0, cases[i].bytes, strlen(cases[i].bytes));
        draft_free(draft);
    }
}

TEST(the_refusal_of_a_damaged_part_names_its_number)
{
    static const struct {
        const char *message;
        const char *words;
    } cases[] = {
        {MULTIPART "--B\n\nx\n--B\nContent-Type: x/y\nno header\n\nx\n--B--\n",
         "part 2: line 9 is neither a header nor the blank line after them"},
        {MULTIPART "--B\nHello, this is no header\n--B--\n",
         "part 1: line 5 is neither a header nor the blank line after them"},
        {MULTIPART "--B\n folded: at once\n\nx\n--B--\n",
         "part 1: line 5 is neither a header nor the blank line after them"},
        {MULTIPART "--B\nX-Bare:\rreturn\n\nx\n--B--\n",
         "part 1: line 5 is neither a header nor the blank line after them"},
        {MULTIPART "--B\nContent-Type: x/y\nContent-type: text/plain\n\nx\n--B--\n",
         "part 1: Content-Type: given twice"},
        {MULTIPART "--B\n" BASE64 BASE64 "\nYWJj\n--B--\n", "part 1: Content-Transfer-Encoding: given twice"},
        {MULTIPART "--B\nContent-Type: multipart/mixed; boundary=C\n\n--C\n" BASE64 "\nYWJ\n--C--\n--B--\n",
         "part 1.1: the base64 is cut off or damaged"},
        {MULTIPART "--B\nContent-Type: multipart/mixed; boundary=C\n\n--C\n\nx\n--B--\n",
         "part 1: the message is cut off: the closing boundary \"--C--\" is missing"},
        {MULTIPART "--B\nContent-Type: multipart/mixed; boundary=C\n\n--C--\n--B--\n",
         "part 1: a multipart message without its parts"},
        {MULTIPART "--B\nContent-Type: multipart/mixed\n\n--B--\n",
         "part 1: a multipart message without its parts"},
        {MULTIPART "--B\n--B--\n", "a multipart message without its parts"},
        {MULTIPART FILE_PART "Content-Transfer-Encoding: x-new\n\nx\n--B--\n",
         "part 1: Content-Transfer-Encoding: \"x-new\" is not supported"},
        {MULTIPART FILE_PART "Content-Transfer-Encoding: quoted-printable\n\nx=4\n--B--\n",
         "part 1: the quoted-printable text is cut off"},
        {MULTIPART "--B\nContent-Type: text/plain; charset=x-none\n\n\xff\n--B--\n",
         "part 1: the text cannot be read as the charset it names, \"x-none\""},
        {"To: b@x.example\nContent-Type: text/plain; charset=hz-gb-2312\n\n~{VPND~}\n",
         "the text cannot be read as the charset it names, \"hz-gb-2312\""},
        {"To: b@x.example\nContent-Type: message/partial; id=x; number=1; total=2\n\nTo: c@x.example\n\nx",
         "a piece of a message, or a reference to one, cannot be sent"},
        {"To: b@x.example\nContent-Type: message/external-body; access-type=URL; "
         "URL=\"https://x.example/\"\n\nContent-Type: text/plain\n\n",
         "a piece of a message, or a reference to one, cannot be sent"},
        {MULTIPART "--B\n" BASE64 "\nAA==\n--B--\n", "part 1: the text holds a NUL character"},
        {MULTIPART "--B\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 x\n#86)C\n`\nend\n--B--\n",
         "part 1: Content-Transfer-Encoding: \"x-uuencode\" is not supported"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_refused(cases[i].message, cases[i].words);
}

/* Checks draft->not_carried of a message; `words` has a line for each entry. */
static void assert_not_carried(const char *message, const char *words)
{
    struct draft *draft = parse(message);
    _cleanup_strbuf_ struct strbuf lines = STRBUF_INIT(10 * 1000);
    for (size_t i = 0; i < draft->not_carried_len; i++)
        strbuf_appendf(&lines, "%s\n", draft->not_carried[i]);
    assert_string_equal(strbuf_str(&lines), words);
    draft_free(draft);
}

#define RELATED "To: b@x.example\nContent-Type: multipart/related; boundary=B\n\n"
#define LOGO "--B\nContent-Type: image/png; name=logo.png\nContent-ID: <logo@x>\n\nx\n--B--\n"
#define HTML "--B\nContent-Type: text/html\n\n"

TEST(not_carried_names_what_the_request_cannot_express)
{
    static const struct {
        const char *message;
        const char *words;
    } cases[] = {
        {"To: b@x.example\nDate: x\nMessage-ID: <1@x>\nMIME-Version: 1.0\nUser-Agent: x\nCc: c@x\n\nx", ""},
        {"Return-Path: <a@x>\nReceived: from x by y\nreceived: from y by z\nTo: b@x.example\nX-Mailer: x\n"
         "Content-Language: en\n\nx",
         ""},
        {MULTIPART "--B\n\nx\n--B\nContent-Type: text/csv; name=a.csv\n\nx\n--B--\n", ""},
        {"To: b@x.example\nX-Odd: 1\nX-Priority: 1\nx-priority: 1\n\nx",
         "the header X-Odd\nthe header X-Priority\n"},
        {"To: b@x.example\nFrom: Ann <a@x.example>\n\nx", ""},
        {RELATED HTML "<img src=\"cid:logo@x\">\n" LOGO,
         "Content-ID of logo.png: the html names it as cid:logo@x\n"},
        {RELATED HTML "<a style='background:url(CID:logo%40x)'><b src=cid:logo@x>\n" LOGO,
         "Content-ID of logo.png: the html names it as cid:logo@x\n"},
        {RELATED HTML "<img src=\"cid:other\"> cid:\n" LOGO, ""},
        {"To: b@x.example\nContent-Type: multipart/alternative; boundary=B\n\n" HTML "1\n" HTML
         "2\n--B\nContent-Type: text/calendar\n\nx\n--B--\n",
         "text/html as a text of the message: it is attached, as attachment-1.html\ntext/calendar as a "
         "text of the message: it is attached, as attachment-2.ics\n"},
        {MULTIPART "--B\nContent-Type: text/plain; charset=koi8-r; name=a.txt\n\nx\n--B--\n",
         "the charset of a.txt, koi8-r\n"},
        {MULTIPART
         "--B\nContent-Type: text/plain; charset=UTF-8; name=a.txt\n\nx\n--B\nContent-Type: text/plain; "
         "charset=us-ascii; name=b.txt\n\nx\n--B--\n",
         ""},
        {"To: b@x.example\nContent-Type: multipart/signed; boundary=B\n\n--B\n\nx\n--B\nContent-Type: "
         "application/pgp-signature\n\nx\n--B--\n",
         "multipart/signed: the signature is attached, and cannot be verified\n"},
        {MULTIPART
         "--B\n\nx\n--B\nContent-Type: message/partial; id=x; number=1; total=2; name=a\n\nx\n--B--\n",
         "what the type of a, message/partial, says besides\n"},
        {MULTIPART "This is a multi-part message in MIME format.\n\n--B\n\nx\n--B--\n\n", ""},
        {MULTIPART "Hello\n--B\n\nx\n--B--\nfooter\n", ""},
        {"{\"to_addresses\":\"b@x.example\"}", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_not_carried(cases[i].message, cases[i].words);
}

TEST(not_carried_has_a_bounded_number_of_lines)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(DRAFT_MAX_BYTES);
    strbuf_append_str(&text, "To: b@x.example\n");
    for (size_t i = 0; i < 20 * 1000; i++)
        strbuf_appendf(&text, "X-%zu: x\n", i);
    strbuf_append_str(&text, "\nx");
    struct draft *draft = parse(strbuf_str(&text));
    assert_in_range(draft->not_carried_len, 10, 100);
    assert_string_equal(draft->not_carried[draft->not_carried_len - 1], "and more");
    draft_free(draft);
}

TEST(lines_of_dashes_in_a_text_do_not_count_as_parts)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(DRAFT_MAX_BYTES);
    strbuf_append_str(&text, "To: b@x.example\nContent-Type: text/plain\n\n");
    for (size_t i = 0; i < 100 * 1000; i++)
        strbuf_append_str(&text, "-- \n");
    draft_free(parse(strbuf_str(&text)));
}
