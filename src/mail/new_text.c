/* SPDX-License-Identifier: MIT */
/*
 * One pass over the lines. The first half tells line by line how mail programs mark what is not new: Apple
 * Mail, Gmail, Outlook, Thunderbird and others, as they are localised. The second half goes through the text,
 * keeps what is new, and ends where history begins that is not quoted. In the words of mail programs ASCII
 * letters of either case are the same; others are compared as bytes.
 */
#include "mail/new_text.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* ---- words and marks of history */

/* A line of the block that Outlook puts above history: "Sent: Friday". */
enum history_header {
    HISTORY_NO_HEADER,
    HISTORY_FROM,
    HISTORY_DATE,
    HISTORY_TO,
    HISTORY_SUBJECT,
};

/* "On Friday Ann wrote:", which may have been broken into lines (joined here by blanks). */
enum history_attribution {
    HISTORY_NO_ATTRIBUTION,
    HISTORY_ATTRIBUTION_OF_QUOTE, /* is one where a quote follows */
    HISTORY_ATTRIBUTION,          /* with date and time or address: is one whatever follows */
};

enum {
    RULE_MIN = 3,
    SEPARATOR_MAX_BYTES = 120,
    LABEL_MAX_BYTES = 40,
};

/* Words that an attribution has. */
static const char *const verbs[] = {
    "wrote", "writes",    "schrieb", "a écrit", "escribió", "ha scritto", "escreveu", "schreef",
    "skrev", "kirjoitti", "napisał", "pisze",   "napsal",   "a scris",    "írta",     "yazdı",
    "пишет", "написал",   "писал",   "έγραψε",  "写道",     "寫道",       "작성",
};

/* What an attribution with a date begins with, where that is no digit. */
static const char *const openings[] = {
    "On ",     "Am ",  "Le ", "El ",   "Il ", "Em ", "Op ", "Den ",
    "W dniu ", "Dne ", "Pe ", "Στις ", "在",  "于",  "於",
};

/* Without a first letter that may be a capital beyond ASCII. */
static const char *const separators[] = {
    "original message",
    "forwarded message",
    "original appointment",
    "ursprüngliche nachricht",
    "originalnachricht",
    "original-nachricht",
    "weitergeleitete nachricht",
    "message d'origine",
    "message original",
    "message transféré",
    "mensaje original",
    "mensaje reenviado",
    "messaggio originale",
    "messaggio inoltrato",
    "mensagem original",
    "mensagem encaminhada",
    "oorspronkelijk bericht",
    "doorgestuurd bericht",
    "ursprungligt meddelande",
    "vidarebefordrat meddelande",
    "oprindelig meddelelse",
    "opprinnelig melding",
    "wiadomość oryginalna",
    "oryginalna wiadomość",
    "сходное сообщение",
    "ересылаемое сообщение",
    "原始邮件",
    "转发邮件",
    "原始郵件",
    "元のメッセージ",
    "転送されたメッセージ",
};

/* Separators without dashes. */
static const char *const beginnings[] = {
    "begin forwarded message:",          "anfang der weitergeleiteten nachricht:",
    "début du message réexpédié :",      "début du message transféré :",
    "inicio del mensaje reenviado:",     "inizio messaggio inoltrato:",
    "início da mensagem reencaminhada:", "begin doorgestuurd bericht:",
};

static const struct {
    const char *label;
    enum history_header header;
} labels[] = {
    {"From", HISTORY_FROM},
    {"Von", HISTORY_FROM},
    {"De", HISTORY_FROM},
    {"Da", HISTORY_FROM},
    {"Van", HISTORY_FROM},
    {"Från", HISTORY_FROM},
    {"Fra", HISTORY_FROM},
    {"Od", HISTORY_FROM},
    {"Lähettäjä", HISTORY_FROM},
    {"От", HISTORY_FROM},
    {"差出人", HISTORY_FROM},
    {"发件人", HISTORY_FROM},
    {"寄件者", HISTORY_FROM},
    {"Sent", HISTORY_DATE},
    {"Date", HISTORY_DATE},
    {"Gesendet", HISTORY_DATE},
    {"Datum", HISTORY_DATE},
    {"Envoyé", HISTORY_DATE},
    {"Enviado", HISTORY_DATE},
    {"Enviado el", HISTORY_DATE},
    {"Enviada em", HISTORY_DATE},
    {"Fecha", HISTORY_DATE},
    {"Data", HISTORY_DATE},
    {"Inviato", HISTORY_DATE},
    {"Verzonden", HISTORY_DATE},
    {"Skickat", HISTORY_DATE},
    {"Sendt", HISTORY_DATE},
    {"Dato", HISTORY_DATE},
    {"Wysłano", HISTORY_DATE},
    {"Lähetetty", HISTORY_DATE},
    {"Отправлено", HISTORY_DATE},
    {"Дата", HISTORY_DATE},
    {"送信日時", HISTORY_DATE},
    {"日付", HISTORY_DATE},
    {"发送时间", HISTORY_DATE},
    {"日期", HISTORY_DATE},
    {"To", HISTORY_TO},
    {"An", HISTORY_TO},
    {"À", HISTORY_TO},
    {"Para", HISTORY_TO},
    {"A", HISTORY_TO},
    {"Aan", HISTORY_TO},
    {"Till", HISTORY_TO},
    {"Til", HISTORY_TO},
    {"Do", HISTORY_TO},
    {"Vastaanottaja", HISTORY_TO},
    {"Кому", HISTORY_TO},
    {"宛先", HISTORY_TO},
    {"收件人", HISTORY_TO},
    {"收件者", HISTORY_TO},
    {"Subject", HISTORY_SUBJECT},
    {"Betreff", HISTORY_SUBJECT},
    {"Objet", HISTORY_SUBJECT},
    {"Asunto", HISTORY_SUBJECT},
    {"Oggetto", HISTORY_SUBJECT},
    {"Assunto", HISTORY_SUBJECT},
    {"Onderwerp", HISTORY_SUBJECT},
    {"Ämne", HISTORY_SUBJECT},
    {"Emne", HISTORY_SUBJECT},
    {"Temat", HISTORY_SUBJECT},
    {"Aihe", HISTORY_SUBJECT},
    {"Тема", HISTORY_SUBJECT},
    {"件名", HISTORY_SUBJECT},
    {"主题", HISTORY_SUBJECT},
    {"主旨", HISTORY_SUBJECT},
};

/* ---- history: bytes */

static bool is_blank_byte(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

static bool begins_with(const char *text, size_t len, const char *beginning)
{
    size_t beginning_len = strlen(beginning);
    return len >= beginning_len && strncasecmp(text, beginning, beginning_len) == 0;
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

/* In small letters, as verbs are. */
static bool has_verb(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (memmem(text, len, verbs[i], strlen(verbs[i])) != NULL)
            return true;
    return false;
}

static bool names_original(const char *text, size_t len)
{
    for (size_t at = 0; at < len; at++)
        for (size_t i = 0; i < ARRAY_LEN(separators); i++)
            if (begins_with(text + at, len - at, separators[i]))
                return true;
    return false;
}

/* Blanks at both ends, no-break spaces too, and the asterisks that stand for bold. */
static void trim(const char **text, size_t *len)
{
    while (*len > 0 && (is_blank_byte(**text) || **text == '*')) {
        (*text)++;
        (*len)--;
    }
    for (;;) {
        if (*len > 0 && (is_blank_byte((*text)[*len - 1]) || (*text)[*len - 1] == '*'))
            *len -= 1;
        else if (ends_with(*text, *len, "\xc2\xa0"))
            *len -= 2;
        else
            return;
    }
}

/* ---- history: lines */

/* All: one line without its end, or where it is said, several joined; any bytes. */
static bool history_is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_blank_byte(line[i]))
            return false;
    return true;
}

/* "> ". */
static bool history_is_quoted(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ')
            return line[i] == '>';
    return false;
}

static bool is_exactly(const char *line, size_t len, const char *text)
{
    if (len > 0 && line[len - 1] == '\r')
        len--;
    return len == strlen(text) && memcmp(line, text, len) == 0;
}

/* "-- "; or without the blank, which many programs drop. */
static bool history_is_signature(const char *line, size_t len)
{
    return is_exactly(line, len, "-- ");
}

static bool history_is_signature_without_blank(const char *line, size_t len)
{
    return is_exactly(line, len, "--");
}

/* Nothing but dashes, underscores or the like. */
static bool history_is_rule(const char *line, size_t len)
{
    trim(&line, &len);
    for (size_t i = 0; i < len; i++)
        if (line[i] != line[0])
            return false;
    return len >= RULE_MIN && strchr("-_=", line[0]) != NULL;
}

/* "-----Original Message-----", "Begin forwarded message:". */
static bool history_is_separator(const char *line, size_t len)
{
    trim(&line, &len);
    if (len > SEPARATOR_MAX_BYTES)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++)
        if (len == strlen(beginnings[i]) && begins_with(line, len, beginnings[i]))
            return true;
    bool is_between_dashes = begins_with(line, len, "--") && ends_with(line, len, "--");
    return is_between_dashes && names_original(line, len);
}

/* Before the colon, which may stand apart (French) or be a wide one (Chinese, Japanese). */
static size_t label_len(const char *line, size_t len)
{
    for (size_t i = 0; i < len && i < LABEL_MAX_BYTES; i++)
        if (line[i] == ':' || begins_with(line + i, len - i, "："))
            return i;
    return 0;
}

static enum history_header history_header(const char *line, size_t len)
{
    trim(&line, &len);
    len = label_len(line, len);
    trim(&line, &len);
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (len == strlen(labels[i].label) && begins_with(line, len, labels[i].label))
            return labels[i].header;
    return HISTORY_NO_HEADER;
}

/* ---- history: attributions */

static bool begins_with_opening(const char *text, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(openings); i++)
        if (begins_with(text, len, openings[i]))
            return true;
    return len > 0 && g_ascii_isdigit(text[0]);
}

/* Whether an attribution of several lines can begin with this one. */
static bool history_begins_attribution(const char *line, size_t len)
{
    trim(&line, &len);
    return begins_with_opening(line, len);
}

/* A digit, and a time or an address. */
static bool says_when_or_who(const char *text, size_t len)
{
    bool has_digit = false;
    bool has_more = false;
    for (size_t i = 0; i < len; i++) {
        has_digit = has_digit || g_ascii_isdigit(text[i]);
        has_more = has_more || text[i] == '@';
        has_more = has_more || (i > 0 && i + 1 < len && text[i] == ':' && g_ascii_isdigit(text[i - 1]) &&
                                g_ascii_isdigit(text[i + 1]));
    }
    return has_digit && has_more;
}

static enum history_attribution history_attribution(const char *text, size_t len)
{
    trim(&text, &len);
    if (!ends_with(text, len, ":") && !ends_with(text, len, "："))
        return HISTORY_NO_ATTRIBUTION;
    bool is_full = begins_with_opening(text, len) && says_when_or_who(text, len);
    if (has_verb(text, len))
        return is_full ? HISTORY_ATTRIBUTION : HISTORY_ATTRIBUTION_OF_QUOTE;
    return is_full || ends_with(text, len, ">:") ? HISTORY_ATTRIBUTION_OF_QUOTE : HISTORY_NO_ATTRIBUTION;
}

/* ---- the text */

enum {
    ATTRIBUTION_LINES_MAX = 4,
    ATTRIBUTION_MAX_BYTES = 400,
    HEADER_BLOCK_LINES = 10,
    SHORT_SIGNATURE_LINES = 15, /* what follows "--" without a blank, where it is a signature */
};

struct text_line {
    const char *text;
    size_t len;       /* without the newline */
    const char *next; /* NULL: it was the last one */
};

struct new_text {
    struct strbuf *out;
    size_t begin;             /* of what is appended */
    const char *end;          /* of the text */
    unsigned int blank_lines; /* not appended yet */
    bool has_left_out;        /* something, since the last line that was kept */
};

static struct text_line read_line(const struct new_text *reading, const char *at)
{
    const char *newline = memchr(at, '\n', (size_t)(reading->end - at));
    const char *line_end = newline != NULL ? newline : reading->end;
    const char *next = newline != NULL && newline + 1 < reading->end ? newline + 1 : NULL;
    return (struct text_line){at, (size_t)(line_end - at), next};
}

/* ---- the text: what is kept */

static void append_blank_lines(struct new_text *reading)
{
    bool is_first = reading->out->len == reading->begin;
    unsigned int count = reading->has_left_out ? 1 : reading->blank_lines;
    for (unsigned int i = 0; !is_first && i < count; i++)
        strbuf_append_char(reading->out, '\n');
    reading->blank_lines = 0;
    reading->has_left_out = false;
}

static void keep(struct new_text *reading, const struct text_line *line)
{
    if (history_is_blank(line->text, line->len)) {
        reading->blank_lines++;
        return;
    }
    append_blank_lines(reading);
    strbuf_append(reading->out, line->text, line->len);
    strbuf_append_char(reading->out, '\n');
}

/* The last line kept is often a rule that sets off the history behind it. */
static void drop_rules(struct new_text *reading)
{
    struct strbuf *out = reading->out;
    while (out->len > reading->begin) {
        const char *begin = out->data + reading->begin;
        const char *newline = memrchr(begin, '\n', out->len - reading->begin - 1);
        const char *line = newline != NULL ? newline + 1 : begin;
        size_t len = out->len - 1 - (size_t)(line - out->data);
        if (!history_is_rule(line, len) && !history_is_blank(line, len))
            return;
        strbuf_truncate(out, (size_t)(line - out->data));
    }
}

/* ---- the text: where history begins */

/* Whether the next line with anything in it is quoted. */
static bool quote_follows(const struct new_text *reading, const char *at)
{
    while (at != NULL) {
        struct text_line line = read_line(reading, at);
        if (!history_is_blank(line.text, line.len))
            return history_is_quoted(line.text, line.len);
        at = line.next;
    }
    return false;
}

/* How an attribution that begins with this line ends; *ret_next is what follows it. */
static enum history_attribution find_attribution(const struct new_text *reading, struct text_line line,
                                                 const char **ret_next)
{
    char joined[ATTRIBUTION_MAX_BYTES];
    size_t len = 0;
    bool may_go_on = history_begins_attribution(line.text, line.len);
    for (unsigned int i = 0; i < ATTRIBUTION_LINES_MAX; i++) {
        if (history_is_blank(line.text, line.len) || history_is_quoted(line.text, line.len) ||
            len + line.len + 1 > sizeof(joined))
            break;
        memcpy(joined + len, line.text, line.len);
        len += line.len;
        joined[len++] = ' ';
        enum history_attribution found = history_attribution(joined, len);
        *ret_next = line.next;
        if (found != HISTORY_NO_ATTRIBUTION || !may_go_on || line.next == NULL)
            return found;
        line = read_line(reading, line.next);
    }
    return HISTORY_NO_ATTRIBUTION;
}

/* Whether a block of header lines begins here: the sender's, and two more of other kinds. */
static bool is_header_block(const struct new_text *reading, struct text_line line)
{
    bool is_there[HISTORY_SUBJECT + 1] = {false};
    if (history_header(line.text, line.len) != HISTORY_FROM)
        return false;
    for (unsigned int i = 1; i < HEADER_BLOCK_LINES && line.next != NULL; i++) {
        line = read_line(reading, line.next);
        is_there[history_header(line.text, line.len)] = true;
    }
    return is_there[HISTORY_DATE] + is_there[HISTORY_TO] + is_there[HISTORY_SUBJECT] >= 2;
}

static bool is_near_end(const struct new_text *reading, const struct text_line *line)
{
    const char *at = line->next;
    for (unsigned int i = 0; at != NULL; i++) {
        if (i >= SHORT_SIGNATURE_LINES)
            return false;
        struct text_line next = read_line(reading, at);
        if (history_is_quoted(next.text, next.len))
            return true;
        at = next.next;
    }
    return true;
}

static bool is_end(const struct new_text *reading, const struct text_line *line)
{
    if (history_is_signature(line->text, line->len))
        return true;
    if (history_is_signature_without_blank(line->text, line->len) && is_near_end(reading, line))
        return true;
    return history_is_separator(line->text, line->len) || is_header_block(reading, *line);
}

/* ---- the text: as a whole */

/* Looks at what begins here: the position behind it, NULL at the end of what is new. */
static const char *read_one(struct new_text *reading, const char *at)
{
    struct text_line line = read_line(reading, at);
    if (history_is_quoted(line.text, line.len)) {
        reading->has_left_out = true;
        return line.next;
    }
    if (is_end(reading, &line)) {
        drop_rules(reading);
        return NULL;
    }
    const char *next = NULL;
    enum history_attribution attribution = find_attribution(reading, line, &next);
    if (attribution != HISTORY_NO_ATTRIBUTION && quote_follows(reading, next)) {
        reading->has_left_out = true;
        return next;
    }
    if (attribution == HISTORY_ATTRIBUTION)
        return NULL;
    keep(reading, &line);
    return line.next;
}

int new_text(struct strbuf *out, const char *text, size_t len)
{
    struct new_text reading = {.out = out, .begin = out->len, .end = text + len};
    const char *at = text;
    if (len == 0)
        return out->error;
    do {
        at = read_one(&reading, at);
    } while (at != NULL && out->error == 0);
    if (out->len == reading.begin)
        strbuf_append(out, text, len);
    return out->error;
}
