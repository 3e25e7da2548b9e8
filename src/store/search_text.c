/* SPDX-License-Identifier: MIT */
/*
 * Texts for the index.
 */
#include "store/search_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/strbuf.h"

static const char body_name[] = "body.txt";

static void append_body(struct strbuf *text, const struct store_content *content)
{
    const struct content_entry *body = content_folder_find(&content->folder, CONTENT_TEXT, body_name);
    if (body == NULL)
        return;
    size_t len = body->len < SEARCH_BODY_MAX_BYTES ? body->len : (size_t)SEARCH_BODY_MAX_BYTES;
    _cleanup_free_ char *bytes = malloc(len + 1);
    if (bytes == NULL || file_pread_all(content->fd, bytes, len, (off_t)body->offset) != (ssize_t)len)
        return;
    strbuf_append(text, bytes, len);
}

void search_text_note(struct search_feed *feed, const struct store_content *content)
{
    if (!search_feed_wants_text(feed, content->email))
        return;
    /* Names first: a long body is cut. */
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * SEARCH_BODY_MAX_BYTES);
    for (size_t i = 0; i < content->folder.len; i++)
        if (content->folder.entries[i].kind == CONTENT_ATTACHMENT)
            strbuf_appendf(&text, "%s\n", content->folder.entries[i].name);
    append_body(&text, content);
    search_feed_add_text(feed, content->email, strbuf_str(&text), text.len);
}
