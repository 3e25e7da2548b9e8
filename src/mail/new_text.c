/* SPDX-License-Identifier: MIT */
/*
 * The table holds the phrases that mail programs write around history, in many languages. The functions after
 * it classify one line. The last part of the file reads the text line by line, keeps the new lines, and ends
 * at the first history that is not quoted. Phrases are compared as bytes, with the capitals that mail
 * programs write.
 */
#include "mail/new_text.h"

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"

/* ---- what mail programs write */

enum phrase {
    PHRASE_OPENING,   /* before the date in an attribution; attributions without it begin with the date */
    PHRASE_VERB,      /* within an attribution */
    PHRASE_ORIGINAL,  /* between dashes, in a separator above history */
    PHRASE_FORWARDED, /* between dashes or before a colon, above a forwarded mail */
    PHRASE_FROM,      /* PHRASE_FROM to PHRASE_SUBJECT: a label in a block of headers */
    PHRASE_DATE,
    PHRASE_TO,
    PHRASE_SUBJECT,
    PHRASE_DEVICE, /* begins the line that a telephone adds to a mail */
    PHRASE_LIST,   /* in the footer that a mailing list adds, under a rule */
    PHRASE_ABOVE,  /* in the line above which an answer is to be written; in small letters */
    PHRASE_ANSWER, /* also needed in a line with PHRASE_ABOVE that has no marks around it; in small letters */
    PHRASE_COUNT,
};

/* Phrases of a kind, with "|" between them: in English, German, French, Spanish, Italian, Portuguese, Dutch,
 * the languages of Scandinavia, Finnish, Polish, Czech, Hungarian, Romanian, Turkish, Russian, Ukrainian,
 * Greek, Vietnamese, Chinese, Japanese and Korean. */
static const char *const phrases[PHRASE_COUNT] = {
    [PHRASE_OPENING] = "On |Am |Le |El |Il |In data |Em |No dia |Op |Den |På |W dniu |Dnia |Dne |Pe |În "
                       "|Στις |Vào |在|于|於",
    [PHRASE_VERB] =
        "wrote|writes|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|geschreven|skrev|kirjoitti|"
        "napisał|pisze|napsal|írta|a scris|yazdı|пишет|написал|писал|пише|написав|έγραψε|đã viết|写道|寫道|"
        "のメール|작성",
    [PHRASE_ORIGINAL] =
        "Original Message|Original message|original message|Original Appointment|Ursprüngliche Nachricht|"
        "Originalnachricht|Original-Nachricht|Message d'origine|Message d’origine|Message original|"
        "Message Original|Mensaje original|Messaggio originale|Messaggio Originale|Mensagem original|"
        "Mensagem Original|Oorspronkelijk bericht|Origineel bericht|Ursprungligt meddelande|"
        "Originalmeddelande|Oprindelig meddelelse|Oprindelig besked|Opprinnelig melding|Opprinnelig e-post|"
        "Alkuperäinen viesti|Wiadomość oryginalna|Oryginalna wiadomość|Původní zpráva|Eredeti üzenet|"
        "Mesaj original|Orijinal Mesaj|Orijinal mesaj|Özgün İleti|Исходное сообщение|Оригинальное сообщение|"
        "Вихідне повідомлення|Αρχικό μήνυμα|原始邮件|原始郵件|元のメッセージ|オリジナルメッセージ|"
        "원본 메시지|원본 메일",
    [PHRASE_FORWARDED] =
        "Forwarded message|Forwarded Message|Begin forwarded message|Start of forwarded message|"
        "Weitergeleitete Nachricht|Anfang der weitergeleiteten Nachricht|Message transféré|Message Transféré|"
        "Début du message|Mensaje reenviado|Inicio del mensaje reenviado|Messaggio inoltrato|"
        "Inizio messaggio inoltrato|Mensagem encaminhada|Início da mensagem |Doorgestuurd bericht|"
        "Begin doorgestuurd bericht|Vidarebefordrat meddelande|Videresendt meddelelse|Videresendt melding|"
        "Välitetty viesti|Przekazana wiadomość|Wiadomość przekazana|Přeposlaná zpráva|Továbbított üzenet|"
        "Mesaj redirecționat|Yönlendirilen ileti|Yönlendirilmiş mesaj|Пересылаемое сообщение|"
        "Пересланное сообщение|Начало переадресованного сообщения|Переслане повідомлення|Προωθημένο μήνυμα|"
        "转发邮件|轉寄郵件|转发的邮件|転送されたメッセージ|転送メッセージ",
    [PHRASE_FROM] =
        "From|Von|De|Da|Van|Från|Fra|Lähettäjä|Od|Feladó|De la|Kimden|Gönderen|От|От кого|Від|Από|Từ|发件人|"
        "寄件者|差出人|보낸 사람|보낸사람",
    [PHRASE_DATE] =
        "Sent|Date|Gesendet|Datum|Envoyé|Envoyé le|Message du|Enviado|Enviado el|Fecha|Inviato|Data|Enviada|"
        "Enviada em|Verzonden|Skickat|Sendt|Dato|Lähetetty|Päiväys|Wysłano|Odesláno|Elküldve|Dátum|Trimis|"
        "Gönderildi|Tarih|Отправлено|Дата|Надіслано|Στάλθηκε|Ημερομηνία|Đã gửi|发送时间|日期|寄件日期|"
        "送信日時|日付|보낸 날짜|날짜",
    [PHRASE_TO] =
        "To|An|À|Para|A|Aan|Till|Til|Vastaanottaja|Do|Komu|Címzett|Către|Kime|Кому|Προς|Đến|收件人|收件者|"
        "宛先|받는 사람|받는사람",
    [PHRASE_SUBJECT] =
        "Subject|Betreff|Objet|Sujet|Asunto|Oggetto|Assunto|Onderwerp|Ämne|Emne|Aihe|Temat|Předmět|Tárgy|"
        "Subiect|Konu|Тема|Θέμα|Chủ đề|主题|主旨|件名|제목",
    [PHRASE_DEVICE] =
        "Sent from |Sent via |Sent wirelessly |Get Outlook for |Von meinem |Gesendet von |Gesendet mit |"
        "Diese Nachricht wurde von mein|Envoyé de |Envoyé depuis |Envoyé à partir |Envoyé sans fil |"
        "Obtenir Outlook pour |Télécharger Outlook pour |Enviado desde |Obtener Outlook para |Inviato da |"
        "Inviato dal |Ottieni Outlook per |Scarica Outlook per |Enviado do meu |Enviado de |"
        "Enviado a partir |Obter o Outlook para |Obtenha o Outlook para |Verzonden vanaf |Verstuurd vanaf |"
        "Verzonden met |Skickat från |Sendt fra |Hämta Outlook för |Hent Outlook til |Få Outlook for |"
        "Lähetetty |Wysłane z |Wysłano z |Pobierz program Outlook dla |Odesláno z |Trimis de pe |"
        "iPhone'umdan |iPad'imden |iPhone’umdan |iPad’imden |Отправлено с |Отправлено из |Надіслано з |"
        "Στάλθηκε από |发自我的|從我的|iPhoneから送信|iPadから送信|Androidから送信|나의 iPhone에서 |"
        "내 iPhone에서 ",
    [PHRASE_LIST] = "mailing list|To unsubscribe, e-mail: ",
    [PHRASE_ABOVE] =
        "above this line|above the line|oberhalb dieser zeile|über dieser zeile|über diese zeile|"
        "au-dessus de cette ligne|au dessus de cette ligne|encima de esta línea|arriba de esta línea|"
        "sopra di questa riga|sopra questa riga|sopra questa linea|acima desta linha|boven deze regel|"
        "boven deze lijn|ovanför den här raden|ovanför denna rad|over denne linje|tämän rivin yläpuolel|"
        "powyżej tej linii|powyżej tego wiersza|nad tą linią|nad tento řádek|nad tímto řádkem|sor fölé|"
        "deasupra acestei linii|bu satırın üst|bu satırın yukarı|над этой строкой|выше этой строки|"
        "выше этой линии|над цим рядком|вище цього рядка|πάνω από αυτή τη γραμμή|πάνω από αυτήν τη γραμμή|"
        "phía trên dòng này|此行上方|这行上方|這行上方|此行之上|この行の上に|この行より上に|이 줄 위",
    [PHRASE_ANSWER] =
        "reply|response|antwort|répon|respuesta|respond|rispo|resposta|antwoord|svar|vasta|odpow|odpov|"
        "válasz|răspun|yanıt|ответ|відпов|απάντησ|phản hồi|回复|回覆|返信|답장|회신",
};

/* A line without its newline, a part of a line, or several lines joined by blanks. */
struct text_line {
    const char *text;
    size_t len;
    const char *next; /* the position after the newline; NULL for the last line */
};

static bool begins(struct text_line line, const char *text, size_t len)
{
    return line.len >= len && memcmp(line.text, text, len) == 0;
}

static bool contains(struct text_line line, const char *text, size_t len)
{
    return memmem(line.text, line.len, text, len) != NULL;
}

static bool equals(struct text_line line, const char *text, size_t len)
{
    return line.len == len && begins(line, text, len);
}

static bool begins_with(struct text_line line, const char *beginning)
{
    return begins(line, beginning, strlen(beginning));
}

static bool ends_with(struct text_line line, const char *end)
{
    size_t len = strlen(end);
    return line.len >= len && memcmp(line.text + line.len - len, end, len) == 0;
}

/* Returns true if `how`, such as begins() or contains(), is true for a phrase of this kind. */
static bool has_phrase(struct text_line line, bool (*how)(struct text_line, const char *, size_t),
                       enum phrase kind)
{
    size_t len;
    for (const char *phrase = phrases[kind]; *phrase != '\0'; phrase += len + (phrase[len] == '|')) {
        len = (size_t)(strchrnul(phrase, '|') - phrase);
        if (how(line, phrase, len))
            return true;
    }
    return false;
}

static bool is_blank_byte(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f';
}

static bool is_one_of(char c, const char *bytes)
{
    return is_blank_byte(c) || (c != '\0' && strchr(bytes, c) != NULL);
}

/* Strips `bytes` and blanks from both ends, and no-break spaces from the right end. */
static struct text_line trim(struct text_line line, const char *bytes)
{
    while (line.len > 0 && is_one_of(*line.text, bytes)) {
        line.text++;
        line.len--;
    }
    for (;;) {
        if (line.len > 0 && is_one_of(line.text[line.len - 1], bytes))
            line.len -= 1;
        else if (ends_with(line, "\xc2\xa0"))
            line.len -= 2;
        else
            return line;
    }
}

/* ---- what a line is */

enum {
    RULE_MIN = 3,
    MARK_MAX_BYTES = 120, /* maximum length of a rule, a separator or a telephone's line */
    LABEL_MAX_BYTES = 40,
    ATTRIBUTION_MAX_BYTES = 400,
    WRAPPED_MIN = 56, /* length in characters of a line that a mail program wrapped */
    WRAPPED_MAX = 100,
    WRAP_COLUMN = 64, /* no mail program wraps a line before this column */
};

static bool is_blank(struct text_line line)
{
    return trim(line, "").len == 0;
}

/* Returns true for a line such as "> text". */
static bool is_quoted(struct text_line line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.text[i] != ' ')
            return line.text[i] == '>';
    return false;
}

/* Returns true if the line begins and ends with three dashes, underscores or "=": a rule, or a separator,
 * which has words between them. */
static bool is_rule(struct text_line line)
{
    line = trim(line, "*");
    if (line.len < RULE_MIN || line.len > MARK_MAX_BYTES || !is_one_of(line.text[0], "-_="))
        return false;
    for (size_t i = 0; i < RULE_MIN; i++)
        if (line.text[i] != line.text[0] || line.text[line.len - 1 - i] != line.text[0])
            return false;
    return true;
}

/* Returns true for "##- Please type your reply above this line -##", "Reply ABOVE THIS LINE to comment". */
static bool is_reply_line(struct text_line line)
{
    char small[MARK_MAX_BYTES] = "";
    line = trim(line, "");
    if (line.len > sizeof(small))
        return false;
    for (size_t i = 0; i < line.len; i++)
        small[i] = g_ascii_tolower(line.text[i]);
    line.text = small;
    bool is_marked = line.len - trim(line, "#*-_=").len > RULE_MIN;
    return has_phrase(line, contains, PHRASE_ABOVE) &&
           (is_marked || has_phrase(line, contains, PHRASE_ANSWER));
}

/* Returns true for "---------- Forwarded message ---------" or "Begin forwarded message:". */
static bool is_forward(struct text_line line)
{
    bool is_marked = is_rule(line) || (line.len <= MARK_MAX_BYTES && ends_with(trim(line, ""), ":"));
    return is_marked && has_phrase(trim(line, "*-_="), begins, PHRASE_FORWARDED);
}

/* Returns true for "Sent from my iPhone". People write lines with a comma: "Sent from my desk, as usual". */
static bool is_device_line(struct text_line line)
{
    line = trim(line, "");
    return line.len <= MARK_MAX_BYTES && memchr(line.text, ',', line.len) == NULL &&
           has_phrase(line, begins, PHRASE_DEVICE);
}

static bool is_rule_or_device_line(struct text_line line)
{
    return is_rule(line) || is_device_line(line);
}

/* Returns the label of a header line such as "Sent: Friday"; PHRASE_COUNT for any other line. A blank may be
 * before the colon (French), and the colon may be wide (Chinese, Japanese). */
static enum phrase header_label_of(struct text_line line)
{
    line = trim(line, "*");
    size_t len = 0;
    while (len < line.len && len < LABEL_MAX_BYTES && line.text[len] != ':' &&
           !begins_with((struct text_line){.text = line.text + len, .len = line.len - len}, "："))
        len++;
    if (len == line.len || len == LABEL_MAX_BYTES)
        return PHRASE_COUNT;
    struct text_line label = trim((struct text_line){.text = line.text, .len = len}, "*");
    for (enum phrase kind = PHRASE_FROM; kind <= PHRASE_SUBJECT; kind++)
        if (has_phrase(label, equals, kind))
            return kind;
    return PHRASE_COUNT;
}

/* The evidence that a line may be an attribution: the line with the date and the sender of a quote. */
struct evidence {
    bool digit;
    bool year;
    bool time; /* "10:14", "10.14" */
    bool address;
};

static struct evidence find_evidence(struct text_line line)
{
    struct evidence found = {0};
    size_t digits = 0;
    for (size_t i = 0; i < line.len && i < ATTRIBUTION_MAX_BYTES; i++) {
        char c = line.text[i];
        bool is_digit = g_ascii_isdigit(c);
        bool is_last = i + 1 == line.len || !g_ascii_isdigit(line.text[i + 1]);
        found.time = found.time || (digits > 0 && !is_last && (c == ':' || c == '.'));
        digits = is_digit ? digits + 1 : 0;
        found.digit = found.digit || is_digit;
        found.year = found.year || (digits == 4 && is_last);
        found.address = found.address || c == '@';
    }
    return found;
}

/* Returns true for "20.11.2026" or "Fri, 20 Nov": the first or the second word begins with a digit. */
static bool begins_with_date(struct text_line line)
{
    const char *blank = memchr(line.text, ' ', line.len);
    size_t second = blank != NULL ? (size_t)(blank - line.text) + 1 : 0;
    return line.len > second && (g_ascii_isdigit(line.text[0]) || g_ascii_isdigit(line.text[second]));
}

enum attribution {
    ATTRIBUTION_NONE,
    ATTRIBUTION_OF_QUOTE, /* "Ann wrote:": an attribution only if the next text is a quote */
    ATTRIBUTION_SURE,     /* "On Friday at 10:14 Ann wrote:": an attribution whatever follows */
};

static enum attribution attribution_of(struct text_line line)
{
    line = trim(line, "*");
    bool is_marked = ends_with(line, ":") || ends_with(line, "：") || is_rule(line) || ends_with(line, "---");
    if (!is_marked && !ends_with(line, ">"))
        return ATTRIBUTION_NONE;
    line = trim(line, "*-:");
    struct evidence found = find_evidence(line);
    bool is_dated = (begins_with_date(line) || has_phrase(line, begins, PHRASE_OPENING)) && found.digit &&
                    (found.time || found.address);
    bool has_sender = found.address && ends_with(line, ">");
    bool has_verb = has_phrase(line, contains, PHRASE_VERB);
    /* The sender may be before the date, as in Turkish: "Ann <ann@x.example>, 20 Kas 2026 10:14 yazdı". */
    bool has_all = found.year && found.time && found.address && memchr(line.text, '<', line.len) != NULL;
    if (is_marked && ((has_verb && (is_dated || has_all)) || (is_dated && has_sender && has_all)))
        return ATTRIBUTION_SURE;
    bool may_be = is_marked ? has_verb || is_dated || has_sender : is_dated && has_sender;
    return may_be ? ATTRIBUTION_OF_QUOTE : ATTRIBUTION_NONE;
}

/* Returns the number of characters, without the blanks at the end. */
static size_t width_of(struct text_line line)
{
    size_t width = 0;
    while (line.len > 0 && is_blank_byte(line.text[line.len - 1]))
        line.len--;
    for (size_t i = 0; i < line.len; i++)
        width += !character_is_continuation(line.text[i]);
    return width;
}

static bool ends_sentence(struct text_line line)
{
    static const char *const marks[] = {".", "!", "?", ":", ";", "…", "。", "！", "？", "："};
    line = trim(line, "\"')*_");
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (ends_with(line, marks[i]))
            return true;
    return false;
}

/* Returns true if a mail program can have wrapped one line into these two: the first has the length of a
 * wrapped line, has no room for the next word, and ends in the middle of a sentence. */
static bool can_be_wrapped(struct text_line line, struct text_line rest)
{
    size_t width = width_of(line);
    rest = trim(rest, "");
    const char *blank = memchr(rest.text, ' ', rest.len);
    size_t word_len = blank != NULL ? (size_t)(blank - rest.text) : rest.len;
    size_t word = width_of((struct text_line){.text = rest.text, .len = word_len});
    return width >= WRAPPED_MIN && width <= WRAPPED_MAX && width + 1 + word > WRAP_COLUMN &&
           !ends_sentence(line);
}

/* Returns true if an attribution of several lines can begin with this line. */
static bool begins_attribution(struct text_line line)
{
    line = trim(line, "*-");
    struct evidence found = find_evidence(line);
    return has_phrase(line, begins, PHRASE_OPENING) || (begins_with_date(line) && (found.year || found.time));
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
    size_t begin;             /* offset in `out` at which the new text begins */
    const char *end;          /* end of the text that is read */
    unsigned int blank_lines; /* number of blank lines not appended yet */
    bool has_left_out;        /* text was left out since the last line that was kept */
    bool is_signature;        /* the current line is within a signature */
    bool is_forward;          /* the current line is within a forwarded mail */
    bool is_wrapped;          /* skip_rests() has found the rest of a wrapped quoted line */
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

static void keep_line(struct new_text *reading, struct text_line line)
{
    if (is_blank(line)) {
        reading->blank_lines++;
        return;
    }
    bool is_first = reading->out->len == reading->begin;
    unsigned int count = is_first ? 0 : reading->has_left_out ? 1 : reading->blank_lines;
    while (count-- > 0)
        strbuf_append_char(reading->out, '\n');
    reading->blank_lines = 0;
    reading->has_left_out = false;
    strbuf_append(reading->out, line.text, line.len);
    strbuf_append_char(reading->out, '\n');
}

/* Notes that text is left out here, and removes the last kept lines that are blank or that `is_left_out`
 * accepts. `is_left_out` accepts only lines of up to MARK_MAX_BYTES, so that no long line is searched
 * repeatedly. */
static void leave_out(struct new_text *reading, bool (*is_left_out)(struct text_line))
{
    struct strbuf *out = reading->out;
    while (!reading->has_left_out && out->len > reading->begin) {
        size_t len = out->len - reading->begin - 1;
        size_t searched = MIN(len, 2 * MARK_MAX_BYTES);
        const char *end = out->data + out->len - 1;
        const char *newline = memrchr(end - searched, '\n', searched);
        const char *begin = newline != NULL ? newline + 1 : end - searched;
        struct text_line line = {.text = begin, .len = (size_t)(end - begin)};
        if ((newline == NULL && searched < len) || (!is_blank(line) && !is_left_out(line)))
            break;
        strbuf_truncate(out, (size_t)(begin - out->data));
    }
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
    char joined[ATTRIBUTION_MAX_BYTES];
    size_t len = 0;
    unsigned int lines = begins_attribution(line) ? ATTRIBUTION_LINES_MAX : 1;
    for (unsigned int i = 0; i < lines; i++) {
        bool is_other = i > 0 && has_phrase(line, begins, PHRASE_OPENING);
        bool is_quote = is_quoted(line) && !has_open_bracket(joined, len);
        if (is_other || is_blank(line) || is_quote || len + line.len + 1 > sizeof(joined))
            break;
        memcpy(joined + len, line.text, line.len);
        len += line.len;
        joined[len++] = ' ';
        enum attribution found = attribution_of((struct text_line){.text = joined, .len = len});
        bool is_of_quote = found == ATTRIBUTION_OF_QUOTE && i == 0;
        *ret_next = line.next;
        if (found == ATTRIBUTION_SURE || (is_of_quote && is_quoted(read_line_with_text(reading, line.next))))
            return found;
        if (line.next == NULL)
            break;
        line = read_line(reading, line.next);
    }
    return ATTRIBUTION_NONE;
}

/* Returns true if a block of headers begins here: at least three headers, the sender among them; or a date
 * with a time, and a sender or recipient with an address. */
static bool is_header_block(const struct new_text *reading, struct text_line line)
{
    bool is_there[PHRASE_COUNT + 1] = {false};
    bool has_time = false;
    bool has_address = false;
    unsigned int without_label = 0;
    if (header_label_of(line) == PHRASE_COUNT)
        return false;
    for (unsigned int i = 0; i < HEADER_BLOCK_LINES && without_label <= HEADER_VALUE_LINES; i++) {
        enum phrase header = header_label_of(line);
        struct evidence found = find_evidence(line);
        is_there[header] = true;
        has_time = has_time || (header == PHRASE_DATE && found.time);
        has_address = has_address || ((header == PHRASE_FROM || header == PHRASE_TO) && found.address);
        without_label = header != PHRASE_COUNT ? 0 : without_label + 1;
        if (line.next == NULL)
            break;
        line = read_line_with_text(reading, line.next);
    }
    int count =
        is_there[PHRASE_FROM] + is_there[PHRASE_DATE] + is_there[PHRASE_TO] + is_there[PHRASE_SUBJECT];
    return (has_time && has_address) || (is_there[PHRASE_FROM] && count >= 3);
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
static bool is_signature(const struct new_text *reading, struct text_line line)
{
    if (ends_with(line, "\r"))
        line.len--;
    if (equals(line, "-- ", 3) || (equals(line, "--", 2) && is_near_end(reading, line)))
        return true;
    if (!is_rule(line))
        return false;
    struct text_line next = read_line_with_text(reading, line.next);
    return next.len <= MARK_MAX_BYTES && has_phrase(next, contains, PHRASE_LIST);
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
static enum history find_history(const struct new_text *reading, struct text_line line, const char **ret_next)
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
    if (attribution == ATTRIBUTION_SURE ||
        (is_rule(line) && has_phrase(trim(line, "*-_="), begins, PHRASE_ORIGINAL)) || is_reply_line(line))
        return HISTORY_MARKED;
    return is_header_block(reading, line) ? HISTORY_HEADERS : HISTORY_NONE;
}

/* Returns true if the text is clearly an answer. Quotes and headers alone do not make a text an answer, since
 * people write them in first mails. */
static bool is_clearly_answer(const struct new_text *reading, const char *at)
{
    while (at != NULL) {
        struct text_line line = read_line(reading, at);
        enum history history = find_history(reading, line, &at);
        if (is_forward(line))
            return false;
        if (history == HISTORY_ATTRIBUTION || history == HISTORY_MARKED)
            return true;
    }
    return false;
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
        if (!can_be_wrapped(before, line))
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
    const char *next = line.next;
    reading->is_forward = reading->is_forward || is_forward(line);
    bool has_history = !reading->is_forward && reading->kind != NEW_TEXT_OF_FIRST;
    enum history history = has_history ? find_history(reading, line, &next) : HISTORY_NONE;
    if (reading->kind == NEW_TEXT_OF_FORWARD)
        reading->is_forward = reading->is_forward || history != HISTORY_NONE;
    if (reading->is_forward) {
        keep_line(reading, line);
        return line.next;
    }
    if (history == HISTORY_QUOTE || history == HISTORY_ATTRIBUTION) {
        leave_out(reading, is_device_line);
        if (history == HISTORY_ATTRIBUTION)
            return next;
        return reading->is_signature ? NULL : skip_rests(reading, line);
    }
    bool is_end = history != HISTORY_NONE;
    bool begins_signature = !reading->is_signature && is_signature(reading, line);
    if (is_end || begins_signature)
        leave_out(reading, is_rule_or_device_line);
    reading->is_signature |= begins_signature;
    if (!reading->is_signature && !is_end)
        keep_line(reading, line);
    return is_end ? NULL : line.next;
}

int new_text_append(struct strbuf *out, enum new_text_kind kind, const char *text, size_t len)
{
    struct new_text reading = {.out = out, .kind = kind, .begin = out->len, .end = text + len};
    const char *at = text;
    if (len == 0)
        return out->error;
    if (kind == NEW_TEXT_OF_FIRST && is_clearly_answer(&reading, text))
        reading.kind = NEW_TEXT_OF_ANSWER;
    do {
        at = read_line_or_attribution(&reading, at);
    } while (at != NULL && out->error == 0);
    if (out->error == 0 && !reading.is_forward)
        leave_out(&reading, is_device_line);
    if (out->len == reading.begin)
        strbuf_append(out, text, len);
    return out->error;
}
