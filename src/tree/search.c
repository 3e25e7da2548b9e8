/* SPDX-License-Identifier: MIT */
/*
 * search/: names of what was found, the table of queries, and what is asked and by whom.
 */
#include "tree/search.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "mail/search_query.h"
#include "tree/entry.h"
#include "tree/handle_type.h"
#include "tree/inode.h"
#include "tree/tree_state.h"

/* ---------------------------------------------------------------- names of what was found */

struct search_names {
    atomic_uint references;
    size_t len;
    struct search_name items[];
};

static struct search_names *new_names(size_t capacity)
{
    struct search_names *names = calloc(1, sizeof(*names) + capacity * sizeof(names->items[0]));
    if (names != NULL)
        atomic_init(&names->references, 1);
    return names;
}

struct search_names *search_names_ref(struct search_names *names)
{
    atomic_fetch_add(&names->references, 1);
    return names;
}

void search_names_unref(struct search_names *names)
{
    if (names == NULL || atomic_fetch_sub(&names->references, 1) != 1)
        return;
    for (size_t i = 0; i < names->len; i++)
        free(names->items[i].owned);
    free(names);
}

static int compare(const void *one, const void *other)
{
    const struct search_name *a = one;
    const struct search_name *b = other;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : a->ino < b->ino ? -1 : a->ino > b->ino;
}

uint64_t search_names_find(const struct search_names *names, const char *name)
{
    size_t low = 0;
    size_t high = names->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names->items[middle].name, name);
        if (order == 0)
            return names->items[middle].ino;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* The same mail in two inboxes has one name twice: the first stays as it is. Numbered names are chosen while
 * all still stand in order under their own. */
static void number_doubles(struct search_names *names)
{
    unsigned int number = 1;
    for (size_t i = 1; i < names->len; i++) {
        struct search_name *item = &names->items[i];
        if (strcmp(item->name, names->items[i - 1].name) != 0) {
            number = 1;
            continue;
        }
        do {
            free(item->owned);
            item->owned = file_name_numbered(item->name, ++number);
        } while (item->owned != NULL && search_names_find(names, item->owned) != 0);
    }
    for (size_t i = 0; i < names->len; i++)
        if (names->items[i].owned != NULL)
            names->items[i].name = names->items[i].owned;
    qsort(names->items, names->len, sizeof(names->items[0]), compare);
}

struct search_names *search_names_of_emails(struct store *store, const struct store_search *found)
{
    struct search_names *names = new_names(found->len);
    if (names == NULL)
        return NULL;
    for (size_t i = 0; i < found->len; i++) {
        struct email_view view;
        if (store_get_email(store, found->emails[i], &view))
            names->items[names->len++] =
                (struct search_name){.name = view.name, .ino = inode_make(INODE_SEARCH_HIT, view.number)};
    }
    qsort(names->items, names->len, sizeof(names->items[0]), compare);
    number_doubles(names);
    return names;
}

struct search_names *search_names_of_queries(const char *const *texts, const uint64_t *inos, size_t len)
{
    struct search_names *names = new_names(len);
    for (size_t i = 0; names != NULL && i < len; i++) {
        char *copy = strdup(texts[i]);
        if (copy != NULL)
            names->items[names->len++] = (struct search_name){.name = copy, .ino = inos[i], .owned = copy};
    }
    return names;
}

size_t search_names_len(const struct search_names *names)
{
    return names->len;
}

const struct search_name *search_names_get(const struct search_names *names, size_t index)
{
    return &names->items[index];
}

/* ---------------------------------------------------------------- the table of queries */

static void drop_found(struct query *query)
{
    search_names_unref(query->found);
    free(query->note);
    query->found = NULL;
    query->note = NULL;
    query->note_len = 0;
}

static void free_query(struct query *query)
{
    drop_found(query);
    free(query->text);
    free(query);
}

void query_table_release(struct query_table *table)
{
    for (size_t i = 0; i < table->len; i++)
        free_query(table->queries[i]);
    *table = (struct query_table){.len = 0};
}

struct query *query_table_find_number(const struct query_table *table, uint64_t number)
{
    for (size_t i = 0; i < table->len; i++)
        if (table->queries[i]->number == number)
            return table->queries[i];
    return NULL;
}

struct query *query_table_find_text(const struct query_table *table, const char *text)
{
    for (size_t i = 0; i < table->len; i++)
        if (strcmp(table->queries[i]->text, text) == 0)
            return table->queries[i];
    return NULL;
}

static void take_out(struct query_table *table, const struct query *query)
{
    size_t i = 0;
    while (table->queries[i] != query)
        i++;
    table->len--;
    memmove(&table->queries[i], &table->queries[i + 1], (table->len - i) * sizeof(struct query *));
}

static void put_first(struct query_table *table, struct query *query)
{
    memmove(&table->queries[1], &table->queries[0], table->len * sizeof(struct query *));
    table->queries[0] = query;
    table->len++;
}

/* The oldest that nobody is asking. False: there is none. */
static bool make_room(struct query_table *table)
{
    for (size_t i = table->len; i-- > 0 && table->len == SEARCH_NAMES_KNOWN;) {
        struct query *query = table->queries[i];
        if (query->is_asking)
            continue;
        take_out(table, query);
        free_query(query);
    }
    return table->len < SEARCH_NAMES_KNOWN;
}

/* Those that show too much hold no results any more. */
static void forget_results(struct query_table *table)
{
    size_t shown = 0;
    for (size_t i = 0; i < table->len; i++)
        if (table->queries[i]->found != NULL && ++shown > SEARCH_QUERIES_SHOWN)
            drop_found(table->queries[i]);
}

struct query *query_table_add(struct query_table *table, const char *text)
{
    struct query *query = make_room(table) ? calloc(1, sizeof(*query)) : NULL;
    if (query == NULL || (query->text = strdup(text)) == NULL) {
        free(query);
        return NULL;
    }
    query->number = ++table->last_number;
    put_first(table, query);
    return query;
}

void query_table_remove(struct query_table *table, struct query *query)
{
    take_out(table, query);
    free_query(query);
}

void query_table_settle(struct query_table *table, struct query *query, struct search_names *found,
                        char *note, size_t note_len)
{
    drop_found(query);
    query->found = found;
    query->note = note;
    query->note_len = note_len;
    take_out(table, query);
    put_first(table, query);
    forget_results(table);
}

/* ---------------------------------------------------------------- the folder search/ */

enum {
    LISTERS_MAX = 16,
    NOTE_MAX_BYTES = 16 * 1024,
};

const char search_note_name[] = ".search.json";

/* A process that has listed search/. */
struct lister {
    pid_t pid;
    int64_t until_ms; /* monotonic */
};

struct search_folder {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct query_table table; /* protected by lock, like all below */
    unsigned int waiting;     /* requests that search, or wait for one that does */
    struct lister listers[LISTERS_MAX];
    unsigned int next_lister;
};

struct search_folder *search_folder_new(void)
{
    struct search_folder *folder = calloc(1, sizeof(*folder));
    if (folder == NULL)
        return NULL;
    pthread_mutex_init(&folder->lock, NULL);
    clock_condition_init(&folder->changed);
    return folder;
}

void search_folder_free(struct search_folder *folder)
{
    if (folder == NULL)
        return;
    query_table_release(&folder->table);
    pthread_cond_destroy(&folder->changed);
    pthread_mutex_destroy(&folder->lock);
    free(folder);
}

/* ---------------------------------------------------------------- names */

/* What desktops, shells and their prompts look for in every folder. */
static bool is_asked_by_programs(const char *name)
{
    static const char *const names[] = {"autorun.inf", "desktop.ini", "Desktop.ini", "Thumbs.db",
                                        "lost+found",  "CVS",         "RCS",         "SCCS",
                                        "BDMV",        "VIDEO_TS"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return name[0] == '.';
}

static bool is_query(const char *name)
{
    struct search_query query;
    if (is_asked_by_programs(name) || search_query_parse(name, &query) != 0)
        return false;
    search_query_release(&query);
    return true;
}

static void fill_folder(const struct tree *tree, const struct query *query, struct tree_entry *ret)
{
    entry_of_search(tree, inode_make(INODE_SEARCH, query->number), S_IFDIR | 0700, 0, query->asked_real_ms,
                    ret);
}

int search_folder_lookup(struct tree *tree, const char *name, struct tree_entry *ret)
{
    struct search_folder *folder = tree->search;
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    if (!is_query(name))
        return -ENOENT;
    pthread_mutex_lock(&folder->lock);
    struct query *query = query_table_find_text(&folder->table, name);
    if (query == NULL)
        query = query_table_add(&folder->table, name);
    if (query != NULL)
        fill_folder(tree, query, ret);
    pthread_mutex_unlock(&folder->lock);
    return query != NULL ? 0 : -ENOMEM;
}

static bool get_hit(struct tree *tree, uint64_t ino, struct tree_entry *ret)
{
    char target[PATH_MAX];
    struct email_view view;
    if (!store_get_email(tree->store, (uint32_t)inode_number(ino), &view) ||
        search_hit_read_link(tree, ino, target, sizeof(target)) != 0)
        return false;
    entry_of_search(tree, ino, S_IFLNK | 0777, (off_t)strlen(target), view.date_ms, ret);
    return true;
}

static bool get_query(struct tree *tree, uint64_t ino, struct tree_entry *ret)
{
    struct search_folder *folder = tree->search;
    bool is_note = inode_kind(ino) == INODE_SEARCH_NOTE;
    pthread_mutex_lock(&folder->lock);
    const struct query *query = query_table_find_number(&folder->table, inode_number(ino));
    bool is_there = query != NULL && (!is_note || query->note != NULL);
    if (is_there && is_note)
        entry_of_search(tree, ino, S_IFREG | 0444, (off_t)query->note_len, query->asked_real_ms, ret);
    else if (is_there)
        fill_folder(tree, query, ret);
    pthread_mutex_unlock(&folder->lock);
    return is_there;
}

bool search_folder_get(struct tree *tree, uint64_t ino, struct tree_entry *ret)
{
    return inode_kind(ino) == INODE_SEARCH_HIT ? get_hit(tree, ino, ret) : get_query(tree, ino, ret);
}

int search_folder_remove(struct tree *tree, const char *name)
{
    struct search_folder *folder = tree->search;
    int error = -ENOENT;
    pthread_mutex_lock(&folder->lock);
    struct query *query = query_table_find_text(&folder->table, name);
    if (query != NULL && query->is_asking) {
        error = -EBUSY;
    } else if (query != NULL) {
        query_table_remove(&folder->table, query);
        error = 0;
    }
    pthread_mutex_unlock(&folder->lock);
    return error;
}

/* ---------------------------------------------------------------- asking */

static bool is_lister_locked(const struct search_folder *folder, pid_t pid, int64_t now_ms)
{
    for (size_t i = 0; i < LISTERS_MAX; i++)
        if (folder->listers[i].pid == pid && folder->listers[i].until_ms > now_ms)
            return true;
    return false;
}

/* Each thing that it goes on to look at gives it some more time. */
static void note_lister_locked(struct search_folder *folder, pid_t pid, int64_t now_ms)
{
    struct lister *lister = NULL;
    for (size_t i = 0; i < LISTERS_MAX && lister == NULL; i++)
        if (folder->listers[i].pid == pid)
            lister = &folder->listers[i];
    if (lister == NULL)
        lister = &folder->listers[folder->next_lister++ % LISTERS_MAX];
    *lister = (struct lister){pid, now_ms + SEARCH_FRESH_MS};
}

static bool is_fresh_locked(const struct query *query, int64_t now_ms)
{
    return query->found != NULL && now_ms - query->asked_ms < SEARCH_FRESH_MS;
}

static char *write_note(const char *text, const struct store_search *found, int64_t asked_ms, size_t *ret_len)
{
    _cleanup_strbuf_ struct strbuf note = STRBUF_INIT(NOTE_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &note, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "query", text);
    json_member_date(&writer, "asked_at", asked_ms);
    json_member_integer(&writer, "found", (int64_t)found->len);
    json_member_boolean(&writer, "truncated", found->is_truncated);
    json_member_boolean(&writer, "service", found->is_service_asked);
    json_end_object(&writer);
    strbuf_append_char(&note, '\n');
    return strbuf_take(&note, ret_len);
}

/* What came of it; with `names` and `note` NULL nothing did. Both are taken. */
static void settle_locked(struct tree *tree, struct query *query, struct search_names *names, char *note,
                          size_t note_len)
{
    struct search_folder *folder = tree->search;
    query->is_asking = false;
    if (names != NULL && note != NULL) {
        query->asked_ms = clock_monotonic_ms(tree->clock);
        query->asked_real_ms = clock_realtime_ms(tree->clock);
        query_table_settle(&folder->table, query, TAKE_PTR(names), TAKE_PTR(note), note_len);
    }
    search_names_unref(names);
    free(note);
    pthread_cond_broadcast(&folder->changed);
}

/* Called with the lock held, which is given up meanwhile. Nobody forgets the query while it is asking. */
static int ask_locked(struct tree *tree, struct query *query, struct cancel *cancel)
{
    struct search_folder *folder = tree->search;
    struct store_search found = {.len = 0};
    struct search_names *names = NULL;
    char *note = NULL;
    size_t note_len = 0;
    query->is_asking = true;
    pthread_mutex_unlock(&folder->lock);
    int error = store_search(tree->store, query->text, cancel, &found);
    if (error == 0) {
        names = search_names_of_emails(tree->store, &found);
        note = write_note(query->text, &found, clock_realtime_ms(tree->clock), &note_len);
        if (names == NULL || note == NULL)
            error = -ENOMEM;
    }
    store_search_release(&found);
    pthread_mutex_lock(&folder->lock);
    settle_locked(tree, query, names, note, note_len);
    return error;
}

/* Until whoever asks has done so, or the cancel is set. Called with the lock held, which is given up
 * meanwhile: a cancel is bound and unbound without it, and by one at a time. */
static void wait_locked(struct tree *tree, uint64_t number, struct cancel *cancel)
{
    struct search_folder *folder = tree->search;
    pthread_mutex_unlock(&folder->lock);
    cancel_bind(cancel, &folder->changed, &folder->lock);
    pthread_mutex_lock(&folder->lock);
    const struct query *query = query_table_find_number(&folder->table, number);
    if (query != NULL && query->is_asking && !cancel_is_set(cancel))
        clock_wait(tree->clock, &folder->changed, &folder->lock, CLOCK_FOREVER);
    pthread_mutex_unlock(&folder->lock);
    cancel_unbind(cancel);
    pthread_mutex_lock(&folder->lock);
}

/* Until the query has an answer that will do: `any_will_do` the one that it has, however old. Called with the
 * lock held, which is given up meanwhile. */
static int wait_for_answer_locked(struct tree *tree, uint64_t number, bool any_will_do, struct cancel *cancel,
                                  struct query **ret_query)
{
    struct search_folder *folder = tree->search;
    int error = 0;
    for (;;) {
        struct query *query = query_table_find_number(&folder->table, number);
        if (query == NULL)
            return -ENOENT;
        *ret_query = query;
        if (is_fresh_locked(query, clock_monotonic_ms(tree->clock)) || (any_will_do && query->found != NULL))
            return 0;
        if (cancel == NULL)
            return -EAGAIN; /* and has been forgotten since */
        if (cancel_is_set(cancel))
            return -EINTR;
        if (folder->waiting == SEARCHES_AT_ONCE)
            return -EAGAIN;
        folder->waiting++;
        if (query->is_asking)
            wait_locked(tree, number, cancel);
        else
            error = ask_locked(tree, query, cancel);
        folder->waiting--;
        if (error != 0)
            return error;
    }
}

/* What the query found. The caller unrefs. */
static int get_answer(struct tree *tree, const struct tree_caller *caller, uint64_t number, bool any_will_do,
                      struct search_names **ret_names)
{
    struct search_folder *folder = tree->search;
    struct cancel *cancel = caller != NULL ? caller->cancel : NULL;
    struct query *query = NULL;
    pthread_mutex_lock(&folder->lock);
    int64_t now_ms = clock_monotonic_ms(tree->clock);
    if (caller != NULL && is_lister_locked(folder, caller->pid, now_ms)) {
        note_lister_locked(folder, caller->pid, now_ms);
        any_will_do = true;
    }
    /* Without a cancel this is a thread that must not wait: the answer was fresh when that was looked at. */
    int error = wait_for_answer_locked(tree, number, any_will_do || cancel == NULL, cancel, &query);
    if (error == 0)
        *ret_names = search_names_ref(query->found);
    pthread_mutex_unlock(&folder->lock);
    return error;
}

/* ---------------------------------------------------------------- in the folder of a query */

int search_query_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t ino, const char *name,
                        struct tree_entry *ret)
{
    struct search_names *names = NULL;
    uint64_t number = inode_number(ino);
    bool is_note = strcmp(name, search_note_name) == 0;
    if (name[0] == '.' && !is_note)
        return -ENOENT;
    int error = get_answer(tree, caller, number, is_note || search_query_knows(tree, ino, name), &names);
    if (error != 0)
        return error;
    uint64_t found = is_note ? inode_make(INODE_SEARCH_NOTE, number) : search_names_find(names, name);
    search_names_unref(names);
    return found != 0 && search_folder_get(tree, found, ret) ? 0 : -ENOENT;
}

bool search_query_knows(struct tree *tree, uint64_t ino, const char *name)
{
    struct search_folder *folder = tree->search;
    bool is_note = strcmp(name, search_note_name) == 0;
    if (name[0] == '.' && !is_note)
        return true;
    pthread_mutex_lock(&folder->lock);
    const struct query *query = query_table_find_number(&folder->table, inode_number(ino));
    bool is_known =
        query == NULL || (query->found != NULL && (is_note || search_names_find(query->found, name) != 0 ||
                                                   is_fresh_locked(query, clock_monotonic_ms(tree->clock))));
    pthread_mutex_unlock(&folder->lock);
    return is_known;
}

bool search_query_is_fresh(struct tree *tree, uint64_t ino)
{
    struct search_folder *folder = tree->search;
    pthread_mutex_lock(&folder->lock);
    const struct query *query = query_table_find_number(&folder->table, inode_number(ino));
    bool is_fresh = query == NULL || is_fresh_locked(query, clock_monotonic_ms(tree->clock));
    pthread_mutex_unlock(&folder->lock);
    return is_fresh;
}

static int list_queries(struct tree *tree, const struct tree_caller *caller, struct search_names **ret_names)
{
    struct search_folder *folder = tree->search;
    const char *texts[SEARCH_QUERIES_SHOWN];
    uint64_t inos[SEARCH_QUERIES_SHOWN];
    size_t len = 0;
    pthread_mutex_lock(&folder->lock);
    for (size_t i = 0; i < folder->table.len && len < SEARCH_QUERIES_SHOWN; i++) {
        const struct query *query = folder->table.queries[i];
        if (query->found == NULL)
            continue;
        texts[len] = query->text;
        inos[len++] = inode_make(INODE_SEARCH, query->number);
    }
    *ret_names = search_names_of_queries(texts, inos, len);
    if (caller != NULL)
        note_lister_locked(folder, caller->pid, clock_monotonic_ms(tree->clock));
    pthread_mutex_unlock(&folder->lock);
    return *ret_names == NULL ? -ENOMEM : 0;
}

int search_folder_list(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                       struct search_names **ret_names)
{
    return inode_kind(ino) == INODE_SEARCH ? get_answer(tree, caller, inode_number(ino), false, ret_names)
                                           : list_queries(tree, caller, ret_names);
}

int search_hit_read_link(struct tree *tree, uint64_t ino, char *ret_target, size_t size)
{
    struct email_view email;
    struct inbox_view inbox;
    if (!store_get_email(tree->store, (uint32_t)inode_number(ino), &email) ||
        !store_get_inbox(tree->store, email.inbox, &inbox))
        return -ENOENT;
    int len =
        snprintf(ret_target, size, "../../%s/%s/%s", fixed_get(FIXED_INBOXES)->name, inbox.name, email.name);
    return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

int search_note_read(struct tree *tree, uint64_t ino, char **ret_text, size_t *ret_len)
{
    struct search_folder *folder = tree->search;
    int error = -ENOENT;
    pthread_mutex_lock(&folder->lock);
    const struct query *query = query_table_find_number(&folder->table, inode_number(ino));
    if (query != NULL && query->note != NULL) {
        *ret_text = strdup(query->note);
        *ret_len = query->note_len;
        error = *ret_text == NULL ? -ENOMEM : 0;
    }
    pthread_mutex_unlock(&folder->lock);
    return error;
}

int search_note_open(struct tree *tree, uint64_t ino, int flags, struct tree_handle **ret_handle)
{
    char *text = NULL;
    size_t len = 0;
    int error = search_note_read(tree, ino, &text, &len);
    return error != 0 ? error : text_open(tree, flags, text, len, ret_handle);
}
