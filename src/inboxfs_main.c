/* SPDX-License-Identifier: MIT */
/*
 * inboxfs: mounts an account of an email inbox service as directories.
 */
#include <stdlib.h>

#include "base/log.h"
#include "daemon.h"
#include "options.h"

enum {
    EXIT_USAGE = 2
};

int main(int argc, char **argv)
{
    struct options options;
    int status = EXIT_SUCCESS;
    switch (options_read(argc, argv, &options)) {
    case OPTIONS_RUN:
        if (options.is_debug)
            log_set_level(LOG_LEVEL_DEBUG);
        status = daemon_run(&options);
        break;
    case OPTIONS_FAILED:
        status = EXIT_USAGE;
        break;
    case OPTIONS_DONE:
        break;
    }
    options_release(&options);
    return status;
}
