/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 by GLib.
 */
#include "mail/content_digest.h"

#include <glib.h>
#include <stdio.h>

void content_digest(const void *bytes, size_t len, char ret_digest[65])
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    const guchar *from = bytes;
    while (len > 0) {
        size_t step = len < G_MAXINT ? len : G_MAXINT;
        g_checksum_update(checksum, from, (gssize)step);
        from += step;
        len -= step;
    }
    snprintf(ret_digest, 65, "%s", g_checksum_get_string(checksum));
}
