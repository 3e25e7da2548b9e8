/* SPDX-License-Identifier: MIT */
/*
 * Covers the forms of base URLs that users write.
 */
#include <errno.h>
#include <string.h>

#include "support/test.h"

#include "api/base_url.h"
#include "base/cleanup.h"

static const struct {
    const char *url;
    bool allow_http;
    int rc;
    const char *base;
} cases[] = {
    {"https://mail.example", false, 0, "https://mail.example"},
    {"https://mail.example/", false, 0, "https://mail.example"},
    {"https://mail.example/api/v1", false, 0, "https://mail.example"},
    {"https://mail.example/api/v1/", false, 0, "https://mail.example"},
    {"https://mail.example//api/v1//", false, 0, "https://mail.example"},
    {"https://mail.example/api/v1/api/v1", false, 0, "https://mail.example"},
    {"https://mail.example/team/api/v1", false, 0, "https://mail.example/team"},
    {"https://mail.example/Team/", false, 0, "https://mail.example/Team"},
    {"https://mail.example/a/../%41%zz", false, 0, "https://mail.example/a/../%41%zz"},
    {"https://mail.example/xapi/v1", false, 0, "https://mail.example/xapi/v1"},
    {"HTTPS://Mail.Example:443/", false, 0, "https://mail.example"},
    {"https://mail.example:8443", false, 0, "https://mail.example:8443"},
    {"https://mail.example:", false, 0, "https://mail.example"},
    {"http://localhost:8080/", false, 0, "http://localhost:8080"},
    {"http://127.0.0.1:80", false, 0, "http://127.0.0.1"},
    {"http://127.9.9.9", false, 0, "http://127.9.9.9"},
    {"http://[::1]:8080", false, 0, "http://[::1]:8080"},
    {"https://[2001:DB8::1]/", false, 0, "https://[2001:db8::1]"},
    {"http://mail.example", false, -EACCES, NULL},
    {"http://mail.example", true, 0, "http://mail.example"},
    {"http://localhost.evil.example", false, -EACCES, NULL},
    {"http://127.0.0.1.evil.example", false, -EACCES, NULL},
    {"http://[::2]", false, -EACCES, NULL},
    {"ftp://mail.example", false, -EINVAL, NULL},
    {"mail.example", false, -EINVAL, NULL},
    {"file:///etc/passwd", false, -EINVAL, NULL},
    {"", false, -EINVAL, NULL},
    {"https://", false, -EINVAL, NULL},
    {"https:///api/v1", false, -EINVAL, NULL},
    {"https://:443", false, -EINVAL, NULL},
    {"https://user:secret@mail.example", false, -EINVAL, NULL},
    {"https://mail.example;", false, -EINVAL, NULL},
    {"http://127.0.0.1@evil.example", false, -EINVAL, NULL},
    {"https://mail.example?key=1", false, -EINVAL, NULL},
    {"https://mail.example/#x", false, -EINVAL, NULL},
    {"https://mail.example:0", false, -EINVAL, NULL},
    {"https://mail.example:65536", false, -EINVAL, NULL},
    {"https://mail.example:4x", false, -EINVAL, NULL},
    {"https://[::1", false, -EINVAL, NULL},
    {"https://[::1]x", false, -EINVAL, NULL},
    {"https://[::1.2]", false, -EINVAL, NULL},
    {"https://mail.%65xample", false, -EINVAL, NULL},
    {"https://mail example", false, -EINVAL, NULL},
    {"https://mail.example/\r\nHost: x", false, -EINVAL, NULL},
    {"https://mail.example\\@evil.example", false, -EINVAL, NULL},
};

TEST(urls_are_normalised_or_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *base = NULL;
        _cleanup_free_ char *reason = NULL;
        int rc = base_url_check(cases[i].url, cases[i].allow_http, &base, &reason);
        if (rc != cases[i].rc)
            fail_msg("%s: %d (%s)", cases[i].url, rc, reason != NULL ? reason : base);
        if (rc == 0) {
            assert_string_equal(base, cases[i].base);
            continue;
        }
        assert_null(base);
        assert_non_null(reason);
        assert_null(strstr(reason, "secret"));
    }
}
