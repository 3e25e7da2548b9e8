/* SPDX-License-Identifier: MIT */
/*
 * A value is made flat first: unfolded, without the quotes of its strings. Then its encoded words are decoded
 * one by one, and their bytes are joined before the charset is applied. Decoded text is never decoded again.
 */
#include "mail/header_text.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/strbuf.h"
#include "mail/charset.h"

enum {
    CHARSET_MAX_BYTES = 60, /* length of the charset of an encoded word, with its language */
    PIECES_MAX = 100,       /* pieces of a parameter that are read */
    GROWTH_MAX = 16,        /* maximum bytes of text from one byte of a header */
};

struct encoded_word {
    const char *charset;
    size_t charset_len;
    bool is_base64; /* else similar to quoted-printable */
    const char *content;
    size_t content_len;
    const char *end; /* after the "?=" */
};

struct decoding {
    struct strbuf text;
    struct strbuf bytes; /* decoded from neighbouring encoded words of one charset */
    const char *charset; /* charset of `bytes`; NULL if there are no bytes */
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

/* Reads the encoded word at `start`. A hostile value can have thousands of "=?": *has_no_end, which is set if
 * the rest of the value has no "?=", prevents a search for the end of each. */
static bool read_word(const char *start, const char *end, bool *has_no_end, struct encoded_word *ret_word)
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

/* Decodes bytes that are written as an escape character and two hexadecimal digits. */
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

/* Decodes base64. Padding in the middle begins a new group of four; at the end it may be missing. */
static void append_base64(struct strbuf *bytes, const char *text, size_t len)
{
    guchar decoded[3 * 64 + 3];
    int state = 0;
    guint save = 0;
    for (size_t step; len > 0; text += step, len -= step) {
        step = len < 4 * 64 ? len : 4 * 64;
        strbuf_append(bytes, decoded, g_base64_decode_step(text, step, decoded, &state, &save));
    }
    size_t digits = (size_t)abs(state); /* number in the last group; `state` is negative if it has padding */
    if (digits >= 2)
        strbuf_append(bytes, decoded, g_base64_decode_step("==", 4 - digits, decoded, &state, &save));
}

static void append_words(struct decoding *decoding)
{
    if (decoding->charset != NULL)
        charset_append_utf8(&decoding->text, decoding->charset, decoding->charset_len,
                            strbuf_str(&decoding->bytes), decoding->bytes.len, CHARSET_REPLACE);
    decoding->charset = NULL;
    strbuf_clear(&decoding->bytes);
}

/* Appends the text before, between or after encoded words. Drops text between two words if it is blank. */
static void append_plain(struct decoding *decoding, const char *start, const char *end, bool is_before_word)
{
    size_t len = (size_t)(end - start);
    size_t spaces = 0;
    while (spaces < len && start[spaces] == ' ')
        spaces++;
    if (is_before_word && spaces == len && decoding->charset != NULL)
        return;
    append_words(decoding);
    charset_append_utf8(&decoding->text, NULL, 0, start, len, CHARSET_REPLACE);
}

static int take_text(struct strbuf *text, char **ret_text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] == '\t' || text->data[i] == '\0')
            text->data[i] = ' ';
    char *taken = strbuf_take(text, NULL);
    if (taken == NULL)
        return -ENOMEM;
    *ret_text = taken;
    return 0;
}

static int decode_words(const struct strbuf *flat, char **ret_text)
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
        if (!read_word(at, end, &has_no_end, &word)) {
            at++;
            continue;
        }
        append_plain(&decoding, plain, at, true);
        bool is_same = decoding.charset != NULL && decoding.charset_len == word.charset_len &&
                       g_ascii_strncasecmp(decoding.charset, word.charset, word.charset_len) == 0;
        if (!is_same)
            append_words(&decoding);
        decoding.charset = word.charset;
        decoding.charset_len = word.charset_len;
        if (word.is_base64)
            append_base64(&decoding.bytes, word.content, word.content_len);
        else
            append_escaped(&decoding.bytes, word.content, word.content_len, '=');
        at = plain = word.end;
    }
    append_plain(&decoding, plain, end, false);

    return decoding.bytes.error != 0 ? decoding.bytes.error : take_text(&decoding.text, ret_text);
}

static int decode_stripped(const struct strbuf *flat, char **ret_text)
{
    int error = decode_words(flat, ret_text);
    if (error == 0)
        g_strstrip(*ret_text);
    return error;
}

int header_text_decode(const char *value, size_t len, char **ret_text)
{
    _cleanup_strbuf_ struct strbuf flat = STRBUF_INIT(len);
    for (size_t i = 0; i < len; i++) {
        bool is_fold =
            (value[i] == '\r' || value[i] == '\n') && i + 1 < len && character_is_blank(value[i + 1]);
        if (!is_fold)
            strbuf_append_char(&flat, character_is_blank(value[i]) ? ' ' : value[i]);
    }
    return decode_stripped(&flat, ret_text);
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
        } else if (!is_quoted && value[i] == '=' && read_word(value + i, value + len, &has_no_end, &word)) {
            strbuf_append(&flat, value + i, (size_t)(word.end - (value + i))); /* a word may hold quotes */
            i = (size_t)(word.end - value) - 1;
        } else if (!character_is_blank(value[i])) {
            strbuf_append_char(&flat, value[i]);
        } else if (is_quoted ? value[i] != '\r' && value[i] != '\n'
                             : flat.len > 0 && flat.data[flat.len - 1] != ' ') {
            strbuf_append_char(&flat, ' ');
        }
    }
    return decode_stripped(&flat, ret_text);
}

/* ---- quoted strings and comments */

const char *header_text_skip_quoted(const char *text)
{
    for (text++; *text != '\0'; text++) {
        if (*text == '"')
            return text + 1;
        text += *text == '\\' && text[1] != '\0';
    }
    return NULL;
}

/* Counts nested comments instead of recursing, so that any depth is allowed. */
const char *header_text_skip_comment(const char *text)
{
    size_t depth = 0;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0')
            text++;
        else if (*text == '(')
            depth++;
        else if (*text == ')' && --depth == 0)
            return text + 1;
    }
    return NULL;
}

/* ---- parameters */

/* A parameter has one piece, or several with numbers: "filename*0". */
struct piece {
    const char *value; /* NULL if there is no piece of this number */
    size_t len;
    bool is_escaped; /* RFC 2231: has "%" and hexadecimal digits; the first piece begins with the charset */
};

struct parameter {
    struct piece plain; /* the parameter without a star in its name */
    struct piece pieces[PIECES_MAX];
    size_t max_bytes; /* bound for all pieces together: the length of the header's value */
};

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && character_is_blank(*at))
        at++;
    return at;
}

/* Returns the closing quote of the string at `at`, or `end`. */
static const char *skip_quoted(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end && (at[1] == '"' || at[1] == '\\'))
            at++;
    return at;
}

/* Returns the next semicolon outside quotes, or the end. */
static const char *skip_to_semicolon(const char *at, const char *end)
{
    for (; at < end && *at != ';'; at++)
        if (*at == '"') {
            at = skip_quoted(at, end);
            if (at == end)
                break;
        }
    return at;
}

/* Finds the piece by the text between name and "=": "", "*", "*2" or "*2*"; returns NULL for another text. */
static struct piece *find_piece(struct parameter *parameter, const char *suffix, const char *end)
{
    bool is_escaped = false;
    size_t number = 0;
    if (suffix == end)
        return &parameter->plain;
    if (*suffix++ != '*')
        return NULL;
    if (suffix == end)
        is_escaped = true;
    else if (!g_ascii_isdigit(*suffix))
        return NULL;
    for (; suffix < end && g_ascii_isdigit(*suffix) && number < PIECES_MAX; suffix++)
        number = number * 10 + (size_t)(*suffix - '0');
    if (suffix < end && *suffix == '*') {
        is_escaped = true;
        suffix++;
    }
    if (suffix != end || number >= PIECES_MAX)
        return NULL;
    if (parameter->pieces[number].value == NULL)
        parameter->pieces[number].is_escaped = is_escaped;
    return &parameter->pieces[number];
}

static void read_parameter(struct parameter *parameter, const char *at, const char *end, const char *name)
{
    size_t name_len = strlen(name);
    const char *equals = memchr(at, '=', (size_t)(end - at));
    if (equals == NULL || (size_t)(equals - at) < name_len || g_ascii_strncasecmp(at, name, name_len) != 0)
        return;
    const char *name_end = equals;
    while (name_end > at + name_len && character_is_blank(name_end[-1]))
        name_end--;
    struct piece *piece = find_piece(parameter, at + name_len, name_end);
    if (piece == NULL || piece->value != NULL)
        return;
    const char *value = skip_blank(equals + 1, end);
    if (value < end && *value == '"')
        end = skip_quoted(value, end);
    else
        while (end > value && character_is_blank(end[-1]))
            end--;
    piece->value = value;
    piece->len = (size_t)(end - value);
}

/* Appends a piece without its quotes and folds. */
static void append_piece(struct strbuf *flat, const struct piece *piece)
{
    const char *at = piece->value;
    const char *end = at + piece->len;
    bool is_quoted = at < end && *at == '"';
    for (at += is_quoted; at < end; at++) {
        bool is_pair = is_quoted && *at == '\\' && at + 1 < end && (at[1] == '"' || at[1] == '\\');
        at += is_pair;
        if (*at != '\r' && *at != '\n')
            strbuf_append_char(flat, *at == '\t' ? ' ' : *at);
    }
}

/* Decodes pieces of which at least one is escaped. The pieces are joined before the charset of the first
 * piece is applied, since a character may begin in one piece and end in the next. */
static int decode_pieces(const struct parameter *parameter, char **ret_text)
{
    const struct piece *pieces = parameter->pieces;
    _cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT(parameter->max_bytes);
    _cleanup_strbuf_ struct strbuf charset = STRBUF_INIT(parameter->max_bytes);
    for (size_t i = 0; i < PIECES_MAX && pieces[i].value != NULL; i++) {
        _cleanup_strbuf_ struct strbuf flat = STRBUF_INIT(pieces[i].len);
        append_piece(&flat, &pieces[i]);
        const char *at = strbuf_str(&flat);
        const char *label_end = i == 0 ? strchr(at, '\'') : NULL;
        const char *language_end = label_end == NULL ? NULL : strchr(label_end + 1, '\'');
        if (pieces[i].is_escaped && language_end != NULL) {
            strbuf_append(&charset, at, (size_t)(label_end - at));
            at = language_end + 1;
        }
        size_t len = flat.len - (size_t)(at - strbuf_str(&flat));
        if (pieces[i].is_escaped)
            append_escaped(&bytes, at, len, '%');
        else
            strbuf_append(&bytes, at, len);
        if (flat.error != 0)
            return flat.error;
    }
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(GROWTH_MAX * (bytes.len + 1));
    if (bytes.error == 0 && charset.error == 0)
        charset_append_utf8(&text, strbuf_str(&charset), charset.len, strbuf_str(&bytes), bytes.len,
                            CHARSET_REPLACE);
    return bytes.error != 0 ? bytes.error : take_text(&text, ret_text);
}

int header_text_decode_parameter(const char *value, size_t len, const char *name, char **ret_text)
{
    struct parameter parameter = {.max_bytes = len};
    const char *end = value + len;
    for (const char *at = skip_to_semicolon(value, end); at < end;) {
        at = skip_blank(at + 1, end);
        const char *next = skip_to_semicolon(at, end);
        read_parameter(&parameter, at, next, name);
        at = next;
    }
    /* If a sender writes the parameter with and without pieces, the pieces have the better text. */
    const struct piece *pieces = parameter.pieces;
    _cleanup_strbuf_ struct strbuf flat = STRBUF_INIT(parameter.max_bytes);
    for (size_t i = 0; i < PIECES_MAX && pieces[i].value != NULL; i++) {
        if (pieces[i].is_escaped)
            return decode_pieces(&parameter, ret_text);
        append_piece(&flat, &pieces[i]);
    }
    if (pieces[0].value == NULL && parameter.plain.value == NULL)
        return -ENOENT;
    if (pieces[0].value == NULL)
        append_piece(&flat, &parameter.plain);
    return decode_words(&flat, ret_text);
}
