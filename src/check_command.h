/* SPDX-License-Identifier: MIT */
/*
 * `inboxfs check`: what works of an account and what does not, a line for each matter, on standard output.
 * It asks the service and looks at files; it changes nothing, starts nothing, and shows no key.
 */
#ifndef INBOXFS_CHECK_COMMAND_H
#define INBOXFS_CHECK_COMMAND_H

#include "options.h"

/* The exit status: 0 when an account like this can be mounted and used, else 1. */
int check_command(const struct options *options);

#endif
