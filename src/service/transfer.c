/* SPDX-License-Identifier: MIT */
#include "service/transfer.h"

static int on_ready(void *context, char *server_address, char *own_address, int server_port, int own_port)
{
    (void)server_address, (void)own_address, (void)server_port, (void)own_port;
    ((struct transfer *)context)->has_begun = true;
    return CURL_PREREQFUNC_OK;
}

/* libcurl calls this at least once a second, even while it waits. */
static int on_progress(void *context, curl_off_t download_total, curl_off_t download_now,
                       curl_off_t upload_total, curl_off_t upload_now)
{
    (void)download_total, (void)download_now, (void)upload_total, (void)upload_now;
    struct transfer *transfer = context;
    if (!cancel_is_set(transfer->cancel))
        return 0;
    int64_t now = clock_monotonic_ms(clock_system());
    if (transfer->give_up_ms == 0)
        transfer->give_up_ms = now + transfer->ending_ms;
    return now >= transfer->give_up_ms;
}

void transfer_init(struct transfer *transfer, struct cancel *cancel, long connect_timeout_s, long timeout_s)
{
    *transfer = (struct transfer){.easy = curl_easy_init(), .cancel = cancel};
    if (transfer->easy == NULL)
        transfer->result = CURLE_OUT_OF_MEMORY;
    TRANSFER_SET(transfer, CURLOPT_PROXY, "");
    TRANSFER_SET(transfer, CURLOPT_SSL_VERIFYPEER, 1L);
    TRANSFER_SET(transfer, CURLOPT_SSL_VERIFYHOST, 2L);
    TRANSFER_SET(transfer, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    TRANSFER_SET(transfer, CURLOPT_NOSIGNAL, 1L);
    TRANSFER_SET(transfer, CURLOPT_QUICK_EXIT, 1L);
    TRANSFER_SET(transfer, CURLOPT_FORBID_REUSE, 1L);
    TRANSFER_SET(transfer, CURLOPT_CONNECTTIMEOUT, connect_timeout_s);
    TRANSFER_SET(transfer, CURLOPT_TIMEOUT, timeout_s);
    TRANSFER_SET(transfer, CURLOPT_PREREQFUNCTION, on_ready);
    TRANSFER_SET(transfer, CURLOPT_PREREQDATA, transfer);
    TRANSFER_SET(transfer, CURLOPT_NOPROGRESS, 0L);
    TRANSFER_SET(transfer, CURLOPT_XFERINFOFUNCTION, on_progress);
    TRANSFER_SET(transfer, CURLOPT_XFERINFODATA, transfer);
    TRANSFER_SET(transfer, CURLOPT_ERRORBUFFER, transfer->reason);
}

void transfer_release(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->list);
}

void transfer_append(struct transfer *transfer, const char *text)
{
    struct curl_slist *list = curl_slist_append(transfer->list, text);
    if (list != NULL)
        transfer->list = list;
    else if (transfer->result == CURLE_OK)
        transfer->result = CURLE_OUT_OF_MEMORY;
}

long transfer_perform(struct transfer *transfer)
{
    long status = 0;
    if (transfer->result == CURLE_OK)
        transfer->result = curl_easy_perform(transfer->easy);
    if (transfer->easy != NULL)
        curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

const char *transfer_reason(const struct transfer *transfer)
{
    return transfer->reason[0] != '\0' ? transfer->reason : curl_easy_strerror(transfer->result);
}
