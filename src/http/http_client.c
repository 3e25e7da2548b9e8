/* SPDX-License-Identifier: MIT */
/*
 * The client: a stack of idle libcurl handles, each with the connection it used last. The handle used last
 * is taken first, so that few connections serve many requests and the others age out.
 */
#include "http/http_client.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "http/http_transfer.h"

enum {
    IDLE_SLOTS_MAX = 64,
    KEY_MAX_BYTES = 4096,
};

#define AUTHORIZATION "Authorization: Bearer "

struct http_slot {
    CURLM *multi;
    CURL *easy;
    struct http_slot *next;
};

struct http_client {
    struct http_target target;
    pthread_mutex_t lock;
    struct http_slot *idle; /* protected by lock */
    unsigned int idle_len;  /* protected by lock */
};

static void slot_free(struct http_slot *slot)
{
    if (slot == NULL)
        return;
    curl_easy_cleanup(slot->easy);
    curl_multi_cleanup(slot->multi);
    free(slot);
}

static struct http_slot *slot_new(void)
{
    struct http_slot *slot = calloc(1, sizeof(*slot));
    if (slot == NULL)
        return NULL;
    slot->multi = curl_multi_init();
    slot->easy = curl_easy_init();
    if (slot->multi == NULL || slot->easy == NULL) {
        slot_free(slot);
        return NULL;
    }
    curl_multi_setopt(slot->multi, CURLMOPT_MAXCONNECTS, 1L);
    return slot;
}

static struct http_slot *take_slot(struct http_client *client)
{
    pthread_mutex_lock(&client->lock);
    struct http_slot *slot = client->idle;
    if (slot != NULL) {
        client->idle = slot->next;
        client->idle_len--;
    }
    pthread_mutex_unlock(&client->lock);
    return slot != NULL ? slot : slot_new();
}

static void put_slot(struct http_client *client, struct http_slot *slot)
{
    pthread_mutex_lock(&client->lock);
    bool keeps = client->idle_len < IDLE_SLOTS_MAX;
    if (keeps) {
        slot->next = client->idle;
        client->idle = slot;
        client->idle_len++;
    }
    pthread_mutex_unlock(&client->lock);
    if (!keeps)
        slot_free(slot);
}

static bool is_printable(const char *text, size_t max_bytes)
{
    size_t len = 0;
    for (; text[len] != '\0'; len++) {
        if ((unsigned char)text[len] <= ' ' || text[len] == 0x7f)
            return false;
    }
    return len > 0 && len <= max_bytes;
}

static int copy_authorization(struct http_client *client, const char *api_key)
{
    if (api_key == NULL)
        return 0;
    if (!is_printable(api_key, KEY_MAX_BYTES))
        return -EINVAL;
    size_t size = sizeof(AUTHORIZATION) + strlen(api_key);
    client->target.authorization = malloc(size);
    if (client->target.authorization == NULL)
        return -ENOMEM;
    snprintf(client->target.authorization, size, "%s%s", AUTHORIZATION, api_key);
    return 0;
}

static int copy_config(struct http_client *client, const struct http_config *config)
{
    bool is_https = strncasecmp(config->base_url, "https://", 8) == 0;
    if (!is_https && strncasecmp(config->base_url, "http://", 7) != 0)
        return -EINVAL;
    if (!is_printable(config->base_url, SIZE_MAX))
        return -EINVAL;
    /* Plain HTTP goes to the own machine or to a network that the user trusts by name. A proxy named in the
     * environment would see the key; with https it sees a tunnel. */
    client->target.uses_proxy = is_https && config->unix_socket == NULL;
    client->target.base_url = strdup(config->base_url);
    if (client->target.base_url == NULL)
        return -ENOMEM;
    if (config->unix_socket != NULL) {
        client->target.unix_socket = strdup(config->unix_socket);
        if (client->target.unix_socket == NULL)
            return -ENOMEM;
    }
    return copy_authorization(client, config->api_key);
}

int http_client_new(const struct http_config *config, struct http_client **ret_client)
{
    struct http_client *client = calloc(1, sizeof(*client));
    if (client == NULL)
        return -ENOMEM;
    pthread_mutex_init(&client->lock, NULL);
    /* Counted by libcurl, and safe from several threads. */
    int rc = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? copy_config(client, config) : -ENOMEM;
    if (rc < 0) {
        http_client_free(client);
        return rc;
    }
    *ret_client = client;
    return 0;
}

void http_client_free(struct http_client *client)
{
    if (client == NULL)
        return;
    while (client->idle != NULL) {
        struct http_slot *slot = client->idle;
        client->idle = slot->next;
        slot_free(slot);
    }
    if (client->target.authorization != NULL)
        explicit_bzero(client->target.authorization, strlen(client->target.authorization));
    free(client->target.authorization);
    free(client->target.unix_socket);
    free(client->target.base_url);
    pthread_mutex_destroy(&client->lock);
    curl_global_cleanup();
    free(client);
}

void http_client_perform(struct http_client *client, const struct http_request *request,
                         struct http_response *ret)
{
    *ret = (struct http_response){.retry_after_ms = -1};
    struct http_slot *slot = take_slot(client);
    if (slot == NULL) {
        ret->error = -ENOMEM;
        snprintf(ret->words, sizeof(ret->words), "out of memory");
        return;
    }
    http_transfer_run(slot->multi, slot->easy, &client->target, request, ret);
    put_slot(client, slot);
}

void http_client_redact(const struct http_client *client, char *text, size_t len)
{
    if (client->target.authorization == NULL)
        return;
    const char *key = client->target.authorization + strlen(AUTHORIZATION);
    size_t key_len = strlen(key);
    for (char *hit = text; (hit = memmem(hit, len - (size_t)(hit - text), key, key_len)) != NULL;)
        memset(hit, '*', key_len);
}
