/* SPDX-License-Identifier: MIT */
/*
 * Addresses: GMime takes headers apart, but it is liberal, so what it finds is checked here once more.
 */
#include "mail/address.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "mail/mime_library.h"

void address_list_release(struct address_list *list)
{
    for (size_t i = 0; i < list->len; i++) {
        free(list->items[i].address);
        free(list->items[i].name);
    }
    free(list->items);
    *list = (struct address_list){0};
}

/* Characters that end or quote an address in some header or path, or that do not show. Shells quote with "'",
 * too, but people have it in their names, and so in their addresses. */
static bool is_refused(gunichar c)
{
    if (c < 0x80)
        return c <= 0x20 || c == 0x7f || strchr("/\\\"`<>()[],:;", (int)c) != NULL;
    return !g_unichar_isgraph(c) || g_unichar_isspace(c);
}

bool address_name_is_valid(const char *name)
{
    return !character_has(name, CHARACTER_CONTROL | CHARACTER_INVALID);
}

bool address_is_valid(const char *text)
{
    size_t len = strnlen(text, ADDRESS_MAX_BYTES + 1);
    if (len == 0 || len > ADDRESS_MAX_BYTES || !g_utf8_validate(text, (gssize)len, NULL))
        return false;

    const char *at = strchr(text, '@');
    if (at == NULL || at == text || at[1] == '\0' || strchr(at + 1, '@') != NULL)
        return false;
    if (text[0] == '.' || at[-1] == '.' || at[1] == '.' || at[1] == '-' || text[len - 1] == '.' ||
        strstr(text, "..") != NULL || strchr(at, '\'') != NULL)
        return false;
    for (const char *c = text; *c != '\0'; c = g_utf8_next_char(c))
        if (is_refused(g_utf8_get_char(c)))
            return false;
    return true;
}

static int append(struct address_list *list, const char *address, const char *name)
{
    bool is_full = (list->len & (list->len - 1)) == 0; /* the room is the next power of two */
    if (is_full) {
        struct address *items = realloc(list->items, (list->len == 0 ? 1 : list->len * 2) * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        list->items = items;
    }

    bool has_name = name != NULL && name[0] != '\0';
    struct address *item = &list->items[list->len];
    *item = (struct address){.address = strdup(address), .name = has_name ? strdup(name) : NULL};
    if (item->address == NULL || (has_name && item->name == NULL)) {
        free(item->address);
        free(item->name);
        return -ENOMEM;
    }
    list->len++;
    return 0;
}

int address_list_append(struct address_list *list, const char *address, const char *name)
{
    if (!address_is_valid(address) || (name != NULL && !address_name_is_valid(name)))
        return -EBADMSG;
    return append(list, address, name);
}

/* Groups cannot hold groups. */
static int append_found(struct address_list *list, InternetAddressList *found, bool in_group)
{
    int error = 0;
    for (int i = 0; i < internet_address_list_length(found) && error == 0; i++) {
        InternetAddress *one = internet_address_list_get_address(found, i);
        if (INTERNET_ADDRESS_IS_MAILBOX(one)) {
            const char *address = internet_address_mailbox_get_addr(INTERNET_ADDRESS_MAILBOX(one));
            error = address_list_append(list, address == NULL ? "" : address, internet_address_get_name(one));
        } else if (INTERNET_ADDRESS_IS_GROUP(one) && !in_group) {
            InternetAddressGroup *group = INTERNET_ADDRESS_GROUP(one);
            error = append_found(list, internet_address_group_get_members(group), true);
        } else {
            error = -EBADMSG;
        }
    }
    return error;
}

/* The end of a quoted string or comment that starts here, or NULL: it has none. */
static const char *skip_enclosed(const char *text)
{
    char closing = *text == '"' ? '"' : ')';
    unsigned int depth = 1;
    for (const char *c = text + 1; *c != '\0'; c++) {
        if (*c == '\\' && c[1] != '\0')
            c++;
        else if (*c == closing && --depth == 0)
            return c;
        else if (*c == '(' && closing == ')')
            depth++;
    }
    return NULL;
}

/* The end of "<local@domain>", or NULL. */
static const char *skip_bracketed(const char *text)
{
    char address[ADDRESS_MAX_BYTES + 1];
    const char *start = text + 1 + strspn(text + 1, " \t\r\n");
    const char *end = strchr(start, '>');
    size_t len = end == NULL ? 0 : (size_t)(end - start);
    while (len > 0 && g_ascii_isspace(start[len - 1]))
        len--;
    if (len >= sizeof(address))
        return NULL;
    memcpy(address, start, len);
    address[len] = '\0';
    return address_is_valid(address) ? end : NULL;
}

/* What was seen of the address that the count is in. */
struct list_item {
    bool is_begun;
    bool is_ended; /* its "local@domain" was there, in brackets or not */
};

/* The last character of the word that starts here, or NULL: it has an "@", but is no address. */
static const char *skip_word(const char *text, struct list_item *item)
{
    char address[ADDRESS_MAX_BYTES + 1];
    size_t len = strcspn(text, " \t\r\n\f\"(),:;<>");
    if (memchr(text, '@', len) != NULL) {
        if (item->is_begun || len >= sizeof(address))
            return NULL;
        memcpy(address, text, len);
        address[len] = '\0';
        if (!address_is_valid(address))
            return NULL;
        item->is_ended = true;
    }
    return text + len - 1;
}

/* The last character of what starts here, or NULL: it cannot stand in this place. */
static const char *skip_token(const char *c, struct list_item *item)
{
    if (*c == '(')
        return skip_enclosed(c);
    if (g_ascii_isspace(*c))
        return c;
    if (item->is_ended || *c == '>' || *c == ')')
        return NULL;
    if (*c == '<') {
        item->is_ended = true;
        c = skip_bracketed(c);
    } else {
        c = *c == '"' ? skip_enclosed(c) : skip_word(c, item);
    }
    item->is_begun = true;
    return c;
}

/* How many addresses the list must hold, going by what stands between commas: GMime drops some of what it
 * does not understand without a word. False: what is opened is not closed or not in its place, or one is no
 * address. GMime would refuse most of that too, but loses memory over it. */
static bool count_addresses(const char *text, size_t *ret_count)
{
    struct list_item item = {false};
    size_t count = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == ',' || *c == ';' || *c == ':') {
            if (*c != ':' && item.is_begun && !item.is_ended)
                return false;
            count += item.is_begun && *c != ':';
            item = (struct list_item){false};
            continue;
        }
        c = skip_token(c, &item);
        if (c == NULL)
            return false;
    }
    *ret_count = count + item.is_begun;
    return item.is_ended || !item.is_begun;
}

/* GMime passes over what it does not understand, and says so only here. */
static void note_problem(gint64 offset, GMimeParserWarning problem, const gchar *item, gpointer had_problem)
{
    (void)offset;
    (void)problem;
    (void)item;
    *(bool *)had_problem = true;
}

int address_list_parse(struct address_list *list, const char *text)
{
    bool had_problem = false;
    size_t count = 0;
    size_t len_before = list->len;
    if (!count_addresses(text, &count))
        return -EBADMSG;
    if (count > ADDRESS_LIST_MAX)
        return -EMSGSIZE;

    GMimeParserOptions *options = mime_parser_options_new();
    g_mime_parser_options_set_address_compliance_mode(options, GMIME_RFC_COMPLIANCE_STRICT);
    g_mime_parser_options_set_warning_callback(options, note_problem, &had_problem);
    InternetAddressList *found = internet_address_list_parse(options, text);
    g_mime_parser_options_free(options);

    int error = had_problem ? -EBADMSG : 0;
    if (error == 0 && found != NULL)
        error = append_found(list, found, false);
    if (found != NULL)
        g_object_unref(found);
    return error == 0 && list->len - len_before != count ? -EBADMSG : error;
}

bool address_equals(const char *one, const char *other)
{
    return g_ascii_strcasecmp(one, other) == 0;
}
