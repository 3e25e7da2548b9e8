/* SPDX-License-Identifier: MIT */
/*
 * Brings a message from standard input to the outbox of a mount: to a mount that this user can enter, else by
 * way of the maildrop; and takes messages out of the maildrop.
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

/* ---------------------------------------------------------------- to the mount */

static int hand_in(const struct invocation *invocation, int mount, struct strbuf *text, const char *name)
{
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    int status = message_compose(invocation, mount, text, &draft);
    return status == EX_OK ? mount_hand_in(mount, name, &draft) : status;
}

/* Sends the message on standard input. */
static int send_message(const struct invocation *invocation, int mount)
{
    char name[MESSAGE_NAME_SIZE];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    int status = message_read(&text);
    if (status == EX_OK && mount_make_name(name) != 0)
        return complain(EX_TEMPFAIL, "cannot make up a name");
    if (status == EX_OK)
        status = hand_in(invocation, mount, &text, name);
    return status == EX_OK && invocation->waits ? mount_wait_for_service(mount, name) : status;
}

/* ---------------------------------------------------------------- the maildrop */

/* Makes all checks that do not need the mount first, so that the caller gets their error. */
static int leave_message(const struct invocation *caller)
{
    struct invocation invocation = *caller;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf composed = STRBUF_INIT(DRAFT_MAX_BYTES);
    invocation.is_delegated = true;
    if (invocation.aliases != NULL || invocation.waits)
        return complain(EX_USAGE, "--aliases and --wait need a mount that this user can enter");
    int status = message_read(&text);
    if (status == EX_OK)
        status = message_compose(&invocation, -1, &text, &composed);
    if (status != EX_OK)
        return status;
    int error = maildrop_leave(&invocation, strbuf_str(&text), text.len);
    return complain(EX_TEMPFAIL, "cannot leave the message in the maildrop: %s", strerrordesc_np(-error));
}

int submit_message(const struct invocation *invocation)
{
    int status = EX_OK;
    const char *reason = NULL;
    _cleanup_close_ int mount = mount_open(invocation, &status, &reason);
    if (mount >= 0)
        return send_message(invocation, mount);
    if (reason != NULL && maildrop_exists())
        return leave_message(invocation);
    return reason != NULL ? complain(status, "%s", reason) : status;
}

struct queue_run {
    const struct invocation *invocation;
    int mount;
    int status; /* why there is no mount; EX_OK: not known yet */
};

/* Sends a message that any user may have left, with anything in it. */
static int send_left_message(void *context, const struct invocation *left, const char *bytes, size_t len,
                             const char *file_name)
{
    struct queue_run *run = context;
    const char *reason = NULL;
    char name[MAILDROP_NAME_SIZE + sizeof(".eml")];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    struct invocation invocation = *left;
    if (invocation.root == NULL)
        invocation.root = run->invocation->root;
    if (strlen(file_name) >= MAILDROP_NAME_SIZE)
        return EX_DATAERR;
    if (run->mount < 0 && run->status == EX_OK)
        run->mount = mount_open(run->invocation, &run->status, &reason);
    if (run->mount < 0 && reason != NULL)
        log_error("%s", reason);
    if (run->mount < 0)
        return EX_TEMPFAIL;
    snprintf(name, sizeof(name), "%s.eml", file_name);
    if (mount_has_message(run->mount, name))
        return EX_OK;
    strbuf_append(&text, bytes, len);
    return hand_in(&invocation, run->mount, &text, name);
}

/* Mails root, if the alias file names an address: the users who left these messages got status 0 for them. */
static void report_failed(const struct queue_run *run, unsigned int count)
{
    char name[MESSAGE_NAME_SIZE];
    char *nobody = NULL;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    const struct invocation invocation = {
        .root = run->invocation->root, .reads_headers = true, .ignores_dots = true, .recipients = &nobody};
    strbuf_appendf(
        &text,
        "To: root\nSubject: Mail of this machine could not be sent\nAuto-Submitted: auto-generated\n\n"
        "%u messages that users of this machine left could not be sent. They are kept in\n%s\n"
        "The journal has the reasons: journalctl -u inboxfs-mta.service\n",
        count, MAILDROP_FAILED);
    if (mount_make_name(name) == 0)
        hand_in(&invocation, run->mount, &text, name);
}

int submit_queue(const struct invocation *invocation)
{
    struct queue_run run = {.invocation = invocation, .mount = -1};
    unsigned int failed = 0;
    int error = maildrop_run(send_left_message, &run, &failed);
    if (failed > 0 && run.mount >= 0)
        report_failed(&run, failed);
    if (run.mount >= 0)
        close(run.mount);
    return error == 0 ? EX_OK : EX_TEMPFAIL;
}

/* ---------------------------------------------------------------- for a session of SMTP */

int submit_check_recipient(const struct invocation *invocation, const char *recipient)
{
    _cleanup_local_names_ struct local_names names;
    _cleanup_addresses_ struct address_list list = {0};
    int status = EX_OK;
    const char *reason;
    _cleanup_close_ int mount = mount_open(invocation, &status, &reason);
    status = local_names_init(&names, invocation, mount);
    names.defers_names = mount < 0 && maildrop_exists();
    return status == EX_OK ? local_names_resolve(&names, recipient, &list) : status;
}

int submit_from_session(const struct invocation *caller, const char *sender, char **recipients)
{
    struct invocation invocation = *caller;
    invocation.sender = sender;
    invocation.recipients = recipients;
    invocation.reads_headers = false;
    invocation.ignores_dots = true;
    return submit_message(&invocation);
}
