/* check_base_io.c: whole files, full devices, interrupted writes, folders; the clock. */
#include "base_suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static Arena *arena;

static void setup_directory(void) {
  snprintf(dir, sizeof dir, "/tmp/check_base_io.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  arena = arena_new(NULL, "test");
}

static void remove_directory(void) {
  pid_t pid = fork();
  if (pid == 0) {
    execlp("rm", "rm", "-rf", dir, (char *)NULL);
    _exit(127);
  }
  waitpid(pid, NULL, 0);
  arena_free(arena);
}

static const char *in_dir(const char *name) {
  return arena_printf(arena, "%s/%s", dir, name);
}

static int count_files(void) {
  Str command = str_new(arena);
  str_addf(&command, "ls -A %s | wc -l", dir);
  FILE *f = popen(command.s, "r");
  int n = -1;
  ck_assert_int_eq(fscanf(f, "%d", &n), 1);
  pclose(f);
  return n;
}

START_TEST(write_and_read_back) {
  const char *why = NULL, *path = in_dir("a");
  size_t n;
  for (size_t size = 0; size < 400000; size = size * 3 + 1) {
    char *data = arena_alloc(arena, size + 1), *back;
    memset(data, 'x', size);
    if (size > 2)
      data[1] = '\0';
    ck_assert_msg(io_write_file(arena, path, data, size, &why), "%s", why);
    back = io_read_file(arena, path, &n, &why);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(n, size);
    ck_assert_mem_eq(back, data, size + 1);
  }
  ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(errors_are_told) {
  const char *why = NULL;
  size_t n;
  ck_assert_ptr_null(io_read_file(arena, in_dir("none"), &n, &why));
  ck_assert_str_eq(why, "No such file or directory");
  ck_assert_ptr_null(io_read_file(arena, dir, &n, &why));
  ck_assert_str_eq(why, "Is a directory");
  ck_assert(!io_write_file(arena, dir, "x", 1, &why));
  ck_assert_str_eq(why, "Is a directory");
  ck_assert(!io_write_file(arena, in_dir("no/such"), "x", 1, &why));
  ck_assert_str_eq(why, "No such file or directory");
  ck_assert(!io_write_file(arena, "/dev/full", "x", 1, &why));
  ck_assert_str_eq(why, "No space left on device");
  ck_assert(io_write_file(arena, "/dev/null", "x", 1, &why));
  ck_assert_int_eq(count_files(), 0);
}
END_TEST

START_TEST(a_pipe_and_proc_are_read_to_the_end) {
  const char *why = NULL;
  size_t n;
  char *text = io_read_file(arena, "/proc/self/status", &n, &why);
  ck_assert_ptr_nonnull(strstr(text, "VmPeak"));
  int fds[2];
  ck_assert_int_eq(pipe(fds), 0);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 50000; i++)
      if (write(fds[1], "12345", 5) != 5)
        _exit(1);
    _exit(0);
  }
  close(fds[1]);
  text = io_read_file(arena, arena_printf(arena, "/proc/self/fd/%d", fds[0]), &n, &why);
  ck_assert_uint_eq(n, 250000);
  ck_assert_uint_eq(strlen(text), 250000);
  waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(mode_and_links_are_kept) {
  const char *why = NULL, *target = in_dir("target"), *link = in_dir("link");
  struct stat st;
  size_t n;
  ck_assert(io_write_file(arena, target, "1", 1, &why));
  ck_assert_int_eq(chmod(target, 0640), 0);
  ck_assert_int_eq(symlink("target", link), 0);
  ck_assert(io_write_file(arena, link, "22", 2, &why));
  ck_assert_int_eq(lstat(link, &st), 0);
  ck_assert(S_ISLNK(st.st_mode));
  ck_assert_int_eq(stat(target, &st), 0);
  ck_assert_uint_eq(st.st_mode & 07777, 0640);
  ck_assert_str_eq(io_read_file(arena, target, &n, &why), "22");
}
END_TEST

/* A file size limit stands for a full disk: the old file stays, nothing is left beside it. */
START_TEST(a_failed_write_leaves_the_old_file) {
  const char *why = NULL, *path = in_dir("a");
  ck_assert(io_write_file(arena, path, "old", 3, &why));
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit = {8192, 8192};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    bool written = io_write_file(arena, path, arena_alloc(arena, 1 << 20), 1 << 20, &why);
    _exit(written ? 0 : strcmp(why, "File too large") == 0 ? 3 : 4);
  }
  int status;
  waitpid(pid, &status, 0);
  ck_assert_int_eq(WEXITSTATUS(status), 3);
  size_t n;
  ck_assert_str_eq(io_read_file(arena, path, &n, &why), "old");
  ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(pieces_are_put_in_place_at_once) {
  const char *why = NULL, *path = in_dir("a");
  size_t n;
  ck_assert(io_write_file(arena, path, "old", 3, &why));
  IoOut *o = io_out_new(arena, path);
  ck_assert(io_out_put(o, "new ", 4) && io_out_put(o, "text", 4));
  ck_assert_str_eq(io_read_file(arena, path, &n, &why), "old");
  ck_assert(io_out_commit(o, &why));
  ck_assert_str_eq(io_read_file(arena, path, &n, &why), "new text");
  io_out_end(o);
  o = io_out_new(arena, path);
  ck_assert(io_out_put(o, "given up", 8));
  io_out_end(o);
  io_out_end(o);
  io_out_end(NULL);
  ck_assert_str_eq(io_read_file(arena, path, &n, &why), "new text");
  ck_assert_int_eq(count_files(), 1);
}
END_TEST

/* The longest name that a file can have: the temporary one beside it must not be longer. */
START_TEST(long_names_are_written) {
  const char *why = NULL;
  char name[256];
  memset(name, 'n', 255);
  name[255] = '\0';
  ck_assert_msg(io_write_file(arena, in_dir(name), "x", 1, &why), "%s", why);
  ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(full_device_is_noticed_at_once) {
  FILE *f = fopen("/dev/full", "w");
  ck_assert_ptr_nonnull(f);
  ck_assert(!io_write(f, "x", 1));
  fclose(f);
}
END_TEST

START_TEST(streams_in_memory_work) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  ck_assert(io_write(f, "a\0b", 3));
  ck_assert_uint_eq(n, 3);
  fclose(f);
  free(text);
}
END_TEST

START_TEST(what_stdio_holds_comes_first) {
  const char *why = NULL, *path = in_dir("a");
  size_t n;
  FILE *f = fopen(path, "w");
  fputs("one ", f);
  ck_assert(io_write(f, "two", 3));
  ck_assert_str_eq(io_read_file(arena, path, &n, &why), "one two");
  fclose(f);
}
END_TEST

static void on_alarm(int signal) {
  (void)signal;
}

/* A slow reader, a timer that interrupts, and a descriptor that does not block. */
static void write_against_signals(int flags) {
  int fds[2];
  ck_assert_int_eq(pipe(fds), 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(fds[1]);
    char buffer[4096];
    size_t total = 0;
    ssize_t got;
    while ((got = read(fds[0], buffer, sizeof buffer)) > 0) {
      total += (size_t)got;
      if (total % 65536 < 4096)
        usleep(1000);
    }
    _exit(total == 1000000 ? 0 : 1);
  }
  close(fds[0]);
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, NULL);
  ualarm(500, 500);
  fcntl(fds[1], F_SETFL, fcntl(fds[1], F_GETFL) | flags);
  FILE *f = fdopen(fds[1], "w");
  char *data = arena_alloc(arena, 1000000);
  ck_assert(io_write(f, data, 1000000));
  ualarm(0, 0);
  fclose(f);
  int status;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

START_TEST(signals_do_not_cut_a_write) {
  write_against_signals(0);
  write_against_signals(O_NONBLOCK);
}
END_TEST

/* Running out of memory in the middle of reading: the descriptor is closed, the boundary reached.
 */
static void read_too_much(Guard *guard, void *ctx) {
  Arena *a = ctx;
  const char *why;
  size_t n;
  arena_set_guard(a, guard);
  io_read_file(a, in_dir("huge"), &n, &why);
}

START_TEST(out_of_memory_while_reading_closes_the_file) {
  const char *path = in_dir("huge");
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  if (ftruncate(fd, (off_t)1 << 50) != 0) {
    close(fd);
    return; /* the file system does not take such files */
  }
  close(fd);
  Arena *a = arena_new(NULL, "test");
  ck_assert_int_eq(guard_run(read_too_much, a), ST_NOMEM);
  arena_set_guard(a, NULL);
  int next = open("/dev/null", O_RDONLY);
  ck_assert_int_eq(next, fd);
  close(next);
  arena_free(a);
}
END_TEST

START_TEST(folders_are_made) {
  char *path = arena_printf(arena, "%s/a/b/c", dir), was[128];
  struct stat st;
  snprintf(was, sizeof was, "%s", path);
  for (int i = 0; i < 2; i++) { /* the second time all are there */
    io_make_folders(path);
    ck_assert_str_eq(path, was);
    ck_assert(stat(path, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
  }
}
END_TEST

START_TEST(time_goes_on) {
  double start = base_now();
  ck_assert(start > 0);
  ck_assert_int_eq(usleep(20000), 0);
  double end = base_now();
  ck_assert(end - start >= 0.02 && end - start < 60);
}
END_TEST

/* Waiting is no work. */
START_TEST(work_is_told_from_waiting) {
  double start = base_now(), worked = base_worked();
  ck_assert_int_eq(usleep(20000), 0);
  ck_assert(base_worked() - worked < base_now() - start);
  for (worked = base_worked(); base_worked() - worked < 1e-3;)
    continue;
}
END_TEST

int main(void) {
  const TTest *const tests[] = {write_and_read_back,
                                errors_are_told,
                                a_pipe_and_proc_are_read_to_the_end,
                                mode_and_links_are_kept,
                                a_failed_write_leaves_the_old_file,
                                pieces_are_put_in_place_at_once,
                                long_names_are_written,
                                full_device_is_noticed_at_once,
                                streams_in_memory_work,
                                what_stdio_holds_comes_first,
                                signals_do_not_cut_a_write,
                                out_of_memory_while_reading_closes_the_file,
                                folders_are_made,
                                time_goes_on,
                                work_is_told_from_waiting,
                                NULL};
  return run_suite_between("base_io", tests, setup_directory, remove_directory);
}
