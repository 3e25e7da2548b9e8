/* SPDX-License-Identifier: MIT */
/*
 * The log: one line for each failure, in words that a user can act on. Only the edges of the program log,
 * once per failure; never a key, a body, or (at the default level) an email address. All characters that
 * a terminal obeys (base/character.h) are replaced, so that nothing a sender or a server chose acts on one.
 */
#ifndef INBOXFS_BASE_LOG_H
#define INBOXFS_BASE_LOG_H

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

/* The default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

/* The beginning of lines on standard error, "inboxfs: " by default. Not copied. */
void log_set_prefix(const char *prefix);

/* From now on lines go to the system log, as `name`, and no longer to standard error. */
void log_to_syslog(const char *name);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
