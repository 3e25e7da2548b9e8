/* SPDX-License-Identifier: MIT */
/*
 * inboxfs-sendmail: what programs that send mail call `sendmail`, on a mount of inboxfs. The message on
 * standard input is read whole, its recipients are settled, and it is moved into outbox/ by a rename, whose
 * result is that of the outbox's own check. So the exit status says whether the message is accepted; it is
 * durable by then, and nobody waits for the service.
 *
 * The service sends to whom the headers of a message name, and to nobody else. So the recipients that a
 * program gives (the envelope, RFC 5321) and those of its headers must agree: whom it gives besides becomes
 * Bcc, and a header that names anybody who was not given is refused, for mail would go to somebody whom the
 * program did not ask for. With -t the headers are the envelope.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/file.h"
#include "base/mountinfo.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/draft.h"
#include "mail/mime.h"
#include "sendmail_maildrop.h"
#include "sendmail_smtp.h"

enum {
    LINE_MAX_BYTES = 2048,
    MESSAGE_MAX_BYTES = DRAFT_MAX_BYTES - 1000 * 1000, /* what is added below fits into a draft besides */
    ALIASES_MAX_BYTES = 1000 * 1000,
    ALIAS_DEPTH_MAX = 10, /* aliases of aliases */
    HOST_LINES_MAX = 1000 * 1000,
    HOST_NAMES_MAX_BYTES = 64 * 1024,
    EVENTS_TAIL_BYTES = 64 * 1024,
    RECEIPT_MAX_BYTES = 64 * 1000 * 1000,
    SYSTEM_UID_MAX = 999, /* accounts of programs, as most systems number them */
};

struct invocation {
    const char *mount;     /* --mount, else INBOXFS_MOUNT; NULL: the only one that is trusted */
    const char *aliases;   /* a file as /etc/aliases */
    const char *root;      /* who gets mail for local names without an alias; or NULL */
    const char *sender;    /* -f, or NULL */
    const char *name;      /* -F, or NULL */
    bool reads_headers;    /* -t: recipients are in the headers, too */
    bool ignores_dots;     /* -i: a line of a dot is text */
    bool lists_queue;      /* -bp */
    bool speaks_smtp;      /* -bs */
    bool makes_aliases;    /* -bi, -I: nothing is to be done, for the alias file is read each time */
    bool waits;            /* --wait */
    bool runs_queue;       /* -q: what waits in the maildrop; the mount sends by itself */
    bool rewrites_from;    /* --rewrite-from */
    bool is_delegated;     /* another user runs it with our rights, which are to send and no more */
    bool is_from_maildrop; /* the message was left in the maildrop */
    char **recipients;     /* NULL behind the last */
};

struct input_message {
    struct strbuf text; /* what was read; its line ends are LF */
    struct span header; /* its fields */
    struct span body;   /* behind the blank line */
};

/* ---------------------------------------------------------------- words */

/* Says why, and returns the exit status. The words are strangers', too. */
static int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int complain(int status, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list values;
    va_start(values, format);
    character_format_plain(line, sizeof(line), format, values);
    va_end(values);
    fprintf(stderr, "inboxfs-sendmail: %s\n", line);
    return status;
}

static int complain_of_memory(void)
{
    return complain(EX_TEMPFAIL, "out of memory");
}

static const char usage[] =
    "Usage: inboxfs-sendmail [OPTIONS] [--] [ADDRESS...] < MESSAGE\n"
    "       inboxfs-sendmail -bp | -bs\n"
    "\n"
    "Hands a message to the outbox of an inboxfs mount, as sendmail does.\n"
    "\n"
    "  -t               send to those whom the headers name, too\n"
    "  -i, -oi          a line of a single dot does not end the message\n"
    "  -f, -r ADDRESS   who sends it, where the message has no usable From\n"
    "  -F NAME          the sender's name, likewise\n"
    "  -bp              list what waits to be sent (also as mailq)\n"
    "  -q               hand in what waits in the maildrop, as its owner\n"
    "  -bs              speak SMTP on standard input and output\n"
    "  -bi, -I          do nothing, as newaliases\n"
    "  --mount=DIR      the mount (default $INBOXFS_MOUNT, else the only trusted one)\n"
    "  --aliases=FILE   addresses for local names (default /etc/aliases)\n"
    "  --root=ADDRESS   who gets the mail of local names without an alias\n"
    "  --rewrite-from   let the mount's sender stand in for a From that is no inbox\n"
    "  --wait           wait until the service has it, and print its id\n"
    "  --help, --version\n"
    "\n"
    "-A -B -bm -C -c -D -d -E -e -G -h -L -M -m -N -n -O -o -p -Q -R -S -s -T -U -V -v\n"
    "-X -x, which other sendmails have, are taken with their arguments and passed over.\n";

/* ---------------------------------------------------------------- arguments */

/* -1: go on; else the exit status. */
static int set_mode(const char *mode, struct invocation *invocation)
{
    if (strcmp(mode, "p") == 0)
        invocation->lists_queue = true;
    else if (strcmp(mode, "s") == 0)
        invocation->speaks_smtp = true;
    else if (strcmp(mode, "i") == 0)
        invocation->makes_aliases = true;
    else if (strcmp(mode, "m") != 0)
        return complain(EX_USAGE, "-b%s is not supported: there is no SMTP server, and no test of addresses",
                        mode);
    return -1;
}

/* Other sendmails take an argument behind some of these only where it is attached. Exim wants it to follow
 * some, as in "-oMr local". */
static void take_flag(struct invocation *invocation, char *const *argv)
{
    static const char *const followed[] = {"A",   "P",  "X",  "Ma", "Maa", "Mai",
                                           "Mas", "Mi", "Mm", "Mr", "Ms",  "Mt"};
    if (strcmp(optarg, "i") == 0)
        invocation->ignores_dots = true;
    for (size_t i = 0; i < ARRAY_LEN(followed); i++)
        if (strcmp(optarg, followed[i]) == 0 && argv[optind] != NULL) {
            optind++;
            return;
        }
}

/* An argument that a line of sudoers fixes cannot be followed by another. -1: go on; else the exit status. */
static int take_once(const char *name, const char **value)
{
    if (*value != NULL)
        return complain(EX_USAGE, "--%s is given twice", name);
    *value = optarg;
    return -1;
}

/* -1: go on; else the exit status. */
static int take_aliases(struct invocation *invocation)
{
    if (invocation->is_delegated)
        return complain(EX_USAGE, "--aliases is not for who sends with another user's rights (sudo)");
    return take_once("aliases", &invocation->aliases);
}

static int parse_arguments(int argc, char **argv, struct invocation *invocation)
{
    enum {
        MOUNT = UCHAR_MAX + 1,
        ALIASES,
        ROOT,
        REWRITE_FROM,
        WAIT,
        HELP,
        VERSION,
    };
    static const struct option options[] = {
        {"mount", required_argument, NULL, MOUNT}, {"aliases", required_argument, NULL, ALIASES},
        {"root", required_argument, NULL, ROOT},   {"rewrite-from", no_argument, NULL, REWRITE_FROM},
        {"wait", no_argument, NULL, WAIT},         {"help", no_argument, NULL, HELP},
        {"version", no_argument, NULL, VERSION},   {NULL, 0, NULL, 0},
    };
    static const char short_options[] =
        "+A:B:C:D:EF:GIL:M:N:O:Q::R:STUV:X:b:cd::e:f:h:imno:p:q::r:stvx"; /* of Postfix, sendmail and Exim */
    int option;
    int status = -1;
    while (status < 0 && (option = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
        if (option == MOUNT)
            status = take_once("mount", &invocation->mount);
        else if (option == ALIASES)
            status = take_aliases(invocation);
        else if (option == ROOT)
            status = take_once("root", &invocation->root);
        else if (option == REWRITE_FROM)
            invocation->rewrites_from = true;
        else if (option == WAIT)
            invocation->waits = true;
        else if (option == 'f' || option == 'r')
            invocation->sender = optarg;
        else if (option == 'F')
            invocation->name = optarg;
        else if (option == 't')
            invocation->reads_headers = true;
        else if (option == 'q')
            invocation->runs_queue = true;
        else if (option == 'i')
            invocation->ignores_dots = true;
        else if (option == 'o')
            take_flag(invocation, argv);
        else if (option == 'b')
            status = set_mode(optarg, invocation);
        else if (option == 'I')
            invocation->makes_aliases = true;
        else if (option == HELP || option == VERSION) {
            fputs(option == HELP ? usage : "inboxfs-sendmail " INBOXFS_VERSION "\n", stdout);
            return EX_OK;
        } else if (option == '?')
            return complain(EX_USAGE, "try --help");
    }
    invocation->recipients = argv + optind;
    return status;
}

/* ---------------------------------------------------------------- the mount */

/* Folders of these names elsewhere would take the message, and nobody would send it. */
static bool is_mount(int fd)
{
    struct statfs file_system;
    return fstatfs(fd, &file_system) == 0 && file_system.f_type == FUSE_SUPER_MAGIC &&
           faccessat(fd, "outbox", X_OK, 0) == 0 && faccessat(fd, "drafts", X_OK, 0) == 0;
}

/* The path may lead elsewhere meanwhile: to what was mounted over it, or over a folder above it. */
static bool is_of_device(int fd, dev_t device)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && stat.st_dev == device;
}

/* Whether mail may go there unasked: any user can mount something of this type, and let root in. */
static bool is_trusted(const struct mount *mount)
{
    return mount->owner == geteuid() || (mount->owner >= 0 && mount->owner <= SYSTEM_UID_MAX);
}

/* Opens the only mount that this user can look into. -1: *ret_status is the exit status, with the reason. */
static int open_only_mount(int *ret_status, const char **ret_reason)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    _cleanup_close_ int found = -1;
    bool is_denied = false;
    *ret_status = EX_TEMPFAIL;
    *ret_reason = "cannot read /proc/self/mountinfo";
    if (mountinfo_list(MOUNTINFO_INBOXFS, &mounts) != 0)
        return -1;
    for (const struct mount *mount = mounts; mount->path != NULL; mount++) {
        int fd = is_trusted(mount) ? open(mount->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        is_denied = is_denied || !is_trusted(mount) || (fd < 0 && errno == EACCES);
        if (fd >= 0 && (!is_of_device(fd, mount->device) || !is_mount(fd))) { /* it ended, or is hidden */
            close(fd);
            continue;
        }
        if (fd >= 0 && found >= 0) {
            close(fd);
            *ret_status = EX_USAGE;
            *ret_reason = "several accounts are mounted: name one by --mount=DIR or INBOXFS_MOUNT";
            return -1;
        }
        if (fd >= 0)
            found = fd;
    }
    *ret_status = is_denied ? EX_NOPERM : EX_TEMPFAIL;
    *ret_reason = is_denied ? "the inboxfs mount is another user's, or another group's: to use it all the "
                              "same, name it by --mount=DIR"
                            : "no inboxfs is mounted";
    return TAKE_FD(found);
}

static int open_named_mount(const char *path, int *ret_status)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        *ret_status =
            complain(errno == EACCES ? EX_NOPERM : EX_TEMPFAIL, "%s: %s", path, strerrordesc_np(errno));
        return -1;
    }
    if (!is_mount(fd)) {
        *ret_status = complain(EX_TEMPFAIL, "%s: no inboxfs is mounted there", path);
        return -1;
    }
    return TAKE_FD(fd);
}

/* The mount's root folder. -1: *ret_status is the exit status. */
static int open_mount(const struct invocation *invocation, int *ret_status)
{
    const char *reason = NULL;
    if (invocation->mount != NULL)
        return open_named_mount(invocation->mount, ret_status);
    int fd = open_only_mount(ret_status, &reason);
    if (fd < 0)
        complain(*ret_status, "%s", reason);
    return fd;
}

/* ---------------------------------------------------------------- reading the message */

/* Makes line ends LF, and cuts off at a line of a single dot unless these are text. */
static void normalise_lines(struct strbuf *text, bool ignores_dots)
{
    if (text->len == 0)
        return;
    char *to = text->data;
    const char *end = text->data + text->len;
    for (const char *line = text->data; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *text_end = newline != NULL ? newline : end;
        size_t len = (size_t)(text_end - line);
        if (len > 0 && newline != NULL && line[len - 1] == '\r')
            len--;
        if (!ignores_dots && len == 1 && *line == '.')
            break;
        memmove(to, line, len);
        to += len;
        if (newline != NULL)
            *to++ = '\n';
        line = newline != NULL ? newline + 1 : end;
    }
    strbuf_truncate(text, (size_t)(to - text->data));
}

/* Of a field's name. RFC 5322 has any visible characters; but a first line that begins otherwise than a word,
 * and any that begins as JSON or a path, is a text: `{"a": 1}`, "/bin/sh: not found". */
#define BEGINS_FIRST_FIELD "-_."
#define BEGINS_FIELD "-_.!#$%&'*+^`|~"

/* Takes a field off the text. Its name begins with a letter, a digit, or one of `marks`. */
static bool take_field(struct span *text, const char *marks, struct mime_field *ret_field)
{
    return text->len > 0 && (isalnum((unsigned char)*text->bytes) || strchr(marks, *text->bytes) != NULL) &&
           mime_take_field(text, ret_field);
}

/* The headers are the lines at the beginning that are fields, behind a byte order mark and a line of a
 * mailbox. A text without any is a body. */
static void split_message(struct input_message *message)
{
    struct mime_field field;
    struct span rest = {strbuf_str(&message->text), message->text.len};
    message->body = rest;
    if (span_begins_with(rest, "\uFEFF"))
        span_skip(&rest, strlen("\uFEFF"));
    message->header.bytes = rest.bytes;
    bool begins_field = take_field(&rest, BEGINS_FIRST_FIELD, &field); /* "From : a@x" */
    if (!begins_field && (span_begins_with(rest, "From ") || span_begins_with(rest, ">From "))) {
        mime_take_line(&rest);
        message->header.bytes = rest.bytes;
        message->body = rest;
    }
    while (begins_field || take_field(&rest, BEGINS_FIELD, &field)) {
        begins_field = false;
        message->body = rest;
    }
    message->header.len = (size_t)(rest.bytes - message->header.bytes);
    if (span_begins_with(message->body, "\n"))
        span_skip(&message->body, 1);
}

/* Takes the message out of message->text. */
static int take_message(const struct invocation *invocation, struct input_message *message)
{
    if (memchr(strbuf_str(&message->text), '\0', message->text.len) != NULL)
        return complain(EX_DATAERR, "the message holds NUL bytes");
    normalise_lines(&message->text, invocation->ignores_dots);
    split_message(message);
    return EX_OK;
}

static int read_message(const struct invocation *invocation, struct input_message *message)
{
    message->text.max_bytes = MESSAGE_MAX_BYTES;
    int error = strbuf_read_to_end(&message->text, STDIN_FILENO);
    if (error == -EMSGSIZE)
        return complain(EX_DATAERR, "the message is over %d bytes", MESSAGE_MAX_BYTES);
    if (error != 0)
        return complain(EX_TEMPFAIL, "cannot read the message: %s", strerrordesc_np(-error));
    return take_message(invocation, message);
}

static bool is_field(const struct mime_field *field, const char *name)
{
    return field->name.len == strlen(name) && strncasecmp(field->name.bytes, name, field->name.len) == 0;
}

/* The caller frees; NULL without memory. */
static char *copy_span(struct span span)
{
    return strndup(span.bytes, span.len);
}

/* ---------------------------------------------------------------- this machine's addresses */

/* Programs make addresses of a local name and the machine's name. Nobody elsewhere may know that machine; or
 * its name is a domain that has other addresses, too. The names come from files alone, for a look-up in the
 * DNS could take a minute. */
enum host {
    HOST_OTHER,
    HOST_LOCAL, /* without a domain, "localhost", or the machine's name without dots: known here alone */
    HOST_NAMED, /* the full name, or that of /etc/mailname */
};

/* No address has it. The reader puts it behind a local name. */
#define NO_DOMAIN "localhost."

struct machine {
    char name[HOST_NAME_MAX + 1];
    struct strbuf other_names; /* the lines of /etc/hosts that have the name, and /etc/mailname */
};

/* Returns true if the line has the word, before a comment. */
static bool line_has(const char *line, const char *word)
{
    size_t line_end = strcspn(line, "#\r\n");
    size_t word_len = strlen(word);
    for (size_t at = 0; at < line_end;) {
        size_t len = strcspn(line + at, " \t#\r\n");
        if (len == word_len && len > 0 && strncasecmp(line + at, word, len) == 0)
            return true;
        at += len + 1;
    }
    return false;
}

/* Keeps the lines that have the word (NULL: all), as "127.0.1.1 box.example.com box". */
static void keep_lines(struct machine *machine, const char *path, const char *word)
{
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "re");
    for (unsigned int i = 0; file != NULL && i < HOST_LINES_MAX && fgets(line, sizeof(line), file) != NULL;
         i++)
        if (word == NULL || line_has(line, word))
            strbuf_appendf(&machine->other_names, "%s\n", line);
    if (file != NULL)
        fclose(file);
}

static void machine_init(struct machine *machine)
{
    *machine = (struct machine){.other_names = STRBUF_INIT(HOST_NAMES_MAX_BYTES)};
    if (gethostname(machine->name, sizeof(machine->name) - 1) != 0)
        machine->name[0] = '\0';
    keep_lines(machine, "/etc/hosts", machine->name);
    keep_lines(machine, "/etc/mailname", NULL);
}

static bool is_other_name(const struct machine *machine, const char *domain)
{
    for (const char *line = strbuf_str(&machine->other_names); line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (line_has(line, domain))
            return true;
    }
    return false;
}

static enum host find_host(const struct machine *machine, const char *domain)
{
    size_t first_label = strcspn(machine->name, ".");
    if (strcasecmp(domain, NO_DOMAIN) == 0 || strcasecmp(domain, "localhost") == 0 ||
        strcasecmp(domain, "localhost.localdomain") == 0)
        return HOST_LOCAL;
    bool is_own = strcasecmp(domain, machine->name) == 0 ||
                  (strlen(domain) == first_label && strncasecmp(domain, machine->name, first_label) == 0) ||
                  is_other_name(machine, domain);
    return !is_own ? HOST_OTHER : strchr(domain, '.') == NULL ? HOST_LOCAL : HOST_NAMED;
}

/* Letters of either case are the same in an address; a service keeps them small. */
static bool is_inbox(int mount, const char *address)
{
    char path[NAME_MAX + sizeof("inboxes/")];
    struct stat status;
    if (mount < 0 || !address_is_folder_name(address))
        return false;
    snprintf(path, sizeof(path), "inboxes/%s", address);
    if (fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    for (char *at = path; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---------------------------------------------------------------- addresses and local names */

/* How local names become addresses: by a file as aliases(5), NAME: ADDRESS, ADDRESS ... Lines that begin with
 * a blank go on. */
struct local_names {
    const struct machine *machine;
    int mount;  /* its inboxes are no local names; -1: there is no mount */
    char *text; /* NULL: there is no file */
    const char *path;
    const char *root;
    bool defers_names; /* who has the mount knows for whom the others stand */
};

static int read_aliases(const struct invocation *invocation, struct local_names *names)
{
    size_t len = 0;
    const char *path = invocation->aliases != NULL ? invocation->aliases : "/etc/aliases";
    names->path = path;
    names->root = invocation->root;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd >= 0 ? file_read_fd(fd, ALIASES_MAX_BYTES, &names->text, &len) : -errno;
    if (error == 0 || (invocation->aliases == NULL && (error == -ENOENT || error == -EACCES)))
        return EX_OK;
    return complain(EX_TEMPFAIL, "%s: %s", path, strerrordesc_np(-error));
}

/* The value of a name's line; the caller frees. NULL: it has none, or there is no memory. */
static char *find_alias(const struct local_names *names, const char *name)
{
    struct span rest = {names->text, names->text != NULL ? strlen(names->text) : 0};
    struct mime_field field;
    while (rest.len > 0)
        if (!take_field(&rest, BEGINS_FIRST_FIELD, &field))
            mime_take_line(&rest);
        else if (is_field(&field, name))
            return copy_span(field.value);
    return NULL;
}

/* Programs, files and lists in an alias file are none. */
static bool is_local_name(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");
    return len > 0 && len < 64 && text[len] == '\0' && text[0] != '-';
}

/* A list of recipients. Errors show none of the text of a file: the caller may have no right to read it. */
struct recipients_source {
    const char *text;
    const char *name; /* the caller's local name for which the text stands; NULL: the text is the caller's */
    unsigned int depth; /* of aliases */
};

static int add_recipients(const struct local_names *names, struct recipients_source source,
                          struct address_list *list);

static int complain_of_part(const struct local_names *names, struct recipients_source source,
                            const char *part)
{
    if (source.name != NULL)
        return complain(EX_DATAERR, "what %s stands for, by %s or --root, is not an email address",
                        source.name, names->path);
    return complain(EX_DATAERR, "not an email address: %s", part);
}

static bool has_address(const struct address_list *list, const char *address)
{
    for (size_t i = 0; i < list->len; i++)
        if (address_equals(list->items[i].address, address))
            return true;
    return false;
}

/* Once, however often it is named, by aliases too. */
static int append_recipient(const struct address *address, struct address_list *list)
{
    if (has_address(list, address->address))
        return EX_OK;
    return address_list_append(list, address->address, address->name) == 0 ? EX_OK : complain_of_memory();
}

/* A local name for which nothing stands. */
static int add_unknown_name(const struct local_names *names, const char *name, const char *given_name,
                            struct address_list *list)
{
    char address[ADDRESS_MAX_BYTES + 1];
    snprintf(address, sizeof(address), "%s@localhost", name);
    if (names->defers_names)
        return append_recipient(&(struct address){.address = address}, list);
    return complain(EX_NOUSER, "%s is no email address: give it one in %s, or use --root=ADDRESS", given_name,
                    names->path);
}

/* Appends those for whom the local name stands. At a domain (`is_of_domain`), root and the names in the alias
 * file are known to be local ones; any other name may be somebody's address elsewhere. */
static int add_local_name(const struct local_names *names, const char *name, bool is_of_domain,
                          struct recipients_source from, struct address_list *list, bool *ret_is_known)
{
    _cleanup_free_ char *alias = find_alias(names, name);
    struct recipients_source source = {alias, from.name != NULL ? from.name : name, from.depth + 1};
    struct local_names root_only = {.machine = names->machine,
                                    .mount = names->mount,
                                    .path = names->path,
                                    .defers_names = names->defers_names};
    *ret_is_known = alias != NULL || !is_of_domain || strcasecmp(name, "root") == 0;
    if (!*ret_is_known)
        return EX_OK;
    if (alias == NULL)
        source.text = names->root;
    if (source.text != NULL && from.depth < ALIAS_DEPTH_MAX)
        return add_recipients(alias != NULL ? names : &root_only, source, list);
    return add_unknown_name(names, name, source.name, list);
}

static int add_recipient(const struct local_names *names, const struct address *address,
                         struct recipients_source source, struct address_list *list)
{
    const char *at = strrchr(address->address, '@');
    enum host host = find_host(names->machine, at + 1);
    bool is_alone = strcmp(at + 1, NO_DOMAIN) == 0;
    if (host == HOST_OTHER || (!is_alone && is_inbox(names->mount, address->address)))
        return append_recipient(address, list);
    _cleanup_free_ char *name = strndup(address->address, (size_t)(at - address->address));
    if (name == NULL)
        return complain_of_memory();
    bool is_known = false;
    if (!is_local_name(name)) {
        if (host == HOST_LOCAL)
            return complain_of_part(names, source, is_alone ? name : address->address);
    } else {
        int status = add_local_name(names, name, host == HOST_NAMED, source, list, &is_known);
        if (is_known)
            return status;
    }
    return append_recipient(address, list);
}

/* Appends those whom a list names, local names by their aliases. EX_OK, or the exit status. */
static int add_recipients(const struct local_names *names, struct recipients_source source,
                          struct address_list *list)
{
    struct address_list named = {0};
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse_at(&named, source.text, NO_DOMAIN, &refused);
    int status = error == -EBADMSG    ? complain_of_part(names, source, refused != NULL ? refused : "")
                 : error == -EMSGSIZE ? complain(EX_DATAERR, "too many recipients")
                 : error != 0         ? complain_of_memory()
                                      : EX_OK;
    for (size_t i = 0; i < named.len && status == EX_OK; i++)
        status = add_recipient(names, &named.items[i], source, list);
    address_list_release(&named);
    return status;
}

/* ---------------------------------------------------------------- the message for the outbox */

/* As it stands, but for blanks before the colon, which no message may have now. */
static void append_field(struct strbuf *out, const struct mime_field *field)
{
    strbuf_append(out, field->name.bytes, field->name.len);
    strbuf_append_char(out, ':');
    strbuf_append(out, field->value.bytes, field->value.len);
    if (field->line.bytes[field->line.len - 1] != '\n')
        strbuf_append_char(out, '\n');
}

static void append_quoted(struct strbuf *out, const char *text)
{
    strbuf_append_char(out, '"');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            strbuf_append_char(out, '\\');
        strbuf_append_char(out, (unsigned char)*at < ' ' ? ' ' : *at);
    }
    strbuf_append_char(out, '"');
}

static void append_address(struct strbuf *out, const struct address *address)
{
    if (address->name == NULL) {
        strbuf_append_str(out, address->address);
        return;
    }
    append_quoted(out, address->name);
    strbuf_appendf(out, " <%s>", address->address);
}

/* Writes "NAME: a@x, b@y" of the addresses that `without` lacks (NULL: of all); nothing where there are none.
 */
static void append_addresses(struct strbuf *out, const char *name, const struct address_list *list,
                             const struct address_list *without)
{
    size_t count = 0;
    for (size_t i = 0; i < list->len; i++) {
        if (without != NULL && has_address(without, list->items[i].address))
            continue;
        if (count++ == 0)
            strbuf_appendf(out, "%s: ", name);
        else
            strbuf_append_str(out, ",\n ");
        append_address(out, &list->items[i]);
    }
    if (count > 0)
        strbuf_append_char(out, '\n');
}

/* Returns true if the list as it was written names these addresses, and no others. */
static bool names_the_same(const char *text, const struct address_list *list)
{
    struct address_list named = {0};
    bool is_same = address_list_parse(&named, text, NULL) == 0 && named.len == list->len;
    for (size_t i = 0; i < named.len && is_same; i++)
        is_same = strcmp(named.items[i].address, list->items[i].address) == 0;
    address_list_release(&named);
    return is_same;
}

/* A header's To, Cc or Bcc: as it stands where that is a list of addresses; else of what its local names
 * stand for. */
static int append_recipients(struct strbuf *out, const struct mime_field *field,
                             const struct local_names *names, struct address_list *named)
{
    _cleanup_free_ char *value = copy_span(field->value);
    _cleanup_free_ char *name = copy_span(field->name);
    struct address_list list = {0};
    if (value == NULL || name == NULL)
        return complain_of_memory();
    int status = add_recipients(names, (struct recipients_source){.text = value}, &list);
    if (status == EX_OK && names_the_same(value, &list))
        append_field(out, field);
    else if (status == EX_OK)
        append_addresses(out, name, &list, NULL);
    for (size_t i = 0; i < list.len && status == EX_OK; i++)
        if (address_list_append(named, list.items[i].address, NULL) != 0)
            status = complain_of_memory();
    address_list_release(&list);
    return status;
}

/* Returns true if the mount's sender has to stand in for this one. An address of this machine is nobody's,
 * and the service lets nobody send from it. */
static bool is_to_be_rewritten(const struct invocation *invocation, const struct local_names *names,
                               const char *address)
{
    return names->mount >= 0 && !is_inbox(names->mount, address) &&
           (invocation->rewrites_from || find_host(names->machine, strrchr(address, '@') + 1) != HOST_OTHER);
}

/* The one address of a From, or of -f; false: it is none. */
static bool read_sender(const char *text, struct address_list *list)
{
    if (address_list_parse_at(list, text, NO_DOMAIN, NULL) == 0 && list->len == 1)
        return true;
    address_list_release(list);
    return false;
}

static bool has_domain(const char *address)
{
    return strcmp(strrchr(address, '@') + 1, NO_DOMAIN) != 0;
}

/* Returns true if the From can stay. Cron's "root (Cron Daemon)" is no address, and is replaced, as is
 * mdadm's "root@box": *ret_sender has the address then, if there is one. */
static bool is_usable_from(const struct invocation *invocation, const struct local_names *names,
                           const struct mime_field *field, struct address_list *ret_sender)
{
    _cleanup_free_ char *value = copy_span(field->value);
    struct address_list several = {0};
    if (value == NULL)
        return false;
    bool is_usable = read_sender(value, ret_sender)
                         ? has_domain(ret_sender->items[0].address) &&
                               !is_to_be_rewritten(invocation, names, ret_sender->items[0].address)
                         : address_list_parse(&several, value, NULL) == 0 && several.len > 1;
    address_list_release(&several);
    if (is_usable)
        address_list_release(ret_sender);
    return is_usable;
}

/* Reply-To: whoever answers reaches the address for which another one stands in. One of this machine alone
 * reaches nobody. */
static void append_reply_to(struct strbuf *out, const struct local_names *names, const struct address *from,
                            const char *sender)
{
    if (find_host(names->machine, strrchr(from->address, '@') + 1) == HOST_LOCAL ||
        (sender != NULL && address_equals(from->address, sender)))
        return;
    strbuf_append_str(out, "Reply-To: ");
    append_address(out, from);
    strbuf_append_char(out, '\n');
}

/* From -f and -F, or the name of the From that cannot stay (`from`, or NULL). Without a usable address in -f
 * the mount's own sender stands in. */
static void append_from(struct strbuf *out, const struct invocation *invocation,
                        const struct local_names *names, const struct address *from, bool has_reply_to)
{
    struct address_list list = {0};
    const char *sender = NULL;
    if (invocation->sender != NULL && read_sender(invocation->sender, &list) &&
        has_domain(list.items[0].address) && !is_to_be_rewritten(invocation, names, list.items[0].address))
        sender = list.items[0].address;
    if (sender != NULL) {
        const char *name = from != NULL && from->name != NULL ? from->name : invocation->name;
        strbuf_append_str(out, "From: ");
        append_quoted(out, name != NULL ? name : "");
        strbuf_appendf(out, " <%s>\n", sender);
    }
    if (from != NULL && !has_reply_to)
        append_reply_to(out, names, from, sender);
    address_list_release(&list);
}

/* A field that names no recipients, and is not From. */
static int append_other_field(struct strbuf *out, const struct invocation *invocation,
                              const struct mime_field *field)
{
    if (invocation->reads_headers && !invocation->is_from_maildrop &&
        strncasecmp(field->name.bytes, "Resent-", 7) == 0)
        return complain(EX_DATAERR, "a message that is resent (%.*s) cannot be sent by its headers",
                        (int)field->name.len, field->name.bytes);
    if (invocation->is_delegated && is_field(field, "Attach"))
        return complain(EX_DATAERR, "Attach: takes files of the mount's owner: it is not for who sends with "
                                    "another user's rights (sudo, inboxfs-mta)");
    append_field(out, field);
    return EX_OK;
}

static bool is_recipients_field(const struct mime_field *field)
{
    return is_field(field, "To") || is_field(field, "Cc") || is_field(field, "Bcc");
}

static int append_headers(struct strbuf *out, const struct invocation *invocation,
                          const struct local_names *names, const struct input_message *message,
                          struct address_list *named)
{
    struct address_list from = {0}; /* that cannot stay */
    bool has_from = false;
    bool has_reply_to = false;
    int status = EX_OK;
    struct span rest = message->header;
    struct mime_field field;
    while (status == EX_OK && mime_take_field(&rest, &field)) {
        has_reply_to = has_reply_to || is_field(&field, "Reply-To");
        if (is_recipients_field(&field)) {
            status = append_recipients(out, &field, names, named);
        } else if (!is_field(&field, "From")) {
            status = append_other_field(out, invocation, &field);
        } else if (is_usable_from(invocation, names, &field, &from)) {
            has_from = true;
            append_field(out, &field);
        }
    }
    if (!has_from && status == EX_OK)
        append_from(out, invocation, names, from.len > 0 ? from.items : NULL, has_reply_to);
    address_list_release(&from);
    return status;
}

/* `named`: who stands in the headers; `given`: who stands among the arguments. */
static int check_recipients(const struct invocation *invocation, const struct input_message *message,
                            const struct address_list *named, const struct address_list *given)
{
    if (given->len == 0 && (!invocation->reads_headers || named->len == 0))
        return complain(invocation->reads_headers ? EX_DATAERR : EX_USAGE, "no recipient is named");
    for (size_t i = 0; i < named->len && !invocation->reads_headers; i++) {
        const char *address = named->items[i].address;
        if (has_address(given, address))
            continue;
        bool is_alias = strcasestr(strbuf_str(&message->text), address) == NULL;
        return complain(EX_DATAERR,
                        "%s stands in the headers and is not among the recipients given; all whom the "
                        "headers name would get it: nothing is sent",
                        is_alias ? "a local name" : address);
    }
    return EX_OK;
}

/* Those given whom no header names. A message without recipients in its headers, and for one, gets a To, as
 * sendmail adds it: that one alone sees it. */
static void append_given(struct strbuf *out, const struct input_message *message,
                         const struct address_list *given, const struct address_list *named)
{
    bool has_field = false;
    struct span rest = message->header;
    struct mime_field field;
    while (mime_take_field(&rest, &field))
        has_field = has_field || is_recipients_field(&field);
    append_addresses(out, !has_field && given->len == 1 ? "To" : "Bcc", given, named);
}

static int compose_with(const struct invocation *invocation, const struct local_names *names,
                        const struct input_message *message, struct strbuf *out)
{
    struct address_list given = {0};
    struct address_list named = {0};
    int status = EX_OK;
    for (char **recipient = invocation->recipients; *recipient != NULL && status == EX_OK; recipient++)
        status = add_recipients(names, (struct recipients_source){.text = *recipient}, &given);
    if (status == EX_OK)
        status = append_headers(out, invocation, names, message, &named);
    if (status == EX_OK)
        status = check_recipients(invocation, message, &named, &given);
    append_given(out, message, &given, &named);
    strbuf_append_char(out, '\n');
    strbuf_append(out, message->body.bytes, message->body.len);
    address_list_release(&given);
    address_list_release(&named);
    return status;
}

static int compose(const struct invocation *invocation, int mount, const struct input_message *message,
                   struct strbuf *out)
{
    struct machine machine;
    struct local_names names = {.machine = &machine, .mount = mount, .defers_names = mount < 0};
    machine_init(&machine);
    int status = read_aliases(invocation, &names);
    if (status == EX_OK)
        status = compose_with(invocation, &names, message, out);
    free(names.text);
    strbuf_release(&machine.other_names);
    if (status != EX_OK || out->error == 0)
        return status;
    return out->error == -EMSGSIZE
               ? complain(EX_DATAERR, "the message and its recipients are over %d bytes", DRAFT_MAX_BYTES)
               : complain_of_memory();
}

/* ---------------------------------------------------------------- handing in */

/* The words in which the mount refused `path`: the last of its events that tell of it. NULL: none does. */
static char *find_reason(int mount, const char *path)
{
    _cleanup_close_ int fd = openat(mount, "events.jsonl", O_RDONLY | O_CLOEXEC);
    char tail[EVENTS_TAIL_BYTES + 1];
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    off_t begin = end > EVENTS_TAIL_BYTES ? end - EVENTS_TAIL_BYTES : 0;
    ssize_t len = end > 0 ? file_pread_all(fd, tail, (size_t)(end - begin), begin) : 0;
    char *reason = NULL;
    char *rest = NULL;
    tail[len > 0 ? len : 0] = '\0';
    for (char *line = strtok_r(tail, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        json_t *event = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *told = json_string_value(json_object_get(event, "path"));
        const char *words = json_string_value(json_object_get(event, "error"));
        if (told != NULL && words != NULL && strcmp(told, path) == 0) {
            free(reason);
            reason = strdup(words);
        }
        json_decref(event);
    }
    return reason;
}

static int status_of_errno(int number)
{
    switch (number) {
    case EBADMSG:
    case EDESTADDRREQ:
    case EMSGSIZE:
    case EFBIG:
    case ENODATA:
    case EADDRNOTAVAIL:
        return EX_DATAERR;
    case EACCES:
    case EPERM:
    case EROFS:
        return EX_NOPERM;
    default:
        return EX_TEMPFAIL;
    }
}

static int write_draft(int drafts, const char *name, const struct strbuf *message)
{
    _cleanup_close_ int fd = openat(drafts, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int error = file_write_all(fd, message->data, message->len);
    if (error == 0)
        error = close(TAKE_FD(fd)) == 0 ? 0 : -errno;
    return error;
}

/* Puts the message into outbox/, as NAME. EX_OK: it is accepted and durable; EX_UNAVAILABLE: it may be. */
static int hand_in(int mount, const char *name, const struct strbuf *message)
{
    char draft[80];
    char path[100];
    snprintf(draft, sizeof(draft), "drafts/.%s", name);
    snprintf(path, sizeof(path), "outbox/%s", name);
    int error = write_draft(mount, draft, message);
    if (error != 0) {
        unlinkat(mount, draft, 0);
        return complain(status_of_errno(-error), "cannot write to drafts/: %s", strerrordesc_np(-error));
    }
    if (renameat(mount, draft, mount, path) == 0)
        return EX_OK;
    int number = errno;
    if (number == ECONNABORTED)
        return complain(
            EX_UNAVAILABLE,
            "the mount ended before it answered: the message may be accepted; if it is neither in "
            "outbox/ nor in sent/, it is %s",
            draft);
    _cleanup_free_ char *reason = find_reason(mount, draft);
    unlinkat(mount, draft, 0);
    return complain(status_of_errno(number), "refused: %s",
                    reason != NULL ? reason : strerrordesc_np(number));
}

/* A name that sorts by time, and that nobody else takes. */
static int make_name(char ret_name[40])
{
    char random[9];
    struct tm utc;
    time_t now = time(NULL);
    int error = random_hex(random, 4);
    if (error == 0 && gmtime_r(&now, &utc) == NULL)
        error = -EOVERFLOW;
    if (error != 0)
        return error;
    size_t len = strftime(ret_name, 40, "%Y%m%dT%H%M%SZ_", &utc);
    snprintf(ret_name + len, 40 - len, "%s.eml", random);
    return 0;
}

/* ---------------------------------------------------------------- waiting for the service */

/* Reads the receipt of a message that is out: 1 when it is there, 0 when not yet. */
static int read_receipt(int mount, const char *folder, const char *name, json_t **ret_receipt)
{
    char path[100];
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof(path), "%s/%s.receipt.json", folder, name);
    if (file_read_at(mount, path, RECEIPT_MAX_BYTES, &text, &len) != 0)
        return 0;
    *ret_receipt = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    return *ret_receipt != NULL;
}

/* -1: it is neither sent nor failed. */
static int settled_status(int mount, const char *name)
{
    json_t *receipt = NULL;
    if (read_receipt(mount, "sent", name, &receipt)) {
        const char *id = json_string_value(json_object_get(receipt, "id"));
        if (id != NULL)
            puts(id);
        json_decref(receipt);
        return EX_OK;
    }
    if (!read_receipt(mount, "failed", name, &receipt))
        return -1;
    const char *state = json_string_value(json_object_get(receipt, "state"));
    const char *words = json_string_value(json_object_get(receipt, "error"));
    int status =
        complain(EX_UNAVAILABLE, "%s: %s", state != NULL ? state : "failed", words != NULL ? words : "");
    json_decref(receipt);
    return status;
}

static void watch(int mount, const char *folder, int inotify)
{
    char path[64];
    _cleanup_close_ int fd = openat(mount, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fd >= 0)
        inotify_add_watch(inotify, path, IN_CREATE | IN_MOVED_TO);
}

/* Waits until the message has left outbox/. It looks each second, for messages that are withdrawn, and where
 * nothing can be watched; the watches only make it sooner. */
static int wait_for_service(int mount, const char *name)
{
    enum {
        LOOK_AGAIN_MS = 1000
    };
    char events[4096];
    char path[100];
    struct stat status;
    _cleanup_close_ int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    snprintf(path, sizeof(path), "outbox/%s", name);
    watch(mount, "sent", inotify);
    watch(mount, "failed", inotify);
    for (;;) {
        bool is_waiting = fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
        int settled = settled_status(mount, name);
        if (settled >= 0)
            return settled;
        if (!is_waiting)
            return complain(EX_UNAVAILABLE, "%s was taken out of outbox/", name);
        if (fstatat(mount, "outbox", &status, 0) != 0)
            return complain(EX_UNAVAILABLE, "accepted, but the mount is gone; it goes out when it is back");
        poll(&(struct pollfd){.fd = inotify, .events = POLLIN}, 1, LOOK_AGAIN_MS);
        while (read(inotify, events, sizeof(events)) > 0)
            continue;
    }
}

/* ---------------------------------------------------------------- the queue */

/* Prints what is in a folder, in order of names. The number of messages, or -errno. */
static int list_folder(int dir, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandirat(dir, folder, &entries, NULL, alphasort);
    int waiting = 0;
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++) {
        char path[NAME_MAX + sizeof(MAILDROP_FOLDER) + 1];
        char date[32] = "";
        struct stat status;
        struct tm utc;
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && fstatat(dir, path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
            if (gmtime_r(&status.st_mtime, &utc) != NULL)
                strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
            character_replace(entries[i]->d_name, CHARACTER_NOT_PLAIN, '?');
            printf("%s %9lld %s\n", date, (long long)status.st_size, entries[i]->d_name);
            waiting++;
        }
        free(entries[i]);
    }
    free(entries);
    return waiting;
}

/* Lists outbox/, as mailq does, and the maildrop for users who may look into it. */
static int list_queue(const struct invocation *invocation)
{
    int status = EX_OK;
    int left = list_folder(AT_FDCWD, MAILDROP_FOLDER);
    const char *reason = NULL;
    _cleanup_close_ int mount = invocation->mount != NULL ? open_named_mount(invocation->mount, &status)
                                                          : open_only_mount(&status, &reason);
    if (mount < 0 && left >= 0)
        return EX_OK;
    if (mount < 0)
        return reason != NULL ? complain(status, "%s", reason) : status;
    int waiting = list_folder(mount, "outbox");
    if (waiting < 0)
        return complain(status_of_errno(-waiting), "outbox: %s", strerrordesc_np(-waiting));
    if (waiting == 0 && left <= 0)
        puts("Mail queue is empty");
    return EX_OK;
}

/* ---------------------------------------------------------------- all of it */

/* Sends what is read from standard input. */
static int send_message(const struct invocation *invocation, int mount)
{
    char name[40];
    struct input_message message = {0};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(DRAFT_MAX_BYTES);
    int status = read_message(invocation, &message);
    if (status == EX_OK)
        status = compose(invocation, mount, &message, &text);
    strbuf_release(&message.text);
    if (status == EX_OK && make_name(name) != 0)
        status = complain(EX_TEMPFAIL, "cannot make up a name");
    if (status == EX_OK)
        status = hand_in(mount, name, &text);
    if (status == EX_OK && invocation->waits)
        status = wait_for_service(mount, name);
    return status;
}

/* ---------------------------------------------------------------- the maildrop */

/* Refuses here all that is wrong without regard to the mount, so that the caller gets the status. */
static int leave_message(const struct invocation *caller)
{
    struct invocation invocation = *caller;
    struct input_message message = {0};
    _cleanup_strbuf_ struct strbuf composed = STRBUF_INIT(DRAFT_MAX_BYTES);
    invocation.is_delegated = true;
    if (invocation.aliases != NULL || invocation.waits)
        return complain(EX_USAGE, "--aliases and --wait need a mount that this user can enter");
    int status = read_message(&invocation, &message);
    if (status == EX_OK)
        status = compose(&invocation, -1, &message, &composed);
    if (status == EX_OK) {
        int error = maildrop_leave(&(struct maildrop_message){
            .reads_headers = invocation.reads_headers,
            .sender = invocation.sender,
            .name = invocation.name,
            .root = invocation.root,
            .recipients = invocation.recipients,
            .text = strbuf_str(&message.text),
            .text_len = message.text.len,
        });
        status =
            complain(EX_TEMPFAIL, "cannot leave the message in the maildrop: %s", strerrordesc_np(-error));
    }
    strbuf_release(&message.text);
    return status;
}

/* Hands a message to the mount: to one that this user can enter, else by way of the maildrop. */
static int deliver(const struct invocation *invocation)
{
    int status = EX_OK;
    const char *reason = NULL;
    _cleanup_close_ int mount = invocation->mount != NULL ? open_named_mount(invocation->mount, &status)
                                                          : open_only_mount(&status, &reason);
    if (mount >= 0)
        return send_message(invocation, mount);
    if (reason != NULL && maildrop_exists())
        return leave_message(invocation);
    return reason != NULL ? complain(status, "%s", reason) : status;
}

struct queue_run {
    const struct invocation *invocation;
    int mount;
    int status; /* EX_OK: the mount was not looked for yet */
};

static bool was_handed_in(int mount, const char *name)
{
    static const char *const folders[] = {"outbox", "sent", "failed"};
    char path[NAME_MAX];
    struct stat status;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", folders[i], name);
        if (fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    }
    return false;
}

/* Sends a message that any user may have left, with anything in it. */
static int send_left_message(void *context, const struct maildrop_message *left, const char *file_name)
{
    struct queue_run *run = context;
    char name[MAILDROP_NAME_SIZE + sizeof(".eml")];
    char draft[sizeof(name) + sizeof("drafts/.")];
    struct input_message message = {.text = STRBUF_INIT(MESSAGE_MAX_BYTES)};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(DRAFT_MAX_BYTES);
    const struct invocation invocation = {
        .root = left->root != NULL ? left->root : run->invocation->root,
        .sender = left->sender,
        .name = left->name,
        .reads_headers = left->reads_headers,
        .ignores_dots = true,
        .rewrites_from = true,
        .is_delegated = true,
        .is_from_maildrop = true,
        .recipients = left->recipients,
    };
    if (strlen(file_name) >= MAILDROP_NAME_SIZE)
        return EX_DATAERR;
    if (run->mount < 0 && run->status == EX_OK)
        run->mount = open_mount(run->invocation, &run->status);
    if (run->mount < 0)
        return EX_TEMPFAIL;
    snprintf(name, sizeof(name), "%s.eml", file_name);
    snprintf(draft, sizeof(draft), "drafts/.%s", name);
    if (was_handed_in(run->mount, name))
        return EX_OK;
    unlinkat(run->mount, draft, 0); /* a crash may have left it */
    strbuf_append(&message.text, left->text, left->text_len);
    int status = message.text.error == 0
                     ? take_message(&invocation, &message)
                     : complain(EX_DATAERR, "the message is over %d bytes", MESSAGE_MAX_BYTES);
    if (status == EX_OK)
        status = compose(&invocation, run->mount, &message, &text);
    if (status == EX_OK)
        status = hand_in(run->mount, name, &text);
    strbuf_release(&message.text);
    return status;
}

/* Mails root, if the alias file names an address: the users who left these messages got status 0 for them. */
static void report_failed(const struct queue_run *run, unsigned int count)
{
    char name[40];
    char *nobody = NULL;
    struct input_message notice = {.text = STRBUF_INIT(LINE_MAX_BYTES)};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(DRAFT_MAX_BYTES);
    const struct invocation invocation = {
        .root = run->invocation->root, .reads_headers = true, .ignores_dots = true, .recipients = &nobody};
    strbuf_appendf(
        &notice.text,
        "To: root\nSubject: Mail of this machine could not be sent\nAuto-Submitted: auto-generated\n\n"
        "%u messages that users of this machine left could not be sent. They are kept in\n%s\n"
        "The journal has the reasons: journalctl -u inboxfs-mta.service\n",
        count, MAILDROP_FAILED);
    if (take_message(&invocation, &notice) == EX_OK &&
        compose(&invocation, run->mount, &notice, &text) == EX_OK && make_name(name) == 0)
        hand_in(run->mount, name, &text);
    strbuf_release(&notice.text);
}

static int run_queue(const struct invocation *invocation)
{
    struct queue_run run = {.invocation = invocation, .mount = -1};
    unsigned int failed = 0;
    int error = maildrop_run(send_left_message, &run, &failed);
    if (failed > 0 && run.mount >= 0)
        report_failed(&run, failed);
    if (run.mount >= 0)
        close(run.mount);
    return error == 0 ? EX_OK : EX_TEMPFAIL;
}

/* ---------------------------------------------------------------- SMTP on standard input and output */

static int check_recipient(void *context, const char *recipient)
{
    const struct invocation *invocation = context;
    struct machine machine;
    struct address_list list = {0};
    int status = EX_OK;
    const char *reason = NULL;
    _cleanup_close_ int mount = invocation->mount != NULL ? open_named_mount(invocation->mount, &status)
                                                          : open_only_mount(&status, &reason);
    struct local_names names = {
        .machine = &machine, .mount = mount, .defers_names = mount < 0 && maildrop_exists()};
    machine_init(&machine);
    status = read_aliases(invocation, &names);
    if (status == EX_OK)
        status = add_recipients(&names, (struct recipients_source){.text = recipient}, &list);
    free(names.text);
    strbuf_release(&machine.other_names);
    address_list_release(&list);
    return status;
}

static int send_from_session(void *context, const char *sender, char **recipients)
{
    struct invocation invocation = *(const struct invocation *)context;
    invocation.sender = sender;
    invocation.recipients = recipients;
    invocation.reads_headers = false;
    invocation.ignores_dots = true;
    return deliver(&invocation);
}

static int speak_smtp(struct invocation *invocation)
{
    if (*invocation->recipients != NULL)
        return complain(EX_USAGE, "-bs takes no recipients: the client names them by RCPT");
    return sendmail_smtp_run(&(struct sendmail_calls){
        .context = invocation,
        .message_max_bytes = MESSAGE_MAX_BYTES,
        .check = check_recipient,
        .send = send_from_session,
    });
}

/* Returns true where a user without the rights of this process chose its arguments and the message. */
static bool is_delegated(void)
{
    const char *caller = getenv("SUDO_UID");
    unsigned long uid = caller != NULL ? strtoul(caller, NULL, 10) : 0;
    return getauxval(AT_SECURE) != 0 || (uid != 0 && uid != geteuid());
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *program = slash != NULL ? slash + 1 : argc > 0 ? argv[0] : "";
    const char *mount_path = getenv("INBOXFS_MOUNT");
    struct invocation invocation = {.recipients = argv, .is_delegated = is_delegated()};
    descriptors_open_standard();
    if (strcmp(program, "newaliases") == 0)
        return EX_OK; /* the aliases are read each time */
    invocation.lists_queue = strcmp(program, "mailq") == 0;
    int status = parse_arguments(argc, argv, &invocation);
    if (status >= 0)
        return status;
    if (invocation.mount == NULL && mount_path != NULL && *mount_path != '\0')
        invocation.mount = mount_path;
    if (invocation.makes_aliases)
        return EX_OK;
    if (invocation.mount == NULL && maildrop_exists())
        invocation.rewrites_from = true;
    if (invocation.speaks_smtp)
        return speak_smtp(&invocation);
    if (invocation.runs_queue && !invocation.reads_headers && *invocation.recipients == NULL)
        return run_queue(&invocation);
    status = invocation.lists_queue ? list_queue(&invocation) : deliver(&invocation);
    /* A message that is accepted stays so; a failure would have it sent again. */
    if (fflush(stdout) != 0)
        status = complain(invocation.lists_queue ? EX_IOERR : status, "cannot write to standard output");
    return status;
}
