/* SPDX-License-Identifier: MIT */
/*
 * Uploads to the attachment pool over HTTP.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "mail/draft.h"
#include "service/endpoints.h"
#include "service/multipart.h"
#include "service/pool.h"

static void reply_bad_form(struct reply *reply, int error)
{
    json_t *problem = json_pack("{s:[s, s], s:s, s:s}", "loc", "body", "file", "msg",
                                error == -ENOENT   ? "Field required"
                                : error == -EINVAL ? "The file's name is not usable"
                                                   : "The form is not well-formed",
                                "type", error == -ENOENT ? "missing" : "value_error");
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:[o]}", "detail", problem));
}

static int store(const struct request *request, const char *body, struct reply *reply)
{
    struct multipart_file file = {0};
    int error = multipart_find_file(request_header(request, MHD_HTTP_HEADER_CONTENT_TYPE), body,
                                    request->body_len, "file", &file);
    if (error == -ENOENT || error == -EINVAL || error == -EBADMSG) {
        reply_bad_form(reply, error);
        return 0;
    }
    if (error != 0)
        return error;
    char id[37];
    if (file.len > ATTACHMENTS_MAX_BYTES) {
        reply_error(reply, MHD_HTTP_CONTENT_TOO_LARGE, "The file is over 10,000,000 bytes.");
    } else {
        error = pool_add(request->account, file.name, file.content_type, file.bytes, file.len, id);
        if (error == 0)
            reply_json(reply, MHD_HTTP_OK, json_pack("{s:s}", "id", id));
    }
    multipart_file_release(&file);
    return error;
}

int endpoint_pool_add(struct request *request, struct reply *reply)
{
    if (request->body_len == 0) {
        reply_bad_form(reply, -ENOENT);
        return 0;
    }
    void *body = mmap(NULL, request->body_len, PROT_READ, MAP_PRIVATE, request->body_fd, 0);
    if (body == MAP_FAILED)
        return -errno;
    int error = store(request, body, reply);
    munmap(body, request->body_len);
    return error;
}
