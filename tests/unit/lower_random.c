/* lower_random.c: random tile-level programs (see lower_random.h). */
#include "lower_random.h"

typedef struct Tile {
  int id;
  const char *type;
  int rows, cols; /* cols 0: one axis */
} Tile;

typedef struct Gen {
  Arena *arena;
  Str body;
  uint64_t state;
  VEC(Tile) tiles; /* in scope */
  int ids, depth, left;
} Gen;

static int below(Gen *g, int n) {
  g->state = g->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((g->state >> 33) % (uint64_t)n);
}
static bool chance(Gen *g, int percent) {
  return below(g, 100) < percent;
}

static void line(Gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(Gen *g, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(&g->body, fmt, ap);
  va_end(ap);
  str_addc(&g->body, '\n');
}

/* ---------------------------------------------------------------- tiles */

static const char *shape_text(Gen *g, const Tile *t) {
  return t->cols ? arena_printf(g->arena, "%d, %d", t->rows, t->cols)
                 : arena_printf(g->arena, "%d", t->rows);
}

static const char *point(const Tile *t) {
  return t->cols ? "i, j" : "i";
}

static Tile declare(Gen *g, const char *type, int rows, int cols) {
  Tile t = {g->ids++, type, rows, cols};
  line(g, "%s t%d: %s[%s]", chance(g, 50) ? "shared" : "fragment", t.id, type, shape_text(g, &t));
  return t;
}

static void keep(Gen *g, Tile t) {
  VEC_PUSH(g->arena, &g->tiles, t);
}

/* A tile in scope like this one in shape (and type, where asked), or NULL. */
static const Tile *like(Gen *g, const Tile *t, bool type) {
  for (int tries = 0; tries < 12 && g->tiles.n; tries++) {
    const Tile *u = &g->tiles.v[below(g, (int)g->tiles.n)];
    if (u->rows == t->rows && u->cols == t->cols && (!type || u->type == t->type))
      return u;
  }
  return NULL;
}

static const Tile *any(Gen *g) {
  return g->tiles.n ? &g->tiles.v[below(g, (int)g->tiles.n)] : NULL;
}

static const char *any_type(Gen *g) {
  static const char *const types[] = {"f32", "f16", "i32"};
  return types[below(g, 3)];
}

static Tile fresh(Gen *g) {
  static const int rows[] = {8, 5, 16, 1}, cols[] = {8, 7, 3, 0};
  bool square = chance(g, 50);
  return declare(g, any_type(g), square ? 8 : rows[below(g, 4)], square ? 8 : cols[below(g, 4)]);
}

/* ---------------------------------------------------------------- statements */

static void from_tensor(Gen *g) {
  Tile t = fresh(g);
  if (t.cols)
    line(g, "copy t%d = A[%s*2 - %d:+%d, %d:+%d:%d] pad 0.5", t.id, chance(g, 50) ? "n" : "b",
         below(g, 4), t.rows, below(g, 5), t.cols, 1 + below(g, 2));
  else
    line(g, "copy t%d = A[%d:+%d stop n + %d, b] pad -1.0", t.id, below(g, 3), t.rows, below(g, 6));
  keep(g, t);
}

static void elementwise(Gen *g) {
  const Tile *x = any(g);
  if (!x)
    return;
  Tile a = *x;
  const Tile *other = like(g, &a, false);
  Tile b = other ? *other : a, t = chance(g, 60) ? declare(g, any_type(g), a.rows, a.cols) : a;
  static const char *const forms[] = {"p * 0.5 + q", "max(p, q)", "where(p < q, p, q * 0.25)",
                                      "abs(p) - q * 0.125", "min(p * 2.0, 100.0)"};
  line(g, "%s %s in [%s] {", chance(g, 50) ? "map" : "parallel", point(&t), shape_text(g, &t));
  line(g, "load x%d: %s = t%d[%s]\nload y%d: %s = t%d[%s]", g->ids, a.type, a.id, point(&a), g->ids,
       b.type, b.id, point(&b));
  line(g, "let p: f32 = f32(x%d)\nlet q: f32 = f32(y%d)\nlet z: f32 = %s", g->ids, g->ids,
       forms[below(g, 5)]);
  line(g, "store t%d[%s] = %s(z)\n}", t.id, point(&t), t.type);
  g->ids++;
  if (t.id != a.id)
    keep(g, t);
}

/* A block of one tile to another place, perhaps of the same tile. */
static void move_block(Gen *g) {
  const Tile *x = any(g);
  if (!x || !x->cols)
    return;
  Tile a = *x;
  const Tile *found = like(g, &a, false), *u = found ? found : x;
  int h = 1 + below(g, a.rows), w = 1 + below(g, a.cols);
  line(g, "copy t%d[%d:+%d, %d:+%d] = t%d[%s:+%d, %d:+%d]", u->id, below(g, a.rows - h + 1), h,
       below(g, a.cols - w + 1), w, a.id,
       a.rows - h >= 3 ? "n" : arena_printf(g->arena, "%d", below(g, a.rows - h + 1)), h,
       below(g, a.cols - w + 1), w);
}

static const char *sum_type(const Tile *t) {
  return t->type[0] == 'i' ? "i32" : "f32";
}

/* Small integers in a tile that is to be summed: then any order gives the same bits. */
static void coarsen(Gen *g, const Tile *t) {
  line(g, "map %s in [%s] {\nload v%d: %s = t%d[%s]", point(t), shape_text(g, t), g->ids, t->type,
       t->id, point(t));
  line(g, "store t%d[%s] = %s(clamp(round(f32(v%d)), -64.0, 64.0))\n}", t->id, point(t), t->type,
       g->ids);
  g->ids++;
}

static void reduce(Gen *g) {
  const Tile *x = any(g);
  if (!x || !x->cols)
    return;
  static const char *const ops[] = {"sum", "rmax", "rmin", "absmax", "argmax", "argmin"};
  Tile a = *x;
  int op = below(g, 6), axis = below(g, 2);
  const char *type = op == 0 ? sum_type(&a) : op >= 4 ? "i32" : a.type;
  if (op == 0)
    coarsen(g, &a);
  Tile t = declare(g, type, axis ? a.rows : a.cols, 0);
  line(g, "reduce t%d = %s(t%d) axis %d", t.id, ops[op], a.id, axis);
  keep(g, t);
}

static void scalar(Gen *g) {
  const Tile *x = any(g);
  if (!x)
    return;
  Tile a = *x, t = declare(g, "f32", a.rows, a.cols);
  int id = g->ids++;
  bool sums = chance(g, 50);
  if (sums)
    coarsen(g, &a);
  if (sums)
    line(g, "reduce s%d: %s = sum(t%d)", id, sum_type(&a), a.id);
  else
    line(g, "load s%d: %s = t%d[%s]", id, a.type, a.id, a.cols ? "0, 0" : "0");
  line(g, "map %s in [%s] {\nstore t%d[%s] = f32(s%d) * 0.0625\n}", point(&t), shape_text(g, &t),
       t.id, point(&t), id);
  if (chance(g, 50))
    line(g, "store t%d[%s] = f32(s%d)", t.id, t.cols ? "0, 0" : "0", id);
  keep(g, t);
}

static void scan(Gen *g) {
  const Tile *x = any(g);
  if (!x)
    return;
  Tile a = *x;
  bool in_place = sum_type(&a) == a.type || a.type[1] == '3';
  Tile t = in_place && chance(g, 50) ? a : declare(g, sum_type(&a), a.rows, a.cols);
  line(g, "scan t%d = sum(t%d) axis %d%s%s", t.id, a.id, a.cols ? below(g, 2) : 0,
       chance(g, 50) ? " reverse" : "", chance(g, 50) ? " exclusive" : "");
  if (t.id != a.id)
    keep(g, t);
}

static void dot(Gen *g) {
  Tile want = {0, "f32", 8, 8};
  const Tile *x = like(g, &want, true), *y = like(g, &want, true), *z = like(g, &want, true);
  if (!x || !y)
    return;
  if (z && chance(g, 50)) { /* perhaps an operand itself */
    line(g, "map i, j in [8, 8] {\nload v%d: f32 = t%d[i, j]\nstore t%d[i, j] = v%d * 0.03125\n}",
         g->ids, z->id, z->id, g->ids);
    line(g, "dot t%d += t%d @ t%d%s", z->id, x->id, y->id, chance(g, 50) ? ".T" : "");
    g->ids++;
    return;
  }
  Tile a = *x, b = *y, t = declare(g, chance(g, 70) ? "f32" : "f16", 8, 8);
  line(g, "dot t%d = t%d%s @ t%d", t.id, a.id, chance(g, 50) ? ".T" : "", b.id);
  keep(g, t);
}

static void count(Gen *g) {
  const Tile *x = any(g);
  if (!x)
    return;
  Tile a = *x, t = {g->ids++, "i32", 16, 0};
  line(g, "shared t%d: i32[16]\nmap i in [16] {\nstore t%d[i] = 0\n}", t.id, t.id);
  line(g, "parallel %s in [%s] {\nload v%d: %s = t%d[%s]\nif v%d < %s(3) { continue }", point(&a),
       shape_text(g, &a), t.id, a.type, a.id, point(&a), t.id, a.type);
  line(g, "atomic _ = atomic_add(t%d[(i + n) %% 16], 1)\n}", t.id);
  keep(g, t);
}

static void block(Gen *g, int n);

static void nested(Gen *g, int n) {
  size_t tiles = g->tiles.n;
  g->depth++;
  block(g, n);
  g->depth--;
  g->tiles.n = tiles;
}

static void control(Gen *g) {
  const Tile *x = any(g);
  if (!x || g->depth > 2)
    return;
  int id = g->ids++;
  if (chance(g, 50)) {
    line(g, "for k%d: i64 = 0, n, 1 {", id);
    nested(g, 3);
    if (chance(g, 30))
      line(g, "if k%d == 1 { break }", id);
  } else {
    line(g, "load c%d: %s = t%d[%s]\nif c%d < %s(1) {", id, x->type, x->id, x->cols ? "0, 0" : "0",
         id, x->type);
    nested(g, 3);
    line(g, "} else {");
    nested(g, 2);
  }
  line(g, "}");
}

static void block(Gen *g, int n) {
  static void (*const kinds[])(Gen *) = {
      from_tensor, elementwise, elementwise, move_block, reduce, scalar, scan, dot, count, control};
  for (; n > 0 && g->left > 0; n--, g->left--)
    kinds[below(g, 10)](g);
}

const char *lower_random(Arena *a, uint64_t seed) {
  Gen g = {.arena = a, .body = str_new(a), .state = seed * 7919 + 3, .left = 40};
  Str out = str_new(a);
  for (int i = 0; i < 3; i++)
    from_tensor(&g);
  block(&g, 16);
  str_add(&out, "kernel random tile(A: f32[M, N] strided, n: i64) -> (");
  for (size_t i = 0; i < g.tiles.n; i++)
    str_addf(&out, "%sO%d: f32[3, %s]", i ? ", " : "", g.tiles.v[i].id,
             shape_text(&g, &g.tiles.v[i]));
  str_addf(&out, ") {\ngrid b = 3\n%s", str_text(&g.body));
  for (size_t i = 0; i < g.tiles.n; i++) {
    const Tile *t = &g.tiles.v[i];
    str_addf(&out, t->cols ? "copy O%d[b, 0:+_, 0:+_] = t%d\n" : "copy O%d[b, 0:+_] = t%d\n", t->id,
             t->id);
  }
  str_add(&out, "}\n");
  return str_text(&out);
}
