/* SPDX-License-Identifier: MIT */
/*
 * Reasons in words.
 */
#include "mail/reason.h"

#include <errno.h>
#include <glib.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

enum {
    REASON_MAX_BYTES = 1024
};

int reason_give(char **ret_reason, int error, const char *format, ...)
{
    _cleanup_strbuf_ struct strbuf words = STRBUF_INIT(REASON_MAX_BYTES);
    va_list arguments;
    va_start(arguments, format);
    strbuf_vappendf(&words, format, arguments);
    va_end(arguments);

    g_autofree char *valid = g_utf8_make_valid(strbuf_str(&words), -1);
    for (char *c = valid; *c != '\0'; c = g_utf8_next_char(c))
        if (g_unichar_iscntrl(g_utf8_get_char(c)))
            memset(c, ' ', (size_t)(g_utf8_next_char(c) - c));
    *ret_reason = strdup(valid);
    return *ret_reason == NULL ? -ENOMEM : error;
}
