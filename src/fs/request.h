/* SPDX-License-Identifier: MIT */
/*
 * A request of the kernel while it is carried out: who makes it, how its waiting is cut short, and its one
 * answer.
 *
 * A request is carried out on the thread that read it, and waits there where it must. Between request_begin()
 * and request_end() it is in a list, and has a cancel, which is set by the kernel's interrupt (a signal for
 * whoever waits) and by request_list_close(). Afterwards it is answered, exactly once, by one of the reply
 * functions: only then may the kernel use its number again.
 *
 * The kernel interrupts for any signal, and what is answered EINTR is never restarted. A signal that only
 * informs a program, such as the end of a shell's background job, must not make its `echo sync >ctl` fail. So
 * an interrupt sets the cancel only when a signal is pending that a program does not ignore by default; else
 * a thread checks again from time to time, for the kernel does not report a second signal.
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
    pthread_mutex_t lock; /* taken before the lock of a cancel; libfuse's of a request before it */
    pthread_cond_t changed;
    struct worker_pool *pool; /* of one thread, which checks for signals */
    struct worker_job check;  /* its job */
    GQueue requests;          /* struct fs_request; protected by lock, like all below */
    bool is_closed;
    bool is_checking; /* `check` was handed in and has not ended */
};

struct fs_request {
    struct tree_caller caller; /* for calls of the tree */
    struct cancel cancel;
    struct request_list *list;
    fuse_req_t fuse;
    bool is_informed; /* protected by the list's lock, like all below: interrupted by a signal that only
                         informs */
    GList link;       /* in the list */
};

/* 0 or -ENOMEM. */
int request_list_init(struct request_list *list);
/* Sets all cancels, those of requests to come too. */
void request_list_close(struct request_list *list);
/* When no request is left; also after request_list_init() failed. */
void request_list_release(struct request_list *list);

/* `request` is the caller's until request_end(), and so is `fuse` until it is answered. Neither waits. */
void request_begin(struct fs_request *request, struct request_list *list, fuse_req_t fuse);
void request_end(struct fs_request *request);

/* Returns true if the signals that are pending for the task (a thread's id) are all of the kind that is
 * ignored by default: SIGCHLD, SIGCONT, SIGURG, SIGWINCH. True where none is pending: another thread of the
 * program took it, or the kernel woke the task for something of its own, and would go on with other system
 * calls, too. False where that cannot be seen. */
bool request_signals_only_inform(pid_t task);

/* ---------------------------------------------------------------- answers */

/* `error`: 0 or -errno. The one place where that becomes the kernel's. */
void reply_status(fuse_req_t fuse, int error);
/* With an `error` these answer with it. The entry's lookup is given back when the kernel does not want it any
 * more (the request was interrupted), and what was opened is released. */
void reply_entry(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry);
void reply_open(fuse_req_t fuse, int error, struct tree_handle *handle);
void reply_open_dir(fuse_req_t fuse, int error, struct tree_dir *dir);
void reply_create(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry,
                  struct tree_handle *handle, struct fuse_file_info *file);
void reply_attributes(fuse_req_t fuse, const struct tree *tree, int error,
                      const struct tree_attributes *attributes);
/* Releases the data. */
void reply_data(fuse_req_t fuse, int error, struct tree_data *data);
/* A number of bytes, or -errno. */
void reply_count(fuse_req_t fuse, ssize_t count);

/* An entry of a listing, as the kernel takes it. */
struct fuse_entry_param request_entry(const struct tree *tree, const struct tree_entry *entry);

#endif
