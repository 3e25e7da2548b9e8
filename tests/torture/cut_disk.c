/* SPDX-License-Identifier: MIT */
#include "cut_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SECTOR = 512,
    BLOCK = 4096,
    EXHAUSTIVE_MAX = 64, /* if a cut may leave at most this many states, all are made */
    CUTS_MAX = 6,        /* positions at which one write is cut */
    RANDOM_STATES = 10,
};

/* A change of a file's bytes: a write, or another size (bytes NULL). */
struct change {
    uint64_t offset; /* offset of a write; or the new size */
    size_t len;
    const unsigned char *bytes;
};

struct file {
    uint64_t inode;
    size_t folder;    /* number of its path + 1 if it is a folder; else 0 */
    GArray *changes;  /* of struct change */
    guint durable;    /* number of changes at the start that have reached the disk */
    GByteArray *base; /* the bytes after the durable changes */
    uint64_t base_hash;
    size_t first_path; /* scratch of disk_state_hash(): its first path + 1, or 0 */
};

enum name_kind {
    NAME_SET,   /* `path` is a name of the file */
    NAME_MOVE,  /* `path` is a name of the file instead of `from` */
    NAME_SWAP,  /* `path` and `from` exchange their files */
    NAME_CLEAR, /* `path` is removed */
};

struct name_change {
    enum name_kind kind;
    size_t path;
    size_t from;
    struct file *file;
    struct file *other;
    bool is_path_durable; /* the folder of `path` was fsynced after the change */
    bool is_from_durable;
};

/* An fsync that has begun. When it ends, the first `counts` and `names` changes are durable. */
struct sync {
    uint64_t id;
    struct file *file; /* NULL for all files */
    GArray *counts;    /* numbers of changes of the file, or of each file, when the fsync began */
    guint names;       /* number of changes of names when the fsync began */
};

struct disk {
    GPtrArray *files;           /* all files so far; owns them */
    GHashTable *by_inode;       /* inode -> the newest file that has it */
    GPtrArray *paths;           /* by number; owns the strings */
    GHashTable *path_ids;       /* path -> number + 1 */
    GArray *folders;            /* of size_t: the number of each path's folder; "." is its own */
    GArray *names;              /* of struct name_change, all so far */
    guint durable_name_changes; /* number of changes at the start of `names` that are durable */
    GPtrArray *durable_names;   /* by number of path: the file after the durable changes, or NULL */
    GPtrArray *newest;          /* by number of path: the file after all changes of names, or NULL */
    GPtrArray *syncs;           /* of struct sync, those under way */
};

/* The part of a change that has reached the disk: bytes from `from` to `to`; a whole new size if to > 0. */
struct part {
    size_t from;
    size_t to;
};

struct file_state {
    struct file *file;
    GArray *parts;     /* of struct part, one for each change that is not durable */
    bool is_full_size; /* the size has reached the disk, even without the bytes */
    GByteArray *bytes; /* the result; NULL before it is needed */
};

struct disk_state {
    struct disk *disk;
    GArray *pending;          /* of guint: changes of names that are not durable */
    gboolean *are_made;       /* for each of `pending`: the state has the change */
    struct file_state *files; /* the files with changes that are not durable */
    guint files_len;
    GPtrArray *names; /* by number of path; NULL before they are needed */
};

/* ---------------------------------------------------------------- the disk */

static void file_free(gpointer data)
{
    struct file *file = data;
    g_array_unref(file->changes);
    g_byte_array_unref(file->base);
    g_free(file);
}

static void sync_free(gpointer data)
{
    struct sync *sync = data;
    g_array_unref(sync->counts);
    g_free(sync);
}

struct disk *disk_new(void)
{
    struct disk *disk = g_new0(struct disk, 1);
    disk->files = g_ptr_array_new_with_free_func(file_free);
    disk->by_inode = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    disk->paths = g_ptr_array_new_with_free_func(g_free);
    disk->path_ids = g_hash_table_new(g_str_hash, g_str_equal);
    disk->folders = g_array_new(FALSE, FALSE, sizeof(size_t));
    disk->names = g_array_new(FALSE, TRUE, sizeof(struct name_change));
    disk->durable_names = g_ptr_array_new();
    disk->newest = g_ptr_array_new();
    disk->syncs = g_ptr_array_new_with_free_func(sync_free);
    return disk;
}

void disk_free(struct disk *disk)
{
    if (disk == NULL)
        return;
    g_ptr_array_unref(disk->syncs);
    g_ptr_array_unref(disk->newest);
    g_ptr_array_unref(disk->durable_names);
    g_array_unref(disk->names);
    g_array_unref(disk->folders);
    g_hash_table_unref(disk->path_ids);
    g_ptr_array_unref(disk->paths);
    g_hash_table_unref(disk->by_inode);
    g_ptr_array_unref(disk->files);
    g_free(disk);
}

static size_t path_id(struct disk *disk, const char *path)
{
    gpointer found = g_hash_table_lookup(disk->path_ids, path);
    if (found != NULL)
        return GPOINTER_TO_SIZE(found) - 1;
    size_t id = disk->paths->len;
    char *copy = g_strdup(path);
    g_ptr_array_add(disk->paths, copy);
    g_hash_table_insert(disk->path_ids, copy, GSIZE_TO_POINTER(id + 1));
    g_ptr_array_add(disk->durable_names, NULL);
    g_ptr_array_add(disk->newest, NULL);
    g_array_append_val(disk->folders, id);
    char *folder = g_path_get_dirname(path);
    size_t folder_id = path_id(disk, folder);
    g_array_index(disk->folders, size_t, id) = folder_id;
    g_free(folder);
    return id;
}

static const char *path_of(const struct disk *disk, size_t id)
{
    return g_ptr_array_index(disk->paths, id);
}

static size_t folder_of(const struct disk *disk, size_t id)
{
    return g_array_index(disk->folders, size_t, id);
}

static struct file *file_new(struct disk *disk, uint64_t inode)
{
    struct file *file = g_new0(struct file, 1);
    file->inode = inode;
    file->changes = g_array_new(FALSE, TRUE, sizeof(struct change));
    file->base = g_byte_array_new();
    g_ptr_array_add(disk->files, file);
    int64_t *key = g_new(int64_t, 1);
    *key = (int64_t)inode;
    g_hash_table_replace(disk->by_inode, key, file);
    return file;
}

static struct file *file_find(struct disk *disk, uint64_t inode)
{
    int64_t key = (int64_t)inode;
    return g_hash_table_lookup(disk->by_inode, &key);
}

/* ---------------------------------------------------------------- bytes */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    uint64_t word;
    for (; len >= sizeof(word); len -= sizeof(word), from += sizeof(word)) {
        memcpy(&word, from, sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    for (; len > 0; len--, from++)
        hash = (hash ^ *from) * UINT64_C(0x100000001B3);
    return hash ^ (hash >> 32);
}

static void set_size(GByteArray *bytes, size_t size)
{
    guint old = bytes->len;
    g_byte_array_set_size(bytes, (guint)size);
    if (size > old)
        memset(bytes->data + old, 0, size - old);
}

static void make_change(GByteArray *bytes, const struct change *change, struct part part)
{
    if (part.to <= part.from)
        return;
    if (change->bytes == NULL) {
        set_size(bytes, change->offset);
        return;
    }
    size_t end = change->offset + part.to;
    if (bytes->len < end)
        set_size(bytes, end);
    memcpy(bytes->data + change->offset + part.from, change->bytes + part.from, part.to - part.from);
}

static struct change *change_at(const struct file *file, guint index)
{
    return &g_array_index(file->changes, struct change, index);
}

static struct part whole_of(const struct change *change)
{
    return (struct part){0, change->bytes == NULL ? 1 : change->len};
}

static void settle_bytes(struct file *file, guint count)
{
    for (; file->durable < count; file->durable++) {
        const struct change *change = change_at(file, file->durable);
        make_change(file->base, change, whole_of(change));
    }
    file->base_hash = mix(file->base->len, file->base->data, file->base->len);
}

/* ---------------------------------------------------------------- names */

static void make_name_change(GPtrArray *names, const struct name_change *change)
{
    if (change->kind == NAME_MOVE)
        names->pdata[change->from] = NULL;
    if (change->kind == NAME_SWAP)
        names->pdata[change->from] = change->other;
    names->pdata[change->path] = change->kind == NAME_CLEAR ? NULL : change->file;
}

static bool is_durable(const struct name_change *change)
{
    return change->is_path_durable && change->is_from_durable;
}

static struct name_change *name_at(const struct disk *disk, guint index)
{
    return &g_array_index(disk->names, struct name_change, index);
}

static void settle_names(struct disk *disk)
{
    while (disk->durable_name_changes < disk->names->len &&
           is_durable(name_at(disk, disk->durable_name_changes)))
        make_name_change(disk->durable_names, name_at(disk, disk->durable_name_changes++));
}

static void add_name(struct disk *disk, struct name_change change)
{
    change.is_from_durable = change.kind == NAME_SET || change.kind == NAME_CLEAR ||
                             folder_of(disk, change.from) == folder_of(disk, change.path);
    g_array_append_val(disk->names, change);
    make_name_change(disk->newest, &change);
}

/* ---------------------------------------------------------------- fsync */

static void begin_sync(struct disk *disk, uint64_t id, uint64_t inode)
{
    struct sync *sync = g_new0(struct sync, 1);
    sync->id = id;
    sync->file = inode == 0 ? NULL : file_find(disk, inode);
    sync->counts = g_array_new(FALSE, FALSE, sizeof(guint));
    sync->names = disk->names->len;
    for (guint i = 0; inode == 0 && i < disk->files->len; i++)
        g_array_append_val(sync->counts, ((struct file *)disk->files->pdata[i])->changes->len);
    if (sync->file != NULL)
        g_array_append_val(sync->counts, sync->file->changes->len);
    g_ptr_array_add(disk->syncs, sync);
}

static void sync_names(struct disk *disk, const struct sync *sync)
{
    for (guint i = disk->durable_name_changes; i < sync->names; i++) {
        struct name_change *change = name_at(disk, i);
        bool is_all = sync->file == NULL;
        if (is_all || folder_of(disk, change->path) + 1 == sync->file->folder)
            change->is_path_durable = true;
        if (is_all || (change->kind >= NAME_MOVE && change->kind <= NAME_SWAP &&
                       folder_of(disk, change->from) + 1 == sync->file->folder))
            change->is_from_durable = true;
    }
    settle_names(disk);
}

static int end_sync(struct disk *disk, uint64_t id)
{
    for (guint i = 0; i < disk->syncs->len; i++) {
        struct sync *sync = disk->syncs->pdata[i];
        if (sync->id != id)
            continue;
        if (sync->file == NULL || sync->file->folder != 0)
            sync_names(disk, sync);
        for (guint j = 0; j < sync->counts->len; j++)
            settle_bytes(sync->file != NULL ? sync->file : disk->files->pdata[j],
                         g_array_index(sync->counts, guint, j));
        g_ptr_array_remove_index(disk->syncs, i);
        return 0;
    }
    return -EINVAL;
}

/* ---------------------------------------------------------------- records */

static char *unescape(const char *from)
{
    char *text = g_strdup(from);
    char *to = text;
    for (const char *c = from; *c != '\0'; c++) {
        if (*c == '\\' && c[1] != '\0')
            *to++ = *++c == 'n' ? '\n' : *c;
        else
            *to++ = *c;
    }
    *to = '\0';
    return text;
}

static int apply_new(struct disk *disk, const char *word, uint64_t inode, const char *path)
{
    bool is_link = strcmp(word, "link") == 0;
    struct file *file = is_link ? file_find(disk, inode) : file_new(disk, inode);
    if (file == NULL)
        return -EINVAL;
    if (*path == '\0')
        return 0;
    size_t id = path_id(disk, path);
    if (strcmp(word, "mkdir") == 0 || strcmp(word, "root") == 0)
        file->folder = id + 1;
    if (strcmp(word, "root") != 0)
        add_name(disk, (struct name_change){.kind = NAME_SET, .path = id, .file = file});
    return 0;
}

static int apply_move(struct disk *disk, const char *word, char *paths)
{
    char *to = strstr(paths, "//");
    if (to == NULL)
        return -EINVAL;
    *to = '\0';
    size_t from_id = path_id(disk, paths);
    size_t to_id = path_id(disk, to + 2);
    bool is_swap = strcmp(word, "exchange") == 0;
    add_name(disk, (struct name_change){.kind = is_swap ? NAME_SWAP : NAME_MOVE,
                                        .path = to_id,
                                        .from = from_id,
                                        .file = disk->newest->pdata[from_id],
                                        .other = disk->newest->pdata[to_id]});
    return 0;
}

static int apply_bytes(struct disk *disk, const char *arguments, const void *bytes)
{
    unsigned long inode, offset, len = 0;
    if (sscanf(arguments, "%lu %lu %lu", &inode, &offset, &len) < 2 || (bytes == NULL) != (len == 0))
        return -EINVAL;
    struct file *file = file_find(disk, inode);
    if (file == NULL)
        return -EINVAL;
    struct change change = {.offset = offset, .len = len, .bytes = bytes};
    g_array_append_val(file->changes, change);
    return 0;
}

static int apply_path(struct disk *disk, const char *word, const char *arguments)
{
    char *end;
    uint64_t inode = 0;
    bool has_inode = strcmp(word, "unlink") != 0 && strcmp(word, "rmdir") != 0;
    if (has_inode) {
        inode = strtoul(arguments, &end, 10);
        if (end == arguments || (*end != ' ' && *end != '\0'))
            return -EINVAL;
        arguments = *end == ' ' ? end + 1 : end;
    }
    char *path = unescape(arguments);
    int error = 0;
    if (!has_inode)
        add_name(disk, (struct name_change){.kind = NAME_CLEAR, .path = path_id(disk, path)});
    else if (strcmp(word, "rename") == 0 || strcmp(word, "exchange") == 0)
        error = apply_move(disk, word, path);
    else
        error = apply_new(disk, word, inode, path);
    g_free(path);
    return error;
}

int disk_apply(struct disk *disk, const char *record, const void *bytes)
{
    static const char *const of_paths[] = {"root",     "create", "mkdir", "link", "rename",
                                           "exchange", "unlink", "rmdir", NULL};
    const char *space = strchr(record, ' ');
    unsigned long id, inode;
    if (space == NULL)
        return -EINVAL;
    char *word = g_strndup(record, (gsize)(space - record));
    const char *arguments = space + 1;
    int error = -EINVAL;
    if (strcmp(word, "write") == 0 || strcmp(word, "truncate") == 0) {
        error = apply_bytes(disk, arguments, bytes);
    } else if (strcmp(word, "begin") == 0 && sscanf(arguments, "%lu %lu", &id, &inode) == 2) {
        begin_sync(disk, id, inode);
        error = 0;
    } else if (strcmp(word, "end") == 0 && sscanf(arguments, "%lu", &id) == 1) {
        error = end_sync(disk, id);
    } else if (strcmp(word, "other") == 0) {
        error = -ENOTSUP;
    } else if (g_strv_contains(of_paths, word)) {
        error = apply_path(disk, word, arguments);
    }
    g_free(word);
    return error;
}

/* ---------------------------------------------------------------- states */

static guint count_pending(const struct file *file)
{
    return file->changes->len - file->durable;
}

static struct disk_state *state_new(struct disk *disk)
{
    struct disk_state *state = g_new0(struct disk_state, 1);
    state->disk = disk;
    state->pending = g_array_new(FALSE, FALSE, sizeof(guint));
    for (guint i = disk->durable_name_changes; i < disk->names->len; i++)
        if (!is_durable(name_at(disk, i)))
            g_array_append_val(state->pending, i);
    state->are_made = g_new0(gboolean, state->pending->len + 1);
    state->files = g_new0(struct file_state, disk->files->len + 1);
    for (guint i = 0; i < disk->files->len; i++) {
        struct file *file = disk->files->pdata[i];
        if (count_pending(file) == 0)
            continue;
        struct file_state *at = &state->files[state->files_len++];
        at->file = file;
        at->parts = g_array_new(FALSE, TRUE, sizeof(struct part));
        g_array_set_size(at->parts, count_pending(file));
    }
    return state;
}

static void forget_made(struct disk_state *state)
{
    for (guint i = 0; i < state->files_len; i++) {
        if (state->files[i].bytes != NULL)
            g_byte_array_unref(state->files[i].bytes);
        state->files[i].bytes = NULL;
    }
    if (state->names != NULL)
        g_ptr_array_unref(state->names);
    state->names = NULL;
}

static void state_free(struct disk_state *state)
{
    forget_made(state);
    for (guint i = 0; i < state->files_len; i++)
        g_array_unref(state->files[i].parts);
    g_array_unref(state->pending);
    g_free(state->files);
    g_free(state->are_made);
    g_free(state);
}

static struct part *part_at(const struct file_state *at, guint index)
{
    return &g_array_index(at->parts, struct part, index);
}

static const struct change *pending_at(const struct file_state *at, guint index)
{
    return change_at(at->file, at->file->durable + index);
}

static void set_all_parts(struct file_state *at, bool is_made)
{
    at->is_full_size = false;
    for (guint i = 0; i < at->parts->len; i++)
        *part_at(at, i) = is_made ? whole_of(pending_at(at, i)) : (struct part){0, 0};
}

static void set_all_files(struct disk_state *state, bool are_made)
{
    for (guint i = 0; i < state->files_len; i++)
        set_all_parts(&state->files[i], are_made);
}

static void set_all_names(struct disk_state *state, bool are_made)
{
    for (guint i = 0; i < state->pending->len; i++)
        state->are_made[i] = are_made;
}

static void make_names(struct disk_state *state)
{
    struct disk *disk = state->disk;
    guint next = 0;
    state->names = g_ptr_array_sized_new(disk->paths->len);
    g_ptr_array_set_size(state->names, (gint)disk->paths->len);
    memcpy(state->names->pdata, disk->durable_names->pdata, disk->paths->len * sizeof(gpointer));
    for (guint i = disk->durable_name_changes; i < disk->names->len; i++) {
        bool is_pending = next < state->pending->len && g_array_index(state->pending, guint, next) == i;
        if (!is_pending || state->are_made[next])
            make_name_change(state->names, name_at(disk, i));
        next += is_pending ? 1 : 0;
    }
}

static uint64_t full_size(const struct file_state *at)
{
    uint64_t size = at->file->base->len;
    for (guint i = 0; i < at->parts->len; i++) {
        const struct change *change = pending_at(at, i);
        if (change->bytes == NULL)
            size = change->offset;
        else
            size = MAX(size, change->offset + change->len);
    }
    return size;
}

static void make_bytes(struct file_state *at)
{
    guint last_made = 0; /* index of the last change that is made, plus 1; 0: none */
    at->bytes = g_byte_array_sized_new(at->file->base->len + BLOCK);
    g_byte_array_append(at->bytes, at->file->base->data, at->file->base->len);
    for (guint i = 0; i < at->parts->len; i++)
        if (part_at(at, i)->to > part_at(at, i)->from)
            last_made = i + 1;
    for (guint i = 0; i < at->parts->len; i++) {
        const struct change *change = pending_at(at, i);
        bool is_needed = change->bytes == NULL && i < last_made;
        make_change(at->bytes, change, is_needed ? whole_of(change) : *part_at(at, i));
    }
    if (at->is_full_size)
        set_size(at->bytes, full_size(at));
}

static void make_state(const struct disk_state *const_state)
{
    struct disk_state *state = (struct disk_state *)const_state;
    if (state->names != NULL)
        return;
    make_names(state);
    for (guint i = 0; i < state->files_len; i++)
        make_bytes(&state->files[i]);
}

static const GByteArray *bytes_of(const struct disk_state *state, const struct file *file)
{
    for (guint i = 0; i < state->files_len; i++)
        if (state->files[i].file == file)
            return state->files[i].bytes;
    return file->base;
}

static bool is_there(const struct disk_state *state, size_t path)
{
    struct disk *disk = state->disk;
    bool is_found = state->names->pdata[path] != NULL;
    for (size_t folder = folder_of(disk, path); is_found && folder != folder_of(disk, folder);
         folder = folder_of(disk, folder))
        is_found = state->names->pdata[folder] != NULL;
    return is_found;
}

uint64_t disk_state_hash(const struct disk_state *state)
{
    uint64_t sum = 0;
    make_state(state);
    for (guint i = 0; i < state->disk->files->len; i++)
        ((struct file *)state->disk->files->pdata[i])->first_path = 0;
    for (size_t i = 0; i < state->disk->paths->len; i++) {
        struct file *file = state->names->pdata[i];
        if (file == NULL || !is_there(state, i))
            continue;
        if (file->first_path == 0)
            file->first_path = i + 1;
        const GByteArray *bytes = bytes_of(state, file);
        uint64_t hash = bytes == file->base ? file->base_hash : mix(bytes->len, bytes->data, bytes->len);
        uint64_t words[] = {i, file->folder, hash, file->first_path};
        sum += mix(17, words, sizeof(words));
    }
    return sum;
}

/* ---------------------------------------------------------------- which states */

static void visit_state(struct disk_state *state, disk_visitor visit, void *context)
{
    visit(context, state);
    forget_made(state);
}

/* Sets the `index`th variant of a file's bytes: all changes made, none, and those between. Returns false
 * after the last one. */
static bool set_variant(struct file_state *at, guint index)
{
    guint len = at->parts->len;
    set_all_parts(at, true);
    if (index == 0)
        return true;
    set_all_parts(at, false);
    if (index == 1)
        return true;
    index -= 2;
    if (index == 0) {
        at->is_full_size = true;
        return true;
    }
    index--;
    if (index < len) { /* the change `index` is missing */
        set_all_parts(at, true);
        *part_at(at, index) = (struct part){0, 0};
        return true;
    }
    index -= len;
    if (index < len) { /* only one change is made */
        *part_at(at, index) = whole_of(pending_at(at, index));
        return true;
    }
    index -= len;
    for (guint i = 0; i < len; i++) { /* one change is cut, and all before it are made */
        const struct change *change = pending_at(at, i);
        size_t first = (change->offset / SECTOR + 1) * SECTOR - change->offset;
        size_t cuts =
            change->bytes == NULL || first >= change->len ? 0 : (change->len - first + SECTOR - 1) / SECTOR;
        size_t step = cuts > CUTS_MAX ? cuts / CUTS_MAX : 1;
        size_t count = (cuts + step - 1) / (step == 0 ? 1 : step);
        *part_at(at, i) = whole_of(change);
        if (index < count) {
            part_at(at, i)->to = first + index * step * SECTOR;
            return true;
        }
        index -= (guint)count;
    }
    return false;
}

static guint count_variants(struct file_state *at)
{
    guint count = 0;
    while (set_variant(at, count))
        count++;
    return count;
}

static void set_random_part(struct file_state *at, guint index, GRand *random, double likely)
{
    const struct change *change = pending_at(at, index);
    struct part *part = part_at(at, index);
    *part = g_rand_double(random) < likely ? whole_of(change) : (struct part){0, 0};
    if (change->bytes == NULL || change->len <= SECTOR || g_rand_boolean(random))
        return;
    size_t unit = g_rand_boolean(random) ? SECTOR : BLOCK;
    uint64_t cut = (change->offset + (uint64_t)g_rand_int(random) % change->len) / unit * unit;
    size_t at_cut = cut <= change->offset ? 0 : cut - change->offset;
    if (g_rand_boolean(random))
        *part = (struct part){0, at_cut};
    else
        *part = (struct part){at_cut, change->len};
}

static void set_random(struct disk_state *state, GRand *random)
{
    double likely = 0.15 + 0.7 * g_rand_double(random);
    for (guint i = 0; i < state->pending->len; i++)
        state->are_made[i] = g_rand_double(random) < likely;
    for (guint i = 0; i < state->files_len; i++) {
        struct file_state *at = &state->files[i];
        at->is_full_size = g_rand_int_range(random, 0, 4) == 0;
        for (guint j = 0; j < at->parts->len; j++)
            set_random_part(at, j, random, likely);
    }
}

/* Visits all states if they are few, else returns false. */
static bool visit_all(struct disk_state *state, disk_visitor visit, void *context)
{
    guint names = state->pending->len;
    guint variants[8];
    guint64 product = names < 7 ? UINT64_C(1) << names : EXHAUSTIVE_MAX + 1;
    for (guint i = 0; i < state->files_len; i++) {
        variants[i < 8 ? i : 7] = i < 8 ? count_variants(&state->files[i]) : 1;
        product *= i < 8 ? variants[i] : 1000;
        if (product > EXHAUSTIVE_MAX)
            return false;
    }
    if (product > EXHAUSTIVE_MAX)
        return false;
    for (guint64 n = 0; n < product; n++) {
        guint64 remaining = n;
        for (guint i = 0; i < names; i++, remaining /= 2)
            state->are_made[i] = remaining % 2 == 0;
        for (guint i = 0; i < state->files_len; i++) {
            set_variant(&state->files[i], (guint)(remaining % variants[i]));
            remaining /= variants[i];
        }
        visit_state(state, visit, context);
    }
    return true;
}

static void visit_around(struct disk_state *state, bool are_files_made, disk_visitor visit, void *context)
{
    for (guint i = 0; i < state->pending->len; i++)
        for (int is_made = 0; is_made < 2; is_made++) {
            set_all_files(state, are_files_made);
            set_all_names(state, is_made == 0);
            state->are_made[i] = is_made == 1;
            visit_state(state, visit, context);
        }
}

static void visit_ways(struct disk_state *state, disk_visitor visit, void *context)
{
    for (guint i = 0; i < state->files_len; i++)
        for (int are_others_made = 0; are_others_made < 2; are_others_made++) {
            set_all_names(state, true);
            set_all_files(state, are_others_made == 1);
            for (guint way = 0; set_variant(&state->files[i], way); way++)
                visit_state(state, visit, context);
        }
}

void disk_visit_states(struct disk *disk, uint64_t seed, disk_visitor visit, void *context)
{
    struct disk_state *state = state_new(disk);
    if (!visit_all(state, visit, context)) {
        GRand *random = g_rand_new_with_seed((guint32)seed);
        for (int i = 0; i < 4; i++) {
            set_all_names(state, i % 2 == 0);
            set_all_files(state, i < 2);
            visit_state(state, visit, context);
        }
        visit_around(state, true, visit, context);
        visit_around(state, false, visit, context);
        visit_ways(state, visit, context);
        for (int i = 0; i < RANDOM_STATES; i++) {
            set_random(state, random);
            visit_state(state, visit, context);
        }
        g_rand_free(random);
    }
    state_free(state);
}

void disk_visit_newest(struct disk *disk, disk_visitor visit, void *context)
{
    struct disk_state *state = state_new(disk);
    set_all_names(state, true);
    set_all_files(state, true);
    visit_state(state, visit, context);
    state_free(state);
}

/* ---------------------------------------------------------------- files of a state */

static int build_file(const struct disk_state *state, size_t path, int dir_fd, const char **first_path)
{
    struct file *file = state->names->pdata[path];
    const char *name = path_of(state->disk, path);
    if (*first_path != NULL)
        return linkat(dir_fd, *first_path, dir_fd, name, 0) == 0 ? 0 : -errno;
    *first_path = name;
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    const GByteArray *bytes = bytes_of(state, file);
    ssize_t written = bytes->len == 0 ? 0 : write(fd, bytes->data, bytes->len);
    int error = written == (ssize_t)bytes->len ? 0 : -EIO;
    close(fd);
    return error;
}

int disk_state_build(const struct disk_state *state, int dir_fd)
{
    int error = 0;
    make_state(state);
    GHashTable *built = g_hash_table_new(g_direct_hash, g_direct_equal); /* file -> its first path */
    for (int pass = 0; pass < 2; pass++) /* folders first, in the order of their paths */
        for (size_t i = 0; i < state->disk->paths->len && error == 0; i++) {
            struct file *file = state->names->pdata[i];
            if (file == NULL || !is_there(state, i) || (file->folder != 0) != (pass == 0))
                continue;
            const char *first = g_hash_table_lookup(built, file);
            if (pass == 0)
                error = mkdirat(dir_fd, path_of(state->disk, i), 0700) == 0 ? 0 : -errno;
            else
                error = build_file(state, i, dir_fd, &first);
            g_hash_table_insert(built, file, (gpointer)first);
        }
    g_hash_table_unref(built);
    return error;
}

static void describe_file(const struct disk_state *state, const struct file_state *at, FILE *to)
{
    const char *name = "(no name)";
    for (size_t i = 0; i < state->disk->paths->len; i++)
        if (state->names->pdata[i] == at->file)
            name = path_of(state->disk, i);
    if (strcmp(name, "(no name)") == 0)
        return;
    fprintf(to, "    %s: %u of %zu bytes%s", name, at->bytes->len, (size_t)full_size(at),
            at->is_full_size ? " (the size alone)" : "");
    for (guint i = 0; i < at->parts->len; i++) {
        const struct change *change = pending_at(at, i);
        struct part part = *part_at(at, i);
        if (change->bytes == NULL)
            fprintf(to, ", size %zu%s", (size_t)change->offset, part.to > 0 ? "" : " missing");
        else if (part.to <= part.from)
            fprintf(to, ", write at %zu of %zu missing", (size_t)change->offset, change->len);
        else if (part.to - part.from < change->len)
            fprintf(to, ", write at %zu of %zu: %zu to %zu alone", (size_t)change->offset, change->len,
                    part.from, part.to);
        else
            fprintf(to, ", write at %zu of %zu made", (size_t)change->offset, change->len);
    }
    fprintf(to, "\n");
}

void disk_state_describe(const struct disk_state *state, FILE *to)
{
    static const char *const words[] = {"has the name", "renamed", "exchanged", "removed"};
    make_state(state);
    for (guint i = 0; i < state->pending->len; i++) {
        const struct name_change *change = name_at(state->disk, g_array_index(state->pending, guint, i));
        bool has_two = change->kind == NAME_MOVE || change->kind == NAME_SWAP;
        fprintf(to, "    %s: %s %s%s%s\n", state->are_made[i] ? "made" : "missing", words[change->kind],
                has_two ? path_of(state->disk, change->from) : "", has_two ? " -> " : "",
                path_of(state->disk, change->path));
    }
    for (guint i = 0; i < state->files_len; i++)
        describe_file(state, &state->files[i], to);
}

int disk_state_compare(const struct disk_state *state, int dir_fd, FILE *to)
{
    make_state(state);
    for (size_t i = 0; i < state->disk->paths->len; i++) {
        struct file *file = state->names->pdata[i];
        const char *path = path_of(state->disk, i);
        struct stat status;
        bool is_here = fstatat(dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
        if (strcmp(path, ".") == 0)
            continue;
        if (is_here != (file != NULL && is_there(state, i))) {
            fprintf(to, "%s is %s\n", path, is_here ? "there, but not by the records" : "missing");
            return -ENOENT;
        }
        if (!is_here || file->folder != 0 || g_str_has_suffix(path, "-shm"))
            continue;
        const GByteArray *bytes = bytes_of(state, file);
        char *found = g_malloc((gsize)status.st_size + 1);
        int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd < 0 ? -1 : read(fd, found, (size_t)status.st_size);
        if (fd >= 0)
            close(fd);
        bool is_equal =
            len == (ssize_t)bytes->len && (len == 0 || memcmp(found, bytes->data, bytes->len) == 0);
        g_free(found);
        if (!is_equal) {
            fprintf(to, "%s has %zd bytes, by the records %u, or they differ\n", path, len, bytes->len);
            return -ENOENT;
        }
    }
    return 0;
}
