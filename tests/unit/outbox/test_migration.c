/* SPDX-License-Identifier: MIT */
/*
 * A spool of version 0.2 is converted once, also after a crash at each crash point: each of its messages
 * keeps its folder and its key, and is sent once or not at all.
 */
#include "crash_fixture.h"

#include "base/hash.h"
#include "support/test.h"

#define KEY(digit) "0000000" #digit "-0000-4000-8000-000000000000"
#define WITH_A "To: bob@x.example\nSubject: s\nAttach: a.txt\n\nb\n"

static void put_file(struct fixture *fixture, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "spool/%s", name);
    assert_int_equal(file_replace_at(fixture->dir.fd, path, text, strlen(text), 0600), 0);
}

/* Writes an item as version 0.2 did. `members` follow the members that each item has. */
static void put_item(struct fixture *fixture, unsigned int number, const char *state, const char *name,
                     const char *content, const char *members)
{
    char file[32];
    char digest[65];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64 * 1024);
    hash_sha256(content == NULL ? "" : content, content == NULL ? 0 : strlen(content), digest);
    strbuf_appendf(
        &text,
        "{\"version\":1,\"number\":%u,\"order\":%u,\"state\":\"%s\",\"name\":\"%s\",\"digest\":\"%s\","
        "\"from\":\"" ME "\",\"lane\":\"lane%u\",\"content\":%u,\"accepted_ms\":1795176000000%s}   \n",
        number, number, state, name, digest, number, number, members);
    snprintf(file, sizeof(file), "%u.json", number);
    put_file(fixture, file, strbuf_str(&text));
    snprintf(file, sizeof(file), "%u.data", number);
    if (content != NULL)
        put_file(fixture, file, content);
}

#define MESSAGE_KIND ",\"kind\":\"message\""
#define FILE_KIND ",\"kind\":\"attachment\""

static void put_spool(struct fixture *fixture)
{
    assert_int_equal(mkdirat(fixture->dir.fd, "spool", 0700), 0);
    put_file(fixture, "version", "2\n");
    put_file(fixture, "numbers", "1025\n");
    put_file(fixture, "sent-today", "20777                3                         \n");
    put_file(fixture, "spare-0.new", "{}");
    put_item(fixture, 1, "queued", "queued", MESSAGE, MESSAGE_KIND ",\"idempotency_key\":\"" KEY(1) "\"");
    put_item(fixture, 2, "unknown outcome", "unknown", MESSAGE "2\n",
             MESSAGE_KIND
             ",\"idempotency_key\":\"" KEY(2) "\",\"attempts\":1,\"error\":\"perhaps\","
                                              "\"request\":\"{\\\"subject\\\":\\\"as sent\\\"}\"");
    put_item(fixture, 3, "failed", "failed", "bad", MESSAGE_KIND ",\"error\":\"not a message\"");
    put_item(fixture, 4, "sent", "sent", MESSAGE "4\n",
             MESSAGE_KIND
             ",\"idempotency_key\":\"" KEY(4) "\",\"attempts\":1,\"id\":\"id-4\",\"quota_day\":20777");
    put_item(fixture, 5, "drafted", "draft", NULL, MESSAGE_KIND ",\"idempotency_key\":\"" KEY(5) "\"");
    put_item(fixture, 6, "held", ".held", MESSAGE "6\n", MESSAGE_KIND);
    put_item(fixture, 7, "held", "late", MESSAGE "7\n", MESSAGE_KIND);
    put_item(fixture, 8, "writing", "half", "To: b", MESSAGE_KIND);
    put_item(fixture, 9, "sending", "sending", MESSAGE "9\n",
             MESSAGE_KIND ",\"idempotency_key\":\"" KEY(9) "\",\"attempts\":1");
    /* Older versions did not record the size. */
    put_item(fixture, 10, "uploaded", "a.txt", "old", FILE_KIND ",\"id\":\"pool-old\",\"is_hidden\":true");
    put_item(fixture, 11, "uploaded", "a.txt", "new", FILE_KIND ",\"size\":3,\"id\":\"pool-new\"");
    put_item(fixture, 12, "queued", "bound", WITH_A,
             MESSAGE_KIND
             ",\"idempotency_key\":\"" KEY(6) "\",\"attachments\":[{\"content\":10,\"name\":\"a.txt\"}]");
    put_item(fixture, 13, "queued", "superseded", MESSAGE "13\n", MESSAGE_KIND ",\"is_hidden\":true");
    put_item(fixture, 14, "queued", "edited", MESSAGE "14\n",
             MESSAGE_KIND ",\"idempotency_key\":\"" KEY(7) "\",\"supersedes\":13");
    put_file(fixture, "15.json", "{\"version\": 1, torn");
    put_file(fixture, "15.data", "of a torn envelope");
}

static void expect_all(struct fixture *fixture)
{
    static const char *const sent[] = {"queued", "bound", "edited", "sent"};
    for (size_t i = 0; i < ARRAY_LEN(sent); i++)
        assert_true(is_listed(fixture, SENT, sent[i]));
    assert_true(shown_contains(fixture, SENT, "bound.receipt.json", "pool-old"));
    assert_true(shown_contains(fixture, SENT, "sent.receipt.json", "\"id\": \"id-4\""));
    assert_true(shown_contains(fixture, FAILED, "unknown.receipt.json", "as sent"));
    assert_true(shown_contains(fixture, FAILED, "failed.receipt.json", "not a message"));
    assert_true(shown_contains(fixture, FAILED, "half.receipt.json", "\"interrupted\""));
    assert_true(shown_contains(fixture, FAILED, "late.receipt.json", "\"interrupted\""));
    assert_true(shown_contains(fixture, FAILED, "sending.receipt.json", "\"unknown outcome\""));
    assert_true(shown_contains(fixture, OUT, ".held", "How are you?"));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "new"));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt.receipt.json", "pool-new"));
    struct outbox_status status;
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent, 4);
    assert_int_equal(status.failed, 5);
    assert_int_equal(status.queued + status.uploading, 0);
    assert_int_equal(count_calls(fixture, "send "), 3);
    assert_int_equal(count_calls(fixture, "send " KEY(1)), 1);
    assert_int_equal(count_calls(fixture, "send " KEY(6)), 1);
    assert_int_equal(count_calls(fixture, "send " KEY(7)), 1);
    assert_int_equal(count_calls(fixture, "upload "), 0);
}

static void expect_nothing_old(struct fixture *fixture)
{
    char command[300];
    snprintf(command, sizeof(command),
             "cd %s/spool && ! ls | grep -vxE '[0-9]+\\.data|outbox\\.sqlite3.*|version|quarantine' && "
             "grep -qx 3 version && test -f quarantine/15.data",
             fixture->dir.path);
    assert_int_equal(system(command), 0);
}

/* Runs in a child process that has passed no crash point yet. */
static void take_over(const char *point)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    void *state = fixture;
    struct logging_service logging;
    fixture_prepare(fixture);
    put_spool(fixture);
    pid_t child = point == NULL ? 0 : fork();
    if (point != NULL && child == 0) {
        start_before_crash(fixture, &logging, point);
        exit_without_crash(fixture);
    }
    if (point != NULL)
        expect_killed(child);
    note_calls(&logging, fixture);
    for (int i = 0; i < 2; i++) {
        fixture_open(fixture);
        assert_int_equal(settle(fixture), 0);
        expect_all(fixture);
        expect_nothing_old(fixture);
        if (i == 0)
            fixture_close(fixture);
    }
    /* A message that its user sends again keeps its key. */
    assert_int_equal(move(fixture, FAILED, "unknown", OUT, "unknown"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(count_calls(fixture, "send " KEY(2)), 1);
    fixture_teardown(&state);
    close(logging.log);
}

TEST(a_migration_keeps_folders_and_sends_each_message_once)
{
    static const char *const points[] = {NULL, "migrating", "migrated"};
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        pid_t child = fork();
        if (child == 0) {
            take_over(points[i]);
            _exit(0);
        }
        expect_success(child, points[i] == NULL ? "no crash" : points[i]);
    }
}

TEST(a_migration_keeps_the_count_of_the_day)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    struct outbox_status status;
    fixture_prepare(fixture);
    assert_int_equal(mkdirat(fixture->dir.fd, "spool", 0700), 0);
    char line[64];
    snprintf(line, sizeof(line), "%d 3\n", (int)(NOON / (24 * HOUR_MS)));
    put_file(fixture, "version", "2\n");
    put_file(fixture, "sent-today", line);
    fixture_open(fixture);
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent_today, 3);
    void *teardown = fixture;
    fixture_teardown(&teardown);
}
