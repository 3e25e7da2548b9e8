/* SPDX-License-Identifier: MIT */
/*
 * A box has the messages of one inbox. A change is written to the database as whole rows, in one
 * transaction, and put into the box when the transaction is durable.
 */
#include "store/maildir_memory.h"

#include <errno.h>
#include <glib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t changed_ns[MAILDIR_FOLDERS];
    uint64_t changes; /* counts calls of maildir_memory_mark_stale(); 1 at first */
    uint64_t synced;  /* `changes` before the last sync */
};

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
                                .by_digest = g_hash_table_new(g_int64_hash, digest_equals),
                                .changes = 1};
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

/* Here and below, `box` may be NULL. */
static struct maildir_mail *find_uid(const struct maildir_box *box, uint32_t uid)
{
    return box == NULL || uid == 0 || uid > box->mails->len ? NULL : g_ptr_array_index(box->mails, uid - 1);
}

static struct maildir_mail *find_email(const struct maildir_box *box, uint32_t email)
{
    return box == NULL ? NULL : g_hash_table_lookup(box->by_email, GUINT_TO_POINTER(email));
}

static bool is_shown(const struct maildir_mail *mail)
{
    return mail != NULL && maildir_mail_is_shown(mail);
}

static void box_bind(struct maildir_box *box, struct maildir_mail *mail, uint32_t email)
{
    mail->email = email;
    if (email != NUMBER_NONE)
        g_hash_table_insert(box->by_email, GUINT_TO_POINTER(email), mail);
}

/* Adds a message, or replaces the one with the same U number. */
static void box_put(struct maildir_box *box, const struct maildir_mail *mail)
{
    uint32_t uid = mail->name.uid;
    struct maildir_mail *known = find_uid(box, uid);
    if (known == NULL) {
        known = g_new(struct maildir_mail, 1);
        memcpy(known->digest, mail->digest, sizeof(known->digest));
        g_hash_table_add(box->by_digest, known);
        if (uid > box->mails->len)
            g_ptr_array_set_size(box->mails, (gint)uid);
        g_ptr_array_index(box->mails, uid - 1) = known;
    }
    *known = *mail;
    box_bind(box, known, mail->email);
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
    struct noted_size sizes[SIZES_MAX]; /* protected by write_lock, like the two members below */
    size_t sizes_len;
    uint32_t next_number; /* number of the next new box */
    GHashTable *boxes;    /* struct maildir_box by id, owned; protected by write_lock */
    GHashTable *by_inbox; /* boxes by the store's number of the inbox; protected by both locks */
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
    const struct maildir_name *name = &mail->name;
    int64_t bits = (name->has_info ? MAIL_HAS_INFO : 0) | (mail->is_gone ? MAIL_IS_GONE : 0) |
                   (mail->is_removed ? MAIL_IS_REMOVED : 0);
    return query_execute(writer, "INSERT OR REPLACE INTO mail VALUES (?, ?, ?, ?, ?, ?, ?, ?)", "iibiiiii",
                         (int64_t)box->number, (int64_t)name->uid, (const void *)mail->digest,
                         sizeof(mail->digest), name->epoch, mail->size, (int64_t)name->flags,
                         (int64_t)mail->folder, bits);
}

/* Writes memory->sizes and, unless `box` is NULL, the box with these times of its folders, and some of its
 * messages. All are durable after 0; after an error nothing is written. */
static int write_mails(struct maildir_memory *memory, const struct maildir_box *box,
                       const int64_t changed_ns[MAILDIR_FOLDERS], const struct maildir_mail *mails,
                       size_t len)
{
    struct connection *writer = NULL;
    int error = memory->error;
    if (error == 0)
        error = database_begin_write(memory->database, &writer);
    if (error != 0)
        return error;
    for (size_t i = 0; error == 0 && i < memory->sizes_len; i++)
        error = put_mail(writer, memory->sizes[i].box, memory->sizes[i].mail);
    if (error == 0 && box != NULL)
        error = query_execute(writer, "INSERT OR REPLACE INTO box VALUES (?, ?, ?, ?, ?)", "isiii",
                              (int64_t)box->number, box->id, (int64_t)box->uidvalidity,
                              changed_ns[MAILDIR_NEW], changed_ns[MAILDIR_CUR]);
    for (size_t i = 0; error == 0 && i < len; i++)
        error = put_mail(writer, box, &mails[i]);
    error = database_end_write(memory->database, error);
    if (error == 0)
        memory->sizes_len = 0;
    return error;
}

/* Gives messages new values, durably. The folders in which a program sees the change get the time `ns`, or a
 * later one: a time always grows, so that a mail program notices each change. After an error nothing has
 * changed. */
static int change_mails(struct maildir_memory *memory, struct maildir_box *box,
                        const struct maildir_mail *mails, size_t len, int64_t ns)
{
    int64_t changed_ns[MAILDIR_FOLDERS];
    bool is_touched[MAILDIR_FOLDERS] = {false};
    for (size_t i = 0; i < len; i++) {
        const struct maildir_mail *known = find_uid(box, mails[i].name.uid);
        is_touched[mails[i].folder] |= is_shown(&mails[i]);
        if (is_shown(known))
            is_touched[known->folder] = true;
    }
    for (size_t i = 0; i < MAILDIR_FOLDERS; i++)
        changed_ns[i] = is_touched[i] ? MAX(ns, box->changed_ns[i] + 1) : box->changed_ns[i];
    int error = write_mails(memory, box, changed_ns, mails, len);
    if (error != 0)
        return error;
    WRITE_GUARD(&memory->read_lock);
    for (size_t i = 0; i < len; i++)
        box_put(box, &mails[i]);
    memcpy(box->changed_ns, changed_ns, sizeof(changed_ns));
    return 0;
}

/* ---------------------------------------------------------------- loading */

static void add_box(struct maildir_memory *memory, struct maildir_box *box)
{
    g_hash_table_replace(memory->boxes, box->id, box);
    memory->next_number = box->number + 1;
}

static struct maildir_box *load_box(struct maildir_memory *memory, sqlite3_stmt *row)
{
    struct maildir_box *box = box_new((uint32_t)sqlite3_column_int64(row, 0),
                                      (uint32_t)sqlite3_column_int64(row, 2), query_column_text(row, 1));
    box->changed_ns[MAILDIR_NEW] = sqlite3_column_int64(row, 3);
    box->changed_ns[MAILDIR_CUR] = sqlite3_column_int64(row, 4);
    add_box(memory, box);
    return box;
}

/* Returns the part of a digest that names have. */
static uint64_t id_of(const unsigned char digest[MAILDIR_DIGEST_BYTES])
{
    uint64_t id;
    memcpy(&id, digest, sizeof(id));
    return GUINT64_FROM_BE(id);
}

static int load_mail(struct maildir_box *box, sqlite3_stmt *row)
{
    int64_t uid = sqlite3_column_int64(row, 5);
    const void *digest = sqlite3_column_blob(row, 6);
    int64_t folder = sqlite3_column_int64(row, 10);
    int64_t bits = sqlite3_column_int64(row, 11);
    struct maildir_mail mail = {
        .name = {.epoch = sqlite3_column_int64(row, 7),
                 .flags = (uint64_t)sqlite3_column_int64(row, 9),
                 .uid = (uint32_t)uid,
                 .has_info = (bits & MAIL_HAS_INFO) != 0},
        .size = sqlite3_column_int64(row, 8),
        .email = NUMBER_NONE,
        .folder = (uint8_t)folder,
        .is_gone = (bits & MAIL_IS_GONE) != 0,
        .is_removed = (bits & MAIL_IS_REMOVED) != 0,
    };
    if (uid <= box->mails->len || uid > MAILDIR_UID_MAX || folder < 0 || folder >= MAILDIR_FOLDERS ||
        digest == NULL || sqlite3_column_bytes(row, 6) != MAILDIR_DIGEST_BYTES)
        return -EUCLEAN;
    memcpy(mail.digest, digest, sizeof(mail.digest));
    mail.name.id = id_of(mail.digest);
    box_put(box, &mail);
    return 0;
}

/* An invalid row, or a message without a box, counts as damage: if it were skipped, its number would be given
 * a second time. */
static int load_boxes(struct maildir_memory *memory, struct connection *reader)
{
    _cleanup_statement_ struct statement statement = {0};
    struct maildir_box *box = NULL;
    int64_t mails_left = 0;
    int more = 0;
    int error = query_integers(reader, &mails_left, 1, "SELECT count(*) FROM mail", "");
    if (error == 0)
        error = query_begin(reader, &statement,
                            "SELECT number, id, uidvalidity, new_ns, cur_ns, uid, digest, epoch_s, size,"
                            " flags, folder, bits FROM box LEFT JOIN mail ON box = number"
                            " ORDER BY number, uid",
                            "");
    while (error == 0 && (more = query_step(statement.row)) > 0) {
        sqlite3_stmt *row = statement.row;
        int64_t number = sqlite3_column_int64(row, 0);
        if (number < 0 || number >= BOXES_MAX)
            return -EUCLEAN;
        if (box == NULL || box->number != number)
            box = load_box(memory, row);
        if (sqlite3_column_type(row, 5) == SQLITE_NULL)
            continue;
        error = load_mail(box, row);
        mails_left--;
    }
    if (error == 0 && more == 0 && mails_left != 0)
        error = -EUCLEAN;
    return error != 0 ? error : more;
}

/* ---------------------------------------------------------------- opening and freeing */

struct maildir_memory *maildir_memory_open(int dir_fd, struct clock *clock)
{
    struct connection *reader;
    struct maildir_memory *memory = g_new0(struct maildir_memory, 1);
    memory->clock = clock;
    memory->boxes = g_hash_table_new_full(hash_string, g_str_equal, NULL, box_free);
    memory->by_inbox = g_hash_table_new(NULL, NULL);
    pthread_mutex_init(&memory->write_lock, NULL);
    pthread_rwlock_init(&memory->read_lock, NULL);
    int error = database_open(dir_fd, &format, DATABASE_ALONE, &memory->database);
    if (error == 0)
        error = database_begin_read(memory->database, &reader);
    if (error == 0) {
        error = load_boxes(memory, reader);
        database_return_reader(reader);
    }
    if (error != 0) { /* the file stays, since flags and U numbers are nowhere else */
        bool is_damaged = error == -EUCLEAN || error == -EINVAL;
        database_free(TAKE_PTR(memory->database));
        g_hash_table_remove_all(memory->boxes);
        memory->error = is_damaged ? -EIO : error;
        log_warning("maildir/%s cannot be used, so Maildirs cannot either: %s%s", format.name,
                    error == -EPROTO ? "a newer version made it"
                    : is_damaged     ? "it is damaged"
                                     : strerror(-error),
                    is_damaged ? " (without it they begin anew, without marks, under another UIDVALIDITY)"
                               : "");
    }
    return memory;
}

void maildir_memory_free(struct maildir_memory *memory)
{
    if (memory == NULL)
        return;
    if (memory->sizes_len > 0)
        (void)write_mails(memory, NULL, NULL, NULL, 0);
    database_free(memory->database);
    g_hash_table_unref(memory->by_inbox);
    g_hash_table_unref(memory->boxes);
    pthread_rwlock_destroy(&memory->read_lock);
    pthread_mutex_destroy(&memory->write_lock);
    free(memory);
}

static int64_t now_ns(const struct maildir_memory *memory)
{
    return clock_realtime_ms(memory->clock) * NS_PER_MS;
}

/* Returns NULL if maildir_memory_add_inbox() was not called for this inbox. */
static struct maildir_box *find_box(const struct maildir_memory *memory, uint32_t inbox)
{
    return g_hash_table_lookup(memory->by_inbox, GUINT_TO_POINTER(inbox));
}

/* ---------------------------------------------------------------- inboxes */

int maildir_memory_add_inbox(struct maildir_memory *memory, uint32_t inbox, const char *id)
{
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = g_hash_table_lookup(memory->boxes, id);
    if (box == NULL) {
        if (memory->next_number >= BOXES_MAX)
            return -EOVERFLOW;
        /* The current time, since the uidvalidity must differ from that in a database that was lost. */
        box = box_new(memory->next_number, (uint32_t)(clock_realtime_ms(memory->clock) / 1000), id);
        int error = change_mails(memory, box, NULL, 0, 0);
        if (error != 0) {
            box_free(box);
            return error;
        }
        add_box(memory, box);
    }
    WRITE_GUARD(&memory->read_lock);
    g_hash_table_insert(memory->by_inbox, GUINT_TO_POINTER(inbox), box);
    return 0;
}

bool maildir_memory_has_inbox(struct maildir_memory *memory, uint32_t inbox)
{
    READ_GUARD(&memory->read_lock);
    return find_box(memory, inbox) != NULL;
}

/* ---------------------------------------------------------------- finding */

static bool copy_mail(const struct maildir_mail *mail, struct maildir_mail *ret)
{
    if (mail != NULL)
        *ret = *mail;
    return mail != NULL;
}

bool maildir_memory_find_uid(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                             struct maildir_mail *ret)
{
    READ_GUARD(&memory->read_lock);
    return copy_mail(find_uid(find_box(memory, inbox), uid), ret);
}

bool maildir_memory_find_email(struct maildir_memory *memory, uint32_t inbox, uint32_t email,
                               struct maildir_mail *ret)
{
    READ_GUARD(&memory->read_lock);
    return copy_mail(find_email(find_box(memory, inbox), email), ret);
}

bool maildir_memory_find_next(struct maildir_memory *memory, uint32_t inbox, enum maildir_folder folder,
                              uint32_t uid, struct maildir_mail *ret)
{
    READ_GUARD(&memory->read_lock);
    const struct maildir_box *box = find_box(memory, inbox);
    while (box != NULL && uid < box->mails->len) {
        const struct maildir_mail *mail = find_uid(box, ++uid);
        if (is_shown(mail) && mail->folder == folder)
            return copy_mail(mail, ret);
    }
    return false;
}

bool maildir_memory_get_state(struct maildir_memory *memory, uint32_t inbox, struct maildir_state *ret)
{
    READ_GUARD(&memory->read_lock);
    const struct maildir_box *box = find_box(memory, inbox);
    if (box == NULL)
        return false;
    *ret = (struct maildir_state){.uidvalidity = box->uidvalidity,
                                  .uid_max = box->mails->len,
                                  .is_stale = box->synced != box->changes,
                                  .changes = box->changes};
    memcpy(ret->changed_ns, box->changed_ns, sizeof(ret->changed_ns));
    return true;
}

/* ---------------------------------------------------------------- following the inbox */

void maildir_memory_mark_stale(struct maildir_memory *memory, uint32_t inbox)
{
    WRITE_GUARD(&memory->read_lock);
    struct maildir_box *box = find_box(memory, inbox);
    if (box != NULL)
        box->changes++;
}

static void digest_id(const char *id, unsigned char ret_digest[MAILDIR_DIGEST_BYTES])
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    unsigned char digest[32];
    gsize len = sizeof(digest);
    g_checksum_update(checksum, (const guchar *)id, (gssize)strlen(id));
    g_checksum_get_digest(checksum, digest, &len);
    memcpy(ret_digest, digest, MAILDIR_DIGEST_BYTES);
}

/* Adds the new value of a message that arrived or returned to `changed`, and counts it in *added if it
 * arrived. Only the email number of a message from an earlier mount is set in the box at once. */
static void plan_sighting(struct maildir_memory *memory, struct maildir_box *box,
                          const struct maildir_sighting *sighting, uint8_t *is_seen, GArray *changed,
                          uint32_t *added)
{
    struct maildir_mail *known = find_email(box, sighting->email);
    struct maildir_mail mail = {
        .name = {.epoch = sighting->epoch_s}, .size = -1, .email = sighting->email, .folder = MAILDIR_NEW};
    if (known == NULL && sighting->id == NULL)
        return;
    if (known == NULL) {
        digest_id(sighting->id, mail.digest);
        known = g_hash_table_lookup(box->by_digest, mail.digest);
    }
    if (known == NULL) {
        mail.name.id = id_of(mail.digest);
        mail.name.uid = box->mails->len + ++*added;
        g_array_append_val(changed, mail);
        return;
    }
    if (known->email == NUMBER_NONE) {
        WRITE_GUARD(&memory->read_lock);
        box_bind(box, known, sighting->email);
    }
    is_seen[known->name.uid - 1] = 1;
    if (known->is_gone) {
        mail = *known;
        mail.is_gone = false;
        g_array_append_val(changed, mail);
    }
}

static void plan_removals(const struct maildir_box *box, const uint8_t *is_seen, GArray *changed)
{
    for (uint32_t uid = 1; uid <= box->mails->len; uid++) {
        const struct maildir_mail *known = find_uid(box, uid);
        if (known == NULL || known->is_gone || is_seen[uid - 1])
            continue;
        struct maildir_mail mail = *known;
        mail.is_gone = true;
        g_array_append_val(changed, mail);
    }
}

int maildir_memory_sync(struct maildir_memory *memory, uint32_t inbox, uint64_t changes,
                        const struct maildir_sighting *seen, size_t seen_len, int64_t arrived_ns)
{
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box(memory, inbox);
    if (box == NULL)
        return -ENOENT;
    g_autoptr(GArray) changed = g_array_new(false, false, sizeof(struct maildir_mail));
    g_autofree uint8_t *is_seen = g_new0(uint8_t, box->mails->len);
    uint32_t added = 0;
    for (size_t i = 0; i < seen_len; i++)
        plan_sighting(memory, box, &seen[i], is_seen, changed, &added);
    plan_removals(box, is_seen, changed);
    if (added > MAILDIR_UID_MAX - box->mails->len)
        return -EOVERFLOW;
    /* The time when mail left or returned is not known. */
    int64_t ns = changed->len == added ? arrived_ns : now_ns(memory);
    int error = changed->len == 0 ? 0
                                  : change_mails(memory, box, (struct maildir_mail *)(void *)changed->data,
                                                 changed->len, ns);
    if (error != 0)
        return error;
    WRITE_GUARD(&memory->read_lock);
    box->synced = changes;
    return 0;
}

/* ---------------------------------------------------------------- marking */

int maildir_memory_mark(struct maildir_memory *memory, uint32_t inbox, enum maildir_folder folder,
                        const struct maildir_name *name)
{
    struct maildir_mail mail;
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box(memory, inbox);
    if (!copy_mail(find_uid(box, name->uid), &mail) || !maildir_mail_is_shown(&mail))
        return -ENOENT;
    mail.folder = (uint8_t)folder;
    mail.name.has_info = name->has_info;
    mail.name.flags = name->flags;
    return change_mails(memory, box, &mail, 1, now_ns(memory));
}

int maildir_memory_remove(struct maildir_memory *memory, uint32_t inbox, uint32_t uid)
{
    struct maildir_mail mail;
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box(memory, inbox);
    if (!copy_mail(find_uid(box, uid), &mail) || !maildir_mail_is_shown(&mail))
        return -ENOENT;
    mail.is_removed = true;
    return change_mails(memory, box, &mail, 1, now_ns(memory));
}

/* ---------------------------------------------------------------- sizes */

void maildir_memory_note_size(struct maildir_memory *memory, uint32_t inbox, uint32_t uid, int64_t size)
{
    LOCK_GUARD(&memory->write_lock);
    struct maildir_box *box = find_box(memory, inbox);
    struct maildir_mail *known = find_uid(box, uid);
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
