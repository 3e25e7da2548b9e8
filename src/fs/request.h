/* SPDX-License-Identifier: MIT */
/*
 * A request of the kernel while it is carried out: its caller, its cancel, and its one answer.
 *
 * A request is carried out, and waits, on the thread that read it. Between request_begin() and request_end()
 * it is in a list and has a cancel. The kernel's interrupt (a signal for the calling program) sets the
 * cancel, and so does request_list_close(). After request_end() one of the reply functions answers the
 * request, exactly once.
 *
 * The kernel interrupts a request when any signal arrives, and a call that fails with EINTR is not restarted.
 * A signal that only informs, such as SIGCHLD at the end of a shell's background job, must not make the
 * shell's `echo sync >ctl` fail. So an interrupt by such a signal does not set the cancel. A thread then
 * checks the pending signals periodically, since the kernel reports only the first signal.
 */
#ifndef INBOXFS_FS_REQUEST_H
#define INBOXFS_FS_REQUEST_H

#include <fuse_lowlevel.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/thread.h"
#include "base/wait.h"
#include "fs/request_loop.h"
#include "tree/tree.h"

struct request_list {
    struct request_loop *loop; /* borrowed; its threads carry the requests out */
    struct cancel is_set;      /* set from the start */
    pthread_mutex_t lock;      /* taken after libfuse's lock of a request, before the lock of a cancel */
    pthread_cond_t changed;
    struct worker_pool *pool; /* has one thread */
    struct worker_job check;  /* checks the pending signals; runs in `pool` */
    GQueue requests;          /* struct fs_request; protected by `lock`, like all below */
    bool is_closed;
    bool is_checking; /* `check` is queued or runs */
};

struct fs_request {
    struct tree_caller caller; /* argument for calls of the tree */
    struct cancel cancel;
    struct request_list *list;
    fuse_req_t fuse;
    bool is_informed; /* only informing signals interrupted it; protected by list->lock, like `link` */
    GList link;       /* element of list->requests */
};

void request_list_init(struct request_list *list, struct request_loop *loop);
/* Sets the cancels of all requests, including those that begin later. */
void request_list_close(struct request_list *list);
/* No request may be left. */
void request_list_release(struct request_list *list);

/* `request` must stay valid until request_end(). request_end() waits for an interrupt that is being
 * delivered, and returns `fuse`, which the caller answers next. */
void request_begin(struct fs_request *request, struct request_list *list, fuse_req_t fuse);
fuse_req_t request_end(struct fs_request *request);

/* The leader (request_loop.h) begins a request with a cancel that is set, so that a call of the tree which
 * would wait returns -EINTR. Returns true if `error` is that: another thread now leads, and the caller
 * repeats the call, which may wait. */
bool request_hands_over(struct fs_request *request, int error);

/* Returns true if no signal but SIGCHLD, SIGCONT, SIGURG and SIGWINCH is pending for the task (a thread's
 * id). Returns true also if none at all is pending: another thread of the program took the signal, or the
 * kernel woke the task for a reason of its own. Returns false if the task's status in /proc is unreadable. */
bool request_signals_only_inform(pid_t task);

/* ---------------------------------------------------------------- answers */

/* Answers with `error` (0 or -errno); the one place that converts it to the kernel's errno. */
void reply_status(fuse_req_t fuse, int error);
/* The functions below answer with `error` if it is not 0. If the kernel does not accept the answer because
 * the request was interrupted, they forget the lookup of the entry and release what was opened. */
void reply_entry(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry);
void reply_open(fuse_req_t fuse, int error, struct tree_handle *handle);
void reply_create(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry,
                  struct tree_handle *handle, struct fuse_file_info *file);
void reply_attributes(fuse_req_t fuse, const struct tree *tree, int error,
                      const struct tree_attributes *attributes);
/* Answers a read, and releases the data. */
void reply_data(fuse_req_t fuse, int error, struct tree_data *data);

/* Converts an entry to libfuse's form, with the owner and mode of tree_show_as(). */
struct fuse_entry_param request_convert_entry(const struct tree *tree, const struct tree_entry *entry);

#endif
