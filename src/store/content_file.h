/* SPDX-License-Identifier: MIT */
/*
 * The form in which content lies on the disk: the bytes of all entries one after the other from the start of
 * the file, then a table of them, then a trailer. So bytes can be streamed into it before anything is known
 * of them. Checksums stand over everything: nothing here is made durable, and what a power cut or a bad disk
 * left is found out when it is opened, and fetched again.
 */
#ifndef INBOXFS_STORE_CONTENT_FILE_H
#define INBOXFS_STORE_CONTENT_FILE_H

#include "mail/content_folder.h"

/* Writes the entries' bytes, the table and the trailer into an empty file. 0 or -errno. */
int content_file_write(int fd, const struct content_folder *folder);

/* Makes a file of `len` bytes that were written to `fd` from offset 0 on: a table with one entry of
 * CONTENT_BYTES. 0 or -errno. */
int content_file_seal(int fd, uint64_t len);

/* The length of all bytes in it, without a look at them. 0, -EBADMSG, -errno. */
int content_file_look(int fd, uint64_t *ret_len);

/* Reads the table, and checks all of it. Entries have `offset` and `len` instead of `bytes`. 0; -EBADMSG: the
 * file is damaged, or of another form; -errno. */
int content_file_read(int fd, struct content_folder *ret_folder);

#endif
