/* SPDX-License-Identifier: MIT */
/*
 * Reads lists of addresses in one pass. Separators (`,` `;` `:`) outside quotes, brackets and comments divide
 * the text into items. scan_item() finds the tokens of an item first: if the item has "<…>", all text before
 * the "<" is the name; else the whole item has to be an address.
 *
 * GMime can parse such lists, but only for display: it drops invalid text, rewrites quotes, and turns xn--
 * domains into Unicode.
 */
#include "mail/address.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/header_text.h"
#include "mail/json_writer.h"

/* ---------------------------------------------------------------- lists */

static void truncate_list(struct address_list *list, size_t len)
{
    for (; list->len > len; list->len--) {
        free(list->items[list->len - 1].address);
        free(list->items[list->len - 1].name);
    }
    if (len == 0)
        free(TAKE_PTR(list->items));
}

void address_list_release(struct address_list *list)
{
    truncate_list(list, 0);
    free(list->unusable);
    *list = (struct address_list){0};
}

void address_list_write(const struct address_list *list, struct json_writer *writer, const char *key)
{
    json_key(writer, key);
    json_begin_array(writer);
    for (size_t i = 0; i < list->len; i++) {
        json_begin_object(writer);
        json_member_string(writer, "address", list->items[i].address);
        json_member_string(writer, "name", list->items[i].name);
        json_end_object(writer);
    }
    if (list->unusable != NULL)
        json_write_string(writer, list->unusable);
    json_end_array(writer);
}

static void append(struct address_list *list, const char *address, const char *name)
{
    bool is_full = (list->len & (list->len - 1)) == 0; /* capacities are powers of two */
    if (is_full)
        list->items = g_renew(struct address, list->items, list->len == 0 ? 1 : list->len * 2);
    bool has_name = name != NULL && name[0] != '\0';
    list->items[list->len++] =
        (struct address){.address = g_strdup(address), .name = has_name ? g_strdup(name) : NULL};
}

bool address_name_is_valid(const char *name)
{
    return !character_has(name, CHARACTER_CONTROL | CHARACTER_INVALID);
}

int address_list_append(struct address_list *list, const char *address, const char *name)
{
    if (!address_is_valid(address) || (name != NULL && !address_name_is_valid(name)))
        return -EBADMSG;
    append(list, address, name);
    return 0;
}

bool address_equals(const char *one, const char *other)
{
    return g_ascii_strcasecmp(one, other) == 0;
}

/* ---------------------------------------------------------------- tokens */

/* Each function below takes the beginning of a token and returns its end; NULL if the token has no end, or is
 * not allowed at its position. Texts end at a NUL. */

/* Skips blanks and comments. */
static const char *skip_gap(const char *c)
{
    while (c != NULL && (character_is_blank(*c) || *c == '('))
        c = *c == '(' ? header_text_skip_comment(c) : c + 1;
    return c;
}

/* Skips a literal such as `[192.0.2.1]`. */
static const char *skip_literal(const char *c)
{
    c++;
    c += strspn(c, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.:-");
    return *c == ']' ? c + 1 : NULL;
}

/* Skips an encoded word, also with characters that are forbidden in it: "=?utf-8?q?Smith,_John?=". The search
 * ends at the first "?" of the word's text, so that many words without an end are scanned in linear time. */
static const char *skip_encoded_word(const char *c)
{
    size_t charset_len = strncmp(c, "=?", 2) == 0 ? strcspn(c + 2, "?<>@,;:()\" \t\r\n") : 0;
    const char *coding = c + 2 + charset_len;
    if (charset_len == 0 || *coding != '?' || coding[1] == '\0' || strchr("bBqQ", coding[1]) == NULL ||
        coding[2] != '?')
        return NULL;
    const char *end = coding + 3 + strcspn(coding + 3, "? \t\r\n");
    return strncmp(end, "?=", 2) == 0 ? end + 2 : NULL;
}

/* Skips any token other than blanks and separators. */
static const char *skip_token(const char *c)
{
    const char *literal = *c == '[' ? skip_literal(c) : NULL;
    if (literal != NULL || *c == '@')
        return literal != NULL ? literal : c + 1;
    if (*c == '"' || *c == '(')
        return *c == '"' ? header_text_skip_quoted(c) : header_text_skip_comment(c);
    const char *end = skip_encoded_word(c);
    if (end != NULL)
        return end;
    end = c + strcspn(c, "\"(),:;<>@ \t\r\n");
    return end == c ? NULL : end;
}

/* ---------------------------------------------------------------- one address */

/* An atom consists of letters, digits, these characters (RFC 5322 section 3.2.3) and non-ASCII characters. */
static size_t atom_len(const char *c)
{
    size_t len = 0;
    while (g_ascii_isalnum(c[len]) || (unsigned char)c[len] >= 0x80 ||
           (c[len] != '\0' && strchr("!#$%&'*+-/=?^_`{|}~", c[len]) != NULL))
        len++;
    return len;
}

/* Appends the text without its line ends, since they only fold long lines. */
static void append_unfolded(struct strbuf *out, const char *start, const char *end)
{
    for (const char *c = start; c < end; c++)
        if (*c != '\r' && *c != '\n')
            strbuf_append_char(out, *c);
}

/* Reads atoms, dots and, with `may_be_quoted`, quoted strings, with gaps before and between them. There must
 * be at least one word, and a dot between any two words. */
static const char *read_words(const char *c, bool may_be_quoted, struct strbuf *out)
{
    const char *end = c;
    bool is_after_word = false;
    bool has_word = false;
    while ((c = skip_gap(end)) != NULL) {
        bool is_quoted = *c == '"' && may_be_quoted;
        size_t len = *c == '.' ? 1 : atom_len(c);
        if (len == 0 && !is_quoted)
            return has_word ? end : NULL;
        if (is_after_word && *c != '.')
            return NULL;
        end = is_quoted ? header_text_skip_quoted(c) : c + len;
        if (end == NULL)
            return NULL;
        is_after_word = *c != '.';
        has_word = has_word || is_after_word;
        append_unfolded(out, c, end);
    }
    return NULL;
}

/* Returns true for a literal, or for non-empty labels of letters, digits, "-", "_" and non-ASCII. */
static bool is_domain(const char *text)
{
    if (text[0] == '[')
        return true;
    if (text[0] == '.' || text[0] == '-' || strstr(text, "..") != NULL || text[strlen(text) - 1] == '.')
        return false;
    for (const char *c = text; *c != '\0'; c++)
        if (!g_ascii_isalnum(*c) && strchr("-_.", *c) == NULL && (unsigned char)*c < 0x80)
            return false;
    return true;
}

/* Returns true if the text is UTF-8 and all characters are visible, or blanks as in quoted strings. Invisible
 * characters would make two addresses look alike; U+FFFD replaces damaged text. */
static bool is_visible(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL))
        return false;
    for (const char *c = text; *c != '\0'; c = g_utf8_next_char(c)) {
        gunichar character = g_utf8_get_char(c);
        bool is_blank_or_graph =
            character == ' ' || (g_unichar_isgraph(character) && !g_unichar_isspace(character));
        if (!is_blank_or_graph || character == 0xfffd)
            return false;
    }
    return true;
}

/* Reads `local@domain` with gaps before and within it, and appends it to `address` without the gaps. A local
 * part alone gets `domain`, if that is not NULL. Returns the end; NULL if there is no address. */
static const char *read_address(const char *text, const char *domain, struct strbuf *address)
{
    const char *local_end = read_words(text, true, address);
    const char *at = skip_gap(local_end);
    bool has_domain = at != NULL && *at == '@';
    const char *start = has_domain ? skip_gap(at + 1) : NULL;
    if (!has_domain && at != NULL && domain != NULL) {
        strbuf_appendf(address, "@%s", domain);
        return address->error == 0 && is_visible(strbuf_str(address)) ? local_end : NULL;
    }
    if (start == NULL)
        return NULL;
    strbuf_append_char(address, '@');
    size_t domain_at = address->len;
    const char *end = *start == '[' ? skip_literal(start) : read_words(start, false, address);
    if (end != NULL && *start == '[')
        append_unfolded(address, start, end);
    bool is_one = end != NULL && address->error == 0 && is_domain(strbuf_str(address) + domain_at) &&
                  is_visible(strbuf_str(address));
    return is_one ? end : NULL;
}

bool address_is_valid(const char *text)
{
    _cleanup_strbuf_ struct strbuf address = STRBUF_INIT(ADDRESS_MAX_BYTES);
    if (strnlen(text, ADDRESS_MAX_BYTES + 1) > ADDRESS_MAX_BYTES)
        return false;
    const char *end = read_address(text, NULL, &address);
    return end != NULL && *end == '\0' && strcmp(text, strbuf_str(&address)) == 0;
}

bool address_is_folder_name(const char *text)
{
    return address_is_valid(text) && file_name_is_harmless(text) && strpbrk(text, "\"`[") == NULL;
}

/* ---------------------------------------------------------------- lists as text */

static bool is_separator(char c)
{
    return c == ',' || c == ';' || c == ':';
}

struct list_item {
    const char *start;
    const char *opening; /* the "<" of "<…>"; NULL if there is none */
    const char *closing; /* the position after the ">" */
    const char *end;     /* the separator after the item, or the text's end */
    bool is_damaged;     /* a token has no end, or is not allowed at its position */
};

/* Returns the position after "<…>"; NULL if the ">" is missing. */
static const char *skip_brackets(const char *c)
{
    for (c++; c != NULL && *c != '\0'; c = character_is_blank(*c) || is_separator(*c) ? c + 1 : skip_token(c))
        if (*c == '>')
            return c + 1;
    return NULL;
}

/* Scans from `c` to the end of the item. A quoted string or comment without an end takes the rest of the
 * text, so that malformed text takes linear time. */
static void scan_item(const char *c, struct list_item *item)
{
    while (*c != '\0' && !is_separator(*c)) {
        bool is_opening = *c == '<' && item->opening == NULL;
        const char *token = c;
        if (is_opening)
            c = skip_brackets(token);
        else
            c = character_is_blank(*token) ? token + 1 : skip_token(token);
        if (is_opening && c != NULL) {
            item->opening = token;
            item->closing = c;
        } else if (c == NULL) {
            item->is_damaged = true;
            c = *token == '"' || *token == '(' ? token + strlen(token) : token + 1;
        }
    }
    item->end = c;
}

/* Appends a name as it was written, with one blank in place of each gap. *ret_has_at is true if the name has
 * an "@" outside quotes. Returns the number of words. */
static unsigned int read_phrase(const char *start, const char *end, GString *text, bool *ret_has_at)
{
    bool is_after_gap = true;
    unsigned int words = 0;
    *ret_has_at = false;
    for (const char *c = start; c < end;) {
        const char *token = c;
        if (character_is_blank(*c) || *c == '(') {
            c = *c == '(' ? header_text_skip_comment(c) : c + 1;
            is_after_gap = true;
            continue;
        }
        if (is_after_gap && words > 0)
            g_string_append_c(text, ' ');
        words += is_after_gap;
        c = skip_token(c);
        g_string_append_len(text, token, c - token);
        *ret_has_at = *ret_has_at || *token == '@';
        is_after_gap = false;
    }
    return words;
}

/* Returns the text of a comment at `start` (the caller frees); NULL if there is none. */
static char *read_comment(const char *start, const char *end)
{
    const char *c = start;
    while (c < end && character_is_blank(*c))
        c++;
    if (c == end || *c != '(')
        return NULL;
    const char *closing = header_text_skip_comment(c) - 1;
    g_autoptr(GString) text = g_string_new(NULL);
    for (c++; c < closing; c++) {
        c += *c == '\\' && c + 1 < closing;
        g_string_append_c(text, *c);
    }
    return header_text_decode(text->str, text->len);
}

struct list_reading {
    struct address_list *list;
    const char *domain;  /* appended to an address without "@"; if NULL, such an address is refused */
    const char *closing; /* the last ";" of the text, which may end a group; else the text's start */
    size_t left;         /* number of addresses and other items that the text may still have */
    GPtrArray *others;   /* gets the other items of a received email; if NULL, they are refused */
    bool is_in_group;
};

static int append_found(struct list_reading *reading, const struct strbuf *address, char *name)
{
    if (reading->left == 0)
        return -EMSGSIZE;
    reading->left--;
    /* A bad name must not hide the address of a received email. */
    if (name != NULL && reading->others != NULL)
        character_replace(name, CHARACTER_CONTROL | CHARACTER_INVALID, ' ');
    if (name != NULL && !address_name_is_valid(name))
        return -EBADMSG;
    append(reading->list, strbuf_str(address), name);
    return 0;
}

/* Skips the obsolete route in "<@one.example,@two.example:a@x.example>". */
static const char *skip_route(const char *c)
{
    const char *start = skip_gap(c);
    if (start == NULL || *start != '@')
        return c;
    const char *colon = start + strcspn(start, ":>");
    return *colon == ':' ? colon + 1 : c;
}

static int read_bracketed_item(struct list_reading *reading, const struct list_item *item)
{
    _cleanup_strbuf_ struct strbuf address = STRBUF_INIT(ADDRESS_MAX_BYTES);
    g_autoptr(GString) phrase = g_string_new(NULL);
    bool has_at = false;
    const char *end = read_address(skip_route(item->opening + 1), reading->domain, &address);
    if (end == NULL || skip_gap(end) != item->closing - 1 || skip_gap(item->closing) != item->end)
        return -EBADMSG;
    unsigned int words = read_phrase(item->start, item->opening, phrase, &has_at);
    /* "a@x.example Bob <b@x.example>" may lack a comma. */
    if (has_at && words > 1)
        return -EBADMSG;
    g_autofree char *name = words > 0 ? header_text_decode_phrase(phrase->str, phrase->len)
                                      : read_comment(item->closing, item->end);
    return append_found(reading, &address, name);
}

static int read_bare_item(struct list_reading *reading, const struct list_item *item)
{
    _cleanup_strbuf_ struct strbuf address = STRBUF_INIT(ADDRESS_MAX_BYTES);
    if (skip_gap(item->start) == item->end)
        return 0;
    const char *end = read_address(item->start, reading->domain, &address);
    if (end == NULL || skip_gap(end) != item->end)
        return -EBADMSG;
    g_autofree char *name = read_comment(end, item->end);
    return append_found(reading, &address, name);
}

/* Takes "name:". A group must have a name, and cannot contain a group. */
static bool begin_group(struct list_reading *reading, const struct list_item *item)
{
    g_autoptr(GString) phrase = g_string_new(NULL);
    bool has_at = false;
    if (*item->end != ':' || item->is_damaged || reading->is_in_group || item->opening != NULL ||
        reading->closing <= item->end)
        return false;
    reading->is_in_group = read_phrase(item->start, item->end, phrase, &has_at) > 0 && !has_at;
    return reading->is_in_group;
}

static int read_item(struct list_reading *reading, struct list_item *item)
{
    if (begin_group(reading, item))
        return 0;
    item->is_damaged = item->is_damaged || *item->end == ':';
    while (*item->end == ':')
        scan_item(item->end + 1, item);
    reading->is_in_group = reading->is_in_group && *item->end != ';';
    if (item->is_damaged)
        return -EBADMSG;
    return item->opening != NULL ? read_bracketed_item(reading, item) : read_bare_item(reading, item);
}

static int read_items(struct list_reading *reading, const char *text, char **ret_refused)
{
    struct list_item item;
    size_t len_before = reading->list->len;
    int error = 0;
    const char *closing = strrchr(text, ';');
    reading->closing = closing != NULL ? closing : text;
    do {
        item = (struct list_item){.start = text};
        scan_item(text, &item);
        error = read_item(reading, &item);
        if (error == -EBADMSG && reading->others != NULL && reading->left > 0) {
            size_t len = (size_t)(item.end - item.start) + (*item.end == ';'); /* this may end a group */
            g_ptr_array_add(reading->others, g_strndup(item.start, len));
            reading->left--;
            error = 0;
        }
        text = item.end + 1;
    } while (error == 0 && *item.end != '\0');
    if (error == -EBADMSG && ret_refused != NULL) {
        _cleanup_strbuf_ struct strbuf copy = STRBUF_INIT(SIZE_MAX / 2);
        append_unfolded(&copy, item.start, item.end);
        *ret_refused = g_strstrip(strbuf_take(&copy, NULL));
    }
    if (error != 0 && reading->others == NULL)
        truncate_list(reading->list, len_before);
    return error;
}

int address_list_parse(struct address_list *list, const char *text, const char *domain, char **ret_refused)
{
    struct list_reading reading = {.list = list, .domain = domain, .left = ADDRESS_LIST_MAX};
    return read_items(&reading, text, ret_refused);
}

void address_list_parse_each(struct address_list *list, const char *text, GPtrArray *others)
{
    struct list_reading reading = {
        .list = list, .left = ADDRESS_LIST_MAX - list->len - others->len, .others = others};
    read_items(&reading, text, NULL);
}
