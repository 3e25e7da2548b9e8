/* SPDX-License-Identifier: MIT */
/*
 * Regular expressions find what mail programs write around history; each is for one line, or for an
 * attribution of several lines. The last part of the file reads the text line by line, keeps the new lines,
 * and ends at the first history that is not quoted. Lines are compared as bytes.
 */
#include "mail/new_text.h"

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- what a line is */

/* Parts of the patterns. Each may hold those after it. The phrases are in English, German, French, Spanish,
 * Italian, Portuguese, Dutch, the languages of Scandinavia, Finnish, Polish, Czech, Hungarian, Romanian,
 * Turkish, Russian, Ukrainian, Greek, Vietnamese, Chinese, Japanese and Korean. */
static const struct {
    const char *name;
    const char *pattern;
} parts[] = {
    {"<SEPARATOR>", "<END_MARK><MARKS><RULE>[-_=\\s*]*+<ORIGINAL>.*<RULE><MARKS>$"},
    {"<REPLY_LINE>", "(?=.{0,120}$)<MARKS>(?=[#*_=-]{2}|(?=.{0,60}$).*<ANSWER>).*<ABOVE>"},
    {"<IS_MARKED>", "<END_MARK>(?=.*(?:<COLON>|<RULE>)<MARKS>$)"},
    {"<IS_DATED>", "(?=[-*:\\s]*+(?:<OPENING>|(?:[^ ]* )?(?=\\d))(?=.*\\d)(?=.*(?:<TIME>|@)))"},
    {"<HAS_SENDER>", "<END_MARK>(?=.*@)(?=.*>[-*:\\s]*+$)"},
    {"<HAS_VERB>", "(?=.*<VERB>)"},
    {"<HAS_ALL>", "(?=.*<YEAR>)(?=.*<TIME>)(?=.*@)(?=.*<)"},
    /* Quickly refuses most lines, by their last byte. */
    {"<END_MARK>", "(?=.*+(?<=[-:>=_*\\s\\x9a\\xa0]))"},
    {"<YEAR>", "(?<!\\d)\\d{4}(?!\\d)"},
    {"<TIME>", "\\d[:.]\\d"},
    {"<RULE>", "---|___|==="},
    {"<COLON>", ":|："},
    {"<MARKS>", "(?:[\\s*]|\u00a0)*+"}, /* bold text is between asterisks */
    /* Before the date in an attribution; attributions without it begin with the date. */
    {"<OPENING>",
     "On |Am |Le |El |Il |In data |Em |No dia |Op |Den |På |W dniu |Dnia |Dne |Pe |În |Στις |Vào |在|于|於"},
    /* Within an attribution. */
    {"<VERB>",
     "wrote|writes|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|geschreven|skrev|kirjoitti|napisał|"
     "pisze|napsal|írta|a scris|yazdı|пишет|написал|писал|пише|написав|έγραψε|đã viết|"
     "写道|寫道|のメール|작성"},
    /* Between dashes, in a separator above history. */
    {"<ORIGINAL>",
     "Original Message|Original Appointment|Ursprüngliche Nachricht|Originalnachricht|Original-Nachricht|"
     "Message d'origine|Message d’origine|Message original|Mensaje original|Messaggio originale|"
     "Mensagem original|Oorspronkelijk bericht|Origineel bericht|Ursprungligt meddelande|Originalmeddelande|"
     "Oprindelig meddelelse|Oprindelig besked|Opprinnelig melding|Opprinnelig e-post|Alkuperäinen viesti|"
     "Wiadomość oryginalna|Oryginalna wiadomość|Původní zpráva|Eredeti üzenet|Mesaj original|Orijinal Mesaj|"
     "Özgün İleti|Исходное сообщение|Оригинальное сообщение|Вихідне повідомлення|Αρχικό μήνυμα|原始邮件|"
     "原始郵件|元のメッセージ|オリジナルメッセージ|원본 메시지|원본 메일"},
    /* Between dashes or before a colon, above a forwarded mail. */
    {"<FORWARDED>",
     "Forwarded message|Begin forwarded message|Start of forwarded message|Weitergeleitete Nachricht|"
     "Anfang der weitergeleiteten Nachricht|Message transféré|Début du message|Mensaje reenviado|"
     "Inicio del mensaje reenviado|Messaggio inoltrato|Inizio messaggio inoltrato|Mensagem encaminhada|"
     "Início da mensagem |Doorgestuurd bericht|Begin doorgestuurd bericht|Vidarebefordrat meddelande|"
     "Videresendt meddelelse|Videresendt melding|Välitetty viesti|Przekazana wiadomość|Wiadomość przekazana|"
     "Přeposlaná zpráva|Továbbított üzenet|Mesaj redirecționat|Yönlendirilen ileti|Yönlendirilmiş mesaj|"
     "Пересылаемое сообщение|Пересланное сообщение|Начало переадресованного сообщения|Переслане повідомлення|"
     "Προωθημένο μήνυμα|转发邮件|轉寄郵件|转发的邮件|転送されたメッセージ|転送メッセージ"},
    /* Labels in a block of headers. */
    {"<FROM>",
     "From|Von|De|Da|Van|Från|Fra|Lähettäjä|Od|Feladó|De la|Kimden|Gönderen|От|От кого|Від|Από|Từ|发件人|"
     "寄件者|差出人|보낸 사람|보낸사람"},
    {"<DATE>",
     "Sent|Date|Gesendet|Datum|Envoyé|Envoyé le|Message du|Enviado|Enviado el|Fecha|Inviato|Data|Enviada|"
     "Enviada em|Verzonden|Skickat|Sendt|Dato|Lähetetty|Päiväys|Wysłano|Odesláno|Elküldve|Dátum|Trimis|"
     "Gönderildi|Tarih|Отправлено|Дата|Надіслано|Στάλθηκε|Ημερομηνία|Đã gửi|发送时间|日期|寄件日期|送信日時|"
     "日付|보낸 날짜|날짜"},
    {"<TO>",
     "To|An|À|Para|A|Aan|Till|Til|Vastaanottaja|Do|Komu|Címzett|Către|Kime|Кому|Προς|Đến|收件人|收件者|宛先|"
     "받는 사람|받는사람"},
    {"<SUBJECT>",
     "Subject|Betreff|Objet|Sujet|Asunto|Oggetto|Assunto|Onderwerp|Ämne|Emne|Aihe|Temat|Předmět|Tárgy|"
     "Subiect|Konu|Тема|Θέμα|Chủ đề|主题|主旨|件名|제목"},
    /* Begins the line that a telephone adds to a mail. */
    {"<DEVICE>",
     "Sent from |Sent via |Sent wirelessly |Get Outlook for |Von meinem |Gesendet von |Gesendet mit |"
     "Diese Nachricht wurde von mein|Envoyé de |Envoyé depuis |Envoyé à partir |Envoyé sans fil |"
     "Obtenir Outlook pour |Télécharger Outlook pour |Enviado desde |Obtener Outlook para |Inviato da |"
     "Inviato dal |Ottieni Outlook per |Scarica Outlook per |Enviado do meu |Enviado de |Enviado a partir |"
     "Obter o Outlook para |Obtenha o Outlook para |Verzonden vanaf |Verstuurd vanaf |Verzonden met |"
     "Skickat från |Sendt fra |Hämta Outlook för |Hent Outlook til |Få Outlook for |Lähetetty |Wysłane z |"
     "Wysłano z |Pobierz program Outlook dla |Odesláno z |Trimis de pe |iPhone'umdan |iPad'imden |"
     "iPhone’umdan |iPad’imden |Отправлено с |Отправлено из |Надіслано з |Στάλθηκε από |发自我的|從我的|"
     "iPhoneから送信|iPadから送信|Androidから送信|나의 iPhone에서 |내 iPhone에서 "},
    /* In the footer that a mailing list adds, under a rule. */
    {"<LIST>", "mailing list|To unsubscribe, e-mail: "},
    /* In the line above which an answer is to be written. */
    {"<ABOVE>",
     "above this line|above the line|oberhalb dieser zeile|über dieser zeile|über diese zeile|"
     "au-dessus de cette ligne|au dessus de cette ligne|encima de esta línea|arriba de esta línea|"
     "sopra di questa riga|sopra questa riga|sopra questa linea|acima desta linha|boven deze regel|"
     "boven deze lijn|ovanför den här raden|ovanför denna rad|over denne linje|tämän rivin yläpuolel|"
     "powyżej tej linii|powyżej tego wiersza|nad tą linią|nad tento řádek|nad tímto řádkem|sor fölé|"
     "deasupra acestei linii|bu satırın üst|bu satırın yukarı|над этой строкой|выше этой строки|"
     "выше этой линии|над цим рядком|вище цього рядка|πάνω από αυτή τη γραμμή|πάνω από αυτήν τη γραμμή|"
     "phía trên dòng này|此行上方|这行上方|這行上方|此行之上|この行の上に|この行より上に|이 줄 위"},
    /* Also needed in such a line that has no marks before it. Such a line is short. */
    {"<ANSWER>",
     "reply|response|antwort|répon|respuesta|respond|rispo|resposta|antwoord|svar|vasta|odpow|odpov|válasz|"
     "răspun|yanıt|ответ|відпов|απάντησ|phản hồi|回复|回覆|返信|답장|회신"},
};

/* The kinds of lines, in the order in which their patterns are tried. */
enum line_kind {
    LINE_OF_TEXT,
    LINE_FORWARD, /* "---------- Forwarded message ---------" or "Begin forwarded message:" */
    LINE_HISTORY, /* "-----Original Message-----" or "##- Please type your reply above this line -##" */
    LINE_TIME,    /* "Sent: 20 Nov 2026 10:14"; LINE_TIME to LINE_SUBJECT stand in a block of headers */
    LINE_DATE,
    LINE_FROM,
    LINE_TO,
    LINE_SUBJECT,
    LINE_SIGNATURE, /* "-- " */
    LINE_DASHES,    /* "--" */
    LINE_DEVICE,    /* "Sent from my iPhone"; people write a comma: "Sent from my desk, as usual" */
    LINE_RULE,      /* begins and ends with three dashes, underscores or "=" */
    LINE_LIST,
    LINE_KINDS,
};

static const char *const line_patterns[LINE_KINDS] = {
    [LINE_FORWARD] = "(?i)<END_MARK>[-_=\\s*]*+<FORWARDED>.*(?:<RULE>|:)<MARKS>$",
    [LINE_HISTORY] = "(?i)(?:<SEPARATOR>|<REPLY_LINE>)",
    [LINE_TIME] = "<MARKS><DATE><MARKS><COLON>.*<TIME>",
    [LINE_DATE] = "<MARKS><DATE><MARKS><COLON>",
    [LINE_FROM] = "<MARKS><FROM><MARKS><COLON>",
    [LINE_TO] = "<MARKS><TO><MARKS><COLON>",
    [LINE_SUBJECT] = "<MARKS><SUBJECT><MARKS><COLON>",
    [LINE_SIGNATURE] = "-- \r?$",
    [LINE_DASHES] = "--\r?$",
    [LINE_DEVICE] = "\\s*<DEVICE>[^,]{0,100}$",
    [LINE_RULE] = "<END_MARK><MARKS>(?=<RULE>).{0,120}<RULE><MARKS>$",
    [LINE_LIST] = "(?=.{0,120}$).*<LIST>",
};

/* The kinds of attributions: the line with the date and the sender of a quote. */
enum attribution {
    ATTRIBUTION_NONE,
    ATTRIBUTION_SURE, /* "On Friday at 10:14 Ann wrote:": an attribution whatever follows. The sender may be
                         before the date, as in Turkish: "Ann <ann@x.example>, 20 Kas 2026 10:14 yazdı:" */
    ATTRIBUTION_OF_QUOTE, /* "Ann wrote:": an attribution only if the next text is a quote */
    ATTRIBUTION_KINDS,
};

static const char *const attribution_patterns[ATTRIBUTION_KINDS] = {
    [ATTRIBUTION_SURE] = "<IS_MARKED>(?:<HAS_VERB>(?:<IS_DATED>|<HAS_ALL>)|<IS_DATED><HAS_SENDER><HAS_ALL>)",
    [ATTRIBUTION_OF_QUOTE] = "<IS_MARKED>(?:<HAS_VERB>|<IS_DATED>|<HAS_SENDER>)|<HAS_SENDER><IS_DATED>",
};

/* A line that may be the first of several of an attribution: by its opening, or by its date. */
static const char *const beginning_patterns[] = {NULL, "[-*\\s]*+<OPENING>",
                                                 "[-*\\s]*+(?:[^ ]* )?(?=\\d)(?=.*(?:<YEAR>|<TIME>))"};
static const char *const sentence_end_patterns[] = {NULL, ".*(?:[.!?:;]|…|。|！|？|：)[\"')*_\\s]*$"};

static GRegex *line_regex;
static GRegex *attribution_regex;
static GRegex *beginning_regex;
static GRegex *sentence_end_regex;

enum {
    LINE_MAX_BYTES = 400, /* number of bytes of a line that are compared */
    WRAPPED_MIN = 60,     /* length in characters of a line that a mail program wrapped */
    WRAPPED_MAX = 100,
};

/* A line without its newline, or several lines joined by blanks. */
struct text_line {
    const char *text;
    size_t len;
    const char *next; /* the position after the newline; NULL for the last line */
};

/* Each pattern becomes a group, whose number is the index of the pattern. */
static GRegex *join_patterns(const char *const *patterns, size_t len)
{
    g_autoptr(GString) joined = g_string_new("^(?:");
    for (size_t i = 1; i < len; i++)
        g_string_append_printf(joined, "%s(%s)", i > 1 ? "|" : "", patterns[i]);
    g_string_append_c(joined, ')');
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        g_autofree char *part = g_strdup_printf("(?:%s)", parts[i].pattern);
        g_string_replace(joined, parts[i].name, part, 0);
    }
    return g_regex_new(joined->str, G_REGEX_RAW | G_REGEX_OPTIMIZE | G_REGEX_DOTALL, 0, NULL);
}

static void compile_patterns(void)
{
    line_regex = join_patterns(line_patterns, LINE_KINDS);
    attribution_regex = join_patterns(attribution_patterns, ATTRIBUTION_KINDS);
    beginning_regex = join_patterns(beginning_patterns, ARRAY_LEN(beginning_patterns));
    sentence_end_regex = join_patterns(sentence_end_patterns, ARRAY_LEN(sentence_end_patterns));
}

/* Returns the index of the pattern that the line matches; 0 if it matches none. */
static unsigned int find_pattern(const GRegex *regex, struct text_line line)
{
    g_autoptr(GMatchInfo) match = NULL;
    bool is_cut = line.len > LINE_MAX_BYTES;
    bool is_found = g_regex_match_full(regex, line.text, is_cut ? LINE_MAX_BYTES : (gssize)line.len, 0,
                                       is_cut ? G_REGEX_MATCH_NOTEOL : 0, &match, NULL);
    return is_found ? (unsigned int)g_match_info_get_match_count(match) - 1 : 0;
}

static bool is_blank(struct text_line line)
{
    for (size_t i = 0; i < line.len; i++)
        if (!g_ascii_isspace(line.text[i]) && line.text[i] != '\xc2' && line.text[i] != '\xa0') /* U+00A0 */
            return false;
    return true;
}

/* Returns true for a line such as "> text". */
static bool is_quoted(struct text_line line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.text[i] != ' ')
            return line.text[i] == '>';
    return false;
}

static enum line_kind kind_of(struct text_line line)
{
    return is_quoted(line) ? LINE_OF_TEXT : (enum line_kind)find_pattern(line_regex, line);
}

/* Returns true if a mail program can have wrapped one line into this one and another: this one has the length
 * of a wrapped line, and ends in the middle of a sentence. */
static bool can_be_wrapped(struct text_line line)
{
    glong width = line.len > 4 * WRAPPED_MAX ? WRAPPED_MAX + 1 : g_utf8_strlen(line.text, (gssize)line.len);
    return width >= WRAPPED_MIN && width <= WRAPPED_MAX && find_pattern(sentence_end_regex, line) == 0;
}

/* ---- the text */

enum {
    ATTRIBUTION_LINES_MAX = 4,
    HEADER_BLOCK_LINES = 12,    /* maximum number of lines in a block of headers */
    HEADER_VALUE_LINES = 2,     /* maximum number of consecutive lines without a label in such a block */
    SHORT_SIGNATURE_LINES = 15, /* maximum length of a signature that begins with "--" instead of "-- " */
    REST_LINES_MAX = 20,        /* maximum number of lines without ">" that continue a wrapped quoted line */
};

struct new_text {
    struct strbuf *out;
    enum new_text_kind kind;
    size_t begin;              /* offset in `out` at which the new text begins */
    const char *end;           /* end of the text that is read */
    unsigned int blank_lines;  /* number of blank lines not appended yet */
    size_t end_without_device; /* end of the last kept line that no telephone added */
    size_t end_without_rule;   /* end of the last such line that is not a rule either */
    bool has_left_out;         /* text was left out since the last line that was kept */
    bool is_signature;         /* the current line is within a signature */
    bool is_forward;           /* the current line is within a forwarded mail */
    bool is_wrapped;           /* skip_rests() has found the rest of a wrapped quoted line */
    bool is_clearly_answer;    /* a first mail has what only answers have */
};

static struct text_line read_line(const struct new_text *reading, const char *at)
{
    const char *newline = memchr(at, '\n', (size_t)(reading->end - at));
    const char *line_end = newline != NULL ? newline : reading->end;
    const char *next = newline != NULL && newline + 1 < reading->end ? newline + 1 : NULL;
    return (struct text_line){at, (size_t)(line_end - at), next};
}

/* Returns the next line that is not blank, or a blank line at the end of the text. */
static struct text_line read_line_with_text(const struct new_text *reading, const char *at)
{
    struct text_line line = {.text = "", .next = at};
    while (line.next != NULL && is_blank(line))
        line = read_line(reading, line.next);
    return line;
}

static void keep_line(struct new_text *reading, struct text_line line, enum line_kind kind)
{
    struct strbuf *out = reading->out;
    bool is_first = out->len == reading->begin;
    unsigned int count = is_first ? 0 : reading->has_left_out ? 1 : reading->blank_lines;
    while (count-- > 0)
        strbuf_append_char(out, '\n');
    strbuf_append(out, line.text, line.len);
    strbuf_append_char(out, '\n');
    reading->blank_lines = 0;
    reading->has_left_out = false;
    if (kind != LINE_DEVICE)
        reading->end_without_device = out->len;
    if (kind != LINE_DEVICE && kind != LINE_RULE)
        reading->end_without_rule = out->len;
}

/* Notes that text is left out here, and removes the last kept lines after `end`. */
static void leave_out(struct new_text *reading, size_t end)
{
    if (!reading->has_left_out)
        strbuf_truncate(reading->out, end);
    reading->has_left_out = true;
}

/* Returns true if the text ends within an address. Gmail may break an attribution before "> wrote:", so a
 * line that begins with ">" after an open bracket is not a quote. */
static bool has_open_bracket(const char *text, size_t len)
{
    const char *open = memrchr(text, '<', len);
    return open != NULL && memchr(open, '>', (size_t)(text + len - open)) == NULL;
}

/* Returns the kind of attribution that begins with this line; *ret_next is the position after it. */
static enum attribution find_attribution(const struct new_text *reading, struct text_line line,
                                         const char **ret_next)
{
    char joined[LINE_MAX_BYTES];
    size_t len = 0;
    unsigned int lines = find_pattern(beginning_regex, line) != 0 ? ATTRIBUTION_LINES_MAX : 1;
    for (unsigned int i = 0; i < lines && len + line.len < sizeof(joined); i++) {
        memcpy(joined + len, line.text, line.len);
        len += line.len;
        enum attribution found =
            (enum attribution)find_pattern(attribution_regex, (struct text_line){joined, len, NULL});
        bool is_of_quote = found == ATTRIBUTION_OF_QUOTE && i == 0;
        *ret_next = line.next;
        if (found == ATTRIBUTION_SURE || (is_of_quote && is_quoted(read_line_with_text(reading, line.next))))
            return found;
        if (line.next == NULL)
            break;
        line = read_line(reading, line.next);
        bool is_quote = is_quoted(line) && !has_open_bracket(joined, len);
        if (is_blank(line) || is_quote || find_pattern(beginning_regex, line) == 1)
            break;
        joined[len++] = ' ';
    }
    return ATTRIBUTION_NONE;
}

static bool is_header(enum line_kind kind)
{
    return kind >= LINE_TIME && kind <= LINE_SUBJECT;
}

/* Returns true if a block of headers begins here: at least three headers, the sender among them; or a date
 * with a time, and a sender or recipient with an address. */
static bool is_header_block(const struct new_text *reading, struct text_line line)
{
    bool is_there[LINE_KINDS] = {false};
    bool has_address = false;
    unsigned int without_label = 0;
    for (unsigned int i = 0; i < HEADER_BLOCK_LINES && without_label <= HEADER_VALUE_LINES; i++) {
        enum line_kind kind = kind_of(line);
        bool is_person = kind == LINE_FROM || kind == LINE_TO;
        is_there[kind] = true;
        has_address = has_address || (is_person && memchr(line.text, '@', line.len) != NULL);
        without_label = is_header(kind) ? 0 : without_label + 1;
        if (line.next == NULL)
            break;
        line = read_line_with_text(reading, line.next);
    }
    int count = (is_there[LINE_DATE] || is_there[LINE_TIME]) + is_there[LINE_FROM] + is_there[LINE_TO] +
                is_there[LINE_SUBJECT];
    return (is_there[LINE_TIME] && has_address) || (is_there[LINE_FROM] && count >= 3);
}

static bool is_near_end(const struct new_text *reading, struct text_line line)
{
    for (unsigned int i = 0; line.next != NULL; i++) {
        if (i >= SHORT_SIGNATURE_LINES)
            return false;
        line = read_line(reading, line.next);
        if (is_quoted(line))
            return true;
    }
    return true;
}

/* Returns true if a signature or a list's footer begins here. Many programs drop the blank of "-- ". */
static bool is_signature(const struct new_text *reading, struct text_line line, enum line_kind kind)
{
    return kind == LINE_SIGNATURE || (kind == LINE_DASHES && is_near_end(reading, line)) ||
           (kind == LINE_RULE && kind_of(read_line_with_text(reading, line.next)) == LINE_LIST);
}

enum history {
    HISTORY_NONE,
    HISTORY_QUOTE,
    HISTORY_ATTRIBUTION, /* an attribution, followed by a quote */
    HISTORY_HEADERS,     /* a block of headers; all the following text is history */
    HISTORY_MARKED,      /* a separator, reply line or sure attribution; all the following text is history */
};

/* Returns the kind of history that begins with this line; *ret_next is the position after the line or the
 * attribution. */
static enum history find_history(const struct new_text *reading, struct text_line line, enum line_kind kind,
                                 const char **ret_next)
{
    *ret_next = line.next;
    if (is_quoted(line))
        return HISTORY_QUOTE;
    const char *next = NULL;
    enum attribution attribution = find_attribution(reading, line, &next);
    if (attribution != ATTRIBUTION_NONE && is_quoted(read_line_with_text(reading, next))) {
        *ret_next = next;
        return HISTORY_ATTRIBUTION;
    }
    if (attribution == ATTRIBUTION_SURE || kind == LINE_HISTORY)
        return HISTORY_MARKED;
    return is_header(kind) && is_header_block(reading, line) ? HISTORY_HEADERS : HISTORY_NONE;
}

/* Returns the position after a quoted line and its rests. Rests are the lines without a mark into which a
 * mail program wraps a quoted line. A line that may be new text is not skipped. The first rest begins with a
 * small letter; later ones may begin with any letter if another quoted line follows them. */
static const char *skip_rests(struct new_text *reading, struct text_line quote)
{
    struct text_line before = quote;
    bool is_small = false;
    for (unsigned int i = 0; i <= REST_LINES_MAX && before.next != NULL; i++) {
        struct text_line line = read_line(reading, before.next);
        if (is_quoted(line) || is_blank(line)) {
            if (i == 0 || !(is_small || (reading->is_wrapped && is_quoted(line))))
                return quote.next;
            reading->is_wrapped = true;
            return before.next;
        }
        gunichar c = line.len > 0 ? g_utf8_get_char_validated(line.text, (gssize)line.len) : 0;
        is_small = is_small || (i == 0 && (c < 0x110000 && g_unichar_islower(c)));
        if (!can_be_wrapped(before))
            return quote.next;
        before = line;
    }
    return before.next == NULL && is_small ? NULL : quote.next;
}

/* Reads the line or attribution at this position. Returns the position after it; NULL at the end of the new
 * text. A forwarded mail is kept with all its quotes, since it is new to its recipient. */
static const char *read_line_or_attribution(struct new_text *reading, const char *at)
{
    struct text_line line = read_line(reading, at);
    if (is_blank(line)) {
        reading->blank_lines++;
        return line.next;
    }
    const char *next = line.next;
    enum line_kind kind = kind_of(line);
    reading->is_forward = reading->is_forward || kind == LINE_FORWARD;
    enum history history = reading->is_forward ? HISTORY_NONE : find_history(reading, line, kind, &next);
    if (reading->kind == NEW_TEXT_OF_FIRST) {
        /* People write quotes and headers in first mails, too. */
        reading->is_clearly_answer = history == HISTORY_ATTRIBUTION || history == HISTORY_MARKED;
        history = HISTORY_NONE;
    }
    if (reading->kind == NEW_TEXT_OF_FORWARD)
        reading->is_forward = reading->is_forward || history != HISTORY_NONE;
    if (reading->is_forward) {
        keep_line(reading, line, kind);
        return line.next;
    }
    if (history == HISTORY_QUOTE || history == HISTORY_ATTRIBUTION) {
        leave_out(reading, reading->end_without_device);
        if (history == HISTORY_ATTRIBUTION)
            return next;
        return reading->is_signature ? NULL : skip_rests(reading, line);
    }
    bool is_end = history != HISTORY_NONE;
    bool begins_signature = !reading->is_signature && is_signature(reading, line, kind);
    if (is_end || begins_signature)
        leave_out(reading, reading->end_without_rule);
    reading->is_signature |= begins_signature;
    if (!reading->is_signature && !is_end)
        keep_line(reading, line, kind);
    return is_end ? NULL : line.next;
}

int new_text_append(struct strbuf *out, enum new_text_kind kind, const char *text, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, compile_patterns);
    struct new_text reading = {
        .out = out,
        .kind = kind,
        .begin = out->len,
        .end = text + len,
        .end_without_device = out->len,
        .end_without_rule = out->len,
    };
    const char *at = text;
    if (len == 0)
        return out->error;
    do {
        at = read_line_or_attribution(&reading, at);
    } while (at != NULL && out->error == 0 && !reading.is_clearly_answer);
    if (reading.is_clearly_answer) {
        strbuf_truncate(out, reading.begin);
        return new_text_append(out, NEW_TEXT_OF_ANSWER, text, len);
    }
    if (out->error == 0 && !reading.is_forward)
        leave_out(&reading, reading.end_without_device);
    if (out->len == reading.begin)
        strbuf_append(out, text, len);
    return out->error;
}
