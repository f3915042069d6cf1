/* history.c: the entries of this and of earlier sessions.
 *
 * In: entries. Out: the line editor's list, newest last and without duplicates, and a file that
 * only its owner can read. An entry is in the file as soon as it has run, so that a crash loses
 * none and two prompts at once mix theirs. Entries of several lines come back whole. With --safe
 * there is no file. Tests: tests/repl/run.
 */
#include "editor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LINE_EDITOR

enum { ENTRIES = 2000, FILE_BYTES = 1 << 20 };

/* Frees the i-th entry. */
static void drop(int i) {
  HIST_ENTRY *old = remove_history(i);
  if (!old)
    return;
  free((void *)(uintptr_t)old->line);
#ifdef HAVE_READLINE
  free(old->timestamp);
#endif
  free(old);
}

/* The newest i below `end` that equals the entry, or -1. */
static int find(const char *entry, int end) {
  for (int i = end; i-- > 0;) {
    const HIST_ENTRY *e = history_get(history_base + i);
    if (e && strcmp(e->line, entry) == 0)
      return i;
  }
  return -1;
}

/* The later of two equal ones stays. */
static void drop_doubles(void) {
  for (int i = history_length; i-- > 1;) {
    const HIST_ENTRY *e = history_get(history_base + i);
    int older = e ? find(e->line, i) : -1;
    if (older < 0)
      continue;
    drop(older);
  }
}

/* Where no file can be made there is history all the same, but for this session only. */
static char *open_file(Repl *r) {
  const char *folder =
      r->o->safe ? NULL : repl_directory(r, "XDG_STATE_HOME", ".local/state", true);
  char *path = folder ? strdup(arena_printf(r->arena, "%s/history", folder)) : NULL;
  int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) {
    close(fd);
    return path;
  }
  free(path);
  return NULL;
}

/* The file holds every entry as often as it was made; a long one is written anew. */
void history_open(Repl *r) {
  struct stat st;
#ifdef HAVE_READLINE
  history_comment_char = '#';
  history_write_timestamps = 1; /* they part entries, so several lines come back whole */
#endif
  using_history();
  stifle_history(ENTRIES);
  r->history_file = open_file(r);
  if (!r->history_file)
    return;
  read_history(r->history_file);
  drop_doubles();
  if (stat(r->history_file, &st) == 0 && st.st_size > FILE_BYTES)
    write_history(r->history_file);
}

/* An older equal entry goes, so that history has no duplicates. Failing to write is no reason to
 * fail. */
void editor_remember(Repl *r, const char *entry) {
  (void)r; /* libedit's file is written at the end */
  int older = find(entry, history_length);
  if (older >= 0)
    drop(older);
  add_history(entry);
#ifdef HAVE_READLINE
  if (r->history_file)
    append_history(1, r->history_file);
#endif
}

void history_close(Repl *r) {
#ifndef HAVE_READLINE
  if (r->history_file)
    write_history(r->history_file);
#endif
  free(r->history_file);
  clear_history();
}

#else
typedef int HistoryNeedsALineEditor; /* a file of C holds something */
#endif
