/* SPDX-License-Identifier: MIT */
/*
 * API keys. Only digests are compared, so that the time a look-up takes tells nothing of a key.
 */
#include "service/keys.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "mail/content_digest.h"
#include "sql/query.h"

int keys_generate(char ret_key[API_KEY_SIZE])
{
    return random_hex(ret_key, API_KEY_LENGTH / 2);
}

bool keys_is_well_formed(const char *key)
{
    return strlen(key) == API_KEY_LENGTH && strspn(key, "0123456789abcdef") == API_KEY_LENGTH;
}

int keys_add(sqlite3 *db, const char *key, char ret_id[37])
{
    char id[37];
    int error = random_uuid(id);
    if (error != 0)
        return error;
    char digest[65];
    content_digest(key, strlen(key), digest);
    char prefix[9] = "";
    memcpy(prefix, key, 8);
    error = query_execute(db, "INSERT INTO api_keys VALUES (?, ?, ?, ?, NULL)", "sssi", id, digest, prefix,
                          clock_realtime_ms(clock_system()));
    if (error == 0 && ret_id != NULL)
        memcpy(ret_id, id, sizeof(id));
    return error;
}

int keys_revoke(sqlite3 *db, const char *id)
{
    int error = query_execute(db, "UPDATE api_keys SET revoked_ms = ? WHERE id = ? AND revoked_ms IS NULL",
                              "is", clock_realtime_ms(clock_system()), id);
    if (error != 0)
        return error;
    return sqlite3_changes(db) > 0 ? 0 : -ENOENT;
}

int keys_is_known(sqlite3 *db, const char *key)
{
    char digest[65];
    content_digest(key, strlen(key), digest);
    int64_t count = 0;
    int error = query_integer(
        db, &count, "SELECT count(*) FROM api_keys WHERE digest = ? AND revoked_ms IS NULL", "s", digest);
    return error != 0 ? error : count > 0;
}

int keys_is_empty(sqlite3 *db)
{
    int64_t count = 0;
    int error = query_integer(db, &count, "SELECT count(*) FROM api_keys", "");
    return error != 0 ? error : count == 0;
}
