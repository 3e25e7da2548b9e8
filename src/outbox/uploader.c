/* SPDX-License-Identifier: MIT */
/*
 * Uploads. One that ends unknown is simply made again: a file twice in the pool does no harm.
 */
#include "outbox/uploader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "mail/draft.h"
#include "outbox/attempt.h"
#include "outbox/core.h"
#include "outbox/settle.h"

enum {
    LOOK_BYTES = 64 * 1024 /* what libmagic gets to see */
};

static unsigned int count_touches(struct outbox *outbox, const struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    unsigned int touches = item->touches;
    pthread_mutex_unlock(&outbox->lock);
    return touches;
}

static int open_content(struct outbox *outbox, const struct item *item, struct content_type *type,
                        struct upload_request *ret_request, char ret_type[CONTENT_TYPE_SIZE],
                        struct stat *ret_status)
{
    _cleanup_close_ int fd = -1;
    int error = spool_open_data(outbox->spool, item->number, O_RDONLY, &fd);
    if (error == 0 && fstat(fd, ret_status) != 0)
        error = -errno;
    if (error != 0)
        return error;
    _cleanup_free_ char *beginning = malloc(LOOK_BYTES);
    ssize_t looked = beginning == NULL ? -ENOMEM : file_pread_all(fd, beginning, LOOK_BYTES, 0);
    if (looked < 0)
        return (int)looked;
    content_type_find(type, item->envelope.name, beginning, (size_t)looked, ret_type);
    *ret_request = (struct upload_request){
        .name = item->envelope.name,
        .content_type = ret_type,
        .fd = TAKE_FD(fd),
        .len = (size_t)ret_status->st_size,
    };
    return 0;
}

/* The claim keeps everybody of this program from it. Whoever else writes into the spool may not make the
 * service take half of one content and half of another for uploaded. Times say nothing where they were set by
 * a user, as programs that copy do when they have closed the file. */
static bool has_changed(int fd, const struct stat *before, bool was_touched)
{
    struct stat now;
    if (fstat(fd, &now) != 0 || now.st_size != before->st_size)
        return true;
    return !was_touched &&
           (now.st_mtim.tv_sec != before->st_mtim.tv_sec || now.st_mtim.tv_nsec != before->st_mtim.tv_nsec);
}

static void settle(struct outbox *outbox, struct item *item, const struct service_result *result,
                   const char *id, struct cancel *cancel)
{
    enum attempt_meaning meaning = attempt_report(outbox, item, result, cancel);
    if (result->outcome == SERVICE_UNKNOWN || result->error == EINTR)
        attempt_put_off(outbox, item, result->retry_after_ms);
    if (meaning == ATTEMPT_TAKEN && id != NULL)
        settle_uploaded(outbox, item, result->http_status, id);
    else if (meaning == ATTEMPT_TAKEN)
        settle_failed(outbox, item, ITEM_FAILED, result->http_status,
                      "the service took the file, but gave it no id");
    else if (meaning == ATTEMPT_REFUSED)
        settle_failed(outbox, item, ITEM_FAILED, result->http_status, result->detail);
    else
        settle_later(outbox, item, result->http_status, result->detail);
}

void uploader_run(struct outbox *outbox, struct item *item, struct content_type *type, struct cancel *cancel)
{
    struct mail_service *service = outbox->config.service;
    struct service_result result = {.retry_after_ms = -1};
    char content_type[CONTENT_TYPE_SIZE];
    struct upload_request request;
    struct stat status;
    _cleanup_free_ char *id = NULL;

    unsigned int touches = count_touches(outbox, item);
    int error = open_content(outbox, item, type, &request, content_type, &status);
    if (error != 0) {
        attempt_put_off(outbox, item, 0);
        settle_later(outbox, item, 0, strerror(-error));
        return;
    }
    service->ops->upload(service, &request, cancel, &id, &result);
    crash_point("upload_answered");
    bool was_touched = count_touches(outbox, item) != touches;
    if (result.outcome == SERVICE_OK && has_changed(request.fd, &status, was_touched)) {
        result.outcome = SERVICE_UNKNOWN;
        result.error = EIO;
        result.detail = strdup("the file changed while it was uploaded");
    }
    close(request.fd);
    settle(outbox, item, &result, id, cancel);
    service_result_release(&result);
}
