/* SPDX-License-Identifier: MIT */
/*
 * A value is made flat first: unfolded, without the quotes of its strings. Then its encoded words are decoded
 * one by one, and their bytes joined before they are text. What was decoded is not looked at again, so that
 * no text turns into another by being read twice.
 */
#include "mail/header_text.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>

#include "base/strbuf.h"
#include "mail/charset.h"

enum {
    CHARSET_MAX_BYTES = 60, /* of an encoded word, with a language behind it */
    GROWTH_MAX = 16,        /* bytes of text that one byte of a header may become */
};

struct encoded_word {
    const char *charset;
    size_t charset_len;
    bool is_base64; /* or like quoted-printable */
    const char *content;
    size_t content_len;
    const char *end; /* behind it */
};

struct decoding {
    struct strbuf text;
    struct strbuf bytes; /* of encoded words beside each other, in one charset */
    const char *charset; /* of these; NULL: there are none */
    size_t charset_len;
};

static void decoding_release(struct decoding *decoding)
{
    strbuf_release(&decoding->text);
    strbuf_release(&decoding->bytes);
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!g_ascii_isgraph(text[i]))
            return false;
    return len > 0;
}

/* The encoded word that starts here. A hostile value can have an "=?" in every few bytes: *has_no_end keeps
 * them from each being looked behind for an end that is not there. */
static bool find_word(const char *start, const char *end, bool *has_no_end, struct encoded_word *ret_word)
{
    if (*has_no_end || end - start < 2 || start[1] != '?')
        return false;
    const char *charset = start + 2;
    size_t left = (size_t)(end - charset);
    const char *mark = memchr(charset, '?', left < CHARSET_MAX_BYTES ? left : CHARSET_MAX_BYTES);
    if (mark == NULL || !is_token(charset, (size_t)(mark - charset)) || end - mark < 3 || mark[2] != '?' ||
        strchr("bBqQ", mark[1]) == NULL)
        return false;
    const char *content = mark + 3;
    const char *content_end = memmem(content, (size_t)(end - content), "?=", 2);
    *has_no_end = content_end == NULL;
    if (content_end == NULL)
        return false;

    const char *language = memchr(charset, '*', (size_t)(mark - charset)); /* RFC 2231 section 5 */
    *ret_word = (struct encoded_word){
        .charset = charset,
        .charset_len = (size_t)((language != NULL ? language : mark) - charset),
        .is_base64 = mark[1] == 'b' || mark[1] == 'B',
        .content = content,
        .content_len = (size_t)(content_end - content),
        .end = content_end + 2,
    };
    return true;
}

/* Bytes, some of which are written as an escape character and two hexadecimal digits. */
static void append_escaped(struct strbuf *bytes, const char *text, size_t len, char escape)
{
    for (size_t i = 0; i < len; i++) {
        bool is_escaped = text[i] == escape && len - i > 2 && g_ascii_isxdigit(text[i + 1]) &&
                          g_ascii_isxdigit(text[i + 2]);
        if (is_escaped) {
            int byte = g_ascii_xdigit_value(text[i + 1]) << 4 | g_ascii_xdigit_value(text[i + 2]);
            strbuf_append_char(bytes, (char)byte);
            i += 2;
        } else {
            strbuf_append_char(bytes, text[i] == '_' && escape == '=' ? ' ' : text[i]);
        }
    }
}

/* Padding in the middle begins a new group of four, and at the end it may be missing. */
static void append_base64(struct strbuf *bytes, const char *text, size_t len)
{
    guchar decoded[3 * 64 + 3];
    int state = 0;
    guint save = 0;
    for (size_t step; len > 0; text += step, len -= step) {
        step = len < 4 * 64 ? len : 4 * 64;
        strbuf_append(bytes, decoded, g_base64_decode_step(text, step, decoded, &state, &save));
    }
    if (state == 2 || state == 3)
        strbuf_append(bytes, decoded, g_base64_decode_step("==", (gsize)(4 - state), decoded, &state, &save));
}

static void end_words(struct decoding *decoding)
{
    if (decoding->charset != NULL)
        charset_append(&decoding->text, decoding->charset, decoding->charset_len,
                       strbuf_str(&decoding->bytes), decoding->bytes.len, CHARSET_REPLACE);
    decoding->charset = NULL;
    strbuf_clear(&decoding->bytes);
}

static void append_word(struct decoding *decoding, const struct encoded_word *word)
{
    bool is_same = decoding->charset != NULL && decoding->charset_len == word->charset_len &&
                   g_ascii_strncasecmp(decoding->charset, word->charset, word->charset_len) == 0;
    if (!is_same)
        end_words(decoding);
    decoding->charset = word->charset;
    decoding->charset_len = word->charset_len;
    if (word->is_base64)
        append_base64(&decoding->bytes, word->content, word->content_len);
    else
        append_escaped(&decoding->bytes, word->content, word->content_len, '=');
}

/* What stands before an encoded word, between two, or behind the last. */
static void append_plain(struct decoding *decoding, const char *start, const char *end, bool is_before_word)
{
    size_t len = (size_t)(end - start);
    size_t spaces = 0;
    while (spaces < len && start[spaces] == ' ')
        spaces++;
    if (is_before_word && spaces == len && decoding->charset != NULL)
        return;
    end_words(decoding);
    charset_append(&decoding->text, NULL, 0, start, len, CHARSET_REPLACE);
}

/* Decodes a flat value. */
static int decode(const struct strbuf *flat, char **ret_text)
{
    if (flat->error != 0)
        return flat->error;
    size_t max_bytes = GROWTH_MAX * (flat->len + 1);
    __attribute__((cleanup(decoding_release))) struct decoding decoding = {
        .text = STRBUF_INIT(max_bytes),
        .bytes = STRBUF_INIT(max_bytes),
    };
    const char *plain = strbuf_str(flat);
    const char *end = plain + flat->len;
    bool has_no_end = false;
    struct encoded_word word;
    for (const char *at = plain; (at = memchr(at, '=', (size_t)(end - at))) != NULL;) {
        if (!find_word(at, end, &has_no_end, &word)) {
            at++;
            continue;
        }
        append_plain(&decoding, plain, at, true);
        append_word(&decoding, &word);
        at = plain = word.end;
    }
    append_plain(&decoding, plain, end, false);

    for (size_t i = 0; i < decoding.text.len; i++)
        if (decoding.text.data[i] == '\t' || decoding.text.data[i] == '\0')
            decoding.text.data[i] = ' ';
    char *text = decoding.bytes.error != 0 ? NULL : strbuf_take(&decoding.text, NULL);
    if (text == NULL)
        return -ENOMEM;
    *ret_text = g_strstrip(text);
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int header_text_decode(const char *value, size_t len, char **ret_text)
{
    _cleanup_strbuf_ struct strbuf flat = STRBUF_INIT(len);
    for (size_t i = 0; i < len; i++) {
        bool is_fold = (value[i] == '\r' || value[i] == '\n') && i + 1 < len && is_blank(value[i + 1]);
        if (!is_fold)
            strbuf_append_char(&flat, is_blank(value[i]) ? ' ' : value[i]);
    }
    return decode(&flat, ret_text);
}

int header_text_decode_phrase(const char *value, size_t len, char **ret_text)
{
    _cleanup_strbuf_ struct strbuf flat = STRBUF_INIT(len);
    bool is_quoted = false;
    bool has_no_end = false;
    struct encoded_word word;
    for (size_t i = 0; i < len; i++) {
        if (value[i] == '"') {
            is_quoted = !is_quoted;
        } else if (is_quoted && value[i] == '\\' && i + 1 < len) {
            strbuf_append_char(&flat, value[++i]);
        } else if (!is_quoted && value[i] == '=' && find_word(value + i, value + len, &has_no_end, &word)) {
            strbuf_append(&flat, value + i, (size_t)(word.end - (value + i))); /* it may hold quotes */
            i = (size_t)(word.end - value) - 1;
        } else if (!is_blank(value[i])) {
            strbuf_append_char(&flat, value[i]);
        } else if (is_quoted ? value[i] != '\r' && value[i] != '\n'
                             : flat.len > 0 && flat.data[flat.len - 1] != ' ') {
            strbuf_append_char(&flat, ' ');
        }
    }
    return decode(&flat, ret_text);
}
