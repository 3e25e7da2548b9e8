/* SPDX-License-Identifier: MIT */
/*
 * Finds the charset that a label means, and converts its text by iconv(3).
 */
#include "mail/charset.h"

#include <errno.h>
#include <iconv.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/lock.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

enum {
    LABEL_MAX_BYTES = 40, /* a longer label names no charset */
    PIECE_BYTES = 1024,   /* size of the buffer for the output of one iconv() call */
};

/* Labels that iconv lacks, or reads otherwise than the WHATWG Encoding Standard. They are reduced to small
 * letters and digits, since programs differ in the other characters. */
static const struct charset {
    const char *name; /* name of the charset for iconv */
    const char *labels;
} charsets[] = {
    {"UTF-8", "utf8 unicode11utf8 unicode20utf8 xunicode20utf8"},
    {"US-ASCII", "ascii usascii csascii ansix341968 iso646us"},
    {"CP1252",
     "iso88591 iso885911987 latin1 l1 cp819 ibm819 isoir100 csisolatin1 windows1252 cp1252 xcp1252"},
    {"CP1250", "windows1250 cp1250 xcp1250"},
    {"CP1251", "windows1251 cp1251 xcp1251"},
    {"CP1253", "windows1253 cp1253 xcp1253"},
    {"CP1254", "iso88599 iso885991989 latin5 l5 isoir148 csisolatin5 windows1254 cp1254 xcp1254"},
    {"CP1255", "windows1255 cp1255 xcp1255"},
    {"CP1256", "windows1256 cp1256 xcp1256"},
    {"CP1257", "windows1257 cp1257 xcp1257"},
    {"CP1258", "windows1258 cp1258 xcp1258"},
    {"CP874", "iso885911 tis620 dos874 windows874 cp874"},
    {"CP932", "shiftjis csshiftjis sjis xsjis mskanji ms932 windows31j cp932"},
    {"EUC-JP-MS", "eucjp xeucjp cseucpkdfmtjapanese"},
    {"CP949", "euckr cseuckr korean ksc5601 ksc56011987 ksc56011989 csksc56011987 isoir149 windows949 cp949 "
              "uhc"},
    {"GB18030", "gb2312 csgb2312 gb231280 csiso58gb231280 isoir58 chinese euccn gbk xgbk cp936 windows936 "
                "gb18030"},
    {"BIG5-HKSCS", "big5 csbig5 cnbig5 xxbig5 big5hkscs"},
    {"KOI8-R", "koi koi8 koi8r cskoi8r"},
    {"KOI8-U", "koi8u koi8ru"},
    {"IBM866", "866 cp866 ibm866 csibm866"},
    {"ISO-8859-6", "iso88596e iso88596i csiso88596e csiso88596i"},
    {"ISO-8859-8", "iso88598e iso88598i csiso88598e csiso88598i logical visual"},
    {"ISO-8859-15", "iso885915 latin9 l9 csisolatin9"},
    {"MACINTOSH", "macintosh csmacintosh mac xmacroman"},
    {"MAC-CYRILLIC", "xmaccyrillic xmacukrainian"},
    {"UTF-16", "utf16 unicode csunicode ucs2 iso10646ucs2"}, /* iconv reads its byte order mark */
    {"HZ", "hzgb2312 hz"},                                   /* iconv lacks HZ */
};

static bool has_label(const char *labels, const char *label, size_t len)
{
    for (const char *at = labels; (at = strstr(at, label)) != NULL; at += len)
        if ((at == labels || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

/* Returns iconv's name of the charset, or NULL. A label outside the table needs a digit: charsets of mail
 * have one, and iconv's special names, such as that for the locale's charset, do not. */
static const char *find_iconv_name(const char *label, size_t len, char name[LABEL_MAX_BYTES + 1])
{
    char simple[LABEL_MAX_BYTES + 1];
    size_t simple_len = 0;
    size_t name_len = 0;
    bool has_digit = false;
    if (len > LABEL_MAX_BYTES)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (g_ascii_isalnum(label[i]))
            simple[simple_len++] = g_ascii_tolower(label[i]);
        else if (strchr("-_.: '\"", label[i]) == NULL)
            return NULL; /* iconv takes options after a slash */
        if (strchr(" '\"", label[i]) == NULL)
            name[name_len++] = label[i];
        has_digit = has_digit || g_ascii_isdigit(label[i]);
    }
    simple[simple_len] = name[name_len] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(charsets) && simple_len > 0; i++)
        if (has_label(charsets[i].labels, simple, simple_len))
            return charsets[i].name;
    return has_digit ? name : NULL;
}

/* Protects the table of descriptors, and each descriptor while it converts. */
static pthread_mutex_t charsets_lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the descriptor of a charset, in its initial state; (iconv_t)-1 if iconv does not know the charset.
 * Descriptors are never closed (glibc has 1,180 names): glibc would unload a charset's library with its last
 * descriptor, and a header that alternates between a dozen charsets cost 4 s of CPU per megabyte. */
static iconv_t find_charset_locked(const char *name)
{
    static GHashTable *descriptors; /* keys: names in capital letters, since glibc ignores case */
    if (descriptors == NULL)
        descriptors = g_hash_table_new(g_str_hash, g_str_equal);
    g_autofree char *key = g_ascii_strup(name, -1);
    iconv_t charset = g_hash_table_lookup(descriptors, key);
    if (charset != NULL) {
        iconv(charset, NULL, NULL, NULL, NULL);
        return charset;
    }
    charset = iconv_open("UTF-8", key);
    if (charset != (iconv_t)-1)
        g_hash_table_insert(descriptors, g_steal_pointer(&key), charset);
    return charset;
}

static bool is_utf8(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        struct character c = character_at(bytes + i, len - i);
        if (c.kind == CHARACTER_INVALID)
            return false;
        i += c.len;
    }
    return true;
}

/* Appends UTF-8, with U+FFFD for each invalid byte. */
static void append_mended(GString *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        struct character c = character_at(bytes + i, len - i);
        if (c.kind == CHARACTER_INVALID)
            g_string_append(text, REPLACEMENT);
        else
            g_string_append_len(text, bytes + i, c.len);
        i += c.len;
    }
}

/* Converts bytes by iconv. Returns false if the bytes are refused, or if iconv lacks the charset. */
static bool append_converted(GString *text, const char *name, const char *bytes, size_t len,
                             enum charset_damage damage)
{
    LOCK_GUARD(&charsets_lock);
    iconv_t charset = find_charset_locked(name);
    if (charset == (iconv_t)-1)
        return false;

    /* To WHATWG, bytes that a windows charset leaves undefined are control characters, as in iso-8859-1. */
    bool is_windows = g_str_has_prefix(name, "CP125");
    size_t len_before = text->len;
    char *in = (char *)bytes; /* iconv does not write to its input */
    bool is_ended = false;
    bool is_refused = false;
    while (!is_ended && !is_refused) {
        char piece[PIECE_BYTES];
        char *out = piece;
        size_t out_len = sizeof(piece);
        is_ended = len == 0; /* a call without input writes a character that iconv has kept back */
        bool is_damaged = iconv(charset, is_ended ? NULL : &in, &len, &out, &out_len) == (size_t)-1 &&
                          (errno == EILSEQ || errno == EINVAL) && len > 0;
        bool is_control = is_damaged && is_windows && ((unsigned char)*in & 0xe0) == 0x80;
        /* glibc also makes characters above U+10FFFF, which are not valid UTF-8. */
        bool is_valid = is_utf8(piece, sizeof(piece) - out_len);
        is_refused = damage == CHARSET_REFUSE && ((is_damaged && !is_control) || !is_valid);
        append_mended(text, piece, sizeof(piece) - out_len);
        if (is_control)
            g_string_append_len(text, (char[]){'\xc2', *in}, 2);
        else if (is_damaged)
            g_string_append(text, REPLACEMENT);
        in += is_damaged;
        len -= is_damaged;
    }
    if (is_refused)
        g_string_truncate(text, len_before);
    return !is_refused;
}

bool charset_append_utf8(GString *text, const char *label, size_t label_len, const char *bytes, size_t len,
                         enum charset_damage damage)
{
    char copy[LABEL_MAX_BYTES + 1];
    const char *name = label_len == 0 ? "US-ASCII" : find_iconv_name(label, label_len, copy);
    bool is_ascii = name != NULL && strcmp(name, "US-ASCII") == 0;
    bool is_converted = name != NULL && !is_ascii && strcmp(name, "UTF-8") != 0;
    if (is_converted && append_converted(text, name, bytes, len, CHARSET_REFUSE))
        return true;
    /* ISO 2022 and HZ (RFC 1843) write characters as ASCII after ESC, SO or "~{", so damaged text in these
     * charsets passes for UTF-8. */
    if (damage == CHARSET_REFUSE && is_converted &&
        (memchr(bytes, '\x1b', len) != NULL || memchr(bytes, '\x0e', len) != NULL ||
         (strcmp(name, "HZ") == 0 && memmem(bytes, len, "~{", 2) != NULL)))
        return false;
    if (is_utf8(bytes, len)) {
        g_string_append_len(text, bytes, (gssize)len);
        return true;
    }
    if (damage == CHARSET_REFUSE && !is_ascii)
        return false;
    if (is_converted && append_converted(text, name, bytes, len, CHARSET_REPLACE))
        return true;
    if (name != NULL && !is_ascii && !is_converted)
        append_mended(text, bytes, len);
    else
        append_converted(text, "CP1252", bytes, len, CHARSET_REPLACE);
    return true;
}
