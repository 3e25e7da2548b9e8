/* SPDX-License-Identifier: MIT */
/*
 * The answer to FUSE_INIT, by libfuse, with a socket in place of the FUSE device.
 */
#include "fs/init_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>

enum {
    UNIQUE = 7,
    SHARED_MAPPINGS = 1 << 4,
};

static struct fuse_session *fuse;
static bool must_notify;

/* As the notifier may, at the moment before libfuse answers. */
static void notify(void *context, struct fuse_conn_info *connection)
{
    (void)context, (void)connection;
    if (must_notify)
        assert_int_equal(0, fuse_lowlevel_notify_inval_inode(fuse, FUSE_ROOT_ID, 0, 0));
}

static void carry_out(unsigned int flags2)
{
    struct {
        struct fuse_in_header header;
        struct fuse_init_in body;
    } message = {
        .header = {.len = sizeof(message), .opcode = FUSE_INIT, .unique = UNIQUE},
        .body = {.major = FUSE_KERNEL_VERSION, .minor = 36, .flags = FUSE_INIT_EXT, .flags2 = flags2},
    };
    init_reply_carry_out(fuse, (char *)&message, sizeof(message));
}

static const struct {
    const char *what;
    unsigned int flags2;
    bool must_notify;
} cases[] = {
    {"a kernel that can", SHARED_MAPPINGS, false},
    {"a kernel that can, and a notification meanwhile", SHARED_MAPPINGS, true},
    {"a kernel that cannot", 0, false},
};

static void the_answer_reaches_the_kernel(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct fuse_lowlevel_ops operations = {.init = notify};
        char name[] = "inboxfs";
        char *argv[] = {name, NULL};
        struct fuse_args args = FUSE_ARGS_INIT(1, argv);
        struct {
            struct fuse_out_header header;
            struct fuse_init_out body;
        } answer = {.header = {.len = 0}};
        char mountpoint[32];
        int ends[2];
        assert_int_equal(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
        snprintf(mountpoint, sizeof(mountpoint), "/dev/fd/%d", ends[1]);
        fuse = fuse_session_new(&args, &operations, sizeof(operations), NULL);
        assert_non_null(fuse);
        assert_int_equal(0, fuse_session_mount(fuse, mountpoint));
        must_notify = cases[i].must_notify;
        carry_out(cases[i].flags2);
        if (recv(ends[0], &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer) ||
            answer.header.unique != UNIQUE)
            fail_msg("%s: no answer", cases[i].what);
        assert_int_equal(cases[i].flags2, answer.body.flags2 & SHARED_MAPPINGS);
        fuse_session_destroy(fuse);
        fuse_opt_free_args(&args);
        close(ends[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_reaches_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
