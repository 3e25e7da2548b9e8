/* SPDX-License-Identifier: MIT */
/*
 * The configuration file and the section of an account are read or refused. A value that is read is the text
 * after its name, on one line.
 */
#include "options.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz/fuzz.h"

static bool is_one_line(const char *value)
{
    return value == NULL || strchr(value, '\n') == NULL;
}

/* `account` may be NULL. */
static void read_as(int fd, char *account)
{
    char config[64];
    struct options options;
    snprintf(config, sizeof(config), "--config=/proc/self/fd/%d", fd);
    char program[] = "inboxfs";
    char mountpoint[] = "/";
    char *arguments[] = {program, config, account != NULL ? account : mountpoint, mountpoint, NULL};
    FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
    if (options_read(account != NULL ? 4 : 3, arguments, &options) < 0) {
        FUZZ_CHECK(options.source != NULL);
        FUZZ_CHECK((account == NULL) == (options.account == NULL));
        FUZZ_CHECK(options.content_cache_mb >= 1 && options.poll_interval_s >= 0 &&
                   options.daily_limit >= -1);
    }
    FUZZ_CHECK(is_one_line(options.source) && is_one_line(options.api_key));
    FUZZ_CHECK(is_one_line(options.api_key_command) && is_one_line(options.default_from));
    options_release(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char account[] = "work";
    int fd = memfd_create("config", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    FUZZ_CHECK(fchmod(fd, 0600) == 0);
    read_as(fd, NULL);
    read_as(fd, account);
    close(fd);
    return 0;
}
