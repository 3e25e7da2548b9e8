/* SPDX-License-Identifier: MIT */
/*
 * The mail_service made of the endpoints.
 */
#include "api/api_service.h"

#include <errno.h>

#include "api/api_call.h"
#include "api/endpoints.h"
#include "base/cleanup.h"

static void get_capabilities(struct mail_service *service, struct service_capabilities *ret)
{
    *ret = capability_memory_get(&api_service_of(service)->memory);
}

static void get_counters(struct mail_service *service, struct service_counters *ret)
{
    struct api_service *api = api_service_of(service);
    *ret = (struct service_counters){
        .requests = atomic_load(&api->requests),
        .failures = atomic_load(&api->failures),
        .received_bytes = atomic_load(&api->received_bytes),
        .sent_bytes = atomic_load(&api->sent_bytes),
    };
}

static const struct mail_service_ops api_ops = {
    .list_inboxes = inboxes_list,
    .list_emails = emails_list,
    .upsert_inbox = inboxes_upsert,
    .upload = attachments_upload,
    .send = send_email,
    .list_outbound = emails_list_outbound,
    .get_content = content_get,
    .get_attachment = content_get_attachment,
    .get_raw = content_get_raw,
    .mark_email = marks_set,
    .get_capabilities = get_capabilities,
    .get_counters = get_counters,
};

int api_service_new(const struct api_config *config, struct mail_service **ret_service)
{
    _cleanup_free_ char *base = NULL;
    _cleanup_free_ char *reason = NULL;
    int rc = api_base_url_check(config->base_url, true, &base, &reason);
    if (rc < 0)
        return rc;
    struct api_service *api = calloc(1, sizeof(*api));
    if (api == NULL)
        return -ENOMEM;
    const struct http_config http = {
        .base_url = base, .unix_socket = config->unix_socket, .api_key = config->api_key};
    rc = http_client_new(&http, &api->http);
    if (rc < 0) {
        free(api);
        return rc;
    }
    api->service.ops = &api_ops;
    capability_memory_init(&api->memory, clock_system(), &config->known);
    etag_memory_init(&api->etags);
    *ret_service = &api->service;
    return 0;
}

void api_service_free(struct mail_service *service)
{
    if (service == NULL)
        return;
    struct api_service *api = api_service_of(service);
    http_client_free(api->http);
    etag_memory_release(&api->etags);
    capability_memory_release(&api->memory);
    free(api);
}
