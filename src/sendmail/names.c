/* SPDX-License-Identifier: MIT */
/*
 * Programs make addresses of a local name and the machine's name. The names of the machine come only from
 * files, because a look-up in the DNS could take a minute.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "sendmail/sendmail.h"

enum {
    ALIASES_MAX_BYTES = 1000 * 1000,
    ALIAS_DEPTH_MAX = 10, /* aliases of aliases */
    LINE_MAX_BYTES = 2048,
    HOST_LINES_MAX = 1000 * 1000,
    HOST_NAMES_MAX_BYTES = 64 * 1024,
};

/* ---------------------------------------------------------------- this machine's names */

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
static void keep_lines(struct local_names *names, const char *path, const char *word)
{
    char line[LINE_MAX_BYTES];
    _cleanup_fclose_ FILE *file = fopen(path, "re");
    for (unsigned int i = 0; file != NULL && i < HOST_LINES_MAX && fgets(line, sizeof(line), file) != NULL;
         i++)
        if (word == NULL || line_has(line, word))
            strbuf_appendf(&names->other_hosts, "%s\n", line);
}

static bool is_other_name(const struct local_names *names, const char *domain)
{
    for (const char *line = strbuf_str(&names->other_hosts); line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (line_has(line, domain))
            return true;
    }
    return false;
}

enum host local_names_host(const struct local_names *names, const char *address)
{
    const char *domain = strrchr(address, '@') + 1;
    size_t first_label = strcspn(names->host, ".");
    if (strcasecmp(domain, NO_DOMAIN) == 0 || strcasecmp(domain, "localhost") == 0 ||
        strcasecmp(domain, "localhost.localdomain") == 0)
        return HOST_LOCAL;
    bool is_own = strcasecmp(domain, names->host) == 0 ||
                  (strlen(domain) == first_label && strncasecmp(domain, names->host, first_label) == 0) ||
                  is_other_name(names, domain);
    return !is_own ? HOST_OTHER : strchr(domain, '.') == NULL ? HOST_LOCAL : HOST_NAMED;
}

/* The case of letters does not matter in an address; a service stores small letters. */
bool local_names_has_inbox(const struct local_names *names, const char *address)
{
    char path[NAME_MAX + sizeof("inboxes/")];
    struct stat status;
    if (names->mount < 0 || !address_is_folder_name(address))
        return false;
    snprintf(path, sizeof(path), "inboxes/%s", address);
    if (fstatat(names->mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    for (char *at = path; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return fstatat(names->mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---------------------------------------------------------------- addresses and local names */

/* The file is as aliases(5): NAME: ADDRESS, ADDRESS ... A line that begins with a blank continues the one
 * before. */
static int read_aliases(const struct invocation *invocation, struct local_names *names)
{
    size_t len = 0;
    _cleanup_close_ int fd = open(names->path, O_RDONLY | O_CLOEXEC);
    int error = fd >= 0 ? file_read_fd(fd, ALIASES_MAX_BYTES, &names->aliases, &len) : -errno;
    if (error == 0 || (invocation->aliases == NULL && (error == -ENOENT || error == -EACCES)))
        return EX_OK;
    return complain(EX_TEMPFAIL, "%s: %s", names->path, strerrordesc_np(-error));
}

int local_names_init(struct local_names *names, const struct invocation *invocation, int mount)
{
    *names = (struct local_names){
        .other_hosts = STRBUF_INIT(HOST_NAMES_MAX_BYTES),
        .mount = mount,
        .path = invocation->aliases != NULL ? invocation->aliases : "/etc/aliases",
        .root = invocation->root,
        .defers_names = mount < 0,
    };
    if (gethostname(names->host, sizeof(names->host) - 1) != 0)
        names->host[0] = '\0';
    keep_lines(names, "/etc/hosts", names->host);
    keep_lines(names, "/etc/mailname", NULL);
    return read_aliases(invocation, names);
}

void local_names_release(struct local_names *names)
{
    strbuf_release(&names->other_hosts);
    free(names->aliases);
}

/* Returns the value of a name's line in the alias file, or NULL if there is none. The caller frees. */
static char *find_alias(const struct local_names *names, const char *name)
{
    struct span rest = {names->aliases, names->aliases != NULL ? strlen(names->aliases) : 0};
    struct mime_field field;
    while (rest.len > 0)
        if (!mime_take_field(&rest, &field))
            mime_take_line(&rest);
        else if (field.name.len == strlen(name) && strncasecmp(field.name.bytes, name, field.name.len) == 0)
            return strndup(field.value.bytes, field.value.len);
    return NULL;
}

/* Returns false for programs, files and lists, which an alias file may have. */
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

bool address_list_has(const struct address_list *list, const char *address)
{
    for (size_t i = 0; i < list->len; i++)
        if (address_equals(list->items[i].address, address))
            return true;
    return false;
}

/* Appends an address unless the list has it already. */
static int append_recipient(const struct address *address, struct address_list *list)
{
    if (address_list_has(list, address->address))
        return EX_OK;
    return address_list_append(list, address->address, address->name) == 0 ? EX_OK : complain_of_memory();
}

/* Appends a local name without an alias if `defers_names`; else complains of it. */
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

/* Appends the recipients for whom the local name stands. If the name has a domain (`is_of_domain`), only root
 * and the names in the alias file are known to be local; any other name may be an address elsewhere. */
static int add_local_name(const struct local_names *names, const char *name, bool is_of_domain,
                          struct recipients_source from, struct address_list *list, bool *ret_is_known)
{
    _cleanup_free_ char *alias = find_alias(names, name);
    struct recipients_source source = {alias, from.name != NULL ? from.name : name, from.depth + 1};
    struct local_names root_only = *names;
    root_only.aliases = NULL;
    root_only.root = NULL;
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
    enum host host = local_names_host(names, address->address);
    bool is_alone = strcmp(at + 1, NO_DOMAIN) == 0;
    if (host == HOST_OTHER || (!is_alone && local_names_has_inbox(names, address->address)))
        return append_recipient(address, list);
    _cleanup_free_ char *name = g_strndup(address->address, (size_t)(at - address->address));
    bool is_known = false;
    if (is_local_name(name)) {
        int status = add_local_name(names, name, host == HOST_NAMED, source, list, &is_known);
        if (is_known)
            return status;
    } else if (host == HOST_LOCAL)
        return complain_of_part(names, source, is_alone ? name : address->address);
    return append_recipient(address, list);
}

/* Appends the recipients of a list, and replaces local names by their aliases. Returns EX_OK, or the exit
 * status. */
static int add_recipients(const struct local_names *names, struct recipients_source source,
                          struct address_list *list)
{
    _cleanup_addresses_ struct address_list named = {0};
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse_at(&named, source.text, NO_DOMAIN, &refused);
    int status = error == -EBADMSG    ? complain_of_part(names, source, refused != NULL ? refused : "")
                 : error == -EMSGSIZE ? complain(EX_DATAERR, "too many recipients")
                 : error != 0         ? complain_of_memory()
                                      : EX_OK;
    for (size_t i = 0; i < named.len && status == EX_OK; i++)
        status = add_recipient(names, &named.items[i], source, list);
    return status;
}

int local_names_resolve(const struct local_names *names, const char *text, struct address_list *list)
{
    return add_recipients(names, (struct recipients_source){.text = text}, list);
}
