/* SPDX-License-Identifier: MIT */
/*
 * Programs build addresses from a local name and the machine's name. The names of the machine come only from
 * files, because a query of the DNS can take a minute.
 */
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
    ALIAS_DEPTH_MAX = 10, /* nesting of aliases of aliases */
    LINE_MAX_BYTES = 2048,
};

/* ---------------------------------------------------------------- recipients */

bool recipients_has(const struct address_list *recipients, const char *address)
{
    for (size_t i = 0; i < recipients->len; i++)
        if (address_equals(recipients->items[i].address, address))
            return true;
    return false;
}

int recipients_add(struct address_list *recipients, const struct address *address)
{
    if (recipients_has(recipients, address->address))
        return EX_OK;
    if (recipients->len == ADDRESS_LIST_MAX)
        return complain(EX_DATAERR, "too many recipients");
    return address_list_append(recipients, address->address, address->name) == 0
               ? EX_OK
               : complain(EX_DATAERR, "a recipient is not an email address");
}

/* ---------------------------------------------------------------- this machine's names */

/* Adds the words of each line that has the word `host` (NULL: of all lines). A line has the form
 * "127.0.1.1 box.example.com box". */
static void add_host_names(GHashTable *hosts, const char *path, const char *host)
{
    char line[LINE_MAX_BYTES];
    _cleanup_fclose_ FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        _cleanup_free_ char *text = g_ascii_strdown(line, (gssize)strcspn(line, "#\r\n"));
        g_auto(GStrv) words = g_strsplit_set(text, " \t", -1);
        if (host == NULL || g_strv_contains((const char *const *)words, host))
            for (char **word = words; *word != NULL; word++)
                g_hash_table_add(hosts, g_strdup(*word));
    }
}

enum host local_names_classify(const struct local_names *names, const char *address)
{
    _cleanup_free_ char *domain = g_ascii_strdown(strrchr(address, '@') + 1, -1);
    if (strcmp(domain, NO_DOMAIN) == 0 || strcmp(domain, "localhost") == 0 ||
        strcmp(domain, "localhost.localdomain") == 0)
        return HOST_LOCAL;
    if (!g_hash_table_contains(names->hosts, domain))
        return HOST_OTHER;
    return strchr(domain, '.') == NULL ? HOST_LOCAL : HOST_NAMED;
}

/* The case of letters does not matter in an address; a service stores small letters. */
bool local_names_has_inbox(const struct local_names *names, const char *address)
{
    struct stat status;
    if (names->mount < 0 || !address_is_folder_name(address))
        return false;
    _cleanup_free_ char *path = g_strconcat("inboxes/", address, NULL);
    _cleanup_free_ char *lower = g_ascii_strdown(path, -1);
    return fstatat(names->mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0 ||
           fstatat(names->mount, lower, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

int local_names_init(struct local_names *names, const struct invocation *invocation, int mount)
{
    char host[256] = "";
    size_t len = 0;
    *names = (struct local_names){
        .hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
        .mount = mount,
        .path = invocation->aliases != NULL ? invocation->aliases : "/etc/aliases",
        .root = invocation->root,
    };
    if (gethostname(host, sizeof(host) - 1) == 0 && host[0] != '\0') {
        char *lower = g_ascii_strdown(host, -1);
        add_host_names(names->hosts, "/etc/hosts", lower);
        g_hash_table_add(names->hosts, g_strndup(lower, strcspn(lower, ".")));
        g_hash_table_add(names->hosts, lower);
    }
    add_host_names(names->hosts, "/etc/mailname", NULL);
    _cleanup_close_ int fd = open(names->path, O_RDONLY | O_CLOEXEC);
    int error = fd >= 0 ? file_read_fd(fd, ALIASES_MAX_BYTES, &names->aliases, &len) : -errno;
    if (error == 0 || (invocation->aliases == NULL && (error == -ENOENT || error == -EACCES)))
        return EX_OK;
    return complain(EX_TEMPFAIL, "%s: %s", names->path, strerrordesc_np(-error));
}

void local_names_release(struct local_names *names)
{
    g_hash_table_unref(names->hosts);
    free(names->aliases);
}

/* ---------------------------------------------------------------- local names */

/* Returns the recipients of a name in the alias file (aliases(5): NAME: ADDRESS, ADDRESS ...; a line that
 * begins with a blank continues the line before), or NULL if the file does not have the name. The caller
 * frees them. */
static char *find_alias(const struct local_names *names, const char *name)
{
    struct span remaining = {names->aliases, names->aliases != NULL ? strlen(names->aliases) : 0};
    struct span value;
    while (remaining.len > 0) {
        if (mime_next_field(&remaining, name, &value))
            return g_strndup(value.bytes, value.len);
        mime_take_line(&remaining);
    }
    return NULL;
}

/* Returns false for programs, files and lists, which an alias file may have. */
static bool is_local_name(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");
    return len > 0 && len < 64 && text[len] == '\0' && text[0] != '-';
}

/* An address list. Error messages show no text of a file, which the caller may not be allowed to read. */
struct source {
    const char *text;
    const char *name; /* the caller's local name that the text replaces; NULL if the caller wrote the text */
    unsigned int depth; /* number of aliases that led to the text */
    bool is_root;       /* the text of --root, whose local names have no aliases */
};

static int refuse_part(const struct local_names *names, const struct source *source, const char *part)
{
    if (source->name != NULL)
        return complain(EX_DATAERR, "what %s stands for, by %s or --root, is not an email address",
                        source->name, names->path);
    return complain(EX_DATAERR, "not an email address: %s", part);
}

static int add_list(const struct local_names *names, const struct source *source,
                    struct address_list *recipients);

/* Adds an address, or the recipients that its local name stands for. If the domain is one of the machine's
 * full names, only root and the names in the alias file are known to be local. */
static int add_address(const struct local_names *names, const struct address *address,
                       const struct source *source, struct address_list *recipients)
{
    const char *at = strrchr(address->address, '@');
    enum host host = local_names_classify(names, address->address);
    bool has_domain = strcmp(at + 1, NO_DOMAIN) != 0;
    if (host == HOST_OTHER || (has_domain && local_names_has_inbox(names, address->address)))
        return recipients_add(recipients, address);
    _cleanup_free_ char *name = g_strndup(address->address, (size_t)(at - address->address));
    if (!is_local_name(name))
        return host == HOST_NAMED ? recipients_add(recipients, address)
                                  : refuse_part(names, source, has_domain ? address->address : name);
    _cleanup_free_ char *alias = source->is_root ? NULL : find_alias(names, name);
    if (host == HOST_NAMED && alias == NULL && strcasecmp(name, "root") != 0)
        return recipients_add(recipients, address);

    const char *given_name = source->name != NULL ? source->name : name;
    const char *root = source->is_root ? NULL : names->root;
    const struct source next = {alias != NULL ? alias : root, given_name, source->depth + 1, alias == NULL};
    if (next.text != NULL && source->depth < ALIAS_DEPTH_MAX)
        return add_list(names, &next, recipients);
    if (names->mount >= 0)
        return complain(EX_NOUSER, "%s is no email address: give it one in %s, or use --root=ADDRESS",
                        given_name, names->path);
    /* The owner of the maildrop may have an alias for the name. */
    _cleanup_free_ char *deferred = g_strconcat(name, "@localhost", NULL);
    return recipients_add(recipients, &(struct address){.address = deferred});
}

static int add_list(const struct local_names *names, const struct source *source,
                    struct address_list *recipients)
{
    _cleanup_addresses_ struct address_list list = {0};
    _cleanup_free_ char *refused = NULL;
    int error = address_list_parse(&list, source->text, NO_DOMAIN, &refused);
    int status = error == -EBADMSG    ? refuse_part(names, source, refused)
                 : error == -EMSGSIZE ? complain(EX_DATAERR, "too many recipients")
                                      : EX_OK;
    for (size_t i = 0; i < list.len && status == EX_OK; i++)
        status = add_address(names, &list.items[i], source, recipients);
    return status;
}

int local_names_resolve(const struct local_names *names, const char *text, struct address_list *recipients)
{
    return add_list(names, &(struct source){.text = text}, recipients);
}
