/* SPDX-License-Identifier: MIT */
/*
 * The threads that read the kernel's requests and carry them out. One of them, the *leader*, reads the FUSE
 * device; the others carry out a request, or wait to be called. What is answered at once
 * (tree_answers_at_once()) the leader carries out itself and reads on: to wake another thread for it costs
 * more than the answer, and takes a CPU from whoever asks. Before it carries out any other request it calls
 * one that waits, or starts one, up to REQUEST_LOOP_THREADS_MAX: that one leads from then on. Whoever is done
 * leads if nobody does; else it waits to be called, and ends where REQUEST_LOOP_WAITING_MAX do so already.
 *
 * So a request that waits, for the service, the disk or other requests, has a thread of its own, and holds up
 * none. Should all REQUEST_LOOP_THREADS_MAX wait, or no thread be had, then requests stay in the kernel until
 * one is done: what waits for the service ends by a time-out.
 *
 * The leader sleeps on the FUSE device and on an event that ends it, and whoever ends calls the next: so
 * threads end cleanly, without signals; and none wakes by the clock.
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
    REQUEST_LOOP_MAX_WRITE = 1024 * 1024, /* bytes of one write request */
};

struct request_loop {
    struct fuse_session *fuse;   /* borrowed */
    int end_fd;                  /* readable when the threads are to end; never read */
    bool may_spin;               /* look for the next request for a moment before sleeping */
    atomic_bool is_ending;       /* request_loop_stop() was called */
    atomic_bool is_end_expected; /* the mount may go away without `ended` being called */
    atomic_flag is_end_reported;
    void (*ended)(void *context); /* the mount went away: called once at most, by one of the threads */
    void *context;
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t thread_ended;
    sem_t called;         /* posted once for each thread that is to lead */
    unsigned int threads; /* protected by lock, like all below */
    unsigned int waiting; /* threads that were not called yet */
    bool is_led;          /* somebody leads, or was called to */
};

/* 0 or -errno; to be released in any case. */
int request_loop_init(struct request_loop *loop, struct fuse_session *fuse, void (*ended)(void *context),
                      void *context);
/* Starts the first threads. 0 or -errno. */
int request_loop_start(struct request_loop *loop);
/* The mount is about to be unmounted by this program: `ended` is not called from now on. */
void request_loop_expect_end(struct request_loop *loop);
/* Waits for the requests under way and for those that the kernel has handed out already, and ends the
 * threads. Their waits must have been cut short before. Idempotent. */
void request_loop_stop(struct request_loop *loop);
void request_loop_release(struct request_loop *loop);

#endif
