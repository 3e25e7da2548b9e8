/* SPDX-License-Identifier: MIT */
/*
 * Forms that are uploaded to inboxd: the first line is the request's Content-Type, the rest its body. A file
 * that is found lies within the body, and its name and type are valid in a header.
 */
#include "fuzz/fuzz.h"
#include "mail/file_name.h"
#include "service/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct multipart_file file;
    _cleanup_free_ char *content_type = fuzz_take_line(&bytes, &len);
    const char *body = (const char *)bytes;
    if (multipart_find_file(content_type, body, len, "file", &file) != 0)
        return 0;
    FUZZ_CHECK(file.bytes >= body && file.len <= len && file.bytes + file.len <= body + len);
    FUZZ_CHECK(file_name_is_valid(file.name));
    FUZZ_CHECK(strpbrk(file.content_type, "\r\n \";") == NULL);
    free(file.name);
    return 0;
}
