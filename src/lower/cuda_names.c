/* cuda_names.c: names of the program as names of the CUDA text.
 *
 * Goes in: names as they stand in the program, or as passes made them. Comes out: identifiers that
 * C++, CUDA, the prelude and this text have not taken: each is what was wished for, with a number
 * behind it where that is somebody's already. Always holds: the same kernel gets the same names.
 * Tests: tests/unit/check_cuda.c.
 */
#include <string.h>

#include "cuda_print.h"

/* What C++, CUDA and the printer have taken, wherever it stands. */
static const char reserved[] =
    "alignas alignof and and_eq asm auto bitand bitor blockDim blockIdx bool break call case "
    "catch char char16_t char32_t char8_t class co_await co_return co_yield compl concept const "
    "const_cast consteval constexpr constinit continue decltype default delete do double "
    "dynamic_cast else enum explicit export extern false fault float for friend goto gridDim if "
    "inline int line linux long main mutable namespace new noexcept not not_eq NULL nullptr "
    "operator or or_eq print private protected public register reinterpret_cast requires return "
    "short signed sizeof smem static static_assert static_cast stop stopped struct switch "
    "template this thread_local threadIdx throw true try typedef typeid typename union unix "
    "unsigned using virtual void volatile warpSize wchar_t while xor xor_eq";

/* What NVRTC declares at file scope before the text begins, where a kernel's own name stands:
 * functions of C linkage, which no other may share, and types. A variable may hide these. Of a
 * function whose name ends in `f` the one without it is here. */
static const char declared[] =
    "abs acos acosh alloca asin asinh assert atan atan2 atanh cbrt ceil clock64 clock_t copysign "
    "cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 dim3 erf erfc erfcinv erfcx erfinv exp exp10 exp2 "
    "expm1 fabs fdim fdivide floor fma fmax fmin fmod free frexp hypot ilogb j0 j1 jn labs ldexp "
    "lgamma libraryPropertyType llabs llmax llmin llrint llround log log10 log1p log2 logb lrint "
    "lround MAJOR_VERSION malloc max min MINOR_VERSION modf nan nearbyint nextafter norm norm3d "
    "norm4d normcdf normcdfinv PATCH_LEVEL pow printf ptrdiff_t rcbrt remainder remquo rhypot "
    "rint rnorm rnorm3d rnorm4d round rsqrt scalbln scalbn sin sincos sincospi sinh sinpi size_t "
    "sqrt std tan tanh tgamma trunc ullmax ullmin umax umin va_arg va_copy va_end va_list "
    "va_start y0 y1 yn";

/* Words are apart by blanks. */
static bool is_among(const char *name, size_t length, const char *words) {
  for (const char *at = words; *at;) {
    size_t n = strcspn(at, " ");
    if (n == length && memcmp(at, name, n) == 0)
      return true;
    at += n + (at[n] == ' ');
  }
  return false;
}

/* By the language, by CUDA's own variables, or by a name given before. */
static bool is_taken(const Printer *p, const char *name) {
  return is_among(name, strlen(name), reserved) || map_get(p->names, name) != NULL;
}

static bool is_declared(const char *name) {
  size_t n = strlen(name);
  return is_among(name, n, declared) ||
         (n > 1 && name[n - 1] == 'f' && is_among(name, n - 1, declared));
}

/* Names of the language are ASCII already; names made by passes may hold anything. */
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Underscores in front are the compiler's, ts_ is the prelude's, and CUDA's headers have macros and
 * types of the others. */
static bool begins_as_theirs(const char *name) {
  static const char *const prefix[] = {"_", "ts_", "cuda", "CU", "NV_"};
  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    if (strncmp(name, prefix[i], strlen(prefix[i])) == 0)
      return true;
  return false;
}

static const char *fresh(Printer *p, const char *wish, bool (*also)(const char *name)) {
  char *base = arena_printf(p->a, "%s%s", begins_as_theirs(wish) ? "v" : "", *wish ? wish : "v");
  for (char *c = base; *c; c++)
    *c = is_word(*c) ? *c : '_';
  const char *name = base;
  for (int i = 1; is_taken(p, name) || (also && also(name)); i++)
    name = arena_printf(p->a, "%s_%d", base, i);
  map_set(p->names, name, p);
  return name;
}

/* Functions of CUDA are called only with a prefix of their own, so a variable may be named `max`.
 */
const char *cuda_fresh(Printer *p, const char *wish) {
  return fresh(p, wish, NULL);
}

const char *cuda_entry(Printer *p) {
  return fresh(p, p->k->name, is_declared);
}
