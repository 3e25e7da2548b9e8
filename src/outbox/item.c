/* SPDX-License-Identifier: MIT */
/*
 * The transition table of states; items; the table that finds them by number, name and id; and which names
 * files may have. Memory only: transition.c makes changes durable.
 */
#include "outbox/item.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "mail/envelope.h"
#include "mail/file_name.h"
#include "outbox/outbox.h"

/* ================================================================ states */

#define TO(state) (1U << (state))

struct state_row {
    const char *name;
    unsigned int followers; /* bit set of TO() */
    enum outbox_folder message_folder;
    enum outbox_folder attachment_folder;
    bool is_unsettled;
    bool is_failure;
    bool has_receipt;
};

enum {
    NOWHERE = OUTBOX_FOLDER_NONE,
    OUT = OUTBOX_FOLDER_OUTBOX,
    SENT = OUTBOX_FOLDER_SENT,
    FAILED = OUTBOX_FOLDER_FAILED,
    ATTACHED = OUTBOX_FOLDER_ATTACHMENTS,
};

/* What a user may do to an item that is settled or waits: hand it in again, put it on hold, take it away. */
#define HAND_IN (TO(ITEM_QUEUED) | TO(ITEM_UPLOADING) | TO(ITEM_ON_HOLD))
#define TAKE_AWAY (TO(ITEM_GONE) | TO(ITEM_DRAFTED))

/* A state follows itself where something else of the envelope changes: the name, ids of uploaded parts. */
static const struct state_row rows[ITEM_STATES] = {
    [ITEM_GONE] = {NULL, TO(ITEM_WRITING) | HAND_IN | TO(ITEM_UPLOADED), NOWHERE, NOWHERE, false, false,
                   false},
    [ITEM_WRITING] = {"writing",
                      TO(ITEM_WRITING) | HAND_IN | TO(ITEM_INTERRUPTED) | TO(ITEM_FAILED) | TO(ITEM_GONE),
                      OUT, ATTACHED, false, false, false},
    [ITEM_ON_HOLD] = {"held", TO(ITEM_WRITING) | HAND_IN | TAKE_AWAY, OUT, ATTACHED, false, false, false},
    [ITEM_QUEUED] = {"queued",
                     TO(ITEM_QUEUED) | TO(ITEM_SENDING) | TO(ITEM_FAILED) | TO(ITEM_UNKNOWN) |
                         TO(ITEM_ON_HOLD) | TAKE_AWAY,
                     OUT, NOWHERE, true, false, false},
    [ITEM_SENDING] = {"sending",
                      TO(ITEM_SENDING) | TO(ITEM_QUEUED) | TO(ITEM_SENT) | TO(ITEM_FAILED) | TO(ITEM_UNKNOWN),
                      OUT, NOWHERE, true, false, false},
    [ITEM_SENT] = {"sent", TO(ITEM_SENT) | TO(ITEM_QUEUED) | TO(ITEM_ON_HOLD) | TO(ITEM_GONE), SENT, NOWHERE,
                   false, false, true},
    [ITEM_UPLOADING] = {"uploading",
                        TO(ITEM_UPLOADING) | TO(ITEM_UPLOADED) | TO(ITEM_FAILED) | TO(ITEM_WRITING) |
                            TO(ITEM_ON_HOLD) | TO(ITEM_GONE),
                        NOWHERE, ATTACHED, true, false, true},
    [ITEM_UPLOADED] = {"uploaded",
                       TO(ITEM_UPLOADED) | TO(ITEM_UPLOADING) | TO(ITEM_WRITING) | TO(ITEM_ON_HOLD) |
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

enum outbox_folder item_state_folder(enum item_state state, enum envelope_kind kind)
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

/* ================================================================ an item */

enum {
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 15 * 60 * 1000,
};

struct item *item_new(uint64_t number)
{
    struct item *item = calloc(1, sizeof(*item));
    if (item == NULL)
        return NULL;
    item->number = number;
    item->refs = 1;
    item->opener = -1;
    item->envelope.number = number;
    item->backoff = (struct backoff){.min_ms = RETRY_MIN_MS, .max_ms = RETRY_MAX_MS};
    snprintf(item->number_text, sizeof(item->number_text), "%" PRIu64, number);
    return item;
}

struct item *item_ref(struct item *item)
{
    item->refs++;
    return item;
}

void item_unref(struct item *item)
{
    if (item == NULL || --item->refs > 0)
        return;
    envelope_release(&item->envelope);
    free(item->bound);
    free(item);
}

enum outbox_folder item_folder(const struct item *item)
{
    return item->envelope.is_hidden ? OUTBOX_FOLDER_NONE
                                    : item_state_folder(item->state, item->envelope.kind);
}

static mode_t content_mode(enum outbox_folder folder)
{
    return folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED ? 0444 : 0600;
}

void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret)
{
    enum outbox_folder folder = item_folder(item);
    enum outbox_folder shown = folder != OUTBOX_FOLDER_NONE              ? folder
                               : item->envelope.kind == ENVELOPE_MESSAGE ? OUTBOX_FOLDER_OUTBOX
                                                                         : OUTBOX_FOLDER_ATTACHMENTS;
    *ret = (struct outbox_stat){
        .number = item->number,
        .aspect = aspect,
        .folder = shown,
        .size = aspect == OUTBOX_CONTENT ? item->size : (off_t)item->receipt_bytes,
        .mtime = item->mtime,
        .mode = aspect == OUTBOX_CONTENT ? content_mode(shown) : 0444,
    };
    int64_t settled_ms = item->envelope.finished_ms;
    if (aspect == OUTBOX_RECEIPT && settled_ms > 0)
        ret->mtime = (struct timespec){.tv_sec = settled_ms / 1000, .tv_nsec = settled_ms % 1000 * 1000000};
}

bool item_may_have_been_sent(const struct item *item)
{
    return item->state == ITEM_UNKNOWN || item->envelope.may_have_been_sent || item->envelope.was_unknown;
}

bool item_remembers_key(const struct item *item)
{
    bool has_key = item->envelope.key[0] != '\0' && item->envelope.digest[0] != '\0';
    return item->state == ITEM_DRAFTED ||
           (item->state == ITEM_ON_HOLD && item->envelope.was_unknown && has_key);
}

enum binding_state item_attachment_state(const struct item *attachment)
{
    if (attachment == NULL)
        return BINDING_LOST;
    switch (attachment->state) {
    case ITEM_UPLOADED:
        return BINDING_READY;
    case ITEM_UPLOADING:
        return BINDING_UPLOADING;
    case ITEM_WRITING:
        return BINDING_WRITING;
    default:
        return BINDING_LOST;
    }
}

enum binding_state item_binding_state(const struct item *message)
{
    enum binding_state worst = BINDING_READY;
    for (size_t i = 0; i < message->bound_len; i++) {
        enum binding_state state = item_attachment_state(message->bound[i]);
        if (state == BINDING_LOST)
            return BINDING_LOST;
        if (state > worst)
            worst = state;
    }
    return worst;
}

const char *item_find_lost_attachment(const struct item *message)
{
    for (size_t i = 0; i < message->bound_len; i++)
        if (item_attachment_state(message->bound[i]) == BINDING_LOST)
            return message->envelope.attachments[i].name;
    return NULL;
}

bool item_is_unneeded(const struct item *item)
{
    return item->envelope.is_hidden && item->users == 0 && item->writers == 0 && item->state != ITEM_GONE;
}

void item_update_stat(struct item *item, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    item->size = status.st_size;
    item->mtime = status.st_mtim;
}

bool item_was_written_by(const struct item *item, pid_t process)
{
    if (item->wrote_len > ITEM_WRITERS_MAX)
        return true;
    for (size_t i = 0; i < item->wrote_len; i++)
        if (item->wrote[i] == process)
            return true;
    return false;
}

bool item_is_known_writer(const struct item *item, pid_t process)
{
    return item->wrote_len <= ITEM_WRITERS_MAX && item_was_written_by(item, process);
}

void item_add_writer(struct item *item, pid_t process)
{
    if (item_was_written_by(item, process))
        return;
    if (process <= 0)
        item->wrote_len = ITEM_WRITERS_MAX;
    if (item->wrote_len < ITEM_WRITERS_MAX)
        item->wrote[item->wrote_len] = process;
    item->wrote_len++;
}

bool item_was_made_by(const struct item *item, const struct item_asker *asker)
{
    if (item->opener == asker->task || item->opener == asker->process)
        return true;
    return item_is_known_writer(item, asker->process);
}

static bool is_same_process(const struct item_asker *one, const struct item_asker *other)
{
    return one->process == other->process && one->started == other->started;
}

bool item_was_read_by(const struct item *item, const struct item_asker *reader)
{
    for (size_t i = 0; i < ITEM_READERS_MAX; i++)
        if (reader->process > 0 && is_same_process(&item->read_by[i], reader))
            return true;
    return false;
}

void item_add_reader(struct item *item, const struct item_asker *reader)
{
    if (!item_was_read_by(item, reader))
        item->read_by[item->reads++ % ITEM_READERS_MAX] = *reader;
}

void item_forget_readers(struct item *item)
{
    memset(item->read_by, 0, sizeof(item->read_by));
    item->reads = 0;
}

void item_interrupt(struct item *item, const char *why)
{
    if (item->interruption[0] == '\0')
        snprintf(item->interruption, sizeof(item->interruption), "%s", why);
}

/* ================================================================ the table of items */

struct former_name {
    char *name;
    enum outbox_folder folder;
    uint64_t number; /* of the item. When that was removed, or is no longer settled, the name finds nothing */
    int64_t until_ms;
    struct former_name *same; /* the next older one of the same name */
    struct former_name *older;
    struct former_name *newer;
};

/* The service may give several items one id. */
struct known_id {
    unsigned int count;
    char text[];
};

/* `names` has this for a name that is reserved. */
static char reservation;

static void remove_former_name(struct item_table *table, struct former_name *former_name)
{
    struct map *former_names = &table->folders[former_name->folder].former_names;
    struct former_name *newest = map_find(former_names, former_name->name);
    if (newest == former_name && former_name->same == NULL) {
        map_remove(former_names, former_name->name);
    } else if (newest == former_name) {
        map_set(former_names, former_name->same->name, former_name->same);
    } else {
        while (newest->same != former_name)
            newest = newest->same;
        newest->same = former_name->same;
    }
    *(former_name->older == NULL ? &table->oldest : &former_name->older->newer) = former_name->newer;
    *(former_name->newer == NULL ? &table->newest : &former_name->newer->older) = former_name->older;
    free(former_name->name);
    free(former_name);
}

void item_table_release(struct item_table *table)
{
    while (table->oldest != NULL)
        remove_former_name(table, table->oldest);
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++) {
        size_t position = 0;
        struct known_id *id;
        map_release(&table->folders[i].former_names);
        map_release(&table->folders[i].names);
        while ((id = map_next(&table->folders[i].ids, &position)) != NULL)
            free(id);
        map_release(&table->folders[i].ids);
    }
    size_t position = 0;
    struct item *item;
    while ((item = map_next(&table->by_number, &position)) != NULL)
        item_unref(item);
    map_release(&table->by_number);
}

int item_table_add(struct item_table *table, struct item *item)
{
    return map_set(&table->by_number, item->number_text, item);
}

void item_table_remove(struct item_table *table, struct item *item)
{
    map_remove(&table->by_number, item->number_text);
}

struct item *item_table_get(const struct item_table *table, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, number);
    return map_find(&table->by_number, text);
}

struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    void *found = map_find(&table->folders[folder].names, name);
    return found == &reservation ? NULL : found;
}

struct item *item_table_next(const struct item_table *table, enum outbox_folder folder, size_t *position)
{
    void *found;
    do {
        found = map_next(&table->folders[folder].names, position);
    } while (found == &reservation);
    return found;
}

bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    return map_find(&table->folders[folder].names, name) != NULL;
}

int item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name)
{
    return map_set(&table->folders[folder].names, name, &reservation);
}

void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name)
{
    if (map_find(&table->folders[folder].names, name) == &reservation)
        map_remove(&table->folders[folder].names, name);
}

static void add_id(struct map *ids, const char *id)
{
    struct known_id *known = id == NULL ? NULL : map_find(ids, id);
    if (known != NULL)
        known->count++;
    if (id == NULL || known != NULL)
        return;
    size_t size = strlen(id) + 1;
    known = malloc(sizeof(*known) + size);
    if (known == NULL)
        return;
    known->count = 1;
    memcpy(known->text, id, size);
    if (map_set(ids, known->text, known) != 0)
        free(known);
}

static void forget_id(struct map *ids, const char *id)
{
    struct known_id *known = id == NULL ? NULL : map_find(ids, id);
    if (known != NULL && --known->count == 0)
        free(map_remove(ids, id));
}

bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id)
{
    return map_find(&table->folders[folder].ids, id) != NULL;
}

void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    struct item_folder *place = &table->folders[folder];
    const struct item *hidden = item_table_find(table, folder, item->envelope.name);
    if (hidden != NULL)
        forget_id(&place->ids, hidden->envelope.id);
    map_set(&place->names, item->envelope.name, item);
    add_id(&place->ids, item->envelope.id);
}

void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item)
{
    struct item_folder *place = &table->folders[folder];
    if (map_find(&place->names, item->envelope.name) != item)
        return;
    map_remove(&place->names, item->envelope.name);
    forget_id(&place->ids, item->envelope.id);
}

void item_table_add_former_name(struct item_table *table, enum outbox_folder folder, const char *name,
                                const struct item *item, int64_t now_ms, int64_t until_ms)
{
    struct map *former_names = &table->folders[folder].former_names;
    while (table->oldest != NULL && table->oldest->until_ms <= now_ms)
        remove_former_name(table, table->oldest);
    struct former_name *same = map_find(former_names, name);
    struct former_name *former_name = calloc(1, sizeof(*former_name));
    char *copy = strdup(name);
    if (former_name == NULL || copy == NULL || map_set(former_names, copy, former_name) != 0) {
        free(copy);
        free(former_name);
        return;
    }
    *former_name = (struct former_name){
        .name = copy,
        .folder = folder,
        .number = item->number,
        .until_ms = until_ms,
        .same = same,
        .older = table->newest,
    };
    *(table->newest == NULL ? &table->oldest : &table->newest->newer) = former_name;
    table->newest = former_name;
}

bool item_table_has_former_name(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    return map_find(&table->folders[folder].former_names, name) != NULL;
}

struct item *item_table_find_by_former_name(const struct item_table *table, enum outbox_folder folder,
                                            const char *name, int64_t now_ms,
                                            bool (*is_by)(const struct item *, const struct item_asker *),
                                            const struct item_asker *asker)
{
    const struct former_name *former_name = map_find(&table->folders[folder].former_names, name);
    for (; former_name != NULL && former_name->until_ms > now_ms; former_name = former_name->same) {
        struct item *item = item_table_get(table, former_name->number);
        enum outbox_folder shown = item == NULL ? OUTBOX_FOLDER_NONE : item_folder(item);
        if ((shown == OUTBOX_FOLDER_SENT || shown == OUTBOX_FOLDER_FAILED) && is_by(item, asker))
            return item;
    }
    return NULL;
}

static struct former_name *find_former_name_of(const struct item_table *table, uint64_t number)
{
    struct former_name *former_name = table->newest;
    while (former_name != NULL && former_name->number != number)
        former_name = former_name->older;
    return former_name;
}

bool item_table_has_left(const struct item_table *table, uint64_t number)
{
    return find_former_name_of(table, number) != NULL;
}

bool item_table_forget_former_names(struct item_table *table, uint64_t number, const struct item_asker *asker)
{
    bool is_found = false;
    const struct former_name *former_name;
    while ((former_name = find_former_name_of(table, number)) != NULL) {
        struct former_name *next;
        for (struct former_name *at =
                 map_find(&table->folders[former_name->folder].former_names, former_name->name);
             at != NULL; at = next) {
            const struct item *item = item_table_get(table, at->number);
            next = at->same;
            if (at->number == number || (item != NULL && item_was_made_by(item, asker)))
                remove_former_name(table, at);
        }
        is_found = true;
    }
    return is_found;
}

/* ---------------------------------------------------------------- who has read */

static const struct item_asker *find_reader(const struct item *item, const struct item *wrote)
{
    for (size_t i = 0; i < ITEM_READERS_MAX && item != wrote; i++)
        if (item->read_by[i].process > 0 && item_was_written_by(wrote, item->read_by[i].process))
            return &item->read_by[i];
    return NULL;
}

const struct item_asker *item_table_find_reader(const struct item_table *table, const struct item *wrote,
                                                int64_t now_ms)
{
    const struct item_asker *reader = NULL;
    const struct item *item;
    size_t position = 0;
    if (!table->was_read || wrote->wrote_len > ITEM_WRITERS_MAX)
        return NULL;
    while (reader == NULL && (item = item_table_next(table, OUTBOX_FOLDER_OUTBOX, &position)) != NULL)
        reader = find_reader(item, wrote);
    for (const struct former_name *at = table->newest; reader == NULL && at != NULL && at->until_ms > now_ms;
         at = at->older)
        if ((item = item_table_get(table, at->number)) != NULL)
            reader = find_reader(item, wrote);
    return reader;
}

/* ================================================================ names */

bool item_is_receipt_name(const char *name)
{
    size_t len = strlen(name);
    size_t suffix = strlen(RECEIPT_SUFFIX);
    return len > suffix && strcmp(name + len - suffix, RECEIPT_SUFFIX) == 0;
}

bool item_is_never_sent(enum envelope_kind kind, const char *name)
{
    return file_name_is_temporary(name) || (kind == ENVELOPE_MESSAGE && file_name_is_backup(name));
}

int item_check_name(enum outbox_folder folder, const char *name)
{
    bool is_message = folder == OUTBOX_FOLDER_OUTBOX;
    if (item_is_receipt_name(name))
        return -EPERM;
    if (strlen(name) > (is_message ? FILE_NAME_MAX_BYTES : ITEM_NAME_MAX_BYTES))
        return -ENAMETOOLONG;
    return (is_message ? file_name_is_text(name) : file_name_is_valid(name)) ? 0 : -EILSEQ;
}

enum {
    NUMBER_MAX_BYTES = 12 /* "-4294967295", and "~" */
};

/* A name that was made of another: where that one is never sent, and this one would be, it gets a "~". */
static char *keep_never_sent(char *made, enum envelope_kind kind, const char *name)
{
    _cleanup_free_ char *owned = made;
    char *kept = NULL;
    if (made == NULL || !item_is_never_sent(kind, name) || item_is_never_sent(kind, made))
        return TAKE_PTR(owned);
    return asprintf(&kept, "%s~", made) < 0 ? NULL : kept;
}

static char *make_numbered(enum outbox_folder folder, const char *name, unsigned int number)
{
    enum envelope_kind kind = folder == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT;
    return keep_never_sent(file_name_numbered(name, number), kind, name);
}

/* A name that was cut must not end like a receipt's, and is sent or not as the whole one is. */
static char *shorten(const char *name, size_t max_bytes)
{
    bool may_be_sent = !item_is_never_sent(ENVELOPE_MESSAGE, name);
    bool is_cut = strlen(name) > max_bytes;
    char *shortened = file_name_shortened(name, is_cut && !may_be_sent ? max_bytes - strlen("~") : max_bytes);
    size_t len = shortened == NULL ? 0 : strlen(shortened);
    while (len > 1 && (item_is_receipt_name(shortened) ||
                       (may_be_sent && item_is_never_sent(ENVELOPE_MESSAGE, shortened))))
        shortened[--len] = '\0';
    return keep_never_sent(shortened, ENVELOPE_MESSAGE, name);
}

/* 1 for taken, 0 for free, -1 without memory. */
static int is_taken(const struct item_table *table, enum outbox_folder folder, const char *name,
                    unsigned int number)
{
    _cleanup_free_ char *numbered = make_numbered(folder, name, number);
    if (numbered == NULL)
        return -1;
    return item_table_is_taken(table, folder, numbered) ? 1 : 0;
}

char *item_table_choose_name(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    _cleanup_free_ char *whole = shorten(name, ITEM_NAME_MAX_BYTES);
    if (whole == NULL || !item_table_is_taken(table, folder, whole))
        return TAKE_PTR(whole);
    /* Of "x-2", where there is an "x", the next is "x-3", not "x-2-2". */
    _cleanup_free_ char *unnumbered = file_name_unnumbered(name);
    if (unnumbered != NULL && item_table_is_taken(table, folder, unnumbered))
        name = unnumbered;
    _cleanup_free_ char *base = shorten(name, ITEM_NAME_MAX_BYTES - NUMBER_MAX_BYTES);
    if (base == NULL)
        return NULL;
    unsigned int taken = 1;
    unsigned int number = 2;
    int state;
    while ((state = is_taken(table, folder, base, number)) == 1 && number < UINT_MAX / 2) {
        taken = number;
        number *= 2;
    }
    while (state >= 0 && number - taken > 1) {
        unsigned int middle = taken + (number - taken) / 2;
        state = is_taken(table, folder, base, middle);
        *(state == 1 ? &taken : &number) = middle;
    }
    return state < 0 ? NULL : make_numbered(folder, base, number);
}
