/* SPDX-License-Identifier: MIT */
/*
 * The full-text index of what is known locally: subjects, names and addresses, and bodies once they were
 * fetched. It is in SQLite (FTS5), in a file of its own, and like all of the cache can be thrown away: a
 * damaged one is found out when it is used, and emptied by search_index_renew().
 *
 * One thread writes (every function but the last and search_index_is_damaged()). Everything waits for the
 * disk.
 */
#ifndef INBOXFS_STORE_SEARCH_INDEX_H
#define INBOXFS_STORE_SEARCH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/search_query.h"

enum {
    SEARCH_BODY_MAX_BYTES = 256 * 1024 /* of a body; what follows is not found */
};

struct search_index;

/* Opens or makes the index in `dir_fd`. 0, or -errno: it cannot be had now. */
int search_index_open(int dir_fd, struct search_index **ret_index);
/* NULL-safe. */
void search_index_free(struct search_index *index);

/* Throws away all of it, once no search is under way. 0 or -errno. */
int search_index_renew(struct search_index *index);
/* Whether anybody, a search too, found it damaged since it was last renewed. */
bool search_index_is_damaged(struct search_index *index);

/* What belongs to these is in the index together or not at all. search_index_end() makes it seen. 0 or
 * -errno; -EUCLEAN: damaged. */
int search_index_begin(struct search_index *index);
int search_index_end(struct search_index *index);
void search_index_abandon(struct search_index *index);

/* Where the index has no emails, what is put between these is taken not to be there yet, which makes it
 * cheap.
 */
void search_index_begin_filling(struct search_index *index);
void search_index_end_filling(struct search_index *index);

/* Puts in an email's record, or nothing where it is there with the same digest; in either case it counts as
 * met by `pass`. */
struct search_entry {
    const char *inbox_id;
    const char *key;
    int64_t digest; /* of the record */
    int64_t date_ms;
    const char *json;
    size_t json_len;
};
int search_index_put(struct search_index *index, const struct search_entry *entry, int64_t pass);

/* Its content, where that is not known yet; -ENOENT: the email is not in the index. */
struct search_content {
    bool has_attachment;
    const char *text;
    size_t len;
};
int search_index_put_content(struct search_index *index, const char *inbox_id, const char *key,
                             const struct search_content *content);
int search_index_remove(struct search_index *index, const char *inbox_id, const char *key);
/* Removes what `pass` did not meet. */
int search_index_remove_others(struct search_index *index, int64_t pass);

/* A number that is kept with the index; 0 where there is none. */
int search_index_get_mark(struct search_index *index, const char *name, int64_t *ret_value);
int search_index_set_mark(struct search_index *index, const char *name, int64_t value);

/* Takes a hit; false: no more are wanted. */
typedef bool (*search_hit_sink)(void *context, const char *inbox_id, const char *key);

/* Looks at this from time to time; true: give up. */
typedef bool (*search_stop)(void *context);

/* Finds what meets one term of each group of the query, newest first. There is at least one term, none of
 * them is a fact, and whether one is negated is the sink's business. From any thread. 0, -EINTR (stopped),
 * -errno. */
int search_index_find(struct search_index *index, const struct search_query *query, search_hit_sink sink,
                      search_stop stop, void *context);

#endif
