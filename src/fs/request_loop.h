/* SPDX-License-Identifier: MIT */
/*
 * The threads that take requests from the kernel and answer them. Each sleeps on the FUSE device and on an
 * event that ends it, so that they end cleanly, without signals.
 */
#ifndef INBOXFS_FS_REQUEST_LOOP_H
#define INBOXFS_FS_REQUEST_LOOP_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    REQUEST_LOOP_MAX_THREADS = 4,
    REQUEST_LOOP_MAX_WRITE = 1024 * 1024, /* bytes of one write request */
    REQUEST_LOOP_BUFFER_BYTES = REQUEST_LOOP_MAX_WRITE + 4096,
};

struct request_loop {
    struct fuse_session *fuse; /* borrowed */
    int end_fd;                /* readable when the threads are to end; never read */
    pthread_t threads[REQUEST_LOOP_MAX_THREADS];
    unsigned int threads_len;
    bool may_spin;               /* look for the next request for a moment before sleeping */
    atomic_bool is_ending;       /* request_loop_stop() was called */
    atomic_bool is_end_expected; /* the mount may go away without `ended` being called */
    atomic_flag is_spinning;
    atomic_flag has_told;
    void (*ended)(void *context); /* the mount went away: called once at most, by one of the threads */
    void *context;
};

int request_loop_init(struct request_loop *loop, struct fuse_session *fuse, void (*ended)(void *context),
                      void *context);
int request_loop_start(struct request_loop *loop, unsigned int threads);
/* The mount is about to be unmounted by this program: `ended` is not called from now on. */
void request_loop_expect_end(struct request_loop *loop);
/* Ends the threads after the requests that they are at. Idempotent. */
void request_loop_stop(struct request_loop *loop);
void request_loop_release(struct request_loop *loop);

#endif
