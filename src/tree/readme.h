/* SPDX-License-Identifier: MIT */
/*
 * The README in the mount: how to use it, on one screen.
 */
#ifndef INBOXFS_TREE_README_H
#define INBOXFS_TREE_README_H

const char *readme_text(void);

#endif
