/* SPDX-License-Identifier: MIT */
#include "base/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/temp_dir.h"
#include "support/test.h"

TEST(the_mounts_of_a_type_are_listed)
{
    _cleanup_mountinfo_ struct mount *mounts = mountinfo_list("proc");
    bool found = false;
    struct stat stat_of_proc;
    assert_int_equal(stat("/proc", &stat_of_proc), 0);
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
    _cleanup_mountinfo_ struct mount *mounts = mountinfo_list("pro");
    assert_null(mounts[0].path);
}

TEST(a_mount_point_is_found_behind_links_and_slashes)
{
    static const char *const names[] = {"sub/mail",       "sub/mail/", "sub/mail///", "./sub//mail",
                                        "link",           "link/",     "to_sub/mail", "to_sub/../sub/mail/",
                                        "to_deep/../mail"};
    struct temp_dir dir;
    temp_dir_init(&dir);
    assert_int_equal(mkdirat(dir.fd, "sub", 0700), 0);
    assert_int_equal(mkdirat(dir.fd, "sub/mail", 0700), 0);
    assert_int_equal(mkdirat(dir.fd, "sub/deep", 0700), 0);
    assert_int_equal(symlinkat("sub/mail", dir.fd, "link"), 0);
    assert_int_equal(symlinkat("sub", dir.fd, "to_sub"), 0);
    assert_int_equal(symlinkat("sub/deep", dir.fd, "to_deep"), 0);
    _cleanup_free_ char *top = mountinfo_real_path(dir.path);
    _cleanup_free_ char *expected = NULL;
    assert_true(asprintf(&expected, "%s/sub/mail", top) > 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        _cleanup_free_ char *path = NULL;
        assert_true(asprintf(&path, "%s/%s", dir.path, names[i]) > 0);
        _cleanup_free_ char *real = mountinfo_real_path(path);
        assert_string_equal(real, expected);
    }
    _cleanup_free_ char *root = mountinfo_real_path("//");
    assert_string_equal(root, "/");
    assert_null(mountinfo_real_path("/no such folder/"));
    assert_int_equal(errno, ENOENT);
    assert_null(mountinfo_real_path(""));
    temp_dir_release(&dir);
}
