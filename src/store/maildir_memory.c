/* SPDX-License-Identifier: MIT */
/*
 * A box has the messages of one inbox. A change is written to the database as whole rows, in one
 * transaction, and put into the box when the transaction is durable.
 */
#include "store/maildir_memory.h"

#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "sql/database.h"

enum {
    NS_PER_MS = 1000 * 1000,
    BOXES_MAX = 1 << 20,
};

/* ---------------------------------------------------------------- boxes */

struct maildir_box {
    uint32_t number; /* primary key in the database */
    uint32_t uidvalidity;
    char *id;              /* the service's id of the inbox; owned */
    GPtrArray *mails;      /* struct maildir_mail; U number n has index n - 1; NULL if not used */
    GHashTable *by_email;  /* messages by maildir_mail.email, unless NUMBER_NONE */
    GHashTable *by_digest; /* a set of all messages; a struct maildir_mail begins with its digest */
    uint32_t present[MAILDIR_FOLDERS]; /* how many messages are shown */
    int64_t changed_ns[MAILDIR_FOLDERS];
    bool is_stale;    /* the inbox may have changed since the last sync */
    bool has_changed; /* became stale after maildir_memory_begin_sync(), whose caller may miss the change */
};

static guint hash_digest(gconstpointer digest)
{
    guint hash;
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

static gboolean digest_equals(gconstpointer one, gconstpointer other)
{
    return memcmp(one, other, MAILDIR_DIGEST_BYTES) == 0;
}

static struct maildir_box *box_new(uint32_t number, uint32_t uidvalidity, const char *id)
{
    struct maildir_box *box = g_new0(struct maildir_box, 1);
    *box = (struct maildir_box){.number = number,
                                .uidvalidity = uidvalidity,
                                .id = g_strdup(id),
                                .mails = g_ptr_array_new_with_free_func(g_free),
                                .by_email = g_hash_table_new(NULL, NULL),
                                .by_digest = g_hash_table_new(hash_digest, digest_equals),
                                .is_stale = true};
    return box;
}

static void box_free(gpointer data)
{
    struct maildir_box *box = data;
    g_free(box->id);
    g_hash_table_unref(box->by_email);
    g_hash_table_unref(box->by_digest);
    g_ptr_array_unref(box->mails);
    g_free(box);
}

static struct maildir_mail *find_uid(const struct maildir_box *box, uint32_t uid)
{
    return uid == 0 || uid > box->mails->len ? NULL : g_ptr_array_index(box->mails, uid - 1);
}

static struct maildir_mail *find_email(const struct maildir_box *box, uint32_t email)
{
    return g_hash_table_lookup(box->by_email, GUINT_TO_POINTER(email));
}

static void box_bind(struct maildir_box *box, struct maildir_mail *mail, uint32_t email)
{
    mail->email = email;
    g_hash_table_insert(box->by_email, GUINT_TO_POINTER(email), mail);
}

/* Adds a message, or replaces the one with the same U number, whose email number stays if it is set. Return:
 * 0; -EBADMSG when the U number or the folder is invalid, or another message has the U number. */
static int box_put(struct maildir_box *box, const struct maildir_mail *mail)
{
    if (mail->uid == 0 || mail->uid > MAILDIR_UID_MAX || mail->folder >= MAILDIR_FOLDERS)
        return -EBADMSG;
    struct maildir_mail *known = find_uid(box, mail->uid);
    if (known == NULL) {
        known = g_new(struct maildir_mail, 1);
        *known = *mail;
        known->email = NUMBER_NONE;
        known->is_gone = true;
        if (mail->uid > box->mails->len)
            g_ptr_array_set_size(box->mails, (gint)mail->uid);
        g_ptr_array_index(box->mails, mail->uid - 1) = known;
        g_hash_table_add(box->by_digest, known);
    }
    if (!digest_equals(known->digest, mail->digest))
        return -EBADMSG;
    uint32_t email = known->email;
    box->present[known->folder] -= maildir_mail_is_shown(known);
    box->present[mail->folder] += maildir_mail_is_shown(mail);
    *known = *mail;
    known->email = email;
    if (email == NUMBER_NONE && mail->email != NUMBER_NONE)
        box_bind(box, known, mail->email);
    return 0;
}

static void box_mark_stale(struct maildir_box *box)
{
    box->is_stale = true;
    box->has_changed = true;
}

/* Folders whose modification times change, and the new times (ns). */
struct touch {
    unsigned int folders; /* bits 1 << enum maildir_folder */
    int64_t ns[MAILDIR_FOLDERS];
};

/* Sets the folders' times. A time always grows, so that a mail program notices each change. */
static void apply_touch(const struct touch *touch, int64_t changed_ns[MAILDIR_FOLDERS])
{
    for (unsigned int i = 0; i < MAILDIR_FOLDERS; i++)
        if ((touch->folders >> i & 1) != 0)
            changed_ns[i] = touch->ns[i] > changed_ns[i] ? touch->ns[i] : changed_ns[i] + 1;
}

/* Finds a box by the inbox's id or, if `id` is NULL, by the box's number in the database. */
static struct maildir_box *find_box(const GPtrArray *boxes, uint32_t number, const char *id)
{
    for (guint i = 0; i < boxes->len; i++) {
        struct maildir_box *box = g_ptr_array_index(boxes, i);
        if (id != NULL ? strcmp(box->id, id) == 0 : box->number == number)
            return box;
    }
    return NULL;
}

/* ---------------------------------------------------------------- the file */

enum {
    SIZES_MAX = 256, /* sizes that are not in the database yet */
};

struct noted_size {
    const struct maildir_box *box;
    const struct maildir_mail *mail;
};

struct maildir_memory {
    struct clock *clock;       /* borrowed */
    struct database *database; /* NULL if the database cannot be used */
    int error;                 /* -errno if `database` is NULL, else 0 */
    pthread_mutex_t write_lock;
    pthread_rwlock_t read_lock;
    struct noted_size sizes[SIZES_MAX]; /* protected by write_lock */
    size_t sizes_len;                   /* protected by write_lock */
    GPtrArray *boxes;                   /* struct maildir_box, owned; protected by both locks */
    GHashTable *by_inbox;               /* boxes by the store's number of the inbox; protected by both */
};

static const struct database_step steps[] = {
    /* the tables of version 0.2 */
    {.sql = "CREATE TABLE boxes (number INTEGER PRIMARY KEY, uidvalidity INTEGER NOT NULL,"
            " new_ns INTEGER NOT NULL, cur_ns INTEGER NOT NULL, id TEXT NOT NULL, hash INTEGER NOT NULL);"
            "CREATE TABLE mails (place INTEGER PRIMARY KEY, digest BLOB NOT NULL, epoch_s INTEGER NOT NULL,"
            " size INTEGER NOT NULL, flags INTEGER NOT NULL, folder INTEGER NOT NULL, bits INTEGER NOT NULL,"
            " hash INTEGER NOT NULL);"},
    {.sql =
         "CREATE TABLE box (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
         " uidvalidity INTEGER NOT NULL CHECK (uidvalidity > 0), new_ns INTEGER NOT NULL,"
         " cur_ns INTEGER NOT NULL);"
         "CREATE TABLE mail (box INTEGER NOT NULL, uid INTEGER NOT NULL, digest BLOB NOT NULL,"
         " epoch_s INTEGER NOT NULL, size INTEGER NOT NULL, flags INTEGER NOT NULL, folder INTEGER NOT NULL,"
         " bits INTEGER NOT NULL, PRIMARY KEY (box, uid)) WITHOUT ROWID;"
         "INSERT INTO box SELECT number, id, uidvalidity, new_ns, cur_ns FROM boxes;"
         "INSERT INTO mail SELECT place >> 32, place & 0xffffffff, digest, epoch_s, size, flags, folder, bits"
         " FROM mails ORDER BY place;"
         "DROP TABLE boxes; DROP TABLE mails;"},
};

static const struct database_format format = {
    .name = "maildir.sqlite3",
    .steps = steps,
    .steps_len = ARRAY_LEN(steps),
};

enum mail_bit {
    MAIL_HAS_INFO = 1,
    MAIL_IS_GONE = 2,
    MAIL_IS_REMOVED = 4,
};

static int put_mail(struct connection *writer, const struct maildir_box *box, const struct maildir_mail *mail)
{
    int64_t bits = (mail->has_info ? MAIL_HAS_INFO : 0) | (mail->is_gone ? MAIL_IS_GONE : 0) |
                   (mail->is_removed ? MAIL_IS_REMOVED : 0);
    return query_execute(writer, "INSERT OR REPLACE INTO mail VALUES (?, ?, ?, ?, ?, ?, ?, ?)", "iibiiiii",
                         (int64_t)box->number, (int64_t)mail->uid, (const void *)mail->digest,
                         sizeof(mail->digest), mail->epoch_s, mail->size, (int64_t)mail->flags,
                         (int64_t)mail->folder, bits);
}

/* Writes memory->sizes and, unless `box` is NULL, the box with the folder times that apply_touch() will set,
 * and some of its messages. All are durable after 0; after an error nothing is written. */
static int write_mails(struct maildir_memory *memory, const struct maildir_box *box,
                       const struct touch *touch, const struct maildir_mail *mails, size_t len)
{
    struct connection *writer = NULL;
    int error = memory->error;
    if (error == 0)
        error = database_begin_write(memory->database, &writer);
    if (error != 0)
        return error;
    for (size_t i = 0; error == 0 && i < memory->sizes_len; i++)
        error = put_mail(writer, memory->sizes[i].box, memory->sizes[i].mail);
    if (error == 0 && box != NULL) {
        int64_t changed_ns[MAILDIR_FOLDERS];
        pthread_rwlock_rdlock(&memory->read_lock); /* maildir_memory_note_gone() takes no other lock */
        memcpy(changed_ns, box->changed_ns, sizeof(changed_ns));
        pthread_rwlock_unlock(&memory->read_lock);
        apply_touch(touch, changed_ns);
        error = query_execute(writer, "INSERT OR REPLACE INTO box VALUES (?, ?, ?, ?, ?)", "isiii",
                              (int64_t)box->number, box->id, (int64_t)box->uidvalidity,
                              changed_ns[MAILDIR_NEW], changed_ns[MAILDIR_CUR]);
    }
    for (size_t i = 0; error == 0 && i < len; i++)
        error = put_mail(writer, box, &mails[i]);
    error = database_end_write(memory->database, error);
    if (error == 0)
        memory->sizes_len = 0;
    return error;
}

/* ---------------------------------------------------------------- loading */

/* An invalid row counts as damage: if it were skipped, its number would be given a second time. */
static int load_box(struct maildir_memory *memory, sqlite3_stmt *row)
{
    int64_t number = sqlite3_column_int64(row, 0);
    if (number < 0 || number >= BOXES_MAX)
        return -EUCLEAN;
    struct maildir_box *box =
        box_new((uint32_t)number, (uint32_t)sqlite3_column_int64(row, 2), query_column_text(row, 1));
    box->changed_ns[MAILDIR_NEW] = sqlite3_column_int64(row, 3);
    box->changed_ns[MAILDIR_CUR] = sqlite3_column_int64(row, 4);
    g_ptr_array_add(memory->boxes, box);
    return 0;
}

static int load_mail(struct maildir_memory *memory, sqlite3_stmt *row)
{
    int64_t number = sqlite3_column_int64(row, 0);
    int64_t uid = sqlite3_column_int64(row, 1);
    const void *digest = sqlite3_column_blob(row, 2);
    int64_t folder = sqlite3_column_int64(row, 6);
    int64_t bits = sqlite3_column_int64(row, 7);
    struct maildir_box *box =
        number == (uint32_t)number ? find_box(memory->boxes, (uint32_t)number, NULL) : NULL;
    struct maildir_mail mail = {
        .epoch_s = sqlite3_column_int64(row, 3),
        .size = sqlite3_column_int64(row, 4),
        .flags = (uint64_t)sqlite3_column_int64(row, 5),
        .uid = (uint32_t)uid,
        .email = NUMBER_NONE,
        .folder = (uint8_t)folder,
        .has_info = (bits & MAIL_HAS_INFO) != 0,
        .is_gone = (bits & MAIL_IS_GONE) != 0,
        .is_removed = (bits & MAIL_IS_REMOVED) != 0,
    };
    if (box == NULL || uid <= 0 || uid > MAILDIR_UID_MAX || folder < 0 || folder >= MAILDIR_FOLDERS ||
        digest == NULL || sqlite3_column_bytes(row, 2) != MAILDIR_DIGEST_BYTES)
        return -EUCLEAN;
    memcpy(mail.digest, digest, sizeof(mail.digest));
    return box_put(box, &mail);
}

static int load_rows(struct maildir_memory *memory, struct connection *reader, const char *sql,
                     int (*load)(struct maildir_memory *memory, sqlite3_stmt *row))
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_begin(reader, &statement, sql, "");
    int more = 0;
    while (error == 0 && (more = query_step(statement.row)) > 0)
        error = load(memory, statement.row);
    return error != 0 ? error : more;
}

/* ---------------------------------------------------------------- opening and freeing */

int maildir_memory_open(int dir_fd, struct clock *clock, struct maildir_memory **ret_memory)
{
    struct connection *reader;
    struct maildir_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return -ENOMEM;
    memory->clock = clock;
    memory->boxes = g_ptr_array_new_with_free_func(box_free);
    memory->by_inbox = g_hash_table_new(NULL, NULL);
    pthread_mutex_init(&memory->write_lock, NULL);
    pthread_rwlock_init(&memory->read_lock, NULL);
    int error = database_open(dir_fd, &format, DATABASE_ALONE, &memory->database);
    if (error == 0)
        error = database_begin_read(memory->database, &reader);
    if (error == 0) {
        error =
            load_rows(memory, reader,
                      "SELECT number, id, uidvalidity, new_ns, cur_ns FROM box ORDER BY number", load_box);
        if (error == 0)
            error = load_rows(
                memory, reader,
                "SELECT box, uid, digest, epoch_s, size, flags, folder, bits FROM mail ORDER BY box, uid",
                load_mail);
        database_return_reader(reader);
    }
    if (error == -ENOMEM) {
        maildir_memory_free(memory);
        return error;
    }
    if (error != 0) { /* the file stays, since flags and U numbers are nowhere else */
        bool is_damaged = error == -EUCLEAN || error == -EINVAL || error == -EBADMSG;
        database_free(TAKE_PTR(memory->database));
        g_ptr_array_set_size(memory->boxes, 0);
        memory->error = is_damaged ? -EIO : error;
        log_warning("maildir/%s cannot be used, so Maildirs cannot either: %s%s", format.name,
                    error == -EPROTO ? "a newer version made it"
                    : is_damaged     ? "it is damaged"
                                     : strerror(-error),
                    is_damaged ? " (without it they begin anew, without marks, under another UIDVALIDITY)"
                               : "");
    }
    *ret_memory = memory;
    return 0;
}

void maildir_memory_free(struct maildir_memory *memory)
{
    if (memory == NULL)
        return;
    if (memory->sizes_len > 0)
        (void)write_mails(memory, NULL, NULL, NULL, 0);
    database_free(memory->database);
    g_hash_table_unref(memory->by_inbox);
    g_ptr_array_unref(memory->boxes);
    pthread_rwlock_destroy(&memory->read_lock);
    pthread_mutex_destroy(&memory->write_lock);
    free(memory);
}

static int64_t now_ns(const struct maildir_memory *memory)
{
    return clock_realtime_ms(memory->clock) * NS_PER_MS;
}

static struct maildir_box *find_box_of_inbox(const struct maildir_memory *memory, uint32_t inbox)
{
    return g_hash_table_lookup(memory->by_inbox, GUINT_TO_POINTER(inbox));
}

/* ---------------------------------------------------------------- inboxes */

int maildir_memory_add_inbox(struct maildir_memory *memory, uint32_t inbox, const char *id)
{
    if (maildir_memory_has_inbox(memory, inbox))
        return 0;
    LOCK_GUARD(&memory->write_lock);
    if (find_box_of_inbox(memory, inbox) != NULL)
        return 0;
    struct maildir_box *box = find_box(memory->boxes, 0, id);
    bool is_new = box == NULL;
    if (is_new) {
        uint32_t number = 0;
        while (find_box(memory->boxes, number, NULL) != NULL)
            number++;
        if (number >= BOXES_MAX)
            return -EOVERFLOW;
        /* The current time, since the uidvalidity must differ from that in a database that was lost. */
        box = box_new(number, (uint32_t)(clock_realtime_ms(memory->clock) / 1000), id);
        int error = write_mails(memory, box, &(struct touch){0}, NULL, 0);
        if (error != 0) {
            box_free(box);
            return error;
        }
    }
    WRITE_GUARD(&memory->read_lock);
    if (is_new)
        g_ptr_array_add(memory->boxes, box);
    g_hash_table_insert(memory->by_inbox, GUINT_TO_POINTER(inbox), box);
    return 0;
}

bool maildir_memory_has_inbox(struct maildir_memory *memory, uint32_t inbox)
{
    struct maildir_state state;
    return maildir_memory_get_state(memory, inbox, &state);
}

/* ---------------------------------------------------------------- finding */

bool maildir_memory_find_uid(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                             struct maildir_mail *ret)
{
    READ_GUARD(&memory->read_lock);
    const struct maildir_box *box = find_box_of_inbox(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : find_uid(box, uid);
    if (mail != NULL)
        *ret = *mail;
    return mail != NULL;
}

bool maildir_memory_find_email(struct maildir_memory *memory, uint32_t inbox, uint32_t email,
                               struct maildir_mail *ret)
{
    READ_GUARD(&memory->read_lock);
    const struct maildir_box *box = find_box_of_inbox(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : find_email(box, email);
    if (mail != NULL)
        *ret = *mail;
    return mail != NULL;
}

bool maildir_memory_get_state(struct maildir_memory *memory, uint32_t inbox, struct maildir_state *ret)
{
    READ_GUARD(&memory->read_lock);
    const struct maildir_box *box = find_box_of_inbox(memory, inbox);
    if (box == NULL)
        return false;
    *ret = (struct maildir_state){
        .uidvalidity = box->uidvalidity, .uid_max = box->mails->len, .is_stale = box->is_stale};
    memcpy(ret->changed_ns, box->changed_ns, sizeof(ret->changed_ns));
    memcpy(ret->present, box->present, sizeof(ret->present));
    return true;
}

/* ---------------------------------------------------------------- following the inbox */

void maildir_memory_mark_stale(struct maildir_memory *memory, uint32_t inbox)
{
    WRITE_GUARD(&memory->read_lock);
    struct maildir_box *box = find_box_of_inbox(memory, inbox);
    if (box != NULL)
        box_mark_stale(box);
}

bool maildir_memory_begin_sync(struct maildir_memory *memory, uint32_t inbox)
{
    WRITE_GUARD(&memory->read_lock);
    struct maildir_box *box = find_box_of_inbox(memory, inbox);
    bool is_stale = box != NULL && box->is_stale;
    if (is_stale)
        box->has_changed = false;
    return is_stale;
}

struct plan {
    GArray *changed; /* struct maildir_mail: the new values of the messages */
    uint32_t added;  /* number of new messages in `changed` */
    struct touch touch;
};

static void add_change(struct plan *plan, const struct maildir_mail *mail)
{
    g_array_append_vals(plan->changed, mail, 1);
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

/* Adds to the plan. Only the email number of a message from an earlier mount is set in the box at once. */
static void add_sighting(struct maildir_memory *memory, struct plan *plan, struct maildir_box *box,
                         uint8_t *is_seen, const struct maildir_sighting *sighting)
{
    struct maildir_mail *known = find_email(box, sighting->email);
    struct maildir_mail mail = {.epoch_s = sighting->epoch_s, .size = -1, .email = sighting->email};
    if (known == NULL && sighting->id == NULL)
        return;
    if (known == NULL) {
        make_digest(sighting->id, mail.digest);
        known = g_hash_table_lookup(box->by_digest, mail.digest);
    }
    if (known == NULL) {
        mail.uid = box->mails->len + ++plan->added;
        mail.folder = MAILDIR_NEW;
        add_change(plan, &mail);
        return;
    }
    if (known->email == NUMBER_NONE) {
        WRITE_GUARD(&memory->read_lock);
        box_bind(box, known, sighting->email);
    }
    is_seen[known->uid - 1] = 1;
    if (known->is_gone) {
        mail = *known;
        mail.is_gone = false;
        add_change(plan, &mail);
    }
}

/* Plans all changes before any is made. */
static void make_plan(struct maildir_memory *memory, struct maildir_box *box,
                      const struct maildir_sighting *seen, size_t seen_len, int64_t arrived_ns,
                      struct plan *plan)
{
    uint8_t *is_seen = g_new0(uint8_t, box->mails->len);
    for (size_t i = 0; i < seen_len; i++)
        add_sighting(memory, plan, box, is_seen, &seen[i]);
    for (uint32_t uid = 1; uid <= box->mails->len; uid++) {
        const struct maildir_mail *known = find_uid(box, uid);
        if (known == NULL || known->is_gone || is_seen[uid - 1])
            continue;
        struct maildir_mail mail = *known;
        mail.is_gone = true;
        add_change(plan, &mail);
    }
    g_free(is_seen);
    /* The time when mail left or returned is not known, so the folders get the current time. */
    plan->touch.ns[MAILDIR_CUR] = now_ns(memory);
    plan->touch.ns[MAILDIR_NEW] =
        plan->changed->len == plan->added ? arrived_ns : plan->touch.ns[MAILDIR_CUR];
}

int maildir_memory_sync(struct maildir_memory *memory, uint32_t inbox, const struct maildir_sighting *seen,
                        size_t seen_len, int64_t arrived_ns)
{
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box_of_inbox(memory, inbox);
    if (box == NULL)
        return -ENOENT;
    struct plan plan = {.changed = g_array_new(false, false, sizeof(struct maildir_mail))};
    make_plan(memory, box, seen, seen_len, arrived_ns, &plan);
    const struct maildir_mail *changed = (const struct maildir_mail *)(void *)plan.changed->data;
    int error = plan.added > MAILDIR_UID_MAX - box->mails->len ? -EOVERFLOW : 0;
    if (error == 0 && plan.changed->len > 0)
        error = write_mails(memory, box, &plan.touch, changed, plan.changed->len);
    if (error == 0) {
        WRITE_GUARD(&memory->read_lock);
        for (guint i = 0; i < plan.changed->len; i++)
            box_put(box, &changed[i]);
        apply_touch(&plan.touch, box->changed_ns);
        box->is_stale = box->has_changed;
    }
    g_array_unref(plan.changed);
    return error;
}

/* The next sync finds that the email is gone, and writes the row. */
void maildir_memory_note_gone(struct maildir_memory *memory, uint32_t inbox, uint32_t email)
{
    WRITE_GUARD(&memory->read_lock);
    struct maildir_box *box = find_box_of_inbox(memory, inbox);
    const struct maildir_mail *mail = box == NULL ? NULL : find_email(box, email);
    int64_t ns = now_ns(memory);
    if (mail != NULL && !mail->is_removed)
        apply_touch(&(struct touch){1U << mail->folder, {ns, ns}}, box->changed_ns);
    if (box != NULL)
        box_mark_stale(box);
}

/* ---------------------------------------------------------------- marking */

int maildir_memory_mark(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                        const struct maildir_mark *mark)
{
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box_of_inbox(memory, inbox);
    const struct maildir_mail *known = box == NULL ? NULL : find_uid(box, uid);
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
    WRITE_GUARD(&memory->read_lock);
    box_put(box, &mail);
    apply_touch(&touch, box->changed_ns);
    return 0;
}

/* ---------------------------------------------------------------- sizes */

void maildir_memory_note_size(struct maildir_memory *memory, uint32_t inbox, uint32_t uid, int64_t size)
{
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box_of_inbox(memory, inbox);
    struct maildir_mail *known = box == NULL ? NULL : find_uid(box, uid);
    if (known == NULL || known->size == size || size < 0)
        return;
    pthread_rwlock_wrlock(&memory->read_lock);
    known->size = size;
    pthread_rwlock_unlock(&memory->read_lock);
    memory->sizes[memory->sizes_len++] = (struct noted_size){box, known};
    if (memory->sizes_len == SIZES_MAX) {
        (void)write_mails(memory, NULL, NULL, NULL, 0);
        memory->sizes_len = 0; /* after an error, the next mount fetches the sizes again */
    }
}
