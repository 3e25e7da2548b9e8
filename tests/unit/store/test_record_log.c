/* SPDX-License-Identifier: MIT */
/*
 * The record log: what was appended is there again, whatever happened to the file in between.
 */
#include "store/record_log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "support/temp_dir.h"

static const char name[] = "records";

enum {
    HEADER_BYTES = 16,
    FILE_MAX_BYTES = 1 << 20,
};

/* Instead of the C library's: pages that a disk cannot read. */
static off_t unreadable_from = -1;
static off_t unreadable_to;

ssize_t pread(int fd, void *bytes, size_t len, off_t offset)
{
    if (unreadable_from >= 0 && offset < unreadable_to && offset + (off_t)len > unreadable_from) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, len, offset);
}

/* Collects what is visited as "kind:payload;". */
static int collect(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    (void)position;
    return strbuf_appendf(context, "%u:%.*s;", kind, (int)len, (const char *)payload);
}

static struct record_log *open_log(const struct temp_dir *dir, struct strbuf *found)
{
    struct record_log *log = NULL;
    strbuf_clear(found);
    assert_int_equal(record_log_open(dir->fd, name, collect, found, &log), 0);
    return log;
}

static bool reads(const struct record_log *log, uint64_t position, const char *text)
{
    _cleanup_free_ void *payload = NULL;
    int error = record_log_read(log, position, strlen(text), &payload);
    assert_true(error == 0 || error == -EIO);
    return error == 0 && memcmp(payload, text, strlen(text)) == 0;
}

static uint64_t append(struct record_log *log, unsigned int kind, const char *text)
{
    size_t half = strlen(text) / 2;
    const struct iovec parts[] = {
        {.iov_base = (void *)text, .iov_len = half},
        {.iov_base = (void *)(text + half), .iov_len = strlen(text) - half},
    };
    uint64_t position = record_log_append(log, kind, parts, ARRAY_LEN(parts));
    assert_true(reads(log, position, text));
    return position;
}

/* What a log of this directory holds. */
static void assert_holds(const struct temp_dir *dir, const char *expected)
{
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    record_log_free(open_log(dir, &found));
    assert_string_equal(strbuf_str(&found), expected);
}

static void write_three(const struct temp_dir *dir)
{
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    struct record_log *log = open_log(dir, &found);
    append(log, 1, "first");
    append(log, 2, "the second one");
    append(log, 3, "third, and last");
    record_log_free(log);
}

static void write_file(const struct temp_dir *dir, const void *bytes, size_t len)
{
    _cleanup_close_ int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, bytes, len), 0);
}

static off_t file_bytes(const struct temp_dir *dir)
{
    struct stat status;
    assert_int_equal(fstatat(dir->fd, name, &status, 0), 0);
    return status.st_size;
}

/* ---------------------------------------------------------------- keeping */

static void records_are_there_again(void **state)
{
    (void)state;
    struct temp_dir dir;
    temp_dir_init(&dir);
    assert_holds(&dir, "");
    write_three(&dir);
    assert_holds(&dir, "1:first;2:the second one;3:third, and last;");
    temp_dir_release(&dir);
}

static void positions_stay_valid_while_it_grows(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    static char large[100000];
    temp_dir_init(&dir);
    memset(large, 'x', sizeof(large) - 1);
    struct record_log *log = open_log(&dir, &found);
    uint64_t first = append(log, 1, "first");
    for (int i = 0; i < 300; i++)
        append(log, 2, large);
    assert_true(reads(log, first, "first"));
    assert_true(record_log_bytes(log) > 300 * sizeof(large) - 1000);
    record_log_free(log);
    temp_dir_release(&dir);
}

/* Where each text of write_three() is found to be. */
static int note_position(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    uint64_t *positions = context;
    (void)payload, (void)len;
    positions[kind] = position;
    return 0;
}

static void positions_are_the_same_after_the_next_opening(void **state)
{
    (void)state;
    struct temp_dir dir;
    struct record_log *log = NULL;
    uint64_t positions[4] = {0};
    temp_dir_init(&dir);
    write_three(&dir);
    assert_int_equal(record_log_open(dir.fd, name, note_position, positions, &log), 0);
    assert_true(reads(log, positions[1], "first"));
    assert_true(reads(log, positions[2], "the second one"));
    assert_true(reads(log, positions[3], "third, and last"));
    /* Neither another length, nor another place, is a record. */
    assert_false(reads(log, positions[3], "third, and las"));
    assert_false(reads(log, positions[3] + 8, "nd last"));
    assert_false(reads(log, RECORD_NOWHERE, "first"));
    record_log_free(log);
    temp_dir_release(&dir);
}

/* Another program writes to the file while this one has it. */
static void what_others_cut_off_or_change_cannot_be_read_and_what_comes_then_can(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    uint64_t first = append(log, 1, "first");
    uint64_t second = append(log, 2, "the second one");
    uint64_t third = append(log, 3, "third, and last");
    _cleanup_close_ int fd = openat(dir.fd, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)third + 3), 0);
    assert_true(reads(log, second, "the second one"));
    assert_false(reads(log, third, "third, and last"));
    assert_int_equal(pwrite(fd, "T", 1, (off_t)second), 1);
    assert_false(reads(log, second, "the second one"));
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_false(reads(log, first, "first"));
    /* What follows stands where it would have stood; before it there are zeros. */
    uint64_t fourth = append(log, 4, "fourth");
    assert_true(reads(log, fourth, "fourth"));
    assert_false(reads(log, first, "first"));
    record_log_free(log);
    temp_dir_release(&dir);
}

/* Forwards, backwards, here and there, of all lengths, some of them in memory, some of them damaged. */
static void records_are_read_through_a_window(void **state)
{
    (void)state;
    enum {
        RECORDS = 997
    };
    static const unsigned int steps[] = {1, RECORDS - 1, 7, 500};
    static char text[100000];
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    uint64_t positions[RECORDS];
    size_t lens[RECORDS];
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    for (unsigned int i = 0; i < RECORDS; i++) {
        lens[i] = i % 100 == 50 ? 70000 + i : 1 + i * 7 % 900;
        memset(text, 'a' + (int)(i % 26), lens[i]);
        const struct iovec part = {text, lens[i]};
        positions[i] = record_log_append(log, 1, &part, 1);
    }
    for (size_t k = 0; k < ARRAY_LEN(steps); k++) {
        struct record_window window = {0};
        for (unsigned int i = 0, at = 0; i < RECORDS; i++, at = (at + steps[k]) % RECORDS) {
            const char *payload;
            assert_int_equal(
                record_window_read(&window, log, positions[at], lens[at], (const void **)&payload), 0);
            assert_int_equal((uintptr_t)payload % 8, 0);
            assert_int_equal(payload[0], 'a' + (int)(at % 26));
            assert_int_equal(payload[lens[at] - 1], 'a' + (int)(at % 26));
        }
        const void *payload;
        assert_int_equal(record_window_read(&window, log, positions[3], lens[3] + 8, &payload), -EIO);
        assert_int_equal(record_window_read(&window, log, record_log_end(log) + 64, 8, &payload), -EIO);
        record_window_release(&window);
    }
    record_log_free(log);
    temp_dir_release(&dir);
}

static void an_empty_record_is_a_record(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    assert_true(record_log_append(log, 5, NULL, 0) != RECORD_NOWHERE);
    append(log, 6, "more");
    record_log_free(log);
    assert_holds(&dir, "5:;6:more;");
    temp_dir_release(&dir);
}

static void a_batch_is_appended_as_one(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    struct record_batch batch = {0};
    char text[32];
    size_t offsets[300];
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    append(log, 1, "before");
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        const struct iovec part = {text, (size_t)snprintf(text, sizeof(text), "record %zu", i)};
        assert_int_equal(record_batch_add(&batch, 2, &part, 1, &offsets[i]), 0);
    }
    uint64_t bytes_before = record_log_bytes(log);
    uint64_t position = record_log_append_batch(log, &batch);
    assert_true(position != RECORD_NOWHERE);
    assert_int_equal(record_log_bytes(log) - bytes_before, batch.len);
    record_batch_clear(&batch);
    append(log, 1, "behind");
    for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
        snprintf(text, sizeof(text), "record %zu", i);
        assert_true(reads(log, position + offsets[i], text));
    }
    record_batch_release(&batch);
    record_log_free(log);
    record_log_free(open_log(&dir, &found));
    assert_int_equal(strncmp(strbuf_str(&found), "1:before;2:record 0;2:record 1;", 31), 0);
    assert_non_null(strstr(strbuf_str(&found), ";2:record 299;1:behind;"));
    temp_dir_release(&dir);
}

static void a_visitor_can_stop(void **state)
{
    (void)state;
    struct temp_dir dir;
    struct strbuf tiny = STRBUF_INIT(4);
    struct record_log *log = NULL;
    temp_dir_init(&dir);
    write_three(&dir);
    assert_int_equal(record_log_open(dir.fd, name, collect, &tiny, &log), -EMSGSIZE);
    assert_null(log);
    strbuf_release(&tiny);
    temp_dir_release(&dir);
}

/* ---------------------------------------------------------------- damage */

/* The file of write_three(), byte for byte. */
static void read_three(struct temp_dir *dir, char **ret_bytes, size_t *ret_len)
{
    temp_dir_init(dir);
    write_three(dir);
    assert_int_equal(file_read_at(dir->fd, name, FILE_MAX_BYTES, ret_bytes, ret_len), 0);
}

static void a_torn_tail_costs_the_last_record_alone(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_three(&dir, &bytes, &len);
    size_t last = len - record_log_frame_bytes(strlen("third, and last"));
    for (size_t torn = len - 1; torn >= last; torn--) {
        write_file(&dir, bytes, torn);
        assert_holds(&dir, "1:first;2:the second one;");
        assert_int_equal(file_bytes(&dir), last);
    }
    temp_dir_release(&dir);
}

static void after_a_torn_tail_appending_goes_on(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_free_ char *bytes = NULL;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    size_t len;
    read_three(&dir, &bytes, &len);
    write_file(&dir, bytes, len - 3);
    struct record_log *log = open_log(&dir, &found);
    append(log, 4, "new");
    record_log_free(log);
    assert_holds(&dir, "1:first;2:the second one;4:new;");
    temp_dir_release(&dir);
}

static void a_flipped_bit_costs_its_record_alone(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_three(&dir, &bytes, &len);
    size_t second = HEADER_BYTES + record_log_frame_bytes(strlen("first"));
    size_t third = second + record_log_frame_bytes(strlen("the second one"));
    for (size_t bit = second * 8; bit < len * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        write_file(&dir, bytes, len);
        assert_holds(&dir, bit < third * 8 ? "1:first;3:third, and last;" : "1:first;2:the second one;");
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
    temp_dir_release(&dir);
}

static void zeros_where_records_were_are_passed_over(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_three(&dir, &bytes, &len);
    memset(bytes + HEADER_BYTES, 0, record_log_frame_bytes(strlen("first")) + 16);
    write_file(&dir, bytes, len);
    assert_holds(&dir, "3:third, and last;");
    temp_dir_release(&dir);
}

/* Many windows long. */
enum {
    MANY_RECORDS = 40000,
    RECORD_BYTES = 1000,
};

static void write_many(const struct temp_dir *dir)
{
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    char record[RECORD_BYTES];
    const struct iovec part = {.iov_base = record, .iov_len = sizeof(record)};
    struct record_log *log = open_log(dir, &found);
    for (uint32_t i = 0; i < MANY_RECORDS; i++) {
        memset(record, (int)(i % 251), sizeof(record));
        memcpy(record, &i, sizeof(i));
        assert_true(record_log_append(log, 1, &part, 1) != RECORD_NOWHERE);
    }
    record_log_free(log);
}

struct many {
    uint32_t next;   /* the number that is to follow */
    uint32_t passed; /* numbers that did not come */
    uint32_t stop_at;
};

static int count_many(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    (void)position;
    struct many *many = context;
    uint32_t number;
    assert_int_equal(kind, 1);
    assert_int_equal(len, RECORD_BYTES);
    memcpy(&number, payload, sizeof(number));
    assert_true(number >= many->next);
    assert_int_equal(((const unsigned char *)payload)[RECORD_BYTES - 1], number % 251);
    many->passed += number - many->next;
    many->next = number + 1;
    return many->next == many->stop_at ? -EINTR : 0;
}

static void flip_bit(const struct temp_dir *dir, off_t offset)
{
    char byte;
    _cleanup_close_ int fd = openat(dir->fd, name, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
}

static struct many read_many(const struct temp_dir *dir, uint32_t stop_at, int expected)
{
    struct record_log *log = NULL;
    struct many many = {.stop_at = stop_at};
    assert_int_equal(record_log_open(dir->fd, name, count_many, &many, &log), expected);
    if (expected == 0)
        record_log_free(log);
    return many;
}

static void a_long_file_is_visited_in_order_around_what_is_damaged(void **state)
{
    /* In the first piece, within others, in the last record but one. */
    static const uint32_t damaged[] = {3, 700, 701, 20000, MANY_RECORDS - 2};
    (void)state;
    struct temp_dir dir;
    temp_dir_init(&dir);
    write_many(&dir);
    off_t step = (off_t)record_log_frame_bytes(RECORD_BYTES);
    struct many many = read_many(&dir, 0, 0);
    assert_int_equal(many.next, MANY_RECORDS);
    assert_int_equal(many.passed, 0);
    many = read_many(&dir, 12345, -EINTR);
    assert_int_equal(many.next, 12345);
    for (size_t i = ARRAY_LEN(damaged); i-- > 0;) {
        flip_bit(&dir, HEADER_BYTES + (off_t)damaged[i] * step + 500);
        many = read_many(&dir, 0, 0);
        assert_int_equal(many.next, MANY_RECORDS);
        assert_int_equal(many.passed, ARRAY_LEN(damaged) - i);
    }
    temp_dir_release(&dir);
}

/* A number for each record, and as many letters as fill half a page. */
static void append_pages(const struct temp_dir *dir, unsigned int from, unsigned int to)
{
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    struct record_log *log = open_log(dir, &found);
    for (unsigned int i = from; i < to; i++) {
        char text[2048];
        memset(text, 'x', sizeof(text));
        const struct iovec parts[] = {{.iov_base = &i, .iov_len = sizeof(i)},
                                      {.iov_base = text, .iov_len = sizeof(text)}};
        assert_true(record_log_append(log, 1, parts, 2) != RECORD_NOWHERE);
    }
    record_log_free(log);
}

static int collect_number(void *context, unsigned int kind, const void *payload, size_t len,
                          uint64_t position)
{
    unsigned int number;
    (void)kind, (void)position;
    assert_true(len > sizeof(number));
    memcpy(&number, payload, sizeof(number));
    return strbuf_appendf(context, "%u ", number);
}

static void assert_numbers(const struct temp_dir *dir, const char *expected)
{
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    struct record_log *log = NULL;
    assert_int_equal(record_log_open(dir->fd, name, collect_number, &found, &log), 0);
    record_log_free(log);
    assert_string_equal(strbuf_str(&found), expected);
}

static void what_the_disk_cannot_read_costs_nothing_else_and_may_come_back(void **state)
{
    (void)state;
    struct temp_dir dir;
    temp_dir_init(&dir);
    append_pages(&dir, 0, 10);
    unreadable_from = 2 * 4096;
    unreadable_to = 3 * 4096;
    assert_numbers(&dir, "0 1 2 6 7 8 9 ");
    append_pages(&dir, 10, 12);
    assert_numbers(&dir, "0 1 2 6 7 8 9 10 11 ");
    unreadable_to = 1 << 20; /* and all behind it */
    assert_numbers(&dir, "0 1 2 ");
    append_pages(&dir, 12, 13);
    unreadable_from = -1;
    assert_numbers(&dir, "0 1 2 3 4 5 6 7 8 9 10 11 12 ");
    temp_dir_release(&dir);
}

static void a_file_of_another_kind_is_set_aside(void **state)
{
    (void)state;
    static const struct {
        size_t at; /* byte that is changed */
        char to;
    } changes[] = {{0, 'X'}, {8, 0}, {8, 1}, {12, 1}};
    struct temp_dir dir;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_three(&dir, &bytes, &len);
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        _cleanup_free_ char *foreign = malloc(len);
        _cleanup_free_ char *aside = NULL;
        size_t aside_len;
        memcpy(foreign, bytes, len);
        foreign[changes[i].at] = changes[i].to;
        write_file(&dir, foreign, len);
        assert_holds(&dir, "");
        assert_int_equal(file_read_at(dir.fd, "records.set-aside", FILE_MAX_BYTES, &aside, &aside_len), 0);
        assert_int_equal(aside_len, len);
        assert_memory_equal(aside, foreign, len);
        write_three(&dir);
        assert_holds(&dir, "1:first;2:the second one;3:third, and last;");
    }
    temp_dir_release(&dir);
}

static void what_is_no_file_is_set_aside(void **state)
{
    (void)state;
    struct temp_dir dir;
    temp_dir_init(&dir);
    assert_int_equal(symlinkat("/etc/passwd", dir.fd, name), 0);
    write_three(&dir);
    assert_holds(&dir, "1:first;2:the second one;3:third, and last;");
    assert_int_equal(unlinkat(dir.fd, name, 0), 0);
    assert_int_equal(mkfifoat(dir.fd, name, 0600), 0);
    write_three(&dir);
    assert_holds(&dir, "1:first;2:the second one;3:third, and last;");
    temp_dir_release(&dir);
}

static void a_file_cut_within_its_header_is_built_anew(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_three(&dir, &bytes, &len);
    for (size_t cut = 0; cut < HEADER_BYTES; cut++) {
        write_file(&dir, bytes, cut);
        write_three(&dir);
        assert_holds(&dir, "1:first;2:the second one;3:third, and last;");
    }
    temp_dir_release(&dir);
}

/* ---------------------------------------------------------------- a disk that cannot be written */

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void what_does_not_fit_on_the_disk_is_kept_in_memory(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    uint64_t positions[200];
    char text[64];
    temp_dir_init(&dir);
    signal(SIGXFSZ, SIG_IGN);
    struct record_log *log = open_log(&dir, &found);
    limit_file_size(4096);
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "record number %03d with something behind it", i);
        positions[i] = append(log, 1, text);
    }
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "record number %03d with something behind it", i);
        assert_true(reads(log, positions[i], text));
    }
    assert_true((positions[0] & RECORD_IN_MEMORY) == 0 && (positions[199] & RECORD_IN_MEMORY) != 0);
    assert_true(file_bytes(&dir) <= 4096);
    assert_int_equal(record_log_sync(log), -EFBIG);
    limit_file_size(RLIM_INFINITY);
    append(log, 2, "there is room again");
    assert_int_equal(record_log_sync(log), 0);
    record_log_free(log);

    log = open_log(&dir, &found);
    assert_non_null(strstr(strbuf_str(&found), "1:record number 000 with something behind it;"));
    assert_non_null(strstr(strbuf_str(&found), "2:there is room again;"));
    assert_null(strstr(strbuf_str(&found), "record number 199"));
    record_log_free(log);
    temp_dir_release(&dir);
}

static void without_a_file_all_is_kept_in_memory(void **state)
{
    (void)state;
    struct record_log *log = NULL;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    assert_int_equal(record_log_open(-1, "none/records", collect, &found, &log), 0);
    append(log, 1, "kept");
    assert_int_equal(record_log_bytes(log), 0);
    assert_true(record_log_sync(log) != 0);
    record_log_free(log);
}

static void what_is_too_long_is_refused(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    const struct iovec part = {.iov_base = (void *)"", .iov_len = (size_t)RECORD_PAYLOAD_MAX_BYTES + 1};
    assert_true(record_log_append(log, 1, &part, 1) == RECORD_NOWHERE);
    assert_true(record_log_append(log, RECORD_KIND_MAX + 1, NULL, 0) == RECORD_NOWHERE);
    record_log_free(log);
    temp_dir_release(&dir);
}

static off_t disk_bytes(const struct temp_dir *dir)
{
    struct stat status;
    assert_int_equal(fstatat(dir->fd, name, &status, 0), 0);
    return status.st_blocks * 512;
}

static uint64_t append_many(struct record_log *log, unsigned int kind, size_t len)
{
    _cleanup_free_ char *text = calloc(1, len + 1);
    memset(text, 'x', len);
    return append(log, kind, text);
}

static void what_is_discarded_takes_no_room_and_is_not_visited_again(void **state)
{
    (void)state;
    enum {
        LARGE_BYTES = 100000
    };
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    append(log, 1, "before");
    uint64_t first = append_many(log, 2, LARGE_BYTES);
    append_many(log, 2, LARGE_BYTES);
    append(log, 3, "after");
    assert_int_equal(record_log_sync(log), 0);
    off_t before = disk_bytes(&dir);
    _cleanup_free_ void *payload = NULL;
    assert_int_equal(record_log_discard(log, first, 2 * record_log_frame_bytes(LARGE_BYTES)), 0);
    assert_int_equal(record_log_read(log, first, LARGE_BYTES, &payload), -EIO);
    assert_true(disk_bytes(&dir) < before - LARGE_BYTES);
    append(log, 4, "appended");
    record_log_free(log);

    for (int i = 0; i < 2; i++) {
        log = open_log(&dir, &found);
        assert_string_equal(strbuf_str(&found), "1:before;3:after;4:appended;");
        record_log_free(log);
    }
    temp_dir_release(&dir);
}

/* Whoever knows where it was must not take the mark in its place, which may be as long, for the record. */
static void what_is_discarded_is_not_read_whatever_its_length(void **state)
{
    (void)state;
    for (size_t len = 1; len <= 64; len++) {
        struct temp_dir dir;
        struct record_window window = {.bytes = NULL};
        const void *seen;
        _cleanup_free_ void *payload = NULL;
        _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
        temp_dir_init(&dir);
        struct record_log *log = open_log(&dir, &found);
        uint64_t position = append_many(log, 1, len);
        append(log, 2, "after");
        assert_int_equal(record_log_discard(log, position, record_log_frame_bytes(len)), 0);
        assert_int_equal(record_log_read(log, position, len, &payload), -EIO);
        assert_int_equal(record_window_read(&window, log, position, len, &seen), -EIO);
        record_window_release(&window);
        record_log_free(log);
        temp_dir_release(&dir);
    }
}

static void a_damaged_mark_of_what_was_discarded_costs_nothing_else(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    for (size_t byte = 0; byte < 16; byte++) {
        temp_dir_init(&dir);
        struct record_log *log = open_log(&dir, &found);
        append(log, 1, "before");
        uint64_t offset = append_many(log, 2, 10000);
        append(log, 3, "after");
        assert_int_equal(record_log_discard(log, offset, record_log_frame_bytes(10000)), 0);
        record_log_free(log);
        _cleanup_close_ int fd = openat(dir.fd, name, O_RDWR | O_CLOEXEC);
        unsigned char flipped;
        off_t at = (off_t)(offset - 16 + byte);
        assert_int_equal(pread(fd, &flipped, 1, at), 1);
        flipped ^= 0x10;
        assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
        log = open_log(&dir, &found);
        assert_string_equal(strbuf_str(&found), "1:before;3:after;");
        record_log_free(log);
        temp_dir_release(&dir);
    }
}

static void what_is_not_in_the_file_cannot_be_discarded(void **state)
{
    (void)state;
    struct temp_dir dir;
    _cleanup_strbuf_ struct strbuf found = STRBUF_INIT(FILE_MAX_BYTES);
    temp_dir_init(&dir);
    struct record_log *log = open_log(&dir, &found);
    uint64_t offset = append(log, 1, "record");
    assert_int_equal(record_log_discard(log, offset, record_log_frame_bytes(6) + 8), -EINVAL);
    assert_int_equal(record_log_discard(log, 0, record_log_frame_bytes(6)), -EINVAL);
    assert_int_equal(record_log_discard(log, offset, 0), -EINVAL);
    record_log_free(log);
    log = open_log(&dir, &found);
    assert_string_equal(strbuf_str(&found), "1:record;");
    record_log_free(log);
    temp_dir_release(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_there_again),
        cmocka_unit_test(positions_stay_valid_while_it_grows),
        cmocka_unit_test(positions_are_the_same_after_the_next_opening),
        cmocka_unit_test(what_others_cut_off_or_change_cannot_be_read_and_what_comes_then_can),
        cmocka_unit_test(records_are_read_through_a_window),
        cmocka_unit_test(an_empty_record_is_a_record),
        cmocka_unit_test(a_batch_is_appended_as_one),
        cmocka_unit_test(a_visitor_can_stop),
        cmocka_unit_test(a_torn_tail_costs_the_last_record_alone),
        cmocka_unit_test(after_a_torn_tail_appending_goes_on),
        cmocka_unit_test(a_flipped_bit_costs_its_record_alone),
        cmocka_unit_test(zeros_where_records_were_are_passed_over),
        cmocka_unit_test(a_long_file_is_visited_in_order_around_what_is_damaged),
        cmocka_unit_test(what_the_disk_cannot_read_costs_nothing_else_and_may_come_back),
        cmocka_unit_test(a_file_of_another_kind_is_set_aside),
        cmocka_unit_test(what_is_no_file_is_set_aside),
        cmocka_unit_test(a_file_cut_within_its_header_is_built_anew),
        cmocka_unit_test(what_does_not_fit_on_the_disk_is_kept_in_memory),
        cmocka_unit_test(without_a_file_all_is_kept_in_memory),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(what_is_discarded_takes_no_room_and_is_not_visited_again),
        cmocka_unit_test(what_is_discarded_is_not_read_whatever_its_length),
        cmocka_unit_test(a_damaged_mark_of_what_was_discarded_costs_nothing_else),
        cmocka_unit_test(what_is_not_in_the_file_cannot_be_discarded),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
