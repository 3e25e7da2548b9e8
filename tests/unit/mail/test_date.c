/* SPDX-License-Identifier: MIT */
/*
 * Dates are read in the forms that services and mail programs write, and refused in all others.
 */
#include "mail/date.h"
#include "mail/header_date.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

TEST(iso_8601_is_read)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01", 0},
        {"2026-11-20T10:14:36Z", INT64_C(1795169676000)},
        {"2026-11-20T10:14:36", INT64_C(1795169676000)},
        {"2026-11-20 10:14:36", INT64_C(1795169676000)},
        {"2026-11-20t10:14:36z", INT64_C(1795169676000)},
        {"2026-11-20t10:14z", INT64_C(1795169640000)},
        {"2026-11-20T10:14Z", INT64_C(1795169640000)},
        {"2026-11-20T12:14+02:00", INT64_C(1795169640000)},
        {"2026-11-20T10:14", INT64_C(1795169640000)},
        {"2026-11-20T10:14:36+00:00", INT64_C(1795169676000)},
        {"2026-11-20T12:14:36+02:00", INT64_C(1795169676000)},
        {"2026-11-20T12:14:36+0200", INT64_C(1795169676000)},
        {"2026-11-20T12:14:36+02", INT64_C(1795169676000)},
        {"2026-11-20T04:44:36-05:30", INT64_C(1795169676000)},
        {"2026-11-20T10:14:36.1Z", INT64_C(1795169676100)},
        {"2026-11-20T10:14:36.123456Z", INT64_C(1795169676123)},
        {"2026-11-20T10:14:36,123Z", INT64_C(1795169676123)},
        {"2026-11-20T10:14:36.999999999999Z", INT64_C(1795169676999)},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000)},
        {"2000-02-29", INT64_C(951782400000)},
        {"1969-12-31T23:59:59.999Z", -1},
        {"0001-01-01", INT64_C(-62135596800000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = 42;
        if (date_parse(cases[i].text, &ms) != 0 || ms != cases[i].ms)
            fail_msg("%s: %lld", cases[i].text, (long long)ms);
    }
}

TEST(text_that_is_not_a_date_is_refused)
{
    static const char *const cases[] = {
        "",
        "now",
        "2026",
        "2026-11",
        "2026-1-2",
        "26-11-20",
        "2026-13-01",
        "2026-00-01",
        "2026-02-29",
        "1900-02-29",
        "2026-11-31",
        "2026-11-00",
        "2026-11-20T",
        "2026-11-20T10",
        "2026-11-20T24:00:00Z",
        "2026-11-20T10:60:00Z",
        "2026-11-20T10:14.5Z",
        "2026-11-20T10:14:36.Z",
        "2026-11-20T10:14:36Zulu",
        "2026-11-20T10:14:36+02:60",
        "2026-11-20T10:14:36+",
        "2026-11-20T10:14:36+2:0",
        "2026-11-20T10:14:36 ",
        " 2026-11-20",
        "+026-11-20",
        "2026-11-20X10:14:36Z",
        "Fri, 20 Nov 2026 10:14:36 +0000",
        "1795169676",
        "2026-11-20T10:14:36Z\n",
        "2026\r11\r20T10:14:36Z",
        "2026-11-20\02410:14:36Z",
        "2026-11-20T10\03214\03236Z",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = 42;
        if (date_parse(cases[i], &ms) != -EBADMSG || ms != 42)
            fail_msg("accepted: %s", cases[i]);
    }
}

/* Each case means 2026-11-20T10:14:36Z. */
TEST(date_headers_of_mail_programs_are_read)
{
    static const char *const cases[] = {
        /* RFC 5322 with its obsolete forms */
        "Fri, 20 Nov 2026 11:14:36 +0100",
        " Fri, 20 Nov\r\n 2026 11:14:36 +0100\r\n",
        "20 Nov 26 11:14:36 +0100",
        "Fri, 20  Nov  2026  11 : 14 : 36  +0100  (CET (b) \\) c)",
        "Fri, 20 Nov 2026 05:14:36 EST",
        "Fri, 20 Nov 2026 10:14:36 UT",
        "Fri, 20 Nov 2026 10:14:36",
        /* offsets */
        "Fri, 20 Nov 2026 11:14:36 +01:00",
        "Fri, 20 Nov 2026 11:14:36 +01",
        "Fri, 20 Nov 2026 11:14:36 +1",
        "Fri, 20 Nov 2026 11:14:36 +100",
        "Fri, 20 Nov 2026 11:14:36+0100",
        "Fri, 20 Nov 2026 04:44:36 -05:30",
        "Fri, 20 Nov 2026 11:14:36 GMT+0100",
        "Fri, 20 Nov 2026 11:14:36 GMT +0100",
        "Fri, 20 Nov 2026 11:14:36 GMT+01:00",
        "Fri, 20 Nov 2026 11:14:36 UTC+1",
        "Fri, 20 Nov 2026 08:14:36 UTC-2",
        "Fri, 20 Nov 2026 10:14:36 UTC",
        /* ISO 8601 */
        "2026-11-20T11:14:36+01:00",
        "2026-11-20T10:14:36Z",
        "2026-11-20 11:14:36 +01:00",
        "2026-11-20 10:14:36",
        /* forms of other libraries */
        "Fri Nov 20 10:14:36 2026",
        "Fri Nov 20 11:14:36 +0100 2026",
        "Fri Nov 20 2026 11:14:36 GMT+0100 (Central European Standard Time)",
        "Friday, 20-Nov-26 10:14:36 GMT",
        "11/20/2026 10:14:36 AM",
        "20 Nov 2026 11:14:36 PM +1300",
        "=?utf-8?Q?Fri,_20_Nov_2026_11:14:36_+0100?=",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = 42;
        if (header_date_parse(cases[i], strlen(cases[i]), &ms) != 0 || ms != INT64_C(1795169676000))
            fail_msg("%s: %lld", cases[i], (long long)ms);
    }
}

static void assert_header(const char *text, int64_t expected_ms)
{
    int64_t ms = 42;
    assert_int_equal(header_date_parse(text, strlen(text), &ms), 0);
    assert_int_equal(ms, expected_ms);
}

TEST(unusual_times_in_headers_are_read)
{
    assert_header("Sat, 31 Dec 2016 23:59:60 +0000", INT64_C(1483228800000));
    assert_header("2016-12-31T23:59:60Z", INT64_C(1483228800000));
    assert_header("Fri, 20 Nov 2026 9:04:06 +0000", INT64_C(1795165446000));
    assert_header("Fri, 20 Nov 2026 10:14 +0000", INT64_C(1795169640000));
    assert_header("Fri, 20 Nov 2026 10:14:36.123 +0000", INT64_C(1795169676000));
    assert_header("Fri, 20 Nov 2026 12:00:00 AM +0000", INT64_C(1795132800000));
    assert_header("Fri, 20 Nov 2026 12:00:00 PM +0000", INT64_C(1795176000000));
    assert_header("Fri, 20 Nov 2026", INT64_C(1795132800000));
}

TEST(headers_without_a_date_are_refused)
{
    static const char *const cases[] = {
        "",
        "never",
        "10:14:36",
        ":",
        "(Fri, 20 Nov 2026 10:14:36 +0000",
        "Fri, 31 Nov 2026 10:14:36 +0000",
        "Fri, 20 Nov 2026 25:00:00 +0000",
        "Fri, 20 Nov 2026 10:60:00 +0000",
        "1795169676",
        "=?utf-8?Q?never?=",
    };
    int64_t ms = 42;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (header_date_parse(cases[i], strlen(cases[i]), &ms) != -EBADMSG || ms != 42)
            fail_msg("accepted: %s", cases[i]);

    char longest[2000];
    memset(longest, ' ', sizeof(longest));
    memcpy(longest, "Fri, 20 Nov 2026 10:14:36 +0000", 31);
    assert_int_equal(header_date_parse(longest, 999, &ms), -EBADMSG);
    assert_int_equal(header_date_parse(longest, 998, &ms), 0);
}

TEST(a_written_date_is_read_again)
{
    for (int64_t ms = INT64_C(-62135596800000); ms < INT64_C(253402300799999); ms += INT64_C(86399999) * 13) {
        char text[32];
        int64_t again = 0;
        date_format(ms, text);
        assert_int_equal(strlen(text), 24);
        assert_int_equal(date_parse(text, &again), 0);
        assert_true(again == ms);
    }
}

TEST(years_outside_0001_to_9999_are_clamped)
{
    char text[32];
    date_format(INT64_MIN, text);
    assert_string_equal(text, "0001-01-01T00:00:00.000Z");
    date_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
}
