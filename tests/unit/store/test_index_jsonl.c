/* SPDX-License-Identifier: MIT */
/*
 * index.jsonl has a line for each record, in order of date, and the size that inbox_view gives.
 */
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "support/test.h"

#include "mail/json_writer.h"
#include "unit/store/store_fixture.h"

static struct store_jsonl *open_index(struct store_fixture *fixture, const char *inbox)
{
    struct store_jsonl *index = NULL;
    assert_int_equal(store_jsonl_new(fixture->store, fixture_inbox(fixture, inbox), &index), 0);
    return index;
}

/* Reads the whole file, `at_once` bytes at a time. The caller frees it. */
static char *read_index(struct store_jsonl *index, size_t at_once)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 24);
    char *piece = malloc(at_once);
    size_t len = at_once;
    while (len > 0) {
        assert_int_equal(store_jsonl_read(index, text.len, piece, at_once, &len), 0);
        strbuf_append(&text, piece, len);
    }
    free(piece);
    strbuf_append_char(&text, '\0');
    return strbuf_take(&text, NULL);
}

static char *read_now_by(struct store_fixture *fixture, const char *inbox, size_t at_once)
{
    struct inbox_view view;
    struct store_jsonl *index = open_index(fixture, inbox);
    char *text = read_index(index, at_once);
    store_jsonl_free(index);
    assert_true(store_find_inbox(fixture->store, inbox, &view));
    assert_int_equal(strlen(text), view.jsonl_bytes);
    return text;
}

static char *read_now(struct store_fixture *fixture, const char *inbox)
{
    return read_now_by(fixture, inbox, 4096);
}

static void add(struct store_fixture *fixture, const char *id, const char *date, const char *rest)
{
    char record[512];
    snprintf(record, sizeof(record), "{\"id\":\"%s\",\"inbox_id\":\"in-1\",\"date\":\"%s\"%s}", id, date,
             rest);
    fake_service_add_email(fixture->fake, "in-1", record);
}

TEST(records_are_lines_in_order_of_date)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    add(&fixture, "00000002", "2026-11-20T10:00:02Z",
        ",\"subject\":\"two: \\\"x\\\": {\",\"n\":[1,{\"a\": null}]");
    add(&fixture, "00000003", "2026-11-20T10:00:03Z", "");
    add(&fixture, "00000001", "2026-11-20T10:00:01Z", ",\"to_addresses\":[],\"more\":{}");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *text = read_now(&fixture, "alice@inbox.example");
    assert_string_equal(
        text,
        "{\"id\":\"00000001\",\"date\":\"2026-11-20T10:00:01Z\",\"to_addresses\":[],\"inbox_id\":\"in-1\","
        "\"more\":{},\"file\":\"20261120T100001Z_no-subject_00000001.json\"}\n"
        "{\"id\":\"00000002\",\"date\":\"2026-11-20T10:00:02Z\",\"subject\":\"two: \\\"x\\\": "
        "{\",\"inbox_id\":"
        "\"in-1\",\"n\":[1,{\"a\":null}],\"file\":\"20261120T100002Z_two-x_00000002.json\"}\n"
        "{\"id\":\"00000003\",\"date\":\"2026-11-20T10:00:03Z\",\"inbox_id\":\"in-1\",\"file\":"
        "\"20261120T100003Z_no-subject_00000003.json\"}\n");
    fixture_release(&fixture);
}

TEST(any_piece_of_index_jsonl_can_be_read)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 300);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    struct store_jsonl *index = open_index(&fixture, "alice@inbox.example");
    _cleanup_free_ char *whole = read_index(index, 1 << 20);
    static const size_t sizes[] = {1, 7, 64, 4096, 65536};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        _cleanup_free_ char *text = read_index(index, sizes[i]);
        assert_string_equal(text, whole);
    }
    char byte;
    size_t len = 1;
    assert_int_equal(store_jsonl_read(index, UINT64_MAX, &byte, 1, &len), 0);
    assert_int_equal(len, 0);
    store_jsonl_free(index);
    fixture_release(&fixture);
}

/* Lines that were read never move, even if an older email arrives late. */
TEST(new_mail_is_added_to_an_open_index_jsonl)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    add(&fixture, "00000002", "2026-11-20T10:00:02Z", "");
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    struct store_jsonl *index = open_index(&fixture, "alice@inbox.example");
    _cleanup_free_ char *before = read_index(index, 4096);
    add(&fixture, "00000001", "2026-11-20T10:00:01Z", "");
    add(&fixture, "00000003", "2026-11-20T10:00:03Z", "");
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *after = read_index(index, 4096);
    assert_memory_equal(after, before, strlen(before));
    const char *rest = after + strlen(before);
    assert_string_equal(rest, "{\"id\":\"00000001\",\"date\":\"2026-11-20T10:00:01Z\",\"inbox_id\":\"in-1\","
                              "\"file\":\"20261120T100001Z_no-subject_00000001.json\"}\n"
                              "{\"id\":\"00000003\",\"date\":\"2026-11-20T10:00:03Z\",\"inbox_id\":\"in-1\","
                              "\"file\":\"20261120T100003Z_no-subject_00000003.json\"}\n");
    /* A removed email keeps its line, and gets no second line when it returns. */
    fake_service_remove_email(fixture.fake, "00000002");
    assert_int_equal(fixture_sync(&fixture), 0);
    add(&fixture, "00000002", "2026-11-20T10:00:02Z", "");
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *again = read_index(index, 4096);
    assert_string_equal(again, after);
    store_jsonl_free(index);
    fixture_release(&fixture);
}

/* Checks that each line is the record of the file that it names. */
static void assert_lines_are_records(struct store_fixture *fixture, const char *text, size_t expected)
{
    uint32_t inbox = fixture_inbox(fixture, "alice@inbox.example");
    _cleanup_free_ char *before = strdup("");
    size_t lines = 0;
    for (; *text != '\0'; text = strchr(text, '\n') + 1, lines++) {
        struct email_view view;
        json_t *line = json_loadb(text, strcspn(text, "\n"), 0, NULL);
        const char *date = json_string_value(json_object_get(line, "date"));
        assert_true(store_find_email(fixture->store, inbox, false,
                                     json_string_value(json_object_get(line, "file")), &view));
        assert_true(strcmp(before, date) <= 0);
        free(before);
        before = strdup(date);
        _cleanup_free_ char *record = fixture_read(fixture, view.number);
        json_t *expected_line = json_loads(record, 0, NULL);
        json_object_del(line, "file");
        assert_true(json_equal(line, expected_line));
        json_decref(line);
        json_decref(expected_line);
    }
    assert_int_equal(lines, expected);
}

/* Neighbouring lines may have records that are far apart in the cache. */
TEST(mail_may_arrive_in_any_order_of_dates)
{
    enum {
        EMAILS = 60
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    for (int i = 0; i < 3 * EMAILS; i++) {
        /* Forwards, backwards, and in random order. */
        int minute = i < EMAILS ? i : i < 2 * EMAILS ? 2 * EMAILS - 1 - i : i * 37 % EMAILS;
        char id[16];
        char date[64];
        snprintf(id, sizeof(id), "%08d", i);
        snprintf(date, sizeof(date), "2026-11-%dT10:%02d:00Z", 10 + i / EMAILS, minute);
        add(&fixture, id, date, "");
        if (i % 20 == 19)
            assert_int_equal(fixture_sync(&fixture), 0);
    }
    fake_service_remove_email(fixture.fake, "00000100");
    add(&fixture, "00000100", "2026-11-11T10:30:00Z", ",\"subject\":\"changed\"");
    assert_int_equal(fixture_sync(&fixture), 0);
    static const size_t sizes[] = {100, 4096, 1 << 20};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        _cleanup_free_ char *text = read_now_by(&fixture, "alice@inbox.example", sizes[i]);
        assert_lines_are_records(&fixture, text, 3 * EMAILS);
        assert_non_null(strstr(text, "changed"));
    }
    fixture_release(&fixture);
}

static void cut_off(const struct store_fixture *fixture, const char *path)
{
    _cleanup_close_ int fd = openat(fixture->dir.fd, path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 16), 0);
}

/* Only a read of index.jsonl reveals the damage. The sync must then ask without an ETag, or the service would
 * answer "not modified". */
TEST(the_next_sync_restores_damaged_records)
{
    enum {
        FILLER_BYTES = 900 * 1000
    };
    struct store_fixture fixture;
    char byte;
    size_t len;
    /* A record larger than SQLite's cache in memory. */
    _cleanup_free_ char *filler = malloc(FILLER_BYTES + 1);
    memset(filler, 'x', FILLER_BYTES);
    filler[FILLER_BYTES] = '\0';
    fixture_init_with_alice(&fixture);
    fake_service_use_etags(fixture.fake);
    for (int i = 0; i < 3; i++) {
        _cleanup_free_ char *json = NULL;
        assert_true(asprintf(&json,
                             "{\"id\": \"0000000%d\", \"inbox_id\": \"in-1\", \"x\": \"%s\","
                             " \"date\": \"2026-11-20T10:00:00Z\"}",
                             i, filler) > 0);
        fake_service_add_email(fixture.fake, "in-1", json);
    }
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *before = read_now_by(&fixture, "alice@inbox.example", 4 << 20);
    cut_off(&fixture, "cache/mail.sqlite3");
    cut_off(&fixture, "cache/mail.sqlite3-wal");
    struct store_jsonl *index = open_index(&fixture, "alice@inbox.example");
    assert_int_equal(store_jsonl_read(index, 0, &byte, 1, &len), -EIO);
    store_jsonl_free(index);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *after = read_now_by(&fixture, "alice@inbox.example", 4 << 20);
    assert_string_equal(after, before);
    /* A further sync fetches nothing. */
    unsigned int delivered = fake_service_count_delivered(fixture.fake);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fake_service_count_delivered(fixture.fake), delivered);
    fixture_release(&fixture);
}

/* The size is updated when records are added, change, are removed or return, and at a restart. */
TEST(jsonl_bytes_is_the_size_of_index_jsonl)
{
    static const char inbox[] = "alice@inbox.example";
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *empty = read_now(&fixture, inbox);
    assert_string_equal(empty, "");

    fixture_add_emails(&fixture, "in-1", 0, 5);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *five = read_now(&fixture, inbox);
    fake_service_remove_email(fixture.fake, "00000002-in-1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    _cleanup_free_ char *four = read_now(&fixture, inbox);
    assert_true(strlen(four) < strlen(five));
    fake_service_add_simple_email(fixture.fake, "in-1", "00000002-in-1", "another subject, and longer");
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *changed = read_now(&fixture, inbox);
    assert_non_null(strstr(changed, "another subject, and longer"));
    fixture_restart(&fixture);
    _cleanup_free_ char *again = read_now(&fixture, inbox);
    assert_string_equal(again, changed);
    fixture_release(&fixture);
}

TEST(an_open_index_jsonl_keeps_its_records)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 3);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    struct store_jsonl *index = open_index(&fixture, "alice@inbox.example");
    _cleanup_free_ char *before = read_index(index, 4096);
    fake_service_remove_email(fixture.fake, "00000001-in-1");
    fixture_add_emails(&fixture, "in-1", 3, 9);
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    _cleanup_free_ char *after = read_index(index, 4096);
    assert_memory_equal(after, before, strlen(before));
    store_jsonl_free(index);
    assert_int_equal(store_jsonl_new(fixture.store, 77, &index), -ENOENT);
    fixture_release(&fixture);
}
