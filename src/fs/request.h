/* SPDX-License-Identifier: MIT */
/*
 * A request of the kernel while it is carried out: its caller, its cancel, and its one answer.
 *
 * A request is carried out, and waits, on the thread that read it. Between request_begin() and request_end()
 * it is in a list and has a cancel. The kernel's interrupt (a signal for the calling program) sets the
 * cancel, and so does request_list_close(). After request_end() one of the reply functions answers the
 * request, exactly once; the kernel does not use the request's number again before that.
 *
 * The kernel interrupts for any signal, and a program does not restart a call that was answered EINTR. A
 * signal that only informs a program, such as the end of a shell's background job, must not make its `echo
 * sync >ctl` fail. So an interrupt sets the cancel only if a signal is pending that a program does not
 * ignore by default. Otherwise a thread checks again from time to time, for the kernel does not report a
 * second signal.
 */
#ifndef INBOXFS_FS_REQUEST_H
#define INBOXFS_FS_REQUEST_H

#include <fuse_lowlevel.h>
#include <glib.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/thread.h"
#include "base/wait.h"
#include "tree/tree.h"

struct request_list {
    pthread_mutex_t lock; /* taken after libfuse's lock of a request, before the lock of a cancel */
    pthread_cond_t changed;
    struct worker_pool *pool; /* has one thread, which checks for signals */
    struct worker_job check;  /* the job of `pool` */
    GQueue requests;          /* struct fs_request; protected by lock, like all below */
    bool is_closed;
    bool is_checking; /* `check` was handed in and has not ended */
};

struct fs_request {
    struct tree_caller caller; /* for calls of the tree */
    struct cancel cancel;
    struct request_list *list;
    fuse_req_t fuse;
    bool is_informed; /* a signal that only informs (SIGCHLD) interrupted it; protected by the list's lock,
                         like all below */
    GList link;       /* element of list->requests */
};

/* Return: 0 or -errno. The caller releases the list in any case. */
int request_list_init(struct request_list *list);
/* Sets the cancels of all requests, including those that begin later. */
void request_list_close(struct request_list *list);
/* Call when no request is left, and also after request_list_init() failed. */
void request_list_release(struct request_list *list);

/* `request` must stay valid until request_end(), and `fuse` until it is answered. request_begin() does not
 * wait. request_end() waits for an interrupt that is being delivered; it returns `fuse`, which the caller
 * answers next. */
void request_begin(struct fs_request *request, struct request_list *list, fuse_req_t fuse);
fuse_req_t request_end(struct fs_request *request);

/* Returns true if all signals that are pending for the task (a thread's id) are of the kind that is ignored
 * by default: SIGCHLD, SIGCONT, SIGURG, SIGWINCH. Returns true if none is pending: another thread of the
 * program took the signal, or the kernel woke the task for a reason of its own. Returns false if /proc does
 * not show the signals. */
bool request_signals_only_inform(pid_t task);

/* ---------------------------------------------------------------- answers */

/* Answers with `error` (0 or -errno); the one place that converts it to the kernel's errno. */
void reply_status(fuse_req_t fuse, int error);
/* The functions below answer with `error` if it is not 0. If the kernel does not accept the answer because
 * the request was interrupted, they give back the entry's lookup and release what was opened. */
void reply_entry(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry);
void reply_open(fuse_req_t fuse, int error, struct tree_handle *handle);
void reply_open_dir(fuse_req_t fuse, int error, struct tree_dir *dir);
void reply_create(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry,
                  struct tree_handle *handle, struct fuse_file_info *file);
void reply_attributes(fuse_req_t fuse, const struct tree *tree, int error,
                      const struct tree_attributes *attributes);
/* Answers a read, and releases the data. */
void reply_data(fuse_req_t fuse, int error, struct tree_data *data);
/* Answers a write; `count` is a number of bytes or -errno. */
void reply_count(fuse_req_t fuse, ssize_t count);

/* Converts an entry to the kernel's form, with the owner and mode of tree_show_as(). */
struct fuse_entry_param request_convert_entry(const struct tree *tree, const struct tree_entry *entry);

#endif
