/* SPDX-License-Identifier: MIT */
#include "base/mountinfo.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "support/test.h"

TEST(the_mounts_of_a_type_are_listed)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    bool found = false;
    struct stat stat_of_proc;
    assert_int_equal(stat("/proc", &stat_of_proc), 0);
    assert_int_equal(mountinfo_list("proc", &mounts), 0);
    for (const struct mount *mount = mounts; mount->path != NULL; mount++)
        found = found || (strcmp(mount->path, "/proc") == 0 && mount->owner == -1 &&
                          mount->device == stat_of_proc.st_dev);
    assert_true(found);
}

TEST(a_mount_is_found_by_type_and_path)
{
    assert_false(mountinfo_find("proc", "/pro", NULL));
    assert_false(mountinfo_find("fuse.inboxfs", "/proc", NULL));
    struct stat status;
    dev_t device = 0;
    assert_int_equal(stat("/proc", &status), 0);
    assert_true(mountinfo_find("proc", "/proc", &device));
    assert_int_equal(device, status.st_dev);
}

TEST(a_prefix_of_a_type_matches_no_mount)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    assert_int_equal(mountinfo_list("pro", &mounts), 0);
    assert_null(mounts[0].path);
}
