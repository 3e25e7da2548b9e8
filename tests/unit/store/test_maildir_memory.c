/* SPDX-License-Identifier: MIT */
/*
 * The memory of the Maildirs: U numbers for ever, marks that survive, sizes learned once.
 */
#include "store/maildir_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "mail/maildir_name.h"
#include "sql/query.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"

static const char name[] = "maildir.sqlite3";
static const char log_name[] = "maildir.sqlite3-wal";

enum {
    INBOX = 3, /* the store's number, of no meaning here */
    OTHER = 0,
    STEP_BYTES = 61,
    DAMAGE_STEP_BYTES = 23,
    NS_PER_MS = 1000 * 1000,
};

static const int64_t start_ms = INT64_C(1795169676000);

/* The files that were made durable last, and how long they were then. What notes it takes the place of libc's
 * functions. */
static struct stat synced[16];
static size_t syncs;

/* Called while a change is being made durable. */
static void (*while_syncing)(void);

int fsync(int fd)
{
    struct stat file;
    if (while_syncing != NULL)
        while_syncing();
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
        synced[syncs++ % ARRAY_LEN(synced)] = file;
    return 0;
}

int fdatasync(int fd)
{
    return fsync(fd);
}

static void assert_durable(const struct temp_dir *dir)
{
    struct stat file;
    assert_int_equal(fstatat(dir->fd, log_name, &file, 0), 0);
    for (size_t i = 0; i < ARRAY_LEN(synced); i++)
        if (synced[i].st_ino == file.st_ino && synced[i].st_size == file.st_size)
            return;
    fail_msg("what is in the file was not made durable");
}

struct world {
    struct temp_dir dir;
    struct fake_clock clock;
    struct maildir_memory *memory;
};

static int set_up(void **state)
{
    static struct world world;
    temp_dir_init(&world.dir);
    fake_clock_init(&world.clock, start_ms);
    assert_int_equal(maildir_memory_open(world.dir.fd, &world.clock.clock, &world.memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world.memory, INBOX, "inbox-a"), 0);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    maildir_memory_free(world->memory);
    fake_clock_release(&world->clock);
    temp_dir_release(&world->dir);
    return 0;
}

/* The next mount. */
static void open_again(struct world *world)
{
    maildir_memory_free(world->memory);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
}

/* The file and its log, as a kill leaves them. */
struct left {
    char *file;
    size_t file_len;
    char *log;
    size_t log_len;
};

static struct left read_left(const struct world *world)
{
    struct left left;
    assert_int_equal(file_read_at(world->dir.fd, name, 1 << 24, &left.file, &left.file_len), 0);
    assert_int_equal(file_read_at(world->dir.fd, log_name, 1 << 24, &left.log, &left.log_len), 0);
    return left;
}

static void free_left(struct left *left)
{
    free(left->file);
    free(left->log);
}

/* The next mount finds these, and `log_len` bytes of the log. */
static void open_left(struct world *world, const struct left *left, size_t log_len)
{
    maildir_memory_free(world->memory);
    assert_int_equal(file_replace_at(world->dir.fd, name, left->file, left->file_len, 0600), 0);
    assert_int_equal(file_replace_at(world->dir.fd, log_name, left->log, log_len, 0600), 0);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
}

/* The mount after a kill: what a process has in memory is lost, what it wrote is there. */
static void open_after_kill(struct world *world)
{
    struct left left = read_left(world);
    open_left(world, &left, left.log_len);
    free_left(&left);
}

/* The inbox holds the emails of these letters; an email's number is its letter's, plus `shift`. */
static int see(struct world *world, const char *letters, uint32_t shift)
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
    maildir_memory_mark_stale(world->memory, INBOX);
    assert_true(maildir_memory_begin_sync(world->memory, INBOX));
    return maildir_memory_sync(world->memory, INBOX, seen, len,
                               world->clock.clock.realtime_ms(&world->clock.clock) * NS_PER_MS);
}

static struct maildir_mail get(struct world *world, char letter, uint32_t shift)
{
    struct maildir_mail mail;
    if (!maildir_memory_find_email(world->memory, INBOX, (uint32_t)letter + shift, &mail))
        fail_msg("not known: %c", letter);
    return mail;
}

static void assert_uid(struct world *world, char letter, uint32_t uid)
{
    struct maildir_mail mail;
    assert_int_equal(get(world, letter, 0).uid, uid);
    assert_true(maildir_memory_find_uid(world->memory, INBOX, uid, &mail));
    assert_int_equal(mail.email, letter);
}

static struct maildir_state state_of(struct world *world)
{
    struct maildir_state state = {0};
    assert_true(maildir_memory_get_state(world->memory, INBOX, &state));
    return state;
}

/* Many more than a test of letters has: what is prepared for one change must have room for all of them. */
static void a_large_inbox_that_is_emptied_is_empty(void **state)
{
    enum {
        MANY = 2000
    };
    struct world *world = *state;
    struct maildir_sighting *seen = calloc(MANY, sizeof(*seen));
    char(*ids)[16] = calloc(MANY, sizeof(*ids));
    struct maildir_mail mail;
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof(ids[i]), "id-%u", i);
        seen[i] = (struct maildir_sighting){.email = i, .id = ids[i], .epoch_s = 1000 + i};
    }
    for (int round = 0; round < 2; round++) {
        maildir_memory_begin_sync(world->memory, INBOX);
        assert_int_equal(maildir_memory_sync(world->memory, INBOX, seen, MANY, start_ms * NS_PER_MS), 0);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_true(maildir_memory_find_email(world->memory, INBOX, i, &mail));
            assert_int_equal(mail.uid, i + 1);
        }
        maildir_memory_begin_sync(world->memory, INBOX);
        assert_int_equal(maildir_memory_sync(world->memory, INBOX, seen, 0, start_ms * NS_PER_MS), 0);
        for (uint32_t i = 0; i < MANY; i++)
            assert_true(!maildir_memory_find_email(world->memory, INBOX, i, &mail) || mail.is_gone);
    }
    free(ids);
    free(seen);
}

/* ---------------------------------------------------------------- numbers */

static void numbers_ascend_in_the_order_of_sight(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "cab", 0), 0);
    assert_uid(world, 'c', 1);
    assert_uid(world, 'a', 2);
    assert_uid(world, 'b', 3);
    assert_int_equal(see(world, "cabzd", 0), 0);
    assert_uid(world, 'z', 4);
    assert_uid(world, 'd', 5);
    assert_int_equal(state_of(world).uid_max, 5);
    assert_int_equal(get(world, 'a', 0).epoch_s, 1000 + 'a');
    assert_int_equal(get(world, 'a', 0).size, -1);
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_NEW);
    assert_false(get(world, 'a', 0).has_info);
}

static void numbers_and_uidvalidity_are_the_same_in_the_next_mount(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "cab", 0), 0);
    uint32_t uidvalidity = state_of(world).uidvalidity;
    assert_int_equal(uidvalidity, start_ms / 1000);
    fake_clock_advance(&world->clock, 5000000);
    open_after_kill(world);
    /* The store numbers emails anew, and lists them in another order. */
    assert_int_equal(see(world, "dbca", 1000), 0);
    assert_int_equal(get(world, 'c', 1000).uid, 1);
    assert_int_equal(get(world, 'a', 1000).uid, 2);
    assert_int_equal(get(world, 'b', 1000).uid, 3);
    assert_int_equal(get(world, 'd', 1000).uid, 4);
    assert_int_equal(state_of(world).uidvalidity, uidvalidity);
}

static void what_left_keeps_its_number_and_gets_it_back(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(see(world, "b", 0), 0);
    assert_true(get(world, 'a', 0).is_gone);
    open_again(world);
    assert_int_equal(see(world, "bc", 0), 0);
    assert_uid(world, 'c', 3);
    assert_int_equal(see(world, "bca", 0), 0);
    assert_uid(world, 'a', 1);
    assert_false(get(world, 'a', 0).is_gone);
}

/* Not by coming back to the inbox either. */
static void what_was_removed_never_comes_back(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    struct maildir_state before = state_of(world);
    assert_int_equal(maildir_memory_remove(world->memory, INBOX, 1), 0);
    assert_true(state_of(world).changed_ns[MAILDIR_NEW] > before.changed_ns[MAILDIR_NEW]);
    assert_durable(&world->dir);
    assert_int_equal(maildir_memory_remove(world->memory, INBOX, 1), -ENOENT);
    assert_int_equal(maildir_memory_remove(world->memory, INBOX, 3), -ENOENT);
    open_after_kill(world);
    struct maildir_state removed = state_of(world);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(see(world, "ab", 0), 0);
        assert_true(get(world, 'a', 0).is_removed);
        assert_false(maildir_mail_is_shown(&(struct maildir_mail){.is_removed = true}));
        assert_int_equal(get(world, 'a', 0).uid, 1);
        assert_int_equal(state_of(world).present[MAILDIR_NEW], 1);
        maildir_memory_note_gone(world->memory, INBOX, 'a');
        assert_int_equal(see(world, "b", 0), 0);
        assert_true(get(world, 'a', 0).is_gone);
    }
    /* That it leaves the inbox and comes back is no change of the Maildir. */
    assert_memory_equal(state_of(world).changed_ns, removed.changed_ns, sizeof(removed.changed_ns));
    assert_int_equal(see(world, "abc", 0), 0);
    assert_uid(world, 'c', 3);
}

static void assert_present(struct world *world, uint32_t in_new, uint32_t in_cur)
{
    struct maildir_state state;
    assert_true(maildir_memory_get_state(world->memory, INBOX, &state));
    assert_int_equal(state.present[MAILDIR_NEW], in_new);
    assert_int_equal(state.present[MAILDIR_CUR], in_cur);
}

static void how_many_each_folder_holds_follows_what_happens(void **state)
{
    struct world *world = *state;
    const struct maildir_mark to_cur = {.folder = MAILDIR_CUR, .has_info = true};
    const struct maildir_mark to_new = {.folder = MAILDIR_NEW};
    assert_present(world, 0, 0);
    assert_int_equal(see(world, "abc", 0), 0);
    assert_present(world, 3, 0);
    assert_int_equal(maildir_memory_mark(world->memory, INBOX, 2, &to_cur), 0);
    assert_int_equal(maildir_memory_mark(world->memory, INBOX, 2, &to_cur), 0);
    maildir_memory_note_size(world->memory, INBOX, 1, 4711);
    assert_present(world, 2, 1);
    assert_int_equal(see(world, "ad", 0), 0);
    assert_present(world, 2, 0);
    assert_int_equal(see(world, "abd", 0), 0);
    assert_present(world, 2, 1);
    open_again(world);
    assert_present(world, 2, 1);
    assert_int_equal(maildir_memory_mark(world->memory, INBOX, 2, &to_new), 0);
    assert_present(world, 3, 0);
}

static void inboxes_count_apart(void **state)
{
    struct world *world = *state;
    const struct maildir_sighting seen = {.email = 'x', .id = "a", .epoch_s = 5};
    struct maildir_mail mail;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, OTHER, "inbox-b"), 0);
    assert_true(maildir_memory_begin_sync(world->memory, OTHER));
    assert_int_equal(maildir_memory_sync(world->memory, OTHER, &seen, 1, 1), 0);
    assert_true(maildir_memory_find_email(world->memory, OTHER, 'x', &mail));
    assert_int_equal(mail.uid, 1);
    assert_false(maildir_memory_find_email(world->memory, INBOX, 'x', &mail));
    assert_false(maildir_memory_find_uid(world->memory, OTHER, 2, &mail));
    assert_false(maildir_memory_find_uid(world->memory, 77, 1, &mail));
    assert_false(maildir_memory_has_inbox(world->memory, 77));
}

static void an_email_without_an_id_has_no_number(void **state)
{
    struct world *world = *state;
    const struct maildir_sighting seen[] = {{.email = 1, .id = NULL}, {.email = 2, .id = "b"}};
    struct maildir_mail mail;
    assert_int_equal(maildir_memory_sync(world->memory, INBOX, seen, 2, 1), 0);
    assert_false(maildir_memory_find_email(world->memory, INBOX, 1, &mail));
    assert_true(maildir_memory_find_email(world->memory, INBOX, 2, &mail));
    assert_int_equal(mail.uid, 1);
}

/* ---------------------------------------------------------------- marks and sizes */

static int mark(struct world *world, uint32_t uid, enum maildir_folder folder, char flag)
{
    const struct maildir_mark wanted = {.folder = folder, .has_info = true, .flags = maildir_flag(flag)};
    return maildir_memory_mark(world->memory, INBOX, uid, &wanted);
}

static void marks_survive_a_kill(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'S'), 0);
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'x'), 0);
    assert_durable(&world->dir);
    open_after_kill(world);
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(get(world, 'b', 0).folder, MAILDIR_CUR);
    assert_true(get(world, 'b', 0).has_info);
    assert_int_equal(get(world, 'b', 0).flags, maildir_flag('x'));
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_NEW);
    assert_false(get(world, 'a', 0).has_info);
}

static void what_is_not_there_cannot_be_marked(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(see(world, "b", 0), 0);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), -ENOENT);
    assert_int_equal(mark(world, 0, MAILDIR_CUR, 'S'), -ENOENT);
    assert_int_equal(mark(world, 3, MAILDIR_CUR, 'S'), -ENOENT);
    assert_int_equal(maildir_memory_mark(world->memory, 77, 1, &(struct maildir_mark){0}), -ENOENT);
}

static void sizes_are_there_in_the_next_mount(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    maildir_memory_note_size(world->memory, INBOX, 1, 12345678901);
    maildir_memory_note_size(world->memory, INBOX, 9, 1);
    open_again(world);
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(get(world, 'a', 0).size, 12345678901);
    assert_int_equal(get(world, 'b', 0).size, -1);
    /* A mark keeps it. */
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    assert_int_equal(get(world, 'a', 0).size, 12345678901);
}

/* ---------------------------------------------------------------- times */

static void folders_change_with_what_changes_in_them(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    struct maildir_state before = state_of(world);
    assert_int_equal(before.changed_ns[MAILDIR_NEW], start_ms * NS_PER_MS);
    /* Nothing new: nothing changes. */
    assert_int_equal(see(world, "ab", 0), 0);
    assert_memory_equal(state_of(world).changed_ns, before.changed_ns, sizeof(before.changed_ns));
    /* Within the same millisecond each change is seen. */
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    struct maildir_state moved = state_of(world);
    assert_true(moved.changed_ns[MAILDIR_NEW] > before.changed_ns[MAILDIR_NEW]);
    assert_true(moved.changed_ns[MAILDIR_CUR] > before.changed_ns[MAILDIR_CUR]);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'R'), 0);
    struct maildir_state marked = state_of(world);
    assert_true(marked.changed_ns[MAILDIR_CUR] > moved.changed_ns[MAILDIR_CUR]);
    assert_int_equal(marked.changed_ns[MAILDIR_NEW], moved.changed_ns[MAILDIR_NEW]);
    assert_int_equal(see(world, "abc", 0), 0);
    struct maildir_state arrived = state_of(world);
    assert_true(arrived.changed_ns[MAILDIR_NEW] > marked.changed_ns[MAILDIR_NEW]);
    assert_int_equal(arrived.changed_ns[MAILDIR_CUR], marked.changed_ns[MAILDIR_CUR]);
    /* What leaves changes the folder where it lay. */
    maildir_memory_note_gone(world->memory, INBOX, 'a');
    struct maildir_state left = state_of(world);
    assert_true(left.changed_ns[MAILDIR_CUR] > arrived.changed_ns[MAILDIR_CUR]);
    assert_true(left.is_stale);
    assert_int_equal(see(world, "bc", 0), 0);
    struct maildir_state last = state_of(world);
    open_after_kill(world);
    assert_memory_equal(state_of(world).changed_ns, last.changed_ns, sizeof(last.changed_ns));
}

static struct world *world_syncing;

static void lose_b(void)
{
    while_syncing = NULL;
    maildir_memory_note_gone(world_syncing->memory, INBOX, 'b');
}

/* Who has looked at the folder since then must not find it with an older time. */
static void what_leaves_while_a_change_is_written_has_changed_the_folder(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    world_syncing = world;
    while_syncing = lose_b;
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    assert_null(while_syncing);
    int64_t start_ns = start_ms * NS_PER_MS; /* + 1: what left; + 2: what moved */
    assert_int_equal(state_of(world).changed_ns[MAILDIR_NEW], start_ns + 2);
    assert_true(state_of(world).is_stale);
    while_syncing = lose_b;
    assert_int_equal(see(world, "abc", 0), 0);
    assert_null(while_syncing);
    assert_int_equal(state_of(world).changed_ns[MAILDIR_NEW], start_ns + 4);
    assert_true(state_of(world).is_stale);
}

static atomic_bool is_enough;

static void *lose_b_again_and_again(void *context)
{
    struct world *world = context;
    while (!is_enough)
        maildir_memory_note_gone(world->memory, INBOX, 'b');
    return NULL;
}

/* For ThreadSanitizer. */
static void what_leaves_and_what_is_marked_do_not_race(void **state)
{
    struct world *world = *state;
    pthread_t thread;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(thread_start(&thread, "leaving", lose_b_again_and_again, world), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(mark(world, 1, i % 2 == 0 ? MAILDIR_CUR : MAILDIR_NEW, 'S'), 0);
        assert_int_equal(see(world, i % 2 == 0 ? "abc" : "ab", 0), 0);
    }
    is_enough = true;
    pthread_join(thread, NULL);
}

static void a_folder_is_stale_until_it_was_looked_at(void **state)
{
    struct world *world = *state;
    assert_true(state_of(world).is_stale);
    assert_int_equal(see(world, "a", 0), 0);
    assert_false(state_of(world).is_stale);
    assert_false(maildir_memory_begin_sync(world->memory, INBOX));
    maildir_memory_mark_stale(world->memory, INBOX);
    assert_true(state_of(world).is_stale);
    open_again(world);
    assert_true(state_of(world).is_stale);
}

/* Who comes while somebody else looks through it must wait for the end of that. */
static void a_folder_is_stale_while_it_is_looked_through(void **state)
{
    struct world *world = *state;
    const struct maildir_sighting seen = {.email = 'a', .id = "a", .epoch_s = 5};
    assert_true(maildir_memory_begin_sync(world->memory, INBOX));
    assert_true(state_of(world).is_stale);
    assert_int_equal(maildir_memory_sync(world->memory, INBOX, &seen, 1, 1), 0);
    assert_false(state_of(world).is_stale);
}

static void a_folder_that_changes_while_it_is_looked_through_is_looked_through_again(void **state)
{
    struct world *world = *state;
    const struct maildir_sighting seen = {.email = 'a', .id = "a", .epoch_s = 5};
    assert_true(maildir_memory_begin_sync(world->memory, INBOX));
    maildir_memory_mark_stale(world->memory, INBOX);
    assert_int_equal(maildir_memory_sync(world->memory, INBOX, &seen, 1, 1), 0);
    assert_true(maildir_memory_begin_sync(world->memory, INBOX));
    maildir_memory_note_gone(world->memory, INBOX, 'a');
    assert_int_equal(maildir_memory_sync(world->memory, INBOX, &seen, 1, 1), 0);
    assert_true(maildir_memory_begin_sync(world->memory, INBOX));
    assert_int_equal(maildir_memory_sync(world->memory, INBOX, NULL, 0, 1), 0);
    assert_false(maildir_memory_begin_sync(world->memory, INBOX));
}

/* ---------------------------------------------------------------- the file */

static void a_torn_end_costs_what_was_being_written(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    struct stat before;
    assert_int_equal(fstatat(world->dir.fd, log_name, &before, 0), 0);
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'S'), 0);
    struct left left = read_left(world);
    assert_true(left.log_len > (size_t)before.st_size);
    for (size_t cut = (size_t)before.st_size; cut < left.log_len; cut += STEP_BYTES) {
        open_left(world, &left, cut);
        assert_int_equal(see(world, "ab", 0), 0);
        assert_int_equal(get(world, 'a', 0).folder, MAILDIR_CUR);
        assert_int_equal(get(world, 'b', 0).folder, MAILDIR_NEW);
        assert_int_equal(get(world, 'b', 0).uid, 2);
    }
    free_left(&left);
}

static void a_foreign_file_is_set_aside_and_uidvalidity_is_another(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "ab", 0), 0);
    uint32_t before = state_of(world).uidvalidity;
    maildir_memory_free(world->memory);
    assert_int_equal(file_replace_at(world->dir.fd, name, "not ours at all", 15, 0600), 0);
    fake_clock_advance(&world->clock, 60000);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
    assert_int_not_equal(state_of(world).uidvalidity, before);
    assert_int_equal(faccessat(world->dir.fd, "maildir.sqlite3.set-aside", F_OK, 0), 0);
}

/* What the program says is caught. */
static void a_file_that_lost_everything_is_told(void **state)
{
    struct world *world = *state;
    _cleanup_free_ char *said = NULL;
    size_t len;
    assert_int_equal(see(world, "ab", 0), 0);
    maildir_memory_free(world->memory);
    assert_int_equal(file_replace_at(world->dir.fd, name, "", 0, 0600), 0);
    _cleanup_close_ int said_fd = openat(world->dir.fd, "said", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    _cleanup_close_ int stderr_fd = dup(STDERR_FILENO);
    assert_true(said_fd >= 0 && stderr_fd >= 0);
    log_set_level(LOG_LEVEL_WARNING);
    assert_int_equal(dup2(said_fd, STDERR_FILENO), STDERR_FILENO);
    int error = maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory);
    assert_int_equal(dup2(stderr_fd, STDERR_FILENO), STDERR_FILENO);
    log_set_level(LOG_LEVEL_ERROR);
    assert_int_equal(error, 0);
    assert_int_equal(file_read_at(world->dir.fd, "said", 4096, &said, &len), 0);
    assert_non_null(strstr(said, "maildir.sqlite3 is empty"));
}

/* Damage of any byte loses what stands there, never the program, and never a number to another message. */
static void damage_anywhere_is_survived(void **state)
{
    struct world *world = *state;
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(see(world, "abcd", 0), 0);
    open_again(world); /* with all of it in the file */
    maildir_memory_free(world->memory);
    world->memory = NULL;
    assert_int_equal(file_read_at(world->dir.fd, name, 1 << 20, &bytes, &len), 0);
    for (size_t i = 0; i < len; i += DAMAGE_STEP_BYTES) {
        maildir_memory_free(world->memory);
        bytes[i] ^= 0x55;
        assert_int_equal(file_replace_at(world->dir.fd, name, bytes, len, 0600), 0);
        bytes[i] ^= 0x55;
        unlinkat(world->dir.fd, "maildir.sqlite3.set-aside", 0);
        assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
        assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
        assert_int_equal(see(world, "abcd", 0), 0);
        uint32_t numbers = 0;
        for (char letter = 'a'; letter <= 'd'; letter++)
            numbers |= 1U << get(world, letter, 0).uid;
        assert_int_equal(__builtin_popcount(numbers), 4);
    }
    free(bytes);
}

static void many_marks_do_not_pile_up(void **state)
{
    struct world *world = *state;
    struct stat file;
    assert_int_equal(see(world, "ab", 0), 0);
    struct maildir_state before = state_of(world);
    for (int i = 0; i < 15000; i++)
        maildir_memory_note_size(world->memory, INBOX, 1, i);
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'S'), 0);
    struct maildir_state marked = state_of(world);
    assert_int_equal(fstatat(world->dir.fd, log_name, &file, 0), 0);
    assert_true(file.st_size < 8 * 1024 * 1024);
    open_again(world);
    assert_int_equal(fstatat(world->dir.fd, name, &file, 0), 0);
    assert_true(file.st_size < 64 * 1024);
    open_again(world);
    assert_int_equal(see(world, "abc", 0), 0);
    assert_uid(world, 'c', 3);
    assert_int_equal(get(world, 'a', 0).size, 14999);
    assert_int_equal(get(world, 'b', 0).folder, MAILDIR_CUR);
    assert_int_equal(state_of(world).uidvalidity, before.uidvalidity);
    assert_int_equal(state_of(world).changed_ns[MAILDIR_CUR], marked.changed_ns[MAILDIR_CUR]);
}

/* Files may not grow, as on a full disk. */
static void set_file_limit(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void nothing_changes_that_cannot_be_written(void **state)
{
    struct world *world = *state;
    struct stat file;
    assert_int_equal(see(world, "ab", 0), 0);
    assert_int_equal(fstatat(world->dir.fd, log_name, &file, 0), 0);
    signal(SIGXFSZ, SIG_IGN);

    set_file_limit((rlim_t)file.st_size + 10);
    int of_mark = mark(world, 1, MAILDIR_CUR, 'S');
    int of_sync = see(world, "abc", 0);
    int of_inbox = maildir_memory_add_inbox(world->memory, OTHER, "inbox-b");
    set_file_limit(RLIM_INFINITY);
    assert_int_equal(of_mark, -EFBIG);
    assert_int_equal(of_sync, -EFBIG);
    assert_int_equal(of_inbox, -EFBIG);
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_NEW);
    assert_int_equal(state_of(world).uid_max, 2);
    assert_true(state_of(world).is_stale);
    assert_false(maildir_memory_has_inbox(world->memory, OTHER));
    /* Once there is room again, all of it works. */
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(mark(world, 3, MAILDIR_CUR, 'S'), 0);
    open_after_kill(world);
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(get(world, 'c', 0).folder, MAILDIR_CUR);
}

/* Of the message in the third place, in a file that nobody has open. */
static void damage_row(const struct world *world)
{
    char path[PATH_MAX];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/%s", world->dir.path, name);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(query_execute(db, "UPDATE mails SET flags = flags + 1 WHERE place & 255 = 3", ""), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A damaged file that cannot be made anew now stays as it is, and is made anew once there is room. */
static void a_full_disk_costs_nothing_of_a_damaged_file(void **state)
{
    struct world *world = *state;
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    uint32_t uidvalidity = state_of(world).uidvalidity;
    maildir_memory_free(world->memory);
    damage_row(world);
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
        else
            open_again(world);
        set_file_limit(64);
        assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
        int of_mark = mark(world, 2, MAILDIR_CUR, 'F');
        set_file_limit(RLIM_INFINITY);
        assert_true(of_mark < 0);
    }
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'F'), 0);
    open_after_kill(world);
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(state_of(world).uidvalidity, uidvalidity);
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_CUR);
    assert_int_equal(get(world, 'b', 0).folder, MAILDIR_CUR);
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

/* Of reads of files, the one that is due fails; 0: none. They take the place of libc's, in SQLite. */
static int fails_in;

static bool must_fail(void)
{
    errno = EIO;
    return fails_in > 0 && --fails_in == 0;
}

static ssize_t failing_read(int fd, void *bytes, size_t len)
{
    return must_fail() ? -1 : read(fd, bytes, len);
}

static ssize_t failing_pread(int fd, void *bytes, size_t len, off_t offset)
{
    return must_fail() ? -1 : pread(fd, bytes, len, offset);
}

static void let_reads_fail(bool is_on)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_syscall_ptr by_read = is_on ? (sqlite3_syscall_ptr)failing_read : NULL;
    sqlite3_syscall_ptr by_pread = is_on ? (sqlite3_syscall_ptr)failing_pread : NULL;
    vfs->xSetSystemCall(vfs, "read", by_read);
    vfs->xSetSystemCall(vfs, "pread", by_pread);
    vfs->xSetSystemCall(vfs, "pread64", by_pread);
}

/* Whichever read of the start fails, once: what is remembered is there at the next start. */
static void a_disk_that_cannot_be_read_for_a_moment_costs_no_mark(void **state)
{
    struct world *world = *state;
    int failed = 0;
    bool did_fail = true;
    assert_int_equal(see(world, letters, 0), 0);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    assert_int_equal(mark(world, (uint32_t)strlen(letters), MAILDIR_CUR, 'F'), 0);
    uint32_t uidvalidity = state_of(world).uidvalidity;
    let_reads_fail(true);
    for (int i = 1; did_fail; i++) {
        maildir_memory_free(world->memory);
        fails_in = i;
        assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
        did_fail = fails_in == 0;
        fails_in = 0;
        failed += did_fail;
        (void)maildir_memory_add_inbox(world->memory, INBOX, "inbox-a");
        (void)mark(world, 2, MAILDIR_CUR, 'R');
        open_again(world);
        assert_int_equal(see(world, letters, 0), 0);
        assert_int_equal(state_of(world).uidvalidity, uidvalidity);
        assert_int_equal(get(world, letters[0], 0).flags, maildir_flag('S'));
        assert_int_equal(get(world, letters[strlen(letters) - 1], 0).flags, maildir_flag('F'));
        assert_int_equal(faccessat(world->dir.fd, "maildir.sqlite3.set-aside", F_OK, 0), -1);
    }
    let_reads_fail(false);
    assert_true(failed >= 3);
}

static void assert_damaged_is_made_anew(struct world *world)
{
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'F'), 0);
    open_again(world);
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_CUR);
    assert_int_equal(get(world, 'b', 0).folder, MAILDIR_CUR);
}

static void open_damaged(struct world *world)
{
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    maildir_memory_free(world->memory);
    damage_row(world);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
}

/* Of one who reads that it is damaged, and does not wait for more. */
static void a_damaged_file_that_a_user_removes_is_made_anew(void **state)
{
    struct world *world = *state;
    open_damaged(world);
    assert_int_equal(unlinkat(world->dir.fd, name, 0), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
    assert_damaged_is_made_anew(world);
}

static void a_damaged_file_that_cannot_be_set_aside_does_not_come_back(void **state)
{
    struct world *world = *state;
    open_damaged(world);
    assert_int_equal(mkdirat(world->dir.fd, "maildir.sqlite3.set-aside", 0700), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
    assert_damaged_is_made_anew(world);
    assert_int_equal(unlinkat(world->dir.fd, "maildir.sqlite3.set-aside", AT_REMOVEDIR), 0);
}

/* A mount that marks a message and dies on the way, of its own accord. */
static void die_while_marking(struct world *world, const char *crash_point)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("INBOXFS_CRASH_AT", crash_point, 1);
        if (maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory) == 0)
            (void)maildir_memory_add_inbox(world->memory, INBOX, "inbox-a");
        (void)mark(world, 2, MAILDIR_CUR, 'F');
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_crash_while_a_damaged_file_is_made_anew_costs_nothing_more(void **state)
{
    struct world *world = *state;
    static const char *const crash_points[] = {"renewed", "refilled", "renewed"};
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(mark(world, 1, MAILDIR_CUR, 'S'), 0);
    uint32_t uidvalidity = state_of(world).uidvalidity;
    maildir_memory_free(world->memory);
    world->memory = NULL;
    damage_row(world);
    for (size_t i = 0; i < ARRAY_LEN(crash_points); i++)
        die_while_marking(world, crash_points[i]);
    open_again(world);
    assert_int_equal(mark(world, 2, MAILDIR_CUR, 'F'), 0);
    assert_int_equal(faccessat(world->dir.fd, "maildir.sqlite3.damaged", F_OK, 0), -1);
    assert_int_equal(faccessat(world->dir.fd, "maildir.sqlite3.set-aside", F_OK, 0), 0);
    open_after_kill(world);
    assert_int_equal(see(world, "abc", 0), 0);
    assert_int_equal(state_of(world).uidvalidity, uidvalidity);
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_CUR);
    assert_int_equal(get(world, 'b', 0).folder, MAILDIR_CUR);
}

/* ---------------------------------------------------------------- version 0.1 */

/* Written by inboxfs 0.1: of inbox-a the emails a to d, of inbox-b one that is z. */
static const char old_path[] = "tests/data/valid/state-0.1/maildir/maildir";

static void read_old(char **ret_bytes, size_t *ret_len)
{
    assert_int_equal(file_read_at(AT_FDCWD, old_path, 1 << 20, ret_bytes, ret_len), 0);
}

/* A mount that finds these bytes, and nothing else. */
static void open_old(struct world *world, const char *bytes, size_t len)
{
    maildir_memory_free(world->memory);
    unlinkat(world->dir.fd, name, 0);
    assert_int_equal(file_replace_at(world->dir.fd, "maildir", bytes, len, 0600), 0);
    fake_clock_advance(&world->clock, 60000);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
}

static void assert_as_in_0_1(struct world *world)
{
    struct maildir_state other;
    struct maildir_mail mail;
    assert_int_equal(state_of(world).uidvalidity, start_ms / 1000);
    assert_int_equal(state_of(world).uid_max, 4);
    assert_int_equal(state_of(world).changed_ns[MAILDIR_NEW], start_ms * NS_PER_MS + 3);
    assert_int_equal(state_of(world).changed_ns[MAILDIR_CUR], start_ms * NS_PER_MS + 2);
    assert_present(world, 1, 2);
    assert_int_equal(see(world, "dcba", 0), 0);
    assert_uid(world, 'a', 1);
    assert_int_equal(get(world, 'a', 0).folder, MAILDIR_CUR);
    assert_int_equal(get(world, 'a', 0).flags, maildir_flag('F') | maildir_flag('S'));
    assert_uid(world, 'b', 2);
    assert_int_equal(get(world, 'b', 0).flags, maildir_flag('x'));
    assert_uid(world, 'c', 3);
    assert_int_equal(get(world, 'c', 0).folder, MAILDIR_NEW);
    assert_int_equal(get(world, 'c', 0).size, 12345678901);
    assert_uid(world, 'd', 4);
    assert_int_equal(maildir_memory_add_inbox(world->memory, OTHER, "inbox-b"), 0);
    assert_true(maildir_memory_get_state(world->memory, OTHER, &other));
    assert_int_equal(other.present[MAILDIR_CUR], 1);
    assert_true(maildir_memory_find_uid(world->memory, OTHER, 1, &mail));
    assert_false(mail.has_info);
}

static void what_version_0_1_remembered_is_taken_over(void **state)
{
    struct world *world = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_old(&bytes, &len);
    open_old(world, bytes, len);
    assert_durable(&world->dir);
    assert_int_equal(faccessat(world->dir.fd, "maildir", F_OK, 0), -1);
    struct left left = read_left(world);
    assert_as_in_0_1(world);
    /* A kill right after it, with and without the old file. */
    for (int with_old = 0; with_old < 2; with_old++) {
        if (with_old)
            assert_int_equal(file_replace_at(world->dir.fd, "maildir", bytes, len, 0600), 0);
        open_left(world, &left, left.log_len);
        assert_as_in_0_1(world);
        assert_int_equal(faccessat(world->dir.fd, "maildir", F_OK, 0), -1);
    }
    free_left(&left);
}

/* A power cut took the new file before the old one went. */
static void what_was_taken_over_in_part_is_taken_over_again(void **state)
{
    struct world *world = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_old(&bytes, &len);
    open_old(world, bytes, len);
    struct left left = read_left(world);
    for (size_t cut = 0; cut < left.log_len; cut += 4096) {
        assert_int_equal(file_replace_at(world->dir.fd, "maildir", bytes, len, 0600), 0);
        open_left(world, &left, cut);
        assert_as_in_0_1(world);
    }
    free_left(&left);
}

static void damage_of_what_0_1_left_costs_what_stood_there(void **state)
{
    struct world *world = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_old(&bytes, &len);
    for (size_t i = 16; i < len; i += 7) {
        bytes[i] ^= 0x55;
        open_old(world, bytes, len);
        bytes[i] ^= 0x55;
        assert_int_equal(see(world, "abcd", 0), 0);
        uint32_t numbers = 0;
        for (char letter = 'a'; letter <= 'd'; letter++)
            numbers |= 1U << get(world, letter, 0).uid;
        assert_int_equal(__builtin_popcount(numbers), 4);
    }
    open_old(world, "not ours at all", 15);
    assert_int_equal(faccessat(world->dir.fd, "maildir.set-aside", F_OK, 0), 0);
    assert_int_equal(see(world, "abcd", 0), 0);
}

/* Nothing is taken over half: without room for it the old file stays, and changes are refused. */
static void what_cannot_be_taken_over_now_is_the_next_time(void **state)
{
    struct world *world = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    struct stat file;
    read_old(&bytes, &len);
    maildir_memory_free(world->memory);
    unlinkat(world->dir.fd, name, 0);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(fstatat(world->dir.fd, log_name, &file, 0), 0);
    maildir_memory_free(world->memory);
    assert_int_equal(file_replace_at(world->dir.fd, "maildir", bytes, len, 0600), 0);
    signal(SIGXFSZ, SIG_IGN);
    set_file_limit(4096);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
    int of_mark = mark(world, 2, MAILDIR_CUR, 'S');
    set_file_limit(RLIM_INFINITY);
    assert_int_equal(of_mark, -EFBIG);
    assert_int_equal(faccessat(world->dir.fd, "maildir", F_OK, 0), 0);
    maildir_memory_free(world->memory);
    assert_int_equal(maildir_memory_open(world->dir.fd, &world->clock.clock, &world->memory), 0);
    assert_int_equal(maildir_memory_add_inbox(world->memory, INBOX, "inbox-a"), 0);
    assert_as_in_0_1(world);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        /* First, for a process looks up once where it is to die. */
        TEST(a_crash_while_a_damaged_file_is_made_anew_costs_nothing_more),
        cmocka_unit_test_setup_teardown(a_large_inbox_that_is_emptied_is_empty, set_up, tear_down),
        TEST(numbers_ascend_in_the_order_of_sight),
        TEST(numbers_and_uidvalidity_are_the_same_in_the_next_mount),
        TEST(what_left_keeps_its_number_and_gets_it_back),
        TEST(what_was_removed_never_comes_back),
        TEST(how_many_each_folder_holds_follows_what_happens),
        TEST(inboxes_count_apart),
        TEST(an_email_without_an_id_has_no_number),
        TEST(marks_survive_a_kill),
        TEST(what_is_not_there_cannot_be_marked),
        TEST(sizes_are_there_in_the_next_mount),
        TEST(folders_change_with_what_changes_in_them),
        TEST(what_leaves_while_a_change_is_written_has_changed_the_folder),
        TEST(what_leaves_and_what_is_marked_do_not_race),
        TEST(a_folder_is_stale_until_it_was_looked_at),
        TEST(a_folder_is_stale_while_it_is_looked_through),
        TEST(a_folder_that_changes_while_it_is_looked_through_is_looked_through_again),
        TEST(a_torn_end_costs_what_was_being_written),
        TEST(a_foreign_file_is_set_aside_and_uidvalidity_is_another),
        TEST(a_file_that_lost_everything_is_told),
        TEST(damage_anywhere_is_survived),
        TEST(many_marks_do_not_pile_up),
        TEST(nothing_changes_that_cannot_be_written),
        TEST(a_full_disk_costs_nothing_of_a_damaged_file),
        TEST(a_disk_that_cannot_be_read_for_a_moment_costs_no_mark),
        TEST(a_damaged_file_that_a_user_removes_is_made_anew),
        TEST(a_damaged_file_that_cannot_be_set_aside_does_not_come_back),
        TEST(what_version_0_1_remembered_is_taken_over),
        TEST(what_was_taken_over_in_part_is_taken_over_again),
        TEST(damage_of_what_0_1_left_costs_what_stood_there),
        TEST(what_cannot_be_taken_over_now_is_the_next_time),
    };
    return cmocka_run_group_tests_name("maildir_memory", tests, NULL, NULL);
}
