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

struct maildrop {
    int folder;
    int failed_folder;
    maildrop_send_fn *send;
    void *context;
    unsigned int failed_messages;
};

/* Takes a string off the bytes. Returns NULL if the bytes have no NUL. */
static const char *take_string(struct span *bytes)
{
    const char *text = bytes->bytes;
    const char *end = bytes->len > 0 ? memchr(text, '\0', bytes->len) : NULL;
    if (end == NULL)
        return NULL;
    span_skip(bytes, (size_t)(end + 1 - text));
    return text;
}

/* Makes an invocation of a file's content, which its strings point into. The caller frees the array of
 * recipients, but not its strings. Returns 0 or -EBADMSG. */
static int read_message(struct span content, struct invocation *invocation)
{
    const char *flags = take_string(&content);
    const char *sender = take_string(&content);
    const char *name = take_string(&content);
    const char *root = take_string(&content);
    *invocation = (struct invocation){
        .ignores_dots = true, .rewrites_from = true, .is_delegated = true, .is_from_maildrop = true};
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

/* Reads only regular files with one name, as inboxfs-maildrop makes them. Returns a status of sysexits.h. */
static int send_file(const struct maildrop *maildrop, const char *name, uid_t *ret_owner)
{
    struct stat status;
    struct invocation invocation = {.recipients = NULL};
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    _cleanup_close_ int fd =
        openat(maildrop->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? EX_TEMPFAIL : EX_DATAERR;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1)
        return EX_DATAERR;
    *ret_owner = status.st_uid;
    int error = file_read_fd(fd, MAILDROP_FILE_MAX_BYTES, &bytes, &len);
    if (error == 0)
        error = read_message((struct span){bytes, len}, &invocation);
    int result = error == -EBADMSG || error == -EFBIG ? EX_DATAERR : EX_TEMPFAIL;
    if (error == 0)
        result = maildrop->send(maildrop->context, &invocation, name);
    free(invocation.recipients);
    return result;
}

/* Returns true if the message has left the maildrop. */
static bool take_out(struct maildrop *maildrop, const char *name)
{
    uid_t owner = (uid_t)-1;
    switch (send_file(maildrop, name, &owner)) {
    case EX_OK:
        return unlinkat(maildrop->folder, name, 0) == 0;
    case EX_USAGE:
    case EX_DATAERR:
    case EX_NOUSER:
        log_error("the message of user %d is kept as %s/%s", (int)owner, MAILDROP_FAILED, name);
        maildrop->failed_messages++;
        return renameat(maildrop->folder, name, maildrop->failed_folder, name) == 0;
    default:
        return false;
    }
}

int maildrop_run(maildrop_send_fn *send, void *context, unsigned int *ret_failed)
{
    struct stat status;
    struct dirent **entries = NULL;
    _cleanup_close_ int folder = open(MAILDROP_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_close_ int failed = open(MAILDROP_FAILED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct maildrop maildrop = {folder, failed, send, context, 0};
    *ret_failed = 0;
    if (folder < 0 || fstat(folder, &status) != 0 || status.st_uid != geteuid())
        return 0;
    int count = scandirat(folder, ".", &entries, NULL, alphasort);
    bool is_empty = count >= 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.')
            is_empty = take_out(&maildrop, name) && is_empty;
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                 fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                 status.st_mtime < time(NULL) - ABANDONED_AFTER_SECONDS)
            unlinkat(folder, name, 0);
        free(entries[i]);
    }
    free(entries);
    *ret_failed = maildrop.failed_messages;
    return is_empty ? 0 : -EAGAIN;
}
