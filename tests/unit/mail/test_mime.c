/* SPDX-License-Identifier: MIT */
/*
 * Messages are split into fields and parts, with roles and defects. test_corpus.c tests the structure of real
 * mail.
 */
#include "mail/mime.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/mime_text.h"
#include "support/test.h"

static struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

static void assert_span(const char *expected, struct span span)
{
    assert_int_equal(strlen(expected), span.len);
    assert_memory_equal(expected, span.bytes, span.len);
}

TEST(a_line_that_is_not_a_field_begins_the_body)
{
    static const struct {
        const char *entity;
        const char *header;
        const char *body;
    } cases[] = {
        {"A: 1\n b\nX+c: 2\r\n\r\nbody", "A: 1\n b\nX+c: 2\r\n", "body"},
        {"A : 1\n\n\nbody", "A : 1\n", "\nbody"},
        {"A: 1\nno field\n", "A: 1\n", "no field\n"},
        {"\nbody", "", "body"},
        {" folded\n", "", " folded\n"},
        {"A: 1", "A: 1", ""},
        {": 1\n", "", ": 1\n"},
        {"", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct span header, body;
        mime_split(span_of(cases[i].entity), &header, &body);
        assert_span(cases[i].header, header);
        assert_span(cases[i].body, body);
    }
}

TEST(fields_are_found_by_a_name_in_any_case)
{
    struct span header = span_of("to: 1\nTo2: 2\nTO : 3\n folded\n"), value;
    assert_span(" 1\n", mime_find_field(header, "To"));
    assert_span("", mime_find_field(header, "Cc"));
    assert_true(mime_next_field(&header, "To", &value));
    assert_true(mime_next_field(&header, "To", &value));
    assert_span(" 3\n folded\n", value);
    assert_false(mime_next_field(&header, "To", &value));
}

TEST(a_part_ends_only_at_a_line_with_the_boundary)
{
    static const struct {
        const char *boundary;
        const char *body;
        const char *parts;
    } cases[] = {
        {"b", "b\n--b\nb --b\n b\n--bb\n--b-\n-b\n--b \n1\n--b\n--b--\nb\n--b\n",
         "b --b\n b\n--bb\n--b-\n-b|1|"},
        {"--", "--\n----\n-----\n--\n----\n2\n------\n", "-----\n--|2|"},
        {"-", "---\n--- x\n---\n--", "--- x|--|"},
        {"b b", "--b b\nx", "x|"},
        {"b", "nothing", ""},
        {"", "--\nx\n----\n", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(100);
        struct mime_parts parts;
        struct span part;
        mime_parts_init(&parts, span_of(cases[i].body), cases[i].boundary);
        while (mime_next_part(&parts, &part))
            strbuf_appendf(&found, "%.*s|", (int)part.len, part.bytes);
        assert_string_equal(cases[i].parts, strbuf_str(&found));
    }
}

/* The visitor notes the type of each entity, the role and text of each leaf, and each defect. */
static int note_entity(void *context, const struct mime_entity *entity)
{
    strbuf_appendf(context, "%.*s", (int)entity->depth, "    ");
    return strbuf_appendf(context, "%s", entity->type);
}

static int note_leaf(void *context, const struct mime_entity *leaf, enum mime_role role)
{
    static const char *const roles[] = {"plain", "html", "attachment"};
    return strbuf_appendf(context, " %s %.*s\n", roles[role], (int)leaf->body.len, leaf->body.bytes);
}

static int note_defect(void *context, const struct mime_entity *entity, enum mime_defect defect)
{
    static const char *const names[] = {"no parts", "cut off", "too many", "too deep"};
    return strbuf_appendf(context, " (%s)", names[defect]);
}

#define MIXED "Content-Type: multipart/mixed; boundary=b\n\n"

TEST(broken_grammar_is_read_and_reported)
{
    static const struct {
        const char *message;
        const char *expected;
    } cases[] = {
        {MIXED "--b\n\none\n--b--\n", "multipart/mixed text/plain plain one\n"},
        {MIXED "--b\n\none\n--b\n\ntwo\n",
         "multipart/mixed text/plain plain one\n (cut off) text/plain plain two\n\n"},
        {MIXED "--b\n\none\n--b", "multipart/mixed (cut off) text/plain plain one\n"},
        {MIXED "text\n", "multipart/mixed (no parts) plain text\n\n"},
        {MIXED "--b--\ntext", "multipart/mixed (no parts) plain --b--\ntext\n"},
        {MIXED "--b\n", "multipart/mixed (cut off) plain --b\n\n"},
        {MIXED "before\n--b\n\none\n--b--\nbehind", "multipart/mixed text/plain plain one\n"},
        {MIXED "This is in MIME.\n--b\n\none\n--b--\n", "multipart/mixed text/plain plain one\n"},
        {MIXED "--bb\n--b x\n--b \t\r\n\r\none\r\n\r\n--b--\r\n",
         "multipart/mixed text/plain plain one\r\n\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(10000);
        struct mime_visitor visitor = {&found, note_entity, note_leaf, note_defect};
        assert_int_equal(0, mime_read(span_of(cases[i].message), &visitor));
        _cleanup_strbuf_ struct strbuf flat = STRBUF_INIT(10000);
        for (const char *c = strbuf_str(&found); *c != '\0'; c++)
            if (*c != ' ' || c[1] != ' ')
                strbuf_append_char(&flat, *c);
        assert_string_equal(cases[i].expected, strbuf_str(&flat));
    }
}

static int join_leaf(void *context, const struct mime_entity *leaf, enum mime_role role)
{
    return role == MIME_ATTACHMENT ? 0 : mime_texts_add(context, leaf, role, NULL);
}

/* 24 MB in 9,999 parts would take minutes if each part caused a copy of all earlier parts. */
TEST(many_texts_are_joined_in_linear_time)
{
    enum {
        PARTS = 9999,
        LINE_BYTES = 2400,
        MAX_BYTES = 1000,
    };
    static const char *const types[] = {"mixed", "alternative"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        _cleanup_strbuf_ struct strbuf message = STRBUF_INIT(40 * 1000 * 1000);
        strbuf_appendf(&message, "Content-Type: multipart/%s; boundary=o\n\n--o\n" MIXED, types[i]);
        for (int part = 0; part < PARTS - 2; part++)
            strbuf_appendf(&message, "--b\nContent-Type: text/html\n\n%0*d\n", LINE_BYTES, part);
        strbuf_append_str(&message, "--b--\n--o--\n");
        struct mime_texts texts = {0};
        _cleanup_free_ char *plain = NULL;
        _cleanup_free_ char *html = NULL;
        bool is_alternative;
        assert_int_equal(0, mime_read((struct span){message.data, message.len},
                                      &(struct mime_visitor){.context = &texts, .leaf = join_leaf}));
        mime_texts_join(&texts, MAX_BYTES, &plain, &html, &is_alternative);
        mime_texts_release(&texts);
        assert_null(plain);
        assert_int_equal(MAX_BYTES, strlen(html));
    }
}
