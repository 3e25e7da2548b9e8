/* SPDX-License-Identifier: MIT */
/*
 * Every message of the corpus (support/corpus.h) gives the expected draft and texts. The test makes the
 * messages that are too large for a file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/draft.h"
#include "mail/html_text.h"
#include "mail/json_writer.h"
#include "mail/new_text.h"
#include "support/corpus.h"

enum {
    TEXT_MAX_BYTES = 1000 * 1000,
    MEGABYTE = 1000 * 1000,
};

static json_t *describe_parts(const struct draft *draft)
{
    json_t *list = json_array();
    for (size_t i = 0; i < draft->parts_len; i++) {
        const struct draft_part *part = &draft->parts[i];
        char digest[65];
        hash_sha256(part->bytes, part->len, digest);
        json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:s}", "name", part->name, "content_type",
                                              part->content_type, "bytes", (int)part->len, "sha256", digest));
    }
    return list;
}

static size_t count_recipients(const json_t *request)
{
    return json_array_size(json_object_get(request, "to_addresses")) +
           json_array_size(json_object_get(request, "cc_addresses")) +
           json_array_size(json_object_get(request, "bcc_addresses"));
}

/* Describes a draft in the form of an .expected file. */
static json_t *describe(const struct draft *draft)
{
    _cleanup_json_ json_t *request = json_loads(draft->request, 0, NULL);
    json_t *found = json_object();
    json_object_set(found, "subject", json_object_get(request, "subject"));
    json_object_set_new(found, "recipients", json_integer((json_int_t)count_recipients(request)));
    json_object_set(found, "plain_text", json_object_get(request, "plain_text"));
    const json_t *html = json_object_get(request, "html");
    json_object_set_new(found, "html", html != NULL ? json_deep_copy(html) : json_null());
    if (html != NULL)
        json_object_set(found, "alternative_content", json_object_get(request, "alternative_content"));
    json_object_set_new(found, "attachments", describe_parts(draft));
    return found;
}

/* Adds the readable text: the plain text, and the text of the HTML unless both have the same content. */
static void describe_text(const struct corpus_message *message, json_t *found)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX_BYTES);
    const char *plain = json_string_value(json_object_get(found, "plain_text"));
    const char *html = json_string_value(json_object_get(found, "html"));
    strbuf_append_str(&text, plain);
    bool is_alternative = json_is_true(json_object_get(found, "alternative_content"));
    if (html != NULL && plain[0] != '\0' && !is_alternative)
        strbuf_append_char(&text, '\n');
    if (html != NULL && (plain[0] == '\0' || !is_alternative))
        html_to_text(&text, html, strlen(html));
    if (json_object_get(message->expected, "readable_text") != NULL)
        json_object_set_new(found, "readable_text", json_string(strbuf_str(&text)));

    _cleanup_strbuf_ struct strbuf added = STRBUF_INIT(TEXT_MAX_BYTES);
    new_text_append(&added, NEW_TEXT_OF_ANSWER, strbuf_str(&text), text.len);
    if (json_object_get(message->expected, "new_text") != NULL)
        json_object_set_new(found, "new_text", json_string(strbuf_str(&added)));
}

static json_t *describe_failure(int error, const char *reason)
{
    const char *name = error == -EBADMSG ? "EBADMSG" : error == -EMSGSIZE ? "EMSGSIZE" : "EDESTADDRREQ";
    return json_pack("{s:s, s:s}", "error", name, "reason", reason);
}

static void check_message(void *context, const struct corpus_message *message)
{
    _cleanup_free_ char *reason = NULL;
    struct draft *draft = NULL;
    int error = draft_parse(message->bytes, message->len, NULL, &draft, &reason);
    _cleanup_json_ json_t *found = error == 0 ? describe(draft) : describe_failure(error, reason);
    if (error == 0)
        describe_text(message, found);
    draft_free(draft);
    if (!json_equal(found, message->expected)) {
        _cleanup_free_ char *text = json_dumps(found, JSON_INDENT(2));
        fail_msg("%s came to %s", message->name, text);
    }
}

TEST(every_message_of_the_corpus_gives_the_expected_draft)
{
    assert_true(corpus_for_each(check_message, NULL) >= 60);
}

/* Makes a message with one attachment of zeros, in base64. */
static void make_large(struct strbuf *message, size_t attachment_bytes)
{
    strbuf_append_str(message,
                      "To: bob@x.example\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nHello\n--b\n"
                      "Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n\n");
    static const char line[] =
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
    for (size_t bytes = 0; bytes < attachment_bytes; bytes += 57)
        strbuf_append_str(message, line);
    strbuf_append_str(message, "--b--\n");
}

TEST(large_messages_are_read_up_to_the_limits)
{
    static const struct {
        size_t attachment_bytes;
        int error;
    } cases[] = {{9 * MEGABYTE, 0}, {11 * MEGABYTE, -EMSGSIZE}, {22 * MEGABYTE, -EMSGSIZE}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(40 * MEGABYTE);
        _cleanup_free_ char *reason = NULL;
        struct draft *draft = NULL;
        make_large(&message, cases[i].attachment_bytes);
        assert_int_equal(cases[i].error, draft_parse(message.data, message.len, NULL, &draft, &reason));
        if (draft != NULL)
            assert_in_range(draft->parts[0].len, cases[i].attachment_bytes, cases[i].attachment_bytes + 57);
        draft_free(draft);
    }
}
