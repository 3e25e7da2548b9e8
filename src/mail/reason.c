/* SPDX-License-Identifier: MIT */
/*
 * A reason quotes text of users, so it is made valid UTF-8 without characters that a terminal obeys.
 */
#include "mail/reason.h"

#include <glib.h>
#include <stdarg.h>

#include "base/character.h"
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

    *ret_reason = g_utf8_make_valid(strbuf_str(&words), -1);
    character_replace(*ret_reason, CHARACTER_NOT_PLAIN, ' ');
    return error;
}
