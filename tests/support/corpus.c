/* SPDX-License-Identifier: MIT */
/*
 * Reads the corpus, in the order of its file names.
 */
#include "support/corpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"

#define CORPUS "tests/data/mime"

enum {
    MESSAGE_MAX_BYTES = 1000 * 1000
};

static int is_message(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".eml") == 0;
}

static void read_message(const char *file, struct corpus_message *message)
{
    char path[512];
    json_error_t problem;
    message->name = strndup(file, strlen(file) - strlen(".eml"));
    snprintf(path, sizeof(path), CORPUS "/%s", file);
    if (file_read_at(AT_FDCWD, path, MESSAGE_MAX_BYTES, &message->bytes, &message->len) != 0)
        fail_msg("cannot read %s", path);
    snprintf(path, sizeof(path), CORPUS "/%s.expected", message->name);
    message->expected = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (message->expected == NULL)
        fail_msg("%s: %s", path, problem.text);
}

size_t corpus_for_each(void (*check)(void *context, const struct corpus_message *message), void *context)
{
    struct dirent **entries;
    int count = scandir(CORPUS, &entries, is_message, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        struct corpus_message message;
        read_message(entries[i]->d_name, &message);
        check(context, &message);
        json_decref(message.expected);
        free(message.bytes);
        free(message.name);
        free(entries[i]);
    }
    free(entries);
    return (size_t)count;
}
