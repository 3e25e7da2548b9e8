/* SPDX-License-Identifier: MIT */
/*
 * Makes file names from the text of senders, and checks names that users choose.
 */
#include "mail/file_name.h"

#include <glib.h>
#include <stdio.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/date.h"

enum {
    KEY_CHARS = 8,
    DIGEST_CHARS = 64,
    SUBJECT_MAX_BYTES = 1024,  /* length of the part of a subject that is read */
    SAFE_TEXT_MAX_BYTES = 180, /* bytes that file_name_from_text() keeps of a text that is not harmless */
    EXTENSION_MAX_BYTES = 32,  /* a longer extension counts as part of the stem */
};

/* Returns true for an invisible character, which a slug leaves out. */
static bool is_invisible(gunichar c)
{
    return g_unichar_type(c) == G_UNICODE_FORMAT || c == 0x034f || c == 0x115f || c == 0x1160 ||
           (c >= 0x17b4 && c <= 0x17b5) || (c >= 0x180b && c <= 0x180f) || c == 0x3164 || c == 0xffa0 ||
           (c >= 0xfe00 && c <= 0xfe0f) || (c >= 0xe0000 && c <= 0xe0fff);
}

/* Makes a slug of any length, with composed characters. Letters and digits of ASCII, of which most subjects
 * consist, take a short way, since GLib's tables of Unicode take ten times as long. */
static char *make_slug(const char *subject, size_t len)
{
    _cleanup_strbuf_ struct strbuf slug = STRBUF_INIT(6 * SUBJECT_MAX_BYTES);
    const char *end = subject + len;
    for (const char *at = subject; at < end;) {
        if (g_ascii_isalnum(*at)) {
            strbuf_append_char(&slug, g_ascii_tolower(*at++));
            continue;
        }
        gunichar c = g_utf8_get_char_validated(at, end - at);
        bool is_valid = c != (gunichar)-1 && c != (gunichar)-2;
        bool is_at_gap = slug.len == 0 || slug.data[slug.len - 1] == '-';
        char utf8[6];
        if (is_valid && (g_unichar_isalnum(c) || (g_unichar_ismark(c) && !is_at_gap)) && !is_invisible(c))
            strbuf_append(&slug, utf8, (size_t)g_unichar_to_utf8(g_unichar_tolower(c), utf8));
        else if (!is_at_gap && !(is_valid && is_invisible(c)))
            strbuf_append_char(&slug, '-');
        at = is_valid ? g_utf8_next_char(at) : at + 1;
    }
    if (g_str_is_ascii(strbuf_str(&slug)))
        return strbuf_take(&slug, NULL);
    return g_utf8_normalize(slug.data, (gssize)slug.len, G_NORMALIZE_NFC);
}

char *file_name_slug(const char *subject)
{
    g_autofree char *slug = make_slug(subject, strnlen(subject, SUBJECT_MAX_BYTES));
    size_t len = character_cut(slug, strlen(slug), FILE_NAME_SLUG_MAX_BYTES);
    while (len > 0 && slug[len - 1] == '-')
        len--;
    return len > 0 ? g_strndup(slug, len) : g_strdup("no-subject");
}

/* Returns the first letters and digits of the key; of its digest if the key has too few. */
static void shorten_key(const char *key, char ret_text[DIGEST_CHARS + 1])
{
    size_t len = 0;
    for (const char *c = key; *c != '\0' && len < KEY_CHARS; c++)
        if (g_ascii_isalnum(*c))
            ret_text[len++] = *c;
    if (len < KEY_CHARS)
        hash_sha256(key, strlen(key), ret_text);
    ret_text[KEY_CHARS] = '\0';
}

char *file_name_stem(bool has_date, int64_t date_ms, const char *subject, const char *key)
{
    char date[32];
    char short_key[DIGEST_CHARS + 1];
    g_autofree char *slug = file_name_slug(subject != NULL ? subject : "");
    shorten_key(key, short_key);
    if (!has_date)
        return g_strdup_printf("nodate_%s_%s", slug, short_key);
    date_format(date_ms, date); /* 2026-11-20T10:14:36.000Z */
    return g_strdup_printf("%.4s%.2s%.5s%.2s%.2sZ_%s_%s", date, date + 5, date + 8, date + 14, date + 17,
                           slug, short_key);
}

char *file_name_stem_unique(const char *stem, const char *key, unsigned int attempt)
{
    char digest[DIGEST_CHARS + 1];
    hash_sha256(key, strlen(key), digest);
    if (attempt <= DIGEST_CHARS / KEY_CHARS)
        return g_strdup_printf("%s-%.*s", stem, (int)(attempt * KEY_CHARS), digest);
    return g_strdup_printf("%s-%s-%u", stem, digest, attempt);
}

bool file_name_is_text(const char *name)
{
    size_t len = strnlen(name, FILE_NAME_MAX_BYTES + 1);
    return len >= 1 && len <= FILE_NAME_MAX_BYTES && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strchr(name, '/') == NULL && g_utf8_validate(name, (gssize)len, NULL);
}

bool file_name_is_valid(const char *name)
{
    return file_name_is_text(name) && !character_has(name, CHARACTER_CONTROL);
}

bool file_name_is_harmless(const char *name)
{
    return file_name_is_valid(name) && name[0] != '.' && name[0] != '-';
}

/* Canonical caseless matching (Unicode 15, section 3.13, D145). The text is made small first, since GLib
 * rightly folds small letters of Cherokee to capitals, but wrongly folds the capitals to small letters. */
char *file_name_fold(const char *name)
{
    if (!g_utf8_validate(name, -1, NULL))
        return NULL;
    g_autofree char *apart = g_utf8_normalize(name, -1, G_NORMALIZE_NFD);
    g_autofree char *small = g_utf8_strdown(apart, -1);
    g_autofree char *folded = g_utf8_casefold(small, -1);
    return g_utf8_normalize(folded, -1, G_NORMALIZE_NFD);
}

char *file_name_from_text(const char *text)
{
    if (file_name_is_harmless(text))
        return g_strdup(text);

    /* The digest distinguishes texts that differ only in replaced characters. */
    char digest[DIGEST_CHARS + 1];
    hash_sha256(text, strlen(text), digest);
    g_autofree char *name = g_utf8_make_valid(text, (gssize)strnlen(text, SAFE_TEXT_MAX_BYTES));
    character_replace(name, CHARACTER_CONTROL, '_');
    g_strdelimit(name, "/", '_');
    if (name[0] == '.' || name[0] == '-')
        name[0] = '_';
    size_t len = character_cut(name, strlen(name), SAFE_TEXT_MAX_BYTES);
    return g_strdup_printf("%.*s%s%.*s", (int)len, name, len > 0 ? "_" : "", KEY_CHARS, digest);
}

static bool has_ending(const char *name, const char *const *endings, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (g_str_has_suffix(name, endings[i]))
            return true;
    return false;
}

bool file_name_is_temporary(const char *name)
{
    static const char *const endings[] = {"~", ".tmp", ".part", ".swp"};
    return name[0] == '.' || strcmp(name, "4913") == 0 || has_ending(name, endings, ARRAY_LEN(endings));
}

/* Returns true for the names under which a killed nano saves: "x.save", then "x.save.1". */
static bool is_rescued_by_nano(const char *name)
{
    size_t len = strlen(name);
    size_t stem_len = len;
    while (stem_len > 0 && g_ascii_isdigit(name[stem_len - 1]))
        stem_len--;
    bool is_numbered = stem_len < len && stem_len > 0 && name[stem_len - 1] == '.';
    size_t end = is_numbered ? stem_len - 1 : len;
    return end >= strlen(".save") && memcmp(name + end - strlen(".save"), ".save", strlen(".save")) == 0;
}

bool file_name_is_backup(const char *name)
{
    static const char *const endings[] = {".bak", ".old", ".orig", ".rej", ".sav"};
    bool is_autosave = name[0] == '#' && g_str_has_suffix(name + 1, "#");
    return is_autosave || is_rescued_by_nano(name) || has_ending(name, endings, ARRAY_LEN(endings));
}

/* Returns the extension with its dot, or the end of the name if it has none. */
static const char *find_extension(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot == NULL || dot == name || strlen(dot) > EXTENSION_MAX_BYTES ? name + strlen(name) : dot;
}

char *file_name_numbered(const char *name, unsigned int number)
{
    const char *extension = find_extension(name);
    char suffix[16 + EXTENSION_MAX_BYTES];
    int suffix_len = snprintf(suffix, sizeof(suffix), "-%u%s", number, extension);
    size_t stem_len =
        character_cut(name, (size_t)(extension - name), FILE_NAME_MAX_BYTES - (size_t)suffix_len);
    return g_strdup_printf("%.*s%s", (int)stem_len, name, suffix);
}

char *file_name_unnumbered(const char *name)
{
    const char *extension = find_extension(name);
    const char *digits = extension;
    while (digits > name && g_ascii_isdigit(digits[-1]))
        digits--;
    bool is_number = digits < extension && digits[0] != '0' && (extension - digits > 1 || digits[0] != '1');
    if (!is_number || digits - name < 2 || digits[-1] != '-')
        return NULL;
    return g_strdup_printf("%.*s%s", (int)(digits - 1 - name), name, extension);
}

char *file_name_shortened(const char *name, size_t max_bytes)
{
    const char *extension = find_extension(name);
    size_t stem_len = character_cut(name, (size_t)(extension - name), max_bytes - strlen(extension));
    return g_strdup_printf("%.*s%s", (int)stem_len, name, extension);
}
