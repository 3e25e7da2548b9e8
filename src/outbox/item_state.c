/* SPDX-License-Identifier: MIT */
/*
 * The transition table.
 */
#include "outbox/item_state.h"

#include <errno.h>
#include <string.h>

#include "outbox/outbox.h"

#define TO(state) (1U << (state))

struct state_row {
    const char *name;
    unsigned int followers; /* bit set of TO() */
    int message_folder;
    int attachment_folder;
    bool is_unsettled;
    bool is_failure;
    bool has_receipt;
};

enum {
    NOWHERE = -1,
    OUT = OUTBOX_FOLDER_OUTBOX,
    SENT = OUTBOX_FOLDER_SENT,
    FAILED = OUTBOX_FOLDER_FAILED,
    ATTACHED = OUTBOX_FOLDER_ATTACHMENTS,
};

/* What a user does to an item that is settled or waiting: hand it in (again), keep it from being sent, take
 * it away. */
#define HAND_IN (TO(ITEM_QUEUED) | TO(ITEM_UPLOADING) | TO(ITEM_HELD))
#define TAKE_AWAY (TO(ITEM_GONE) | TO(ITEM_DRAFTED))

/* A state follows itself where something else of the envelope changes: the name, ids of uploaded parts. */
static const struct state_row rows[ITEM_STATES] = {
    [ITEM_GONE] = {NULL, TO(ITEM_WRITING) | HAND_IN, NOWHERE, NOWHERE, false, false, false},
    [ITEM_WRITING] = {"writing",
                      TO(ITEM_WRITING) | HAND_IN | TO(ITEM_INTERRUPTED) | TO(ITEM_FAILED) | TO(ITEM_GONE),
                      OUT, ATTACHED, false, false, false},
    [ITEM_HELD] = {"held", TO(ITEM_WRITING) | HAND_IN | TAKE_AWAY, OUT, ATTACHED, false, false, false},
    [ITEM_QUEUED] = {"queued",
                     TO(ITEM_QUEUED) | TO(ITEM_SENDING) | TO(ITEM_FAILED) | TO(ITEM_UNKNOWN) | TO(ITEM_HELD) |
                         TAKE_AWAY,
                     OUT, NOWHERE, true, false, false},
    [ITEM_SENDING] = {"sending",
                      TO(ITEM_SENDING) | TO(ITEM_QUEUED) | TO(ITEM_SENT) | TO(ITEM_FAILED) | TO(ITEM_UNKNOWN),
                      OUT, NOWHERE, true, false, false},
    [ITEM_SENT] = {"sent", TO(ITEM_SENT) | TO(ITEM_QUEUED) | TO(ITEM_HELD) | TO(ITEM_GONE), SENT, NOWHERE,
                   false, false, true},
    [ITEM_UPLOADING] = {"uploading",
                        TO(ITEM_UPLOADING) | TO(ITEM_UPLOADED) | TO(ITEM_FAILED) | TO(ITEM_WRITING) |
                            TO(ITEM_HELD) | TO(ITEM_GONE),
                        NOWHERE, ATTACHED, true, false, true},
    [ITEM_UPLOADED] = {"uploaded",
                       TO(ITEM_UPLOADED) | TO(ITEM_UPLOADING) | TO(ITEM_WRITING) | TO(ITEM_HELD) |
                           TO(ITEM_GONE),
                       NOWHERE, ATTACHED, false, false, true},
    [ITEM_FAILED] = {"failed", TO(ITEM_FAILED) | HAND_IN | TAKE_AWAY, FAILED, FAILED, false, true, true},
    [ITEM_UNKNOWN] = {"unknown outcome", TO(ITEM_UNKNOWN) | HAND_IN | TAKE_AWAY, FAILED, FAILED, false, true,
                      true},
    [ITEM_INTERRUPTED] = {"interrupted", TO(ITEM_INTERRUPTED) | HAND_IN | TAKE_AWAY, FAILED, FAILED, false,
                          true, true},
    [ITEM_DRAFTED] = {"drafted", TO(ITEM_GONE), NOWHERE, NOWHERE, false, false, false},
};

const char *item_state_name(enum item_state state)
{
    return rows[state].name;
}

int item_state_from_name(const char *name, enum item_state *ret_state)
{
    for (unsigned int i = 0; i < ITEM_STATES; i++) {
        if (rows[i].name != NULL && strcmp(rows[i].name, name) == 0) {
            *ret_state = (enum item_state)i;
            return 0;
        }
    }
    return -EBADMSG;
}

bool item_state_may_follow(enum item_state from, enum item_state to)
{
    return (rows[from].followers & TO(to)) != 0;
}

int item_state_folder(enum item_state state, enum envelope_kind kind)
{
    return kind == ENVELOPE_MESSAGE ? rows[state].message_folder : rows[state].attachment_folder;
}

bool item_state_is_unsettled(enum item_state state)
{
    return rows[state].is_unsettled;
}

bool item_state_is_failure(enum item_state state)
{
    return rows[state].is_failure;
}

bool item_state_has_receipt(enum item_state state)
{
    return rows[state].has_receipt;
}
