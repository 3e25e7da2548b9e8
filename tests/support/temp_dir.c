/* SPDX-License-Identifier: MIT */
/*
 * Makes the directories of tests below $TMPDIR or /tmp.
 */
#include "support/temp_dir.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void temp_dir_init(struct temp_dir *dir)
{
    const char *base = getenv("TMPDIR");
    snprintf(dir->path, sizeof(dir->path), "%s/inboxfs-test-XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(dir->path) == NULL)
        abort();
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0)
        abort();
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    return remove(path);
}

void temp_dir_release(struct temp_dir *dir)
{
    close(dir->fd);
    nftw(dir->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
