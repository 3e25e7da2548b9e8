/* SPDX-License-Identifier: MIT */
/*
 * The threads of the request loop, without a mount: this file replaces the functions of libfuse that the
 * loop calls, and a socket replaces the FUSE device.
 */
#include "fs/request_loop.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/fuse.h>

#include "base/cleanup.h"
#include "support/test.h"
#include "tree/tree.h"

enum {
    NUMBERS_MAX = REQUEST_LOOP_THREADS_MAX + 10,
    WAIT_S = 60,
};

/* Replaces the FUSE device. All requests except interrupts wait until `is_open`. */
struct device {
    int ends[2]; /* the two ends of the socket: the test's, and the loop's */
    pthread_mutex_t lock;
    pthread_cond_t arrived; /* signals a change of has_arrived */
    pthread_cond_t opened;
    bool is_open; /* protected by `lock`, like all below */
    bool has_arrived[NUMBERS_MAX];
};

static struct device device;

int fuse_session_fd(struct fuse_session *session)
{
    return device.ends[1];
}

void fuse_session_exit(struct fuse_session *session)
{
}

void fuse_session_process_buf(struct fuse_session *session, const struct fuse_buf *buffer)
{
    struct fuse_in_header header;
    memcpy(&header, buffer->mem, sizeof(header));
    pthread_mutex_lock(&device.lock);
    device.has_arrived[header.unique] = true;
    pthread_cond_broadcast(&device.arrived);
    while (header.opcode != FUSE_INTERRUPT && !device.is_open)
        pthread_cond_wait(&device.opened, &device.lock);
    pthread_mutex_unlock(&device.lock);
}

static bool wait_for_request(uint64_t unique)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    int error = 0;
    pthread_mutex_lock(&device.lock);
    while (!device.has_arrived[unique] && error == 0)
        error = pthread_cond_timedwait(&device.arrived, &device.lock, &until);
    bool has_arrived = device.has_arrived[unique];
    pthread_mutex_unlock(&device.lock);
    return has_arrived;
}

/* Returns a node whose requests are answered at once. */
static uint64_t find_node_that_never_waits(void)
{
    uint64_t ino = TREE_ROOT_INO;
    while (!tree_answers_at_once(ino))
        ino++;
    return ino;
}

static void send_message(uint64_t unique, uint32_t opcode, uint64_t ino)
{
    const struct {
        struct fuse_in_header header;
        struct fuse_getattr_in body;
    } message = {.header = {.len = sizeof(message), .opcode = opcode, .unique = unique, .nodeid = ino}};
    assert_int_equal(send(device.ends[0], &message, sizeof(message), 0), sizeof(message));
}

static void send_interrupt(uint64_t unique, uint64_t interrupted)
{
    const struct {
        struct fuse_in_header header;
        struct fuse_interrupt_in body;
    } message = {.header = {.len = sizeof(message), .opcode = FUSE_INTERRUPT, .unique = unique},
                 .body = {.unique = interrupted}};
    assert_int_equal(send(device.ends[0], &message, sizeof(message), 0), sizeof(message));
}

static int start(void **state)
{
    static struct request_loop loop;
    device = (struct device){.is_open = false};
    pthread_mutex_init(&device.lock, NULL);
    pthread_cond_init(&device.arrived, NULL);
    pthread_cond_init(&device.opened, NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, device.ends) != 0 ||
        request_loop_init(&loop, NULL) != 0 || request_loop_start(&loop) != 0)
        return -1;
    *state = &loop;
    return 0;
}

static void open_gate(void)
{
    pthread_mutex_lock(&device.lock);
    device.is_open = true;
    pthread_cond_broadcast(&device.opened);
    pthread_mutex_unlock(&device.lock);
}

static int stop(void **state)
{
    struct request_loop *loop = *state;
    open_gate();
    request_loop_stop(loop);
    request_loop_release(loop);
    pthread_cond_destroy(&device.arrived);
    pthread_cond_destroy(&device.opened);
    pthread_mutex_destroy(&device.lock);
    close(device.ends[0]);
    close(device.ends[1]);
    return 0;
}

static unsigned int count_threads(struct request_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    unsigned int threads = loop->threads;
    pthread_mutex_unlock(&loop->lock);
    return threads;
}

TEST_WITH(requests_that_never_wait_take_one_thread, start, stop)
{
    struct request_loop *loop = *state;
    open_gate();
    for (uint64_t unique = 1; unique <= 100; unique++)
        send_message(unique, unique % 2 == 0 ? FUSE_OPEN : FUSE_RELEASE, find_node_that_never_waits());
    assert_true(wait_for_request(100));
    assert_int_equal(count_threads(loop), 1);
}

TEST_WITH(a_waiting_request_does_not_delay_others, start, stop)
{
    struct request_loop *loop = *state;
    uint64_t unique = 0;
    while (unique < 3 * REQUEST_LOOP_WAITING_MAX) {
        send_message(++unique, FUSE_FSYNCDIR, TREE_ROOT_INO);
        assert_true(wait_for_request(unique));
    }
    send_message(++unique, FUSE_GETATTR, find_node_that_never_waits());
    assert_true(wait_for_request(unique));
    open_gate();
    for (int i = 0; count_threads(loop) > REQUEST_LOOP_WAITING_MAX + 1 && i < WAIT_S * 1000; i++)
        usleep(1000);
    assert_in_range(count_threads(loop), 1, REQUEST_LOOP_WAITING_MAX + 1);
    send_message(++unique, FUSE_FSYNCDIR, TREE_ROOT_INO);
    assert_true(wait_for_request(unique));
}

TEST_WITH(requests_beyond_the_thread_maximum_are_carried_out_later, start, stop)
{
    uint64_t unique = 0;
    while (unique < REQUEST_LOOP_THREADS_MAX) {
        send_message(++unique, FUSE_FSYNCDIR, TREE_ROOT_INO);
        assert_true(wait_for_request(unique));
    }
    send_message(++unique, FUSE_FSYNCDIR, TREE_ROOT_INO);
    open_gate();
    assert_true(wait_for_request(unique));
}

TEST_WITH(an_interrupt_is_handled_while_its_request_waits, start, stop)
{
    send_message(1, FUSE_FSYNCDIR, TREE_ROOT_INO);
    assert_true(wait_for_request(1));
    send_interrupt(2, 1);
    assert_true(wait_for_request(2));
}
