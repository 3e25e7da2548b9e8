/* SPDX-License-Identifier: MIT */
/*
 * Files that are only read: emails, index.jsonl, README, status.json, search notes, events.jsonl and the
 * stream `events`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tree/handle_type.h"
#include "tree/readme.h"
#include "tree/search_folder.h"

enum {
    FIRST_CONTENT_MAX_BYTES = 16 * 1024 /* nearly every record */
};

static bool is_for_reading(int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY && (flags & O_TRUNC) == 0;
}

static void free_handle(struct tree_handle *handle)
{
    free(handle);
}

/* Answers from a text that outlives the reply. */
static int answer_text(const char *text, size_t text_len, size_t len, off_t offset, struct tree_data *ret)
{
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= text_len)
        return 0;
    size_t rest = text_len - (size_t)offset;
    ret->bytes = text + offset;
    ret->len = len < rest ? len : rest;
    return 0;
}

/* ---------------------------------------------------------------- emails */

struct email_handle {
    struct tree_handle base;
    uint32_t number;
};

/* The record of this moment, not that of the open: the kernel keeps what it reads for every reader of the
 * file, so old text given to an old reader would be everybody's. */
static int read_email(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct email_handle *email = (struct email_handle *)handle;
    char *text;
    size_t text_len;
    int error = store_read_email(handle->tree->store, email->number, &text, &text_len);
    if (error != 0)
        return error;
    ret->owned = text;
    error = answer_text(text, text_len, len, offset, ret);
    if (error != 0)
        tree_data_release(ret);
    return error;
}

static bool take_first_content_of_email(struct tree_handle *handle, struct tree_data *ret)
{
    const struct email_handle *email = (struct email_handle *)handle;
    struct email_view view;
    if (!first_opens_take(&handle->tree->first_opens, email->number) ||
        !store_get_email(handle->tree->store, email->number, &view) ||
        view.json_len > FIRST_CONTENT_MAX_BYTES)
        return false;
    return read_email(handle, view.json_len, 0, ret) == 0;
}

int email_open(struct tree *tree, uint32_t number, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.caching = TREE_CACHE_LASTING,
                                          .read = read_email,
                                          .take_first_content = take_first_content_of_email,
                                          .release = free_handle};
    if (!is_for_reading(flags))
        return -EACCES;
    struct email_handle *email = handle_new(tree, &ops, sizeof(*email), flags);
    if (email == NULL)
        return -ENOMEM;
    email->number = number;
    *ret_handle = &email->base;
    return 0;
}

/* ---------------------------------------------------------------- index.jsonl */

struct index_handle {
    struct tree_handle base;
    struct store_index *index;
};

static int read_index(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct index_handle *index = (struct index_handle *)handle;
    if (offset < 0)
        return -EINVAL;
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ret->bytes = ret->owned;
    int error = store_index_read(index->index, (uint64_t)offset, ret->owned, len, &ret->len);
    if (error != 0)
        tree_data_release(ret);
    return error;
}

static void release_index(struct tree_handle *handle)
{
    store_index_free(((struct index_handle *)handle)->index);
    free(handle);
}

/* Not kept by the kernel: two readers who opened it before and after new mail each read their own, and lines
 * are put together faster than the kernel would have to find room for them. */
int inbox_index_open(struct tree *tree, uint32_t inbox, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE, .read = read_index, .release = release_index};
    if (!is_for_reading(flags))
        return -EACCES;
    struct index_handle *index = handle_new(tree, &ops, sizeof(*index), flags);
    if (index == NULL)
        return -ENOMEM;
    int error = store_index_new(tree->store, inbox, &index->index);
    if (error != 0) {
        free(index);
        return error;
    }
    *ret_handle = &index->base;
    return 0;
}

/* ---------------------------------------------------------------- README */

static int read_readme(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    (void)handle;
    return answer_text(readme_text(), strlen(readme_text()), len, offset, ret);
}

int readme_open(struct tree *tree, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_LASTING, .read = read_readme, .release = free_handle};
    if (!is_for_reading(flags))
        return -EACCES;
    *ret_handle = handle_new(tree, &ops, sizeof(**ret_handle), flags);
    return *ret_handle == NULL ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------- texts made when they are opened */

struct text_handle {
    struct tree_handle base;
    char *text;
    size_t len;
};

static int read_text(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct text_handle *text = (struct text_handle *)handle;
    return answer_text(text->text, text->len, len, offset, ret);
}

static void release_text(struct tree_handle *handle)
{
    free(((struct text_handle *)handle)->text);
    free(handle);
}

int text_open(struct tree *tree, int flags, char *text, size_t len, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.read = read_text, .release = release_text};
    _cleanup_free_ char *taken = text;
    if (!is_for_reading(flags))
        return -EACCES;
    struct text_handle *handle = text == NULL ? NULL : handle_new(tree, &ops, sizeof(*handle), flags);
    if (handle == NULL)
        return -ENOMEM;
    handle->text = TAKE_PTR(taken);
    handle->len = len;
    *ret_handle = &handle->base;
    return 0;
}

int status_open(struct tree *tree, int flags, struct tree_handle **ret_handle)
{
    char *text = NULL;
    size_t len = 0;
    int error = status_file_render(tree, &text, &len);
    return error != 0 ? error : text_open(tree, flags, text, len, ret_handle);
}

int search_note_open(struct tree *tree, uint64_t ino, int flags, struct tree_handle **ret_handle)
{
    char *text = NULL;
    size_t len = 0;
    int error = search_note_read(tree, ino, &text, &len);
    return error != 0 ? error : text_open(tree, flags, text, len, ret_handle);
}

/* ---------------------------------------------------------------- events.jsonl */

struct log_handle {
    struct tree_handle base;
    uint64_t begin; /* its position in the log */
};

static int read_event_log(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    uint64_t begin = ((const struct log_handle *)handle)->begin;
    size_t size = event_log_size(handle->tree->event_log, begin);
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= size)
        return 0;
    if (len > size - (size_t)offset)
        len = size - (size_t)offset;
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ret->bytes = ret->owned;
    ret->len = event_log_read(handle->tree->event_log, begin, ret->owned, len, offset);
    return 0;
}

int event_log_open(struct tree *tree, uint64_t begin, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.read = read_event_log, .release = free_handle};
    if (!is_for_reading(flags))
        return -EACCES;
    struct log_handle *log = handle_new(tree, &ops, sizeof(*log), flags);
    if (log == NULL)
        return -ENOMEM;
    log->begin = begin;
    *ret_handle = &log->base;
    return 0;
}

/* ---------------------------------------------------------------- events */

enum {
    STREAM_READ_MAX_BYTES = 64 * 1024
};

struct stream_handle {
    struct tree_handle base;
    uint64_t position; /* in the event log; the reader's, who is alone */
};

static int read_stream(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct stream_handle *stream = (struct stream_handle *)handle;
    (void)offset;
    if (len > STREAM_READ_MAX_BYTES)
        len = STREAM_READ_MAX_BYTES;
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ret->bytes = ret->owned;
    ret->len = event_log_follow(handle->tree->event_log, &stream->position, ret->owned, len);
    return 0;
}

static bool is_stream_readable(struct tree_handle *handle)
{
    const struct stream_handle *stream = (struct stream_handle *)handle;
    return stream->position < event_log_end(handle->tree->event_log);
}

int event_stream_open(struct tree *tree, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_STREAM,
        .read = read_stream,
        .is_readable = is_stream_readable,
        .release = free_handle,
    };
    if (!is_for_reading(flags))
        return -EACCES;
    struct stream_handle *stream = handle_new(tree, &ops, sizeof(*stream), flags);
    if (stream == NULL)
        return -ENOMEM;
    stream->position = event_log_end(tree->event_log);
    *ret_handle = &stream->base;
    return 0;
}
