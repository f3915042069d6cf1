/* cubin.c: reads what a cubin says about its kernels, without a driver.
 *
 * Goes in: the bytes of a CUDA ELF file, not trusted (they may come from a damaged cache). Comes
 * out: a GpuFacts for each kernel: an entry symbol NAME has the sections .text.NAME,
 * .nv.shared.NAME and .nv.info.NAME; the global .nv.info gives registers and stack by symbol index.
 * Always holds: nothing outside [0, n) is read. Tests: tests/unit/check_gpu.c (facts of compiled
 * kernels, every prefix of a cubin, flipped bytes), tests/gpu (the driver agrees).
 */
#include "private.h"

#include <elf.h>
#include <string.h>

enum { MACHINE_CUDA = 190, ENTRY_BIT = 0x10 };

/* Attributes of .nv.info: {u8 format, u8 attribute, u16 size or value} and, for format 4, size
 * bytes. */
enum {
  FORMAT_SIZED = 4,
  ATTR_MAX_THREADS = 0x05, /* three extents */
  ATTR_FRAME_SIZE = 0x11,  /* symbol, bytes */
  ATTR_MIN_STACK = 0x12,   /* symbol, bytes, with what is called */
  ATTR_PARAM_BYTES = 0x19, /* in the value */
  ATTR_MAX_STACK = 0x23,   /* symbol, bytes */
  ATTR_REGISTERS = 0x2f    /* symbol, count */
};

/* The file, and the three sections that everything else is found by. */
typedef struct Cubin {
  const unsigned char *p;
  size_t n;
  Elf64_Ehdr head;
  Elf64_Shdr names, symbols, strings;
} Cubin;

/* Offsets come from the file: compared so that no sum can overflow. */
static bool inside(const Cubin *c, uint64_t offset, uint64_t size) {
  return offset <= c->n && size <= c->n - offset;
}

/* By copy, for the file need not be aligned. */
static bool read_at(const Cubin *c, uint64_t offset, void *out, size_t size) {
  if (!inside(c, offset, size))
    return false;
  memcpy(out, c->p + offset, size);
  return true;
}

static bool section(const Cubin *c, unsigned i, Elf64_Shdr *out) {
  return i < c->head.e_shnum && c->head.e_shoff <= c->n &&
         read_at(c, c->head.e_shoff + (uint64_t)i * sizeof *out, out, sizeof *out);
}

/* The string at `at` of a string table, NULL unless it ends inside it. */
static const char *string_at(const Cubin *c, const Elf64_Shdr *table, uint64_t at) {
  if (!inside(c, table->sh_offset, table->sh_size) || at >= table->sh_size)
    return NULL;
  const char *s = (const char *)c->p + table->sh_offset + at;
  return memchr(s, '\0', (size_t)(table->sh_size - at)) ? s : NULL;
}

/* The section named PREFIX followed by KERNEL. */
static bool find_section(const Cubin *c, const char *prefix, const char *kernel, Elf64_Shdr *out) {
  size_t n = strlen(prefix);
  for (unsigned i = 0; i < c->head.e_shnum && section(c, i, out); i++) {
    const char *name = string_at(c, &c->names, out->sh_name);
    if (name && strncmp(name, prefix, n) == 0 && strcmp(name + n, kernel) == 0)
      return true;
  }
  return false;
}

static bool open_cubin(Cubin *c, const void *p, size_t n) {
  c->p = p;
  c->n = n;
  if (!read_at(c, 0, &c->head, sizeof c->head) || memcmp(c->head.e_ident, ELFMAG, SELFMAG) != 0)
    return false;
  if (c->head.e_ident[EI_CLASS] != ELFCLASS64 || c->head.e_ident[EI_DATA] != ELFDATA2LSB ||
      c->head.e_machine != MACHINE_CUDA || c->head.e_shentsize != sizeof(Elf64_Shdr))
    return false;
  return section(c, c->head.e_shstrndx, &c->names) && find_section(c, ".symtab", "", &c->symbols) &&
         section(c, c->symbols.sh_link, &c->strings);
}

/* ---- attributes ---------------------------------------------------------------------------- */

/* One attribute of a .nv.info section. */
typedef struct Attribute {
  unsigned id, value; /* value: of formats without a payload */
  const unsigned char *data;
  size_t n;
} Attribute;

/* Takes the attribute at *at off the section and moves on; false at its end. */
static bool next_attribute(const Cubin *c, const Elf64_Shdr *info, uint64_t *at, Attribute *out) {
  unsigned char head[4];
  uint64_t left = info->sh_size - *at;
  if (left < sizeof head || !read_at(c, info->sh_offset + *at, head, sizeof head))
    return false;
  size_t n = head[2] | (size_t)head[3] << 8;
  out->id = head[1];
  out->value = (unsigned)n;
  out->n = head[0] == FORMAT_SIZED ? n : 0;
  out->data = c->p + info->sh_offset + *at + sizeof head;
  *at += sizeof head + out->n;
  return out->n <= left - sizeof head;
}

/* The i-th word of the payload, 0 past its end. */
static uint32_t word(const Attribute *a, size_t i) {
  uint32_t x = 0;
  if (4 * i + 4 <= a->n)
    memcpy(&x, a->data + 4 * i, sizeof x);
  return x;
}

static unsigned most(unsigned a, unsigned b) {
  return a > b ? a : b;
}

/* Frame, and the stack of the whole call tree: any of them is local memory. */
static void read_global(const Cubin *c, uint32_t symbol, GpuFacts *f) {
  Elf64_Shdr info;
  Attribute a;
  if (!find_section(c, ".nv.info", "", &info) || !inside(c, info.sh_offset, info.sh_size))
    return;
  for (uint64_t at = 0; next_attribute(c, &info, &at, &a);) {
    if (a.n < 8 || word(&a, 0) != symbol)
      continue;
    if (a.id == ATTR_REGISTERS)
      f->registers = word(&a, 1);
    else if (a.id == ATTR_FRAME_SIZE || a.id == ATTR_MIN_STACK || a.id == ATTR_MAX_STACK)
      f->local_bytes = most(f->local_bytes, word(&a, 1));
  }
}

static void read_own(const Cubin *c, GpuFacts *f) {
  Elf64_Shdr info;
  Attribute a;
  if (!find_section(c, ".nv.info.", f->name, &info) || !inside(c, info.sh_offset, info.sh_size))
    return;
  for (uint64_t at = 0; next_attribute(c, &info, &at, &a);) {
    if (a.id == ATTR_MAX_THREADS && a.n >= 12)
      f->max_threads = word(&a, 0) * word(&a, 1) * word(&a, 2);
    else if (a.id == ATTR_PARAM_BYTES)
      f->param_bytes = a.value;
  }
}

/* A kernel that has no section of a kind has none of what it would hold. */
static GpuFacts read_kernel(const Cubin *c, uint32_t symbol, const char *name, Arena *a) {
  GpuFacts f = {.name = arena_strdup(a, name)};
  Elf64_Shdr s;
  read_global(c, symbol, &f);
  read_own(c, &f);
  if (find_section(c, ".nv.shared.", f.name, &s))
    f.shared_bytes = (unsigned)s.sh_size;
  if (find_section(c, ".text.", f.name, &s))
    f.code_bytes = (unsigned)s.sh_size;
  return f;
}

/* Device functions are FUNC symbols too; only kernels carry the entry bit. */
static bool is_entry(const Elf64_Sym *s) {
  return ELF64_ST_TYPE(s->st_info) == STT_FUNC && (s->st_other & ENTRY_BIT) != 0;
}

static void read_kernels(const Cubin *c, Arena *a, GpuImage *image) {
  VEC(GpuFacts) found = {0};
  Elf64_Sym s;
  uint64_t count = c->symbols.sh_size / sizeof s;
  for (uint32_t i = 0; i < count; i++) {
    if (!read_at(c, c->symbols.sh_offset + (uint64_t)i * sizeof s, &s, sizeof s))
      break;
    const char *name = is_entry(&s) ? string_at(c, &c->strings, s.st_name) : NULL;
    if (name)
      VEC_PUSH(a, &found, read_kernel(c, i, name, a));
  }
  image->kernels = found.v;
  image->nkernels = (int)found.n;
}

bool gpu_image_read(const void *cubin, size_t n, const char *log, Arena *a, GpuImage *image,
                    const char **why) {
  Cubin c;
  if (!open_cubin(&c, cubin, n)) {
    *why = "not a 64-bit CUDA ELF file";
    return false;
  }
  image->cubin = cubin;
  image->cubin_n = n;
  image->log = log;
  read_kernels(&c, a, image);
  if (image->nkernels == 0) {
    *why = "it has no kernel";
    return false;
  }
  gpu_gate(image, a);
  return true;
}

const GpuFacts *gpu_image_kernel(const GpuImage *image, const char *name) {
  for (int i = 0; i < image->nkernels; i++)
    if (strcmp(image->kernels[i].name, name) == 0)
      return &image->kernels[i];
  return NULL;
}

unsigned gpu_image_count(const GpuImage *image, const char *kernel, unsigned opcode) {
  Cubin c;
  Elf64_Shdr text;
  unsigned count = 0;
  if (!open_cubin(&c, image->cubin, image->cubin_n) || !find_section(&c, ".text.", kernel, &text) ||
      !inside(&c, text.sh_offset, text.sh_size))
    return 0;
  for (uint64_t at = 0; at + 16 <= text.sh_size; at += 16) {
    const unsigned char *p = c.p + text.sh_offset + at;
    count += ((p[0] | (unsigned)p[1] << 8) & 0xfff) == opcode;
  }
  return count;
}
