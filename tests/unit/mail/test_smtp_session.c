/* SPDX-License-Identifier: MIT */
/*
 * Dialogues of SMTP and LMTP: what the client sends, the codes of the answers, and the deliveries. Each
 * dialogue is also sent in pieces of 1, 2 and 3 bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "mail/smtp_session.h"

/* ---------------------------------------------------------------- a service that records its messages */

struct fake_service {
    const char *answer;      /* answer to each message */
    struct strbuf delivered; /* "sender>recipient,recipient:text|" for each message */
};

static const char *check_recipient(void *context, const char *address)
{
    return strncmp(address, "unknown@", 8) == 0 ? "550 no"
           : strncmp(address, "away@", 5) == 0  ? "451 no"
                                                : NULL;
}

static const char *deliver(void *context, const struct smtp_message *message)
{
    struct fake_service *service = context;
    strbuf_appendf(&service->delivered, "%s>", message->sender);
    for (size_t i = 0; i < message->recipients_len; i++)
        strbuf_appendf(&service->delivered, "%s%s", i > 0 ? "," : "", message->recipients[i]);
    strbuf_append_char(&service->delivered, ':');
    strbuf_append(&service->delivered, message->text, message->text_len);
    strbuf_append_char(&service->delivered, '|');
    return service->answer;
}

enum {
    MESSAGE_MAX_BYTES = 50 * 1000 * 1000,
    TEXTS_MAX_BYTES = 2 * MESSAGE_MAX_BYTES,
};

struct fixture {
    struct fake_service service;
    struct smtp_host host;
    struct strbuf answers;
    atomic_size_t text_bytes;
    struct smtp_session *session;
};

static void fixture_open(struct fixture *fixture, enum smtp_dialect dialect)
{
    *fixture = (struct fixture){.service = {"250 2.0.0 kept", STRBUF_INIT(SIZE_MAX / 2)}};
    fixture->answers = STRBUF_INIT(1 << 20);
    fixture->host = (struct smtp_host){
        .context = &fixture->service,
        .dialect = dialect,
        .program = "mailer",
        .domain = "here.example",
        .message_max_bytes = MESSAGE_MAX_BYTES,
        .texts_max_bytes = TEXTS_MAX_BYTES,
        .text_bytes = &fixture->text_bytes,
        .check_recipient = check_recipient,
        .deliver = deliver,
    };
    fixture->session = smtp_session_new(&fixture->host, &fixture->answers);
    assert_string_equal(dialect == DIALECT_LMTP ? "220 here.example LMTP mailer\r\n"
                                                : "220 here.example ESMTP mailer\r\n",
                        strbuf_str(&fixture->answers));
    strbuf_clear(&fixture->answers);
}

static void fixture_close(struct fixture *fixture)
{
    smtp_session_free(fixture->session);
    assert_int_equal(0, fixture->text_bytes);
    strbuf_release(&fixture->answers);
    strbuf_release(&fixture->service.delivered);
}

static void say(struct fixture *fixture, const char *text)
{
    smtp_session_receive(fixture->session, text, strlen(text));
}

/* Writes the codes of all answers, without their texts: "250 354 250". */
static void codes(const char *answers, char ret_codes[1024])
{
    size_t len = 0;
    ret_codes[0] = '\0';
    for (const char *line = answers; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_non_null(strstr(line, "\r\n"));
        if (line[3] == ' ')
            len += (size_t)snprintf(ret_codes + len, 1024 - len, "%s%.3s", len > 0 ? " " : "", line);
        assert_true(len < 1024);
    }
}

/* ---------------------------------------------------------------- the table */

#define HELLO "EHLO me\r\n"
#define BEGIN HELLO "MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n"
#define BEGUN "250 250 250 354"
#define ENVELOPE "a@x>b@y:"

struct dialogue {
    const char *said;
    const char *answered; /* the codes of the answers */
    const char *delivered;
};

static const struct dialogue smtp[] = {
    /* a message */
    {BEGIN "Subject: s\r\n\r\nText\r\n.\r\nQUIT\r\n", BEGUN " 250 221",
     ENVELOPE "Subject: s\r\n\r\nText\r\n|"},
    {"helo me\r\nmail from:<a@x>\r\nrcpt to:<b@y>\r\ndata\r\n.\r\n", BEGUN " 250", ENVELOPE "|"},
    {BEGIN "1\r\n.\r\nMAIL FROM:<>\r\nRCPT TO:<c@z>\r\nRCPT TO:<d@z>\r\nDATA\r\n2\r\n.\r\n",
     BEGUN " 250 250 250 250 354 250", ENVELOPE "1\r\n|>c@z,d@z:2\r\n|"},
    {BEGIN "\303\244 \377\200\r\n.\r\n", BEGUN " 250", ENVELOPE "\303\244 \377\200\r\n|"},

    /* dots */
    {BEGIN "..\r\n...x\r\n.x\r\nx.\r\n.\r\n", BEGUN " 250", ENVELOPE ".\r\n..x\r\nx\r\nx.\r\n|"},

    /* only <CR><LF>.<CR><LF> ends a message */
    {BEGIN "a\n.\nMAIL FROM:<e@v>\n.\r\nb\r\n.\r\n", BEGUN " 250",
     ENVELOPE "a\n.\nMAIL FROM:<e@v>\n.\r\nb\r\n|"},
    {BEGIN "a\r.\rb\r.\r\nc\r\n.\r\n", BEGUN " 250", ENVELOPE "a\r.\rb\r.\r\nc\r\n|"},
    {BEGIN "a\r\n.\nb\r\n.\r\n", BEGUN " 250", ENVELOPE "a\r\n\nb\r\n|"},
    {BEGIN "a\n.\r\nb\r\n.\r\n", BEGUN " 250", ENVELOPE "a\n.\r\nb\r\n|"},
    {BEGIN "a\r\n.\rb\r\n.\r\n", BEGUN " 250", ENVELOPE "a\r\n\rb\r\n|"},
    {BEGIN "a\r\n.\r.\r\nb\r\n.\r\n", BEGUN " 250", ENVELOPE "a\r\n\r.\r\nb\r\n|"},
    {BEGIN "a\r\n.\r\r\n.\r\n", BEGUN " 250", ENVELOPE "a\r\n\r\r\n|"},
    {BEGIN "a\r\r\n.\r\n", BEGUN " 250", ENVELOPE "a\r\r\n|"},
    {BEGIN "\n.\r\n\r\n.\r\n", BEGUN " 250", ENVELOPE "\n.\r\n\r\n|"},

    /* an incomplete message */
    {BEGIN "a\r\n.\r", BEGUN, ""},
    {BEGIN "a\r\n.", BEGUN, ""},
    {BEGIN "a\n.\n", BEGUN, ""},
    {HELLO "MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA", "250 250 250", ""},

    /* paths */
    {HELLO "MAIL FROM: <a@x> SIZE=1 BODY=8BITMIME SMTPUTF8\r\nRCPT TO: <b@y>\r\nDATA\r\n.\r\n", BEGUN " 250",
     ENVELOPE "|"},
    {HELLO "MAIL FROM:a@x  body=7bit\r\nRCPT TO:b@y\r\nDATA\r\n.\r\n", BEGUN " 250", ENVELOPE "|"},
    {HELLO "MAIL FROM:<root>\r\nRCPT TO:<Postmaster>\r\nDATA\r\n.\r\n", BEGUN " 250",
     "root>Postmaster@here.example:|"},
    {HELLO
     "MAIL FROM:<>\r\nRCPT TO:<\"a>\\\" @b\"@y>\r\nRCPT TO:<\303\244@\303\266.example>\r\nDATA\r\n.\r\n",
     "250 250 250 250 354 250", ">\"a>\\\" @b\"@y,\303\244@\303\266.example:|"},
    {HELLO
     "MAIL FROM:<a@x>\r\nRCPT TO:<>\r\nRCPT TO:<b@@y>\r\nRCPT TO:<b y@z>\r\nRCPT TO:<\377@y>\r\nDATA\r\n",
     "250 250 553 553 553 553 503", ""},
    {HELLO
     "MAIL FROM:\r\nMAIL FROM\r\nMAIL <a@x>\r\nMAIL FROM:<a@x\r\nMAIL FROM:<a@x>y\r\nMAIL FROM:<\"a>\r\n",
     "250 501 501 501 501 501 501", ""},
    {HELLO "MAIL FROM:<a@x> RET=FULL\r\nMAIL FROM:<a@x> SIZE=\r\nMAIL FROM:<a@x> SIZE=-1\r\n"
           "MAIL FROM:<a@x>\r\nRCPT TO:<b@y> NOTIFY=NEVER\r\nRCPT <b@y>\r\n",
     "250 555 501 501 250 555 501", ""},

    /* declared sizes */
    {HELLO "MAIL FROM:<a@x> SIZE=50000001\r\nMAIL FROM:<a@x> SIZE=99999999999999999999\r\n"
           "MAIL FROM:<a@x> SIZE=50000000\r\n",
     "250 552 552 250", ""},

    /* the order of commands */
    {"MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\n", "503 503", ""},
    {HELLO "RCPT TO:<b@y>\r\nDATA\r\nMAIL FROM:<a@x>\r\nMAIL FROM:<a@x>\r\nDATA\r\n",
     "250 503 503 250 503 503", ""},
    {HELLO "MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nRSET\r\nDATA\r\n", "250 250 250 250 503", ""},
    {HELLO "MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nEHLO\r\nDATA\r\n", "250 250 250 250 503", ""},
    {HELLO "NOOP x\r\nVRFY b\r\nHELP\r\nRSET\r\n", "250 250 252 214 250", ""},
    {HELLO "AUTH PLAIN AGEAYg==\r\nSTARTTLS\r\nBDAT 3\r\nEXPN x\r\nLHLO me\r\n\r\n",
     "250 502 502 500 500 500 500", ""},
    {HELLO "QUIT\r\nNOOP\r\n", "250 221", ""},

    /* lines */
    {HELLO "NOOP\nNOOP\r\n", "250 500 250", ""},
    {HELLO "NOOP\rNOOP\r\n", "250 500", ""},
    {HELLO "NOOP \001\r\nNOOP \177\r\nNOOP\t\r\n", "250 500 500 500", ""},

    /* another protocol */
    {"POST / HTTP/1.1\r\nHost: x\r\nOrigin: y\r\n\r\n" BEGIN "a\r\n.\r\n", "500 500 421", ""},
};

/* Dialogues with a host that takes logins and offers TLS. */
static const struct dialogue login[] = {
    {HELLO "AUTH PLAIN AGEAYg==\r\nMAIL FROM:<a@x> AUTH=<>\r\n", "250 235 250", ""},
    {HELLO "AUTH plain\r\nAGEAYg==\r\nNOOP\r\n", "250 334 235 250", ""},
    {HELLO "AUTH PLAIN =\r\n", "250 235", ""},
    {HELLO "AUTH LOGIN\r\nYQ==\r\n\r\nNOOP\r\n", "250 334 334 235 250", ""},
    {HELLO "AUTH LOGIN YQ==\r\nYg==\r\nNOOP\r\n", "250 334 235 250", ""},
    {HELLO "AUTH CRAM-MD5\r\nYSBiYg==\r\nNOOP\r\n", "250 334 235 250", ""},
    {HELLO "AUTH XOAUTH2 YWJj\r\nNOOP\r\n", "250 235 250", ""},
    {HELLO "AUTH LOGIN\r\n*\r\nNOOP\r\nAUTH PLAIN AGEAYg==\r\n", "250 334 501 250 235", ""},
    {HELLO "AUTH LOGIN\r\nYQ==\nNOOP\r\n", "250 334 500 250", ""},
    {HELLO "AUTH\r\nAUTH GSSAPI x\r\nAUTH PLAIN AGEAYg==\r\n", "250 504 504 235", ""},
    {"AUTH PLAIN AGEAYg==\r\n" HELLO "MAIL FROM:<a@x>\r\nAUTH PLAIN AGEAYg==\r\n", "503 250 250 503", ""},
    {HELLO "STARTTLS now\r\nMAIL FROM:<a@x>\r\nSTARTTLS\r\n", "250 501 250 503", ""},
    {"STARTTLS\r\n", "503", ""},

    /* Clear text after STARTTLS may come from an attacker in the network. */
    {HELLO "STARTTLS\r\n" BEGIN "injected\r\n.\r\n", "250 220", ""},
};

static const struct dialogue lmtp[] = {
    {"LHLO me\r\nAUTH PLAIN AGEAYg==\r\nSTARTTLS\r\n", "250 502 502", ""},
    {"HELO me\r\nEHLO me\r\n", "500 500", ""},
    {"LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<b@y>\r\nRCPT TO:<unknown@y>\r\nRCPT TO:<away@y>\r\nRCPT "
     "TO:<c@y>\r\n"
     "DATA\r\n1\r\n.\r\nQUIT\r\n",
     "250 250 250 550 451 250 354 250 250 221", ">b@y,c@y:1\r\n|"},
    {"LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<unknown@y>\r\nDATA\r\n", "250 250 550 503", ""},
    {"LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<b@y>\r\nRSET\r\nDATA\r\nNOOP\r\nQUIT\r\n",
     "250 250 250 250 503 250 221", ""},
};

static void check_dialogue(enum smtp_dialect dialect, bool has_login, const struct dialogue *dialogue,
                           size_t piece)
{
    struct fixture fixture;
    char answered[1024];
    fixture_open(&fixture, dialect);
    fixture.host.takes_login = fixture.host.offers_tls = has_login;
    size_t len = strlen(dialogue->said);
    for (size_t at = 0; at < len; at += piece)
        smtp_session_receive(fixture.session, dialogue->said + at, piece < len - at ? piece : len - at);
    codes(strbuf_str(&fixture.answers), answered);
    if (strcmp(answered, dialogue->answered) != 0)
        fail_msg("%s\nis answered: %s\ninstead of:  %s", dialogue->said, answered, dialogue->answered);
    if (strcmp(strbuf_str(&fixture.service.delivered), dialogue->delivered) != 0)
        fail_msg("%s\ndelivers: %s\ninstead:  %s", dialogue->said, strbuf_str(&fixture.service.delivered),
                 dialogue->delivered);
    fixture_close(&fixture);
}

TEST(each_dialogue_gets_its_answers_and_deliveries)
{
    static const size_t pieces[] = {1, 2, 3, SIZE_MAX};
    for (size_t piece = 0; piece < ARRAY_LEN(pieces); piece++) {
        for (size_t i = 0; i < ARRAY_LEN(smtp); i++)
            check_dialogue(DIALECT_SMTP, false, &smtp[i], pieces[piece]);
        for (size_t i = 0; i < ARRAY_LEN(login); i++)
            check_dialogue(DIALECT_SMTP, true, &login[i], pieces[piece]);
        for (size_t i = 0; i < ARRAY_LEN(lmtp); i++)
            check_dialogue(DIALECT_LMTP, false, &lmtp[i], pieces[piece]);
    }
}

/* ---------------------------------------------------------------- limits */

static void assert_answered(struct fixture *fixture, const char *expected)
{
    char answered[1024];
    codes(strbuf_str(&fixture->answers), answered);
    assert_string_equal(expected, answered);
    strbuf_clear(&fixture->answers);
}

TEST(a_message_of_more_than_fifty_million_bytes_is_refused)
{
    static char line[100000];
    memset(line, 'x', sizeof(line));
    for (size_t surplus = 0; surplus < 2; surplus++) {
        struct fixture fixture;
        fixture_open(&fixture, DIALECT_SMTP);
        say(&fixture, BEGIN);
        for (size_t i = 0; i < MESSAGE_MAX_BYTES / sizeof(line) - 1; i++)
            smtp_session_receive(fixture.session, line, sizeof(line));
        smtp_session_receive(fixture.session, line, sizeof(line) - 2 + surplus);
        assert_true(smtp_session_is_in_message(fixture.session));
        say(&fixture, "\r\n.\r\n");
        assert_false(smtp_session_is_in_message(fixture.session));
        assert_answered(&fixture, surplus > 0 ? BEGUN " 552" : BEGUN " 250");
        assert_int_equal(surplus > 0 ? 0 : MESSAGE_MAX_BYTES + strlen(ENVELOPE "|"),
                         fixture.service.delivered.len);
        /* The session accepts the next message. */
        strbuf_clear(&fixture.service.delivered);
        say(&fixture, "MAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n1\r\n.\r\n");
        assert_answered(&fixture, "250 250 354 250");
        assert_string_equal(ENVELOPE "1\r\n|", strbuf_str(&fixture.service.delivered));
        fixture_close(&fixture);
    }
}

TEST(incomplete_messages_of_all_sessions_share_a_size_limit)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    say(&fixture, BEGIN "1\r\n");
    fixture.text_bytes += TEXTS_MAX_BYTES - 7; /* as if other sessions held these bytes */
    say(&fixture, "2345");
    assert_int_equal(TEXTS_MAX_BYTES, fixture.text_bytes);
    say(&fixture, "6");
    assert_int_equal(TEXTS_MAX_BYTES - 7, fixture.text_bytes);
    say(&fixture, "7\r\n.\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n1\r\n.\r\n");
    assert_answered(&fixture, BEGUN " 452 250 250 354 250");
    assert_string_equal(ENVELOPE "1\r\n|", strbuf_str(&fixture.service.delivered));
    fixture.text_bytes -= TEXTS_MAX_BYTES - 7;
    fixture_close(&fixture);
}

TEST(recipients_after_the_first_thousand_are_refused)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_LMTP);
    say(&fixture, "LHLO me\r\nMAIL FROM:<>\r\n");
    for (size_t i = 0; i < SMTP_RECIPIENTS_MAX; i++)
        say(&fixture, "RCPT TO:<b@y>\r\n");
    strbuf_clear(&fixture.answers);
    say(&fixture, "RCPT TO:<c@y>\r\nDATA\r\n.\r\n");
    assert_non_null(strstr(strbuf_str(&fixture.answers), "452 4.5.3 "));
    assert_null(strstr(strbuf_str(&fixture.service.delivered), "c@y"));
    size_t answers = 0;
    for (const char *at = strbuf_str(&fixture.answers); (at = strstr(at, "250 2.0.0 ")) != NULL; at++)
        answers++;
    assert_int_equal(SMTP_RECIPIENTS_MAX, answers);
    fixture_close(&fixture);
}

TEST(a_too_long_command_line_is_refused)
{
    static char line[5000];
    memset(line, 'x', sizeof(line));
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    say(&fixture, HELLO "RCPT TO:<");
    for (size_t i = 0; i < 100; i++)
        smtp_session_receive(fixture.session, line, sizeof(line));
    say(&fixture, ">\r\nNOOP\r\n");
    assert_answered(&fixture, "250 500 250");
    fixture_close(&fixture);
}

TEST(a_client_with_too_many_mistakes_is_disconnected)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    say(&fixture, HELLO);
    for (size_t i = 0; i < SMTP_MISTAKES_MAX; i++)
        say(&fixture, "NONSENSE\r\n");
    assert_false(smtp_session_must_close(fixture.session));
    strbuf_clear(&fixture.answers);
    say(&fixture, "NONSENSE\r\n" BEGIN);
    assert_answered(&fixture, "421");
    assert_true(smtp_session_must_close(fixture.session));
    fixture_close(&fixture);
}

/* ---------------------------------------------------------------- answers of the host */

TEST(answers_of_the_host_are_cut_and_made_printable)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_LMTP);
    fixture.service.answer = "554 5.6.0 an answer\nof \303\244ll\033 words";
    say(&fixture, "LHLO me\r\nMAIL FROM:<>\r\nRCPT TO:<b@y>\r\nRCPT TO:<c@y>\r\n");
    strbuf_clear(&fixture.answers);
    say(&fixture, "DATA\r\n.\r\n");
    assert_string_equal("354 Send the message; a dot alone on a line ends it\r\n"
                        "554 5.6.0 an answer?of ??ll? words\r\n554 5.6.0 an answer?of ??ll? words\r\n",
                        strbuf_str(&fixture.answers));
    char words[1000] = "554 ";
    memset(words + 4, 'x', sizeof(words) - 5);
    fixture.service.answer = words;
    strbuf_clear(&fixture.answers);
    say(&fixture, "MAIL FROM:<>\r\nRCPT TO:<b@y>\r\nDATA\r\n.\r\n");
    assert_answered(&fixture, "250 250 354 554");
    fixture_close(&fixture);
}

TEST(with_keeps_local_names_a_local_recipient_gets_no_domain)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    fixture.host.keeps_local_names = true;
    say(&fixture,
        HELLO "MAIL FROM:<root>\r\nRCPT TO:<root>\r\nRCPT TO:<b@y>\r\nRCPT TO:<b,c>\r\nRCPT TO:<>\r\n"
              "DATA\r\n.\r\n");
    assert_answered(&fixture, "250 250 250 250 553 553 354 250");
    assert_string_equal("root>root,b@y:|", strbuf_str(&fixture.service.delivered));
    fixture_close(&fixture);
}

TEST(commands_before_the_tls_handshake_have_no_effect)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    fixture.host.takes_login = fixture.host.offers_tls = true;
    say(&fixture, HELLO "AUTH PLAIN AGEAYg==\r\n");
    assert_non_null(strstr(strbuf_str(&fixture.answers), "250-STARTTLS\r\n"));
    assert_non_null(strstr(strbuf_str(&fixture.answers), "250-AUTH PLAIN LOGIN "));
    assert_false(smtp_session_wants_tls(fixture.session));
    strbuf_clear(&fixture.answers);
    say(&fixture, "STARTTLS\r\nEHLO injec");
    assert_true(smtp_session_wants_tls(fixture.session));
    say(&fixture, "ted\r\nMAIL FROM:<injected@x>\r\n");
    assert_answered(&fixture, "220");
    smtp_session_restart_with_tls(fixture.session);
    assert_false(smtp_session_wants_tls(fixture.session));
    say(&fixture, "RCPT TO:<b@y>\r\nMAIL FROM:<a@x>\r\n" HELLO);
    assert_null(strstr(strbuf_str(&fixture.answers), "STARTTLS"));
    assert_answered(&fixture, "503 503 250");
    say(&fixture,
        "STARTTLS\r\nAUTH PLAIN AGEAYg==\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@y>\r\nDATA\r\n1\r\n.\r\n");
    assert_answered(&fixture, "503 235 250 250 354 250");
    assert_string_equal(ENVELOPE "1\r\n|", strbuf_str(&fixture.service.delivered));
    fixture_close(&fixture);
}

TEST(a_login_token_of_twelve_thousand_bytes_is_accepted)
{
    char token[12000];
    memset(token, 'Q', sizeof(token));
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    fixture.host.takes_login = true;
    say(&fixture, HELLO "AUTH XOAUTH2 ");
    smtp_session_receive(fixture.session, token, sizeof(token));
    say(&fixture, "\r\nAUTH PLAIN ");
    for (size_t i = 0; i < 3; i++)
        smtp_session_receive(fixture.session, token, sizeof(token));
    say(&fixture, "\r\nNOOP\r\n");
    assert_answered(&fixture, "250 235 500 250");
    fixture_close(&fixture);
}

TEST(answers_do_not_echo_the_command)
{
    struct fixture fixture;
    fixture_open(&fixture, DIALECT_SMTP);
    fixture.host.takes_login = true;
    say(&fixture,
        "EHLO secret\r\nAUTH PLAIN secret\r\nMAIL FROM:<secret@x>\r\nRCPT TO:<secret@y>\r\nHELP secret\r\n"
        "secret\r\nRCPT TO:<secret\033>\r\n");
    assert_null(strstr(strbuf_str(&fixture.answers), "secret"));
    assert_null(strchr(strbuf_str(&fixture.answers), '\033'));
    fixture_close(&fixture);
}
