/* SPDX-License-Identifier: MIT */
/*
 * The threads that read the kernel's requests and carry them out. One of them, the *leader*, reads the FUSE
 * device; the others carry out a request, or wait to be called. What is answered at once
 * (tree_answers_at_once()) the leader carries out itself and reads on: to wake another thread for it costs
 * more than the answer, and takes a CPU from whoever asks. Before it carries out any other request it calls
 * one that waits, or starts one, up to REQUEST_LOOP_THREADS_MAX: that one leads from then on. So it does in
 * the middle of what is answered at once, too, where that has to wait after all, for a file that is being
 * written (thread_will_wait()). Whoever is done leads if nobody does; else it waits to be called, and ends
 * where REQUEST_LOOP_WAITING_MAX do so already.
 *
 * What may wait for the service (tree_waits_for_service()) needs one of REQUEST_LOOP_SLOTS slots, so that the
 * other threads are left for closes, which barriers and renames wait for, and for what is answered from
 * memory. A request that finds no slot free is set aside, without a thread: its message is copied, and the
 * next thread that is done with its slot carries it out in that slot, the oldest first. While it is set aside
 * it can be interrupted: it is carried out at once then, without a slot, and finds its cancel set. After a
 * signal that only informs (fs/request.h) it waits on, on that thread; so beyond
 * REQUEST_LOOP_WITHOUT_SLOT_MAX such requests stay set aside, and hear of the signal when there is a slot for
 * them. An interrupt may overtake its request, which another thread has read and not set aside yet: so the
 * latest interrupts that found nothing are remembered, and their requests are not set aside.
 *
 * What needs no slot may wait too, for the disk or for other requests, as a barrier does for closes. Few do
 * at a time, since the kernel locks a folder or a file for most of them. Should all threads wait, then
 * requests stay in the kernel until one is done.
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
    REQUEST_LOOP_SLOTS = 64,
    REQUEST_LOOP_WITHOUT_SLOT_MAX = 16,
    REQUEST_LOOP_THREADS_MAX = REQUEST_LOOP_SLOTS + 64,
    REQUEST_LOOP_WAITING_MAX = 8,
    REQUEST_LOOP_EARLY_MAX = 64,          /* interrupts remembered that found nothing set aside, the latest */
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
    sem_t called;                           /* posted once for each thread that is to lead */
    unsigned int threads;                   /* protected by lock, like all below */
    unsigned int waiting;                   /* threads that were not called yet */
    bool is_led;                            /* somebody leads, or was called to */
    unsigned int slots_taken;               /* not 0 while something is set aside */
    unsigned int without_slot;              /* requests carried out that were set aside and interrupted */
    uint64_t early[REQUEST_LOOP_EARLY_MAX]; /* numbers of the requests that these interrupts are for */
    unsigned int earlies;
    struct set_aside *first_aside; /* the oldest */
    struct set_aside **aside_end;
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
