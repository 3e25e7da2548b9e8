/* SPDX-License-Identifier: MIT */
/*
 * The socket that the service listens on, from its text form: "ADDRESS:PORT", "[ADDRESS]:PORT" or
 * "unix:PATH".
 */
#ifndef INBOXFS_SERVICE_LISTENER_H
#define INBOXFS_SERVICE_LISTENER_H

/* Opens it. *ret_address: the same text with the real port; the caller frees. A Unix socket is made 0600; one
 * that nobody serves any more is replaced. 0, -EINVAL (not such a text), -EADDRINUSE or -errno. */
int listener_open(const char *listen, int *ret_fd, char **ret_address);

/* Removes a Unix socket's name. */
void listener_remove(const char *address);

#endif
