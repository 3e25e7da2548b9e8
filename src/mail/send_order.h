/* SPDX-License-Identifier: MIT */
/*
 * Which messages must go out one after the other: those from one address to the same set of recipients. To
 * them, and to nobody else, the order is visible.
 */
#ifndef INBOXFS_MAIL_SEND_ORDER_H
#define INBOXFS_MAIL_SEND_ORDER_H

/* The sequence of a message: equal for equal senders and recipients, whatever their case, order and names.
 * `request` as draft_parse() makes it. 0, -EBADMSG, -ENOMEM. */
int send_order_sequence(const char *request, const char *from, char ret_sequence[65]);

#endif
