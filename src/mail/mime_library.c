/* SPDX-License-Identifier: MIT */
/*
 * Initialises GMime once, whichever thread needs it first, and makes the options that all parsing of mail
 * uses.
 */
#include "mail/mime_library.h"

#include <pthread.h>

void mime_library_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, g_mime_init);
}

GMimeParserOptions *mime_parser_options_new(void)
{
    /* windows-1252 leaves five bytes undefined; the last one takes any byte. */
    const char *charsets[] = {"utf-8", "windows-1252", "iso-8859-1", NULL};
    mime_library_init();
    GMimeParserOptions *options = g_mime_parser_options_new();
    g_mime_parser_options_set_fallback_charsets(options, charsets);
    return options;
}
