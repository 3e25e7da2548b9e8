/* SPDX-License-Identifier: MIT */
/*
 * Formats and parses names of messages in a Maildir. The host is a fixed word, since no other program
 * delivers into the same folder.
 */
#include "mail/maildir_name.h"

#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char letters[MAILDIR_LETTERS + 1] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char host[] = ".inboxfs,U=";
static const char info[] = ":2,";
static const int64_t epoch_max = INT64_C(999999999999);

uint64_t maildir_flag_bit(char letter)
{
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    return found == NULL ? 0 : UINT64_C(1) << (found - letters);
}

static int64_t shown_epoch(int64_t epoch)
{
    return CLAMP(epoch, 0, epoch_max);
}

void maildir_name_format(const struct maildir_name *name, char ret_text[MAILDIR_NAME_SIZE])
{
    int len = snprintf(ret_text, MAILDIR_NAME_SIZE, "%" PRId64 ".%016" PRIx64 "%s%" PRIu32,
                       shown_epoch(name->epoch), name->id, host, name->uid);
    if (!name->has_info)
        return;
    char *to = stpcpy(ret_text + len, info);
    /* Maildir wants flags in the order of ASCII, which is that of `letters`. */
    for (int i = 0; i < MAILDIR_LETTERS; i++)
        if ((name->flags >> i & 1) != 0)
            *to++ = letters[i];
    *to = '\0';
}

/* Reads numbers as far as there are any, and formats them again: only a text that begins so is a name. */
bool maildir_name_parse(const char *text, struct maildir_name *ret)
{
    char again[MAILDIR_NAME_SIZE];
    char *end = NULL;
    struct maildir_name name = {.epoch = g_ascii_strtoll(text, &end, 10)};
    name.id = g_ascii_strtoull(end + (*end == '.'), &end, 16);
    if (g_str_has_prefix(end, host))
        name.uid = (uint32_t)g_ascii_strtoull(end + strlen(host), NULL, 10);
    maildir_name_format(&name, again);
    if (name.uid == 0 || !g_str_has_prefix(text, again))
        return false;
    text += strlen(again);
    name.has_info = g_str_has_prefix(text, info);
    if (!name.has_info && *text != '\0')
        return false;
    for (text += name.has_info ? strlen(info) : 0; *text != '\0'; text++) {
        uint64_t flag = maildir_flag_bit(*text);
        if (flag == 0)
            return false;
        name.flags |= flag;
    }
    *ret = name;
    return true;
}

bool maildir_name_is_same_message(const struct maildir_name *a, const struct maildir_name *b)
{
    return a->uid == b->uid && a->id == b->id && shown_epoch(a->epoch) == shown_epoch(b->epoch);
}
