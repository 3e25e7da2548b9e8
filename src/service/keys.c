/* SPDX-License-Identifier: MIT */
/*
 * The database compares digests, never keys, so that the time of a comparison reveals nothing about a key.
 */
#include "service/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "service/service.h"
#include "sql/query.h"

enum {
    API_KEY_LENGTH = 64, /* characters */
    API_KEY_SIZE = API_KEY_LENGTH + 1,
};

static bool is_well_formed(const char *key)
{
    return strlen(key) == API_KEY_LENGTH && strspn(key, "0123456789abcdef") == API_KEY_LENGTH;
}

static int add_key(struct connection *turn, const char *key)
{
    char id[37];
    random_uuid(id);
    char digest[65];
    hash_sha256(key, strlen(key), digest);
    char prefix[9] = "";
    memcpy(prefix, key, 8);
    return query_execute(turn, "INSERT INTO api_keys VALUES (?, ?, ?, ?, NULL)", "sssi", id, digest, prefix,
                         clock_realtime_ms(clock_system()));
}

int keys_is_valid(struct database *database, const char *key)
{
    if (!is_well_formed(key))
        return 0;
    char digest[65];
    hash_sha256(key, strlen(key), digest);
    int64_t count = 0;
    _cleanup_reader_ struct connection *connection = NULL;
    int error = database_take_reader(database, &connection);
    if (error == 0)
        error = query_integers(connection, &count, 1,
                               "SELECT count(*) FROM api_keys WHERE digest = ? AND revoked_ms IS NULL", "s",
                               digest);
    return error != 0 ? error : count > 0;
}

/* ---------------------------------------------------------------- the first key */

static const char file_name[] = "api-key";

/* The caller frees the key with secret_free(). */
static int read_key(int dir_fd, char **ret_key)
{
    _cleanup_secret_ char *text = NULL;
    size_t len = 0;
    int error = file_read_at(dir_fd, file_name, API_KEY_LENGTH + 2, &text, &len);
    if (error != 0)
        return error;
    text[strcspn(text, "\r\n")] = '\0';
    if (!is_well_formed(text))
        return -EBADMSG;
    *ret_key = TAKE_PTR(text);
    return 0;
}

/* The caller frees the key with secret_free(), on failure too. */
static int make_key(int dir_fd, char **ret_key)
{
    char *key = *ret_key = g_malloc0(API_KEY_SIZE);
    random_hex(key, API_KEY_LENGTH / 2);
    _cleanup_secret_ char *line = g_strconcat(key, "\n", NULL);
    return file_replace_at(dir_fd, file_name, line, strlen(line), 0600);
}

int keys_establish_first(struct database *database, int dir_fd)
{
    struct connection *connection = NULL;
    int error = database_begin_write(database, &connection);
    if (error != 0)
        return error;
    int64_t keys = 0;
    error = query_integers(connection, &keys, 1, "SELECT count(*) FROM api_keys", "");
    if (error != 0 || keys > 0)
        return database_end_write(database, error);
    _cleanup_secret_ char *key = NULL;
    error = read_key(dir_fd, &key);
    if (error == -ENOENT || error == -EBADMSG)
        error = make_key(dir_fd, &key);
    if (error == 0)
        error = add_key(connection, key);
    return database_end_write(database, error);
}

int service_read_api_key(const char *data_dir, char **ret_key)
{
    _cleanup_close_ int dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -errno : read_key(dir_fd, ret_key);
}

/* ---------------------------------------------------------------- the commands */

int keys_add(struct database *database, FILE *out)
{
    struct connection *connection = NULL;
    char key[API_KEY_SIZE];
    int error = database_begin_write(database, &connection);
    if (error != 0)
        return error;
    random_hex(key, API_KEY_LENGTH / 2);
    error = database_end_write(database, add_key(connection, key));
    if (error == 0)
        fprintf(out, "%s\n", key);
    explicit_bzero(key, sizeof(key));
    return error;
}

int keys_list(struct database *database, FILE *out)
{
    _cleanup_reader_ struct connection *connection = NULL;
    _cleanup_statement_ struct statement statement = {0};
    int error = database_begin_read(database, &connection);
    if (error == 0)
        error = query_begin(connection, &statement,
                            "SELECT format('%s  %s...  %s', id, prefix, strftime('%Y-%m-%dT%H:%M:%fZ',"
                            " created_ms / 1000.0, 'unixepoch')) FROM api_keys WHERE revoked_ms IS NULL"
                            " ORDER BY created_ms",
                            "");
    int step = error;
    while (error == 0 && (step = query_step(statement.row)) > 0)
        fprintf(out, "%s\n", query_column_text(statement.row, 0));
    return step;
}

int keys_revoke(struct database *database, const char *id)
{
    struct connection *connection = NULL;
    int error = database_begin_write(database, &connection);
    if (error != 0)
        return error;
    error =
        query_execute(connection, "UPDATE api_keys SET revoked_ms = ? WHERE id = ? AND revoked_ms IS NULL",
                      "is", clock_realtime_ms(clock_system()), id);
    if (error == 0 && sqlite3_changes(connection->db) == 0)
        error = -ENOKEY;
    return database_end_write(database, error);
}
