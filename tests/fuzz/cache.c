/* SPDX-License-Identifier: MIT */
/*
 * The cache on the disk, as anybody may have left it. A mirror is made of it, what it shows can be listed and
 * found by its name, and it is the same when it is opened again.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/hash.h"
#include "fuzz/state_folder.h"
#include "store/mirror.h"
#include "store/mirror_cache.h"
#include "store/mirror_view.h"

static void on_event(void *context, const struct event *event)
{
    (void)context, (void)event;
}

static uint64_t hash_emails(struct mirror *mirror, uint32_t inbox, uint64_t hash)
{
    struct email_view view;
    struct email_view found;
    for (uint64_t position = 0; mirror_list_emails(mirror, inbox, position, &view, &position, 1) == 1;) {
        char *json = NULL;
        size_t len = 0;
        FUZZ_CHECK(mirror_find_email(mirror, inbox, view.name, &found));
        /* A record may be listed and lost, where a frame with a forged checksum says that it was given back.
         */
        int error = mirror_read_email(mirror, view.number, &json, &len);
        FUZZ_CHECK(error == 0 ? len == view.json_len : error == -EIO);
        hash = hash_bytes(hash, view.name, strlen(view.name));
        if (error == 0)
            hash = hash_bytes(hash, json, len);
        free(json);
    }
    return hash;
}

/* Opens the mirror: a hash of all that it shows. */
static uint64_t open_mirror(int dir_fd)
{
    static const struct store_listener listener = {.context = NULL};
    static const struct event_listener events = {.notify = on_event};
    struct mirror mirror;
    struct inbox_view inbox;
    struct inbox_view found;
    uint64_t hash = 0;
    FUZZ_CHECK(mirror_init(&mirror, clock_system(), &listener, &events) == 0);
    FUZZ_CHECK(mirror_cache_open(&mirror, dir_fd) == 0);
    for (uint64_t position = 0; mirror_list_inboxes(&mirror, position, &inbox, &position, 1) == 1;) {
        char *json = NULL;
        size_t len = 0;
        FUZZ_CHECK(mirror_find_inbox(&mirror, inbox.name, &found) && found.number == inbox.number);
        FUZZ_CHECK(mirror_read_inbox(&mirror, inbox.number, &json, &len) == 0 && len == inbox.json_len);
        hash = hash_bytes(hash, inbox.name, strlen(inbox.name));
        hash = hash_bytes(hash, json, len);
        free(json);
        hash = hash_emails(&mirror, inbox.number, hash);
    }
    mirror_release(&mirror);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    int dir_fd = state_folder();
    state_folder_put(dir_fd, "records", bytes, len, NULL);
    uint64_t hash = open_mirror(dir_fd);
    FUZZ_CHECK(open_mirror(dir_fd) == hash);
    return 0;
}
