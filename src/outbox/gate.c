/* SPDX-License-Identifier: MIT */
/*
 * The gate before the service.
 */
#include "outbox/gate.h"

#include <stdio.h>

#include "base/clock.h"

enum {
    WAIT_MIN_MS = 1000,
    WAIT_MAX_MS = 15 * 60 * 1000,
    UNAUTHORIZED_MS = 60 * 1000, /* somebody may mend the key at any time */
    ASKED_MAX_MS = 24 * 3600 * 1000,
};

void gate_init(struct gate *gate)
{
    *gate = (struct gate){.backoff = {.min_ms = WAIT_MIN_MS, .max_ms = WAIT_MAX_MS}};
}

bool gate_enter(struct gate *gate, int64_t now_ms, uint64_t *ret_probe)
{
    *ret_probe = 0;
    if (gate->reason == GATE_OPEN)
        return true;
    if (gate->is_probing || now_ms < gate->until_ms)
        return false;
    gate->is_probing = true;
    *ret_probe = ++gate->probe;
    return true;
}

int64_t gate_until_ms(const struct gate *gate)
{
    return gate->reason == GATE_OPEN || gate->is_probing ? CLOCK_FOREVER : gate->until_ms;
}

void gate_open(struct gate *gate)
{
    uint64_t probe = gate->probe;
    gate_init(gate);
    gate->probe = probe;
}

/* Several requests that were under way together fail together: that is one failure, and makes the wait longer
 * once. */
void gate_close(struct gate *gate, enum gate_reason reason, int64_t now_ms, int64_t wait_ms,
                const char *words)
{
    bool is_news = gate->reason == GATE_OPEN || gate->is_probing || now_ms >= gate->until_ms;
    int64_t wait = UNAUTHORIZED_MS;
    if (reason != GATE_UNAUTHORIZED)
        wait = is_news ? backoff_next_ms(&gate->backoff) : 0;
    if (wait_ms > wait)
        wait = wait_ms < ASKED_MAX_MS ? wait_ms : ASKED_MAX_MS;
    if (is_news || now_ms + wait > gate->until_ms)
        gate->until_ms = now_ms + wait;
    gate->reason = reason;
    gate->is_probing = false;
    snprintf(gate->error, sizeof(gate->error), "%s", words == NULL ? "" : words);
}

void gate_leave(struct gate *gate, uint64_t probe)
{
    if (gate->probe == probe)
        gate->is_probing = false;
}

void gate_wake(struct gate *gate)
{
    gate->until_ms = 0;
}
