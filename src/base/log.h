/* SPDX-License-Identifier: MIT */
/*
 * The log: one line for each failure, in words that a user can act on. Only the outermost callers log, once
 * per failure. A line never contains a key or a body, nor (at the default level) an email address. Characters
 * that a terminal obeys (base/character.h) are replaced, since senders and servers choose parts of a line.
 */
#ifndef INBOXFS_BASE_LOG_H
#define INBOXFS_BASE_LOG_H

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

/* Sets the least important level that is logged; the default is LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);

/* Sets the prefix of lines on standard error ("inboxfs: " by default). The string must stay valid. */
void log_set_prefix(const char *prefix);

/* Sends all later lines to the system log instead of standard error. `name` must stay valid. */
void log_to_syslog(const char *name);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Logs an error, and has the value `status`. */
#define complain(status, ...) (log_error(__VA_ARGS__), (status))

#endif
