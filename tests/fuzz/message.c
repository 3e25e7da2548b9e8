/* SPDX-License-Identifier: MIT */
/*
 * Messages of any origin. Every message can be read, and its values are valid in a record. Every listed
 * attachment can be read.
 */
#include "service/message.h"

#include <errno.h>
#include <gmime/gmime.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/address.h"
#include "mail/draft.h"
#include "mail/json_writer.h"

static void check_text(const char *text)
{
    FUZZ_CHECK(text == NULL || g_utf8_validate(text, -1, NULL));
}

/* Each entry of a list is a valid address, or a text that is never read as an address. */
static void check_recipients(const json_t *list)
{
    size_t i;
    const json_t *address;
    FUZZ_CHECK(json_array_size(list) <= ADDRESS_LIST_MAX);
    json_array_foreach (list, i, address) {
        const char *text = json_string_value(json_object_get(address, "address"));
        struct address_list readable = {0};
        fuzz_check_harmless(text, strlen(text), "");
        FUZZ_CHECK(address_is_valid(text) || address_list_parse(&readable, text, NULL, NULL) == -EBADMSG);
    }
}

/* Checks the message in its stored form. */
static void check_record(struct message *message)
{
    _cleanup_json_ json_t *made_up = json_pack("{s:s, s:n}", "address", "a@x.example", "name");
    if (message->from == NULL)
        message->from = json_incref(made_up);
    if (message->message_id == NULL)
        message_make_id(message, "x.example");
    message_make_columns(message);
    FUZZ_CHECK(message->header != NULL && message->search_text != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    g_mime_init(); /* as inboxd does */
    struct message message = {0};
    message_read((const char *)bytes, len, &message);
    fuzz_check_harmless(message.subject, strlen(message.subject), "");
    check_text(message.plain_text);
    check_text(message.html);
    check_recipients(message.to);
    check_recipients(message.cc);
    check_recipients(message.reply_to);
    FUZZ_CHECK(message.attachments_len <= ATTACHMENTS_MAX);
    for (size_t i = 0; i < message.attachments_len + 1 && i < 5; i++) {
        char *attachment = NULL;
        size_t attachment_len = 0;
        int error = message_read_attachment((const char *)bytes, len, i, &attachment, &attachment_len);
        FUZZ_CHECK(error == (i < message.attachments_len ? 0 : -ENOENT));
        FUZZ_CHECK((attachment != NULL) == (error == 0));
        free(attachment);
        if (error == 0)
            fuzz_check_harmless(message.attachments[i].name, strlen(message.attachments[i].name), "");
    }
    check_record(&message);
    message_release(&message);
    return 0;
}
