/* SPDX-License-Identifier: MIT */
/*
 * What was closed and not yet released, for the kernel releases a little later: whoever comes in between
 * finds it handed in, and attachments as they were then.
 */
#include "outbox_world.h"

#include <semaphore.h>

#include "base/thread.h"

#define WITH_A "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"

enum {
    WORKERS = 4, /* that have nothing to do, and wait on the clock */
    LONGEST_MS = 2000,
};

/* ---------------------------------------------------------------- changes of an attachment */

struct changing {
    struct world *world;
    int (*change)(struct changing *changing);
    struct outbox_handle *handle; /* open for writing since before */
    pthread_t thread;
    int result;
};

static int open_a(struct changing *changing, int flags, struct outbox_handle **ret_handle)
{
    return open_attached(changing->world, "a.txt", flags, ret_handle);
}

static int write_anew(struct changing *changing)
{
    struct outbox_handle *handle = NULL;
    int error = open_a(changing, O_WRONLY | O_TRUNC, &handle);
    if (error != 0)
        return error;
    outbox_write(handle, "new", 3, 0, 0);
    outbox_flush(handle, 0);
    outbox_release(handle);
    return 0;
}

static int write_on(struct changing *changing)
{
    return outbox_write(changing->handle, "new", 3, 0, 0) == 3 ? 0 : -EIO;
}

static int allocate_more(struct changing *changing)
{
    return outbox_allocate(changing->handle, 0, 0, 1000);
}

static int cut(struct changing *changing)
{
    int error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE; i++) { /* as the kernel does */
        uint64_t number = number_of(changing->world, ATTACHED, "a.txt");
        error = outbox_set_size(changing->world->outbox, number, NULL, 1, 0);
    }
    return error;
}

static int remove_it(struct changing *changing)
{
    return outbox_unlink(changing->world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt");
}

static int rename_it(struct changing *changing)
{
    return move(changing->world, ATTACHED, "a.txt", ATTACHED, "b.txt");
}

static int rename_another_onto_it(struct changing *changing)
{
    return move(changing->world, ATTACHED, "other.txt", ATTACHED, "a.txt");
}

static int move_a_draft_onto_it(struct changing *changing)
{
    return move_in(changing->world, "draft.txt", ATTACHED, "a.txt");
}

static int move_it_to_drafts(struct changing *changing)
{
    int error = outbox_take_out(changing->world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt",
                                changing->world->drafts, "a.txt", 0);
    return error == -EBUSY ? 0 : error; /* a message needs it now */
}

static void *run_change(void *argument)
{
    struct changing *changing = argument;
    changing->result = changing->change(changing);
    return NULL;
}

static struct outbox_handle *close_message(struct world *world)
{
    struct outbox_handle *message = create(world, OUT, "m.eml");
    append(message, WITH_A, 0);
    assert_int_equal(outbox_flush(message, 0), 0);
    return message;
}

static void prepare_files(struct world *world)
{
    copy_in(world, ATTACHED, "a.txt", "old");
    copy_in(world, ATTACHED, "other.txt", "another");
    put_draft(world, "draft.txt", "a draft");
    assert_int_equal(settle_uploads(world), 0);
}

static void expect_old_content_sent(struct world *world)
{
    assert_int_equal(settle(world), 0);
    for (unsigned int i = 0; i < 2; i++) {
        struct fake_record upload = fake_service_get(world->fake, FAKE_UPLOAD, i);
        char id[32];
        snprintf(id, sizeof(id), "\"attachment-%u\"", i + 1);
        assert_int_equal(sent_contains(world, 0, id), strcmp(upload.text, "a.txt") == 0);
    }
}

static const struct {
    const char *what;
    int (*change)(struct changing *changing);
} changes[] = {
    {"open to write anew", write_anew},
    {"write", write_on},
    {"fallocate", allocate_more},
    {"truncate", cut},
    {"rm", remove_it},
    {"mv to another name", rename_it},
    {"mv of another onto it", rename_another_onto_it},
    {"mv of a draft onto it", move_a_draft_onto_it},
    {"mv to drafts", move_it_to_drafts},
};

/* The change begins between the close of a message and its release, and waits for that. */
static void change_after_a_close(struct world *world, struct changing *changing)
{
    struct outbox_handle *message = close_message(world);
    fake_clock_await_waiters(&world->clock, WORKERS);
    assert_int_equal(thread_start(&changing->thread, "change", run_change, changing), 0);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "old"));
    outbox_release(message);
    pthread_join(changing->thread, NULL);
    assert_int_equal(changing->result, 0);
}

static void run_row(struct world *world, int (*change)(struct changing *changing))
{
    struct changing changing = {.world = world, .change = change};
    prepare_files(world);
    if (change == write_on || change == allocate_more)
        assert_int_equal(open_a(&changing, O_WRONLY, &changing.handle), 0);
    change_after_a_close(world, &changing);
    if (changing.handle != NULL)
        finish(changing.handle);
    expect_old_content_sent(world);
}

static void attachments_change_after_messages_that_were_closed_before(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        void *own;
        print_message("# %s\n", changes[i].what);
        world_setup(&own);
        run_row(own, changes[i].change);
        world_teardown(&own);
    }
}

/* The same where the service has not taken the attachment yet. */
static void what_waits_for_its_upload_changes_after_messages_that_were_closed_before(void **state)
{
    struct world *world = *state;
    struct changing changing = {.world = world, .change = write_anew};
    fake_service_set_reachable(world->fake, false);
    copy_in(world, ATTACHED, "a.txt", "the old one");
    assert_int_equal(settle_uploads(world), -EAGAIN);
    await_paused(world, true);
    change_after_a_close(world, &changing);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "new"));
}

/* A shell keeps its descriptor, and closes duplicates. */
static void nobody_waits_long_for_a_file_that_stays_open(void **state)
{
    struct world *world = *state;
    struct changing changing = {.world = world, .change = write_anew};
    prepare_files(world);
    struct outbox_handle *message = close_message(world);
    fake_clock_await_waiters(&world->clock, WORKERS);
    assert_int_equal(thread_start(&changing.thread, "change", run_change, &changing), 0);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    fake_clock_advance(&world->clock, LONGEST_MS);
    pthread_join(changing.thread, NULL);
    assert_int_equal(changing.result, 0);
    /* And nobody waits for it again, until it is closed once more. */
    assert_int_equal(write_anew(&changing), 0);
    assert_int_equal(settle(world), 0);
    append(message, " ", sizeof(WITH_A) - 1);
    finish(message);
    assert_int_equal(settle(world), 0);
}

static void nobody_waits_for_what_is_closed_later(void **state)
{
    struct world *world = *state;
    struct changing changing = {.world = world, .change = write_anew};
    prepare_files(world);
    struct outbox_handle *message = close_message(world);
    fake_clock_await_waiters(&world->clock, WORKERS);
    assert_int_equal(thread_start(&changing.thread, "change", run_change, &changing), 0);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    struct outbox_handle *later = create(world, OUT, "later.eml");
    append(later, MESSAGE, 0);
    assert_int_equal(outbox_flush(later, 0), 0);
    outbox_release(message);
    pthread_join(changing.thread, NULL);
    assert_int_equal(changing.result, 0);
    outbox_release(later);
    assert_int_equal(settle(world), 0);
}

/* ---------------------------------------------------------------- the file itself */

static void *open_message(void *argument)
{
    struct changing *changing = argument;
    uint64_t number = number_of(changing->world, OUT, "m.eml");
    changing->result = outbox_open_item(changing->world->outbox, number, OUTBOX_CONTENT, O_WRONLY | O_TRUNC,
                                        0, &changing->handle);
    return NULL;
}

static void what_was_closed_is_handed_in_before_it_is_opened_again(void **state)
{
    struct world *world = *state;
    struct changing changing = {.world = world};
    struct outbox_handle *message = create(world, OUT, "m.eml");
    append(message, MESSAGE, 0);
    assert_int_equal(outbox_flush(message, 0), 0);
    fake_service_close_gate(world->fake, FAKE_SEND);
    fake_clock_await_waiters(&world->clock, WORKERS);
    assert_int_equal(thread_start(&changing.thread, "open", open_message, &changing), 0);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    outbox_release(message);
    pthread_join(changing.thread, NULL);
    assert_int_equal(changing.result, -EBUSY);
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), 0);
    assert_true(sent_contains(world, 0, "Hello"));
}

/* ---------------------------------------------------------------- a slow disk */

/* Holds up the hand-in of a message. */
struct holding {
    sem_t has_begun;
    sem_t may_end;
};

static int find_sender_slowly(void *context, const char *address, char **ret_address)
{
    struct holding *holding = context;
    sem_post(&holding->has_begun);
    sem_wait(&holding->may_end);
    return world_find_sender(NULL, address, ret_address);
}

static void *run_release(void *argument)
{
    outbox_release(argument);
    return NULL;
}

static void a_hand_in_that_has_begun_is_waited_for_as_long_as_it_takes(void **state)
{
    struct world *world = *state;
    struct changing changing = {.world = world, .change = write_anew};
    struct holding holding;
    pthread_t releasing;
    sem_init(&holding.has_begun, 0, 0);
    sem_init(&holding.may_end, 0, 0);
    world->config.senders = (struct sender_directory){find_sender_slowly, &holding};
    world_reopen(world);
    prepare_files(world);
    struct outbox_handle *message = close_message(world);
    assert_int_equal(thread_start(&releasing, "release", run_release, message), 0);
    sem_wait(&holding.has_begun);
    fake_clock_advance(&world->clock, LONGEST_MS);
    assert_int_equal(thread_start(&changing.thread, "change", run_change, &changing), 0);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    sem_post(&holding.may_end);
    pthread_join(releasing, NULL);
    pthread_join(changing.thread, NULL);
    assert_int_equal(changing.result, 0);
    expect_old_content_sent(world);
    sem_destroy(&holding.has_begun);
    sem_destroy(&holding.may_end);
}

/* ---------------------------------------------------------------- during an upload */

static struct world *begin_upload(void **ret_own)
{
    world_setup(ret_own);
    struct world *world = *ret_own;
    copy_in(world, ATTACHED, "other.txt", "another");
    put_draft(world, "draft.txt", "a draft");
    assert_int_equal(settle_uploads(world), 0);
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    copy_in(world, ATTACHED, "a.txt", "old");
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    return world;
}

static int write_first(struct changing *changing)
{
    int error = open_a(changing, O_WRONLY, &changing->handle);
    if (error == 0)
        error = write_on(changing);
    if (changing->handle != NULL)
        finish(changing->handle);
    return error;
}

static void an_upload_is_called_off_by_who_changes_the_file(void **state)
{
    static const struct {
        const char *what;
        int (*change)(struct changing *changing);
        const char *name; /* that it is uploaded under afterwards; NULL: it is not */
        size_t len;
    } rows[] = {
        {"written anew", write_anew, "a.txt", 3},
        {"written", write_first, "a.txt", 3},
        {"cut", cut, "a.txt", 1},
        {"removed", remove_it, NULL, 0},
        {"renamed", rename_it, "b.txt", 3},
        {"another onto it", rename_another_onto_it, "a.txt", 7},
        {"a draft onto it", move_a_draft_onto_it, "a.txt", 7},
        {"to drafts", move_it_to_drafts, NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        void *own;
        struct world *world = begin_upload(&own);
        struct changing changing = {.world = world, .change = rows[i].change};
        print_message("# %s\n", rows[i].what);
        assert_int_equal(rows[i].change(&changing), 0);
        assert_true(fake_service_get(world->fake, FAKE_UPLOAD, 1).was_cancelled);
        fake_service_open_gate(world->fake, FAKE_UPLOAD);
        assert_int_equal(settle_uploads(world), 0);
        assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), rows[i].name == NULL ? 2 : 3);
        if (rows[i].name != NULL) {
            struct fake_record upload = fake_service_get(world->fake, FAKE_UPLOAD, 2);
            assert_string_equal(upload.text, rows[i].name);
            assert_int_equal(upload.len, rows[i].len);
        }
        world_teardown(&own);
    }
}

static void a_message_gets_the_content_whose_upload_was_called_off(void **state)
{
    struct world *world = *state;
    struct changing changing = {.world = world};
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    copy_in(world, ATTACHED, "a.txt", "first");
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(write_anew(&changing), 0);
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(settle(world), 0);
    assert_int_equal(settle_uploads(world), 0);
    size_t len = 0;
    unsigned int whole = 0; /* the copy's may have begun, too, before it was written to */
    for (unsigned int i = 0; i < fake_service_count(world->fake, FAKE_UPLOAD); i++) {
        struct fake_record upload = fake_service_get(world->fake, FAKE_UPLOAD, i);
        len += upload.was_cancelled ? 0 : upload.len;
        whole += upload.was_cancelled ? 0 : 1;
    }
    assert_int_equal(whole, 2);
    assert_int_equal(len, strlen("first") + 3);
    _cleanup_free_ char *receipt = read_shown(world, ATTACHED, "a.txt.receipt.json");
    char *id = strstr(receipt, "\"attachment-");
    assert_non_null(id);
    id[strcspn(id, ",")] = '\0';
    assert_true(sent_contains(world, 0, "\"attachment-"));
    assert_false(sent_contains(world, 0, id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attachments_change_after_messages_that_were_closed_before),
        WORLD_TEST(what_waits_for_its_upload_changes_after_messages_that_were_closed_before),
        WORLD_TEST(nobody_waits_long_for_a_file_that_stays_open),
        WORLD_TEST(nobody_waits_for_what_is_closed_later),
        WORLD_TEST(what_was_closed_is_handed_in_before_it_is_opened_again),
        WORLD_TEST(a_hand_in_that_has_begun_is_waited_for_as_long_as_it_takes),
        cmocka_unit_test(an_upload_is_called_off_by_who_changes_the_file),
        WORLD_TEST(a_message_gets_the_content_whose_upload_was_called_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
