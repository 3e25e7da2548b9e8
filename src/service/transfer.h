/* SPDX-License-Identifier: MIT */
/*
 * One attempt of outgoing.h by libcurl: the options that mail and webhooks have in common. Nothing goes by a
 * proxy, certificates are checked, the connection is used once, and an attempt ends when it is cancelled.
 */
#ifndef INBOXFS_SERVICE_TRANSFER_H
#define INBOXFS_SERVICE_TRANSFER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"

struct transfer {
    CURL *easy;
    CURLcode result;       /* of the first option or call that failed */
    struct cancel *cancel; /* borrowed */
    bool has_begun;        /* there is a connection (and a login); what follows is about this email */
    int64_t ending_ms;     /* how long it goes on after the cancel was set; the caller may set it meanwhile */
    int64_t give_up_ms;    /* of the monotonic clock; 0: the cancel was not seen yet */
    char words[CURL_ERROR_SIZE];
};

void transfer_init(struct transfer *transfer, struct cancel *cancel, long connect_timeout_s, long timeout_s);
void transfer_release(struct transfer *transfer);

/* Sets an option where all before were set. */
#define TRANSFER_SET(transfer, option, value)                                           \
    do {                                                                                \
        if ((transfer)->result == CURLE_OK)                                             \
            (transfer)->result = curl_easy_setopt((transfer)->easy, (option), (value)); \
    } while (0)

/* Carries it out where all options were set. Waits for the network. Returns the status of the answer; 0:
 * none. */
long transfer_perform(struct transfer *transfer);

/* Returns why it failed, in words; borrowed. */
const char *transfer_reason(const struct transfer *transfer);

#endif
