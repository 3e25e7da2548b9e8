/* SPDX-License-Identifier: MIT */
/*
 * Allow and block rules, Cc and Bcc.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "service/inbox.h"

#define NO_ENTRIES "{\"addresses\":[],\"domains\":[]}"

static const struct {
    const char *allowed;
    const char *blocked;
    const char *allow_cc, *allow_bcc;
    enum recipient_header header;
    const char *status;
} cases[] = {
    {"null", "null", "true", "true", DELIVERY_TO, "valid"},
    {NO_ENTRIES, NO_ENTRIES, "true", "true", DELIVERY_TO, "valid"},
    {"{\"addresses\":[\"ANN@x.example\"],\"domains\":[]}", "null", "true", "true", DELIVERY_TO, "valid"},
    {"{\"addresses\":[],\"domains\":[\"X.Example\"]}", "null", "true", "true", DELIVERY_TO, "valid"},
    {"{\"addresses\":[],\"domains\":[\"example\"]}", "null", "true", "true", DELIVERY_TO,
     "not_allowed_from_address"},
    {"{\"addresses\":[\"bob@x.example\"],\"domains\":[]}", "null", "true", "true", DELIVERY_TO,
     "not_allowed_from_address"},
    {"null", "{\"addresses\":[\"ann@X.example\"],\"domains\":[]}", "true", "true", DELIVERY_TO,
     "blocked_from_address"},
    {"null", "{\"addresses\":[],\"domains\":[\"x.example\"]}", "true", "true", DELIVERY_TO,
     "blocked_from_address"},
    {"{\"addresses\":[\"ann@x.example\"],\"domains\":[]}", "{\"addresses\":[],\"domains\":[\"x.example\"]}",
     "true", "true", DELIVERY_TO, "blocked_from_address"},
    {"null", "null", "false", "true", DELIVERY_CC, "not_allowed_cc_address"},
    {"null", "null", "true", "false", DELIVERY_BCC, "not_allowed_bcc_address"},
    {"null", "null", "false", "false", DELIVERY_TO, "valid"},
    {"null", "null", "true", "false", DELIVERY_CC, "valid"},
    {"null", "{\"addresses\":[],\"domains\":[\"x.example\"]}", "false", "true", DELIVERY_CC,
     "blocked_from_address"},
};

TEST(the_first_broken_rule_sets_the_status)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *text = NULL;
        assert_true(asprintf(&text,
                             "{\"allowed_from_addresses\":%s,\"blocked_from_addresses\":%s,"
                             "\"allow_cc\":%s,\"allow_bcc\":%s}",
                             cases[i].allowed, cases[i].blocked, cases[i].allow_cc, cases[i].allow_bcc) > 0);
        json_t *record = json_loads(text, 0, NULL);
        struct verdict verdict = inbox_judge(record, "Ann@x.example", NULL, cases[i].header);
        assert_string_equal(cases[i].status, verdict.status);
        assert_int_equal(strcmp(verdict.status, "valid") == 0, verdict.message == NULL);
        json_decref(record);
        free(text);
    }
}
