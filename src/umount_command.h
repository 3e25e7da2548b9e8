/* SPDX-License-Identifier: MIT */
/*
 * `inboxfs umount`: unmounts, and names what keeps a mount busy.
 */
#ifndef INBOXFS_UMOUNT_COMMAND_H
#define INBOXFS_UMOUNT_COMMAND_H

/* argv[0] is the word "umount". The exit status. */
int umount_command(int argc, char **argv);

#endif
