/* SPDX-License-Identifier: MIT */
#include "cut_recovery.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "mail/mail_service.h"
#include "mail/receipt.h"
#include "outbox/outbox.h"

enum {
    FILE_MAX = 16 * 1024 * 1024,
    SETTLE_S = 8,
};

/* ---------------------------------------------------------------- tokens */

static uint32_t checksum(const char *bytes, size_t len)
{
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++) {
            table[i] = i;
            for (int bit = 0; bit < 8; bit++)
                table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? UINT32_C(0xEDB88320) : 0);
        }
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < len; i++)
        sum = (sum >> 8) ^ table[(sum ^ (unsigned char)bytes[i]) & 255];
    return ~sum;
}

static void token_clear(gpointer data)
{
    g_free(((struct token *)data)->name);
}

/* Returns true if the text from `begin` has the end that belongs to this token. */
static bool is_whole(const char *begin, size_t len, const char *name)
{
    char wanted[80];
    char *ending = g_strdup_printf("\nend %s ", name);
    const char *end = memmem(begin, len, ending, strlen(ending));
    size_t ending_len = strlen(ending);
    g_free(ending);
    if (end == NULL || (size_t)(begin + len - end) < ending_len + 8)
        return false;
    g_snprintf(wanted, sizeof(wanted), "%08x", checksum(begin, (size_t)(end + 1 - begin)));
    return memcmp(end + ending_len, wanted, 8) == 0;
}

static void find_in_text(const char *text, size_t len, GArray *tokens)
{
    static const char word[] = "begin ";
    const char *end = text + len;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, strlen(word))) != NULL; at++) {
        if (at != text && at[-1] != '\n')
            continue;
        const char *name = at + strlen(word);
        size_t name_len = 0;
        while (name + name_len < end && g_ascii_isalnum(name[name_len]))
            name_len++;
        if (name_len == 0 || name_len > 30)
            continue;
        struct token token = {.name = g_strndup(name, name_len)};
        token.is_whole = is_whole(at, (size_t)(end - at), token.name);
        g_array_append_val(tokens, token);
    }
}

GArray *tokens_find(const char *text, size_t len)
{
    GArray *tokens = g_array_new(FALSE, FALSE, sizeof(struct token));
    g_array_set_clear_func(tokens, token_clear);
    json_t *object = len > 0 && text[0] == '{' ? json_loadb(text, len, 0, NULL) : NULL;
    const char *plain = json_string_value(json_object_get(object, "plain_text"));
    if (plain != NULL)
        find_in_text(plain, strlen(plain), tokens);
    else
        find_in_text(text, len, tokens);
    json_decref(object);
    return tokens;
}

/* ---------------------------------------------------------------- a service that accepts everything */

struct service {
    struct mail_service base; /* must be first: the outbox has a pointer to it */
    pthread_mutex_t lock;
    GArray *sent; /* this and the following fields are protected by lock */
    guint ids;
};

static void succeed(struct service_result *ret)
{
    *ret = (struct service_result){.outcome = SERVICE_OK, .http_status = 200, .retry_after_ms = -1};
}

static void lack(struct service_result *ret)
{
    *ret = (struct service_result){
        .outcome = SERVICE_ABSENT, .http_status = 404, .error = ENOSYS, .retry_after_ms = -1};
}

static void list_emails(struct mail_service *service, const struct email_query *query, email_sink sink,
                        void *context, struct cancel *cancel, unsigned int *ret_count,
                        struct service_result *ret)
{
    *ret_count = 0;
    succeed(ret);
}

static void list_outbound(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret)
{
    list_emails(service, query, sink, context, cancel, ret_count, ret);
    lack(ret);
}

static void list_inboxes(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                         struct service_result *ret)
{
    lack(ret);
}

/* The id contains what was uploaded: pool-TOKEN-whole or pool-TOKEN-half. */
static void upload(struct mail_service *service, const struct upload_request *request, struct cancel *cancel,
                   char **ret_id, struct service_result *ret)
{
    GArray *tokens = tokens_find(request->bytes, request->len);
    const struct token *token =
        tokens->len == 0 ? NULL : &g_array_index(tokens, struct token, tokens->len - 1);
    char *id = g_strdup_printf("pool-%s-%s", token == NULL ? "none" : token->name,
                               token != NULL && token->is_whole ? "whole" : "half");
    *ret_id = strdup(id);
    g_free(id);
    g_array_unref(tokens);
    succeed(ret);
}

static void send_message(struct mail_service *base, const struct send_request *request, struct cancel *cancel,
                         char **ret_id, struct service_result *ret)
{
    struct service *service = (struct service *)base;
    char id[40];
    pthread_mutex_lock(&service->lock);
    struct sent sent = {.key = g_strdup(request->idempotency_key), .request = g_strdup(request->json)};
    g_array_append_val(service->sent, sent);
    g_snprintf(id, sizeof(id), "after-%u", ++service->ids);
    pthread_mutex_unlock(&service->lock);
    *ret_id = strdup(id);
    succeed(ret);
}

static void get_capabilities(struct mail_service *service, struct service_capabilities *ret)
{
    *ret = (struct service_capabilities){.inbox_list = CAPABILITY_ABSENT};
}

static void get_counters(struct mail_service *service, struct service_counters *ret)
{
    *ret = (struct service_counters){.requests = 0};
}

static const struct mail_service_ops service_ops = {
    .list_inboxes = list_inboxes,
    .list_emails = list_emails,
    .list_outbound = list_outbound,
    .upload = upload,
    .send = send_message,
    .get_capabilities = get_capabilities,
    .get_counters = get_counters,
};

static int find_sender(void *context, const char *address, char **ret_address)
{
    *ret_address = strdup(address == NULL ? "alice@inbox.localhost" : address);
    return *ret_address == NULL ? -ENOMEM : 0;
}

static void ignore_event(void *context, const struct event *event)
{
}

/* ---------------------------------------------------------------- files after recovery */

static const char *const folder_names[OUTBOX_FOLDERS] = {
    [OUTBOX_FOLDER_OUTBOX] = "outbox",
    [OUTBOX_FOLDER_SENT] = "sent",
    [OUTBOX_FOLDER_FAILED] = "failed",
    [OUTBOX_FOLDER_ATTACHMENTS] = "attachments",
};

/* Returns the content, which the caller frees; NULL if it cannot be read. */
static char *read_item(struct outbox *outbox, const struct outbox_stat *stat, size_t *ret_len)
{
    struct outbox_handle *handle = NULL;
    if (stat->aspect == OUTBOX_RECEIPT) {
        _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(RECEIPT_MAX_BYTES);
        int error = outbox_read_receipt(outbox, stat->number, &receipt);
        return error == 0 ? strbuf_take(&receipt, ret_len) : NULL;
    }
    if (outbox_open_item(outbox, stat->number, O_RDONLY, 0, &handle) != 0)
        return NULL;
    char *bytes = g_malloc0((gsize)stat->size + 1);
    ssize_t len = outbox_read(handle, bytes, (size_t)stat->size, 0);
    outbox_release(handle);
    *ret_len = len < 0 ? 0 : (size_t)len;
    return bytes;
}

static void found_file_clear(gpointer data)
{
    struct found_file *file = data;
    g_free(file->token);
    g_free(file->folder);
    g_free(file->name);
    g_free(file->state);
    g_free(file->error);
}

/* Records the attachments in a file and, as one whole, its other texts, under the token of the last one. */
static void note_tokens(struct recovered *recovered, const char *bytes, size_t len,
                        const struct found_file *as)
{
    GArray *tokens = tokens_find(bytes, len);
    guint last = 0;
    bool is_message_whole = true;
    for (guint i = 0; i < tokens->len; i++) {
        const struct token *token = &g_array_index(tokens, struct token, i);
        if (token->name[0] == 'A')
            continue;
        last = i;
        is_message_whole = is_message_whole && token->is_whole;
    }
    for (guint i = 0; i < tokens->len; i++) {
        const struct token *token = &g_array_index(tokens, struct token, i);
        if (token->name[0] != 'A' && i != last)
            continue;
        struct found_file file = {.token = g_strdup(token->name),
                                  .is_whole =
                                      i == last ? is_message_whole && token->is_whole : token->is_whole,
                                  .folder = g_strdup(as->folder),
                                  .name = g_strdup(as->name),
                                  .state = g_strdup(as->state),
                                  .error = g_strdup(as->error)};
        g_array_append_val(recovered->files, file);
    }
    g_array_unref(tokens);
}

static void note_item(struct recovered *recovered, struct outbox *outbox, enum outbox_folder folder,
                      const struct outbox_entry *entry)
{
    size_t len = 0;
    char *bytes = read_item(outbox, &entry->stat, &len);
    struct outbox_stat receipt;
    struct found_file as = {.folder = (char *)folder_names[folder], .name = entry->name};
    json_t *object = NULL;
    size_t receipt_len = 0;
    bool is_failed = folder == OUTBOX_FOLDER_FAILED;
    if (is_failed && outbox_get(outbox, entry->stat.number, OUTBOX_RECEIPT, &receipt)) {
        char *text = read_item(outbox, &receipt, &receipt_len);
        object = text == NULL ? NULL : json_loadb(text, receipt_len, 0, NULL);
        g_free(text);
        as.state = (char *)json_string_value(json_object_get(object, "state"));
        as.error = (char *)json_string_value(json_object_get(object, "error"));
    }
    if (bytes != NULL)
        note_tokens(recovered, bytes, len, &as);
    json_decref(object);
    g_free(bytes);
}

static void note_folder(struct recovered *recovered, struct outbox *outbox, enum outbox_folder folder)
{
    struct outbox_listing listing;
    outbox_list(outbox, folder, &listing);
    for (size_t i = 0; i < listing.len; i++)
        if (listing.entries[i].stat.aspect == OUTBOX_CONTENT)
            note_item(recovered, outbox, folder, &listing.entries[i]);
    outbox_listing_release(&listing);
}

static void note_files(struct recovered *recovered, int state_fd, const char *path, const char *folder)
{
    _cleanup_closedir_ DIR *dir = file_opendirat(state_fd, path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char *bytes = NULL;
        size_t len;
        struct found_file as = {.folder = (char *)folder, .name = entry->d_name};
        if (entry->d_type == DT_REG && file_read_at(dirfd(dir), entry->d_name, FILE_MAX, &bytes, &len) == 0)
            note_tokens(recovered, bytes, len, &as);
        free(bytes);
    }
}

/* ---------------------------------------------------------------- recovery */

static bool settle_folder(struct outbox *outbox, enum outbox_folder folder)
{
    int64_t until_ms = clock_monotonic_ms(clock_system()) + SETTLE_S * 1000;
    int error;
    while ((error = outbox_wait_settled(outbox, folder, 0, NULL)) == -EAGAIN) {
        if (clock_monotonic_ms(clock_system()) > until_ms)
            return false;
        outbox_retry(outbox, NULL);
        usleep(1000);
    }
    return error == 0 || error == -EIO;
}

static bool run_outbox(struct recovered *recovered, struct outbox_config *config, bool is_last)
{
    struct outbox *outbox = NULL;
    char *reason = NULL;
    int error = outbox_open(config, &outbox, &reason);
    if (error != 0) {
        recovered->failure = g_strdup_printf("it cannot be opened: %s (%s)", strerror(-error),
                                             reason == NULL ? "no words" : reason);
        free(reason);
        return false;
    }
    error = outbox_start(outbox);
    bool is_settled = error == 0 && settle_folder(outbox, OUTBOX_FOLDER_ATTACHMENTS) &&
                      settle_folder(outbox, OUTBOX_FOLDER_OUTBOX);
    for (int folder = 0; is_settled && is_last && folder < OUTBOX_FOLDERS; folder++)
        note_folder(recovered, outbox, (enum outbox_folder)folder);
    outbox_stop(outbox);
    outbox_free(outbox);
    if (!is_settled)
        recovered->failure = g_strdup("it does not settle");
    return is_settled;
}

static void sent_clear(gpointer data)
{
    struct sent *sent = data;
    g_free(sent->key);
    g_free(sent->request);
}

struct recovered *recover(const char *path, bool is_trusted, bool is_opened_again)
{
    struct recovered *recovered = g_new0(struct recovered, 1);
    struct service service = {.base.ops = &service_ops};
    _cleanup_close_ int state_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    recovered->files = g_array_new(FALSE, FALSE, sizeof(struct found_file));
    recovered->sent = service.sent = g_array_new(FALSE, FALSE, sizeof(struct sent));
    g_array_set_clear_func(recovered->files, found_file_clear);
    g_array_set_clear_func(recovered->sent, sent_clear);
    pthread_mutex_init(&service.lock, NULL);
    struct outbox_config config = {
        .service = &service.base,
        .clock = clock_system(),
        .state_dir_fd = state_fd,
        .senders = {find_sender, NULL},
        .trusts_idempotency = is_trusted,
        .daily_limit = -1,
        .events = {ignore_event, NULL},
    };
    if (state_fd < 0) {
        recovered->failure = g_strdup("the state directory is not there");
    } else if (run_outbox(recovered, &config, !is_opened_again)) {
        guint sent = service.sent->len;
        if (is_opened_again)
            run_outbox(recovered, &config, true);
        recovered->sent_at_end = service.sent->len - sent;
        note_files(recovered, state_fd, "drafts", "drafts");
        note_files(recovered, state_fd, "spool/quarantine", "quarantine");
    }
    pthread_mutex_destroy(&service.lock);
    return recovered;
}

void recovered_free(struct recovered *recovered)
{
    if (recovered == NULL)
        return;
    g_array_unref(recovered->files);
    g_array_unref(recovered->sent);
    g_free(recovered->failure);
    g_free(recovered);
}
