/* SPDX-License-Identifier: MIT */
/*
 * Names in a Maildir, as mail programs write them: a name that is read can be written as a name of the same
 * message, with the same marks.
 */
#include "mail/maildir_name.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct maildir_name name;
    struct maildir_name again;
    char written[MAILDIR_NAME_SIZE];
    _cleanup_free_ char *text = fuzz_string(bytes, len);
    if (!maildir_name_parse(text, &name))
        return 0;
    maildir_name_format(&name, written);
    FUZZ_CHECK(maildir_name_parse(written, &again) && maildir_name_is_same_message(&name, &again));
    FUZZ_CHECK(again.flags == name.flags && again.has_info == name.has_info && again.epoch == name.epoch);
    return 0;
}
