/* SPDX-License-Identifier: MIT */
/*
 * Sends a message by a mount that this user can enter, else leaves it in the maildrop; and sends the messages
 * of the maildrop.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sendmail/maildrop.h"
#include "sendmail/sendmail.h"

/* ---------------------------------------------------------------- one message */

static int send_message(const struct invocation *invocation, int mount, const char *name)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    int status = message_compose(invocation, mount, &text, &draft);
    return status == EX_OK ? mount_hand_in(mount, name, &draft) : status;
}

/* Makes all checks that do not need the mount first, so that the caller gets their errors. */
static int leave_message(const struct invocation *caller)
{
    struct invocation invocation = *caller;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    invocation.is_delegated = true;
    if (invocation.aliases != NULL || invocation.waits)
        return complain(EX_USAGE, "--aliases and --wait need a mount that this user can enter");
    int status = message_compose(&invocation, -1, &text, &draft);
    if (status != EX_OK)
        return status;
    int error = maildrop_leave(&invocation, strbuf_str(&text), text.len);
    return complain(EX_TEMPFAIL, "cannot leave the message in the maildrop: %s", strerrordesc_np(-error));
}

int submit_message(const struct invocation *invocation)
{
    char name[MESSAGE_NAME_SIZE];
    _cleanup_free_ char *reason = NULL;
    _cleanup_close_ int mount = mount_open(invocation, &reason);
    if (mount < 0 && invocation->mount == NULL && maildrop_exists())
        return leave_message(invocation);
    if (mount < 0)
        return complain(-mount, "%s", reason);
    if (mount_make_name(name) != 0)
        return complain(EX_TEMPFAIL, "cannot make up a name");
    int status = send_message(invocation, mount, name);
    return status == EX_OK && invocation->waits ? mount_wait_for_service(mount, name) : status;
}

int submit_check_recipient(const struct invocation *invocation, const char *recipient)
{
    _cleanup_local_names_ struct local_names names;
    _cleanup_recipients_ struct recipients recipients = {0};
    _cleanup_free_ char *reason = NULL;
    _cleanup_close_ int mount = mount_open(invocation, &reason);
    int status = local_names_init(&names, invocation, mount < 0 ? -1 : mount);
    names.defers_names = mount < 0 && maildrop_exists();
    return status == EX_OK ? local_names_resolve(&names, recipient, &recipients) : status;
}

/* ---------------------------------------------------------------- the maildrop */

struct queue_run {
    const struct invocation *invocation;
    int mount; /* -1 before the first message; a negative status if the mount cannot be opened */
};

/* Sends a message that any user may have left, with anything in it. */
static int send_left_message(void *context, struct invocation *invocation, const char *file_name)
{
    struct queue_run *run = context;
    char name[MAILDROP_NAME_SIZE + sizeof(".eml")];
    if (invocation->root == NULL)
        invocation->root = run->invocation->root;
    if (strlen(file_name) >= MAILDROP_NAME_SIZE)
        return EX_DATAERR;
    if (run->mount == -1) {
        _cleanup_free_ char *reason = NULL;
        run->mount = mount_open(run->invocation, &reason);
        if (run->mount < 0)
            log_error("%s", reason);
    }
    if (run->mount < 0)
        return EX_TEMPFAIL;
    snprintf(name, sizeof(name), "%s.eml", file_name);
    return mount_has_message(run->mount, name) ? EX_OK : send_message(invocation, run->mount, name);
}

/* Mails root, if the alias file names an address for root: the users who left these messages got status 0. */
static void report_failed(const struct queue_run *run, unsigned int count)
{
    char name[MESSAGE_NAME_SIZE];
    char *no_recipient = NULL;
    _cleanup_free_ char *text = g_strdup_printf(
        "To: root\nSubject: Mail of this machine could not be sent\nAuto-Submitted: auto-generated\n\n"
        "%u messages that users of this machine left could not be sent. They are kept in\n%s\n"
        "The journal has the reasons: journalctl -u inboxfs-mta.service\n",
        count, MAILDROP_FAILED);
    const struct invocation invocation = {.root = run->invocation->root,
                                          .reads_headers = true,
                                          .ignores_dots = true,
                                          .recipients = &no_recipient,
                                          .text = {text, strlen(text)}};
    if (mount_make_name(name) == 0)
        send_message(&invocation, run->mount, name);
}

int submit_queue(const struct invocation *invocation)
{
    struct queue_run run = {.invocation = invocation, .mount = -1};
    unsigned int failed = 0;
    int error = maildrop_run(send_left_message, &run, &failed);
    if (failed > 0 && run.mount >= 0)
        report_failed(&run, failed);
    cleanup_close(&run.mount);
    return error == 0 ? EX_OK : EX_TEMPFAIL;
}
