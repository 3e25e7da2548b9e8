/* SPDX-License-Identifier: MIT */
/*
 * Initialises GMime once, whichever thread needs it first.
 */
#include "mail/mime_library.h"

#include <gmime/gmime.h>
#include <pthread.h>

void mime_library_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, g_mime_init);
}
