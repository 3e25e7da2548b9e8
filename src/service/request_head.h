/* SPDX-License-Identifier: MIT */
/*
 * The header lines of an HTTP request, and whether they say in one way where the request ends (RFC 9112,
 * section 6.3). If there are two lengths, a proxy before this server may have believed the other one, and
 * would take what follows for another request.
 */
#ifndef INBOXFS_SERVICE_REQUEST_HEAD_H
#define INBOXFS_SERVICE_REQUEST_HEAD_H

#include <microhttpd.h>
#include <stdbool.h>

struct request_head {
    unsigned int hosts; /* number of Host lines */
    unsigned int ends;  /* number of lines that give the end of the body */
    bool is_endless;    /* the body is in an encoding without an end */
    bool has_one_end;   /* if not, no later byte on the connection can be trusted */
};

void request_head_read(struct MHD_Connection *connection, struct request_head *ret_head);

#endif
