/* SPDX-License-Identifier: MIT */
/*
 * The whole outbox under random use, with the real clock and restarts: threads act like users, each on its
 * own messages and all on the same few attachments; the service answers at random, and late.
 *
 * STRESS_SECONDS (4) sets the duration, STRESS_SEED the choices of each thread (not the timing). Whenever the
 * queue has been emptied, the promises are checked against the requests that the service received:
 *
 * - nothing is lost: an accepted message is in exactly one place, unless its user took it away;
 * - nothing is sent twice: each content has one key, under which it took effect at most once;
 * - reports are true: a message in sent/ has arrived, and one reported as `failed` has not;
 * - nothing is sent in part: each request and each upload has one whole content;
 * - barriers end, and the queue becomes empty.
 */
#include "outbox_fixture.h"

#include <jansson.h>
#include <signal.h>
#include <sys/random.h>

#include "base/thread.h"
#include "support/test.h"

enum {
    STRESS_THREADS = 6,
    MESSAGES_MAX = 400 * 1000,
    OWN_MAX = 24, /* messages that a thread may still change */
    ATTACHMENT_BYTES = 8192,
    BLOCK_BYTES = 16,
    BODY_MAX_BYTES = 6000,
    EPOCH_MS = 700,
    BARRIER_MS = 60 * 1000, /* the outbox promises 10 s; the machine may be busy */
    DRY_MS = 120 * 1000,
};

/* How a message must end, as far as its thread knows. */
enum fate {
    FATE_NONE,     /* refused by the outbox, or never handed in */
    FATE_ACCEPTED, /* accepted by the outbox */
    FATE_LEFT,     /* removed by its user, or not written to its end: it may be anywhere or nowhere */
};

struct sent_message {
    enum fate fate; /* set by its thread; other threads read it between epochs only */
    unsigned int effects;
    char key[40]; /* key under which the message took effect; stress.lock protects `effects` and `key` */
};

struct stress {
    struct fixture fixture; /* must be first */
    struct mail_service service;
    struct mail_service_ops ops;
    uint64_t seed;
    pthread_mutex_t lock;
    uint64_t choices; /* random state of the service; protected by lock, like all below */
    bool is_benign;
    unsigned int uploads;
    unsigned int sends;
    struct sent_message messages[MESSAGES_MAX];
    unsigned int messages_len;
    bool is_over; /* the epoch is over, and the threads end it */
};

struct own {
    unsigned int number;
    char name[48];
};

struct user {
    struct stress *stress;
    unsigned int index;
    uint64_t choices;
    pthread_t thread;
    struct own own[OWN_MAX];
    unsigned int own_len;
    unsigned int names;
    struct outbox_handle *kept; /* open attachment, to be written later; or NULL */
    struct outbox_handle *half; /* open message that stays unfinished; or NULL */
};

/* For any thread: cmocka's assertions work in the main thread only. */
#define COMPLAIN(...)                            \
    do {                                         \
        fprintf(stderr, "stress: " __VA_ARGS__); \
        fprintf(stderr, "\n");                   \
        abort();                                 \
    } while (0)

/* splitmix64 */
static uint64_t next_choice(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static unsigned int choose(uint64_t *state, unsigned int count)
{
    return (unsigned int)(next_choice(state) % count);
}

static int64_t now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

/* ---------------------------------------------------------------- contents that show whether they are whole
 */

static const char *const attachment_names[] = {"a.txt", "b.txt", "c.txt"};

static const char *some_attachment(struct user *user)
{
    return attachment_names[choose(&user->choices, ARRAY_LEN(attachment_names))];
}

/* All contents have one length and are written by one call, so several writers leave one whole content. */
static void make_attachment(char ret[ATTACHMENT_BYTES + 1], unsigned int serial)
{
    for (size_t at = 0; at < ATTACHMENT_BYTES; at += BLOCK_BYTES)
        snprintf(ret + at, BLOCK_BYTES + 1, "%015u\n", serial);
}

static void check_attachment(const char *bytes, size_t len)
{
    if (len != ATTACHMENT_BYTES)
        COMPLAIN("%zu bytes of an attachment were uploaded", len);
    for (size_t at = BLOCK_BYTES; at < len; at += BLOCK_BYTES)
        if (memcmp(bytes, bytes + at, BLOCK_BYTES) != 0)
            COMPLAIN("a mixture was uploaded: %.15s and, at %zu, %.15s", bytes, at, bytes + at);
}

/* Makes a body of one line, always the same for a number. */
static void make_body(char ret[BODY_MAX_BYTES + 100], unsigned int number)
{
    uint64_t state = number;
    int len = snprintf(ret, 40, "begin %u ", number);
    unsigned int filler = choose(&state, 4) == 0 ? choose(&state, BODY_MAX_BYTES) : choose(&state, 60);
    memset(ret + len, 'x', filler);
    snprintf(ret + len + filler, 40, " end %u", number);
}

static size_t make_message(char ret[2 * BODY_MAX_BYTES], unsigned int number, uint64_t *choices)
{
    char body[BODY_MAX_BYTES + 100];
    char attach[64] = "";
    make_body(body, number);
    if (choose(choices, 2) == 0)
        snprintf(attach, sizeof(attach), "Attach: %s\n",
                 attachment_names[choose(choices, ARRAY_LEN(attachment_names))]);
    int len = snprintf(ret, 2 * BODY_MAX_BYTES, "To: r%u@x.example\nSubject: m %u\n%s\n%s\n", number % 7,
                       number, attach, body);
    return (size_t)len;
}

/* ---------------------------------------------------------------- the service */

static struct stress *stress_of(struct mail_service *service)
{
    return (struct stress *)((char *)service - offsetof(struct stress, service));
}

static struct service_result make_result(enum service_outcome outcome, int http_status, int error,
                                         const char *words)
{
    return (struct service_result){.outcome = outcome,
                                   .http_status = http_status,
                                   .error = error,
                                   .retry_after_ms = -1,
                                   .detail = words == NULL ? NULL : strdup(words)};
}

/* Returns true if the request takes effect. The caller holds the lock. */
static bool answer_locked(struct stress *stress, struct service_result *ret)
{
    unsigned int choice = stress->is_benign ? 99 : choose(&stress->choices, 100);
    if (choice < 6) {
        *ret = make_result(SERVICE_UNKNOWN, 0, ETIMEDOUT, "no answer came");
        return choice < 3;
    }
    *ret = choice < 9    ? make_result(SERVICE_RETRY, 0, EHOSTUNREACH, "not reached")
           : choice < 12 ? make_result(SERVICE_RETRY, 503, EAGAIN, "busy")
           : choice < 14 ? make_result(SERVICE_REJECTED, 422, EINVAL, "not this one")
           : choice < 16 ? make_result(SERVICE_REJECTED, 422, EINVAL, "no such attachment")
                         : make_result(SERVICE_OK, 200, 0, NULL);
    return ret->outcome == SERVICE_OK;
}

/* Delays some requests. Returns false if the request was cancelled meanwhile; it may still have arrived. */
static bool take_time(struct stress *stress, struct cancel *cancel)
{
    pthread_mutex_lock(&stress->lock);
    unsigned int ms = choose(&stress->choices, 10) == 0 ? choose(&stress->choices, 40) : 0;
    pthread_mutex_unlock(&stress->lock);
    for (unsigned int i = 0; i < ms && !cancel_is_set(cancel); i++)
        usleep(1000);
    return !cancel_is_set(cancel);
}

static void receive_upload(struct mail_service *service, const struct upload_request *request,
                           struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct stress *stress = stress_of(service);
    *ret_id = NULL;
    if (!take_time(stress, cancel)) {
        *ret = make_result(SERVICE_RETRY, 0, EINTR, "called off");
        return;
    }
    check_attachment(request->bytes, request->len);
    pthread_mutex_lock(&stress->lock);
    bool happens = answer_locked(stress, ret);
    stress->uploads++;
    if (happens && ret->outcome == SERVICE_OK && asprintf(ret_id, "pool-%u", stress->uploads) < 0)
        abort();
    pthread_mutex_unlock(&stress->lock);
}

static void check_request(const json_t *request, unsigned int *ret_number)
{
    char body[BODY_MAX_BYTES + 100];
    const char *subject = json_string_value(json_object_get(request, "subject"));
    const char *text = json_string_value(json_object_get(request, "plain_text"));
    if (subject == NULL || text == NULL || sscanf(subject, "m %u", ret_number) != 1)
        COMPLAIN("a request without subject or text: %s", subject);
    make_body(body, *ret_number);
    if (strncmp(text, body, strlen(body)) != 0 ||
        strspn(text + strlen(body), "\r\n") != strlen(text + strlen(body)))
        COMPLAIN("message %u went out as: %s", *ret_number, text);
    size_t i;
    const json_t *id;
    json_array_foreach (json_object_get(request, "attachment_ids"), i, id)
        if (strncmp(json_string_value(id), "pool-", 5) != 0)
            COMPLAIN("message %u binds what was never uploaded", *ret_number);
}

static void list_nothing(struct mail_service *service, const struct email_query *query, email_sink sink,
                         void *context, struct cancel *cancel, unsigned int *ret_count,
                         struct service_result *ret)
{
    (void)service, (void)query, (void)sink, (void)context, (void)cancel;
    *ret_count = 0;
    *ret = (struct service_result){.outcome = SERVICE_OK, .http_status = 200, .retry_after_ms = -1};
}

static void receive_email(struct mail_service *service, const struct send_request *request,
                          struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct stress *stress = stress_of(service);
    unsigned int number = 0;
    json_t *json = json_loads(request->json, 0, NULL);
    check_request(json, &number);
    json_decref(json);
    *ret_id = NULL;
    bool is_through = take_time(stress, cancel);
    pthread_mutex_lock(&stress->lock);
    struct sent_message *message = &stress->messages[number];
    bool happens = answer_locked(stress, ret);
    if (!is_through) {
        service_result_release(ret);
        *ret = make_result(SERVICE_UNKNOWN, 0, EINTR, "called off");
    }
    if (happens && message->effects > 0 && strcmp(message->key, request->idempotency_key) != 0)
        COMPLAIN("message %u went out twice, by key %s and by key %s", number, message->key,
                 request->idempotency_key);
    if (happens) {
        message->effects = 1; /* a repeat under the same key takes no further effect */
        snprintf(message->key, sizeof(message->key), "%s", request->idempotency_key);
    }
    if (ret->outcome == SERVICE_OK && asprintf(ret_id, "sent-%u", number) < 0)
        abort();
    stress->sends++;
    pthread_mutex_unlock(&stress->lock);
}

static void tell_capabilities(struct mail_service *service, struct service_capabilities *ret)
{
    *ret = (struct service_capabilities){0};
}

/* ---------------------------------------------------------------- users and their messages */

static struct sent_message *message_of(struct user *user, unsigned int number)
{
    return &user->stress->messages[number];
}

static unsigned int take_number(struct user *user)
{
    struct stress *stress = user->stress;
    pthread_mutex_lock(&stress->lock);
    unsigned int number = stress->messages_len++;
    pthread_mutex_unlock(&stress->lock);
    if (number >= MESSAGES_MAX)
        COMPLAIN("there are too many messages: be shorter");
    return number;
}

static void choose_name(struct user *user, const char *suffix, char ret[48])
{
    snprintf(ret, 48, "u%u-%u%s", user->index, user->names++, suffix);
}

static void make_own(struct user *user, unsigned int number, const char *name)
{
    struct own *own = &user->own[user->own_len < OWN_MAX ? user->own_len++ : choose(&user->choices, OWN_MAX)];
    own->number = number;
    snprintf(own->name, sizeof(own->name), "%s", name);
}

static void write_draft(struct user *user, const char *name, const char *content, size_t len)
{
    int fd = openat(user->stress->fixture.drafts, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_all(fd, content, len) != 0)
        COMPLAIN("a draft cannot be written: %s", strerror(errno));
    close(fd);
}

/* Moves a draft into outbox/, sometimes under a name that all users share. */
static void move_message(struct user *user)
{
    struct stress *stress = user->stress;
    char content[2 * BODY_MAX_BYTES];
    char name[48];
    unsigned int number = take_number(user);
    size_t len = make_message(content, number, &user->choices);
    choose_name(user, choose(&user->choices, 8) == 0 ? ".tmp" : ".eml", name);
    write_draft(user, name, content, len);
    const struct hand_in to = {.folder = OUTBOX_FOLDER_OUTBOX,
                               .name = choose(&user->choices, 8) == 0 ? "same.eml" : name};
    if (outbox_hand_in(stress->fixture.outbox, stress->fixture.drafts, name, name, &to, 0, NULL) == 0) {
        /* A later message called same.eml replaces this one if it still waits. */
        message_of(user, number)->fate = to.name == name ? FATE_ACCEPTED : FATE_LEFT;
        if (to.name == name)
            make_own(user, number, name);
        else if (faccessat(stress->fixture.drafts, name, F_OK, 0) == 0)
            COMPLAIN("what was handed in is a draft still");
    } else {
        unlinkat(stress->fixture.drafts, name, 0); /* a refused draft stays in drafts/ */
    }
}

/* Writes a message in one or two pieces, with one close or two; sometimes leaves it unfinished. */
static void write_message(struct user *user)
{
    struct outbox *outbox = user->stress->fixture.outbox;
    char content[2 * BODY_MAX_BYTES];
    char name[48];
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    unsigned int number = take_number(user);
    size_t len = make_message(content, number, &user->choices);
    choose_name(user, choose(&user->choices, 8) == 0 ? ".tmp" : ".eml", name);
    if (outbox_create(outbox, OUTBOX_FOLDER_OUTBOX, name, getpid(), NULL, &handle, &stat) != 0)
        COMPLAIN("%s cannot be created", name);
    size_t first = choose(&user->choices, 2) == 0 ? len : choose(&user->choices, (unsigned int)len);
    if (first > 0 && outbox_write(handle, content, first, 0, getpid()) != (ssize_t)first)
        COMPLAIN("%s cannot be written", name);
    if (choose(&user->choices, 40) == 0 && user->half == NULL && first < len) {
        message_of(user, number)->fate = FATE_LEFT;
        user->half = handle;
        return;
    }
    if (choose(&user->choices, 4) == 0)
        outbox_flush(handle, getpid());
    if (first < len && outbox_write(handle, content + first, len - first, (off_t)first, getpid()) < 0)
        COMPLAIN("%s cannot be written on", name);
    if (outbox_flush(handle, getpid()) != 0)
        COMPLAIN("%s cannot be closed", name);
    /* Even a message with an error is kept, in failed/. */
    message_of(user, number)->fate = FATE_ACCEPTED;
    outbox_release(handle);
    make_own(user, number, name);
}

static struct own *some_own(struct user *user)
{
    return user->own_len == 0 ? NULL : &user->own[choose(&user->choices, user->own_len)];
}

static void drop_own(struct user *user, struct own *own)
{
    *own = user->own[--user->own_len];
}

static void rename_message(struct user *user, struct own *own, enum outbox_folder from)
{
    char name[48];
    choose_name(user, choose(&user->choices, 6) == 0 ? ".tmp" : ".eml", name);
    if (outbox_rename(user->stress->fixture.outbox, from, own->name, OUTBOX_FOLDER_OUTBOX, name, 0,
                      getpid()) == 0)
        snprintf(own->name, sizeof(own->name), "%s", name);
}

static void remove_message(struct user *user, struct own *own)
{
    static const enum outbox_folder folders[] = {OUTBOX_FOLDER_OUTBOX, OUTBOX_FOLDER_SENT,
                                                 OUTBOX_FOLDER_FAILED};
    enum outbox_folder folder = folders[choose(&user->choices, ARRAY_LEN(folders))];
    if (outbox_unlink(user->stress->fixture.outbox, folder, own->name) == 0) {
        message_of(user, own->number)->fate = FATE_LEFT;
        drop_own(user, own);
    }
}

/* Moves a message to drafts/ and removes it there: a second hand-in could send the message twice. */
static void take_message_out(struct user *user, struct own *own)
{
    struct fixture *fixture = &user->stress->fixture;
    enum outbox_folder from = choose(&user->choices, 2) == 0 ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_FAILED;
    if (outbox_take_out(fixture->outbox, from, own->name, fixture->drafts, own->name, 0) != 0)
        return;
    if (faccessat(fixture->drafts, own->name, F_OK, 0) != 0)
        COMPLAIN("what was taken out is no draft");
    message_of(user, own->number)->fate = FATE_LEFT;
    unlinkat(fixture->drafts, own->name, 0);
    drop_own(user, own);
}

static void use_message(struct user *user)
{
    struct own *own = some_own(user);
    if (own == NULL)
        return;
    switch (choose(&user->choices, 6)) {
    case 0:
    case 1:
        rename_message(user, own, OUTBOX_FOLDER_OUTBOX);
        break;
    case 2:
        rename_message(user, own, OUTBOX_FOLDER_FAILED);
        break;
    case 3:
        outbox_retry(user->stress->fixture.outbox, own->name);
        break;
    case 4:
        remove_message(user, own);
        break;
    default:
        take_message_out(user, own);
        break;
    }
}

/* ---------------------------------------------------------------- users and attachments */

static void finish_attachment(struct user *user, struct outbox_handle *handle)
{
    char content[ATTACHMENT_BYTES + 1];
    make_attachment(content, user->index * 10 * 1000 * 1000 + user->names++);
    ssize_t written = outbox_write(handle, content, ATTACHMENT_BYTES, 0, 0);
    if (written >= 0 && written != ATTACHMENT_BYTES)
        COMPLAIN("%zd bytes of an attachment were written", written);
    outbox_flush(handle, 0);
    outbox_release(handle);
}

static struct outbox_handle *open_attachment(struct user *user, int flags)
{
    struct outbox *outbox = user->stress->fixture.outbox;
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    const char *name = some_attachment(user);
    if (outbox_create(outbox, OUTBOX_FOLDER_ATTACHMENTS, name, 0, NULL, &handle, &stat) == 0)
        return handle;
    open_attached(&user->stress->fixture, name, flags, &handle);
    return handle;
}

static void write_attachment(struct user *user)
{
    struct outbox_handle *handle =
        open_attachment(user, O_RDWR | (choose(&user->choices, 2) == 0 ? O_TRUNC : 0));
    if (handle == NULL)
        return;
    if (user->kept == NULL && choose(&user->choices, 4) == 0)
        user->kept = handle;
    else
        finish_attachment(user, handle);
}

static void move_attachment(struct user *user)
{
    struct fixture *fixture = &user->stress->fixture;
    char content[ATTACHMENT_BYTES + 1];
    char name[48];
    choose_name(user, ".txt", name);
    make_attachment(content, user->index * 10 * 1000 * 1000 + user->names++);
    write_draft(user, name, content, ATTACHMENT_BYTES);
    const struct hand_in to = {.folder = OUTBOX_FOLDER_ATTACHMENTS, .name = some_attachment(user)};
    if (outbox_hand_in(fixture->outbox, fixture->drafts, name, name, &to, 0, NULL) != 0)
        unlinkat(fixture->drafts, name, 0);
}

static void use_attachment(struct user *user)
{
    struct fixture *fixture = &user->stress->fixture;
    switch (choose(&user->choices, 7)) {
    case 0:
    case 1:
        write_attachment(user);
        break;
    case 2:
        move_attachment(user);
        break;
    case 3:
        move(fixture, ATTACHED, some_attachment(user), ATTACHED, some_attachment(user));
        break;
    case 4:
        if (user->kept != NULL)
            finish_attachment(user, TAKE_PTR(user->kept));
        break;
    case 5:
        outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, some_attachment(user));
        break;
    default:
        outbox_rename(fixture->outbox, OUTBOX_FOLDER_FAILED, some_attachment(user), OUTBOX_FOLDER_ATTACHMENTS,
                      some_attachment(user), 0, 0);
        break;
    }
}

/* ---------------------------------------------------------------- other actions */

static int wait_at_barrier(struct stress *stress, enum outbox_folder folder)
{
    int64_t begun_ms = now_ms();
    int error = outbox_wait_settled(stress->fixture.outbox, folder, 0, NULL);
    if (now_ms() - begun_ms > BARRIER_MS)
        COMPLAIN("a barrier took %d ms", (int)(now_ms() - begun_ms));
    return error;
}

static void look_around(struct user *user)
{
    struct outbox *outbox = user->stress->fixture.outbox;
    struct outbox_listing listing;
    struct outbox_status status;
    outbox_get_status(outbox, &status);
    outbox_list(outbox, (enum outbox_folder)choose(&user->choices, OUTBOX_FOLDERS), &listing);
    if (listing.len > 0) {
        const struct outbox_entry *entry =
            &listing.entries[choose(&user->choices, (unsigned int)listing.len)];
        struct outbox_handle *handle = NULL;
        char bytes[512];
        if (entry->stat.aspect == OUTBOX_RECEIPT) {
            _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(RECEIPT_MAX_BYTES);
            (void)outbox_read_receipt(outbox, entry->stat.number, &receipt);
        } else if (outbox_open_item(outbox, entry->stat.number, O_RDONLY, 0, &handle) == 0) {
            outbox_read(handle, bytes, sizeof(bytes), 0);
            outbox_release(handle);
        }
    }
    outbox_listing_release(&listing);
}

static bool is_over(struct stress *stress)
{
    pthread_mutex_lock(&stress->lock);
    bool over = stress->is_over;
    pthread_mutex_unlock(&stress->lock);
    return over;
}

static void *use(void *argument)
{
    struct user *user = argument;
    while (!is_over(user->stress)) {
        unsigned int choice = choose(&user->choices, 100);
        if (choice < 15)
            move_message(user);
        else if (choice < 30)
            write_message(user);
        else if (choice < 60)
            use_message(user);
        else if (choice < 90)
            use_attachment(user);
        else if (choice < 95)
            look_around(user);
        else if (choice < 99)
            outbox_retry(user->stress->fixture.outbox, NULL);
        else
            wait_at_barrier(user->stress, choice % 2 == 0 ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_ATTACHMENTS);
    }
    return NULL;
}

/* ---------------------------------------------------------------- checks */

/* The places of a message, which must be in exactly one place. */
struct found {
    unsigned int times;
    char place[64];
    bool is_sent;
    bool has_failed; /* the receipt says that the message was not sent */
};

static void note_found(struct stress *stress, const struct outbox_entry *entry, struct found *found)
{
    struct fixture *fixture = &stress->fixture;
    if (entry->stat.aspect == OUTBOX_RECEIPT)
        return;
    _cleanup_free_ char *text = read_shown(fixture, (int)entry->stat.folder, entry->name);
    const char *subject = strstr(text, "Subject: m ");
    char *end = NULL;
    unsigned long number = subject == NULL ? 0 : strtoul(subject + strlen("Subject: m "), &end, 10);
    if (end == NULL || *end != '\n' || number >= stress->messages_len)
        return; /* a failed attachment, or an unfinished message */
    if (++found[number].times > 1)
        fprintf(stderr, "stress: message %lu is also %d/%s\n", number, (int)entry->stat.folder, entry->name);
    else
        snprintf(found[number].place, sizeof(found[number].place), "%d/%s", (int)entry->stat.folder,
                 entry->name);
    found[number].is_sent = entry->stat.folder == OUTBOX_FOLDER_SENT;
    if (entry->stat.folder == OUTBOX_FOLDER_FAILED) {
        char receipt[300];
        snprintf(receipt, sizeof(receipt), "%s.receipt.json", entry->name);
        _cleanup_free_ char *words = read_shown(fixture, OUTBOX_FOLDER_FAILED, receipt);
        found[number].has_failed = strstr(words, "\"state\": \"unknown outcome\"") == NULL;
    }
}

static void check_messages(struct stress *stress)
{
    struct found *found = calloc(stress->messages_len + 1, sizeof(*found));
    for (int folder = OUT; folder <= FAILED; folder++) {
        struct outbox_listing listing;
        outbox_list(stress->fixture.outbox, (enum outbox_folder)folder, &listing);
        for (size_t i = 0; i < listing.len; i++)
            note_found(stress, &listing.entries[i], found);
        outbox_listing_release(&listing);
    }
    for (unsigned int i = 0; i < stress->messages_len; i++) {
        const struct sent_message *message = &stress->messages[i];
        if (message->fate == FATE_ACCEPTED && found[i].times != 1)
            COMPLAIN("message %u is in %u places: %s", i, found[i].times, found[i].place);
        if (message->fate == FATE_NONE && (found[i].times > 0 || message->effects > 0))
            COMPLAIN("message %u was refused, and is there all the same", i);
        if (found[i].is_sent && message->effects == 0)
            COMPLAIN("message %u is in sent/, and never arrived", i);
        if (found[i].has_failed && message->effects > 0)
            COMPLAIN("message %u is reported as failed, and arrived: %s", i, found[i].place);
    }
    free(found);
}

static void set_benign(struct stress *stress, bool is_benign)
{
    pthread_mutex_lock(&stress->lock);
    stress->is_benign = is_benign;
    pthread_mutex_unlock(&stress->lock);
}

static void run_dry(struct stress *stress)
{
    int64_t until = now_ms() + DRY_MS;
    struct outbox_status status;
    set_benign(stress, true);
    for (;;) {
        outbox_wake(stress->fixture.outbox);
        int messages = wait_at_barrier(stress, OUTBOX_FOLDER_OUTBOX);
        int uploads = wait_at_barrier(stress, OUTBOX_FOLDER_ATTACHMENTS);
        outbox_get_status(stress->fixture.outbox, &status);
        if (messages != -EAGAIN && uploads != -EAGAIN && status.queued + status.uploading == 0)
            break;
        if (now_ms() > until)
            COMPLAIN("the queue does not run dry: %zu messages, %zu uploads, barriers %d and %d",
                     status.queued, status.uploading, messages, uploads);
    }
    set_benign(stress, false);
    check_messages(stress);
}

/* ---------------------------------------------------------------- epochs */

static void run_epoch(struct stress *stress, struct user *users)
{
    stress->is_over = false;
    for (unsigned int i = 0; i < STRESS_THREADS; i++)
        assert_int_equal(thread_start(&users[i].thread, "user", use, &users[i]), 0);
    usleep(EPOCH_MS * 1000); /* the duration of the epoch; waits for no event */
    pthread_mutex_lock(&stress->lock);
    stress->is_over = true;
    pthread_mutex_unlock(&stress->lock);
    for (unsigned int i = 0; i < STRESS_THREADS; i++)
        pthread_join(users[i].thread, NULL);
}

/* Ends the outbox as the daemon does, without closing the open files, and opens it again. */
static void restart(struct stress *stress, struct user *users, bool trusts_idempotency)
{
    outbox_stop(stress->fixture.outbox);
    for (unsigned int i = 0; i < STRESS_THREADS; i++) {
        if (users[i].kept != NULL)
            outbox_abandon(TAKE_PTR(users[i].kept));
        if (users[i].half != NULL)
            outbox_abandon(TAKE_PTR(users[i].half));
    }
    outbox_free(stress->fixture.outbox);
    stress->fixture.config.trusts_idempotency = trusts_idempotency;
    fixture_open(&stress->fixture);
}

/* Does not close unfinished messages, because closing them would hand them in. */
static void close_attachments(struct user *users)
{
    for (unsigned int i = 0; i < STRESS_THREADS; i++) {
        if (users[i].kept != NULL)
            finish_attachment(&users[i], TAKE_PTR(users[i].kept));
    }
}

static uint64_t read_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || text[0] == '\0' ? otherwise : strtoull(text, NULL, 10);
}

static int set_up(void **state);

static int tear_down(void **state);

TEST_WITH(random_use_neither_loses_nor_repeats_a_message, set_up, tear_down)
{
    struct stress *stress = *state;
    struct user users[STRESS_THREADS];
    uint64_t choices = stress->seed;
    int64_t seconds = (int64_t)read_number("STRESS_SECONDS", 4);
    int64_t until = now_ms() + seconds * 1000;
    unsigned int restarts = 0;
    fprintf(stderr, "stress: STRESS_SEED=%llu\n", (unsigned long long)stress->seed);
    alarm((unsigned int)(seconds + 2 * DRY_MS / 1000)); /* ends a test that hangs */
    for (unsigned int i = 0; i < STRESS_THREADS; i++)
        users[i] = (struct user){.stress = stress, .index = i, .choices = next_choice(&choices)};
    do {
        run_epoch(stress, users);
        if (choose(&choices, 2) == 0) {
            close_attachments(users);
            run_dry(stress);
        }
        if (choose(&choices, 2) == 0) {
            restart(stress, users, choose(&choices, 2) == 0);
            restarts++;
        }
    } while (now_ms() < until);
    close_attachments(users);
    run_dry(stress);
    restart(stress, users, true);
    run_dry(stress);
    fprintf(stderr, "stress: %u messages, %u sends, %u uploads, %u restarts\n", stress->messages_len,
            stress->sends, stress->uploads, restarts + 1);
}

static int set_up(void **state)
{
    struct stress *stress = calloc(1, sizeof(*stress));
    assert_non_null(stress);
    if (getrandom(&stress->seed, sizeof(stress->seed), 0) != (ssize_t)sizeof(stress->seed))
        return -1;
    stress->seed = read_number("STRESS_SEED", stress->seed >> 33);
    stress->choices = stress->seed ^ UINT64_C(0x5eed);
    pthread_mutex_init(&stress->lock, NULL);
    setenv("TMPDIR", "/dev/shm", 0); /* fsync costs nothing in memory, so ten times as many actions fit */
    fixture_prepare(&stress->fixture);
    stress->ops = (struct mail_service_ops){.list_emails = list_nothing,
                                            .upload = receive_upload,
                                            .send = receive_email,
                                            .get_capabilities = tell_capabilities};
    stress->service.ops = &stress->ops;
    stress->fixture.config.service = &stress->service;
    stress->fixture.config.clock = clock_system();
    stress->fixture.config.trusts_idempotency = true;
    fixture_open(&stress->fixture);
    *state = stress;
    return 0;
}

static int tear_down(void **state)
{
    struct stress *stress = *state;
    pthread_mutex_destroy(&stress->lock);
    return fixture_teardown(state); /* frees `stress`, whose first member is the fixture */
}
