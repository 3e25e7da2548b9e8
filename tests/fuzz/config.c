/* SPDX-License-Identifier: MIT */
/*
 * The configuration file: read, or refused; a value is what stands behind its name, on one line.
 */
#include "config_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char path[64];
    char *source = NULL;
    char *key = NULL;
    int flag = 0;
    const struct config_setting settings[] = {
        {.name = "source", .text = &source},
        {.name = "api-key", .text = &key, .is_secret = true},
        {.name = "allow-http", .flag = &flag},
    };
    int fd = memfd_create("config", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    (void)config_file_read(path, true, settings, ARRAY_LEN(settings));
    FUZZ_CHECK(source == NULL || strchr(source, '\n') == NULL);
    FUZZ_CHECK(key == NULL || strchr(key, '\n') == NULL);
    FUZZ_CHECK(flag == 0 || flag == 1);
    free(source);
    free(key);
    close(fd);
    return 0;
}
