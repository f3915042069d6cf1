/* stages.c: commands that show how a kernel is compiled.
 *
 * In: a kernel call. Out: the text of a stage, machine code, or what was chosen and why. None needs
 * a GPU; PTX and machine code need NVIDIA's compiler. Tests: tests/repl/stages.txt, explain.txt.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "impl.h"

/* The text of a stage, whatever runs on the device meanwhile. */
static void emit(Repl *r, const char *rest, SessionEmit stage) {
  if (!*rest) {
    repl_say(r, stage == EMIT_AST ? "an expression is wanted: 1 + 2, f(a, b)\n"
                                  : "a kernel or a call of one is wanted: f(a, b), f\n");
    return;
  }
  Str out = str_new(r->arena);
  Status status = session_emit_call(r->s, rest, strlen(rest), stage, &out);
  repl_show(r, status, &out);
}

/* One function a stage, since rows of the table take no argument of their own. */
void prompt_ast(Repl *r, const char *rest) {
  emit(r, rest, EMIT_AST);
}
void prompt_ir(Repl *r, const char *rest) {
  emit(r, rest, EMIT_IR);
}
void prompt_scheduled(Repl *r, const char *rest) {
  emit(r, rest, EMIT_SCHEDULED);
}
void prompt_lowered(Repl *r, const char *rest) {
  emit(r, rest, EMIT_LOWERED);
}
void prompt_cuda(Repl *r, const char *rest) {
  emit(r, rest, EMIT_CUDA);
}
void prompt_ptx(Repl *r, const char *rest) {
  emit(r, rest, EMIT_PTX);
}

static void explain(Repl *r, const char *rest, SessionExplain what) {
  Str out = str_new(r->arena);
  Status status = session_explain(r->s, what, rest, strlen(rest), &out);
  repl_show(r, status, &out);
}

/* `:explain E0231` is what `tilesh explain` shows. */
void prompt_explain(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  DiagCode code;
  bool letter = *rest == 'E' || *rest == 'e';
  size_t digits = letter ? strspn(rest + 1, "0123456789") : 0;
  if (letter && diag_find(rest, &code)) {
    diag_explain(code, &out);
    repl_say(r, str_text(&out));
  } else if (digits > 0 && !rest[1 + digits] && !session_help(r->s, rest, &out))
    repl_say(r, arena_printf(r->arena, "there is no diagnostic %s\n", rest));
  else if (*rest)
    explain(r, rest, EXPLAIN_CHOICES);
  else
    repl_say(r, ":explain f(a, b), :explain f, :explain E0231\n");
}
void prompt_smem(Repl *r, const char *rest) {
  if (*rest)
    explain(r, rest, EXPLAIN_SHARED);
  else
    repl_say(r, ":smem f(a, b), :smem f\n");
}
void prompt_layout(Repl *r, const char *rest) {
  explain(r, rest, EXPLAIN_LAYOUT);
}

/* Machine code --------------------------------------------------------------------------------- */

/* A program of NVIDIA's: on the path, or where its packages put it. */
static const char *find_program(Repl *r, const char *name) {
  const char *path = getenv("PATH");
  const char *all = arena_printf(r->arena, "%s:/usr/local/cuda/bin", path ? path : "");
  for (const char *p = all; *p;) {
    size_t n = strcspn(p, ":");
    const char *file = arena_printf(r->arena, "%.*s/%s", (int)n, p, name);
    if (n && access(file, X_OK) == 0)
      return file;
    p += n + (p[n] == ':');
  }
  return NULL;
}

/* A file that has no name any more once it is closed. */
static bool write_cubin(const Str *cubin, char *name) {
  int fd = mkstemp(name);
  if (fd < 0)
    return false;
  bool ok = write(fd, cubin->s, cubin->n) == (ssize_t)cubin->n;
  return close(fd) == 0 && ok;
}

/* Its output goes where the prompt's goes; Ctrl-C ends it, not the prompt. */
static void run_program(Repl *r, const char *program, const char *flag, const char *file) {
  pid_t pid = fork();
  if (pid == 0) {
    execl(program, program, flag, file, (char *)NULL);
    _exit(127);
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    repl_say(r, arena_printf(r->arena, "%s failed\n", program));
}

void prompt_sass(Repl *r, const char *rest) {
  Str cubin = str_new(r->arena);
  const char *tmp = getenv("TMPDIR");
  char *name = arena_printf(r->arena, "%s/tilesh-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  const char *nvdisasm = find_program(r, "nvdisasm"), *cuobjdump = find_program(r, "cuobjdump");
  if (!nvdisasm && !cuobjdump) {
    repl_say(r, "neither nvdisasm nor cuobjdump is there: install NVIDIA's package "
                "cuda-nvdisasm or Debian's nvidia-cuda-toolkit\n");
    return;
  }
  Status status = session_emit_call(r->s, rest, strlen(rest), EMIT_CUBIN, &cubin);
  if (status != ST_OK) {
    repl_report(r, status);
    return;
  }
  if (write_cubin(&cubin, name))
    run_program(r, nvdisasm ? nvdisasm : cuobjdump, nvdisasm ? "-c" : "-sass", name);
  else
    repl_say(r, arena_printf(r->arena, "%s cannot be written: %s\n", name, strerror(errno)));
  unlink(name);
}
