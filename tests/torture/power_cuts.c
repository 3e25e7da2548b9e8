/* SPDX-License-Identifier: MIT */
/*
 * Cuts the power at each step of a recorded session, and counts how often each message was sent.
 *
 * usage: power_cuts --work DIR [--state DIR] [--every N] [--cut RECORD:NUMBER] LOG
 *
 * LOG has the records of tests/torture/record_preload.c, made by inboxfs, and between them lines of
 * tests/torture/power_cuts.py, which used the mount and was the service:
 *
 *   mark ready            cuts begin here
 *   mark trusted          the service honours idempotency keys
 *   mark new T GROUP N    the text T (cut_recovery.h) exists, for N recipients; at most one of the texts
 *                         of a group is ever sent. Names of attachments begin with A
 *   mark attach T A,B|C   these are its attachments: A, and either of B and C
 *   mark keep T           promised: it is sent, or complete in a folder of the mount
 *   mark must T           promised: it is sent, or in failed/ with an error, because the service refused it
 *                         or its outcome is unknown; an attachment is in attachments/
 *   mark sent T           promised: it is in sent/
 *   mark free T           it may be sent, or not
 *   mark off T            promised: it is not sent from now on
 *   mark draft T NAME     promised: it is in drafts/, and is not sent from now on
 *   mark refused T        the service refused it
 *   mark unsure T         the service gives no clear answer, so it may be sent and shown as failed
 *   mark again T          it may be sent once more
 *   received KEY REQUEST  the service accepted this request (JSON)
 *
 * Each mark is written once its call has returned, so the promise applies already before the mark.
 * After each line, the states that the disk may be in (cut_disk.h) are made in DIR, recovered
 * (cut_recovery.h), and compared with the marks so far and with all that the service received.
 *
 * --state names the directory that was recorded; it must equal the records. --every checks each Nth line
 * only.
 * --cut checks one state alone, and leaves it in DIR: as `cut` before recovery, and as `state` afterwards.
 * Exits with 1 when a message was lost, doubled, halved or cannot be explained.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cut_disk.h"
#include "cut_recovery.h"

enum {
    SHOWN_MAX = 3, /* findings of one kind that are printed */
    REOPENED = 4,  /* only one state in four is opened twice, because that takes twice the time */
};

enum level {
    LEVEL_FREE,
    LEVEL_KEEP,
    LEVEL_MUST,
    LEVEL_SENT,
    LEVEL_OFF,
    LEVEL_DRAFT,
};

static const char *const level_names[] = {"free", "keep", "must", "sent", "off", "draft"};

struct promise {
    char *token;
    char *group;
    size_t recipients;
    char **attachments; /* NULL without attachments */
    enum level level;
    char *draft_name;
    guint allowed;     /* how often it may be sent */
    guint sent_before; /* how often it was sent before it was taken back */
    bool was_refused;
    bool is_unsure;
};

/* One acceptance by the service. */
struct delivery {
    char *token;
    char *key;
    char *fault; /* why the message is not whole; NULL if it is */
};

enum finding {
    FINDING_LOST,
    FINDING_DOUBLE,
    FINDING_HALF,
    FINDING_UNEXPLAINED,
    FINDINGS,
};

static const char *const finding_names[] = {"lost", "double", "half", "unexplained"};

/* The result of the recovery of one state of the disk. */
struct outcome {
    struct recovered *recovered;
    GArray *deliveries; /* of struct delivery */
};

struct checker {
    const char *work;
    guint every;
    guint64 only_line; /* the line to check; 0 for all lines */
    guint only_number;
    char *log; /* the whole file */
    struct disk *disk;
    GHashTable *promises; /* token -> struct promise */
    GPtrArray *order;     /* struct promise, in the order of the texts */
    GArray *received;     /* of struct delivery */
    bool is_trusted;
    bool is_ready;
    GHashTable *outcomes; /* hash of a state -> struct outcome */
    GHashTable *judged;   /* hashes of state and marks together */
    guint64 line;         /* number of the current record, from 1 */
    const char *record;
    guint number;  /* number of the state at this line, from 1 */
    guint64 marks; /* number of lines that changed the promises or what was received */
    guint64 states, cuts;
    guint64 findings[FINDINGS];
    guint64 unknown_sent, unknown_unsent, interrupted;
};

/* ---------------------------------------------------------------- promises */

static struct promise *promise_of(struct checker *checker, const char *token)
{
    struct promise *promise = g_hash_table_lookup(checker->promises, token);
    if (promise == NULL) {
        fprintf(stderr, "line %" G_GUINT64_FORMAT ": no such text: %s\n", checker->line, token);
        exit(2);
    }
    return promise;
}

static bool is_attachment(const char *token)
{
    return token[0] == 'A';
}

/* If the service honours keys, several deliveries under one key count as one. */
static guint count_in(const struct checker *checker, const GArray *deliveries, guint len, const char *token,
                      GHashTable *keys)
{
    guint count = 0;
    for (guint i = 0; i < len; i++) {
        const struct delivery *delivery = &g_array_index(deliveries, struct delivery, i);
        if (strcmp(delivery->token, token) != 0)
            continue;
        bool is_new = g_hash_table_add(keys, delivery->key);
        count += is_new || !checker->is_trusted ? 1 : 0;
    }
    return count;
}

static guint count_sent(const struct checker *checker, const struct outcome *outcome, const char *token)
{
    GHashTable *keys = g_hash_table_new(g_str_hash, g_str_equal);
    guint count = count_in(checker, checker->received, checker->received->len, token, keys);
    if (outcome != NULL)
        count += count_in(checker, outcome->deliveries, outcome->deliveries->len, token, keys);
    g_hash_table_unref(keys);
    return count;
}

static void add_promise(struct checker *checker, char **words)
{
    struct promise *promise = g_new0(struct promise, 1);
    promise->token = g_strdup(words[1]);
    promise->group = g_strdup(words[2]);
    promise->recipients = strtoul(words[3], NULL, 10);
    promise->allowed = 1;
    g_hash_table_insert(checker->promises, promise->token, promise);
    g_ptr_array_add(checker->order, promise);
}

static void set_level(struct checker *checker, char **words, enum level level)
{
    struct promise *promise = promise_of(checker, words[1]);
    promise->level = level;
    if (level == LEVEL_DRAFT) {
        g_free(promise->draft_name);
        promise->draft_name = g_strdup(words[2]);
    }
    if (level >= LEVEL_OFF)
        promise->sent_before = count_sent(checker, NULL, promise->token);
}

static void set_attachments(struct promise *promise, const char *names)
{
    g_strfreev(promise->attachments);
    promise->attachments = g_strsplit(names, ",", -1);
}

static void apply_mark(struct checker *checker, const char *text)
{
    char **words = g_strsplit(text, " ", -1);
    guint len = g_strv_length(words);
    checker->marks++;
    if (strcmp(words[0], "ready") == 0)
        checker->is_ready = true;
    else if (strcmp(words[0], "trusted") == 0)
        checker->is_trusted = true;
    else if (strcmp(words[0], "new") == 0 && len == 4)
        add_promise(checker, words);
    else if (strcmp(words[0], "attach") == 0 && len == 3)
        set_attachments(promise_of(checker, words[1]), words[2]);
    else if (strcmp(words[0], "refused") == 0 && len == 2)
        promise_of(checker, words[1])->was_refused = true;
    else if (strcmp(words[0], "unsure") == 0 && len == 2)
        promise_of(checker, words[1])->is_unsure = true;
    else if (strcmp(words[0], "again") == 0 && len == 2)
        promise_of(checker, words[1])->allowed++;
    else {
        size_t level = 0;
        while (level < G_N_ELEMENTS(level_names) && strcmp(words[0], level_names[level]) != 0)
            level++;
        if (level == G_N_ELEMENTS(level_names) || len != (level == LEVEL_DRAFT ? 3 : 2)) {
            fprintf(stderr, "line %" G_GUINT64_FORMAT ": no such mark: %s\n", checker->line, text);
            exit(2);
        }
        set_level(checker, words, (enum level)level);
    }
    g_strfreev(words);
}

/* ---------------------------------------------------------------- deliveries to the service */

static void delivery_clear(gpointer data)
{
    struct delivery *delivery = data;
    g_free(delivery->token);
    g_free(delivery->key);
    g_free(delivery->fault);
}

static bool has_attachment(const struct promise *promise, const char *id)
{
    bool is_found = false;
    for (char **names = promise->attachments; names != NULL && *names != NULL; names++) {
        char **either = g_strsplit(*names, "|", -1);
        for (char **name = either; *name != NULL; name++) {
            char *wanted = g_strdup_printf("pool-%s-whole", *name);
            is_found = is_found || strcmp(id, wanted) == 0;
            g_free(wanted);
        }
        g_strfreev(either);
    }
    return is_found;
}

static char *find_fault(const struct promise *promise, json_t *request, const GArray *tokens)
{
    json_t *ids = json_object_get(request, "attachment_ids");
    size_t recipients = json_array_size(json_object_get(request, "to_addresses")) +
                        json_array_size(json_object_get(request, "cc_addresses"));
    for (guint i = 0; i < tokens->len; i++)
        if (!g_array_index(tokens, struct token, i).is_whole)
            return g_strdup("its text is not whole");
    if (recipients != promise->recipients)
        return g_strdup_printf("it has %zu recipients of %zu", recipients, promise->recipients);
    size_t wanted = promise->attachments == NULL ? 0 : g_strv_length(promise->attachments);
    if (json_array_size(ids) != wanted)
        return g_strdup_printf("it has %zu attachments of %zu", json_array_size(ids), wanted);
    for (size_t i = 0; i < wanted; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (id == NULL || !has_attachment(promise, id))
            return g_strdup_printf("its attachment is %s", id == NULL ? "none" : id);
    }
    return NULL;
}

static void add_delivery(struct checker *checker, GArray *deliveries, const char *key, const char *text)
{
    json_t *request = json_loads(text, 0, NULL);
    const char *plain = json_string_value(json_object_get(request, "plain_text"));
    GArray *tokens = tokens_find(plain == NULL ? "" : plain, plain == NULL ? 0 : strlen(plain));
    struct delivery delivery = {.key = g_strdup(key)};
    if (tokens->len == 0) {
        delivery.token = g_strdup("none");
        delivery.fault = g_strdup_printf("it has no text of ours: %.200s", text);
    } else {
        delivery.token = g_strdup(g_array_index(tokens, struct token, tokens->len - 1).name);
        struct promise *promise = g_hash_table_lookup(checker->promises, delivery.token);
        delivery.fault =
            promise == NULL ? g_strdup("nobody has written it yet") : find_fault(promise, request, tokens);
    }
    g_array_append_val(deliveries, delivery);
    g_array_unref(tokens);
    json_decref(request);
}

static GArray *deliveries_new(void)
{
    GArray *deliveries = g_array_new(FALSE, FALSE, sizeof(struct delivery));
    g_array_set_clear_func(deliveries, delivery_clear);
    return deliveries;
}

/* ---------------------------------------------------------------- recovery of a state */

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 20, FTW_DEPTH | FTW_PHYS);
}

static void build(const struct disk_state *state, const char *path)
{
    remove_tree(path);
    int fd = mkdir(path, 0700) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int error = fd < 0 ? -errno : disk_state_build(state, fd);
    if (error != 0) {
        fprintf(stderr, "%s: the state cannot be made: %s\n", path, strerror(-error));
        exit(2);
    }
    close(fd);
}

static struct outcome *outcome_of(struct checker *checker, const struct disk_state *state, guint64 hash)
{
    struct outcome *outcome = g_hash_table_lookup(checker->outcomes, &hash);
    if (outcome != NULL)
        return outcome;
    outcome = g_new0(struct outcome, 1);
    char *path = g_build_filename(checker->work, "state", NULL);
    build(state, path);
    outcome->recovered = recover(path, checker->is_trusted, hash % REOPENED == 0);
    if (checker->only_line == 0)
        remove_tree(path);
    g_free(path);
    outcome->deliveries = deliveries_new();
    for (guint i = 0; i < outcome->recovered->sent->len; i++) {
        const struct sent *sent = &g_array_index(outcome->recovered->sent, struct sent, i);
        add_delivery(checker, outcome->deliveries, sent->key, sent->request);
    }
    guint64 *key = g_new(guint64, 1);
    *key = hash;
    g_hash_table_insert(checker->outcomes, key, outcome);
    return outcome;
}

static void outcome_free(gpointer data)
{
    struct outcome *outcome = data;
    recovered_free(outcome->recovered);
    g_array_unref(outcome->deliveries);
    g_free(outcome);
}

/* ---------------------------------------------------------------- judgement */

struct judgement {
    struct checker *checker;
    const struct disk_state *state;
    const struct outcome *outcome;
    const struct promise *promise;
};

static void find(const struct judgement *judgement, enum finding finding, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void print_files(const struct recovered *recovered, const char *token)
{
    for (guint i = 0; i < recovered->files->len; i++) {
        const struct found_file *file = &g_array_index(recovered->files, struct found_file, i);
        if (strcmp(file->token, token) == 0)
            printf("    found in %s/%s%s%s%s%s%s\n", file->folder, file->name,
                   file->is_whole ? "" : " (not whole)", file->state == NULL ? "" : ": ",
                   file->state == NULL ? "" : file->state, file->error == NULL ? "" : ": ",
                   file->error == NULL ? "" : file->error);
    }
}

static void find(const struct judgement *judgement, enum finding finding, const char *format, ...)
{
    struct checker *checker = judgement->checker;
    const struct promise *promise = judgement->promise;
    if (++checker->findings[finding] > SHOWN_MAX && checker->only_line == 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("%s: %s: ", finding_names[finding], promise == NULL ? "all" : promise->token);
    vprintf(format, arguments);
    va_end(arguments);
    printf("; cut %" G_GUINT64_FORMAT ":%u, after: %.100s\n", checker->line, checker->number,
           checker->record);
    disk_state_describe(judgement->state, stdout);
    if (promise != NULL) {
        printf("    promised: %s; received before: %u, in all: %u\n", level_names[promise->level],
               count_sent(checker, NULL, promise->token),
               count_sent(checker, judgement->outcome, promise->token));
        print_files(judgement->outcome->recovered, promise->token);
    }
    fflush(stdout);
}

static bool is_found(const struct recovered *recovered, const char *token, const char *folder)
{
    for (guint i = 0; i < recovered->files->len; i++) {
        const struct found_file *file = &g_array_index(recovered->files, struct found_file, i);
        if (file->is_whole && strcmp(file->token, token) == 0 &&
            (folder == NULL ? strcmp(file->folder, "quarantine") != 0 : strcmp(file->folder, folder) == 0))
            return true;
    }
    return false;
}

/* Checks the receipt of a text in failed/. Returns true if it has a reason. */
static bool judge_failed(const struct judgement *judgement, const struct found_file *file, guint sent)
{
    struct checker *checker = judgement->checker;
    const struct promise *promise = judgement->promise;
    if (file->state == NULL || file->error == NULL || *file->error == '\0') {
        find(judgement, FINDING_UNEXPLAINED, "it is in failed/ without words");
        return false;
    }
    if (is_attachment(promise->token))
        return true;
    if (strcmp(file->state, "unknown outcome") == 0) {
        *(sent > 0 ? &checker->unknown_sent : &checker->unknown_unsent) += 1;
        return true;
    }
    if (sent > 0 && promise->allowed == 1)
        find(judgement, FINDING_UNEXPLAINED, "it was sent, and is in failed/");
    if (strcmp(file->state, "interrupted") == 0) {
        checker->interrupted++;
        return promise->level <= LEVEL_KEEP;
    }
    return promise->was_refused || promise->level <= LEVEL_KEEP;
}

static bool judge_files(const struct judgement *judgement, guint sent)
{
    const struct recovered *recovered = judgement->outcome->recovered;
    bool is_failed = false;
    for (guint i = 0; i < recovered->files->len; i++) {
        const struct found_file *file = &g_array_index(recovered->files, struct found_file, i);
        if (strcmp(file->token, judgement->promise->token) == 0 && strcmp(file->folder, "failed") == 0)
            is_failed = judge_failed(judgement, file, sent) || is_failed;
    }
    return is_failed;
}

static void judge_attachment(const struct judgement *judgement)
{
    const struct recovered *recovered = judgement->outcome->recovered;
    const struct promise *promise = judgement->promise;
    judge_files(judgement, 0);
    if (promise->level == LEVEL_KEEP && !is_found(recovered, promise->token, NULL))
        find(judgement, FINDING_LOST, "the attachment was closed, and is nowhere");
    if (promise->level == LEVEL_MUST && !is_found(recovered, promise->token, "attachments"))
        find(judgement, FINDING_LOST, "the attachment was uploaded, and is not in attachments/");
}

static void judge_message(const struct judgement *judgement)
{
    const struct checker *checker = judgement->checker;
    const struct promise *promise = judgement->promise;
    const struct recovered *recovered = judgement->outcome->recovered;
    guint sent = count_sent(checker, judgement->outcome, promise->token);
    bool is_failed = judge_files(judgement, sent);
    bool is_draft = is_found(recovered, promise->token, "drafts");
    if (sent > promise->allowed)
        find(judgement, FINDING_DOUBLE, "it was sent %u times", sent);
    if (promise->level >= LEVEL_OFF && sent > promise->sent_before)
        find(judgement, FINDING_DOUBLE, "it was taken back, and sent");
    if (is_draft && sent > 0 && promise->allowed == 1 && !promise->is_unsure)
        find(judgement, FINDING_DOUBLE, "it was sent, and is in drafts/");
    if (sent == 0 && is_found(recovered, promise->token, "sent"))
        find(judgement, FINDING_LOST, "it is in sent/, and was never sent");
    if (promise->level == LEVEL_DRAFT && !is_draft)
        find(judgement, FINDING_LOST, "it was a draft, and is not in drafts/");
    if (promise->level == LEVEL_KEEP && sent == 0 && !is_found(recovered, promise->token, NULL))
        find(judgement, FINDING_LOST, "it was closed, and is nowhere");
    if (promise->level == LEVEL_MUST && sent == 0 && !is_failed)
        find(judgement, FINDING_LOST, "it was accepted, and not sent");
    if (promise->level == LEVEL_SENT && !is_found(recovered, promise->token, "sent"))
        find(judgement, FINDING_LOST, "it was in sent/, and is not");
}

static void judge_group(const struct judgement *judgement)
{
    const struct checker *checker = judgement->checker;
    guint sent = 0;
    guint allowed = 1;
    bool is_first = true;
    for (guint i = 0; i < checker->order->len; i++) {
        const struct promise *other = checker->order->pdata[i];
        if (strcmp(other->group, judgement->promise->group) != 0)
            continue;
        if (other == judgement->promise && sent > 0)
            is_first = false;
        sent += count_sent(checker, judgement->outcome, other->token);
        allowed += other->allowed - 1;
    }
    if (is_first && sent > allowed &&
        count_sent(checker, judgement->outcome, judgement->promise->token) < sent)
        find(judgement, FINDING_DOUBLE, "two texts of one message were sent");
}

static void judge(struct checker *checker, const struct disk_state *state, const struct outcome *outcome)
{
    struct judgement judgement = {.checker = checker, .state = state, .outcome = outcome};
    if (outcome->recovered->failure != NULL)
        find(&judgement, FINDING_LOST, "%s", outcome->recovered->failure);
    if (outcome->recovered->sent_at_end > 0)
        find(&judgement, FINDING_DOUBLE, "the second start sent %u more", outcome->recovered->sent_at_end);
    for (guint i = 0; i < outcome->deliveries->len; i++) {
        const struct delivery *delivery = &g_array_index(outcome->deliveries, struct delivery, i);
        if (delivery->fault != NULL)
            find(&judgement, FINDING_HALF, "%s: %s", delivery->token, delivery->fault);
    }
    for (guint i = 0; i < checker->order->len; i++) {
        judgement.promise = checker->order->pdata[i];
        if (is_attachment(judgement.promise->token)) {
            judge_attachment(&judgement);
        } else {
            judge_message(&judgement);
            judge_group(&judgement);
        }
    }
}

static void visit_state(void *context, const struct disk_state *state)
{
    struct checker *checker = context;
    checker->number++;
    checker->cuts++;
    if (checker->only_line != 0 && checker->number != checker->only_number)
        return;
    guint64 hash = disk_state_hash(state);
    guint64 with_marks = hash ^ (checker->marks * G_GUINT64_CONSTANT(0x9E3779B97F4A7C15));
    guint64 *key = g_new(guint64, 1);
    *key = with_marks;
    if (!g_hash_table_add(checker->judged, key))
        return;
    if (checker->only_line != 0) {
        char *path = g_build_filename(checker->work, "cut", NULL);
        build(state, path);
        disk_state_describe(state, stdout);
        g_free(path);
    }
    judge(checker, state, outcome_of(checker, state, hash));
}

/* ---------------------------------------------------------------- the log */

/* Takes the record that begins at `at`, and returns the beginning of the next one. */
static char *take_record(struct checker *checker, char *at, const char *end)
{
    char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (line_end == NULL) {
        fprintf(stderr, "the last line is not whole\n");
        exit(2);
    }
    *line_end = '\0';
    char *next = line_end + 1;
    size_t len = 0;
    int error = 0;
    checker->line++;
    checker->record = at;
    if (g_str_has_prefix(at, "mark ")) {
        apply_mark(checker, at + strlen("mark "));
    } else if (g_str_has_prefix(at, "received ")) {
        char *request = strchr(at + strlen("received "), ' ');
        char *key = g_strndup(at + strlen("received "), (gsize)(request - at) - strlen("received "));
        add_delivery(checker, checker->received, key, request + 1);
        checker->marks++;
        g_free(key);
    } else if (sscanf(at, "write %*u %*u %zu", &len) == 1) {
        error = disk_apply(checker->disk, at, next);
        next += len + 1;
    } else {
        error = disk_apply(checker->disk, at, NULL);
    }
    if (error != 0) {
        fprintf(stderr, "line %" G_GUINT64_FORMAT ": %s: %s\n", checker->line, at, strerror(-error));
        exit(2);
    }
    return next;
}

static void judge_received(struct checker *checker)
{
    const struct delivery *delivery =
        &g_array_index(checker->received, struct delivery, checker->received->len - 1);
    if (delivery->fault != NULL) {
        checker->findings[FINDING_HALF]++;
        printf("half: %s was received before any cut: %s\n", delivery->token, delivery->fault);
    }
}

static void check_log(struct checker *checker, char *log, size_t len)
{
    for (char *at = log; at < log + len;) {
        at = take_record(checker, at, log + len);
        checker->number = 0;
        if (g_str_has_prefix(checker->record, "received "))
            judge_received(checker);
        bool is_wanted = checker->only_line == 0 ? checker->line % checker->every == 0
                                                 : checker->line == checker->only_line;
        if (is_wanted && checker->is_ready)
            disk_visit_states(checker->disk, checker->line, visit_state, checker);
    }
}

struct comparison {
    int dir_fd;
    int error;
};

static void compare(void *context, const struct disk_state *state)
{
    struct comparison *comparison = context;
    comparison->error = disk_state_compare(state, comparison->dir_fd, stderr);
}

static void compare_with(struct checker *checker, const char *path)
{
    struct comparison comparison = {.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    disk_visit_newest(checker->disk, compare, &comparison);
    close(comparison.dir_fd);
    if (comparison.error != 0) {
        fprintf(stderr, "%s is not as it was recorded\n", path);
        exit(2);
    }
}

static void print_counts(const struct checker *checker)
{
    printf("records: %" G_GUINT64_FORMAT "; cuts: %" G_GUINT64_FORMAT "; states: %u; judged: %u",
           checker->line, checker->cuts, g_hash_table_size(checker->outcomes),
           g_hash_table_size(checker->judged));
    printf("; messages: %u; unknown outcomes, sent: %" G_GUINT64_FORMAT ", not sent: %" G_GUINT64_FORMAT
           "; interrupted: %" G_GUINT64_FORMAT,
           checker->order->len, checker->unknown_sent, checker->unknown_unsent, checker->interrupted);
    for (size_t i = 0; i < FINDINGS; i++)
        printf("; %s: %" G_GUINT64_FORMAT, finding_names[i], checker->findings[i]);
    printf("\n");
}

static void promise_free(gpointer data)
{
    struct promise *promise = data;
    g_free(promise->token);
    g_free(promise->group);
    g_free(promise->draft_name);
    g_strfreev(promise->attachments);
    g_free(promise);
}

static bool read_arguments(struct checker *checker, int argc, char **argv, const char **ret_state)
{
    static const struct option options[] = {{"work", required_argument, NULL, 'w'},
                                            {"state", required_argument, NULL, 's'},
                                            {"every", required_argument, NULL, 'e'},
                                            {"cut", required_argument, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (option == 'w')
            checker->work = optarg;
        else if (option == 's')
            *ret_state = optarg;
        else if (option == 'e')
            checker->every = (guint)MAX(1, atoi(optarg));
        else if (option != 'c' ||
                 sscanf(optarg, "%" G_GUINT64_FORMAT ":%u", &checker->only_line, &checker->only_number) != 2)
            return false;
    }
    return checker->work != NULL && optind == argc - 1;
}

int main(int argc, char **argv)
{
    struct checker checker = {.every = 1};
    const char *state = NULL;
    char *log = NULL;
    gsize len = 0;
    if (!read_arguments(&checker, argc, argv, &state) ||
        !g_file_get_contents(argv[optind], &log, &len, NULL)) {
        fprintf(stderr, "usage: power_cuts --work DIR [--state DIR] [--every N] [--cut RECORD:NUMBER] LOG\n");
        return 2;
    }
    if (checker.only_line == 0)
        log_set_level(LOG_LEVEL_ERROR);
    checker.disk = disk_new();
    checker.promises = g_hash_table_new(g_str_hash, g_str_equal);
    checker.order = g_ptr_array_new_with_free_func(promise_free);
    checker.received = deliveries_new();
    checker.outcomes = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, outcome_free);
    checker.judged = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    check_log(&checker, log, len);
    if (state != NULL)
        compare_with(&checker, state);
    print_counts(&checker);
    bool is_well = true;
    for (size_t i = 0; i < FINDINGS; i++)
        is_well = is_well && checker.findings[i] == 0;
    g_hash_table_unref(checker.judged);
    g_hash_table_unref(checker.outcomes);
    g_array_unref(checker.received);
    g_hash_table_unref(checker.promises);
    g_ptr_array_unref(checker.order);
    disk_free(checker.disk);
    g_free(log);
    return is_well ? 0 : 1;
}
