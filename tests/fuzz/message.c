/* SPDX-License-Identifier: MIT */
/*
 * Raw messages that inboxd has stored: an attachment is found in them, or is not.
 */
#include "service/message.h"
#include "fuzz/fuzz.h"
#include "mail/mime_library.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    mime_library_init(); /* as the service does */
    for (size_t i = 0; i < 3; i++) {
        char *attachment = NULL;
        size_t attachment_len = 0;
        if (message_read_attachment((const char *)bytes, len, i, &attachment, &attachment_len) != 0)
            continue;
        FUZZ_CHECK(attachment != NULL);
        free(attachment);
    }
    return 0;
}
