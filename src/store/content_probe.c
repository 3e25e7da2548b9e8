/* SPDX-License-Identifier: MIT */
/*
 * The probe. What was found is remembered as an empty file each.
 */
#include "store/content_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "store/mirror_inboxes.h"

enum {
    EMAILS_MAX = 4,
    PROBES_SPARED_MAX = 20,
    TIMEOUT_MS = 120 * 1000,
};

static const char content_mark[] = "has-content";
static const char raw_mark[] = "has-raw";

static bool is_marked(const struct contents *contents, const char *mark)
{
    return faccessat(contents->cache.dir_fd, mark, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void set_mark(const struct contents *contents, const char *mark, bool is_set)
{
    if (!is_set) {
        unlinkat(contents->cache.dir_fd, mark, 0);
        return;
    }
    int fd = openat(contents->cache.dir_fd, mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    cleanup_close(&fd);
}

void content_probe_recall(struct contents *contents)
{
    bool has_content = is_marked(contents, content_mark);
    atomic_store(&contents->has_content, has_content);
    atomic_store(&contents->has_raw, has_content && is_marked(contents, raw_mark));
}

static struct service_capabilities known(const struct contents *contents)
{
    struct service_capabilities capabilities;
    contents->service->ops->get_capabilities(contents->service, &capabilities);
    return capabilities;
}

/* One part of one email. The error of content_fetch(). */
static int ask_for(struct contents *contents, const char *email_id, enum content_part part)
{
    const struct content_wish wish = {
        .part = part, .email_id = email_id, .is_known_to_exist = true, .must_ask = true};
    int fd = -1;
    int error = content_fetch(&contents->fetcher, &wish, TIMEOUT_MS, NULL, &fd);
    cleanup_close(&fd);
    return error;
}

/* A single email that the service has no content of proves nothing: it is asked for again now and then. */
static bool is_asked_for_in_vain(struct contents *contents, uint64_t emails)
{
    return emails == contents->missing && ++contents->probes_spared < PROBES_SPARED_MAX;
}

/* Two different emails settle it, unless the service is in trouble. */
static void ask(struct contents *contents, bool must_ask)
{
    uint32_t emails[EMAILS_MAX];
    size_t len = mirror_pick_some(contents->mirror, emails, EMAILS_MAX);
    uint64_t hash = hash_bytes(1, emails, len * sizeof(*emails));
    if (!must_ask && is_asked_for_in_vain(contents, hash))
        return;
    bool is_sure = false;
    bool is_missing = len > 0;
    for (size_t i = 0; i < len && !is_sure; i++) {
        const char *id = mirror_email_id(contents->mirror, emails[i]);
        if (id == NULL)
            continue;
        int error = ask_for(contents, id, CONTENT_PART_FOLDER);
        is_sure = known(contents).content == CAPABILITY_ABSENT;
        is_missing = is_missing && error == -ENOENT;
        if (error != 0)
            continue;
        error = ask_for(contents, id, CONTENT_PART_RAW);
        is_sure = error == 0 || known(contents).raw != CAPABILITY_UNKNOWN;
    }
    contents->missing = is_missing ? hash : 0;
    contents->probes_spared = 0;
}

static bool set(atomic_bool *flag, bool is_set)
{
    return atomic_exchange(flag, is_set) != is_set;
}

/* What is not known leaves things as they were. */
static void conclude(struct contents *contents)
{
    const struct service_capabilities capabilities = known(contents);
    const struct store_listener *listener = &contents->mirror->listener;
    bool has_content = capabilities.content == CAPABILITY_PRESENT ||
                       (capabilities.content == CAPABILITY_UNKNOWN && atomic_load(&contents->has_content));
    bool has_raw =
        has_content && (capabilities.raw == CAPABILITY_PRESENT ||
                        (capabilities.raw == CAPABILITY_UNKNOWN && atomic_load(&contents->has_raw)));
    bool is_news = set(&contents->has_raw, has_raw);
    is_news = set(&contents->has_content, has_content) || is_news;
    if (!is_news)
        return;
    set_mark(contents, content_mark, has_content);
    set_mark(contents, raw_mark, has_raw);
    mirror_touch_inboxes(contents->mirror);
    if (listener->content_changed != NULL)
        listener->content_changed(listener->context);
}

void content_probe_run(struct contents *contents)
{
    bool must_ask = atomic_exchange(&contents->must_probe, false);
    const struct service_capabilities before = known(contents);
    if (must_ask || before.content != CAPABILITY_PRESENT || before.raw == CAPABILITY_UNKNOWN)
        ask(contents, must_ask);
    conclude(contents);
}
