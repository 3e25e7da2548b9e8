/* SPDX-License-Identifier: MIT */
/*
 * Searches and replaces in whole texts. The header classifies single characters, inline.
 */
#include "base/character.h"

#include <stdio.h>
#include <string.h>

bool character_has(const char *text, unsigned int kinds)
{
    const char *end = text + strlen(text);
    while (text < end) {
        const struct character character = character_at(text, (size_t)(end - text));
        if ((character.kind & kinds) != 0)
            return true;
        text += character.len;
    }
    return false;
}

void character_replace(char *text, unsigned int kinds, char with)
{
    const char *end = text + strlen(text);
    while (text < end) {
        const struct character character = character_at(text, (size_t)(end - text));
        if ((character.kind & kinds) != 0)
            memset(text, with, character.len);
        text += character.len;
    }
}

void character_format_plain(char *line, size_t size, const char *format, va_list arguments)
{
    vsnprintf(line, size, format, arguments);
    character_replace(line, CHARACTER_NOT_PLAIN, '?');
}
