/* SPDX-License-Identifier: MIT */
/*
 * `inboxfs-sendmail -bs`: SMTP (RFC 5321) on standard input and output, for one client, with the grammar of
 * mail/smtp_session.h.
 *
 * A recipient is checked, and a message is sent, by a function of main.c in a child process, which reports as
 * the whole program does: by a status of sysexits.h and a text on standard error. The server builds its
 * answer from both. The child process keeps a message from affecting the next message.
 *
 * A client whose first line ends with LF alone, as people and scripts write, may end all lines with LF. For
 * any other client LF alone is not a line end, so that the text of a message cannot end the message.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "mail/smtp_session.h"
#include "sendmail/sendmail.h"

enum {
    READ_BYTES = 16 * 1024,
    ANSWERS_MAX_BYTES = 1024 * 1024, /* more than the answers to one read(2) */
    OUTPUT_MAX_BYTES = 4096,         /* the longest output of a child process */
};

struct server {
    const struct invocation *invocation;
    char *answer; /* the last answer to the client; owned */
};

/* ---------------------------------------------------------------- a call in a child process */

static int send_message(const struct invocation *caller, const struct smtp_message *message)
{
    _cleanup_free_ char **recipients = g_new0(char *, message->recipients_len + 1);
    struct invocation invocation = *caller;
    memcpy(recipients, message->recipients, message->recipients_len * sizeof(*recipients));
    invocation.recipients = recipients;
    invocation.sender = message->sender;
    invocation.text = (struct span){message->text, message->text_len};
    invocation.reads_headers = false;
    invocation.ignores_dots = true;
    return submit_message(&invocation);
}

/* Sends the message, or checks the recipient if `message` is NULL, in a child process. `output` gets the
 * first line that the child writes on its standard output or error. Returns the status of the call. */
static int run_in_child(const struct invocation *invocation, const struct smtp_message *message,
                        const char *recipient, struct strbuf *output)
{
    int ends[2];
    int status = 0;
    if (pipe(ends) != 0)
        return EX_OSERR;
    pid_t child = fork();
    if (child == 0) {
        status = EX_OSERR;
        if (dup2(ends[1], STDOUT_FILENO) >= 0 && dup2(ends[1], STDERR_FILENO) >= 0)
            status = message != NULL ? send_message(invocation, message)
                                     : submit_check_recipient(invocation, recipient);
        fflush(stdout);
        _exit(status);
    }
    close(ends[1]);
    if (child > 0)
        strbuf_read_to_end(output, ends[0]);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return EX_OSERR;
    strbuf_truncate(output, strcspn(strbuf_str(output), "\n"));
    return WEXITSTATUS(status);
}

/* ---------------------------------------------------------------- the answer */

/* Returns the answer to the client, which is borrowed until the next call. */
static const char *make_answer(struct server *server, const struct smtp_message *message,
                               const char *recipient)
{
    static const char prefix[] = "inboxfs-sendmail: ";
    /* After any other status the client may send the message again by itself. It must not do that if the
     * message may have been accepted (EX_UNAVAILABLE). */
    static const char *const codes[EX__MAX + 1] = {
        [EX_OK] = "250 2.0.0",    [EX_NOUSER] = "550 5.1.1", [EX_DATAERR] = "554 5.6.0",
        [EX_USAGE] = "554 5.3.5", [EX_NOPERM] = "550 5.7.1", [EX_UNAVAILABLE] = "554 5.3.0",
    };
    _cleanup_strbuf_ struct strbuf output = STRBUF_INIT(OUTPUT_MAX_BYTES);
    int status = run_in_child(server->invocation, message, recipient, &output);
    const char *text = strbuf_str(&output);
    if (strncmp(text, prefix, strlen(prefix)) == 0)
        text += strlen(prefix);
    if (*text == '\0')
        text = status == EX_OK ? "Accepted" : "Not accepted; try again later";
    const char *code = status <= EX__MAX && codes[status] != NULL ? codes[status] : "451 4.3.0";
    free(server->answer);
    server->answer = g_strdup_printf("%s %s", code, text);
    return server->answer;
}

static const char *check_recipient(void *context, const char *address)
{
    const char *text = make_answer(context, NULL, address);
    return text[0] == '2' ? NULL : text;
}

static const char *deliver(void *context, const struct smtp_message *message)
{
    return make_answer(context, message, NULL);
}

/* ---------------------------------------------------------------- the conversation */

struct input {
    bool has_line; /* the first line is complete */
    bool has_lf;   /* the first line ended with LF alone, so all other lines may */
    char previous; /* the byte received last */
};

/* Passes the bytes to the session, with CR LF for each LF if the client's first line ended with LF alone. */
static void receive(struct input *input, struct smtp_session *session, const char *bytes, size_t len)
{
    for (const char *newline; (newline = memchr(bytes, '\n', len)) != NULL;) {
        size_t line_len = (size_t)(newline - bytes);
        bool has_cr = (line_len > 0 ? newline[-1] : input->previous) == '\r';
        input->has_lf = input->has_line ? input->has_lf : !has_cr;
        input->has_line = true;
        smtp_session_receive(session, bytes, line_len);
        if (!has_cr && input->has_lf)
            smtp_session_receive(session, "\r", 1);
        smtp_session_receive(session, "\n", 1);
        input->previous = '\n';
        bytes += line_len + 1;
        len -= line_len + 1;
    }
    smtp_session_receive(session, bytes, len);
    if (len > 0)
        input->previous = bytes[len - 1];
}

static int converse(struct smtp_session *session, struct strbuf *answers)
{
    struct input input = {0};
    char bytes[READ_BYTES];
    for (;;) {
        if (file_write_all(STDOUT_FILENO, strbuf_str(answers), answers->len) != 0)
            return EX_IOERR;
        if (smtp_session_must_close(session))
            return EX_OK;
        strbuf_clear(answers);
        ssize_t len = read(STDIN_FILENO, bytes, sizeof(bytes));
        if (len <= 0)
            return len == 0 ? EX_OK : EX_IOERR;
        receive(&input, session, bytes, (size_t)len);
    }
}

int sendmail_smtp_run(const struct invocation *invocation)
{
    atomic_size_t text_bytes = 0;
    struct server server = {invocation, NULL};
    _cleanup_strbuf_ struct strbuf answers = STRBUF_INIT(ANSWERS_MAX_BYTES);
    const struct smtp_host host = {
        .context = &server,
        .dialect = DIALECT_SMTP,
        .program = "inboxfs-sendmail",
        .domain = "localhost",
        .keeps_local_names = true,
        .message_max_bytes = MESSAGE_MAX_BYTES,
        .texts_max_bytes = MESSAGE_MAX_BYTES,
        .text_bytes = &text_bytes,
        .check_recipient = check_recipient,
        .deliver = deliver,
    };
    struct smtp_session *session = smtp_session_new(&host, &answers);
    signal(SIGCHLD, SIG_DFL); /* some callers leave it ignored, and waitpid(2) would then get no status */
    int status = converse(session, &answers);
    smtp_session_free(session);
    free(server.answer);
    return status;
}
