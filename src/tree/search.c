/* SPDX-License-Identifier: MIT */
/*
 * search/: a folder in which every name is a query. To look a query up makes nothing but a folder of it;
 * opening that, or looking for a name in it that is not known yet, asks the store. What was found shows as
 * symbolic links to the emails, and in .search.json what was asked and when. A query that was asked a moment
 * ago is not asked again; nor is one that a process opens which has just listed search/, for such a process
 * goes through all of them.
 *
 * Nothing of this is lasting, since requests wait here. All of it is bounded: the latest queries show in
 * search/, some more names are remembered.
 */

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "mail/search_query.h"
#include "outbox/writer_fate.h"
#include "tree/events.h"
#include "tree/node.h"

enum {
    SEARCH_QUERIES_SHOWN = 50,
    SEARCH_NAMES_KNOWN = 1024,
    SEARCH_FRESH_MS = 10 * 1000,
    SEARCHES_AT_ONCE = 16,
    LISTERS_MAX = 16,
    RECORD_MAX_BYTES = 16 * 1024,
};

static const char record_name[] = ".search.json";

/* ---------------------------------------------------------------- names of what was found */

/* The entries of a folder of search/, made once and shared by its readers: names in order, each with its
 * inode. Those of emails live as long as the store and are not copied. */
struct search_name {
    const char *name;
    uint64_t ino;
    char *owned; /* the name, where it is not somebody else's; or NULL */
};

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

static struct search_names *search_names_ref(struct search_names *names)
{
    atomic_fetch_add(&names->references, 1);
    return names;
}

static void search_names_unref(struct search_names *names)
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

/* For a list of emails: the inode of the name, or 0. */
static uint64_t search_names_find(const struct search_names *names, const char *name)
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

/* The links to the emails that were found, in order of name; names that several have are numbered. One
 * reference. NULL without memory. */
static struct search_names *search_names_of_emails(struct store *store, const struct store_search *found)
{
    struct search_names *names = new_names(found->len);
    if (names == NULL)
        return NULL;
    for (size_t i = 0; i < found->len; i++) {
        struct email_view view;
        if (store_get_email(store, found->emails[i], &view))
            names->items[names->len++] =
                (struct search_name){.name = view.name, .ino = node_ino(NODE_SEARCH_HIT, view.number)};
    }
    qsort(names->items, names->len, sizeof(names->items[0]), compare);
    number_doubles(names);
    return names;
}

/* Copies of `texts`, in their order, with the inodes beside them. The same. */
static struct search_names *search_names_of_queries(const char *const *texts, const uint64_t *inos,
                                                    size_t len)
{
    struct search_names *names = new_names(len);
    for (size_t i = 0; names != NULL && i < len; i++) {
        char *copy = strdup(texts[i]);
        if (copy != NULL)
            names->items[names->len++] = (struct search_name){.name = copy, .ino = inos[i], .owned = copy};
    }
    return names;
}

/* ---------------------------------------------------------------- the table of queries */

/* Queries by number and by text, the latest first: a bounded number of names, of which the latest that were
 * asked hold what was found. There are few enough to be looked through. Numbers are never given twice, so
 * that an inode whose query was forgotten leads nowhere. Locks are the caller's. */
struct query {
    uint64_t number;
    char *text;
    struct search_names *found; /* NULL: not asked yet, or forgotten, for there are later ones */
    char *record;               /* goes with it */
    size_t record_len;
    int64_t asked_ms; /* monotonic */
    int64_t asked_real_ms;
    bool is_asking; /* somebody has it without the lock: it stays */
};

struct query_table {                           /* empty: all zeros */
    struct query *queries[SEARCH_NAMES_KNOWN]; /* the latest first */
    size_t len;
    uint64_t last_number;
};

static void drop_found(struct query *query)
{
    search_names_unref(query->found);
    free(query->record);
    query->found = NULL;
    query->record = NULL;
    query->record_len = 0;
}

static void free_query(struct query *query)
{
    drop_found(query);
    free(query->text);
    free(query);
}

static void query_table_release(struct query_table *table)
{
    for (size_t i = 0; i < table->len; i++)
        free_query(table->queries[i]);
    *table = (struct query_table){.len = 0};
}

static struct query *query_table_find_number(const struct query_table *table, uint64_t number)
{
    for (size_t i = 0; i < table->len; i++)
        if (table->queries[i]->number == number)
            return table->queries[i];
    return NULL;
}

static struct query *query_table_find_text(const struct query_table *table, const char *text)
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
static bool has_place(struct query_table *table)
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

/* A query that is not in it, in place of the oldest that nobody is asking; NULL without memory. */
static struct query *query_table_add(struct query_table *table, const char *text)
{
    struct query *query = has_place(table) ? calloc(1, sizeof(*query)) : NULL;
    if (query == NULL || (query->text = strdup(text)) == NULL) {
        free(query);
        return NULL;
    }
    query->number = ++table->last_number;
    put_first(table, query);
    return query;
}

static void query_table_remove(struct query_table *table, struct query *query)
{
    take_out(table, query);
    free_query(query);
}

/* Takes over the answer to a query that was asked now. The oldest answer is forgotten. */
static void query_table_settle(struct query_table *table, struct query *query, struct search_names *found,
                               char *record, size_t record_len)
{
    drop_found(query);
    query->found = found;
    query->record = record;
    query->record_len = record_len;
    take_out(table, query);
    put_first(table, query);
    forget_results(table);
}

/* ---------------------------------------------------------------- the folder search/ */

/* A process that has listed search/. Its threads may share the work. */
struct lister {
    pid_t process;
    int64_t until_ms; /* monotonic */
};

struct queries {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct query_table table; /* protected by lock, like all below */
    unsigned int waiting;     /* requests that search, or wait for one that does */
    struct lister listers[LISTERS_MAX];
    unsigned int next_lister;
};

static int init_search(struct tree *tree, int state_dir_fd)
{
    tree->queries = calloc(1, sizeof(*tree->queries));
    if (tree->queries == NULL)
        return -ENOMEM;
    pthread_mutex_init(&tree->queries->lock, NULL);
    clock_condition_init(&tree->queries->changed);
    return 0;
}

static void release_search(struct tree *tree)
{
    struct queries *queries = tree->queries;
    if (queries == NULL)
        return;
    query_table_release(&queries->table);
    pthread_cond_destroy(&queries->changed);
    pthread_mutex_destroy(&queries->lock);
    free(queries);
}

/* Names that desktops, shells, builders and git look for in every folder. */
static bool is_asked_by_programs(const char *name)
{
    static const char *const names[] = {"autorun.inf", "desktop.ini", "Desktop.ini", "Thumbs.db",
                                        "lost+found",  "CVS",         "RCS",         "SCCS",
                                        "BDMV",        "VIDEO_TS",    "HEAD",        "Makefile",
                                        "makefile",    "GNUmakefile", "Dockerfile",  "node_modules"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return name[0] == '.';
}

/* One word that ends as files do that this mount and programs keep, not as hosts and attachments. In quotes
 * it is a query. */
static bool is_file_name(const char *name)
{
    static const char *const ends[] = {".txt",  ".md",  ".eml",  ".json", ".jsonl", ".html", ".htm",
                                       ".c",    ".h",   ".py",   ".js",   ".ts",    ".sh",   ".cfg",
                                       ".conf", ".ini", ".lock", ".log",  ".xml",   ".toml", ".yaml",
                                       ".yml",  ".mod", ".tmp",  ".bak",  ".swp"};
    const char *end = strrchr(name, '.');
    bool is_word = name[strcspn(name, " \t\":@")] == '\0';
    for (size_t i = 0; is_word && end != NULL && i < ARRAY_LEN(ends); i++)
        if (strcasecmp(end, ends[i]) == 0)
            return true;
    return false;
}

/* -ENOENT: the name is no query. -EINVAL: it would be misunderstood, and an event has the reason. */
static int check_query(struct tree *tree, const char *name)
{
    struct search_query query;
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *path = NULL;
    if (is_asked_by_programs(name) || is_file_name(name))
        return -ENOENT;
    int error = search_query_parse(name, clock_realtime_ms(tree->clock), &query, &reason);
    if (error == 0)
        search_query_release(&query);
    if (error != -EINVAL)
        return error == 0 || error == -ENOMEM ? error : -ENOENT;
    if (asprintf(&path, "search/%s", name) < 0)
        path = NULL;
    events_report(tree, EVENT_REFUSED, path, reason);
    return error;
}

static void fill(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, int64_t changed_ms,
                 struct tree_entry *ret)
{
    entry_fill_ms(tree, ino, mode, size, changed_ms, 0, ret);
}

static void fill_query(const struct tree *tree, const struct query *query, struct tree_entry *ret)
{
    fill(tree, node_ino(NODE_QUERY, query->number), S_IFDIR | 0700, 0, query->asked_real_ms, ret);
}

/* Does not wait. */
static int lookup_query(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                        const char *name, struct tree_entry *ret)
{
    struct queries *queries = tree->queries;
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    int error = check_query(tree, name);
    if (error != 0)
        return error;
    LOCK_GUARD(&queries->lock);
    struct query *query = query_table_find_text(&queries->table, name);
    if (query == NULL)
        query = query_table_add(&queries->table, name);
    if (query == NULL)
        return -ENOMEM;
    fill_query(tree, query, ret);
    return 0;
}

/* rmdir(2) of a query forgets it. */
static int remove_query(struct tree *tree, uint64_t parent, const char *name)
{
    struct queries *queries = tree->queries;
    LOCK_GUARD(&queries->lock);
    struct query *query = query_table_find_text(&queries->table, name);
    if (query == NULL)
        return -ENOENT;
    if (query->is_asking)
        return -EBUSY;
    query_table_remove(&queries->table, query);
    return 0;
}

/* ---------------------------------------------------------------- asking */

static bool is_lister_locked(const struct queries *queries, pid_t process, int64_t now_ms)
{
    for (size_t i = 0; i < LISTERS_MAX; i++)
        if (queries->listers[i].process == process && queries->listers[i].until_ms > now_ms)
            return true;
    return false;
}

/* Each thing that it goes on to look at gives it some more time. */
static void remember_lister_locked(struct queries *queries, pid_t process, int64_t now_ms)
{
    struct lister *lister = NULL;
    for (size_t i = 0; i < LISTERS_MAX && lister == NULL; i++)
        if (queries->listers[i].process == process)
            lister = &queries->listers[i];
    if (lister == NULL)
        lister = &queries->listers[queries->next_lister++ % LISTERS_MAX];
    *lister = (struct lister){process, now_ms + SEARCH_FRESH_MS};
}

static bool is_fresh_locked(const struct query *query, int64_t now_ms)
{
    return query->found != NULL && now_ms - query->asked_ms < SEARCH_FRESH_MS;
}

static char *write_record(const char *text, const struct store_search *found, int64_t asked_ms,
                          size_t *ret_len)
{
    _cleanup_strbuf_ struct strbuf record = STRBUF_INIT(RECORD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &record, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "query", text);
    json_member_date(&writer, "asked_at", asked_ms);
    json_member_integer(&writer, "found", (int64_t)found->len);
    json_member_boolean(&writer, "truncated", found->is_truncated);
    json_member_boolean(&writer, "service", found->is_service_asked);
    json_end_object(&writer);
    strbuf_append_char(&record, '\n');
    return strbuf_take(&record, ret_len);
}

/* Ends the asking, with the answer, which is taken; `names` or `record` NULL: it failed. */
static void settle_locked(struct tree *tree, struct query *query, struct search_names *names, char *record,
                          size_t record_len)
{
    struct queries *queries = tree->queries;
    query->is_asking = false;
    if (names != NULL && record != NULL) {
        query->asked_ms = clock_monotonic_ms(tree->clock);
        query->asked_real_ms = clock_realtime_ms(tree->clock);
        query_table_settle(&queries->table, query, TAKE_PTR(names), TAKE_PTR(record), record_len);
    }
    search_names_unref(names);
    free(record);
    pthread_cond_broadcast(&queries->changed);
}

/* Called with the lock held, which is given up meanwhile. Nobody forgets the query while it is asking. */
static int ask_locked(struct tree *tree, struct query *query, struct cancel *cancel)
{
    struct queries *queries = tree->queries;
    struct store_search found = {.len = 0};
    struct search_names *names = NULL;
    char *record = NULL;
    size_t record_len = 0;
    query->is_asking = true;
    pthread_mutex_unlock(&queries->lock);
    int error = store_search(tree->store, query->text, cancel, &found);
    if (error == 0) {
        names = search_names_of_emails(tree->store, &found);
        record = write_record(query->text, &found, clock_realtime_ms(tree->clock), &record_len);
        if (names == NULL || record == NULL)
            error = -ENOMEM;
    }
    store_search_release(&found);
    pthread_mutex_lock(&queries->lock);
    settle_locked(tree, query, names, record, record_len);
    return error;
}

/* Until the query has an answer that will do: `any_will_do` the one that it has, however old. Called with the
 * lock held, which is given up meanwhile. */
static int wait_for_answer_locked(struct tree *tree, uint64_t number, bool any_will_do, struct cancel *cancel,
                                  struct query **ret_query)
{
    struct queries *queries = tree->queries;
    int error = 0;
    for (;;) {
        struct query *query = query_table_find_number(&queries->table, number);
        if (query == NULL)
            return -ENOENT;
        *ret_query = query;
        if (is_fresh_locked(query, clock_monotonic_ms(tree->clock)) || (any_will_do && query->found != NULL))
            return 0;
        if (queries->waiting == SEARCHES_AT_ONCE)
            return -EAGAIN;
        queries->waiting++;
        if (query->is_asking)
            error = wait_until(tree->clock, &queries->changed, &queries->lock, CLOCK_FOREVER, cancel);
        else
            error = ask_locked(tree, query, cancel);
        queries->waiting--;
        if (error != 0)
            return error;
    }
}

/* Gets the names that the query found. The caller unrefs them. */
static int get_answer(struct tree *tree, const struct tree_caller *caller, uint64_t number, bool any_will_do,
                      struct search_names **ret_names)
{
    struct queries *queries = tree->queries;
    struct cancel *cancel = caller != NULL ? caller->cancel : NULL;
    struct query *query = NULL;
    pid_t process = caller != NULL ? writer_process(caller->pid) : 0;
    pthread_mutex_lock(&queries->lock);
    int64_t now_ms = clock_monotonic_ms(tree->clock);
    if (caller != NULL && is_lister_locked(queries, process, now_ms)) {
        remember_lister_locked(queries, process, now_ms);
        any_will_do = true;
    }
    int error = wait_for_answer_locked(tree, number, any_will_do, cancel, &query);
    if (error == 0)
        *ret_names = search_names_ref(query->found);
    pthread_mutex_unlock(&queries->lock);
    return error;
}

/* ---------------------------------------------------------------- what was found */

/* Where a link leads. */
static int read_hit_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                         size_t size)
{
    struct email_view email;
    struct inbox_view inbox;
    if (!store_get_email(tree->store, (uint32_t)node_number(ino), &email) ||
        !store_get_inbox(tree->store, email.inbox, &inbox))
        return -ENOENT;
    int len = snprintf(ret_target, size, "../../inboxes/%s/%s", inbox.name, email.name);
    return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

static int get_hit(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret)
{
    char target[PATH_MAX];
    struct email_view view;
    if (!store_get_email(tree->store, (uint32_t)node_number(ino), &view) ||
        read_hit_link(tree, caller, ino, target, sizeof(target)) != 0)
        return -ENOENT;
    fill(tree, ino, S_IFLNK | 0777, strlen(target), view.date_ms, ret);
    return 0;
}

const struct node_ops search_hit_ops = {.get = get_hit, .read_link = read_hit_link};

static int get_query(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct tree_entry *ret)
{
    struct queries *queries = tree->queries;
    LOCK_GUARD(&queries->lock);
    const struct query *query = query_table_find_number(&queries->table, node_number(ino));
    if (query == NULL)
        return -ENOENT;
    fill_query(tree, query, ret);
    return 0;
}

static int get_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_entry *ret)
{
    struct queries *queries = tree->queries;
    LOCK_GUARD(&queries->lock);
    const struct query *query = query_table_find_number(&queries->table, node_number(ino));
    if (query == NULL || query->record == NULL)
        return -ENOENT;
    fill(tree, ino, S_IFREG | 0444, query->record_len, query->asked_real_ms, ret);
    return 0;
}

static int open_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                       struct tree_handle **ret_handle)
{
    struct queries *queries = tree->queries;
    char *text;
    size_t len;
    {
        LOCK_GUARD(&queries->lock);
        const struct query *query = query_table_find_number(&queries->table, node_number(ino));
        if (query == NULL || query->record == NULL)
            return -ENOENT;
        text = strdup(query->record);
        len = query->record_len;
    }
    return handle_open_text(tree, flags, text, len, ret_handle);
}

const struct node_ops query_record_ops = {.get = get_record, .open = open_record};

/* ---------------------------------------------------------------- in the folder of a query */

/* Returns true if the latest answer to the query, however old, has this name. */
static bool is_in_answer(struct tree *tree, uint64_t number, const char *name)
{
    struct queries *queries = tree->queries;
    LOCK_GUARD(&queries->lock);
    const struct query *query = query_table_find_number(&queries->table, number);
    return query != NULL && query->found != NULL && search_names_find(query->found, name) != 0;
}

/* -EINTR, -EAGAIN (too many searches at once) and what the store says, where it asks. */
static int lookup_in_query(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                           const char *name, struct tree_entry *ret)
{
    struct search_names *names = NULL;
    uint64_t number = node_number(folder);
    bool is_record = strcmp(name, record_name) == 0;
    if (name[0] == '.' && !is_record)
        return -ENOENT;
    int error = get_answer(tree, caller, number, is_record || is_in_answer(tree, number, name), &names);
    if (error != 0)
        return error;
    uint64_t hit = is_record ? 0 : search_names_find(names, name);
    search_names_unref(names);
    if (is_record)
        return get_record(tree, caller, node_ino(NODE_QUERY_RECORD, number), ret);
    return hit != 0 ? get_hit(tree, caller, hit, ret) : -ENOENT;
}

/* ---------------------------------------------------------------- listings */

static int list_queries(struct tree *tree, const struct tree_caller *caller, struct search_names **ret_names)
{
    struct queries *queries = tree->queries;
    const char *texts[SEARCH_QUERIES_SHOWN];
    uint64_t inos[SEARCH_QUERIES_SHOWN];
    size_t len = 0;
    pid_t process = caller != NULL ? writer_process(caller->pid) : 0;
    LOCK_GUARD(&queries->lock);
    for (size_t i = 0; i < queries->table.len && len < SEARCH_QUERIES_SHOWN; i++) {
        const struct query *query = queries->table.queries[i];
        if (query->found == NULL)
            continue;
        texts[len] = query->text;
        inos[len++] = node_ino(NODE_QUERY, query->number);
    }
    *ret_names = search_names_of_queries(texts, inos, len);
    if (caller != NULL)
        remember_lister_locked(queries, process, clock_monotonic_ms(tree->clock));
    return *ret_names == NULL ? -ENOMEM : 0;
}

static int open_search(const struct tree_caller *caller, struct tree_dir *dir)
{
    struct search_names *names = NULL;
    int error = list_queries(dir->tree, caller, &names);
    dir->state = names;
    return error;
}

static int open_query(const struct tree_caller *caller, struct tree_dir *dir)
{
    struct search_names *names = NULL;
    int error = get_answer(dir->tree, caller, node_number(dir->ino), false, &names);
    dir->state = names;
    return error;
}

static void release_names(struct tree_dir *dir)
{
    search_names_unref(dir->state);
}

/* Names alone: the kernel asks for each anyway. */
static void put_names(const struct tree_dir *dir, mode_t mode, uint64_t position, uint64_t first)
{
    const struct search_names *names = dir->state;
    for (uint64_t i = position - first; i < names->len; i++)
        if (!dir_put_name(dir, names->items[i].name, names->items[i].ino, mode, i + 1 + first))
            return;
}

static int read_search(struct tree_dir *dir, uint64_t position)
{
    put_names(dir, S_IFDIR, position, 0);
    return 0;
}

static int read_query(struct tree_dir *dir, uint64_t position)
{
    uint64_t ino = node_ino(NODE_QUERY_RECORD, node_number(dir->ino));
    if (position > 0 || dir_put_name(dir, record_name, ino, S_IFREG, 1))
        put_names(dir, S_IFLNK, position > 0 ? position : 1, 1);
    return 0;
}

static uint64_t parent_of_query(struct tree *tree, uint64_t folder)
{
    return node_ino(NODE_SEARCH, 0);
}

const struct node_ops search_ops = {
    .init = init_search,
    .release = release_search,
    .state_name = "search",
    .mode = S_IFDIR | 0700,
    .lasting = LASTING_NAME,
    .lookup = lookup_query,
    .open_dir = open_search,
    .read_dir = read_search,
    .release_dir = release_names,
    .remove_dir = remove_query,
};

const struct node_ops query_ops = {
    .get = get_query,
    .lookup = lookup_in_query,
    .open_dir = open_query,
    .read_dir = read_query,
    .release_dir = release_names,
    .parent = parent_of_query,
};
