/* SPDX-License-Identifier: MIT */
/*
 * The file of a message has these strings, each with its NUL: "t" or "" (-t), the sender, the name, --root,
 * the recipients, and an empty string. Then it has the text.
 */
#include "sendmail/maildrop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "sendmail/sendmail.h"

enum {
    ABANDONED_AFTER_SECONDS = 60 * 60, /* the age at which the writer of an incomplete file must have died */
};

/* ---------------------------------------------------------------- leaving a message */

static const char *find_program(void)
{
    /* `make install` and the package install the program in different places. */
    static const char *const programs[] = {"/usr/libexec/inboxfs-maildrop",
                                           "/usr/local/libexec/inboxfs-maildrop"};
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (access(programs[i], X_OK) == 0)
            return programs[i];
    return NULL;
}

bool maildrop_exists(void)
{
    struct stat status;
    return find_program() != NULL && (stat(MAILDROP_FOLDER, &status) == 0 || errno == EACCES);
}

static void append_string(struct strbuf *out, const char *text)
{
    strbuf_append(out, text, strlen(text) + 1);
}

int maildrop_leave(const struct invocation *invocation, const char *text, size_t len)
{
    _cleanup_strbuf_ struct strbuf call = STRBUF_INIT(MAILDROP_FILE_MAX_BYTES);
    _cleanup_close_ int file = memfd_create("message", MFD_CLOEXEC);
    const char *program = find_program();
    if (file < 0 || program == NULL)
        return -errno;
    append_string(&call, invocation->reads_headers ? "t" : "");
    append_string(&call, invocation->sender != NULL ? invocation->sender : "");
    append_string(&call, invocation->name != NULL ? invocation->name : "");
    append_string(&call, invocation->root != NULL ? invocation->root : "");
    for (char **recipient = invocation->recipients; *recipient != NULL; recipient++)
        if (**recipient != '\0')
            append_string(&call, *recipient);
    append_string(&call, "");
    strbuf_append(&call, text, len);
    int error = call.error != 0 ? call.error : file_write_all(file, call.data, call.len);
    if (error != 0)
        return error;
    if (lseek(file, 0, SEEK_SET) == 0 && dup2(file, STDIN_FILENO) >= 0)
        execl(program, program, NULL);
    return -errno;
}

/* ---------------------------------------------------------------- sending the messages */

struct queue_run {
    const struct invocation *invocation; /* the call of -q */
    int folder;
    int failed_folder;
    int mount; /* -1 before the first message; a negative status if the mount cannot be opened */
    unsigned int failed_messages;
};

/* Removes the first string from the bytes, and returns it; NULL if the bytes have no NUL. */
static const char *take_string(struct span *bytes)
{
    const char *text = bytes->bytes;
    const char *end = bytes->len > 0 ? memchr(text, '\0', bytes->len) : NULL;
    if (end == NULL)
        return NULL;
    span_skip(bytes, (size_t)(end + 1 - text));
    return text;
}

/* Parses the content of a file. The strings of the invocation point into the content; the caller frees only
 * the array of recipients. Returns 0 or -EBADMSG. */
static int parse_file(struct span content, struct invocation *invocation)
{
    const char *flags = take_string(&content);
    const char *sender = take_string(&content);
    const char *name = take_string(&content);
    const char *root = take_string(&content);
    *invocation = (struct invocation){.ignores_dots = true, .rewrites_from = true, .is_delegated = true};
    if (root == NULL)
        return -EBADMSG;
    invocation->reads_headers = *flags == 't';
    invocation->sender = *sender != '\0' ? sender : NULL;
    invocation->name = *name != '\0' ? name : NULL;
    invocation->root = *root != '\0' ? root : NULL;
    GPtrArray *recipients = g_ptr_array_new();
    const char *recipient;
    while ((recipient = take_string(&content)) != NULL && *recipient != '\0')
        g_ptr_array_add(recipients, (char *)recipient);
    g_ptr_array_add(recipients, NULL);
    invocation->recipients = (char **)g_ptr_array_free(recipients, false);
    invocation->text = content;
    return recipient != NULL ? 0 : -EBADMSG;
}

/* Sends a message that any user may have left, with anything in it. Returns a status. */
static int send_message(struct queue_run *run, struct invocation *invocation, const char *file_name)
{
    _cleanup_free_ char *name = g_strconcat(file_name, ".eml", NULL);
    if (invocation->root == NULL)
        invocation->root = run->invocation->root;
    if (strlen(file_name) >= MAILDROP_NAME_SIZE)
        return EX_DATAERR;
    if (run->mount == -1) {
        _cleanup_free_ char *reason = NULL;
        run->mount = mount_open(run->invocation, &reason);
        if (run->mount < 0)
            log_error("%s", reason);
    }
    if (run->mount < 0)
        return EX_TEMPFAIL;
    /* After a crash a message that was sent may still be in the maildrop. */
    return mount_has_message(run->mount, name) ? EX_OK : submit_to_mount(invocation, run->mount, name);
}

/* Reads only regular files with one link, as inboxfs-maildrop makes them. Returns a status. */
static int send_file(struct queue_run *run, const char *name, uid_t *ret_owner)
{
    struct stat status;
    struct invocation invocation = {.recipients = NULL};
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    _cleanup_close_ int fd =
        openat(run->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? EX_TEMPFAIL : EX_DATAERR;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1)
        return EX_DATAERR;
    *ret_owner = status.st_uid;
    int error = file_read_fd(fd, MAILDROP_FILE_MAX_BYTES, &bytes, &len);
    if (error == 0)
        error = parse_file((struct span){bytes, len}, &invocation);
    int result = error == -EBADMSG || error == -EFBIG ? EX_DATAERR : EX_TEMPFAIL;
    if (error == 0)
        result = send_message(run, &invocation, name);
    free(invocation.recipients);
    return result;
}

/* Sends a message, and removes its file; moves the file to MAILDROP_FAILED if the message can never be sent.
 * Returns true if the file has left the maildrop. */
static bool send_and_remove(struct queue_run *run, const char *name)
{
    uid_t owner = (uid_t)-1;
    switch (send_file(run, name, &owner)) {
    case EX_OK:
        return unlinkat(run->folder, name, 0) == 0;
    case EX_USAGE:
    case EX_DATAERR:
    case EX_NOUSER:
        log_error("the message of user %d is kept as %s/%s", (int)owner, MAILDROP_FAILED, name);
        run->failed_messages++;
        return renameat(run->folder, name, run->failed_folder, name) == 0;
    default:
        return false;
    }
}

/* Mails root about the failed messages, whose senders got status 0, if root has an address by an alias. */
static void report_failed(const struct queue_run *run)
{
    char name[MESSAGE_NAME_SIZE];
    char *no_recipient = NULL;
    _cleanup_free_ char *text = g_strdup_printf(
        "To: root\nSubject: Mail of this machine could not be sent\nAuto-Submitted: auto-generated\n\n"
        "%u messages that users of this machine left could not be sent. They are kept in\n%s\n"
        "The journal has the reasons: journalctl -u inboxfs-mta.service\n",
        run->failed_messages, MAILDROP_FAILED);
    const struct invocation invocation = {.root = run->invocation->root,
                                          .reads_headers = true,
                                          .ignores_dots = true,
                                          .recipients = &no_recipient,
                                          .text = {text, strlen(text)}};
    mount_make_name(name);
    submit_to_mount(&invocation, run->mount, name);
}

int maildrop_send_all(const struct invocation *invocation)
{
    struct stat status;
    struct dirent **entries = NULL;
    _cleanup_close_ int folder = open(MAILDROP_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_close_ int failed = open(MAILDROP_FAILED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct queue_run run = {invocation, folder, failed, -1, 0};
    if (folder < 0 || fstat(folder, &status) != 0 || status.st_uid != geteuid())
        return EX_OK;
    (void)flock(folder, LOCK_EX); /* two runs at once would send a message twice */
    int count = scandirat(folder, ".", &entries, NULL, alphasort);
    bool is_empty = count >= 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.')
            is_empty = send_and_remove(&run, name) && is_empty;
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                 fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                 status.st_mtime < time(NULL) - ABANDONED_AFTER_SECONDS)
            unlinkat(folder, name, 0);
        free(entries[i]);
    }
    free(entries);
    if (run.failed_messages > 0 && run.mount >= 0)
        report_failed(&run);
    cleanup_close(&run.mount);
    return is_empty ? EX_OK : EX_TEMPFAIL;
}
