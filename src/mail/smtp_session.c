/* SPDX-License-Identifier: MIT */
/*
 * The session passes each byte either to the text of a message or to a command line. A function that checks
 * or runs a command returns the answer that refuses the command, or NULL. Answers carry the codes of RFC
 * 3463. No answer made here repeats the client's text.
 */
#include "mail/smtp_session.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "mail/address.h"
#include "mail/header_text.h"

enum {
    LINE_MAX_BYTES = 12288, /* length of a command; RFC 4954 requires 12288 for AUTH, RFC 5321 only 512 */
};

static const char too_large[] = "552 5.3.4 The message is too large";
static const char unknown_parameter[] = "555 5.5.4 One of the parameters is not known here";
static const char no_memory[] = "452 4.3.1 There is not enough memory now; try again later";

static const char message_end[] = "\r\n.\r\n";

enum {
    LINE_END_LEN = 2, /* the part of message_end that belongs to the message */
    MESSAGE_END_LEN = sizeof(message_end) - 1,
};

struct smtp_session {
    const struct smtp_host *host;
    struct strbuf *answers;
    struct strbuf line; /* the command line received so far; its error is set if the line is too long */
    bool has_greeted;
    bool is_encrypted;
    bool wants_tls;
    const char *const *challenges; /* those of AUTH that are yet to be sent; NULL outside of AUTH */
    bool is_in_message;
    bool must_close;
    unsigned int mistakes;
    /* The message: its envelope, then its text. */
    char *sender; /* NULL before MAIL; "" for the null sender */
    char *recipients[SMTP_RECIPIENTS_MAX];
    size_t recipients_len;
    size_t end_len;     /* number of bytes of message_end that were received last */
    struct strbuf text; /* empty after an error; the rest of the message is then skipped */
};

static void answer(struct smtp_session *session, const char *text)
{
    strbuf_appendf(session->answers, "%s\r\n", text);
}

/* Answers a wrong command. A hostile web page can make a browser post commands to this port, but the HTTP
 * headers before them are enough mistakes to end the session. */
static void refuse(struct smtp_session *session, const char *text)
{
    unsigned int max = session->has_greeted ? SMTP_MISTAKES_MAX : SMTP_FIRST_MISTAKES_MAX;
    session->must_close = ++session->mistakes > max;
    answer(session, session->must_close ? "421 4.7.0 Too many mistakes; good bye" : text);
}

static void forget_text(struct smtp_session *session)
{
    atomic_fetch_sub(session->host->text_bytes, session->text.len);
    strbuf_release(&session->text);
}

static void forget_message(struct smtp_session *session)
{
    free(TAKE_PTR(session->sender));
    for (size_t i = 0; i < session->recipients_len; i++)
        free(session->recipients[i]);
    session->recipients_len = 0;
    forget_text(session);
}

/* ---------------------------------------------------------------- the text of a message */

static void append_to_text(struct smtp_session *session, const char *bytes, size_t len)
{
    if (session->text.error != 0)
        return;
    int error = strbuf_append(&session->text, bytes, len);
    if (error == 0 && atomic_fetch_add(session->host->text_bytes, len) + len > session->host->texts_max_bytes)
        error = -ENOMEM;
    if (error != 0) {
        forget_text(session);
        session->text.error = error;
    }
}

/* Appends the byte if it belongs to the message. A dot at the beginning of a line is dropped, and the <CR>
 * after such a dot waits for the next byte. Returns true if the byte completes message_end. */
static bool receive_byte(struct smtp_session *session, char c)
{
    if (c == message_end[session->end_len]) {
        session->end_len++;
        if (session->end_len <= LINE_END_LEN)
            append_to_text(session, &c, 1);
        return session->end_len == MESSAGE_END_LEN;
    }
    if (session->end_len == MESSAGE_END_LEN - 1)
        append_to_text(session, "\r", 1);
    append_to_text(session, &c, 1);
    session->end_len = c == '\r';
    return false;
}

/* Appends an answer of the host, with "?" for all bytes that are not printable ASCII. */
static void answer_from_host(struct smtp_session *session, const char *text)
{
    char line[SMTP_ANSWER_MAX_BYTES];
    snprintf(line, sizeof(line), "%s", text);
    for (char *c = line; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    answer(session, line);
}

static void end_message(struct smtp_session *session)
{
    const struct smtp_host *host = session->host;
    const struct smtp_message message = {
        .sender = session->sender,
        .recipients = (const char *const *)session->recipients,
        .recipients_len = session->recipients_len,
        .text = strbuf_str(&session->text),
        .text_len = session->text.len,
    };
    const char *text = session->text.error == -EMSGSIZE ? too_large
                       : session->text.error != 0       ? no_memory
                                                        : host->deliver(host->context, &message);
    size_t answers = host->dialect == DIALECT_LMTP ? session->recipients_len : 1;
    for (size_t i = 0; i < answers; i++)
        answer_from_host(session, text);
    session->is_in_message = false;
    forget_message(session);
}

/* Returns the number of bytes that belong to the message. */
static size_t receive_text(struct smtp_session *session, const char *bytes, size_t len)
{
    size_t taken = 0;
    while (taken < len) {
        if (session->end_len == 0) {
            const char *cr = memchr(bytes + taken, '\r', len - taken);
            size_t end = cr != NULL ? (size_t)(cr - bytes) : len;
            append_to_text(session, bytes + taken, end - taken);
            taken = end;
        }
        if (taken < len && receive_byte(session, bytes[taken++])) {
            end_message(session);
            break;
        }
    }
    return taken;
}

/* ---------------------------------------------------------------- paths and parameters */

/* Like strcspn(3), but passes over quoted strings. */
static size_t unquoted_len(const char *text, const char *ends)
{
    const char *at = text;
    while (*at != '\0' && strchr(ends, *at) == NULL) {
        const char *next = *at == '"' ? header_text_skip_quoted(at) : at + 1;
        at = next != NULL ? next : at + strlen(at);
    }
    return (size_t)(at - text);
}

/* Splits "FROM:<address> parameters", where `word` is FROM; the brackets may be missing. Returns false if
 * `text` has another form. */
static bool split_path(char *text, const char *word, char **ret_address, char **ret_parameters)
{
    size_t len = strlen(word);
    if (strncasecmp(text, word, len) != 0 || text[len] != ':')
        return false;
    char *start = text + len + 1;
    start += strspn(start, " \t");
    bool has_brackets = *start == '<';
    start += has_brackets;
    char *end = start + unquoted_len(start, has_brackets ? ">" : " ");
    char *rest = has_brackets ? end + 1 : end;
    if ((has_brackets ? *end != '>' : end == start) || (*rest != '\0' && *rest != ' '))
        return false;
    *ret_parameters = rest + (*rest == ' ');
    *end = '\0';
    *ret_address = start;
    return true;
}

/* Replaces the blanks of the text by NULs. */
static const char *check_parameters(char *text, size_t max_bytes)
{
    while (text != NULL) {
        const char *parameter = strsep(&text, " ");
        if (strncasecmp(parameter, "SIZE=", 5) == 0) {
            g_autoptr(GError) error = NULL;
            if (g_ascii_string_to_unsigned(parameter + 5, 10, 0, max_bytes, NULL, &error))
                continue;
            return error->code == G_NUMBER_PARSER_ERROR_OUT_OF_BOUNDS ? too_large
                                                                      : "501 5.5.4 SIZE is a number of bytes";
        }
        /* AUTH= is the user who logged in to another server (RFC 4954), of no use here. */
        bool is_known = *parameter == '\0' || strncasecmp(parameter, "AUTH=", 5) == 0 ||
                        strcasecmp(parameter, "BODY=7BIT") == 0 ||
                        strcasecmp(parameter, "BODY=8BITMIME") == 0 || strcasecmp(parameter, "SMTPUTF8") == 0;
        if (!is_known)
            return unknown_parameter;
    }
    return NULL;
}

/* ---------------------------------------------------------------- AUTH and STARTTLS */

/* The mechanisms of AUTH, with the challenge for each response in base64. */
static const struct {
    const char *name;
    const char *challenges[3]; /* NULL after the last challenge */
} mechanisms[] = {
    {"PLAIN", {""}},
    {"LOGIN", {"VXNlcm5hbWU6", "UGFzc3dvcmQ6"}}, /* "Username:", "Password:" */
    {"CRAM-MD5", {"PDFAbG9jYWxob3N0Pg=="}},      /* "<1@localhost>" */
    {"XOAUTH2", {""}},
};

/* Sends the next challenge; after the last response, logs the user in. */
static void continue_login(struct smtp_session *session)
{
    const char *challenge = *session->challenges++;
    if (challenge != NULL) {
        strbuf_appendf(session->answers, "334 %s\r\n", challenge);
        return;
    }
    session->challenges = NULL;
    answer(session, "235 2.7.0 Logged in, as anybody is");
}

/* Accepts any response, in base64 or not. */
static const char *take_response(struct smtp_session *session, const char *response)
{
    if (strcmp(response, "*") == 0)
        return "501 5.7.0 The login is cancelled";
    continue_login(session);
    return NULL;
}

static const char *check_sequence(const struct smtp_session *session)
{
    if (!session->has_greeted)
        return session->host->dialect == DIALECT_LMTP ? "503 5.5.1 First comes LHLO"
                                                      : "503 5.5.1 First comes EHLO or HELO";
    return session->sender != NULL ? "503 5.5.1 A message is begun already" : NULL;
}

static const char *do_auth(struct smtp_session *session, char *argument)
{
    if (!session->host->takes_login)
        return "502 5.5.1 Nobody logs in here: leave user and password out";
    const char *trouble = check_sequence(session);
    if (trouble != NULL)
        return trouble;
    const char *name = strsep(&argument, " ");
    for (size_t i = 0; i < ARRAY_LEN(mechanisms); i++)
        if (strcasecmp(mechanisms[i].name, name) == 0)
            session->challenges = mechanisms[i].challenges;
    if (session->challenges == NULL)
        return "504 5.5.4 Log in by PLAIN, LOGIN, CRAM-MD5 or XOAUTH2";
    if (argument != NULL && *argument != '\0')
        session->challenges++; /* the first response is in the command */
    continue_login(session);
    return NULL;
}

static const char *do_starttls(struct smtp_session *session, char *argument)
{
    if (!session->host->offers_tls)
        return "502 5.5.1 There is no TLS here: switch it off";
    if (session->is_encrypted)
        return "503 5.5.1 This is TLS already";
    if (*argument != '\0')
        return "501 5.5.4 Write STARTTLS alone";
    const char *trouble = check_sequence(session);
    if (trouble != NULL)
        return trouble;
    answer(session, "220 2.0.0 Begin TLS");
    session->wants_tls = true;
    return NULL;
}

/* ---------------------------------------------------------------- commands */

static const char *do_helo(struct smtp_session *session, char *argument)
{
    forget_message(session);
    session->has_greeted = true;
    strbuf_appendf(session->answers, "250 %s\r\n", session->host->domain);
    return NULL;
}

static const char *do_ehlo(struct smtp_session *session, char *argument)
{
    const struct smtp_host *host = session->host;
    forget_message(session);
    session->has_greeted = true;
    strbuf_appendf(session->answers,
                   "250-%s\r\n250-PIPELINING\r\n250-SIZE %zu\r\n250-8BITMIME\r\n%s%s"
                   "250-ENHANCEDSTATUSCODES\r\n250 SMTPUTF8\r\n",
                   host->domain, host->message_max_bytes,
                   host->takes_login ? "250-AUTH PLAIN LOGIN CRAM-MD5 XOAUTH2\r\n" : "",
                   host->offers_tls && !session->is_encrypted ? "250-STARTTLS\r\n" : "");
    return NULL;
}

static const char *do_mail(struct smtp_session *session, char *argument)
{
    char *sender;
    char *parameters;
    const char *trouble = check_sequence(session);
    if (trouble == NULL && !split_path(argument, "FROM", &sender, &parameters))
        trouble = "501 5.5.4 Write MAIL FROM:<address>";
    if (trouble == NULL)
        trouble = check_parameters(parameters, session->host->message_max_bytes);
    if (trouble != NULL)
        return trouble;
    session->sender = g_strdup(sender);
    answer(session, "250 2.1.0 Sender noted");
    return NULL;
}

static void add_recipient(struct smtp_session *session, const char *address)
{
    const struct smtp_host *host = session->host;
    /* A local name such as "postmaster" is checked with the host's domain. */
    bool has_domain = address[unquoted_len(address, "@")] == '@';
    g_autofree char *whole = has_domain ? g_strdup(address) : g_strconcat(address, "@", host->domain, NULL);
    const char *recipient = host->keeps_local_names ? address : whole;
    const char *text = address_is_valid(whole) ? host->check_recipient(host->context, recipient)
                                               : "553 5.1.3 The recipient is no address";
    if (text == NULL)
        session->recipients[session->recipients_len++] = g_strdup(recipient);
    answer_from_host(session, text != NULL ? text : "250 2.1.5 Recipient noted");
}

static const char *do_rcpt(struct smtp_session *session, char *argument)
{
    char *address;
    char *parameters;
    if (session->sender == NULL)
        return "503 5.5.1 First comes MAIL";
    if (!split_path(argument, "TO", &address, &parameters))
        return "501 5.5.4 Write RCPT TO:<address>";
    if (parameters[strspn(parameters, " \t")] != '\0')
        return unknown_parameter;
    if (session->recipients_len == SMTP_RECIPIENTS_MAX)
        answer(session, "452 4.5.3 Too many recipients; send it again to the rest");
    else
        add_recipient(session, address);
    return NULL;
}

static const char *do_data(struct smtp_session *session, char *argument)
{
    if (session->recipients_len == 0)
        return "503 5.5.1 There is no recipient";
    session->is_in_message = true;
    session->end_len = LINE_END_LEN; /* a dot may begin the first line */
    answer(session, "354 Send the message; a dot alone on a line ends it");
    return NULL;
}

static const char *do_rset(struct smtp_session *session, char *argument)
{
    forget_message(session);
    answer(session, "250 2.0.0 Forgotten");
    return NULL;
}

static const char *do_quit(struct smtp_session *session, char *argument)
{
    answer(session, "221 2.0.0 Good bye");
    session->must_close = true;
    return NULL;
}

enum {
    IN_SMTP = 1 << DIALECT_SMTP,
    IN_LMTP = 1 << DIALECT_LMTP,
    IN_BOTH = IN_SMTP | IN_LMTP,
};

/* A command with a fixed answer has `answer` instead of a function. A function that returns NULL has appended
 * an answer. */
static const struct command {
    const char *name;
    int dialects;
    const char *(*run)(struct smtp_session *session, char *argument);
    const char *answer;
} commands[] = {
    {"HELO", IN_SMTP, do_helo, NULL},
    {"EHLO", IN_SMTP, do_ehlo, NULL},
    {"LHLO", IN_LMTP, do_ehlo, NULL},
    {"MAIL", IN_BOTH, do_mail, NULL},
    {"RCPT", IN_BOTH, do_rcpt, NULL},
    {"DATA", IN_BOTH, do_data, NULL},
    {"RSET", IN_BOTH, do_rset, NULL},
    {"QUIT", IN_BOTH, do_quit, NULL},
    {"NOOP", IN_BOTH, NULL, "250 2.0.0 Fine"},
    {"VRFY", IN_BOTH, NULL, "252 2.5.0 Send a message to find out"},
    {"HELP", IN_BOTH, NULL, "214 2.0.0 The commands are those of RFC 5321"},
    {"AUTH", IN_BOTH, do_auth, NULL},
    {"STARTTLS", IN_BOTH, do_starttls, NULL},
};

static const char *run_command(struct smtp_session *session, char *line)
{
    char *argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    argument += strspn(argument, " ");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if ((commands[i].dialects & (1 << session->host->dialect)) == 0 ||
            strcasecmp(commands[i].name, line) != 0)
            continue;
        if (commands[i].run != NULL)
            return commands[i].run(session, argument);
        answer(session, commands[i].answer);
        return NULL;
    }
    return "500 5.5.1 There is no such command";
}

/* Wipes the line, which may hold a password. Its memory never moves: smtp_session_new() reserved it all. */
static void wipe_line(struct smtp_session *session)
{
    explicit_bzero(session->line.data, session->line.capacity);
    strbuf_clear(&session->line);
}

/* Returns the number of bytes that belong to the line. */
static size_t receive_line(struct smtp_session *session, const char *bytes, size_t len)
{
    const char *newline = memchr(bytes, '\n', len);
    size_t part = newline != NULL ? (size_t)(newline - bytes) : len;
    struct strbuf *line = &session->line;
    strbuf_append(line, bytes, part);
    if (newline == NULL)
        return part;
    bool has_cr = line->len > 0 && line->data[line->len - 1] == '\r';
    strbuf_truncate(line, line->len - has_cr);
    const char *trouble = NULL;
    if (line->error != 0)
        trouble = "500 5.5.2 The line is too long";
    else if (!has_cr)
        trouble = "500 5.5.2 A line ends with CR and LF, not with one of them";
    else if (line->len == 0 && session->challenges == NULL)
        trouble = "500 5.5.2 The line is empty";
    else if (character_has(line->data, CHARACTER_CONTROL) || strlen(line->data) != line->len)
        trouble = "500 5.5.2 There is a control character in the line";
    else if (session->challenges != NULL)
        trouble = take_response(session, line->data);
    else
        trouble = run_command(session, line->data);
    if (trouble != NULL) {
        session->challenges = NULL;
        refuse(session, trouble);
    }
    wipe_line(session);
    return part + 1;
}

/* ---------------------------------------------------------------- the session */

struct smtp_session *smtp_session_new(const struct smtp_host *host, struct strbuf *answers)
{
    struct smtp_session *session = g_new0(struct smtp_session, 1);
    session->host = host;
    session->answers = answers;
    session->line = STRBUF_INIT(LINE_MAX_BYTES);
    session->text = STRBUF_INIT(host->message_max_bytes);
    strbuf_reserve(&session->line, LINE_MAX_BYTES);
    strbuf_appendf(answers, "220 %s %s %s\r\n", host->domain,
                   host->dialect == DIALECT_LMTP ? "LMTP" : "ESMTP", host->program);
    return session;
}

void smtp_session_free(struct smtp_session *session)
{
    forget_message(session);
    wipe_line(session);
    strbuf_release(&session->line);
    free(session);
}

void smtp_session_receive(struct smtp_session *session, const char *bytes, size_t len)
{
    while (len > 0 && !session->wants_tls && !smtp_session_must_close(session)) {
        size_t taken =
            session->is_in_message ? receive_text(session, bytes, len) : receive_line(session, bytes, len);
        bytes += taken;
        len -= taken;
    }
}

bool smtp_session_is_in_message(const struct smtp_session *session)
{
    return session->is_in_message;
}

bool smtp_session_wants_tls(const struct smtp_session *session)
{
    return session->wants_tls;
}

void smtp_session_restart_with_tls(struct smtp_session *session)
{
    forget_message(session);
    session->wants_tls = false;
    session->is_encrypted = true;
    session->has_greeted = false;
}

bool smtp_session_must_close(const struct smtp_session *session)
{
    return session->must_close || session->answers->error != 0;
}
