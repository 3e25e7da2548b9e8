/* SPDX-License-Identifier: MIT */
/*
 * What is answered is on the disk before: looked at where the program and its libraries ask the system for
 * it, for a killed process loses nothing that only a power cut would.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "unit/service/service_fixture.h"

enum {
    SYNCED_MAX = 1000,
    PATH_BYTES = 400,
};

/* What was synced since the last look, in order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char synced[SYNCED_MAX][PATH_BYTES];
static size_t synced_len;

static void record(int fd)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    pthread_mutex_lock(&lock);
    if (synced_len < SYNCED_MAX) {
        ssize_t len = readlink(link, synced[synced_len], PATH_BYTES - 1);
        if (len > 0)
            synced[synced_len++][len] = '\0';
    }
    pthread_mutex_unlock(&lock);
}

/* These stand before the C library's, for SQLite too. */
int fsync(int fd)
{
    int result = (int)syscall(SYS_fsync, fd);
    if (result == 0)
        record(fd);
    return result;
}

int fdatasync(int fd)
{
    int result = (int)syscall(SYS_fdatasync, fd);
    if (result == 0)
        record(fd);
    return result;
}

static void forget(void)
{
    pthread_mutex_lock(&lock);
    synced_len = 0;
    pthread_mutex_unlock(&lock);
}

static void assert_synced(const char *end)
{
    pthread_mutex_lock(&lock);
    bool is_found = false;
    for (size_t i = 0; i < synced_len; i++) {
        size_t len = strlen(synced[i]);
        is_found |= len >= strlen(end) && strcmp(synced[i] + len - strlen(end), end) == 0;
    }
    pthread_mutex_unlock(&lock);
    if (!is_found)
        fail_msg("%s was not synced", end);
}

static void an_upload_is_on_the_disk(void **state)
{
    const struct fixture *fixture = *state;
    forget();
    char *id = upload(fixture, "a.txt", "text/plain", "bytes", 5, 200);
    char name[64];
    snprintf(name, sizeof(name), "/pool/%s", id);
    assert_synced(name);
    assert_synced("/pool");
    assert_synced("/inbox.sqlite3-wal");
    free(id);
}

static void whatever_changes_is_on_the_disk(void **state)
{
    const struct fixture *fixture = *state;
    forget();
    char *inbox = create_inbox(fixture, "ann@inbox.localhost", NULL);
    assert_synced("/inbox.sqlite3-wal");
    forget();
    free(send_message(fixture, message_to("ann@inbox.localhost", "ann@inbox.localhost", "Durable")));
    assert_synced("/inbox.sqlite3-wal");
    forget();
    json_t *record = newest_email(fixture, inbox, "");
    char target[200];
    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/true", text_of(record, "id"));
    json_decref(call(fixture, "POST", target, NULL, 200));
    assert_synced("/inbox.sqlite3-wal");
    json_decref(record);
    free(inbox);
}

static void the_first_key_is_on_the_disk(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_make_dir(&fixture);
    forget();
    fixture_start(&fixture, SERVICE_TIER_NONE);
    assert_synced("/api-key.new");
    assert_synced("/data");
    fixture_remove(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_upload_is_on_the_disk, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(whatever_changes_is_on_the_disk, fixture_set_up, fixture_tear_down),
        cmocka_unit_test(the_first_key_is_on_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
