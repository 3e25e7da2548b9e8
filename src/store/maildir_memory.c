/* SPDX-License-Identifier: MIT */
/*
 * A box is the memory of one inbox. What changes is written to the file as whole rows, in one transaction
 * that is on the disk when it returns, and only then put into the box.
 */
#include "store/maildir_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/old_log.h"
#include "store/state_file.h"

enum {
    NS_PER_MS = 1000 * 1000,
    FIRST_CAPACITY = 16,
    BOXES_MAX = 1 << 20,
};

/* ---------------------------------------------------------------- boxes */

struct maildir_box {
    uint32_t number; /* in the file */
    uint32_t uidvalidity;
    char *id;                   /* the inbox's; owned */
    struct maildir_mail *mails; /* the place of U number n is n - 1 */
    uint32_t len;
    uint32_t capacity;
    struct number_table by_email;      /* of places */
    struct number_table by_digest;     /* of places */
    uint32_t present[MAILDIR_FOLDERS]; /* messages that are shown */
    int64_t changed_ns[MAILDIR_FOLDERS];
    bool is_stale;    /* the inbox may hold other emails than these */
    bool has_changed; /* the inbox, since a look-through of it began */
};

struct boxes {                  /* empty: all zeros */
    struct maildir_box **items; /* by number; NULL where there is none */
    uint32_t len;
    uint32_t capacity;
};

/* Empty, and stale. NULL without memory. */
static struct maildir_box *box_new(uint32_t number, uint32_t uidvalidity, const char *id)
{
    struct maildir_box *box = calloc(1, sizeof(*box));
    if (box == NULL)
        return NULL;
    *box = (struct maildir_box){.number = number, .uidvalidity = uidvalidity, .is_stale = true};
    box->id = strdup(id);
    if (box->id != NULL)
        return box;
    free(box);
    return NULL;
}

static void box_free(struct maildir_box *box)
{
    if (box == NULL)
        return;
    free(box->id);
    free(box->mails);
    number_table_release(&box->by_email);
    number_table_release(&box->by_digest);
    free(box);
}

/* Numbers in a row, spread over the table. */
static uint32_t hash_email(uint32_t email)
{
    return email * UINT32_C(2654435761);
}

static uint32_t hash_digest(const unsigned char *digest)
{
    uint32_t hash;
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

static bool email_equals(const void *context, uint32_t place, const void *key)
{
    return ((const struct maildir_box *)context)->mails[place].email == *(const uint32_t *)key;
}

static bool digest_equals(const void *context, uint32_t place, const void *key)
{
    return memcmp(((const struct maildir_box *)context)->mails[place].digest, key, MAILDIR_DIGEST_BYTES) == 0;
}

static struct maildir_mail *mail_at(const struct maildir_box *box, uint32_t place)
{
    return place == NUMBER_NONE ? NULL : &box->mails[place];
}

static struct maildir_mail *find_uid(const struct maildir_box *box, uint32_t uid)
{
    if (uid == 0 || uid > box->len || box->mails[uid - 1].uid == 0)
        return NULL;
    return &box->mails[uid - 1];
}

static struct maildir_mail *find_email(const struct maildir_box *box, uint32_t email)
{
    const struct number_kind kind = {email_equals, box};
    return mail_at(box, number_table_find(&box->by_email, &kind, hash_email(email), &email));
}

static struct maildir_mail *find_digest(const struct maildir_box *box, const unsigned char *digest)
{
    const struct number_kind kind = {digest_equals, box};
    return mail_at(box, number_table_find(&box->by_digest, &kind, hash_digest(digest), digest));
}

static int reserve_places(struct maildir_box *box, uint32_t len)
{
    uint32_t capacity = box->capacity == 0 ? FIRST_CAPACITY : box->capacity;
    if (len > MAILDIR_UID_MAX)
        return -EOVERFLOW;
    while (capacity < len)
        capacity *= 2;
    if (capacity == box->capacity)
        return 0;
    struct maildir_mail *mails = realloc(box->mails, capacity * sizeof(*mails));
    if (mails == NULL)
        return -ENOMEM;
    box->mails = mails;
    box->capacity = capacity;
    return 0;
}

static int enlarge(struct number_table *table, uint32_t more)
{
    struct number_table larger;
    int error = number_table_enlarge(table, more, &larger);
    if (error != 0)
        return error;
    struct number_table old = number_table_exchange(table, larger);
    number_table_release(&old);
    return 0;
}

/* Makes room for `more` new messages, and for as many emails to be bound. 0, -ENOMEM, or -EOVERFLOW. */
static int box_reserve(struct maildir_box *box, uint32_t more, uint32_t more_emails)
{
    if (more > MAILDIR_UID_MAX - box->len)
        return -EOVERFLOW;
    int error = reserve_places(box, box->len + more);
    if (error == 0)
        error = enlarge(&box->by_digest, more);
    if (error == 0)
        error = enlarge(&box->by_email, more_emails);
    return error;
}

static int make_place(struct maildir_box *box, uint32_t place)
{
    int error = place < box->len ? 0 : reserve_places(box, place + 1);
    if (error == 0)
        error = enlarge(&box->by_digest, 1);
    while (error == 0 && box->len <= place)
        box->mails[box->len++] = (struct maildir_mail){.email = NUMBER_NONE, .is_gone = true};
    return error;
}

/* Adds a message or, where its U number is known, replaces what was known of it (not its email). A place that
 * lies beyond the next one leaves the ones between without a message. 0, -EBADMSG (not a U number), -ENOMEM.
 */
static int box_put(struct maildir_box *box, const struct maildir_mail *mail)
{
    if (mail->uid == 0 || mail->uid > MAILDIR_UID_MAX || mail->folder >= MAILDIR_FOLDERS)
        return -EBADMSG;
    uint32_t place = mail->uid - 1;
    int error = make_place(box, place);
    if (error != 0)
        return error;
    struct maildir_mail *known = &box->mails[place];
    if (known->uid != 0 && memcmp(known->digest, mail->digest, sizeof(mail->digest)) != 0)
        return -EBADMSG;
    bool is_new = known->uid == 0;
    uint32_t email = known->email;
    box->present[known->folder] -= !is_new && maildir_mail_is_shown(known);
    box->present[mail->folder] += maildir_mail_is_shown(mail);
    *known = *mail;
    known->email = email;
    if (is_new)
        number_table_add(&box->by_digest, hash_digest(mail->digest), place);
    return 0;
}

/* From now on the message is found by this email. There must be room. */
static void box_bind(struct maildir_box *box, struct maildir_mail *mail, uint32_t email)
{
    mail->email = email;
    number_table_add(&box->by_email, hash_email(email), mail->uid - 1);
}

/* A look-through that is under way may have missed this. */
static void box_mark_stale(struct maildir_box *box)
{
    box->is_stale = true;
    box->has_changed = true;
}

/* Which folders change, and when. */
struct touch {
    unsigned int folders; /* 1 << enum maildir_folder for each */
    int64_t ns[MAILDIR_FOLDERS];
};

/* Moves the folders' times on: to those of the touch, and past what they were in any case. */
static void apply_touch(const struct touch *touch, int64_t changed_ns[MAILDIR_FOLDERS])
{
    for (unsigned int i = 0; i < MAILDIR_FOLDERS; i++)
        if ((touch->folders >> i & 1) != 0)
            changed_ns[i] = touch->ns[i] > changed_ns[i] ? touch->ns[i] : changed_ns[i] + 1;
}

static void boxes_release(struct boxes *boxes)
{
    for (uint32_t i = 0; i < boxes->len; i++)
        box_free(boxes->items[i]);
    free(boxes->items);
    *boxes = (struct boxes){0};
}

static struct maildir_box *boxes_find(const struct boxes *boxes, const char *id)
{
    for (uint32_t i = 0; i < boxes->len; i++)
        if (boxes->items[i] != NULL && strcmp(boxes->items[i]->id, id) == 0)
            return boxes->items[i];
    return NULL;
}

/* The lowest: what is in a file of somebody may have the highest that there is. */
static uint32_t boxes_find_free_number(const struct boxes *boxes)
{
    uint32_t number = 0;
    while (number < boxes->len && boxes->items[number] != NULL)
        number++;
    return number;
}

static int boxes_reserve(struct boxes *boxes, uint32_t number)
{
    if (number < boxes->capacity)
        return 0;
    uint32_t capacity = (number + 1) * 2;
    struct maildir_box **items = realloc(boxes->items, capacity * sizeof(struct maildir_box *));
    if (items == NULL)
        return -ENOMEM;
    boxes->items = items;
    boxes->capacity = capacity;
    return 0;
}

static void boxes_add(struct boxes *boxes, struct maildir_box *box)
{
    while (boxes->len <= box->number)
        boxes->items[boxes->len++] = NULL;
    boxes->items[box->number] = box;
}

/* ---------------------------------------------------------------- what a look changes */

struct plan {
    struct maildir_mail *changed; /* as they are to be */
    size_t changed_len;
    struct maildir_mail *met; /* digest and email of those met for the first time in this mount */
    size_t met_len;
    uint32_t added; /* new messages among the changed */
    struct touch touch;
};

static void add_change(struct plan *plan, const struct maildir_mail *mail)
{
    plan->changed[plan->changed_len++] = *mail;
    if (!mail->is_removed)
        plan->touch.folders |= 1U << mail->folder;
}

static void make_digest(const char *id, unsigned char ret_digest[MAILDIR_DIGEST_BYTES])
{
    char hex[65];
    hash_sha256(id, strlen(id), hex);
    for (size_t i = 0; i < MAILDIR_DIGEST_BYTES; i++) {
        const char byte[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        ret_digest[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
}

static void add_sighting(struct plan *plan, const struct maildir_box *box, uint8_t *is_seen,
                         const struct maildir_sighting *sighting)
{
    const struct maildir_mail *known = find_email(box, sighting->email);
    struct maildir_mail mail = {.epoch_s = sighting->epoch_s, .size = -1, .email = sighting->email};
    if (known == NULL && sighting->id == NULL)
        return;
    if (known == NULL) {
        make_digest(sighting->id, mail.digest);
        plan->met[plan->met_len++] = mail;
        known = find_digest(box, mail.digest);
    }
    if (known == NULL) {
        mail.uid = box->len + ++plan->added;
        mail.folder = MAILDIR_NEW;
        add_change(plan, &mail);
        return;
    }
    is_seen[known->uid - 1] = 1;
    if (known->is_gone) {
        mail = *known;
        mail.is_gone = false;
        add_change(plan, &mail);
    }
}

static void add_gone(struct plan *plan, const struct maildir_box *box, const uint8_t *is_seen)
{
    for (uint32_t i = 0; i < box->len; i++) {
        struct maildir_mail mail = box->mails[i];
        if (mail.uid == 0 || mail.is_gone || is_seen[i])
            continue;
        mail.is_gone = true;
        add_change(plan, &mail);
    }
}

/* Finds out what is to change before anything does. Reads the box alone. `arrived_ns`: when the inbox
 * changed: the time of new/ where mail came and none left. Release the plan also after an error. 0 or
 * -ENOMEM. */
static int plan_make(const struct maildir_box *box, const struct maildir_sighting *seen, size_t seen_len,
                     int64_t arrived_ns, int64_t now_ns, struct plan *ret)
{
    *ret = (struct plan){.changed = malloc((seen_len + box->len + 1) * sizeof(*ret->changed)),
                         .met = malloc((seen_len + 1) * sizeof(*ret->met))};
    _cleanup_free_ uint8_t *is_seen = calloc((size_t)box->len + 1, 1);
    if (ret->changed == NULL || ret->met == NULL || is_seen == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < seen_len; i++)
        add_sighting(ret, box, is_seen, &seen[i]);
    add_gone(ret, box, is_seen);
    /* What left or came back may have done so at any time since. */
    ret->touch.ns[MAILDIR_NEW] = ret->changed_len == ret->added ? arrived_ns : now_ns;
    ret->touch.ns[MAILDIR_CUR] = now_ns;
    return 0;
}

static void plan_release(struct plan *plan)
{
    free(plan->changed);
    free(plan->met);
    *plan = (struct plan){0};
}

/* 0, -ENOMEM, -EOVERFLOW. After it plan_apply() cannot fail. */
static int plan_make_room(const struct plan *plan, struct maildir_box *box)
{
    return box_reserve(box, plan->added, (uint32_t)plan->met_len);
}

static void plan_apply(const struct plan *plan, struct maildir_box *box)
{
    for (size_t i = 0; i < plan->changed_len; i++)
        box_put(box, &plan->changed[i]);
    for (size_t i = 0; i < plan->met_len; i++) {
        struct maildir_mail *mail = find_digest(box, plan->met[i].digest);
        if (mail != NULL && mail->email == NUMBER_NONE)
            box_bind(box, mail, plan->met[i].email);
    }
    apply_touch(&plan->touch, box->changed_ns);
}

/* ---------------------------------------------------------------- the file */

struct maildir_memory {
    struct clock *clock; /* borrowed */
    pthread_mutex_t write_lock;
    pthread_rwlock_t read_lock;
    struct state_file file;        /* protected by write_lock */
    int error;                     /* what keeps changes from the file; 0: nothing */
    struct boxes boxes;            /* protected by both, like all below */
    struct maildir_box **by_inbox; /* by the store's number; NULL: not known */
    uint32_t by_inbox_len;
};

enum statement {
    PUT_BOX,
    PUT_MAIL,
    LIST_BOXES,
    LIST_MAILS,
    LIST_MAILS_BACKWARDS,
};

static const char *const statements[] = {
    [PUT_BOX] = "INSERT OR REPLACE INTO boxes VALUES (?, ?, ?, ?, ?, ?)",
    [PUT_MAIL] = "INSERT OR REPLACE INTO mails VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    [LIST_BOXES] = "SELECT * FROM boxes ORDER BY number",
    [LIST_MAILS] = "SELECT * FROM mails ORDER BY place",
    [LIST_MAILS_BACKWARDS] = "SELECT * FROM mails ORDER BY place DESC",
};

static const struct state_file_format format = {
    .name = "maildir.sqlite3",
    .version = 1,
    .schema = "CREATE TABLE boxes (number INTEGER PRIMARY KEY, uidvalidity INTEGER NOT NULL,"
              " new_ns INTEGER NOT NULL, cur_ns INTEGER NOT NULL, id TEXT NOT NULL, hash INTEGER NOT NULL);"
              "CREATE TABLE mails (place INTEGER PRIMARY KEY, digest BLOB NOT NULL, epoch_s INTEGER NOT NULL,"
              " size INTEGER NOT NULL, flags INTEGER NOT NULL, folder INTEGER NOT NULL,"
              " bits INTEGER NOT NULL, hash INTEGER NOT NULL);",
    .statements = statements,
    .page_bytes = 4096,
    .log_pages = 1000,
};

enum mail_bit {
    MAIL_HAS_INFO = 1,
    MAIL_IS_GONE = 2,
    MAIL_IS_REMOVED = 4,
};

/* Boxes and U numbers in one number, which rows are ordered by. */
static int64_t place_of(uint32_t box, uint32_t uid)
{
    return (int64_t)box << 32 | uid;
}

static int64_t bits_of(const struct maildir_mail *mail)
{
    return (mail->has_info ? MAIL_HAS_INFO : 0) | (mail->is_gone ? MAIL_IS_GONE : 0) |
           (mail->is_removed ? MAIL_IS_REMOVED : 0);
}

/* A bit that the disk flips must not become a mark: a row whose hash is wrong counts as lost. */
static int64_t hash_box(const struct maildir_box *box, const int64_t changed_ns[MAILDIR_FOLDERS])
{
    const int64_t numbers[] = {box->number, box->uidvalidity, changed_ns[MAILDIR_NEW],
                               changed_ns[MAILDIR_CUR]};
    return (int64_t)hash_bytes(hash_bytes(0, numbers, sizeof(numbers)), box->id, strlen(box->id));
}

static int64_t hash_mail(int64_t place, const struct maildir_mail *mail)
{
    const int64_t numbers[] = {place,        mail->epoch_s,         mail->size, (int64_t)mail->flags,
                               mail->folder, (int64_t)bits_of(mail)};
    return (int64_t)hash_bytes(hash_bytes(0, numbers, sizeof(numbers)), mail->digest, sizeof(mail->digest));
}

/* With the times that its folders have after the touch. */
static int put_box(struct maildir_memory *memory, const struct maildir_box *box, const struct touch *touch)
{
    int64_t changed_ns[MAILDIR_FOLDERS];
    pthread_rwlock_rdlock(&memory->read_lock); /* maildir_memory_note_gone() moves them under it alone */
    memcpy(changed_ns, box->changed_ns, sizeof(changed_ns));
    pthread_rwlock_unlock(&memory->read_lock);
    apply_touch(touch, changed_ns);
    return state_file_execute(&memory->file, PUT_BOX, "iiiisi", (int64_t)box->number,
                              (int64_t)box->uidvalidity, changed_ns[MAILDIR_NEW], changed_ns[MAILDIR_CUR],
                              box->id, hash_box(box, changed_ns));
}

static int put_mail(struct maildir_memory *memory, const struct maildir_box *box,
                    const struct maildir_mail *mail)
{
    int64_t place = place_of(box->number, mail->uid);
    return state_file_execute(&memory->file, PUT_MAIL, "ibiiiiii", place, (const void *)mail->digest,
                              sizeof(mail->digest), mail->epoch_s, mail->size, (int64_t)mail->flags,
                              (int64_t)mail->folder, bits_of(mail), hash_mail(place, mail));
}

static int put_all(struct maildir_memory *memory)
{
    const struct touch none = {0};
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < memory->boxes.len; i++) {
        const struct maildir_box *box = memory->boxes.items[i];
        if (box != NULL)
            error = put_box(memory, box, &none);
        for (uint32_t k = 0; box != NULL && error == 0 && k < box->len; k++)
            if (box->mails[k].uid != 0)
                error = put_mail(memory, box, &box->mails[k]);
    }
    return error;
}

/* All of it, durably. 0 or -errno. */
static int write_all(void *context)
{
    struct maildir_memory *memory = context;
    int error = state_file_begin(&memory->file, true);
    if (error != 0)
        return error;
    error = put_all(memory);
    if (error == 0)
        return state_file_commit(&memory->file);
    state_file_abandon(&memory->file);
    return error;
}

/* A file that was found damaged is made anew first, from what is in memory. */
static int begin(struct maildir_memory *memory, bool is_durable)
{
    int error = memory->error;
    if (error == 0 && atomic_load(&memory->file.is_damaged))
        error = state_file_replace(&memory->file, write_all, memory);
    return error != 0 ? error : state_file_begin(&memory->file, is_durable);
}

static int end(struct maildir_memory *memory, int error)
{
    if (error == 0)
        return state_file_commit(&memory->file);
    state_file_abandon(&memory->file);
    return error;
}

/* Some messages of a box, and its folders' times. On the disk when it returns 0; else nothing is. */
static int write_mails(struct maildir_memory *memory, const struct maildir_box *box,
                       const struct touch *touch, const struct maildir_mail *mails, size_t len)
{
    int error = begin(memory, true);
    if (error != 0)
        return error;
    error = put_box(memory, box, touch);
    for (size_t i = 0; error == 0 && i < len; i++)
        error = put_mail(memory, box, &mails[i]);
    return end(memory, error);
}

/* ---------------------------------------------------------------- loading */

/* A new box, where neither its number nor its id is another's. 0 or -ENOMEM; *ret_box may be NULL. */
static int add_loaded_box(struct boxes *boxes, uint32_t number, uint32_t uidvalidity, const char *id,
                          struct maildir_box **ret_box)
{
    *ret_box = NULL;
    if (number >= BOXES_MAX || uidvalidity == 0 || boxes_find(boxes, id) != NULL ||
        (number < boxes->len && boxes->items[number] != NULL))
        return 0;
    if (boxes_reserve(boxes, number) != 0)
        return -ENOMEM;
    struct maildir_box *box = box_new(number, uidvalidity, id);
    if (box == NULL)
        return -ENOMEM;
    boxes_add(boxes, box);
    *ret_box = box;
    return 0;
}

static int load_box(struct maildir_memory *memory, sqlite3_stmt *row)
{
    int64_t number = sqlite3_column_int64(row, 0);
    const char *id = (const char *)sqlite3_column_text(row, 4);
    struct maildir_box *box = NULL;
    int error = id == NULL || number < 0 || number >= BOXES_MAX
                    ? 0
                    : add_loaded_box(&memory->boxes, (uint32_t)number, (uint32_t)sqlite3_column_int64(row, 1),
                                     id, &box);
    if (error != 0)
        return error;
    if (box != NULL) {
        box->changed_ns[MAILDIR_NEW] = sqlite3_column_int64(row, 2);
        box->changed_ns[MAILDIR_CUR] = sqlite3_column_int64(row, 3);
    }
    if (box == NULL || sqlite3_column_int64(row, 5) != hash_box(box, box->changed_ns)) {
        if (box != NULL) {
            memory->boxes.items[number] = NULL;
            box_free(box);
        }
        state_file_note(&memory->file, -EUCLEAN);
    }
    return 0;
}

static int load_mail(struct maildir_memory *memory, sqlite3_stmt *row)
{
    int64_t place = sqlite3_column_int64(row, 0);
    uint64_t number = (uint64_t)place >> 32;
    const void *digest = sqlite3_column_blob(row, 1);
    int64_t bits = sqlite3_column_int64(row, 6);
    struct maildir_box *box = number < memory->boxes.len ? memory->boxes.items[number] : NULL;
    struct maildir_mail mail = {
        .epoch_s = sqlite3_column_int64(row, 2),
        .size = sqlite3_column_int64(row, 3),
        .flags = (uint64_t)sqlite3_column_int64(row, 4),
        .uid = (uint32_t)place,
        .email = NUMBER_NONE,
        .folder = (uint8_t)sqlite3_column_int64(row, 5),
        .has_info = (bits & MAIL_HAS_INFO) != 0,
        .is_gone = (bits & MAIL_IS_GONE) != 0,
        .is_removed = (bits & MAIL_IS_REMOVED) != 0,
    };
    int error = -EBADMSG;
    if (digest != NULL && sqlite3_column_bytes(row, 1) == MAILDIR_DIGEST_BYTES)
        memcpy(mail.digest, digest, sizeof(mail.digest));
    if (box != NULL && mail.size >= -1 && sqlite3_column_int64(row, 7) == hash_mail(place, &mail))
        error = box_put(box, &mail);
    if (error == -EBADMSG)
        state_file_note(&memory->file, -EUCLEAN);
    return error == -ENOMEM ? error : 0;
}

/* 0; -ENOMEM; -errno: not all of it could be read. Nobody else uses the file yet. */
static int load_rows(struct maildir_memory *memory, enum statement statement,
                     int (*load)(struct maildir_memory *memory, sqlite3_stmt *row))
{
    sqlite3_stmt *row;
    int error = 0;
    int more = statements_begin(&memory->file.statements, statement, &row, "");
    for (; more > 0 && error == 0; more = query_step(row))
        error = load(memory, row);
    statements_end(row);
    return error != 0 ? error : more;
}

/* Whether what is in the file is not what was written: SQLite says so, or its tables are others. All else, as
 * of a disk that cannot be read, may be over at the next start. */
static bool is_damage(int error)
{
    return error == -EUCLEAN || error == -EINVAL;
}

/* What lies behind a damaged page is read from the other end. 0; -ENOMEM; -errno: it could not be read. */
static int load_all(struct maildir_memory *memory)
{
    if (memory->file.db == NULL)
        return 0;
    int error = load_rows(memory, LIST_BOXES, load_box);
    if (error == 0)
        error = load_rows(memory, LIST_MAILS, load_mail);
    if (is_damage(error)) {
        state_file_note(&memory->file, -EUCLEAN);
        error = load_rows(memory, LIST_MAILS_BACKWARDS, load_mail);
    }
    return is_damage(error) ? 0 : error;
}

/* ---------------------------------------------------------------- what version 0.1 left */

/* A log (old_log.h) of boxes and messages, of each the last counts, but for the folders' times, of which the
 * latest does. */
static const char old_name[] = "maildir";

enum {
    OLD_BOX = 1,
    OLD_MAIL = 2,
    OLD_IN_CUR = 1,
    OLD_HAS_INFO = 2,
    OLD_IS_GONE = 4,
    OLD_CHANGED_NEW = 8,
    OLD_CHANGED_CUR = 16,
};

struct old_box {
    uint32_t number;
    uint32_t uidvalidity;
    int64_t changed_ns[MAILDIR_FOLDERS];
    char id[];
};

struct old_mail {
    uint32_t box;
    uint32_t uid;
    unsigned char digest[MAILDIR_DIGEST_BYTES];
    int64_t epoch_s;
    int64_t size;
    uint64_t flags;
    int64_t changed_ns;
    uint32_t bits;
    uint32_t spare;
};

static int take_old_box(struct boxes *boxes, const struct old_box *old, size_t len)
{
    struct maildir_box *box;
    if (len <= sizeof(*old) || ((const char *)old)[len - 1] != '\0')
        return 0;
    int error = add_loaded_box(boxes, old->number, old->uidvalidity, old->id, &box);
    if (error == 0 && box != NULL)
        memcpy(box->changed_ns, old->changed_ns, sizeof(box->changed_ns));
    return error;
}

static int take_old_mail(struct boxes *boxes, const struct old_mail *old, size_t len)
{
    static const uint32_t bits[MAILDIR_FOLDERS] = {OLD_CHANGED_NEW, OLD_CHANGED_CUR};
    if (len != sizeof(*old) || old->box >= boxes->len || boxes->items[old->box] == NULL || old->size < -1)
        return 0;
    struct maildir_box *box = boxes->items[old->box];
    struct maildir_mail mail = {
        .epoch_s = old->epoch_s,
        .size = old->size,
        .flags = old->flags,
        .uid = old->uid,
        .email = NUMBER_NONE,
        .folder = (old->bits & OLD_IN_CUR) != 0 ? MAILDIR_CUR : MAILDIR_NEW,
        .has_info = (old->bits & OLD_HAS_INFO) != 0,
        .is_gone = (old->bits & OLD_IS_GONE) != 0,
    };
    memcpy(mail.digest, old->digest, sizeof(mail.digest));
    int error = box_put(box, &mail);
    for (int i = 0; error == 0 && i < MAILDIR_FOLDERS; i++)
        if ((old->bits & bits[i]) != 0 && old->changed_ns > box->changed_ns[i])
            box->changed_ns[i] = old->changed_ns;
    return error == -ENOMEM ? error : 0;
}

static int take_old_frame(void *context, unsigned int kind, const void *payload, size_t len)
{
    if (kind == OLD_BOX)
        return take_old_box(context, payload, len);
    return kind == OLD_MAIL ? take_old_mail(context, payload, len) : 0;
}

static int set_old_aside(int dir_fd)
{
    if (renameat(dir_fd, old_name, dir_fd, "maildir.set-aside") != 0)
        return -errno;
    log_warning("the state file %s cannot be read and is set aside as %s.set-aside; it is built anew",
                old_name, old_name);
    return 0;
}

/* The log goes when all of it is in the new file, durably; a new file with anything in it is newer than the
 * log. */
static int take_over_old(struct maildir_memory *memory, int dir_fd)
{
    if (memory->boxes.len > 0) {
        unlinkat(dir_fd, old_name, 0);
        return 0;
    }
    int error = old_log_visit(dir_fd, old_name, take_old_frame, &memory->boxes);
    if (error == -ENOENT)
        return 0;
    if (error == -EBADMSG)
        return set_old_aside(dir_fd);
    if (error == 0)
        error = write_all(memory);
    if (error == 0 && unlinkat(dir_fd, old_name, 0) == 0)
        log_info("marks and numbers of Maildirs were taken over from version 0.1");
    return error;
}

/* ---------------------------------------------------------------- opened and freed */

int maildir_memory_open(int dir_fd, struct clock *clock, struct maildir_memory **ret_memory)
{
    struct maildir_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return -ENOMEM;
    memory->clock = clock;
    pthread_mutex_init(&memory->write_lock, NULL);
    pthread_rwlock_init(&memory->read_lock, NULL);
    int error = state_file_open(&memory->file, dir_fd, &format);
    if (error == 0)
        error = load_all(memory);
    if (error == -ENOMEM) {
        maildir_memory_free(memory);
        return error;
    }
    if (error != 0) /* without the rest a number would be given twice, and a mark that is there be unseen */
        boxes_release(&memory->boxes);
    memory->error = error != 0 ? error : memory->file.error;
    if (memory->error == 0)
        memory->error = take_over_old(memory, dir_fd);
    if (memory->error != 0)
        log_warning("what Maildirs are to remember cannot be kept: %s", strerror(-memory->error));
    *ret_memory = memory;
    return 0;
}

void maildir_memory_free(struct maildir_memory *memory)
{
    if (memory == NULL)
        return;
    state_file_release(&memory->file);
    boxes_release(&memory->boxes);
    free(memory->by_inbox);
    pthread_rwlock_destroy(&memory->read_lock);
    pthread_mutex_destroy(&memory->write_lock);
    free(memory);
}

static int64_t now_ns(const struct maildir_memory *memory)
{
    return clock_realtime_ms(memory->clock) * NS_PER_MS;
}

static void lock_for_writing(struct maildir_memory *memory)
{
    pthread_rwlock_wrlock(&memory->read_lock);
}

static void unlock(struct maildir_memory *memory)
{
    pthread_rwlock_unlock(&memory->read_lock);
}

/* The box of the store's inbox, or NULL. */
static struct maildir_box *box_of(const struct maildir_memory *memory, uint32_t inbox)
{
    return inbox < memory->by_inbox_len ? memory->by_inbox[inbox] : NULL;
}

/* ---------------------------------------------------------------- inboxes */

/* A box that the file does not have yet, and has when it returns. */
static int make_box_locked(struct maildir_memory *memory, const char *id, struct maildir_box **ret_box)
{
    uint32_t number = boxes_find_free_number(&memory->boxes);
    if (number >= BOXES_MAX)
        return -EOVERFLOW;
    /* The time it was made: when this file is lost, the next one has others. */
    struct maildir_box *box = box_new(number, (uint32_t)(clock_realtime_ms(memory->clock) / 1000), id);
    if (box == NULL)
        return -ENOMEM;
    int error = write_mails(memory, box, &(struct touch){0}, NULL, 0);
    if (error != 0)
        box_free(box);
    else
        *ret_box = box;
    return error;
}

static int reserve_inboxes(struct maildir_memory *memory, uint32_t len)
{
    if (len <= memory->by_inbox_len)
        return 0;
    struct maildir_box **by_inbox = realloc(memory->by_inbox, len * sizeof(struct maildir_box *));
    if (by_inbox == NULL)
        return -ENOMEM;
    for (uint32_t i = memory->by_inbox_len; i < len; i++)
        by_inbox[i] = NULL;
    memory->by_inbox = by_inbox;
    memory->by_inbox_len = len;
    return 0;
}

static int add_inbox_locked(struct maildir_memory *memory, uint32_t inbox, const char *id)
{
    lock_for_writing(memory);
    int error = reserve_inboxes(memory, inbox + 1);
    if (error == 0)
        error = boxes_reserve(&memory->boxes, memory->boxes.len);
    unlock(memory);

    struct maildir_box *box = boxes_find(&memory->boxes, id);
    bool is_new = box == NULL;
    if (error == 0 && is_new)
        error = make_box_locked(memory, id, &box);
    if (error != 0)
        return error;
    lock_for_writing(memory);
    if (is_new)
        boxes_add(&memory->boxes, box);
    memory->by_inbox[inbox] = box;
    unlock(memory);
    return 0;
}

int maildir_memory_add_inbox(struct maildir_memory *memory, uint32_t inbox, const char *id)
{
    if (maildir_memory_has_inbox(memory, inbox))
        return 0;
    pthread_mutex_lock(&memory->write_lock);
    int error = box_of(memory, inbox) != NULL ? 0 : add_inbox_locked(memory, inbox, id);
    pthread_mutex_unlock(&memory->write_lock);
    return error;
}

bool maildir_memory_has_inbox(struct maildir_memory *memory, uint32_t inbox)
{
    struct maildir_state state;
    return maildir_memory_get_state(memory, inbox, &state);
}

/* ---------------------------------------------------------------- looking */

bool maildir_memory_find_uid(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                             struct maildir_mail *ret)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    const struct maildir_box *box = box_of(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : find_uid(box, uid);
    if (mail != NULL)
        *ret = *mail;
    unlock(memory);
    return mail != NULL;
}

bool maildir_memory_find_email(struct maildir_memory *memory, uint32_t inbox, uint32_t email,
                               struct maildir_mail *ret)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    const struct maildir_box *box = box_of(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : find_email(box, email);
    if (mail != NULL)
        *ret = *mail;
    unlock(memory);
    return mail != NULL;
}

bool maildir_memory_get_state(struct maildir_memory *memory, uint32_t inbox, struct maildir_state *ret)
{
    pthread_rwlock_rdlock(&memory->read_lock);
    const struct maildir_box *box = box_of(memory, inbox);
    if (box != NULL) {
        *ret = (struct maildir_state){
            .uidvalidity = box->uidvalidity, .uid_max = box->len, .is_stale = box->is_stale};
        memcpy(ret->changed_ns, box->changed_ns, sizeof(ret->changed_ns));
        memcpy(ret->present, box->present, sizeof(ret->present));
    }
    unlock(memory);
    return box != NULL;
}

/* ---------------------------------------------------------------- following the inbox */

void maildir_memory_mark_stale(struct maildir_memory *memory, uint32_t inbox)
{
    lock_for_writing(memory);
    struct maildir_box *box = box_of(memory, inbox);
    if (box != NULL)
        box_mark_stale(box);
    unlock(memory);
}

bool maildir_memory_begin_sync(struct maildir_memory *memory, uint32_t inbox)
{
    lock_for_writing(memory);
    struct maildir_box *box = box_of(memory, inbox);
    bool is_stale = box != NULL && box->is_stale;
    if (is_stale)
        box->has_changed = false;
    unlock(memory);
    return is_stale;
}

static int sync_locked(struct maildir_memory *memory, struct maildir_box *box,
                       const struct maildir_sighting *seen, size_t seen_len, int64_t arrived_ns)
{
    struct plan plan;
    int error = plan_make(box, seen, seen_len, arrived_ns, now_ns(memory), &plan);
    if (error == 0) {
        lock_for_writing(memory);
        error = plan_make_room(&plan, box);
        unlock(memory);
    }
    if (error == 0 && plan.changed_len > 0)
        error = write_mails(memory, box, &plan.touch, plan.changed, plan.changed_len);
    if (error == 0) {
        lock_for_writing(memory);
        plan_apply(&plan, box);
        box->is_stale = box->has_changed;
        unlock(memory);
    }
    plan_release(&plan);
    return error;
}

int maildir_memory_sync(struct maildir_memory *memory, uint32_t inbox, const struct maildir_sighting *seen,
                        size_t seen_len, int64_t arrived_ns)
{
    pthread_mutex_lock(&memory->write_lock);
    struct maildir_box *box = box_of(memory, inbox);
    int error = box == NULL ? -ENOENT : sync_locked(memory, box, seen, seen_len, arrived_ns);
    pthread_mutex_unlock(&memory->write_lock);
    return error;
}

/* The next sync finds the same, and writes it down. */
void maildir_memory_note_gone(struct maildir_memory *memory, uint32_t inbox, uint32_t email)
{
    lock_for_writing(memory);
    struct maildir_box *box = box_of(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : find_email(box, email);
    int64_t ns = now_ns(memory);
    if (mail != NULL && !mail->is_removed)
        apply_touch(&(struct touch){1U << mail->folder, {ns, ns}}, box->changed_ns);
    if (box != NULL)
        box_mark_stale(box);
    unlock(memory);
}

/* ---------------------------------------------------------------- marking */

/* `mark` NULL: the message is removed. */
static int mark_locked(struct maildir_memory *memory, struct maildir_box *box, uint32_t uid,
                       const struct maildir_mark *mark)
{
    const struct maildir_mail *known = find_uid(box, uid);
    if (known == NULL || !maildir_mail_is_shown(known))
        return -ENOENT;
    struct maildir_mail mail = *known;
    if (mark != NULL) {
        mail.folder = (uint8_t)mark->folder;
        mail.has_info = mark->has_info;
        mail.flags = mark->flags;
    } else {
        mail.is_removed = true;
    }
    int64_t ns = now_ns(memory);
    const struct touch touch = {1U << known->folder | 1U << mail.folder, {ns, ns}};
    int error = write_mails(memory, box, &touch, &mail, 1);
    if (error != 0)
        return error;
    lock_for_writing(memory);
    box_put(box, &mail);
    apply_touch(&touch, box->changed_ns);
    unlock(memory);
    return 0;
}

int maildir_memory_mark(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                        const struct maildir_mark *mark)
{
    pthread_mutex_lock(&memory->write_lock);
    struct maildir_box *box = box_of(memory, inbox);
    int error = box == NULL ? -ENOENT : mark_locked(memory, box, uid, mark);
    pthread_mutex_unlock(&memory->write_lock);
    return error;
}

int maildir_memory_remove(struct maildir_memory *memory, uint32_t inbox, uint32_t uid)
{
    return maildir_memory_mark(memory, inbox, uid, NULL);
}

/* ---------------------------------------------------------------- sizes */

static void note_size_locked(struct maildir_memory *memory, struct maildir_box *box, uint32_t uid,
                             int64_t size)
{
    const struct maildir_mail *known = find_uid(box, uid);
    if (known == NULL || known->size == size || size < 0)
        return;
    struct maildir_mail mail = *known;
    mail.size = size;
    if (begin(memory, false) == 0)
        (void)end(memory, put_mail(memory, box, &mail));
    lock_for_writing(memory);
    box_put(box, &mail);
    unlock(memory);
}

void maildir_memory_note_size(struct maildir_memory *memory, uint32_t inbox, uint32_t uid, int64_t size)
{
    pthread_mutex_lock(&memory->write_lock);
    struct maildir_box *box = box_of(memory, inbox);
    if (box != NULL)
        note_size_locked(memory, box, uid, size);
    pthread_mutex_unlock(&memory->write_lock);
}
