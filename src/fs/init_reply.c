/* SPDX-License-Identifier: MIT */
/*
 * libfuse writes its answer into a socket, which stands in the place of the device for that time.
 */
#include "fs/init_reply.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

enum {
    SHARED_MAPPINGS = 1 << 4 /* FUSE_DIRECT_IO_ALLOW_MMAP, in flags2: not in the headers of older kernels */
};

struct init_message {
    struct fuse_in_header header;
    struct fuse_init_in body;
};

struct init_answer {
    struct fuse_out_header header;
    struct fuse_init_out body;
};

static bool can_map(const char *message, size_t len)
{
    const struct init_message *init = (const void *)message;
    return len >= sizeof(*init) && (init->body.flags & FUSE_INIT_EXT) != 0 &&
           (init->body.flags2 & SHARED_MAPPINGS) != 0;
}

static void carry_out(struct fuse_session *fuse, char *message, size_t len)
{
    const struct fuse_buf buffer = {.mem = message, .size = len};
    fuse_session_process_buf(fuse, &buffer);
}

/* The device is the last of the three. False: nothing was carried out. */
static bool carry_out_into(int socket, int kernel, struct fuse_session *fuse, char *message, size_t len)
{
    int device = fuse_session_fd(fuse);
    if (dup3(socket, device, O_CLOEXEC) < 0)
        return false;
    carry_out(fuse, message, len);
    while (dup3(kernel, device, O_CLOEXEC) < 0 && (errno == EINTR || errno == EBUSY))
        ;
    return true;
}

/* The notifier may have written before libfuse: a notification, whose number is 0, is thrown away, because
 * the kernel remembers nothing yet. */
static void pass_on(int socket, int device)
{
    struct init_answer answer;
    ssize_t len;
    do
        len = recv(socket, &answer, sizeof(answer), 0);
    while (len > 0 && answer.header.unique == 0);
    if (len == sizeof(answer) && answer.header.error == 0) {
        answer.body.flags |= FUSE_INIT_EXT;
        answer.body.flags2 |= SHARED_MAPPINGS;
    }
    if (len > 0 && write(device, &answer, (size_t)len) != len)
        log_error("cannot answer the kernel's first message");
}

void init_reply_carry_out(struct fuse_session *fuse, char *message, size_t len)
{
    int device = fuse_session_fd(fuse);
    int pair[2] = {-1, -1};
    if (!can_map(message, len) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        carry_out(fuse, message, len);
        return;
    }
    _cleanup_close_ int ours = pair[0];
    _cleanup_close_ int theirs = pair[1];
    /* ThreadSanitizer does not see a copy that fcntl(F_DUPFD_CLOEXEC) makes, and with it lost what orders a
     * request after the answer that let it happen. */
    _cleanup_close_ int kernel = dup(device);
    if (kernel >= 0 && fcntl(kernel, F_SETFD, FD_CLOEXEC) == 0 &&
        carry_out_into(theirs, kernel, fuse, message, len))
        pass_on(ours, device);
    else
        carry_out(fuse, message, len);
}
