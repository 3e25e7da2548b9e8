/* SPDX-License-Identifier: MIT */
/*
 * The commands of inboxfs besides mounting. Each returns the exit status of the program.
 */
#ifndef INBOXFS_COMMANDS_H
#define INBOXFS_COMMANDS_H

#include "options.h"

/* `inboxfs check`: a line for each matter, on standard output: would a mount with these options work? Asks
 * the service and looks at files; changes nothing, starts nothing, and shows no key. */
int check_command(const struct options *options);

/* `inboxfs status`: one screen about a running mount, made of its status.json. argv[0] is the word "status";
 * the mount may follow, else all are shown that this user can look into. */
int status_command(int argc, char **argv);

/* `inboxfs umount`: unmounts, and names what keeps a mount busy. argv[0] is the word "umount". */
int umount_command(int argc, char **argv);

#endif
