/* lib.c: finds and opens libcuda and NVRTC at run time.
 *
 * Goes in: file names, most wanted first. Comes out: an open library or a sentence saying where it
 * was looked for. A search path that was given (GpuConfig.library_path, $TILESH_CUDA_PATH) is the
 * only place searched. Otherwise, for each name: the loader's own rules ($LD_LIBRARY_PATH, its
 * cache), then $CUDA_HOME and $CUDA_PATH, /usr/local/cuda*, and the folders of NVIDIA's Python
 * packages in the virtual environment, the user's and the system's site-packages.
 * Tests: tests/unit/check_gpu.c (missing libraries, a search path).
 */
#include "private.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* By path or by bare name; the path found is kept for `tilesh doctor`. */
static bool try_open(GpuLib *lib, const char *path) {
  /* NODELETE: vendors' libraries keep threads and memory, and do not survive being unloaded */
  void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!h)
    return false;
  lib->handle = h;
  snprintf(lib->path, sizeof lib->path, "%s", path);
  return true;
}

/* A library that exists but does not load (wrong machine, a missing part) is worth naming. */
static void note_failure(GpuLib *lib, const char *path) {
  const char *e = dlerror();
  if (e && !lib->error[0])
    snprintf(lib->error, sizeof lib->error, "%s does not load: %s", path, e);
}

/* Both may hold wildcards: a folder of Python packages, a version of a file. */
static bool try_folder(GpuLib *lib, const char *folder, const char *name) {
  char path[GPU_PATH];
  glob_t g = {0};
  bool ok = false;
  int n = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (n < 0 || (size_t)n >= sizeof path || glob(path, 0, NULL, &g) != 0)
    return false;
  for (size_t i = g.gl_pathc; i > 0 && !ok; i--) { /* the highest version sorts last */
    ok = try_open(lib, g.gl_pathv[i - 1]);
    if (!ok)
      note_failure(lib, g.gl_pathv[i - 1]);
  }
  globfree(&g);
  return ok;
}

bool gpu_next_folder(const char **list, char folder[GPU_PATH]) {
  while (**list) {
    const char *at = *list;
    size_t n = strcspn(at, ":");
    *list += n + (at[n] == ':');
    if (n > 0 && n < GPU_PATH) {
      memcpy(folder, at, n);
      folder[n] = '\0';
      return true;
    }
  }
  return false;
}

static bool try_path(GpuLib *lib, const char *path, const char *name) {
  char folder[GPU_PATH];
  while (path && gpu_next_folder(&path, folder))
    if (try_folder(lib, folder, name))
      return true;
  return false;
}

/* A folder below the one that an environment variable names. */
static bool try_env(GpuLib *lib, const char *variable, const char *below, const char *name) {
  const char *root = getenv(variable);
  char folder[GPU_PATH];
  if (!root || !*root)
    return false;
  int n = snprintf(folder, sizeof folder, "%s/%s", root, below);
  return n > 0 && (size_t)n < sizeof folder && try_folder(lib, folder, name);
}

/* Where installers, distributions and pip put the libraries. */
static bool try_usual(GpuLib *lib, const char *name) {
  static const char *const env[][2] = {
      {"CUDA_HOME", "lib64"},
      {"CUDA_PATH", "lib64"},
      {"VIRTUAL_ENV", "lib/python3*/site-packages/nvidia/*/lib"},
      {"CONDA_PREFIX", "lib"},
      {"CONDA_PREFIX", "lib/python3*/site-packages/nvidia/*/lib"},
      {"HOME", ".local/lib/python3*/site-packages/nvidia/*/lib"},
  };
  static const char *const folders[] = {
      "/usr/local/cuda/lib64",
      "/usr/local/cuda-*/lib64",
      "/opt/cuda/lib64",
      "/usr/local/lib/python3*/dist-packages/nvidia/*/lib",
      "/usr/local/lib/python3*/site-packages/nvidia/*/lib",
      "/usr/lib/python3*/site-packages/nvidia/*/lib",
      "/usr/lib/wsl/lib",
  };
  for (size_t i = 0; i < sizeof env / sizeof *env; i++)
    if (try_env(lib, env[i][0], env[i][1], name))
      return true;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (try_folder(lib, folders[i], name))
      return true;
  return false;
}

static bool try_name(GpuRt *rt, GpuLib *lib, const char *name) {
  if (rt->only_library_path)
    return try_path(lib, rt->library_path, name);
  return try_open(lib, name) || try_usual(lib, name);
}

/* The longest folder of a search path that no file can lie in, 0: there is none. */
static size_t too_long(const char *path) {
  size_t most = 0;
  for (const char *at = path; at && *at;) {
    size_t n = strcspn(at, ":");
    if (n >= GPU_PATH && n > most)
      most = n;
    at += n + (at[n] == ':');
  }
  return most;
}

static void say_missing(const GpuRt *rt, GpuLib *lib, const char *name) {
  size_t n = too_long(rt->library_path);
  if (n > 0)
    snprintf(lib->error, sizeof lib->error,
             "%s was not found: TILESH_CUDA_PATH has a folder of %zu bytes, and a path has at most "
             "%d",
             name, n, GPU_PATH - 1);
  else
    snprintf(lib->error, sizeof lib->error, "%s was not found", name);
}

bool gpu_lib_open(GpuRt *rt, GpuLib *lib, const char *const *names) {
  if (lib->tried)
    return lib->handle != NULL;
  lib->tried = true;
  for (const char *const *name = names; *name; name++)
    if (try_name(rt, lib, *name)) {
      lib->error[0] = '\0';
      return true;
    }
  if (!lib->error[0])
    say_missing(rt, lib, names[0]);
  return false;
}

void gpu_lib_close(GpuLib *lib) {
  if (lib->handle)
    dlclose(lib->handle);
  lib->handle = NULL;
}

bool gpu_lib_symbol(GpuLib *lib, const char *symbol, void *fn) {
  void *p = dlsym(lib->handle, symbol);
  if (!p) {
    snprintf(lib->error, sizeof lib->error, "%.400s has no %s: too old", lib->path, symbol);
    return false;
  }
  memcpy(fn, &p, sizeof p); /* ISO C has no cast from object to function pointers */
  return true;
}
