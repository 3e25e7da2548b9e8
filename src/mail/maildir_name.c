/* SPDX-License-Identifier: MIT */
/*
 * Names of messages in a Maildir. The host is a word of our own: what stands there only has to differ from
 * that of whoever else delivers into the same folder, and nobody does.
 */
#include "mail/maildir_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char letters[MAILDIR_LETTERS + 1] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char host[] = ".inboxfs,U=";
static const char info[] = ":2,";
static const int64_t epoch_max = INT64_C(999999999999);

uint64_t maildir_flag(char letter)
{
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    return found == NULL ? 0 : UINT64_C(1) << (found - letters);
}

static int64_t shown_epoch(int64_t epoch)
{
    if (epoch < 0)
        return 0;
    return epoch < epoch_max ? epoch : epoch_max;
}

/* `letters` is in the order of ASCII, in which flags are to stand. */
static void append_flags(uint64_t flags, char *to)
{
    for (int i = 0; i < MAILDIR_LETTERS; i++)
        if ((flags >> i & 1) != 0)
            *to++ = letters[i];
    *to = '\0';
}

void maildir_name_format(const struct maildir_name *name, char ret_text[MAILDIR_NAME_SIZE])
{
    char hex[2 * MAILDIR_ID_BYTES + 1];
    for (size_t i = 0; i < MAILDIR_ID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", name->id[i]);
    int len = snprintf(ret_text, MAILDIR_NAME_SIZE, "%" PRId64 ".%s%s%" PRIu32, shown_epoch(name->epoch), hex,
                       host, name->uid);
    if (!name->has_info)
        return;
    memcpy(ret_text + len, info, sizeof(info));
    append_flags(name->flags, ret_text + len + sizeof(info) - 1);
}

/* ---------------------------------------------------------------- reading */

/* A number as it is written here: without sign and leading zeros. */
static bool take_number(const char **text, uint64_t max, uint64_t *ret)
{
    const char *at = *text;
    uint64_t number = 0;
    if (*at == '0' && at[1] >= '0' && at[1] <= '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        number = 10 * number + (uint64_t)(*at - '0');
        if (number > max)
            return false;
    }
    if (at == *text)
        return false;
    *text = at;
    *ret = number;
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_id(const char **text, unsigned char ret_id[MAILDIR_ID_BYTES])
{
    for (size_t i = 0; i < MAILDIR_ID_BYTES; i++, *text += 2) {
        int high = hex_value((*text)[0]);
        int low = high < 0 ? -1 : hex_value((*text)[1]);
        if (low < 0)
            return false;
        ret_id[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool take_word(const char **text, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(*text, word, len) != 0)
        return false;
    *text += len;
    return true;
}

static bool take_flags(const char *text, uint64_t *ret_flags)
{
    for (; *text != '\0'; text++) {
        uint64_t flag = maildir_flag(*text);
        if (flag == 0)
            return false;
        *ret_flags |= flag;
    }
    return true;
}

bool maildir_name_parse(const char *text, struct maildir_name *ret)
{
    uint64_t epoch = 0;
    uint64_t uid = 0;
    struct maildir_name name = {.epoch = 0};
    if (!take_number(&text, (uint64_t)epoch_max, &epoch) || !take_word(&text, ".") ||
        !take_id(&text, name.id) || !take_word(&text, host) || !take_number(&text, UINT32_MAX, &uid) ||
        uid == 0)
        return false;
    name.epoch = (int64_t)epoch;
    name.uid = (uint32_t)uid;
    name.has_info = take_word(&text, info);
    if (name.has_info ? !take_flags(text, &name.flags) : *text != '\0')
        return false;
    *ret = name;
    return true;
}

bool maildir_name_is_same_message(const struct maildir_name *a, const struct maildir_name *b)
{
    return a->uid == b->uid && shown_epoch(a->epoch) == shown_epoch(b->epoch) &&
           memcmp(a->id, b->id, sizeof(a->id)) == 0;
}
