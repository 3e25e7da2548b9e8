/* SPDX-License-Identifier: MIT */
/*
 * The first key: the file first, then the database, so that a crash in between loses no key.
 */
#include "service/first_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "service/keys.h"
#include "service/service.h"

static const char file_name[] = "api-key";

static int read_key(int dir_fd, char ret_key[API_KEY_SIZE])
{
    char *text = NULL;
    size_t len = 0;
    int error = file_read_at(dir_fd, file_name, API_KEY_SIZE + 1, &text, &len);
    if (error != 0)
        return error;
    text[strcspn(text, "\r\n")] = '\0';
    error = keys_is_well_formed(text) ? 0 : -EBADMSG;
    if (error == 0)
        memcpy(ret_key, text, API_KEY_SIZE);
    explicit_bzero(text, len);
    free(text);
    return error;
}

static int make_key(int dir_fd, char ret_key[API_KEY_SIZE])
{
    char line[API_KEY_SIZE + 1];
    int error = keys_generate(ret_key);
    if (error != 0)
        return error;
    snprintf(line, sizeof(line), "%s\n", ret_key);
    error = file_replace_at(dir_fd, file_name, line, strlen(line), 0600);
    explicit_bzero(line, sizeof(line));
    return error;
}

static int store_key(struct database *database, sqlite3 *db, const char *key)
{
    int error = keys_add(db, key, NULL);
    if (error == 0)
        return database_commit(database);
    database_rollback(database);
    return error;
}

int first_key_establish(struct database *database, int dir_fd)
{
    sqlite3 *db = NULL;
    int error = database_begin_write(database, &db);
    if (error != 0)
        return error;
    int is_empty = keys_is_empty(db);
    if (is_empty <= 0) {
        database_rollback(database);
        return is_empty;
    }
    char key[API_KEY_SIZE];
    error = read_key(dir_fd, key);
    if (error == -ENOENT || error == -EBADMSG)
        error = make_key(dir_fd, key);
    if (error == 0)
        error = store_key(database, db, key);
    else
        database_rollback(database);
    explicit_bzero(key, sizeof(key));
    return error;
}

int service_read_api_key(const char *data_dir, char **ret_key)
{
    _cleanup_close_ int dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return -errno;
    char *key = malloc(API_KEY_SIZE);
    if (key == NULL)
        return -ENOMEM;
    int error = read_key(dir_fd, key);
    if (error != 0) {
        free(key);
        return error;
    }
    *ret_key = key;
    return 0;
}
