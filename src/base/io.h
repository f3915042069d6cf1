/* io.h: whole files in and out, and writes that tell when they failed. */
#ifndef TILESH_BASE_IO_H
#define TILESH_BASE_IO_H

#include <stdio.h>

#include "arena.h"

/* Writes all of it, retrying after signals; false on any error, also a full device. */
bool io_write(FILE *f, const char *s, size_t n);
/* The same past stdio; errno says what went wrong. */
bool io_write_fd(int fd, const void *p, size_t n);
/* Reads a whole file into the arena, NUL-terminated; on failure NULL, and *why says so. */
char *io_read_file(Arena *a, const char *path, size_t *n, const char **why);
/* The words for an errno, in the arena. */
const char *io_explain(Arena *a, int error);

/* Writes path by a temporary name beside it, fsync and rename: whole or not at all. */
bool io_write_file(Arena *a, const char *path, const void *data, size_t n, const char **why);

/* Makes a folder and what is above it, for the user alone; what is there stays as it is. Whether it
 * worked shows when the folder is used. The path is as before afterwards. */
void io_make_folders(char *path);

/* A file that is written piece by piece, and by the same rule: it lies under a temporary name
 * beside `path` until io_out_commit, which puts it in place. A path that names a device or a pipe
 * is written as it goes. Errors are kept: the first one makes all later calls fail. */
typedef struct IoOut IoOut;
/* Never NULL; what failed is said by the calls below. It lies in the arena. */
IoOut *io_out_new(Arena *a, const char *path);
/* No arena memory is asked for, so nothing jumps away from an open file. */
bool io_out_put(IoOut *o, const void *p, size_t n);
/* True where the whole file stands under its name; else nothing has changed, and *why says why. */
bool io_out_commit(IoOut *o, const char **why);
/* Gives up what was not committed and closes; more than once is allowed, NULL too. */
void io_out_end(IoOut *o);

#endif
