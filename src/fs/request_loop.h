/* SPDX-License-Identifier: MIT */
/*
 * The threads that read the kernel's requests and carry them out. One thread, the *leader*, reads the FUSE
 * device. It carries out requests that are mostly answered at once (tree_answers_at_once()) itself: waking
 * another thread costs more than such an answer, and takes a CPU from the calling program. Before any other
 * request, or before one of these has to wait (request_hands_over()), the leader hands its lead over to a
 * waiting thread, or to a new one, up to REQUEST_LOOP_THREADS_MAX. After its request a thread leads if no
 * other thread does; else it waits to lead, or ends if REQUEST_LOOP_WAITING_MAX threads wait already.
 *
 * So a request that waits, for the service, a write to the disk or other requests, delays no other request.
 * If no further thread can be started, new requests stay in the kernel until a request under way ends.
 *
 * At the end an eventfd wakes the leader, and each thread that ends hands the lead over to the next. So
 * threads end without signals, and no thread wakes up periodically. If another program has ended the mount,
 * or the device has failed, a thread sends SIGTERM to the process, whose main thread then stops the loop.
 */
#ifndef INBOXFS_FS_REQUEST_LOOP_H
#define INBOXFS_FS_REQUEST_LOOP_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    REQUEST_LOOP_THREADS_MAX = 1200,
    REQUEST_LOOP_WAITING_MAX = 8,
    REQUEST_LOOP_MAX_WRITE = 1024 * 1024, /* size in bytes of the largest write request */
};

struct request_loop {
    struct fuse_session *fuse; /* borrowed */
    int end_fd;                /* eventfd; readable from the end on, since no thread reads it */
    bool may_spin;             /* there are several CPUs: threads poll for SPIN_NS before they sleep */
    atomic_bool is_ending;     /* request_loop_stop() was called */
    atomic_bool is_end_known;  /* SIGTERM was sent; or the loop's owner has set this, since it unmounts */
    pthread_mutex_t lock;      /* no other lock is taken under it */
    pthread_cond_t thread_ended;
    sem_t called;            /* posted once for each hand-over */
    atomic_uintptr_t leader; /* pthread_self() of the thread that carries out a request as leader, or 0 */
    unsigned int threads;    /* protected by `lock`, like all below */
    unsigned int waiting;    /* number of threads that wait to lead */
    bool is_led;             /* a thread leads, or has been called to lead */
};

/* Return: 0 or -errno. The caller releases the loop in any case. */
int request_loop_init(struct request_loop *loop, struct fuse_session *fuse);
/* Starts the first thread. Return: 0 or -errno. */
int request_loop_start(struct request_loop *loop);
/* Returns true if the calling thread carries out its request as leader. */
bool request_loop_is_led_by_caller(const struct request_loop *loop);
/* Lets another thread lead, so that the calling thread, the leader, may wait. */
void request_loop_hand_over(struct request_loop *loop);
/* Waits until the requests under way and those in the device are answered, and ends the threads. The caller
 * must have set the cancels of all requests. Idempotent. */
void request_loop_stop(struct request_loop *loop);
void request_loop_release(struct request_loop *loop);

#endif
