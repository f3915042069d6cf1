/* fake_nvrtc.c: an NVRTC that refuses every text, as the real one refuses wrong CUDA: what tilesh
 * prints is right, as far as it knows, so nothing else shows what is said then (E0823). A shared
 * library, made as a program; check_session opens it by TILESH_CUDA_PATH. */
#include <stddef.h>
#include <string.h>

enum { OK = 0, COMPILATION = 6, MAJOR = 12, MINOR = 9 };

static const char words[] = "k.cu(7): error: a text that nothing compiles\n";

int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *n);
int nvrtcGetSupportedArchs(int *arch);
int nvrtcCreateProgram(void **p, const char *text, const char *name, int n,
                       const char *const *heads, const char *const *names);
int nvrtcDestroyProgram(void **p);
int nvrtcCompileProgram(void *p, int n, const char *const *options);
int nvrtcGetProgramLogSize(void *p, size_t *n);
int nvrtcGetProgramLog(void *p, char *log);
int nvrtcGetCUBINSize(void *p, size_t *n);
int nvrtcGetCUBIN(void *p, char *cubin);
int nvrtcGetPTXSize(void *p, size_t *n);
int nvrtcGetPTX(void *p, char *ptx);
const char *nvrtcGetErrorString(int code);

int nvrtcVersion(int *major, int *minor) {
  *major = MAJOR;
  *minor = MINOR;
  return OK;
}

int nvrtcGetNumSupportedArchs(int *n) {
  *n = 0;
  return OK;
}

int nvrtcGetSupportedArchs(int *arch) {
  (void)arch;
  return OK;
}

int nvrtcCreateProgram(void **p, const char *text, const char *name, int n,
                       const char *const *heads, const char *const *names) {
  (void)text, (void)name, (void)n, (void)heads, (void)names;
  *p = (void *)(size_t)&words;
  return OK;
}

int nvrtcDestroyProgram(void **p) {
  *p = NULL;
  return OK;
}

int nvrtcCompileProgram(void *p, int n, const char *const *options) {
  (void)p, (void)n, (void)options;
  return COMPILATION;
}

int nvrtcGetProgramLogSize(void *p, size_t *n) {
  (void)p;
  *n = sizeof words;
  return OK;
}

int nvrtcGetProgramLog(void *p, char *log) {
  (void)p;
  memcpy(log, words, sizeof words);
  return OK;
}

/* Of a text that was refused there is none. */
int nvrtcGetCUBINSize(void *p, size_t *n) {
  (void)p;
  *n = 0;
  return OK;
}

int nvrtcGetCUBIN(void *p, char *cubin) {
  (void)p, (void)cubin;
  return OK;
}

int nvrtcGetPTXSize(void *p, size_t *n) {
  return nvrtcGetCUBINSize(p, n);
}

int nvrtcGetPTX(void *p, char *ptx) {
  return nvrtcGetCUBIN(p, ptx);
}

const char *nvrtcGetErrorString(int code) {
  return code == OK ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
