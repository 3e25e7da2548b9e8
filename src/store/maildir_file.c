/* SPDX-License-Identifier: MIT */
/*
 * Loading, and writing anew.
 */
#include "store/maildir_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "store/maildir_frame.h"

static const char log_name[] = "maildir";
static const char compact_name[] = "maildir.compact";

enum {
    WASTE_ALLOWED_BYTES = 1024 * 1024
};

/* ---------------------------------------------------------------- boxes */

void maildir_boxes_release(struct maildir_boxes *boxes)
{
    for (uint32_t i = 0; i < boxes->len; i++)
        maildir_box_free(boxes->items[i]);
    free(boxes->items);
    *boxes = (struct maildir_boxes){0};
}

struct maildir_box *maildir_boxes_find(const struct maildir_boxes *boxes, const char *id)
{
    for (uint32_t i = 0; i < boxes->len; i++)
        if (boxes->items[i] != NULL && strcmp(boxes->items[i]->id, id) == 0)
            return boxes->items[i];
    return NULL;
}

int maildir_boxes_reserve(struct maildir_boxes *boxes, uint32_t number)
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

void maildir_boxes_add(struct maildir_boxes *boxes, struct maildir_box *box)
{
    while (boxes->len <= box->number)
        boxes->items[boxes->len++] = NULL;
    boxes->items[box->number] = box;
}

/* ---------------------------------------------------------------- loading */

static int load_box(struct maildir_boxes *boxes, const void *payload, size_t len)
{
    const char *id;
    const struct maildir_box_frame *frame = maildir_frame_read_box(payload, len, &id);
    if (frame == NULL || maildir_boxes_find(boxes, id) != NULL ||
        (frame->number < boxes->len && boxes->items[frame->number] != NULL))
        return 0;
    if (maildir_boxes_reserve(boxes, frame->number) != 0)
        return -ENOMEM;
    struct maildir_box *box = maildir_box_new(frame->number, frame->uidvalidity, id);
    if (box == NULL)
        return -ENOMEM;
    memcpy(box->changed_ns, frame->changed_ns, sizeof(box->changed_ns));
    maildir_boxes_add(boxes, box);
    return 0;
}

static void load_times(struct maildir_box *box, const struct maildir_mail_frame *frame)
{
    static const uint32_t bits[MAILDIR_FOLDERS] = {
        [MAILDIR_NEW] = MAILDIR_FRAME_CHANGED_NEW, [MAILDIR_CUR] = MAILDIR_FRAME_CHANGED_CUR};
    for (int i = 0; i < MAILDIR_FOLDERS; i++)
        if ((frame->bits & bits[i]) != 0 && frame->changed_ns > box->changed_ns[i])
            box->changed_ns[i] = frame->changed_ns;
}

/* What contradicts what was read before is passed over. */
static int load_mail(const struct maildir_boxes *boxes, const void *payload, size_t len)
{
    struct maildir_mail mail;
    const struct maildir_mail_frame *frame = maildir_frame_read_mail(payload, len, &mail);
    struct maildir_box *box = frame == NULL || frame->box >= boxes->len ? NULL : boxes->items[frame->box];
    if (box == NULL)
        return 0;
    int error = maildir_box_put(box, &mail);
    if (error == 0)
        load_times(box, frame);
    return error == -ENOMEM ? error : 0;
}

static int load_frame(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    (void)position;
    if (kind == MAILDIR_FRAME_BOX)
        return load_box(context, payload, len);
    return kind == MAILDIR_FRAME_MAIL ? load_mail(context, payload, len) : 0;
}

/* ---------------------------------------------------------------- writing anew */

static int visit_nothing(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    (void)context, (void)kind, (void)payload, (void)len, (void)position;
    return 0;
}

static int append_box(struct record_log *log, struct record_batch *batch, const struct maildir_box *box)
{
    record_batch_clear(batch);
    int error = maildir_frame_add_box(batch, box);
    for (uint32_t i = 0; error == 0 && i < box->len; i++)
        if (box->mails[i].uid != 0)
            error = maildir_frame_add_mail(batch, box, &box->mails[i], 0, 0);
    return error != 0 ? error : record_log_append_durably(log, batch);
}

static int write_boxes(const struct maildir_boxes *boxes, int dir_fd, struct record_log *log)
{
    struct record_batch batch = {0};
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < boxes->len; i++)
        if (boxes->items[i] != NULL)
            error = append_box(log, &batch, boxes->items[i]);
    record_batch_release(&batch);
    if (error == 0 && renameat(dir_fd, compact_name, dir_fd, log_name) != 0)
        error = -errno;
    if (error == 0 && file_sync(dir_fd) != 0) /* it has the name all the same: the other one has none */
        log_warning("the state file %s may not be kept", log_name);
    return error;
}

/* What cannot be written stays as it is. */
static void write_anew(const struct maildir_boxes *boxes, int dir_fd, struct record_log **log)
{
    struct record_log *anew;
    unlinkat(dir_fd, compact_name, 0);
    if (record_log_open(dir_fd, compact_name, visit_nothing, NULL, &anew) != 0)
        return;
    if (write_boxes(boxes, dir_fd, anew) == 0) {
        struct record_log *before = *log;
        *log = anew;
        anew = before;
    }
    record_log_free(anew);
}

static bool is_wasteful(const struct maildir_boxes *boxes, const struct record_log *log)
{
    uint64_t counting = 0;
    for (uint32_t i = 0; i < boxes->len; i++)
        if (boxes->items[i] != NULL)
            counting += boxes->items[i]->len * record_log_frame_bytes(sizeof(struct maildir_mail_frame));
    return record_log_bytes(log) > 2 * counting + WASTE_ALLOWED_BYTES;
}

int maildir_file_open(int dir_fd, struct maildir_boxes *boxes, struct record_log **ret_log)
{
    struct record_log *log;
    int error = record_log_open(dir_fd, log_name, load_frame, boxes, &log);
    if (error != 0)
        return error;
    if (is_wasteful(boxes, log))
        write_anew(boxes, dir_fd, &log);
    *ret_log = log;
    return 0;
}
