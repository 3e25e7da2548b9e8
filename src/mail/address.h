/* SPDX-License-Identifier: MIT */
/*
 * An email address with an optional display name, as the service's interface writes them (section 2).
 */
#ifndef INBOXFS_MAIL_ADDRESS_H
#define INBOXFS_MAIL_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ADDRESS_MAX_BYTES = 254, /* RFC 5321 section 4.5.3.1.3, less the angle brackets */
    ADDRESS_LIST_MAX = 1000, /* that one text may name */
};

struct address {
    char *address; /* local@domain; never NULL in a valid value */
    char *name;    /* UTF-8, or NULL */
};

struct address_list {
    struct address *items;
    size_t len;
};

void address_list_release(struct address_list *list);

/* Whether it is one bare `local@domain` that can be put into a header, a file name and a request as it is:
 * UTF-8, at most 254 bytes, no space, control character, `/`, quote or angle bracket, no leading dot, a
 * dotless domain allowed. */
bool address_is_valid(const char *text);

/* Whether it can be the name of an address: UTF-8 without control characters. */
bool address_name_is_valid(const char *name);

/* Appends one address; `name` may be NULL or "": no name. 0, -EBADMSG when either is not valid, -ENOMEM. */
int address_list_append(struct address_list *list, const char *address, const char *name);

/* Appends the addresses of an RFC 5322 address-list header value (encoded words and raw UTF-8 understood,
 * groups flattened). 0, -EBADMSG when some part is not an address, -EMSGSIZE when there are more than
 * ADDRESS_LIST_MAX, which is found out before there is memory for them, -ENOMEM. */
int address_list_parse(struct address_list *list, const char *text);

/* ASCII letters of either case are the same, in both parts. */
bool address_equals(const char *one, const char *other);

#endif
