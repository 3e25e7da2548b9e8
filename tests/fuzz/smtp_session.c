/* SPDX-License-Identifier: MIT */
/*
 * A session of SMTP or LMTP (the first byte chooses). However the bytes are cut into pieces, the answers and
 * the delivered messages are the same. Answers are lines of printable ASCII. Each delivered message occurs
 * whole in the input, with <CR><LF>.<CR><LF> after it, and has valid recipients.
 */
#include "mail/smtp_session.h"
#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/address.h"

struct outcome {
    struct strbuf answers;
    struct strbuf delivered;
    size_t messages;
    size_t rounds; /* how often the session received the bytes */
};

static const char *check_recipient(void *context, const char *address)
{
    return address[0] == 'u' ? "550 5.1.1 No" : NULL;
}

static const char *deliver(void *context, const struct smtp_message *message)
{
    struct outcome *outcome = context;
    FUZZ_CHECK(message->sender != NULL);
    FUZZ_CHECK(message->recipients_len > 0 && message->recipients_len <= SMTP_RECIPIENTS_MAX);
    for (size_t i = 0; i < message->recipients_len; i++) {
        FUZZ_CHECK(address_is_valid(message->recipients[i]));
        strbuf_appendf(&outcome->delivered, "%s,", message->recipients[i]);
    }
    strbuf_appendf(&outcome->delivered, "%s:", message->sender);
    strbuf_append(&outcome->delivered, message->text, message->text_len);
    outcome->messages++;
    return "250 2.0.0 Kept";
}

static void hold_session(enum smtp_dialect dialect, const uint8_t *bytes, size_t len, size_t piece,
                         struct outcome *outcome)
{
    atomic_size_t text_bytes = 0;
    const struct smtp_host host = {
        .context = outcome,
        .dialect = dialect,
        .program = "inboxd",
        .domain = "here.example",
        .takes_login = dialect == DIALECT_SMTP,
        .offers_tls = true,
        .message_max_bytes = 1 << 20,
        .texts_max_bytes = 1 << 20,
        .text_bytes = &text_bytes,
        .check_recipient = check_recipient,
        .deliver = deliver,
    };
    *outcome = (struct outcome){.answers = STRBUF_INIT(1 << 26), .delivered = STRBUF_INIT(1 << 26)};
    struct smtp_session *session = smtp_session_new(&host, &outcome->answers);
    for (size_t at = 0; at < len; at += piece)
        smtp_session_receive(session, (const char *)bytes + at, piece < len - at ? piece : len - at);
    outcome->rounds = 1;
    if (smtp_session_wants_tls(session)) { /* the same bytes again after the handshake */
        smtp_session_restart_with_tls(session);
        for (size_t at = 0; at < len; at += piece)
            smtp_session_receive(session, (const char *)bytes + at, piece < len - at ? piece : len - at);
        FUZZ_CHECK(!smtp_session_wants_tls(session));
        outcome->rounds = 2;
    }
    smtp_session_free(session);
    FUZZ_CHECK(text_bytes == 0);
}

static void check_answers(const struct strbuf *answers)
{
    FUZZ_CHECK(answers->error == 0);
    for (const char *c = strbuf_str(answers); *c != '\0'; c++)
        FUZZ_CHECK((*c >= ' ' && *c < 0x7f) || (c[0] == '\r' && c[1] == '\n') ||
                   (c[0] == '\n' && c > answers->data && c[-1] == '\r'));
}

static size_t count_ends(const uint8_t *bytes, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i + 5 <= len; i++)
        count += memcmp(bytes + i, "\r\n.\r\n", 5) == 0;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    enum smtp_dialect dialect = bytes[0] == 'L' ? DIALECT_LMTP : DIALECT_SMTP;
    bytes++;
    len--;
    struct outcome whole;
    struct outcome pieces;
    hold_session(dialect, bytes, len, len > 0 ? len : 1, &whole);
    hold_session(dialect, bytes, len, 1, &pieces);
    check_answers(&whole.answers);
    FUZZ_CHECK(strcmp(strbuf_str(&whole.answers), strbuf_str(&pieces.answers)) == 0);
    FUZZ_CHECK(whole.delivered.len == pieces.delivered.len);
    FUZZ_CHECK(whole.delivered.len == 0 ||
               memcmp(whole.delivered.data, pieces.delivered.data, whole.delivered.len) == 0);
    FUZZ_CHECK(whole.messages <= whole.rounds * count_ends(bytes, len));
    strbuf_release(&whole.answers);
    strbuf_release(&whole.delivered);
    strbuf_release(&pieces.answers);
    strbuf_release(&pieces.delivered);
    return 0;
}
