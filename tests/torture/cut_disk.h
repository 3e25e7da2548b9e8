/* SPDX-License-Identifier: MIT */
/*
 * A disk on which every change takes effect some time after it was made, at the latest when an fsync ends.
 * It is fed with the records of tests/torture/record_preload.c, and makes the states in which a power cut
 * after the last record may leave the files:
 *
 * - Bytes that were written before the last fsync of their file began are on the disk. Each sector (512 B or
 *   4 kB) of a later write may have reached the disk or not. The new size of the file may have reached it
 *   without the bytes, which are then zeros. Bytes that were written after the file was cut off (ftruncate,
 *   O_TRUNC) are on the disk only if the file was cut off there as well.
 * - Changes of names are on the disk if their folder was fsynced afterwards. Each later change may have
 *   reached the disk, with or without those before it. A change takes effect as a whole: a rename leaves one
 *   name. A rename from one folder to another is certain when both were fsynced.
 *
 * All states are made if they are few, otherwise some: all old, all new, each single change missing, each
 * single change made, each write cut at some of its sectors, and some states at random.
 */
#ifndef INBOXFS_TESTS_CUT_DISK_H
#define INBOXFS_TESTS_CUT_DISK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct disk;
struct disk_state; /* what a cut leaves; belongs to the disk, and is valid during one call of the visitor */

typedef void (*disk_visitor)(void *context, const struct disk_state *state);

struct disk *disk_new(void);
void disk_free(struct disk *disk);

/* Takes one record, without its line end. `bytes`: what a write wrote; they must live as long as the disk.
 * Return: 0; -EINVAL if this is no record of the recorder; -ENOTSUP if the model lacks this change. */
int disk_apply(struct disk *disk, const char *record, const void *bytes);

/* Calls `visit` for the states that a cut now may leave, some equal. `seed` decides the random states. */
void disk_visit_states(struct disk *disk, uint64_t seed, disk_visitor visit, void *context);
/* Calls `visit` once, for the state in which all changes are made. */
void disk_visit_newest(struct disk *disk, disk_visitor visit, void *context);

/* Returns the same number for states with the same names and bytes. */
uint64_t disk_state_hash(const struct disk_state *state);
/* Makes the files in the empty directory `dir_fd`. Returns 0 or -errno. */
int disk_state_build(const struct disk_state *state, int dir_fd);
/* Writes which of the last changes this state lacks, a line each. */
void disk_state_describe(const struct disk_state *state, FILE *to);
/* Compares the directory with the state, except for other files at its top. Returns 0 if names and bytes are
 * equal; else -ENOENT, after a line on `to` with the difference. */
int disk_state_compare(const struct disk_state *state, int dir_fd, FILE *to);

#endif
