/* SPDX-License-Identifier: MIT */
/*
 * `inboxfs status`: one screen for people about a running mount, made of its status.json.
 */
#ifndef INBOXFS_STATUS_COMMAND_H
#define INBOXFS_STATUS_COMMAND_H

/* argv[1], if there is one: the mount; else all are shown that this user can look into. The exit status: 0;
 * 1 when there is none, or one of them does not work; 2 on a wrong command line. */
int status_command(int argc, char **argv);

#endif
