/* SPDX-License-Identifier: MIT */
/*
 * The threads that read the kernel's requests and carry them out. One thread, the *leader*, reads the FUSE
 * device. Each other thread carries out a request, or waits to be called. The leader itself carries out each
 * request that is answered at once (tree_answers_at_once()), and then reads the next: waking another thread
 * costs more than such an answer, and takes a CPU from the calling program. Before any other request the
 * leader calls a waiting thread, or starts one, up to REQUEST_LOOP_THREADS_MAX, and that thread leads from
 * then on. A thread that has carried out its request leads if no thread does; else it waits to be called, or
 * ends if REQUEST_LOOP_WAITING_MAX threads wait already.
 *
 * So a request that waits, for the service, the disk or other requests, has a thread of its own and delays
 * no other request. If all REQUEST_LOOP_THREADS_MAX threads wait, or no thread can be started, new requests
 * stay in the kernel until one ends: requests that wait for the service end by a time-out.
 *
 * The leader sleeps on the FUSE device and on an event that ends it, and each thread that ends calls the
 * next. So threads end without signals, and no thread wakes up periodically.
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
    struct fuse_session *fuse;    /* borrowed */
    int end_fd;                   /* readable when the threads are to end; never read */
    bool may_spin;                /* threads poll for the next request for a moment before they sleep */
    atomic_bool is_ending;        /* request_loop_stop() was called */
    atomic_bool is_end_known;     /* `ended` was called, or the loop's owner unmounts and has set this */
    void (*ended)(void *context); /* the mount went away; called by one of the threads, unless is_end_known */
    void *context;
    pthread_mutex_t lock; /* no other lock is taken under it */
    pthread_cond_t thread_ended;
    sem_t called;         /* posted once for each thread that is to lead */
    unsigned int threads; /* protected by lock, like all below */
    unsigned int waiting; /* number of threads that wait to be called */
    bool is_led;          /* a thread leads, or was called to */
};

/* Return: 0 or -errno. The caller releases the loop in any case. */
int request_loop_init(struct request_loop *loop, struct fuse_session *fuse, void (*ended)(void *context),
                      void *context);
/* Starts the first thread. Return: 0; -EAGAIN or -ENOMEM when no thread can be started; another -errno. */
int request_loop_start(struct request_loop *loop);
/* Waits for the requests under way and for those that the kernel has handed out already, and ends the
 * threads. The caller must have set the requests' cancels before. Idempotent. */
void request_loop_stop(struct request_loop *loop);
void request_loop_release(struct request_loop *loop);

#endif
