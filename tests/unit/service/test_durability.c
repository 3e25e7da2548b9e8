/* SPDX-License-Identifier: MIT */
/*
 * Data is on the disk before its request is answered. The test looks at the calls of fsync()
 * (support/disk.h), because a killed process loses no data that is only in the kernel.
 */
#include "support/disk.h"
#include "unit/service/service_fixture.h"

#include "support/test.h"

TEST_WITH(an_upload_is_synced_before_its_answer, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    disk_forget_syncs();
    char *id = upload(fixture, "a.txt", "text/plain", "bytes", 5, 200);
    char name[64];
    snprintf(name, sizeof(name), "/pool/%s.new", id); /* the file's name until it is synced */
    disk_assert_synced(name);
    disk_assert_synced("/pool");
    disk_assert_synced("/inbox.sqlite3-wal");
    free(id);
}

TEST_WITH(every_change_is_synced_before_its_answer, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    disk_forget_syncs();
    char *inbox = create_inbox(fixture, "ann@inbox.localhost", NULL);
    disk_assert_synced("/inbox.sqlite3-wal");
    disk_forget_syncs();
    free(send_message(fixture, message_to("ann@inbox.localhost", "ann@inbox.localhost", "Durable")));
    disk_assert_synced("/inbox.sqlite3-wal");
    disk_forget_syncs();
    json_t *record = newest_email(fixture, inbox, "");
    char target[200];
    snprintf(target, sizeof(target), "/api/v1/email/%s/mark/true", text_of(record, "id"));
    json_decref(call(fixture, "POST", target, NULL, 200));
    disk_assert_synced("/inbox.sqlite3-wal");
    json_decref(record);
    free(inbox);
}

TEST(the_first_key_is_synced)
{
    struct fixture fixture;
    fixture_make_dir(&fixture);
    disk_forget_syncs();
    fixture_start(&fixture);
    disk_assert_synced("/api-key.new");
    disk_assert_synced("/data");
    fixture_remove(&fixture);
}
