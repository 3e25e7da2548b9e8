/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server on loopback (or a Unix socket) that answers by a script, with faults, and keeps the
 * requests. Each connection has a thread; a request takes the next step of the script, or the default one.
 */
#ifndef INBOXFS_TESTS_SUPPORT_SCRIPTED_SERVER_H
#define INBOXFS_TESTS_SUPPORT_SCRIPTED_SERVER_H

#include <stddef.h>

enum scripted_fault {
    SCRIPTED_NONE,
    SCRIPTED_RESET_BEFORE,       /* reset before any of the request was read */
    SCRIPTED_RESET_IN_REQUEST,   /* reset after the head and the first bytes of the body */
    SCRIPTED_RESET_AFTER,        /* reset after the whole request was read */
    SCRIPTED_CLOSE_AFTER,        /* orderly close after the whole request was read, no answer */
    SCRIPTED_STALL,              /* no answer after the request was read */
    SCRIPTED_STALL_IN_HEAD,      /* half a head, then nothing */
    SCRIPTED_STALL_IN_BODY,      /* half a body, then nothing */
    SCRIPTED_HALF_HEAD,          /* half a head, then close */
    SCRIPTED_HALF_BODY,          /* half a body, then close */
    SCRIPTED_BAD_CHUNK,          /* a chunked body whose second chunk is garbage */
    SCRIPTED_GARBAGE,            /* an answer that is not HTTP */
    SCRIPTED_ENDLESS_HEAD,       /* header lines without end */
    SCRIPTED_ENDLESS_LINE,       /* a header line without end */
    SCRIPTED_ENDLESS_BODY,       /* a body without end */
    SCRIPTED_ANSWER_THEN_CLOSE,  /* a whole answer without "Connection: close", then close */
    SCRIPTED_ANSWER_THEN_DEAF,   /* a whole answer; later bytes of the client do not arrive, and are not
                                    acknowledged */
    SCRIPTED_ANSWER_BEFORE_BODY, /* a whole answer as soon as the request's head came, then close */
    SCRIPTED_CHUNKED,            /* the body in chunks of `chunk_bytes`, each a write of its own */
};

struct scripted_step {
    int status;          /* 0 for 200 */
    const char *headers; /* more header lines, each with "\r\n"; or NULL */
    const char *body;    /* NULL for "" */
    size_t body_len;     /* 0 for strlen(body) */
    size_t chunk_bytes;  /* size of each chunk of SCRIPTED_CHUNKED; 0 for 1 */
    enum scripted_fault fault;
    void (*before_chunk)(void *context, size_t sent_bytes); /* called before each chunk, or NULL */
    void *context;
    int delay_ms;      /* wait before the answer */
    int read_pause_ms; /* wait before the server reads each 64 kB of the body */
};

struct scripted_request {
    char *method;
    char *target;
    char *head; /* all header lines as they came */
    char *body; /* NUL-terminated */
    size_t body_len;
    unsigned int connection; /* number of the connection, 1 for the first accepted one */
};

struct scripted_server;

/* Listens at a free port of 127.0.0.1, or at a Unix socket at `path`. A failure ends the test. */
struct scripted_server *scripted_server_start(void);
struct scripted_server *scripted_server_start_unix(const char *path);
void scripted_server_stop(struct scripted_server *server);

/* Returns "http://127.0.0.1:PORT". */
const char *scripted_server_url(const struct scripted_server *server);

/* The texts of a step are borrowed until the server stops. */
void scripted_server_push(struct scripted_server *server, struct scripted_step step);
void scripted_server_set_default(struct scripted_server *server, struct scripted_step step);

/* Forgets steps and requests, but keeps the connections. */
void scripted_server_clear(struct scripted_server *server);

unsigned int scripted_server_connections(struct scripted_server *server);
size_t scripted_server_requests(struct scripted_server *server);

/* Waits (up to 10 s) until `requests` requests were read whole, or ended by a fault. */
void scripted_server_wait(struct scripted_server *server, size_t requests);

/* Returns the request with this number (from 0), valid until clear or stop; NULL if it has not come yet. */
const struct scripted_request *scripted_server_request(struct scripted_server *server, size_t number);

/* Returns the value of a request's header, valid until the thread's next call; NULL if it is missing. */
const char *scripted_request_header(const struct scripted_request *request, const char *name);

#endif
