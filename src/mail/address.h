/* SPDX-License-Identifier: MIT */
/*
 * Email addresses, and lists of them as headers hold them (RFC 5322 section 3.4).
 *
 * An address keeps its quotes and the case of its letters. The parsers only remove the blanks, line ends and
 * comments between its parts. Not every address can name a folder: address_is_folder_name() is the narrower
 * test.
 */
#ifndef INBOXFS_MAIL_ADDRESS_H
#define INBOXFS_MAIL_ADDRESS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

struct json_writer;

enum {
    ADDRESS_MAX_BYTES = 254, /* length of a path (RFC 5321 section 4.5.3.1.3) without its angle brackets */
    ADDRESS_LIST_MAX = 1000, /* number of addresses that one text may hold */
};

struct address {
    char *address; /* local@domain; never NULL */
    char *name;    /* UTF-8, or NULL */
};

struct address_list {
    struct address *items;
    size_t len;
    char *unusable; /* the first text of a received email's list that is not an address, or NULL. A caller
                       that needs every address fails, and quotes this text */
};

void address_list_release(struct address_list *list);

/* Writes the key and an array: an object for each address, then any unusable text as a string. */
void address_list_write(const struct address_list *list, struct json_writer *writer, const char *key);

/* Returns true if the text is one bare `local@domain` that a header and a request can hold unchanged:
 * UTF-8 without invisible characters, at most 254 bytes. The local part consists of atoms, quoted strings
 * ("a b"@x.example) and dots in any position (a..b@x.example exists). The domain consists of one or more
 * labels, or is a literal ([192.0.2.1]). */
bool address_is_valid(const char *text);

/* Returns true if the text is an address that can name a folder: it has no quoted string, literal, `/`, "`"
 * or leading dot or dash, nor anything else that file_name_is_harmless() refuses. */
bool address_is_folder_name(const char *text);

/* Returns true if the text can be the name of an address: UTF-8 without control characters. */
bool address_name_is_valid(const char *name);

/* Appends a copy of one address; `name` is NULL or "" for no name. Return: 0; -EBADMSG if the address or the
 * name is not valid. */
int address_list_append(struct address_list *list, const char *address, const char *name);

/* Appends the addresses of an RFC 5322 address-list header value, folded or not. Also accepts the obsolete
 * forms of section 4.4, raw UTF-8 and windows-1252 in names, ";" for ",", and names with an "@" in them
 * ("a@x.example <b@x.example>"). Groups are flattened. The name of "a@x.example (Ann)" is Ann. An ambiguous
 * text is refused. A local part alone is completed with "@" and `domain`, which is not checked; it is refused
 * if `domain` is NULL. Return: 0; -EBADMSG if some part is not an address; -EMSGSIZE for more than
 * ADDRESS_LIST_MAX addresses. `list` changes only on success. On -EBADMSG, *ret_refused is that part,
 * unfolded (the caller frees). `ret_refused` may be NULL. */
int address_list_parse(struct address_list *list, const char *text, const char *domain, char **ret_refused);

/* Appends the addresses of a received email that can be read, with blanks for what a name cannot have, and
 * appends the unchanged text of each other item, with the ";" after it, if any, to `others`, whose free
 * function is g_free(). Stops when both have ADDRESS_LIST_MAX items together. */
void address_list_parse_each(struct address_list *list, const char *text, GPtrArray *others);

/* Compares two addresses without regard to the case of ASCII letters, in both parts. */
bool address_equals(const char *one, const char *other);

#endif
