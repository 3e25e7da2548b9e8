/* SPDX-License-Identifier: MIT */
/*
 * The state of the Maildirs: U numbers never change, and flags and sizes survive a restart.
 */
#include "store/maildir_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "mail/maildir_name.h"
#include "sql/query.h"
#include "support/disk.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"
#include "support/test.h"

static const char name[] = "maildir.sqlite3";
static const char log_name[] = "maildir.sqlite3-wal";

enum {
    INBOX = 3, /* the store's number of the inbox, any value */
    OTHER = 0,
    STEP_BYTES = 61,
    DAMAGE_STEP_BYTES = 23,
    NS_PER_MS = 1000 * 1000,
};

static const int64_t start_ms = INT64_C(1795169676000);

struct fixture {
    struct temp_dir dir;
    struct fake_clock clock;
    struct maildir_memory *memory;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    disk_reset();
    disk_pretend();
    temp_dir_init(&fixture.dir);
    fake_clock_init(&fixture.clock, start_ms);
    fixture.memory = maildir_memory_open(fixture.dir.fd, &fixture.clock.clock);
    assert_int_equal(maildir_memory_add_inbox(fixture.memory, INBOX, "inbox-a"), 0);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    maildir_memory_free(fixture->memory);
    fake_clock_release(&fixture->clock);
    temp_dir_release(&fixture->dir);
    return 0;
}

/* Opens the database again, as the next mount does. */
static void open_again(struct fixture *fixture)
{
    maildir_memory_free(fixture->memory);
    fixture->memory = maildir_memory_open(fixture->dir.fd, &fixture->clock.clock);
    assert_int_equal(maildir_memory_add_inbox(fixture->memory, INBOX, "inbox-a"), 0);
}

/* Copies of the file and its log, as a kill leaves them. */
struct left {
    char *file;
    size_t file_len;
    char *log;
    size_t log_len;
};

static struct left read_left(const struct fixture *fixture)
{
    struct left left;
    assert_int_equal(file_read_at(fixture->dir.fd, name, 1 << 24, &left.file, &left.file_len), 0);
    assert_int_equal(file_read_at(fixture->dir.fd, log_name, 1 << 24, &left.log, &left.log_len), 0);
    return left;
}

static void free_left(struct left *left)
{
    free(left->file);
    free(left->log);
}

/* Opens the database from the copy, with `log_len` bytes of its log. */
static void open_left(struct fixture *fixture, const struct left *left, size_t log_len)
{
    maildir_memory_free(fixture->memory);
    assert_int_equal(file_replace_at(fixture->dir.fd, name, left->file, left->file_len, 0600), 0);
    assert_int_equal(file_replace_at(fixture->dir.fd, log_name, left->log, log_len, 0600), 0);
    fixture->memory = maildir_memory_open(fixture->dir.fd, &fixture->clock.clock);
    assert_int_equal(maildir_memory_add_inbox(fixture->memory, INBOX, "inbox-a"), 0);
}

/* Opens the database as after a kill, with only the written data. */
static void open_after_kill(struct fixture *fixture)
{
    struct left left = read_left(fixture);
    open_left(fixture, &left, left.log_len);
    free_left(&left);
}

static uint64_t changes_of(struct fixture *fixture, uint32_t inbox)
{
    struct maildir_state state;
    assert_true(maildir_memory_get_state(fixture->memory, inbox, &state));
    assert_true(state.is_stale);
    return state.changes;
}

/* Syncs the inbox with an email for each letter. An email's number is the letter's code plus `shift`. */
static int see(struct fixture *fixture, const char *letters, uint32_t shift)
{
    struct maildir_sighting seen[64];
    char ids[64][2];
    size_t len = strlen(letters);
    for (size_t i = 0; i < len; i++) {
        ids[i][0] = letters[i];
        ids[i][1] = '\0';
        seen[i] = (struct maildir_sighting){
            .email = (uint32_t)letters[i] + shift, .id = ids[i], .epoch_s = 1000 + letters[i]};
    }
    maildir_memory_mark_stale(fixture->memory, INBOX);
    return maildir_memory_sync(fixture->memory, INBOX, changes_of(fixture, INBOX), seen, len,
                               fixture->clock.clock.realtime_ms(&fixture->clock.clock) * NS_PER_MS);
}

static struct maildir_mail get(struct fixture *fixture, char letter, uint32_t shift)
{
    struct maildir_mail mail;
    if (!maildir_memory_find_email(fixture->memory, INBOX, (uint32_t)letter + shift, &mail))
        fail_msg("not known: %c", letter);
    return mail;
}

static void assert_uid(struct fixture *fixture, char letter, uint32_t uid)
{
    struct maildir_mail mail;
    assert_int_equal(get(fixture, letter, 0).name.uid, uid);
    assert_true(maildir_memory_find_uid(fixture->memory, INBOX, uid, &mail));
    assert_int_equal(mail.email, letter);
}

static struct maildir_state state_of(struct fixture *fixture)
{
    struct maildir_state state = {0};
    assert_true(maildir_memory_get_state(fixture->memory, INBOX, &state));
    return state;
}

/* The plan of one change must have room for the removal of all emails. */
TEST_WITH(a_large_inbox_can_be_emptied, set_up, tear_down)
{
    enum {
        MANY = 2000
    };
    struct fixture *fixture = *state;
    struct maildir_sighting *seen = calloc(MANY, sizeof(*seen));
    char(*ids)[16] = calloc(MANY, sizeof(*ids));
    struct maildir_mail mail;
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof(ids[i]), "id-%u", i);
        seen[i] = (struct maildir_sighting){.email = i, .id = ids[i], .epoch_s = 1000 + i};
    }
    for (int round = 0; round < 2; round++) {
        assert_int_equal(maildir_memory_sync(fixture->memory, INBOX, 1, seen, MANY, start_ms * NS_PER_MS), 0);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_true(maildir_memory_find_email(fixture->memory, INBOX, i, &mail));
            assert_int_equal(mail.name.uid, i + 1);
        }
        assert_int_equal(maildir_memory_sync(fixture->memory, INBOX, 1, seen, 0, start_ms * NS_PER_MS), 0);
        for (uint32_t i = 0; i < MANY; i++)
            assert_true(!maildir_memory_find_email(fixture->memory, INBOX, i, &mail) || mail.is_gone);
    }
    free(ids);
    free(seen);
}

/* ---------------------------------------------------------------- numbers */

TEST_WITH(numbers_ascend_in_the_order_in_which_emails_are_seen, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "cab", 0), 0);
    assert_uid(fixture, 'c', 1);
    assert_uid(fixture, 'a', 2);
    assert_uid(fixture, 'b', 3);
    assert_int_equal(see(fixture, "cabzd", 0), 0);
    assert_uid(fixture, 'z', 4);
    assert_uid(fixture, 'd', 5);
    assert_int_equal(state_of(fixture).uid_max, 5);
    assert_int_equal(get(fixture, 'a', 0).name.epoch, 1000 + 'a');
    assert_int_equal(get(fixture, 'a', 0).size, -1);
    assert_int_equal(get(fixture, 'a', 0).folder, MAILDIR_NEW);
    assert_false(get(fixture, 'a', 0).name.has_info);
}

TEST_WITH(numbers_and_uidvalidity_are_the_same_in_the_next_mount, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "cab", 0), 0);
    uint32_t uidvalidity = state_of(fixture).uidvalidity;
    assert_int_equal(uidvalidity, start_ms / 1000);
    fake_clock_advance(&fixture->clock, 5000000);
    open_after_kill(fixture);
    /* After a restart the store may have other numbers and another order. */
    assert_int_equal(see(fixture, "dbca", 1000), 0);
    assert_int_equal(get(fixture, 'c', 1000).name.uid, 1);
    assert_int_equal(get(fixture, 'a', 1000).name.uid, 2);
    assert_int_equal(get(fixture, 'b', 1000).name.uid, 3);
    assert_int_equal(get(fixture, 'd', 1000).name.uid, 4);
    assert_int_equal(state_of(fixture).uidvalidity, uidvalidity);
}

TEST_WITH(mail_that_returns_gets_its_number_back, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(see(fixture, "b", 0), 0);
    assert_true(get(fixture, 'a', 0).is_gone);
    open_again(fixture);
    assert_int_equal(see(fixture, "bc", 0), 0);
    assert_uid(fixture, 'c', 3);
    assert_int_equal(see(fixture, "bca", 0), 0);
    assert_uid(fixture, 'a', 1);
    assert_false(get(fixture, 'a', 0).is_gone);
}

static size_t count_shown(struct fixture *fixture, uint32_t inbox, enum maildir_folder folder)
{
    struct maildir_mail mail = {.email = 0};
    size_t count = 0;
    while (maildir_memory_find_next(fixture->memory, inbox, folder, mail.name.uid, &mail))
        count++;
    return count;
}

/* A message that rm removed is not shown even if its email leaves the inbox and returns. */
TEST_WITH(a_removed_message_is_never_shown_again, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    struct maildir_state before = state_of(fixture);
    assert_int_equal(maildir_memory_remove(fixture->memory, INBOX, 1), 0);
    assert_true(state_of(fixture).changed_ns[MAILDIR_NEW] > before.changed_ns[MAILDIR_NEW]);
    assert_true(disk_has_newest_size(fixture->dir.fd, log_name));
    assert_int_equal(maildir_memory_remove(fixture->memory, INBOX, 1), -ENOENT);
    assert_int_equal(maildir_memory_remove(fixture->memory, INBOX, 3), -ENOENT);
    open_after_kill(fixture);
    struct maildir_state removed = state_of(fixture);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(see(fixture, "ab", 0), 0);
        assert_true(get(fixture, 'a', 0).is_removed);
        assert_false(maildir_mail_is_shown(&(struct maildir_mail){.is_removed = true}));
        assert_int_equal(get(fixture, 'a', 0).name.uid, 1);
        assert_int_equal(count_shown(fixture, INBOX, MAILDIR_NEW), 1);
        assert_int_equal(see(fixture, "b", 0), 0);
        assert_true(get(fixture, 'a', 0).is_gone);
    }
    /* A removed email that leaves the inbox and returns does not change the Maildir. */
    assert_memory_equal(state_of(fixture).changed_ns, removed.changed_ns, sizeof(removed.changed_ns));
    assert_int_equal(see(fixture, "abc", 0), 0);
    assert_uid(fixture, 'c', 3);
}

static void assert_shown(struct fixture *fixture, size_t in_new, size_t in_cur)
{
    assert_int_equal(count_shown(fixture, INBOX, MAILDIR_NEW), in_new);
    assert_int_equal(count_shown(fixture, INBOX, MAILDIR_CUR), in_cur);
}

TEST_WITH(each_folder_shows_its_mail, set_up, tear_down)
{
    struct fixture *fixture = *state;
    const struct maildir_name marked = {.uid = 2, .has_info = true};
    const struct maildir_name unmarked = {.uid = 2};
    assert_shown(fixture, 0, 0);
    assert_int_equal(see(fixture, "abc", 0), 0);
    assert_shown(fixture, 3, 0);
    assert_int_equal(maildir_memory_mark(fixture->memory, INBOX, MAILDIR_CUR, &marked), 0);
    assert_int_equal(maildir_memory_mark(fixture->memory, INBOX, MAILDIR_CUR, &marked), 0);
    maildir_memory_note_size(fixture->memory, INBOX, 1, 4711);
    assert_shown(fixture, 2, 1);
    assert_int_equal(see(fixture, "ad", 0), 0);
    assert_shown(fixture, 2, 0);
    assert_int_equal(see(fixture, "abd", 0), 0);
    assert_shown(fixture, 2, 1);
    open_again(fixture);
    assert_shown(fixture, 2, 1);
    assert_int_equal(maildir_memory_mark(fixture->memory, INBOX, MAILDIR_NEW, &unmarked), 0);
    assert_shown(fixture, 3, 0);
}

TEST_WITH(each_inbox_has_its_own_numbers, set_up, tear_down)
{
    struct fixture *fixture = *state;
    const struct maildir_sighting seen = {.email = 'x', .id = "a", .epoch_s = 5};
    struct maildir_mail mail;
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(maildir_memory_add_inbox(fixture->memory, OTHER, "inbox-b"), 0);
    uint64_t changes = changes_of(fixture, OTHER);
    assert_int_equal(maildir_memory_sync(fixture->memory, OTHER, changes, &seen, 1, 1), 0);
    assert_true(maildir_memory_find_email(fixture->memory, OTHER, 'x', &mail));
    assert_int_equal(mail.name.uid, 1);
    assert_false(maildir_memory_find_email(fixture->memory, INBOX, 'x', &mail));
    assert_false(maildir_memory_find_uid(fixture->memory, OTHER, 2, &mail));
    assert_false(maildir_memory_find_uid(fixture->memory, 77, 1, &mail));
    assert_false(maildir_memory_has_inbox(fixture->memory, 77));
}

TEST_WITH(an_email_without_an_id_gets_no_uid, set_up, tear_down)
{
    struct fixture *fixture = *state;
    const struct maildir_sighting seen[] = {{.email = 1, .id = NULL}, {.email = 2, .id = "b"}};
    struct maildir_mail mail;
    uint64_t changes = changes_of(fixture, INBOX);
    assert_int_equal(maildir_memory_sync(fixture->memory, INBOX, changes, seen, 2, 1), 0);
    assert_false(maildir_memory_find_email(fixture->memory, INBOX, 1, &mail));
    assert_true(maildir_memory_find_email(fixture->memory, INBOX, 2, &mail));
    assert_int_equal(mail.name.uid, 1);
}

/* ---------------------------------------------------------------- marks and sizes */

static int mark(struct fixture *fixture, uint32_t uid, enum maildir_folder folder, char flag)
{
    const struct maildir_name marked = {.uid = uid, .has_info = true, .flags = maildir_flag_bit(flag)};
    return maildir_memory_mark(fixture->memory, INBOX, folder, &marked);
}

TEST_WITH(marks_survive_a_kill, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(mark(fixture, 2, MAILDIR_CUR, 'S'), 0);
    assert_int_equal(mark(fixture, 2, MAILDIR_CUR, 'x'), 0);
    assert_true(disk_has_newest_size(fixture->dir.fd, log_name));
    open_after_kill(fixture);
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(get(fixture, 'b', 0).folder, MAILDIR_CUR);
    assert_true(get(fixture, 'b', 0).name.has_info);
    assert_int_equal(get(fixture, 'b', 0).name.flags, maildir_flag_bit('x'));
    assert_int_equal(get(fixture, 'a', 0).folder, MAILDIR_NEW);
    assert_false(get(fixture, 'a', 0).name.has_info);
}

TEST_WITH(missing_mail_cannot_be_marked, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(see(fixture, "b", 0), 0);
    assert_int_equal(mark(fixture, 1, MAILDIR_CUR, 'S'), -ENOENT);
    assert_int_equal(mark(fixture, 0, MAILDIR_CUR, 'S'), -ENOENT);
    assert_int_equal(mark(fixture, 3, MAILDIR_CUR, 'S'), -ENOENT);
    assert_int_equal(maildir_memory_mark(fixture->memory, 77, MAILDIR_NEW, &(struct maildir_name){.uid = 1}),
                     -ENOENT);
}

TEST_WITH(noted_sizes_survive_a_restart, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    maildir_memory_note_size(fixture->memory, INBOX, 1, 12345678901);
    maildir_memory_note_size(fixture->memory, INBOX, 9, 1);
    open_again(fixture);
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(get(fixture, 'a', 0).size, 12345678901);
    assert_int_equal(get(fixture, 'b', 0).size, -1);
    /* A mark does not change the size. */
    assert_int_equal(mark(fixture, 1, MAILDIR_CUR, 'S'), 0);
    assert_int_equal(get(fixture, 'a', 0).size, 12345678901);
}

/* ---------------------------------------------------------------- times */

TEST_WITH(the_time_of_a_folder_changes_with_its_mail, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    struct maildir_state before = state_of(fixture);
    assert_int_equal(before.changed_ns[MAILDIR_NEW], start_ms * NS_PER_MS);
    /* A sync without changes changes no time. */
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_memory_equal(state_of(fixture).changed_ns, before.changed_ns, sizeof(before.changed_ns));
    /* Changes within the same millisecond get different times. */
    assert_int_equal(mark(fixture, 1, MAILDIR_CUR, 'S'), 0);
    struct maildir_state moved = state_of(fixture);
    assert_true(moved.changed_ns[MAILDIR_NEW] > before.changed_ns[MAILDIR_NEW]);
    assert_true(moved.changed_ns[MAILDIR_CUR] > before.changed_ns[MAILDIR_CUR]);
    assert_int_equal(mark(fixture, 1, MAILDIR_CUR, 'R'), 0);
    struct maildir_state marked = state_of(fixture);
    assert_true(marked.changed_ns[MAILDIR_CUR] > moved.changed_ns[MAILDIR_CUR]);
    assert_int_equal(marked.changed_ns[MAILDIR_NEW], moved.changed_ns[MAILDIR_NEW]);
    assert_int_equal(see(fixture, "abc", 0), 0);
    struct maildir_state arrived = state_of(fixture);
    assert_true(arrived.changed_ns[MAILDIR_NEW] > marked.changed_ns[MAILDIR_NEW]);
    assert_int_equal(arrived.changed_ns[MAILDIR_CUR], marked.changed_ns[MAILDIR_CUR]);
    /* An email that leaves the inbox changes the time of its folder. */
    assert_int_equal(see(fixture, "bc", 0), 0);
    struct maildir_state last = state_of(fixture);
    assert_true(last.changed_ns[MAILDIR_CUR] > arrived.changed_ns[MAILDIR_CUR]);
    assert_int_equal(last.changed_ns[MAILDIR_NEW], arrived.changed_ns[MAILDIR_NEW]);
    open_after_kill(fixture);
    assert_memory_equal(state_of(fixture).changed_ns, last.changed_ns, sizeof(last.changed_ns));
}

TEST_WITH(an_inbox_is_stale_until_its_first_sync, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_true(state_of(fixture).is_stale);
    assert_int_equal(see(fixture, "a", 0), 0);
    assert_false(state_of(fixture).is_stale);
    maildir_memory_mark_stale(fixture->memory, INBOX);
    assert_true(state_of(fixture).is_stale);
    open_again(fixture);
    assert_true(state_of(fixture).is_stale);
}

TEST_WITH(an_inbox_that_changes_during_its_sync_stays_stale, set_up, tear_down)
{
    struct fixture *fixture = *state;
    const struct maildir_sighting seen = {.email = 'a', .id = "a", .epoch_s = 5};
    uint64_t changes = changes_of(fixture, INBOX);
    maildir_memory_mark_stale(fixture->memory, INBOX);
    assert_int_equal(maildir_memory_sync(fixture->memory, INBOX, changes, &seen, 1, 1), 0);
    assert_true(state_of(fixture).is_stale);
    changes = changes_of(fixture, INBOX);
    assert_int_equal(maildir_memory_sync(fixture->memory, INBOX, changes, &seen, 1, 1), 0);
    assert_false(state_of(fixture).is_stale);
}

/* ---------------------------------------------------------------- the file */

TEST_WITH(a_file_cut_at_its_end_loses_only_the_last_write, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(mark(fixture, 1, MAILDIR_CUR, 'S'), 0);
    struct stat before;
    assert_int_equal(fstatat(fixture->dir.fd, log_name, &before, 0), 0);
    assert_int_equal(mark(fixture, 2, MAILDIR_CUR, 'S'), 0);
    struct left left = read_left(fixture);
    assert_true(left.log_len > (size_t)before.st_size);
    for (size_t cut = (size_t)before.st_size; cut < left.log_len; cut += STEP_BYTES) {
        open_left(fixture, &left, cut);
        assert_int_equal(see(fixture, "ab", 0), 0);
        assert_int_equal(get(fixture, 'a', 0).folder, MAILDIR_CUR);
        assert_int_equal(get(fixture, 'b', 0).folder, MAILDIR_NEW);
        assert_int_equal(get(fixture, 'b', 0).name.uid, 2);
    }
    free_left(&left);
}

/* A mail program that knows the old U numbers must not get new ones with the same UIDVALIDITY. */
TEST_WITH(a_file_that_is_no_database_is_refused_and_kept, set_up, tear_down)
{
    struct fixture *fixture = *state;
    static const char foreign[] = "not ours at all, and longer than what SQLite takes for an empty file";
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    assert_int_equal(see(fixture, "ab", 0), 0);
    maildir_memory_free(fixture->memory);
    assert_int_equal(file_replace_at(fixture->dir.fd, name, foreign, sizeof(foreign), 0600), 0);
    unlinkat(fixture->dir.fd, log_name, 0);
    fixture->memory = maildir_memory_open(fixture->dir.fd, &fixture->clock.clock);
    assert_int_equal(maildir_memory_add_inbox(fixture->memory, INBOX, "inbox-a"), -EIO);
    assert_false(maildir_memory_has_inbox(fixture->memory, INBOX));
    assert_int_equal(file_read_at(fixture->dir.fd, name, 4096, &bytes, &len), 0);
    assert_memory_equal(bytes, foreign, sizeof(foreign));
}

/* After damage to a byte, the file is refused or the U numbers are right. */
TEST_WITH(damage_never_gives_the_number_of_a_message_to_another, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(see(fixture, "abc", 0), 0);
    assert_int_equal(see(fixture, "abcd", 0), 0);
    open_again(fixture); /* moves the log into the file */
    maildir_memory_free(fixture->memory);
    fixture->memory = NULL;
    assert_int_equal(file_read_at(fixture->dir.fd, name, 1 << 20, &bytes, &len), 0);
    for (size_t i = 0; i < len; i += DAMAGE_STEP_BYTES) {
        maildir_memory_free(fixture->memory);
        bytes[i] ^= 0x55;
        assert_int_equal(file_replace_at(fixture->dir.fd, name, bytes, len, 0600), 0);
        bytes[i] ^= 0x55;
        unlinkat(fixture->dir.fd, log_name, 0);
        fixture->memory = maildir_memory_open(fixture->dir.fd, &fixture->clock.clock);
        if (maildir_memory_add_inbox(fixture->memory, INBOX, "inbox-a") != 0)
            continue;
        if (see(fixture, "abcd", 0) != 0)
            continue;
        uint32_t numbers = 0;
        for (char letter = 'a'; letter <= 'd'; letter++)
            numbers |= 1U << get(fixture, letter, 0).name.uid;
        assert_int_equal(__builtin_popcount(numbers), 4);
    }
    free(bytes);
}

TEST_WITH(many_noted_sizes_do_not_make_the_file_grow, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct stat file;
    assert_int_equal(see(fixture, "ab", 0), 0);
    struct maildir_state before = state_of(fixture);
    for (int i = 0; i < 15000; i++)
        maildir_memory_note_size(fixture->memory, INBOX, 1, i);
    assert_int_equal(mark(fixture, 2, MAILDIR_CUR, 'S'), 0);
    struct maildir_state marked = state_of(fixture);
    assert_int_equal(fstatat(fixture->dir.fd, log_name, &file, 0), 0);
    assert_true(file.st_size < 8 * 1024 * 1024);
    open_again(fixture);
    assert_int_equal(fstatat(fixture->dir.fd, name, &file, 0), 0);
    assert_true(file.st_size < 64 * 1024);
    open_again(fixture);
    assert_int_equal(see(fixture, "abc", 0), 0);
    assert_uid(fixture, 'c', 3);
    assert_int_equal(get(fixture, 'a', 0).size, 14999);
    assert_int_equal(get(fixture, 'b', 0).folder, MAILDIR_CUR);
    assert_int_equal(state_of(fixture).uidvalidity, before.uidvalidity);
    assert_int_equal(state_of(fixture).changed_ns[MAILDIR_CUR], marked.changed_ns[MAILDIR_CUR]);
}

TEST_WITH(a_change_that_cannot_be_written_is_not_made, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct stat file;
    assert_int_equal(see(fixture, "ab", 0), 0);
    assert_int_equal(fstatat(fixture->dir.fd, log_name, &file, 0), 0);
    disk_fill((size_t)file.st_size + 10);
    int of_mark = mark(fixture, 1, MAILDIR_CUR, 'S');
    int of_sync = see(fixture, "abc", 0);
    int of_inbox = maildir_memory_add_inbox(fixture->memory, OTHER, "inbox-b");
    disk_empty();
    assert_int_equal(of_mark, -EFBIG);
    assert_int_equal(of_sync, -EFBIG);
    assert_int_equal(of_inbox, -EFBIG);
    assert_int_equal(get(fixture, 'a', 0).folder, MAILDIR_NEW);
    assert_int_equal(state_of(fixture).uid_max, 2);
    assert_true(state_of(fixture).is_stale);
    assert_false(maildir_memory_has_inbox(fixture->memory, OTHER));
    /* All functions work again once the disk has room. */
    assert_int_equal(see(fixture, "abc", 0), 0);
    assert_int_equal(mark(fixture, 3, MAILDIR_CUR, 'S'), 0);
    open_after_kill(fixture);
    assert_int_equal(see(fixture, "abc", 0), 0);
    assert_int_equal(get(fixture, 'c', 0).folder, MAILDIR_CUR);
}

/* ---------------------------------------------------------------- version 0.2 */

/* A database of inboxfs 0.2. inbox-a has the emails a to e (d was removed, e left the inbox); inbox-b has z.
 */
static const char old_path[] = "tests/data/valid/state-0.2/maildir/maildir.sqlite3";

TEST_WITH(the_marks_of_version_0_2_are_taken_over, set_up, tear_down)
{
    struct fixture *fixture = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    struct maildir_state other;
    struct maildir_mail mail;
    assert_int_equal(file_read_at(AT_FDCWD, old_path, 1 << 20, &bytes, &len), 0);
    maildir_memory_free(fixture->memory);
    assert_int_equal(file_replace_at(fixture->dir.fd, name, bytes, len, 0600), 0);
    fake_clock_advance(&fixture->clock, 60000);
    fixture->memory = maildir_memory_open(fixture->dir.fd, &fixture->clock.clock);
    for (int mounts = 0; mounts < 2; mounts++) {
        open_again(fixture);
        assert_int_equal(state_of(fixture).uidvalidity, start_ms / 1000);
        assert_int_equal(state_of(fixture).uid_max, 5);
        assert_int_equal(state_of(fixture).changed_ns[MAILDIR_NEW], start_ms * NS_PER_MS + 4);
        assert_int_equal(state_of(fixture).changed_ns[MAILDIR_CUR], start_ms * NS_PER_MS + 1);
        assert_shown(fixture, 1, 2);
    }
    assert_int_equal(see(fixture, "edcba", 0), 0);
    assert_uid(fixture, 'a', 1);
    assert_int_equal(get(fixture, 'a', 0).folder, MAILDIR_CUR);
    assert_int_equal(get(fixture, 'a', 0).name.flags, maildir_flag_bit('F') | maildir_flag_bit('S'));
    assert_int_equal(get(fixture, 'a', 0).name.epoch, 1001);
    assert_uid(fixture, 'b', 2);
    assert_int_equal(get(fixture, 'b', 0).name.flags, maildir_flag_bit('x'));
    assert_uid(fixture, 'c', 3);
    assert_int_equal(get(fixture, 'c', 0).size, 12345678901);
    assert_uid(fixture, 'd', 4);
    assert_true(get(fixture, 'd', 0).is_removed);
    assert_uid(fixture, 'e', 5);
    assert_int_equal(maildir_memory_add_inbox(fixture->memory, OTHER, "inbox-b"), 0);
    assert_true(maildir_memory_get_state(fixture->memory, OTHER, &other));
    assert_int_equal(count_shown(fixture, OTHER, MAILDIR_NEW), 1);
    assert_true(maildir_memory_find_uid(fixture->memory, OTHER, 1, &mail));
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    return test_run();
}
