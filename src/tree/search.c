/* SPDX-License-Identifier: MIT */
/*
 * search/: a folder in which every name is a query. A lookup of the query only makes its folder. Opening the
 * folder, or looking up an unknown name in it, searches the store. The hits are symbolic links to emails;
 * .search.json has the query and the time of the search. The answer is used for SEARCH_FRESH_MS, unless mail
 * comes or goes, and longer by a process that has just listed search/, since such a process opens all
 * queries.
 *
 * No entry is lasting, since requests may wait. search/ lists the SEARCH_QUERIES_SHOWN queries that were
 * searched last; SEARCH_NAMES_KNOWN queries have an inode.
 */
#include <errno.h>
#include <glib.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "mail/search_query.h"
#include "outbox/writer_fate.h"
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

/* ---------------------------------------------------------------- lists of names */

/* An entry of a folder in search/. */
struct search_name {
    char *name; /* owned */
    uint64_t ino;
};

static void free_name(gpointer name)
{
    free(((struct search_name *)name)->name);
}

static GArray *new_names(void)
{
    GArray *names = g_array_new(false, false, sizeof(struct search_name));
    g_array_set_clear_func(names, free_name);
    return names;
}

/* Takes ownership of `name`. */
static void add_name(GArray *names, char *name, uint64_t ino)
{
    const struct search_name item = {name, ino};
    g_array_append_val(names, item);
}

static int compare_names(const void *one, const void *other)
{
    return strcmp(((const struct search_name *)one)->name, ((const struct search_name *)other)->name);
}

/* Returns the inode of the name in a sorted list, or 0. */
static uint64_t find_name(GArray *names, const char *name)
{
    const struct search_name wanted = {.name = (char *)(uintptr_t)name};
    guint i;
    return g_array_binary_search(names, &wanted, compare_names, &i)
               ? g_array_index(names, struct search_name, i).ino
               : 0;
}

/* Makes a sorted list of links to the emails. Emails of several inboxes may have equal names: all but the
 * first of these get a number. */
static GArray *names_of_emails(struct store *store, const struct store_search *found)
{
    g_autoptr(GHashTable) taken = g_hash_table_new(hash_string, g_str_equal); /* the list owns the keys */
    GArray *names = new_names();
    for (size_t i = 0; i < found->len; i++) {
        struct email_view view;
        if (!store_get_email(store, found->emails[i], &view))
            continue;
        char *name = g_strdup(view.name);
        for (unsigned int number = 2; name != NULL && g_hash_table_contains(taken, name); number++) {
            free(name);
            name = file_name_numbered(view.name, number);
        }
        if (name == NULL)
            continue;
        g_hash_table_add(taken, name);
        add_name(names, name, node_ino(NODE_SEARCH_HIT, view.number));
    }
    g_array_sort(names, compare_names);
    return names;
}

/* ---------------------------------------------------------------- queries */

struct query {
    uint64_t number;
    char *text;
    GArray *found;              /* the answer: struct search_name; NULL if there is none */
    bool is_truncated;          /* as in struct store_search */
    bool is_service_asked;      /* as in struct store_search */
    int64_t searched_ms;        /* monotonic */
    unsigned int email_changes; /* of the tree, when the search began */
    int64_t searched_real_ms;
    unsigned int searches; /* threads that use the query without the lock: it must not be freed */
};

/* A process that has just listed search/. */
struct lister {
    pid_t process;
    int64_t until_ms; /* monotonic */
};

struct queries {
    pthread_mutex_t lock;  /* protects all members below */
    GQueue table;          /* struct query; at the head, the one that was searched or made last */
    uint64_t last_number;  /* numbers are not reused, so the inode of a removed query is invalid */
    unsigned int searches; /* threads that search now */
    struct lister listers[LISTERS_MAX];
    unsigned int next_lister; /* modulo LISTERS_MAX: the element that the next process gets */
};

static void free_query(gpointer data)
{
    struct query *query = data;
    g_clear_pointer(&query->found, g_array_unref);
    free(query->text);
    free(query);
}

static struct query *find_number_locked(const struct queries *queries, uint64_t number)
{
    for (const GList *item = queries->table.head; item != NULL; item = item->next)
        if (((struct query *)item->data)->number == number)
            return item->data;
    return NULL;
}

static struct query *find_text_locked(const struct queries *queries, const char *text)
{
    for (const GList *item = queries->table.head; item != NULL; item = item->next)
        if (strcmp(((struct query *)item->data)->text, text) == 0)
            return item->data;
    return NULL;
}

/* Adds a query. If there are SEARCH_NAMES_KNOWN, first frees the last one that no thread searches. */
static struct query *add_query_locked(struct queries *queries, const char *text)
{
    GList *oldest = queries->table.length < SEARCH_NAMES_KNOWN ? NULL : queries->table.tail;
    while (oldest != NULL && ((struct query *)oldest->data)->searches > 0)
        oldest = oldest->prev;
    if (oldest != NULL) {
        free_query(oldest->data);
        g_queue_delete_link(&queries->table, oldest);
    }
    struct query *query = g_new0(struct query, 1);
    query->text = g_strdup(text);
    query->number = ++queries->last_number;
    g_queue_push_head(&queries->table, query);
    return query;
}

/* ---------------------------------------------------------------- the folder search/ */

static int init_search(struct tree *tree, int state_dir_fd)
{
    tree->queries = g_new0(struct queries, 1);
    pthread_mutex_init(&tree->queries->lock, NULL);
    return 0;
}

static void release_search(struct tree *tree)
{
    struct queries *queries = tree->queries;
    if (queries == NULL)
        return;
    g_queue_clear_full(&queries->table, free_query);
    pthread_mutex_destroy(&queries->lock);
    free(queries);
}

/* Returns true for a name with a leading dot, for names that desktops, shells, builders and git look up in
 * every folder, and for a single word with a suffix that files have, but neither hosts nor attachments. */
static bool is_file_name(const char *name)
{
    static const char *const names[] = {
        "autorun.inf", "desktop.ini", "Desktop.ini", "Thumbs.db",    "lost+found", "CVS",
        "RCS",         "SCCS",        "BDMV",        "VIDEO_TS",     "HEAD",       "Makefile",
        "makefile",    "GNUmakefile", "Dockerfile",  "node_modules", NULL};
    static const char *const ends[] = {".txt",  ".md",  ".eml",  ".json", ".jsonl", ".html", ".htm",
                                       ".c",    ".h",   ".py",   ".js",   ".ts",    ".sh",   ".cfg",
                                       ".conf", ".ini", ".lock", ".log",  ".xml",   ".toml", ".yaml",
                                       ".yml",  ".mod", ".tmp",  ".bak",  ".swp"};
    const char *end = strrchr(name, '.');
    bool is_word = name[strcspn(name, " \t\":@")] == '\0';
    for (size_t i = 0; is_word && end != NULL && i < ARRAY_LEN(ends); i++)
        if (strcasecmp(end, ends[i]) == 0)
            return true;
    return name[0] == '.' || g_strv_contains(names, name);
}

/* Return: 0; -ENOENT for names that programs look up; an error of search_query_parse(), with an event. */
static int check_query(struct tree *tree, const char *name)
{
    struct search_query query;
    _cleanup_free_ char *reason = NULL;
    if (is_file_name(name))
        return -ENOENT;
    int error = search_query_parse(name, clock_realtime_ms(tree->config.clock), &query, &reason);
    if (error == 0) {
        search_query_release(&query);
        return 0;
    }
    _cleanup_free_ char *path = g_strdup_printf("search/%s", name);
    events_report(tree, EVENT_REFUSED, path, reason != NULL ? reason : strerror(-error));
    return error;
}

static void fill_query(const struct tree *tree, const struct query *query, struct tree_entry *ret)
{
    entry_fill_ms(tree, node_ino(NODE_QUERY, query->number), S_IFDIR | 0700, 0, query->searched_real_ms, 0,
                  ret);
}

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
    struct query *query = find_text_locked(queries, name);
    if (query == NULL)
        query = add_query_locked(queries, name);
    fill_query(tree, query, ret);
    return 0;
}

static int remove_query(struct tree *tree, uint64_t parent, const char *name)
{
    struct queries *queries = tree->queries;
    LOCK_GUARD(&queries->lock);
    struct query *query = find_text_locked(queries, name);
    if (query == NULL)
        return -ENOENT;
    if (query->searches > 0)
        return -EBUSY;
    g_queue_remove(&queries->table, query);
    free_query(query);
    return 0;
}

/* ---------------------------------------------------------------- searches */

static struct lister *find_lister_locked(struct queries *queries, pid_t process, int64_t now_ms)
{
    for (size_t i = 0; i < LISTERS_MAX; i++)
        if (queries->listers[i].process == process && queries->listers[i].until_ms > now_ms)
            return &queries->listers[i];
    return NULL;
}

/* Called with the lock held; releases the lock during the search. Return: 0; -EAGAIN when too many threads
 * search; the store's errors. */
static int search_locked(struct tree *tree, struct query *query, struct cancel *cancel)
{
    struct queries *queries = tree->queries;
    struct store_search found = {.len = 0};
    if (queries->searches == SEARCHES_AT_ONCE)
        return -EAGAIN;
    queries->searches++;
    query->searches++;
    unsigned int email_changes = tree->email_changes;
    pthread_mutex_unlock(&queries->lock);
    int error = store_search(tree->store, query->text, cancel, &found);
    GArray *names = error == 0 ? names_of_emails(tree->store, &found) : NULL;
    pthread_mutex_lock(&queries->lock);
    queries->searches--;
    query->searches--;
    if (names != NULL) {
        size_t shown = 0;
        g_clear_pointer(&query->found, g_array_unref);
        query->found = names;
        query->is_truncated = found.is_truncated;
        query->is_service_asked = found.is_service_asked;
        query->email_changes = email_changes;
        query->searched_ms = clock_monotonic_ms(tree->config.clock);
        query->searched_real_ms = clock_realtime_ms(tree->config.clock);
        g_queue_remove(&queries->table, query);
        g_queue_push_head(&queries->table, query);
        for (const GList *item = queries->table.head; item != NULL; item = item->next) {
            struct query *known = item->data;
            if (known->found != NULL && ++shown > SEARCH_QUERIES_SHOWN)
                g_clear_pointer(&known->found, g_array_unref);
        }
    }
    store_search_release(&found);
    return error;
}

/* Returns true if the latest answer will do: if it is fresh, if `is_lister`, or if it has `name` (may be
 * NULL).
 */
static bool is_answered(const struct tree *tree, const struct query *query, int64_t now_ms, bool is_lister,
                        const char *name)
{
    bool is_fresh =
        now_ms - query->searched_ms < SEARCH_FRESH_MS && query->email_changes == tree->email_changes;
    return query->found != NULL &&
           (is_fresh || is_lister ||
            (name != NULL && (strcmp(name, record_name) == 0 || find_name(query->found, name) != 0)));
}

/* Gets the answer of a query, whose reference the caller drops. `name`: as in is_answered(). */
static int get_answer(struct tree *tree, const struct tree_caller *caller, uint64_t number, const char *name,
                      GArray **ret_names)
{
    struct queries *queries = tree->queries;
    pid_t process = writer_process(caller->pid);
    pthread_mutex_lock(&queries->lock);
    int64_t now_ms = clock_monotonic_ms(tree->config.clock);
    struct query *query = find_number_locked(queries, number);
    struct lister *lister = find_lister_locked(queries, process, now_ms);
    if (lister != NULL)
        lister->until_ms = now_ms + SEARCH_FRESH_MS;
    int error = query != NULL ? 0 : -ENOENT;
    if (error == 0 && !is_answered(tree, query, now_ms, lister != NULL, name))
        error = search_locked(tree, query, caller->cancel);
    if (error == 0)
        *ret_names = g_array_ref(query->found);
    pthread_mutex_unlock(&queries->lock);
    return error;
}

/* ---------------------------------------------------------------- hits, and .search.json */

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
    entry_fill_ms(tree, ino, S_IFLNK | 0777, strlen(target), view.date_ms, 0, ret);
    return 0;
}

const struct node_ops search_hit_ops = {.get = get_hit, .read_link = read_hit_link};

static int get_query(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct tree_entry *ret)
{
    struct queries *queries = tree->queries;
    LOCK_GUARD(&queries->lock);
    const struct query *query = find_number_locked(queries, node_number(ino));
    if (query == NULL)
        return -ENOENT;
    fill_query(tree, query, ret);
    return 0;
}

/* Makes the text of .search.json, which RECORD_MAX_BYTES have room for. The caller frees it. */
static int format_record(struct tree *tree, uint64_t ino, char **ret_text, size_t *ret_len, int64_t *ret_ms)
{
    LOCK_GUARD(&tree->queries->lock);
    const struct query *query = find_number_locked(tree->queries, node_number(ino));
    if (query == NULL || query->found == NULL)
        return -ENOENT;
    _cleanup_strbuf_ struct strbuf record = STRBUF_INIT(RECORD_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &record, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "query", query->text);
    json_member_date(&writer, "asked_at", query->searched_real_ms);
    json_member_integer(&writer, "found", (int64_t)query->found->len);
    json_member_boolean(&writer, "truncated", query->is_truncated);
    json_member_boolean(&writer, "service", query->is_service_asked);
    json_end_object(&writer);
    strbuf_append_char(&record, '\n');
    *ret_ms = query->searched_real_ms;
    *ret_text = strbuf_take(&record, ret_len);
    return 0;
}

static int get_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_entry *ret)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int64_t searched_ms;
    int error = format_record(tree, ino, &text, &len, &searched_ms);
    if (error == 0)
        entry_fill_ms(tree, ino, S_IFREG | 0444, len, searched_ms, 0, ret);
    return error;
}

static int open_record(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                       struct tree_handle **ret_handle)
{
    char *text;
    size_t len;
    int64_t searched_ms;
    int error = format_record(tree, ino, &text, &len, &searched_ms);
    return error != 0 ? error : handle_open_text(tree, flags, text, len, ret_handle);
}

const struct node_ops query_record_ops = {.get = get_record, .open = open_record};

/* Return: -EINTR; -EAGAIN when too many requests search at once; the store's errors of a search. */
static int lookup_in_query(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                           const char *name, struct tree_entry *ret)
{
    g_autoptr(GArray) names = NULL;
    uint64_t number = node_number(folder);
    bool is_record = strcmp(name, record_name) == 0;
    if (name[0] == '.' && !is_record)
        return -ENOENT;
    int error = get_answer(tree, caller, number, name, &names);
    if (error != 0)
        return error;
    if (is_record)
        return get_record(tree, caller, node_ino(NODE_QUERY_RECORD, number), ret);
    uint64_t hit = find_name(names, name);
    return hit != 0 ? get_hit(tree, caller, hit, ret) : -ENOENT;
}

/* ---------------------------------------------------------------- listings */

static int open_search(const struct tree_caller *caller, struct tree_dir *dir)
{
    struct queries *queries = dir->base.tree->queries;
    int64_t now_ms = clock_monotonic_ms(dir->base.tree->config.clock);
    pid_t process = writer_process(caller->pid);
    GArray *names = new_names();
    LOCK_GUARD(&queries->lock);
    for (const GList *item = queries->table.head; item != NULL; item = item->next) {
        const struct query *query = item->data;
        if (query->found != NULL)
            add_name(names, g_strdup(query->text), node_ino(NODE_QUERY, query->number));
    }
    struct lister *lister = find_lister_locked(queries, process, now_ms);
    if (lister == NULL)
        lister = &queries->listers[queries->next_lister++ % LISTERS_MAX];
    *lister = (struct lister){process, now_ms + SEARCH_FRESH_MS};
    dir->state = names;
    return 0;
}

static int open_query(const struct tree_caller *caller, struct tree_dir *dir)
{
    GArray *names = NULL;
    int error = get_answer(dir->base.tree, caller, node_number(dir->ino), NULL, &names);
    dir->state = names;
    return error;
}

static void release_names(struct tree_dir *dir)
{
    if (dir->state != NULL)
        g_array_unref(dir->state);
}

/* Passes only names, since the kernel looks each name up anyway. `first`: the position of the first name. */
static void put_names(const struct tree_dir *dir, mode_t mode, uint64_t position, uint64_t first)
{
    const GArray *names = dir->state;
    for (uint64_t i = position - first; i < names->len; i++) {
        const struct search_name *item = &g_array_index(names, struct search_name, i);
        if (!dir_put_name(dir, item->name, item->ino, mode, i + 1 + first))
            return;
    }
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
};
