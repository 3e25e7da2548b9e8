/* SPDX-License-Identifier: MIT */
#include "base/mountinfo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void the_mounts_of_a_type_are_found(void **state)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    bool found = false;
    struct stat stat_of_proc;
    (void)state;
    assert_int_equal(stat("/proc", &stat_of_proc), 0);
    assert_int_equal(mountinfo_list("proc", &mounts), 0);
    for (const struct mount *mount = mounts; mount->path != NULL; mount++)
        found = found || (strcmp(mount->path, "/proc") == 0 && mount->owner == -1 &&
                          mount->device == stat_of_proc.st_dev);
    assert_true(found);
}

static void a_mount_is_told_by_its_type_and_place(void **state)
{
    (void)state;
    assert_true(mountinfo_find("proc", "/proc", 0, NULL));
    assert_false(mountinfo_find("proc", "/pro", 0, NULL));
    assert_false(mountinfo_find("fuse.inboxfs", "/proc", 0, NULL));
    struct stat status;
    dev_t device = 0;
    assert_int_equal(stat("/proc", &status), 0);
    assert_true(mountinfo_find("proc", NULL, status.st_dev, &device));
    assert_int_equal(device, status.st_dev);
    assert_false(mountinfo_find("proc", "/proc", status.st_dev + 1, NULL));
}

static void a_type_is_a_whole_word(void **state)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    (void)state;
    assert_int_equal(mountinfo_list("pro", &mounts), 0);
    assert_null(mounts[0].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mounts_of_a_type_are_found),
        cmocka_unit_test(a_mount_is_told_by_its_type_and_place),
        cmocka_unit_test(a_type_is_a_whole_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
