/* SPDX-License-Identifier: MIT */
/*
 * Listening sockets. The text of an address is "ADDRESS:PORT", "[ADDRESS]:PORT" or "unix:PATH". For port 0
 * the kernel chooses a free port. ADDRESS is numeric or "localhost", so that no name server is asked.
 */
#ifndef INBOXFS_SERVICE_LISTENER_H
#define INBOXFS_SERVICE_LISTENER_H

#include <stdbool.h>

/* Opens a listening socket. *ret_address is the address in numbers, with the real port; the caller frees it.
 * A Unix socket is made 0600, and replaces a socket that a killed service left behind. Return: 0; -EINVAL if
 * the text has none of the three forms; -EADDRINUSE; another -errno. */
int listener_open(const char *text, int *ret_fd, char **ret_address);

/* Closes a socket of listener_open(), removes its name if it is a Unix socket, and frees the address. Does
 * nothing if `address` is NULL. */
void listener_close(int fd, char *address);

/* Returns true if other machines can connect to the address. */
bool listener_accepts_other_machines(const char *address);

#endif
