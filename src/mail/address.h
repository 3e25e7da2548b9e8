/* SPDX-License-Identifier: MIT */
/*
 * Email addresses, and lists of them as headers hold them (RFC 5322 section 3.4).
 *
 * An address is kept as it was written, for its quotes and the letters of its domain are its owner's: nothing
 * is normalised but the blanks, line ends and comments that may stand between its parts. Two
 * questions are separate: is something an address, and can a folder be called after it?
 */
#ifndef INBOXFS_MAIL_ADDRESS_H
#define INBOXFS_MAIL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

struct json_writer;

enum {
    ADDRESS_MAX_BYTES = 254, /* RFC 5321 section 4.5.3.1.3, less the angle brackets */
    ADDRESS_LIST_MAX = 1000, /* that one text may name */
};

struct address {
    char *address; /* local@domain; never NULL */
    char *name;    /* UTF-8, or NULL */
};

struct address_list {
    struct address *items;
    size_t len;
    char *unusable; /* of an email that was received: a text that stands in this list, and is no address. A
                       caller that needs all of them fails, and names it. NULL: there is none */
};

void address_list_release(struct address_list *list);

/* The key and an array: an object for each address, and what is unusable as the text that it is. */
void address_list_write(const struct address_list *list, struct json_writer *writer, const char *key);

/* Returns true if it is one bare `local@domain`, which can be put into a header and a request as it is: UTF-8
 * without characters that do not show, at most 254 bytes. The local part: atoms, quoted strings ("a
 * b"@x.example) and dots, wherever these stand (a..b@x.example is somebody's). The domain: labels, one may
 * do, or a literal ([192.0.2.1]). */
bool address_is_valid(const char *text);

/* Returns true if it is an address that a folder can be called after: no quoted string, literal, `/` or "`",
 * no leading dot or dash, nor anything else that file_name_is_harmless() refuses. */
bool address_is_folder_name(const char *text);

/* Returns true if it can be the name of an address: UTF-8 without control characters. */
bool address_name_is_valid(const char *name);

/* Appends one address; `name` may be NULL or "": no name. 0, -EBADMSG when either is not valid, -ENOMEM. */
int address_list_append(struct address_list *list, const char *address, const char *name);

/* Appends the addresses of an RFC 5322 address-list header value, folded or not. The obsolete forms of its
 * section 4.4 are read, raw UTF-8 and windows-1252 in names, ";" for ",", names with an "@" in them
 * ("a@x.example <b@x.example>"). Groups are flattened. The name of "a@x.example (Ann)" is Ann. A text that
 * can be understood in more than one way is refused: a list is read whole or not at all. 0, -EBADMSG (some
 * part is not an address), -EMSGSIZE (more than ADDRESS_LIST_MAX), -ENOMEM; `list` is unchanged then. With
 * -EBADMSG *ret_refused, unless ret_refused is NULL, is that part as it was written (the caller frees; NULL
 * without memory). */
int address_list_parse(struct address_list *list, const char *text, char **ret_refused);

/* The same; with `domain` a local part alone is an address, too, at that domain, which may be none that an
 * address has. */
int address_list_parse_at(struct address_list *list, const char *text, const char *domain,
                          char **ret_refused);

/* Gets an item of a list that is no address, as it was written, with a ";" behind it. Another result than 0
 * ends the reading. */
typedef int address_other_fn(void *context, const char *item, size_t len);

/* Appends the addresses that can be read, and hands each item between them that is none to `other`. Stops
 * where `list`, which may have addresses before, and these items are ADDRESS_LIST_MAX together. 0, -ENOMEM,
 * or the result of `other`; `list` is unchanged with an error. */
int address_list_parse_each(struct address_list *list, const char *text, address_other_fn *other,
                            void *context);

/* ASCII letters of either case are the same, in both parts. */
bool address_equals(const char *one, const char *other);

#endif
