/* SPDX-License-Identifier: MIT */
/*
 * A transfer is one attempt of outgoing.h by libcurl, with the options that mail and webhooks share: no
 * proxy, checked certificates, and a connection that is used once.
 */
#ifndef INBOXFS_SERVICE_TRANSFER_H
#define INBOXFS_SERVICE_TRANSFER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wait.h"

struct transfer {
    CURL *easy;
    CURLcode result;       /* of the first option or call that failed, else CURLE_OK */
    struct cancel *cancel; /* borrowed; ends the transfer */
    bool has_begun;        /* libcurl has connected (and logged in): a later failure is about this email */
    int64_t ending_ms;  /* how long the transfer may go on after a cancel; may be set during the transfer */
    int64_t give_up_ms; /* monotonic time at which a cancelled transfer ends; 0 before a cancel */
    struct curl_slist *list; /* the recipients or headers; owned */
    char reason[CURL_ERROR_SIZE];
};

void transfer_init(struct transfer *transfer, struct cancel *cancel, long connect_timeout_s, long timeout_s);
void transfer_release(struct transfer *transfer);

/* Appends a copy of the text to the list. */
void transfer_append(struct transfer *transfer, const char *text);

/* Sets an option, unless an earlier one failed. */
#define TRANSFER_SET(transfer, option, value)                                           \
    do {                                                                                \
        if ((transfer)->result == CURLE_OK)                                             \
            (transfer)->result = curl_easy_setopt((transfer)->easy, (option), (value)); \
    } while (0)

/* Carries the transfer out, unless an option failed. Waits for the network. Returns the HTTP or SMTP status
 * of the answer, or 0 if there is no answer. */
long transfer_perform(struct transfer *transfer);

/* Returns the reason of a failure; borrowed. */
const char *transfer_reason(const struct transfer *transfer);

#endif
