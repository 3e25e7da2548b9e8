/* SPDX-License-Identifier: MIT */
/*
 * A new mail_service of the api layer for each test, and a scripted server for it.
 */
#ifndef INBOXFS_TESTS_UNIT_API_API_FIXTURE_H
#define INBOXFS_TESTS_UNIT_API_API_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "api/api_service.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "support/scripted_server.h"

#define API_KEY "secret-key-0123456789"

struct api_fixture {
    struct scripted_server *server;
    struct mail_service *service;
    struct strbuf body; /* body of a step of the server; must outlive the server */
};

static inline int api_set_up(void **state)
{
    struct api_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->body = STRBUF_INIT(32 << 20);
    fixture->server = scripted_server_start();
    struct http_config config = {.base_url = scripted_server_url(fixture->server), .api_key = API_KEY};
    assert_int_equal(api_service_new(&config, &fixture->service), 0);
    *state = fixture;
    return 0;
}

static inline int api_tear_down(void **state)
{
    struct api_fixture *fixture = *state;
    api_service_free(fixture->service);
    scripted_server_stop(fixture->server);
    strbuf_release(&fixture->body);
    free(fixture);
    return 0;
}

/* Checks the rules that every result follows. */
static inline void check_result(const struct service_result *result)
{
    assert_true(result->outcome == SERVICE_OK || result->error != 0);
    assert_int_equal(result->error == 0, result->detail == NULL);
    if (result->detail == NULL)
        return;
    assert_null(strstr(result->detail, API_KEY));
    assert_true(strlen(result->detail) > 0 && strlen(result->detail) <= 1024);
    for (const char *c = result->detail; *c != '\0'; c++)
        assert_true((unsigned char)*c >= ' ' && *c != 0x7f);
}

#define API_TEST(name) TEST_WITH(name, api_set_up, api_tear_down)

#endif
