/* SPDX-License-Identifier: MIT */
/*
 * Checks that the header lines of an HTTP request do not contradict each other about the end of the request
 * (RFC 9112, section 6.3). If there are two lengths, a proxy before this server may have used the other
 * length, and would take the following bytes for another request.
 */
#ifndef INBOXFS_SERVICE_REQUEST_HEAD_H
#define INBOXFS_SERVICE_REQUEST_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>

struct request_head {
    unsigned int hosts; /* number of Host lines */
    unsigned int ends;  /* number of lines that say where the body ends */
    bool is_endless;    /* the transfer coding is not "chunked", so the body has no end */
    bool has_one_end;   /* else the connection must end with this request */
};

void request_head_read(struct MHD_Connection *connection, struct request_head *ret_head);

#endif
