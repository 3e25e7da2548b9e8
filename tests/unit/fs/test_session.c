/* SPDX-License-Identifier: MIT */
/*
 * A session that is not mounted; tests/mount has the tests of mounted sessions.
 */
#include "fs/session.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "support/test.h"

static int new_session(const char *options, struct fs_session **ret_session, char **ret_reason)
{
    static struct watch_helper unused_helper;
    const struct fs_session_config config = {.watch_helper = &unused_helper,
                                             .mountpoint = "/nowhere",
                                             .source = "https://inbox.example/a,b\\c",
                                             .mount_options = options};
    return fs_session_new(&config, ret_session, ret_reason);
}

TEST(unknown_mount_options_are_refused_with_a_reason)
{
    static const struct {
        const char *options;
        int error;
        const char *named; /* text that the reason must contain */
    } cases[] = {
        {NULL, 0, NULL},
        {"", 0, NULL},
        {"ro", 0, NULL},
        {"allow_other,noexec", 0, NULL},
        {"bogus", -EINVAL, "-o bogus"},
        {"-", -EINVAL, "-o -"},
        {"ro,bogus=1", -EINVAL, "-o bogus=1"},
    };
    log_set_level(LOG_LEVEL_ERROR);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(cleanup_fs_session_free) struct fs_session *session = NULL;
        _cleanup_free_ char *reason = NULL;
        print_message("# -o %s\n", cases[i].options != NULL ? cases[i].options : "(none)");
        assert_int_equal(new_session(cases[i].options, &session, &reason), cases[i].error);
        assert_int_equal(reason != NULL, cases[i].error != 0);
        if (reason != NULL) {
            assert_non_null(strstr(reason, cases[i].named));
            assert_null(strchr(reason, '\n'));
        }
    }
}

TEST(a_session_that_was_never_mounted_can_be_stopped_twice)
{
    struct fs_session *session = NULL;
    char *reason = NULL;
    assert_int_equal(new_session(NULL, &session, &reason), 0);
    fs_session_stop(session);
    fs_session_stop(session);
    fs_session_free(session);
    fs_session_free(NULL);
}

TEST(mounting_on_a_missing_folder_fails_with_a_reason)
{
    _cleanup_(cleanup_fs_session_free) struct fs_session *session = NULL;
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(new_session(NULL, &session, &reason), 0);
    assert_true(fs_session_mount(session, &reason) < 0);
    assert_non_null(reason);
}

TEST(an_ordinary_folder_is_not_a_dead_mount)
{
    assert_false(fs_mountpoint_is_dead("/"));
    assert_false(fs_mountpoint_is_dead("/nowhere"));
}
