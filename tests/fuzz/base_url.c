/* SPDX-License-Identifier: MIT */
/*
 * Base URLs. The normal form of an accepted URL is accepted, and is its own normal form.
 */
#include "api/base_url.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    _cleanup_free_ char *url = fuzz_string(bytes, len);
    _cleanup_free_ char *base = NULL;
    _cleanup_free_ char *again = NULL;
    _cleanup_free_ char *reason = NULL;
    if (base_url_check(url, len % 2 == 0, &base, &reason) != 0) {
        FUZZ_CHECK(reason != NULL);
        return 0;
    }
    FUZZ_CHECK(strpbrk(base, " \r\n\t?#") == NULL);
    const char *host = strstr(base, "://") + strlen("://");
    FUZZ_CHECK(host[0] != '\0' && memchr(host, '@', strcspn(host, "/")) == NULL);
    FUZZ_CHECK(base_url_check(base, len % 2 == 0, &again, &reason) == 0 && strcmp(base, again) == 0);
    return 0;
}
