/* SPDX-License-Identifier: MIT */
/*
 * Sends a message by a mount that this user can enter, else leaves it in the maildrop.
 */
#include <string.h>
#include <sysexits.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "sendmail/maildrop.h"
#include "sendmail/sendmail.h"

/* Sets *ret_mount to -1 if no mount can be opened, but the machine has a maildrop. Returns a status. */
static int open_mount(const struct invocation *invocation, int *ret_mount)
{
    _cleanup_free_ char *reason = NULL;
    int mount = mount_open(invocation, &reason);
    if (mount < 0 && (invocation->mount != NULL || !maildrop_exists()))
        return complain(-mount, "%s", reason);
    *ret_mount = mount < 0 ? -1 : mount;
    return EX_OK;
}

int submit_to_mount(const struct invocation *invocation, int mount, const char *name)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    int status = message_compose(invocation, mount, &text, &draft);
    return status == EX_OK ? mount_hand_in(mount, name, &draft) : status;
}

/* First makes all checks that need no mount, so that the caller gets their errors. */
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
    _cleanup_close_ int mount = -1;
    int status = open_mount(invocation, &mount);
    if (status != EX_OK)
        return status;
    if (mount < 0)
        return leave_message(invocation);
    mount_make_name(name);
    status = submit_to_mount(invocation, mount, name);
    return status == EX_OK && invocation->waits ? mount_wait_for_service(mount, name) : status;
}

int submit_check_recipient(const struct invocation *invocation, const char *recipient)
{
    _cleanup_addresses_ struct address_list recipients = {0};
    _cleanup_close_ int mount = -1;
    int status = open_mount(invocation, &mount);
    if (status != EX_OK)
        return status;
    _cleanup_local_names_ struct local_names names;
    status = local_names_init(&names, invocation, mount);
    return status == EX_OK ? local_names_resolve(&names, recipient, &recipients) : status;
}
