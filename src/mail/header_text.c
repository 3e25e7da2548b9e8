/* SPDX-License-Identifier: MIT */
/*
 * A value is made flat first: unfolded, without the quotes of its strings. Then its encoded words are decoded
 * one by one, and their bytes are joined before the charset is applied. Decoded text is never decoded again.
 */
#include "mail/header_text.h"

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "mail/charset.h"

enum {
    CHARSET_MAX_BYTES = 60, /* length of the charset of an encoded word, with its language */
    PIECES_MAX = 100,       /* pieces of a parameter that are read */
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
    GString *text;
    GString *bytes;      /* decoded from neighbouring encoded words of one charset */
    const char *charset; /* charset of `bytes`; NULL if there are no bytes */
    size_t charset_len;
};

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
static void append_escaped(GString *bytes, const char *text, size_t len, char escape)
{
    for (size_t i = 0; i < len; i++) {
        bool is_escaped = text[i] == escape && len - i > 2 && g_ascii_isxdigit(text[i + 1]) &&
                          g_ascii_isxdigit(text[i + 2]);
        if (is_escaped) {
            int byte = g_ascii_xdigit_value(text[i + 1]) << 4 | g_ascii_xdigit_value(text[i + 2]);
            g_string_append_c(bytes, (char)byte);
            i += 2;
        } else {
            g_string_append_c(bytes, text[i] == '_' && escape == '=' ? ' ' : text[i]);
        }
    }
}

/* Decodes base64. Padding in the middle begins a new group of four; at the end it may be missing. */
static void append_base64(GString *bytes, const char *text, size_t len)
{
    int state = 0;
    guint save = 0;
    g_autofree guchar *decoded = g_malloc(len / 4 * 3 + 6);
    size_t decoded_len = g_base64_decode_step(text, len, decoded, &state, &save);
    size_t digits = (size_t)abs(state); /* number in the last group; `state` is negative if it has padding */
    if (digits >= 2)
        decoded_len += g_base64_decode_step("==", 4 - digits, decoded + decoded_len, &state, &save);
    g_string_append_len(bytes, (const char *)decoded, (gssize)decoded_len);
}

static void append_words(struct decoding *decoding)
{
    if (decoding->charset != NULL)
        charset_append_utf8(decoding->text, decoding->charset, decoding->charset_len, decoding->bytes->str,
                            decoding->bytes->len, CHARSET_REPLACE);
    decoding->charset = NULL;
    g_string_truncate(decoding->bytes, 0);
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
    charset_append_utf8(decoding->text, NULL, 0, start, len, CHARSET_REPLACE);
}

static char *take_text(GString *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->str[i] == '\t' || text->str[i] == '\0')
            text->str[i] = ' ';
    return g_string_free(text, false);
}

static char *decode_words(const char *plain, size_t len)
{
    g_autoptr(GString) bytes = g_string_new(NULL);
    struct decoding decoding = {.text = g_string_sized_new(len), .bytes = bytes};
    const char *end = plain + len;
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
            append_base64(bytes, word.content, word.content_len);
        else
            append_escaped(bytes, word.content, word.content_len, '=');
        at = plain = word.end;
    }
    append_plain(&decoding, plain, end, false);
    return take_text(decoding.text);
}

char *header_text_decode(const char *value, size_t len)
{
    g_autoptr(GString) flat = g_string_sized_new(len);
    for (size_t i = 0; i < len; i++) {
        bool is_fold =
            (value[i] == '\r' || value[i] == '\n') && i + 1 < len && character_is_blank(value[i + 1]);
        if (!is_fold)
            g_string_append_c(flat, character_is_blank(value[i]) ? ' ' : value[i]);
    }
    return g_strstrip(decode_words(flat->str, flat->len));
}

char *header_text_decode_phrase(const char *value, size_t len)
{
    g_autoptr(GString) flat = g_string_sized_new(len);
    bool is_quoted = false;
    bool has_no_end = false;
    struct encoded_word word;
    for (size_t i = 0; i < len; i++) {
        if (value[i] == '"') {
            is_quoted = !is_quoted;
        } else if (is_quoted && value[i] == '\\' && i + 1 < len) {
            g_string_append_c(flat, value[++i]);
        } else if (!is_quoted && value[i] == '=' && read_word(value + i, value + len, &has_no_end, &word)) {
            g_string_append_len(flat, value + i, word.end - (value + i)); /* a word may hold quotes */
            i = (size_t)(word.end - value) - 1;
        } else if (!character_is_blank(value[i])) {
            g_string_append_c(flat, value[i]);
        } else if (is_quoted ? value[i] != '\r' && value[i] != '\n'
                             : flat->len > 0 && flat->str[flat->len - 1] != ' ') {
            g_string_append_c(flat, ' ');
        }
    }
    return g_strstrip(decode_words(flat->str, flat->len));
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

/* ---- parameters: "filename=", or pieces "filename*0=", "filename*1=". A piece "filename*0*=" (or
 * "filename*=", if it is the only one) has bytes escaped by "%", and the first piece then begins with their
 * charset. */

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && character_is_blank(*at))
        at++;
    return at;
}

static void free_string(void *string)
{
    g_string_free(string, true);
}

/* Takes a value off the text, up to the next semicolon outside quotes. Leaves out folds, the quotes, and what
 * is behind them; tabs become blanks. */
static GString *take_value(const char **text, const char *end)
{
    GString *value = g_string_new(NULL);
    const char *at = skip_blank(*text, end);
    bool is_string = at < end && *at == '"';
    unsigned int quotes = 0;
    for (; at < end && (*at != ';' || quotes % 2 == 1); at++) {
        bool is_pair = quotes % 2 == 1 && *at == '\\' && at + 1 < end && (at[1] == '"' || at[1] == '\\');
        bool is_quote = *at == '"';
        at += is_pair;
        quotes += is_quote;
        bool is_content = is_string ? quotes == 1 && !is_quote : true;
        if (is_content && *at != '\r' && *at != '\n')
            g_string_append_c(value, *at == '\t' ? ' ' : *at);
    }
    while (!is_string && value->len > 0 && value->str[value->len - 1] == ' ')
        g_string_truncate(value, value->len - 1);
    *text = at;
    return value;
}

/* Collects the values of the parameters whose names begin with `name`. A key is the rest of such a
 * name: "", "*", "*2", "*2*". The first of two parameters with the same name counts. Longer keys are left
 * out: a sender can choose thousands that have the same hash. */
static GHashTable *collect_pieces(const char *at, const char *end, const char *name)
{
    GHashTable *pieces = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_string);
    size_t name_len = strlen(name);
    free_string(take_value(&at, end)); /* before the parameters */
    while (at < end) {
        const char *start = skip_blank(at + 1, end);
        for (at = start; at < end && *at != '=' && *at != ';'; at++)
            ;
        if (at == end || *at == ';')
            continue;
        g_autofree char *key = g_strchomp(g_strndup(start, (size_t)(at - start)));
        at++;
        GString *value = take_value(&at, end);
        bool is_piece = g_ascii_strncasecmp(key, name, name_len) == 0 &&
                        strlen(key + name_len) <= strlen("*99*"); /* PIECES_MAX */
        if (is_piece && !g_hash_table_contains(pieces, key + name_len))
            g_hash_table_insert(pieces, g_strdup(key + name_len), value);
        else
            free_string(value);
    }
    return pieces;
}

static const GString *find_piece(GHashTable *pieces, unsigned int number, bool *ret_is_escaped)
{
    char key[16];
    snprintf(key, sizeof(key), "*%u*", number);
    const GString *piece = g_hash_table_lookup(pieces, key);
    if (piece == NULL && number == 0)
        piece = g_hash_table_lookup(pieces, "*");
    *ret_is_escaped = piece != NULL;
    key[strlen(key) - 1] = '\0';
    return piece != NULL ? piece : g_hash_table_lookup(pieces, key);
}

/* If a sender writes the parameter with and without pieces, the pieces have the better text. */
char *header_text_decode_parameter(const char *value, size_t len, const char *name)
{
    g_autoptr(GHashTable) pieces = collect_pieces(value, value + len, name);
    g_autoptr(GString) bytes = g_string_new(NULL);
    bool is_escaped = false;
    const GString *piece = find_piece(pieces, 0, &is_escaped);
    if (piece == NULL) {
        const GString *plain = g_hash_table_lookup(pieces, "");
        return plain == NULL ? NULL : decode_words(plain->str, plain->len);
    }
    const char *charset = is_escaped ? piece->str : NULL;
    const char *charset_end = is_escaped ? strchr(charset, '\'') : NULL;
    const char *language_end = charset_end != NULL ? strchr(charset_end + 1, '\'') : NULL;
    size_t begin = language_end != NULL ? (size_t)(language_end + 1 - charset) : 0;
    for (unsigned int i = 0; piece != NULL && i < PIECES_MAX; begin = 0) {
        if (is_escaped)
            append_escaped(bytes, piece->str + begin, piece->len - begin, '%');
        else
            g_string_append_len(bytes, piece->str, (gssize)piece->len);
        piece = find_piece(pieces, ++i, &is_escaped);
    }
    if (charset == NULL)
        return decode_words(bytes->str, bytes->len);
    /* The pieces are joined before the charset is applied: a character may be in two of them. */
    GString *text = g_string_new(NULL);
    size_t charset_len = language_end != NULL ? (size_t)(charset_end - charset) : 0;
    charset_append_utf8(text, charset, charset_len, bytes->str, bytes->len, CHARSET_REPLACE);
    return take_text(text);
}
