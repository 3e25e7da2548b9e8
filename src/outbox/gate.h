/* SPDX-License-Identifier: MIT */
/*
 * Whether the service may be asked now. While it does not answer, has no room, or refuses the key, the whole
 * queue waits; then one item at a time tries, until one gets through. The caller holds the outbox's lock;
 * times are monotonic.
 */
#ifndef INBOXFS_OUTBOX_GATE_H
#define INBOXFS_OUTBOX_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"

enum gate_reason {
    GATE_OPEN,
    GATE_UNREACHABLE,  /* no answer */
    GATE_BUSY,         /* 429, 503 */
    GATE_UNAUTHORIZED, /* the key is refused */
};

struct gate {
    enum gate_reason reason;
    int64_t until_ms; /* closed to all before; then one may try */
    bool is_probing;  /* one is trying: the try of this number */
    uint64_t probe;
    struct backoff backoff;
    char error[256]; /* words of the last failure, "" after a success */
};

void gate_init(struct gate *gate);

/* Whether one may ask now. *ret_probe: 0, or the number of its try, to be handed to gate_leave(). */
bool gate_enter(struct gate *gate, int64_t now_ms, uint64_t *ret_probe);
/* When to look again: a time, or CLOCK_FOREVER: when something happens. */
int64_t gate_until_ms(const struct gate *gate);
/* The service answered, and took the key. */
void gate_open(struct gate *gate);
/* It did not. `wait_ms`: what it asked for; -1: nothing. */
void gate_close(struct gate *gate, enum gate_reason reason, int64_t now_ms, int64_t wait_ms,
                const char *words);
/* A try is over, whether it asked or not. */
void gate_leave(struct gate *gate, uint64_t probe);
/* One may try at once. */
void gate_wake(struct gate *gate);

#endif
