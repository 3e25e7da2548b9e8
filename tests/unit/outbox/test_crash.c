/* SPDX-License-Identifier: MIT */
/*
 * At every named crash point a process that runs an outbox dies; the next process recovers and continues. The
 * requests of both are counted together. docs/OUTBOX.md has the table of crash points.
 */
#include "crash_fixture.h"

#include "support/test.h"

/* ---------------------------------------------------------------- actions of the dying process */

enum act {
    ACT_WRITE,  /* cp into outbox/ */
    ACT_MOVE,   /* mv from drafts/ */
    ACT_PARTS,  /* mv of a message with an attached part */
    ACT_CANCEL, /* mv from drafts/ while offline, and mv back */
    ACT_REMOVE, /* mv from drafts/ while offline, and rm */
    ACT_WRITE_ANSWER,
    ACT_MOVE_ANSWER,
    ACT_EDIT, /* replaces a waiting message by an edited text */
};

#define ANSWERS                                                                                          \
    "{\"to_addresses\":[{\"address\":\"bob@x.example\"}],\"existing_email_id\":\"e1\",\"message_type\":" \
    "\"reply\"}"

static bool is_answer(enum act act)
{
    return act == ACT_WRITE_ANSWER || act == ACT_MOVE_ANSWER;
}

static int create_message(struct fixture *fixture, enum act act, struct outbox_handle **ret_handle)
{
    struct outbox_stat stat;
    return outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", 0, is_answer(act) ? ANSWERS : NULL,
                         ret_handle, &stat);
}

static void move_message(struct fixture *fixture, enum act act)
{
    const struct hand_in to = {
        .folder = OUTBOX_FOLDER_OUTBOX, .name = "m.eml", .reply_template = is_answer(act) ? ANSWERS : NULL};
    outbox_hand_in(fixture->outbox, fixture->drafts, "m.eml", "drafts/m.eml", &to, 0, NULL);
}

static void write_as(struct fixture *fixture, const char *name, const char *text, pid_t pid)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    if (outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, pid, NULL, &handle, &stat) != 0)
        _exit(3);
    outbox_write(handle, text, strlen(text), 0, pid);
    outbox_flush(handle, pid);
    outbox_release(handle);
}

static void write_and_rename(struct fixture *fixture)
{
    fake_service_set_reachable(fixture->fake, false);
    write_as(fixture, "m.eml", MESSAGE, 0);
    outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, NULL);
    write_as(fixture, "new.eml", MESSAGE "And more.\n", getpid());
    while (outbox_rename(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "new.eml", OUTBOX_FOLDER_OUTBOX, "m.eml", 0,
                         getpid()) == -EBUSY)
        usleep(1000);
}

static void act(struct fixture *fixture, enum act act)
{
    static const char parts[] = "To: b@x.example\nSubject: s\nMIME-Version: 1.0\n"
                                "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n"
                                "--b\nContent-Disposition: attachment; filename=a.csv\n\n1,2\n--b--\n";
    if (act == ACT_EDIT) {
        write_and_rename(fixture);
        return;
    }
    struct outbox_handle *handle = NULL;
    const char *content = act == ACT_PARTS ? parts : is_answer(act) ? "Yes.\n" : MESSAGE;
    if (act == ACT_CANCEL || act == ACT_REMOVE)
        fake_service_set_reachable(fixture->fake, false);
    if (act == ACT_WRITE || act == ACT_WRITE_ANSWER) {
        if (create_message(fixture, act, &handle) != 0)
            _exit(3);
        outbox_write(handle, content, strlen(content), 0, 0);
        outbox_flush(handle, 0);
        outbox_release(handle);
    } else {
        int fd = openat(fixture->drafts, "m.eml", O_WRONLY | O_CREAT, 0600);
        if (file_write_all(fd, content, strlen(content)) != 0)
            _exit(3);
        close(fd);
        move_message(fixture, act);
    }
    outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, NULL);
    if (act == ACT_CANCEL)
        while (outbox_take_out(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", fixture->drafts, "m.eml", 0) ==
               -EBUSY)
            usleep(1000);
    if (act == ACT_REMOVE)
        while (outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml") == -EBUSY)
            usleep(1000);
}

/* Runs in a child process. */
static void die_at(struct fixture *fixture, const char *point, enum act what, bool is_trusted)
{
    struct logging_service logging;
    fixture->config.trusts_idempotency = is_trusted;
    start_before_crash(fixture, &logging, point);
    act(fixture, what);
    exit_without_crash(fixture);
}

/* ---------------------------------------------------------------- results of the recovery */

struct row {
    const char *point;
    enum act act;
    int folder;           /* folder of the message after recovery; -1 if it is not in the spool */
    const char *state;    /* state in the message's receipt; NULL without a receipt */
    bool stays_in_drafts; /* the draft is in drafts/ after recovery */
    size_t sends;         /* number of send requests of both processes */
    int trusted_folder;   /* folder if keys are trusted */
    size_t trusted_sends;
};

static const struct row rows[] = {
    {"created", ACT_WRITE, -1, NULL, false, 0, -1, 0},
    {"flushing", ACT_WRITE, FAILED, "interrupted", false, 0, FAILED, 0},
    {"flushed", ACT_WRITE, FAILED, "interrupted", false, 0, FAILED, 0},
    {"closing", ACT_WRITE, FAILED, "interrupted", false, 0, FAILED, 0},
    {"closed", ACT_WRITE, SENT, "sent", false, 1, SENT, 1},
    {"checked", ACT_WRITE, SENT, "sent", false, 1, SENT, 1},
    {"accepted", ACT_WRITE, SENT, "sent", false, 1, SENT, 1},
    {"synced_draft", ACT_MOVE, -1, NULL, true, 0, -1, 0},
    {"saved_row", ACT_MOVE, -1, NULL, true, 0, -1, 0},
    {"moved_in", ACT_MOVE, SENT, "sent", false, 1, SENT, 1},
    {"handed_in", ACT_MOVE, SENT, "sent", false, 1, SENT, 1},
    {"piece_recorded", ACT_PARTS, SENT, "sent", false, 1, SENT, 1},
    {"recorded_sending", ACT_MOVE, FAILED, "unknown outcome", false, 0, SENT, 1},
    {"answered", ACT_MOVE, FAILED, "unknown outcome", false, 1, SENT, 2},
    {"settled", ACT_MOVE, SENT, "sent", false, 1, SENT, 1},
    {"moved_out", ACT_CANCEL, -1, NULL, true, 0, -1, 0},
    {"removed", ACT_REMOVE, -1, NULL, false, 0, -1, 0},
    {"renamed", ACT_EDIT, SENT, "sent", false, 1, SENT, 1}, /* only the edited text is sent */
    {"flushed", ACT_WRITE_ANSWER, FAILED, "interrupted", false, 0, FAILED, 0},
    {"accepted", ACT_WRITE_ANSWER, SENT, "sent", false, 1, SENT, 1},
    {"saved_row", ACT_MOVE_ANSWER, -1, NULL, true, 0, -1, 0},
    {"moved_in", ACT_MOVE_ANSWER, SENT, "sent", false, 1, SENT, 1},
    {"recorded_sending", ACT_MOVE_ANSWER, FAILED, "unknown outcome", false, 0, SENT, 1},
};

static void check_after(struct fixture *fixture, const struct row *row, bool is_trusted)
{
    static const int folders[] = {OUT, SENT, FAILED};
    int expected = is_trusted ? row->trusted_folder : row->folder;
    int settled = settle(fixture);
    assert_true(settled == 0 || settled == -EAGAIN);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        assert_int_equal(is_listed(fixture, folders[i], "m.eml"), folders[i] == expected);
    assert_int_equal(has_draft(fixture, "m.eml"), row->stays_in_drafts);
    if (expected == row->folder && row->state != NULL) {
        char part[64];
        snprintf(part, sizeof(part), "\"state\": \"%s\"", row->state);
        assert_true(shown_contains(fixture, expected, "m.eml.receipt.json", part));
    }
    bool is_same_key;
    size_t sent = count_sends(fixture, &is_same_key);
    bool was_offline = row->act == ACT_CANCEL || row->act == ACT_REMOVE || row->act == ACT_EDIT;
    assert_int_equal(sent - (was_offline ? 1 : 0), is_trusted ? row->trusted_sends : row->sends);
    assert_true(is_same_key || row->act == ACT_EDIT);
    bool is_repeat = is_trusted && row->state != NULL && strcmp(row->state, "unknown outcome") == 0;
    assert_int_equal(count_calls(fixture, "repeat"), is_repeat ? 1 : 0); /* a repeat always has the key */
    _cleanup_free_ char *calls = read_calls(fixture);
    if (is_answer(row->act) && sent > 0)
        assert_non_null(strstr(calls, "\"existing_email_id\":\"e1\""));
}

static void run_row(const struct row *row, bool is_trusted)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    void *state = fixture;
    struct logging_service logging;
    print_message("# %s%s\n", row->point, is_trusted ? ", keys trusted" : "");
    fixture_prepare(fixture);
    pid_t child = fork();
    if (child == 0)
        die_at(fixture, row->point, row->act, is_trusted);
    expect_killed(child);
    note_calls(&logging, fixture);
    fixture->config.trusts_idempotency = is_trusted;
    fixture_open(fixture);
    check_after(fixture, row, is_trusted);
    fixture_reopen(fixture); /* another restart changes nothing */
    check_after(fixture, row, is_trusted);
    fixture_teardown(&state);
    close(logging.log);
}

TEST(no_crash_loses_repeats_or_truncates_a_message)
{
    for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
        pid_t child = fork();
        if (child == 0) {
            run_row(&rows[i / 2], i % 2 == 1);
            _exit(0);
        }
        expect_success(child, rows[i / 2].point);
    }
}

/* The process died during a request, and the service refuses the repeated request. */
static void refuse_what_may_have_been_sent(void)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    void *state = fixture;
    fixture_prepare(fixture);
    pid_t child = fork();
    if (child == 0)
        die_at(fixture, "answered", ACT_MOVE, true);
    expect_killed(child);
    fixture->config.trusts_idempotency = true;
    fake_service_set(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    fixture_open(fixture);
    await_event(fixture, EVENT_FAILED, "failed/m.eml");
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"state\": \"unknown outcome\""));
    assert_true(fake_service_get(fixture->fake, FAKE_SEND, 0).is_repeat);
    fixture_teardown(&state);
}

TEST(an_unknown_outcome_stays_unknown_when_a_repeat_is_refused)
{
    pid_t child = fork();
    if (child == 0) {
        refuse_what_may_have_been_sent();
        _exit(0);
    }
    expect_success(child, "answered, and refused");
}
