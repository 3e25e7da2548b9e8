/* SPDX-License-Identifier: MIT */
/*
 * The email that greets the account's first inbox.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/delivery.h"
#include "service/inbox_rules.h"

static const char subject[] = "Welcome to your inbox";
static const char text[] = "Hello,\n"
                           "\n"
                           "your inbox %s is ready. Whatever is sent to it arrives here.\n"
                           "\n"
                           "Emails sent from it to other inboxes of this service are delivered at once.\n"
                           "\n"
                           "Your local email inbox service\n";

static int write_welcome(const struct inbox *inbox, const char *domain, const char *support,
                         struct message *ret_message)
{
    struct message *message = ret_message;
    int error = message_name(message, domain);
    if (error != 0)
        return error;
    message->date_ms = clock_realtime_ms(clock_system());
    message->from = json_pack("{s:s, s:s}", "address", support, "name", "Support");
    message->to = json_pack("[{s:s, s:s?}]", "address", inbox_address(inbox), "name", inbox_name(inbox));
    message->cc = json_array();
    message->bcc = json_array();
    message->reply_to = json_array();
    message->subject = strdup(subject);
    if (asprintf(&message->plain_text, text, inbox_address(inbox)) < 0)
        message->plain_text = NULL;
    bool is_complete = message->from != NULL && message->to != NULL && message->subject != NULL &&
                       message->plain_text != NULL;
    return is_complete ? 0 : -ENOMEM;
}

int delivery_welcome(sqlite3 *db, const struct inbox *inbox, const char *domain)
{
    _cleanup_free_ char *support = NULL;
    if (asprintf(&support, "support@%s", domain) < 0)
        return -ENOMEM;
    struct verdict verdict = inbox_rules_judge(inbox->record, support, DELIVERY_TO);
    if (strcmp(verdict.status, "valid") != 0)
        return 0;

    _cleanup_message_ struct message message = {0};
    int error = write_welcome(inbox, domain, support, &message);
    if (error != 0)
        return error;
    _cleanup_free_ char *raw = NULL;
    size_t raw_len = 0;
    error = message_write(&message, &raw, &raw_len);
    int64_t seq = 0;
    if (error == 0)
        error = delivery_store(db, &message, raw, raw_len, (struct lineage){0}, &seq);
    bool is_delivered = false;
    return error == 0 ? delivery_distribute(db, &message, seq, &is_delivered) : error;
}
