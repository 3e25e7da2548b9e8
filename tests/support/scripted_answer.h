/* SPDX-License-Identifier: MIT */
/*
 * Writes the scripted server's answer to a connection, for one step of its script.
 */
#ifndef INBOXFS_TESTS_SUPPORT_SCRIPTED_ANSWER_H
#define INBOXFS_TESTS_SUPPORT_SCRIPTED_ANSWER_H

#include <stdbool.h>

#include "support/scripted_server.h"

/* Plays a step. A stall lasts until `stop_fd` is readable or the peer is gone. Returns false if the caller
 * must close the connection (for a reset, SO_LINGER is set). */
bool scripted_answer(int fd, int stop_fd, const struct scripted_step *step);

#endif
