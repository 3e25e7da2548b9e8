/* SPDX-License-Identifier: MIT */
/*
 * Going into the background before any thread exists (threads do not survive fork), while the command that
 * the user typed waits until the mount answers or the reason why not was printed.
 */
#ifndef INBOXFS_BACKGROUND_H
#define INBOXFS_BACKGROUND_H

/* Forks. In the child: returns 0 and *ret_ready_fd. The parent never returns: it exits with the status that
 * the child hands to background_ready(), or 1 when the child ends without. -errno when there can be no child.
 */
int background_start(int *ret_ready_fd);

/* In the child: ends the wait of the parent with success, and lets go of the terminal. Consumes `ready_fd`.
 */
void background_ready(int ready_fd);

#endif
