/* SPDX-License-Identifier: MIT */
/*
 * Decodes the text of a leaf (transfer encoding, charset, line ends, flowed paragraphs), then joins the texts
 * of all leaves to the two texts of the interface.
 */
#include "mail/mime_text.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/charset.h"
#include "mail/html_text.h"
#include "mail/reason.h"

/* ---- transfer encodings. GMime decodes any bytes, and does not report the bytes that it skips. So strict
 * decoding checks the content here first. */

/* Returns true for whole groups of four base64 digits, with padding only at the end (RFC 2045, 6.8). */
static bool is_whole_base64(const char *text, size_t len)
{
    size_t digits = 0;
    size_t padding = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (g_ascii_isspace(c))
            continue;
        if (c == '=')
            padding++;
        else if (padding > 0 || !(g_ascii_isalnum(c) || c == '+' || c == '/'))
            return false;
        else
            digits++;
    }
    return padding <= 2 && (digits + padding) % 4 == 0;
}

/* Reads the encoding of a header section. Returns false if it is unknown. Names that begin with "7" or "8"
 * are spellings of 7bit and 8bit. */
static bool read_encoding(struct span header, GMimeContentEncoding *ret_encoding)
{
    struct span name = mime_first_token(mime_find_field(header, "Content-Transfer-Encoding"));
    *ret_encoding = GMIME_CONTENT_ENCODING_DEFAULT;
    if (span_is(name, "base64"))
        *ret_encoding = GMIME_CONTENT_ENCODING_BASE64;
    else if (span_is(name, "quoted-printable"))
        *ret_encoding = GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE;
    else
        return name.len == 0 || strchr("78", name.bytes[0]) != NULL || span_is(name, "binary");
    return true;
}

const char *mime_encoding_name(struct span header)
{
    GMimeContentEncoding encoding;
    read_encoding(header, &encoding);
    return g_mime_content_encoding_to_string(encoding);
}

int mime_decode(const struct mime_entity *leaf, char **ret_bytes, size_t *ret_len, char **ret_reason)
{
    struct span content = leaf->body;
    GMimeContentEncoding encoding;
    bool is_known = read_encoding(leaf->header, &encoding);
    if (ret_reason != NULL && !is_known) {
        struct span name = mime_first_token(mime_find_field(leaf->header, "Content-Transfer-Encoding"));
        return reason_give(ret_reason, -EBADMSG, "Content-Transfer-Encoding: \"%.*s\" is not supported",
                           (int)MIN(name.len, 40), name.bytes);
    }
    if (ret_reason != NULL && encoding == GMIME_CONTENT_ENCODING_BASE64 &&
        !is_whole_base64(content.bytes, content.len))
        return reason_give(ret_reason, -EBADMSG, "the base64 is cut off or damaged");
    /* GMime drops an escape that is cut off at the end of the content. */
    bool ends_in_escape = content.len >= 2 && content.bytes[content.len - 2] == '=' &&
                          !g_ascii_isspace(content.bytes[content.len - 1]);
    if (ret_reason != NULL && encoding == GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE && ends_in_escape)
        return reason_give(ret_reason, -EBADMSG, "the quoted-printable text is cut off");
    GMimeEncoding state;
    g_mime_encoding_init_decode(&state, encoding);
    char *decoded = g_malloc(g_mime_encoding_outlen(&state, content.len) + 1);
    size_t len = content.len > 0 ? g_mime_encoding_step(&state, content.bytes, content.len, decoded) : 0;
    /* Without its padding, GMime would drop the last group of base64. */
    bool lacks_padding = encoding == GMIME_CONTENT_ENCODING_BASE64 && (state.state == 2 || state.state == 3);
    *ret_len =
        len + g_mime_encoding_flush(&state, "==", lacks_padding ? 4 - (size_t)state.state : 0, decoded + len);
    decoded[*ret_len] = '\0';
    *ret_bytes = decoded;
    return 0;
}

/* ---- texts */

struct flowed_line {
    const char *marks; /* quote marks, with the blanks between and after them */
    size_t marks_len;
    size_t depth;        /* number of marks */
    const char *content; /* without the blank that RFC 3676 adds before "From " and ">" */
    size_t content_len;
    const char *line_end; /* "\r\n", "\n", or nothing in the last line */
    size_t line_end_len;
    bool is_apart; /* never joined with another line */
    bool flows;    /* the next line may continue this line */
};

/* Takes a line off the text, which must not be empty. A line that begins with a blank has no quote marks. */
static struct flowed_line take_flowed_line(struct span *text)
{
    struct span line = mime_take_line(text);
    size_t len = line.len;
    len -= len > 0 && line.bytes[len - 1] == '\n';
    len -= len < line.len && len > 0 && line.bytes[len - 1] == '\r';
    struct flowed_line flowed = {.line_end = line.bytes + len, .line_end_len = line.len - len};
    size_t begin = 0;
    while (begin < len && line.bytes[begin] == '>') { /* "> > " or ">> " */
        flowed.depth++;
        begin++;
        if (begin + 1 < len && line.bytes[begin] == ' ' && line.bytes[begin + 1] == '>')
            begin++;
    }
    begin += begin < len && line.bytes[begin] == ' ';
    flowed.marks = line.bytes;
    flowed.marks_len = flowed.depth > 0 ? begin : 0;
    flowed.content = line.bytes + begin;
    flowed.content_len = len - begin;
    bool is_separator = flowed.content_len == 3 && memcmp(flowed.content, "-- ", 3) == 0;
    while (len > begin && (line.bytes[len - 1] == ' ' || line.bytes[len - 1] == '\t'))
        len--;
    flowed.is_apart = is_separator || len == begin;
    flowed.flows = !flowed.is_apart && flowed.content[flowed.content_len - 1] == ' ';
    return flowed;
}

/* A blank line, or a line of another depth, ends a paragraph even if the line before it flows. The line end
 * between these two lines is then kept. */
void flowed_append(GString *out, const char *text, size_t len, bool is_delsp)
{
    struct span rest = {text, len};
    struct flowed_line before = {0};
    while (rest.len > 0) {
        struct flowed_line line = take_flowed_line(&rest);
        if (!before.flows || line.is_apart || line.depth != before.depth) {
            g_string_append_len(out, before.line_end, (gssize)before.line_end_len);
            g_string_append_len(out, line.marks, (gssize)line.marks_len);
        }
        g_string_append_len(out, line.content, (gssize)(line.content_len - (line.flows && is_delsp)));
        before = line;
    }
    g_string_append_len(out, before.line_end, (gssize)before.line_end_len);
}

/* Converts line ends to LF and removes NULs. Returns false if there was a NUL. */
static bool normalise_line_ends(GString *text)
{
    size_t kept = 0;
    bool has_nul = false;
    for (size_t i = 0; i < text->len; i++) {
        bool is_line_end = text->str[i] == '\r' && i + 1 < text->len && text->str[i + 1] == '\n';
        has_nul = has_nul || text->str[i] == '\0';
        if (!is_line_end && text->str[i] != '\0')
            text->str[kept++] = text->str[i];
    }
    g_string_truncate(text, kept);
    return !has_nul;
}

static bool is_flowed(const struct mime_entity *leaf, bool *ret_is_delsp)
{
    g_autofree char *format = mime_read_parameter(leaf->header, "Content-Type", "format");
    g_autofree char *delsp = mime_read_parameter(leaf->header, "Content-Type", "delsp");
    *ret_is_delsp = delsp != NULL && strcasecmp(delsp, "yes") == 0;
    return mime_has_type(leaf, "text/plain") && format != NULL && strcasecmp(format, "flowed") == 0;
}

static int decode_text(const struct mime_entity *leaf, GString *out, char **ret_reason)
{
    g_autofree char *bytes = NULL;
    size_t len = 0;
    int error = mime_decode(leaf, &bytes, &len, ret_reason);
    if (error != 0)
        return error;
    g_autofree char *charset = mime_read_parameter(leaf->header, "Content-Type", "charset");
    const char *label = charset != NULL ? charset : "";
    if (!charset_append_utf8(out, label, strlen(label), bytes, len,
                             ret_reason != NULL ? CHARSET_REFUSE : CHARSET_REPLACE))
        return reason_give(ret_reason, -EBADMSG, "the text cannot be read as the charset it names, \"%.40s\"",
                           label);
    if (!normalise_line_ends(out) && ret_reason != NULL)
        return reason_give(ret_reason, -EBADMSG, "the text holds a NUL character");
    bool is_delsp = false;
    if (is_flowed(leaf, &is_delsp)) {
        g_autoptr(GString) text = g_string_new_len(out->str, (gssize)out->len);
        g_string_truncate(out, 0);
        flowed_append(out, text->str, text->len, is_delsp);
    }
    return 0;
}

static void release_piece(struct mime_piece *piece)
{
    if (piece->plain != NULL)
        g_string_free(piece->plain, true);
    if (piece->html != NULL)
        g_string_free(piece->html, true);
}

void mime_texts_release(struct mime_texts *texts)
{
    for (size_t i = 0; i < texts->len; i++)
        release_piece(&texts->pieces[i]);
    g_free(texts->pieces);
    *texts = (struct mime_texts){0};
}

/* Appends as many whole characters as fit into `max_bytes`. */
static void append_up_to_bound(GString *out, const char *text, size_t len, size_t max_bytes)
{
    g_string_append_len(out, text, (gssize)character_cut(text, len, max_bytes - out->len));
}

/* Appends a text on a new line. */
static void append_piece(GString *out, const char *text, size_t len, size_t max_bytes)
{
    if (out->len > 0 && out->str[out->len - 1] != '\n')
        append_up_to_bound(out, "\n", 1, max_bytes);
    append_up_to_bound(out, text, len, max_bytes);
}

/* Returns the body of the outermost multipart/alternative around the leaf, or NULL. */
static const void *find_alternative(const struct mime_entity *leaf)
{
    const void *outermost = NULL;
    for (const struct mime_entity *around = leaf->around; around != NULL; around = around->around)
        if (mime_has_type(around, "multipart/alternative"))
            outermost = around->body.bytes;
    return outermost;
}

int mime_texts_add(struct mime_texts *texts, const struct mime_entity *leaf, enum mime_role role,
                   char **ret_reason)
{
    g_autoptr(GString) text = g_string_new(NULL);
    int error = decode_text(leaf, text, ret_reason);
    if (error != 0)
        return error;
    const void *alternative = find_alternative(leaf);
    bool is_same_piece =
        alternative != NULL && texts->len > 0 && texts->pieces[texts->len - 1].alternative == alternative;
    if (!is_same_piece) {
        texts->pieces = g_renew(struct mime_piece, texts->pieces, texts->len + 1);
        texts->pieces[texts->len++] = (struct mime_piece){.alternative = alternative};
    }
    struct mime_piece *piece = &texts->pieces[texts->len - 1];
    GString **out = role == MIME_HTML ? &piece->html : &piece->plain;
    if (*out == NULL)
        *out = g_string_new(NULL);
    append_piece(*out, text->str, text->len, SIZE_MAX);
    return 0;
}

static bool is_blank(const char *text)
{
    while (g_ascii_isspace(*text))
        text++;
    return *text == '\0';
}

/* Programs that put files into the text often write blank texts between the files. */
static void drop_blank_pieces(struct mime_texts *texts)
{
    size_t kept = 0;
    for (size_t i = 0; i < texts->len; i++) {
        struct mime_piece *piece = &texts->pieces[i];
        bool is_only_one = kept == 0 && i + 1 == texts->len;
        if (piece->html == NULL && is_blank(piece->plain->str) && !is_only_one)
            release_piece(piece);
        else
            texts->pieces[kept++] = *piece;
    }
    texts->len = kept;
}

static void append_plain_as_html(GString *out, const GString *plain, size_t max_bytes)
{
    static const char begin[] = "<pre style=\"white-space: pre-wrap\">";
    static const char end[] = "</pre>\n";
    g_autofree char *escaped = g_markup_escape_text(plain->str, (gssize)plain->len);
    append_piece(out, begin, sizeof(begin) - 1, max_bytes);
    append_up_to_bound(out, escaped, strlen(escaped), max_bytes);
    append_up_to_bound(out, end, sizeof(end) - 1, max_bytes);
}

static void append_html_as_plain(GString *out, const GString *html, size_t max_bytes)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(max_bytes);
    html_to_text(&text, html->str, html->len);
    append_piece(out, strbuf_str(&text), text.len, max_bytes);
}

/* Joins the texts of this role. With `takes_other`, a piece without a text of this role gives its other text.
 * Returns NULL if there is no text. */
static char *join_texts(const struct mime_texts *texts, enum mime_role role, bool takes_other,
                        size_t max_bytes)
{
    g_autoptr(GString) text = g_string_new(NULL);
    bool has_text = false;
    for (size_t i = 0; i < texts->len; i++) {
        const struct mime_piece *piece = &texts->pieces[i];
        const GString *own = role == MIME_HTML ? piece->html : piece->plain;
        has_text = has_text || own != NULL || takes_other;
        if (own != NULL)
            append_piece(text, own->str, own->len, max_bytes);
        else if (takes_other && role == MIME_HTML)
            append_plain_as_html(text, piece->plain, max_bytes);
        else if (takes_other)
            append_html_as_plain(text, piece->html, max_bytes);
    }
    return has_text ? g_string_free(g_steal_pointer(&text), false) : NULL;
}

void mime_texts_join(struct mime_texts *texts, size_t max_bytes, char **ret_plain, char **ret_html,
                     bool *ret_is_alternative)
{
    drop_blank_pieces(texts);
    bool has_both = false; /* at least one piece has both forms */
    bool has_plain_alone = false;
    bool has_html_alone = false;
    bool is_in_order = true; /* no plain piece follows HTML */
    for (size_t i = 0; i < texts->len; i++) {
        bool has_plain = texts->pieces[i].plain != NULL;
        bool has_html = texts->pieces[i].html != NULL;
        is_in_order = is_in_order && (has_html || !has_html_alone);
        has_both = has_both || (has_plain && has_html);
        has_plain_alone = has_plain_alone || !has_html;
        has_html_alone = has_html_alone || !has_plain;
    }
    bool is_mixed = has_both ? has_plain_alone || has_html_alone : !is_in_order;
    *ret_is_alternative = has_both || is_mixed;
    *ret_plain = join_texts(texts, MIME_PLAIN, is_mixed, max_bytes);
    *ret_html = join_texts(texts, MIME_HTML, is_mixed, max_bytes);
}
