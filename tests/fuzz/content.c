/* SPDX-License-Identifier: MIT */
/*
 * The files in the folder of an email. Names are harmless, and no two differ only in case or normalisation.
 * Texts have no characters that a terminal obeys, and all programs see the same lines in them. The headers
 * kept for replies can be read again and make replies of all kinds; a reply with any text makes a message or
 * is refused with a reason.
 */
#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/content_folder.h"
#include "mail/draft.h"
#include "mail/file_name.h"
#include "mail/reply.h"

static void check_name(const struct content_entry *entry, GHashTable *names)
{
    FUZZ_CHECK(file_name_is_harmless(entry->name));
    fuzz_check_harmless(entry->name, strlen(entry->name), "");
    FUZZ_CHECK(g_hash_table_add(names, file_name_fold(entry->name)));
}

static void check_text(const struct content_entry *entry)
{
    if (strcmp(entry->name, "body.html") == 0)
        return;
    fuzz_check_harmless(entry->bytes, entry->len, "\t\n");
    FUZZ_CHECK(strstr(entry->bytes, "\u2028") == NULL && strstr(entry->bytes, "\u2029") == NULL);
}

static void check_answer(enum reply_kind kind, const struct email_head *head)
{
    static const char text[] = "Hello.\n";
    static const char *const own[] = {"alice@x.example"};
    const struct reply_original original = {"e-1", own[0], head, own, 1};
    _cleanup_free_ char *reply = NULL;
    _cleanup_free_ char *reason = NULL;
    struct draft *draft = NULL;
    if (reply_make(kind, &original, &reply) != 0)
        return;
    _cleanup_free_ char *name = reply_file_name(reply);
    FUZZ_CHECK(file_name_is_harmless(name) && g_str_has_suffix(name, ".eml"));
    int error = draft_parse(text, strlen(text), reply, &draft, &reason);
    FUZZ_CHECK(error == 0 || reason != NULL);
    draft_free(draft);
}

static void check_head(const struct content_entry *entry)
{
    struct email_head head;
    FUZZ_CHECK(email_head_read(entry->bytes, entry->len, &head) == 0);
    for (enum reply_kind kind = REPLY_SENDER; kind <= REPLY_FORWARD; kind++)
        check_answer(kind, &head);
    email_head_release(&head);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct content_folder folder;
    if (content_folder_read((const char *)bytes, len, &folder) != 0)
        return 0;
    g_autoptr(GHashTable) attachments = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) previous = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (size_t i = 0; i < folder.len; i++) {
        const struct content_entry *entry = &folder.entries[i];
        if (entry->kind == CONTENT_ATTACHMENT || entry->kind == CONTENT_PREVIOUS)
            check_name(entry, entry->kind == CONTENT_ATTACHMENT ? attachments : previous);
        if (entry->kind == CONTENT_TEXT || entry->kind == CONTENT_PREVIOUS)
            check_text(entry);
        if (entry->kind == CONTENT_HEAD)
            check_head(entry);
    }
    content_folder_release(&folder);
    return 0;
}
