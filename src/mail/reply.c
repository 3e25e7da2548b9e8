/* SPDX-License-Identifier: MIT */
/*
 * Finds the recipients and the subject of an answer, and writes them as part of a send request.
 */
#include "mail/reply.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"

/* The marks that mail programs put before the subject of a reply and of a forward, in many languages, with
 * NULL at the end. Marks that are also words of subjects ("Ref", "I") are left out. */
static const char *const reply_marks[] = {"Re", "AW",   "SV", "VS",   "Antw", "Antwort", "RIF",  "Odp", "YNT",
                                          "Vá", "Σχετ", "ΑΠ", "回复", "答复", "回覆",    "返信", NULL};
static const char *const forward_marks[] = {"Fwd",        "Fw",   "WG",   "TR",   "RV",
                                            "VB",         "ENC",  "PD",   "İLT",  "Doorst",
                                            "Továbbítás", "转发", "轉寄", "転送", NULL};

/* Returns the length of `mark` at the beginning of the subject, as in "Re:", "Re[2]:", "Re(2):" or "Re^2:"; 0
 * if the subject begins otherwise. */
static size_t mark_len(const char *subject, const char *mark)
{
    size_t len = strlen(mark);
    if (strncasecmp(subject, mark, len) != 0)
        return 0;
    if (strchr("[(^", subject[len]) != NULL && subject[len] != '\0') {
        len++;
        len += strspn(subject + len, "0123456789");
        len += subject[len] == ']' || subject[len] == ')';
    }
    len += strspn(subject + len, " ");
    if (subject[len] == ':')
        return len + 1;
    return strncmp(subject + len, "：", strlen("：")) == 0 ? len + strlen("：") : 0;
}

static const char *skip_marks(const char *subject, const char *const *marks)
{
    size_t len;
    do {
        len = 0;
        for (const char *const *mark = marks; *mark != NULL && len == 0; mark++)
            len = mark_len(subject, *mark);
        subject += len;
        subject += strspn(subject, " ");
    } while (len > 0);
    return subject;
}

enum reply_mark reply_mark_of(const char *subject)
{
    if (skip_marks(subject, reply_marks) != subject)
        return REPLY_MARK_REPLY;
    return skip_marks(subject, forward_marks) != subject ? REPLY_MARK_FORWARD : REPLY_MARK_NONE;
}

/* Makes "Re: Dinner" of "AW: Re: Dinner", and "Fwd: Re: Dinner" of "Re: Dinner". `subject` may be NULL. */
static char *make_subject(enum reply_kind kind, const char *subject)
{
    g_autofree char *clean = g_utf8_make_valid(subject != NULL ? subject : "", -1);
    character_replace(clean, CHARACTER_CONTROL | CHARACTER_LINE_END | CHARACTER_DIRECTION, ' ');
    g_strstrip(clean);
    const char *mark = kind == REPLY_FORWARD ? "Fwd:" : "Re:";
    const char *bare = skip_marks(clean, kind == REPLY_FORWARD ? forward_marks : reply_marks);
    return g_strconcat(mark, bare[0] != '\0' ? " " : "", bare, NULL);
}

/* Sets of addresses are hash tables, since a sender can name very many addresses. */
static void add_to_set(GHashTable *set, const char *address)
{
    g_hash_table_add(set, g_ascii_strdown(address, -1));
}

static bool is_in_set(GHashTable *set, const char *address)
{
    g_autofree char *lower = g_ascii_strdown(address, -1);
    return g_hash_table_contains(set, lower);
}

static GHashTable *new_address_set(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

/* Adds the addresses that are in neither `taken` nor `own` (may be NULL). `to` may get one address more than
 * ADDRESS_LIST_MAX, so that draft_parse() refuses the message. */
static void add_recipients(struct address_list *to, const struct address_list *from, GHashTable *taken,
                           GHashTable *own)
{
    if (to->unusable == NULL)
        to->unusable = g_strdup(from->unusable);
    for (size_t i = 0; i < from->len && to->len <= ADDRESS_LIST_MAX; i++) {
        const struct address *one = &from->items[i];
        if (is_in_set(taken, one->address) || (own != NULL && is_in_set(own, one->address)))
            continue;
        add_to_set(taken, one->address);
        address_list_append(to, one->address, one->name);
    }
}

static bool is_empty(const struct address_list *list)
{
    return list->len == 0 && list->unusable == NULL;
}

static bool is_the_inbox(const struct reply_original *original, const struct address_list *list)
{
    return original->inbox_address != NULL && list->len == 1 && list->unusable == NULL &&
           address_equals(list->items[0].address, original->inbox_address);
}

static void find_recipients(enum reply_kind kind, const struct reply_original *original,
                            struct address_list *to, struct address_list *cc)
{
    const struct email_head *head = original->head;
    bool has_reply_to = !is_empty(&head->reply_to) && !is_the_inbox(original, &head->reply_to);
    const struct address_list *senders = has_reply_to ? &head->reply_to : &head->from;
    g_autoptr(GHashTable) taken = new_address_set();
    g_autoptr(GHashTable) own = new_address_set();
    for (size_t i = 0; i < original->own_addresses_len; i++)
        add_to_set(own, original->own_addresses[i]);
    if (original->inbox_address != NULL)
        add_to_set(own, original->inbox_address);

    if (is_the_inbox(original, senders))
        add_recipients(to, &head->to, taken, own);
    if (is_empty(to))
        add_recipients(to, senders, taken, NULL);
    if (kind == REPLY_ALL) {
        add_recipients(cc, &head->to, taken, own);
        add_recipients(cc, &head->cc, taken, own);
    }
}

static void write_addresses(struct json_writer *writer, const char *key, const struct address_list *list)
{
    if (!is_empty(list))
        address_list_write(list, writer, key);
}

int reply_make(enum reply_kind kind, const struct reply_original *original, char **ret_reply)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(REPLY_MAX_BYTES);
    _cleanup_(address_list_release) struct address_list to = {0};
    _cleanup_(address_list_release) struct address_list cc = {0};
    _cleanup_free_ char *subject = make_subject(kind, original->head->subject);
    if (kind != REPLY_FORWARD)
        find_recipients(kind, original, &to, &cc);

    struct json_writer writer;
    json_writer_init(&writer, &text, 0);
    json_begin_object(&writer);
    if (original->inbox_address != NULL)
        json_member_string(&writer, "from_address", original->inbox_address);
    write_addresses(&writer, "to_addresses", &to);
    write_addresses(&writer, "cc_addresses", &cc);
    json_member_string(&writer, "subject", subject);
    json_member_string(&writer, "existing_email_id", original->email_id);
    json_member_string(&writer, "message_type", kind == REPLY_FORWARD ? "forward" : "reply");
    json_end_object(&writer);
    if (text.error != 0)
        return text.error;
    *ret_reply = strbuf_take(&text, NULL);
    return 0;
}

char *reply_file_name(const char *reply)
{
    _cleanup_json_ json_t *request = json_loads(reply, 0, NULL);
    const char *subject = json_string_value(json_object_get(request, "subject"));
    _cleanup_free_ char *slug = file_name_slug(subject != NULL ? subject : "");
    return g_strconcat(slug, ".eml", NULL);
}
