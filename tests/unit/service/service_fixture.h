/* SPDX-License-Identifier: MIT */
/*
 * A running service in a temporary directory, and functions that send requests to it.
 */
#ifndef INBOXFS_TESTS_UNIT_SERVICE_FIXTURE_H
#define INBOXFS_TESTS_UNIT_SERVICE_FIXTURE_H

#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "service/service.h"
#include "support/http_client.h"
#include "support/temp_dir.h"

struct fixture {
    struct temp_dir dir;
    char data_dir[300];
    struct service *service;
    char *key;
    struct http_client client;
};

/* Returns a configuration with one server for HTTP. */
static inline struct service_config fixture_config(const struct fixture *fixture)
{
    static const struct service_door doors[] = {{SERVICE_HTTP, "127.0.0.1:0"}, {0}};
    return (struct service_config){
        .doors = doors, .data_dir = fixture->data_dir, .domain = "inbox.localhost"};
}

static inline void fixture_start_with(struct fixture *fixture, const struct service_config *config)
{
    char *reason = NULL;
    int error = service_start(config, &fixture->service, &reason);
    if (error != 0)
        fail_msg("the service does not start: %s", reason);
    free(fixture->key);
    assert_int_equal(0, service_read_api_key(fixture->data_dir, &fixture->key));
    fixture->client = (struct http_client){service_address(fixture->service, 0), fixture->key};
}

static inline void fixture_start(struct fixture *fixture)
{
    const struct service_config config = fixture_config(fixture);
    fixture_start_with(fixture, &config);
}

static inline void fixture_stop(struct fixture *fixture)
{
    service_stop(fixture->service);
    fixture->service = NULL;
}

static inline void fixture_make_dir(struct fixture *fixture)
{
    signal(SIGPIPE, SIG_IGN);
    *fixture = (struct fixture){0};
    temp_dir_init(&fixture->dir);
    snprintf(fixture->data_dir, sizeof(fixture->data_dir), "%s/data", fixture->dir.path);
}

static inline void fixture_remove(struct fixture *fixture)
{
    fixture_stop(fixture);
    free(fixture->key);
    temp_dir_release(&fixture->dir);
}

/* `daily_limit`: see struct service_config. */
static inline int fixture_set_up_limited(void **state, int64_t daily_limit)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    fixture_make_dir(fixture);
    struct service_config config = fixture_config(fixture);
    config.daily_limit = daily_limit;
    fixture_start_with(fixture, &config);
    *state = fixture;
    return 0;
}

static inline int fixture_set_up(void **state)
{
    return fixture_set_up_limited(state, 0);
}

static inline int fixture_tear_down(void **state)
{
    fixture_remove(*state);
    free(*state);
    return 0;
}

/* Opens the service's database, which may be in use. The caller closes the connection. */
static inline sqlite3 *open_database(const struct fixture *fixture)
{
    char path[400];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s/inbox.sqlite3", fixture->data_dir);
    assert_int_equal(SQLITE_OK, sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL));
    sqlite3_busy_timeout(db, 20000);
    return db;
}

/* Runs statements on the service's database. */
static inline void run_sql(const struct fixture *fixture, const char *statements)
{
    sqlite3 *db = open_database(fixture);
    char *words = NULL;
    if (sqlite3_exec(db, statements, NULL, NULL, &words) != SQLITE_OK)
        fail_msg("%s", words);
    sqlite3_close(db);
}

/* Asserts the answer's status. Returns its JSON, which the caller owns, or NULL if the body is not JSON. */
static inline json_t *call(const struct fixture *fixture, const char *method, const char *target,
                           json_t *request, int status)
{
    struct http_answer answer;
    char *text = request != NULL ? json_dumps(request, 0) : NULL;
    http_client_request(&fixture->client, method, target,
                        text != NULL ? "Content-Type: application/json\r\n" : "", text,
                        text != NULL ? strlen(text) : 0, &answer);
    if (answer.status != status)
        fail_msg("%s %s: %d instead of %d: %s", method, target, answer.status, status, answer.body);
    json_t *value = json_loads(answer.body, 0, NULL);
    http_answer_release(&answer);
    free(text);
    json_decref(request);
    return value;
}

static inline json_t *get(const struct fixture *fixture, const char *target)
{
    json_t *value = call(fixture, "GET", target, NULL, 200);
    assert_non_null(value);
    return value;
}

static inline const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "(none)";
}

/* Returns a copy of the text of a member. Consumes the object. */
static inline char *take_text(json_t *object, const char *name)
{
    char *text = strdup(text_of(object, name));
    json_decref(object);
    return text;
}

/* Adds `settings` (consumed, may be NULL) to the request. Returns the inbox's id; the caller frees it. */
static inline char *create_inbox(const struct fixture *fixture, const char *address, json_t *settings)
{
    json_t *request = json_pack("{s:n, s:s, s:s}", "id", "name", "Name", "email_address", address);
    if (settings != NULL)
        json_object_update(request, settings);
    json_decref(settings);
    return take_text(call(fixture, "POST", "/api/v1/inbox/upsert", request, 200), "id");
}

static inline json_t *message_to(const char *from, const char *to, const char *subject)
{
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:n}]}", "from_address", from, "subject", subject,
                     "plain_text", "The text.", "to_addresses", "address", to, "name");
}

/* Returns the sent email's id; the caller frees it. */
static inline char *send_message(const struct fixture *fixture, json_t *request)
{
    return take_text(call(fixture, "POST", "/api/v1/email/send", request, 200), "id");
}

/* Returns the record of an inbox's newest email, or NULL if it has none. */
static inline json_t *newest_email(const struct fixture *fixture, const char *inbox_id, const char *query)
{
    char target[512];
    snprintf(target, sizeof(target), "/api/v1/email?limit=1&inbox_ids=%s%s", inbox_id, query);
    json_t *list = get(fixture, target);
    json_t *record = json_incref(json_array_get(list, 0));
    json_decref(list);
    return record;
}

static inline size_t count_of(const struct fixture *fixture, const char *target)
{
    json_t *list = get(fixture, target);
    size_t count = json_array_size(list);
    json_decref(list);
    return count;
}

/* Asserts that the object has exactly these members; `names` are separated by spaces. */
static inline void assert_members(const json_t *object, const char *names)
{
    char rest[512];
    snprintf(rest, sizeof(rest), "%s", names);
    size_t count = 0;
    for (char *save = NULL, *name = strtok_r(rest, " ", &save); name != NULL;
         name = strtok_r(NULL, " ", &save), count++) {
        if (json_object_get(object, name) == NULL)
            fail_msg("%s is missing", name);
    }
    assert_int_equal(count, json_object_size(object));
}

/* Uploads a file. Returns its id; the caller frees it. */
static inline char *upload(const struct fixture *fixture, const char *name, const char *type,
                           const void *bytes, size_t len, int status)
{
    char *form = malloc(len + 1024);
    int head = sprintf(form,
                       "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%s\"\r\n"
                       "Content-Type: %s\r\n\r\n",
                       name, type);
    memcpy(form + head, bytes, len);
    int tail = sprintf(form + head + len, "\r\n--XX--\r\n");
    struct http_answer answer;
    http_client_request(&fixture->client, "POST", "/api/v1/email/add-attachment-to-pool",
                        "Content-Type: multipart/form-data; boundary=XX\r\n", form,
                        (size_t)head + len + (size_t)tail, &answer);
    free(form);
    assert_int_equal(status, answer.status);
    char *id = take_text(json_loads(answer.body, 0, NULL), "id");
    http_answer_release(&answer);
    return id;
}

#endif
