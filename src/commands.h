/* SPDX-License-Identifier: MIT */
/*
 * The commands of inboxfs besides mounting. Each returns the exit status of the program.
 */
#ifndef INBOXFS_COMMANDS_H
#define INBOXFS_COMMANDS_H

#include "options.h"

enum {
    EXIT_USAGE = 2 /* a wrong command line */
};

/* `inboxfs check`: prints whether a mount with these options would work, a line for each part. Sends requests
 * to the service and reads files; changes nothing, starts nothing, and shows no key. */
int check_command(const struct options *options);

/* `inboxfs status`: prints one screen about a running mount from its status.json. argv[0] is the word
 * "status"; a mount point may follow. Without one, shows all mounts that this user can look into. */
int status_command(int argc, char **argv);

/* `inboxfs umount`: unmounts, or names the processes that use the mount. argv[0] is the word "umount". */
int umount_command(int argc, char **argv);

#endif
