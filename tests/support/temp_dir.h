/* SPDX-License-Identifier: MIT */
/*
 * A new empty directory for a test, removed with its contents.
 */
#ifndef INBOXFS_TESTS_TEMP_DIR_H
#define INBOXFS_TESTS_TEMP_DIR_H

struct temp_dir {
    char path[256];
    int fd; /* descriptor of the directory */
};

/* Makes the directory, or ends the program. */
void temp_dir_init(struct temp_dir *dir);

void temp_dir_release(struct temp_dir *dir);

#endif
