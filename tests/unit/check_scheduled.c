/* check_scheduled.c: the scheduled level on the evaluator: the product and the attention of the
 * Hopper schedule, written out by hand with roles, channels and waits, give the bits of the plain
 * programs, for any number of stages, depth in flight and trip count; and each way to get such a
 * schedule wrong is reported where it is wrong.
 */
#include "eval_support.h"

enum { ROOM = 16384, TILES = 3, SIDE = 16, MOST_TRIPS = 7 };

static const int64_t deep[2] = {TILES * SIDE, MOST_TRIPS *SIDE};
static const int64_t high[2] = {MOST_TRIPS * SIDE, TILES *SIDE};
static const int64_t rows[2] = {TILES * SIDE, SIDE};
static const int64_t keys[2] = {MOST_TRIPS * SIDE, SIDE};

/* ---------------------------------------------------------------- products */

static const char plain_product[] =
    "kernel g tile(A: f16[M, K], B: f16[K, N], trips: i64) -> (C: f32[M, N]) {\n"
    "grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n"
    "shared As: f16[16, 16]\nshared Bs: f16[16, 16]\nfragment acc: f32[16, 16]\n"
    "map i, j in [16, 16] { store acc[i, j] = 0.0 }\n"
    "for k: i64 = 0, (trips + bx) % 8, 1 {\n"
    "copy As = A[by*16:+16, k*16:+16]\ncopy Bs = B[k*16:+16, bx*16:+16]\n"
    "dot acc += As @ Bs\n}\n"
    "copy C[by*16:+16, bx*16:+16] = acc\n}\n";

/* What a schedule of the product is made of; the parts that the seeded faults replace. */
typedef struct Schedule {
  int stages, consumers;
  const char *wait, *after, *last, *loop, *store;
} Schedule;

static const Schedule depth0 = {.stages = 2,
                                .consumers = 1,
                                .wait = "wait ch",
                                .after = "dot_wait 0\nrelease ch",
                                .last = "dot_wait 0",
                                .loop = "group 2",
                                .store = ""};
static const Schedule depth1 = {.stages = 2,
                                .consumers = 1,
                                .wait = "wait ch",
                                .after = "dot_wait 1\nif k2 >= 1 { release ch behind 1 }",
                                .last = "dot_wait 0\nif n2 > 0 { release ch }",
                                .loop = "dynamic",
                                .store = ""};

/* Lines: 12 acquire … 15 commit, 24 wait, 25 product, 26 after it. */
static const char *product(const Schedule *s) {
  static char text[ROOM];
  snprintf(
      text, sizeof text,
      "kernel g scheduled(A: f16[M, K], B: f16[K, N], trips: i64) -> (C: f32[M, N]) {\n"
      "threads 256\n"
      "grid p = 2\n"
      "shared As: f16[16, 16] stages %d\n"
      "shared Bs: f16[16, 16] stages %d\n"
      "channel ch tiles As, Bs stages %d producers 1 consumers %d\n"
      "roles {\n"
      "role producer warps 0:+4 registers 40 {\n"
      "tile_loop bx, by in [ceildiv(N, 16), ceildiv(M, 16)] %s {\n"
      "let n: i64 = (trips + bx) %% 8\n"
      "for k: i64 = 0, n, 1 {\n"
      "acquire ch\n"
      "copy As = A[by*16:+16, k*16:+16] engine tma\n"
      "copy Bs = B[k*16:+16, bx*16:+16] engine tma\n"
      "commit ch\n"
      "}\n}\n}\n"
      "role consumer warps 4:+4 registers 232 {\n"
      "fragment acc: f32[16, 16]\n"
      "tile_loop cx, cy in [ceildiv(N, 16), ceildiv(M, 16)] %s { let n2: i64 = (trips + cx) %% "
      "8\n"
      "map i, j in [16, 16] { store acc[i, j] = 0.0 }\n"
      "for k2: i64 = 0, n2, 1 {\n"
      "%s\n"
      "dot acc += As @ Bs async\n"
      "%s\n"
      "}\n"
      "%s\n"
      "%s\n"
      "copy C[cy*16:+16, cx*16:+16] = acc\n"
      "store_wait 0\n"
      "}\n}\n}\n}\n",
      s->stages, s->stages, s->stages, s->consumers, s->loop, s->loop, s->wait, s->after, s->last,
      s->store);
  return text;
}

static Ev *give_product(const char *text, int trips) {
  Ev *e = ev_new(text);
  ev_give(e, "A", DT_F16, 2, deep, ev_real);
  ev_give(e, "B", DT_F16, 2, high, ev_real);
  ev_scalar(e, "trips", trips);
  return e;
}

/* Bit for bit, also where a value is no number. */
static void same(Ev *x, Ev *y, const char *name, const char *what) {
  IrTensorArg *a = ev_tensor(x, name), *b = ev_tensor(y, name);
  ck_assert_int_eq(ev_count(a), ev_count(b));
  size_t n = (size_t)ev_count(a) * dtype_size(a->dtype);
  ck_assert_msg(memcmp(a->data, b->data, n) == 0, "%s differs: %s", name, what);
}

static void compare_product(const Schedule *s, int trips, uint64_t shake) {
  char what[96];
  Ev *plain = give_product(plain_product, trips), *e = give_product(product(s), trips);
  snprintf(what, sizeof what, "%d stages, %d trips, %s", s->stages, trips, s->loop);
  e->options.shake = shake;
  ev_ok(plain);
  ev_ok(e);
  same(plain, e, "C", what);
  ev_free(plain);
  ev_free(e);
}

START_TEST(products_equal_the_plain_one) {
  for (int stages = 1; stages <= 5; stages++)
    for (int trips = 0; trips <= MOST_TRIPS; trips++) {
      Schedule s = depth0;
      s.stages = stages;
      compare_product(&s, trips, (uint64_t)trips);
      s = depth1;
      s.stages = stages;
      if (stages > 1) /* depth 1 with one stage is refused: behind 1 is no stage */
        compare_product(&s, trips, (uint64_t)trips);
    }
}
END_TEST

/* ---------------------------------------------------------------- attention */

#define HEAD(level)                                                                                \
  "kernel a " level "(Q: f16[S, D], K: f16[R, D], V: f16[R, D], trips: i64) -> (O: f32[S, D]) {\n"
#define FRAGMENTS                                                                                  \
  "fragment s: f32[16, 16]\nfragment o: f32[16, 16]\nfragment p: f16[16, 16]\n"                    \
  "fragment m: f32[16]\nfragment m1: f32[16]\nfragment mr: f32[16]\nfragment l: f32[16]\n"         \
  "fragment ls: f32[16]\nfragment al: f32[16]\n"
#define START                                                                                      \
  "map r, c in [16, 16] { store o[r, c] = 0.0 }\n"                                                 \
  "map r in [16] { store m[r] = -inf\nstore l[r] = 0.0 }\n"
#define SOFTMAX                                                                                    \
  "reduce mr = rmax(s) axis 1\n"                                                                   \
  "map r in [16] { load x: f32 = m[r]\nload y: f32 = mr[r]\nstore m1[r] = max(x, y)\n"             \
  "store al[r] = exp2(x - max(x, y)) }\n"                                                          \
  "map r, c in [16, 16] { load x: f32 = s[r, c]\nload y: f32 = m1[r]\nstore s[r, c] = exp2(x - "   \
  "y) }\n"                                                                                         \
  "reduce ls = sum(s) axis 1\n"                                                                    \
  "map r in [16] { load x: f32 = l[r]\nload y: f32 = al[r]\nload z: f32 = ls[r]\n"                 \
  "store l[r] = x * y + z\nload w: f32 = m1[r]\nstore m[r] = w }\n"
#define RESCALE                                                                                    \
  "map r, c in [16, 16] { load x: f32 = s[r, c]\nstore p[r, c] = f16(x) }\n"                       \
  "map r, c in [16, 16] { load x: f32 = o[r, c]\nload y: f32 = al[r]\nstore o[r, c] = x * y }\n"
#define FINISH                                                                                     \
  "map r, c in [16, 16] { load x: f32 = o[r, c]\nload y: f32 = l[r]\nstore o[r, c] = x / y }\n"

static const char plain_attention[] = HEAD(
    "tile") "grid b = ceildiv(S, 16)\n"
            "shared Qs: f16[16, 16]\nshared Ks: f16[16, 16]\nshared Vs: f16[16, 16]\n" FRAGMENTS
                START "copy Qs = Q[b*16:+16, 0:+16]\n"
            "for j: i64 = 0, (trips + b) % 8, 1 {\n"
            "copy Ks = K[j*16:+16, 0:+16]\ncopy Vs = V[j*16:+16, 0:+16]\n"
            "dot s = Qs @ Ks.T\n" SOFTMAX RESCALE "dot o += p @ Vs\n}\n" FINISH
            "copy O[b*16:+16, 0:+16] = o\n}\n";

static const char *attention(int stages) {
  static char text[ROOM];
  snprintf(
      text, sizeof text,
      HEAD("scheduled") "threads 256\ngrid g = 2\n"
                        "shared Qs: f16[16, 16]\n"
                        "shared Ks: f16[16, 16] stages %d\nshared Vs: f16[16, 16] stages %d\n"
                        "channel cq tiles Qs stages 1 producers 1 consumers 1\n"
                        "channel ck tiles Ks stages %d producers 1 consumers 1\n"
                        "channel cv tiles Vs stages %d producers 1 consumers 1\n"
                        "roles {\nrole producer warps 0:+4 {\n"
                        "tile_loop b in [ceildiv(S, 16)] {\n"
                        "acquire cq\ncopy Qs = Q[b*16:+16, 0:+16]\ncommit cq\n"
                        "for j: i64 = 0, (trips + b) %% 8, 1 {\n"
                        "acquire ck\ncopy Ks = K[j*16:+16, 0:+16]\ncommit ck\n"
                        "acquire cv\ncopy Vs = V[j*16:+16, 0:+16]\ncommit cv\n}\n}\n}\n"
                        "role consumer warps 4:+4 {\n" FRAGMENTS
                        "tile_loop t in [ceildiv(S, 16)] {\n"
                        "let n: i64 = (trips + t) %% 8\n" START "wait cq\nif n > 0 {\n"
                        "wait ck\ndot s = Qs @ Ks.T async\ndot_wait 0\nrelease ck\n" SOFTMAX RESCALE
                        "for i: i64 = 1, n, 1 {\n"
                        "wait ck\ndot s = Qs @ Ks.T async\n"
                        "wait cv\ndot o += p @ Vs async\n"
                        "dot_wait 1\nrelease ck\n" SOFTMAX "dot_wait 0\nrelease cv\n" RESCALE "}\n"
                        "wait cv\ndot o += p @ Vs async\ndot_wait 0\nrelease cv\n}\n"
                        "release cq\n" FINISH "copy O[t*16:+16, 0:+16] = o\n}\n}\n}\n}\n",
      stages, stages, stages, stages);
  return text;
}

static Ev *give_attention(const char *text, int trips) {
  Ev *e = ev_new(text);
  ev_give(e, "Q", DT_F16, 2, rows, ev_real);
  ev_give(e, "K", DT_F16, 2, keys, ev_real);
  ev_give(e, "V", DT_F16, 2, keys, ev_real);
  ev_scalar(e, "trips", trips);
  return e;
}

START_TEST(attention_equals_the_plain_one) {
  for (int stages = 1; stages <= 5; stages++)
    for (int trips = 0; trips <= MOST_TRIPS; trips++) {
      Ev *plain = give_attention(plain_attention, trips);
      Ev *e = give_attention(attention(stages), trips);
      e->options.shake = (uint64_t)stages;
      ev_ok(plain);
      ev_ok(e);
      same(plain, e, "O", "attention");
      ev_free(plain);
      ev_free(e);
    }
}
END_TEST

/* ---------------------------------------------------------------- seeded faults */

/* The place in the natural order of agents; in any other the same kind of fault. */
static void seeded(const Schedule *s, DiagCode code, const char *part, uint32_t line) {
  Ev *e = give_product(product(s), 3);
  ev_fault(e, code, part, line);
  ev_free(e);
  for (uint64_t shake = 1; shake < 8; shake++) {
    e = give_product(product(s), 3);
    e->options.shake = shake;
    ck_assert_int_eq(ev_run(e), ST_FAIL);
    ck_assert_int_eq(e->sink.v[0]->code, code);
    ev_free(e);
  }
}

START_TEST(early_release) {
  Schedule s = depth1;
  s.after = "release ch\ndot_wait 1";
  seeded(&s, E0481, "is released while the product issued at line 25 may still read As", 26);
  s.after = "dot_wait 0\nrelease ch\nrelease ch";
  seeded(&s, E0480, "consumer releases a stage of channel ch that it did not wait for", 28);
}
END_TEST

START_TEST(missing_wait) {
  Schedule s = depth0;
  s.wait = "";
  seeded(&s, E0479, "consumer reads As of a stage of channel ch that it did not wait for", 25);
}
END_TEST

START_TEST(missing_dot_wait) {
  Schedule s = depth1;
  s.last = "";
  seeded(&s, E0481, "acc is touched while it is the result of the product issued at line 25", 31);
}
END_TEST

START_TEST(wrong_consumers) {
  Schedule s = depth0;
  s.consumers = 2;
  seeded(&s, E0455, "producer for stage 0 of channel ch to be released (1 of 2 have) at line 12",
         12);
}
END_TEST

START_TEST(too_few_stages) {
  Schedule s = depth0;
  s.stages = 1;
  s.after = "wait ch\ndot_wait 0\nrelease ch";
  seeded(&s, E0455, "consumer for stage 0 of channel ch to be committed", 12);
}
END_TEST

START_TEST(staging_in_a_live_stage) {
  Schedule s = depth0;
  s.store = "map i, j in [16, 16] { store As[i, j] = 0.0:f16 }";
  seeded(&s, E0479, "consumer writes As without having acquired a stage of channel ch", 30);
}
END_TEST

/* ---------------------------------------------------------------- roles, barriers */

static const char meeting[] = "kernel g scheduled(x: f32[32]) -> (y: f32[4]) {\n"
                              "threads 256\n"
                              "shared s: f32[4]\n"
                              "let k: i64 = 1\n"
                              "roles {\n"
                              "role one warps 0:+4 {\n"
                              "map i in [4] { store s[i] = 3.0 }\n"
                              "%s\n"
                              "}\n"
                              "role two warps 4:+4 {\n"
                              "sync warps 0:+8\n"
                              "map i in [4] { load v: f32 = s[i]\nstore y[i] = v * f32(k) }\n"
                              "}\n}\n"
                              "map i in [1] { load v: f32 = s[i]\nstore y[3] = v + 1.0 }\n}\n";

static Ev *meet(const char *sync) {
  static const int64_t n[1] = {32};
  static char text[ROOM];
  snprintf(text, sizeof text, meeting, sync);
  Ev *e = ev_new(text);
  ev_give(e, "x", DT_F32, 1, n, ev_small);
  return e;
}

START_TEST(roles_meet_and_the_block_goes_on) {
  for (uint64_t shake = 0; shake < 6; shake++) {
    Ev *e = meet("sync warps 0:+8");
    e->options.shake = shake;
    ev_ok(e);
    ck_assert(ev_at(e, "y", 0) == 3 && ev_at(e, "y", 2) == 3 && ev_at(e, "y", 3) == 4);
    ev_free(e);
  }
  Ev *e = meet("");
  ev_fault(e, E0455, "two for the others at a barrier at line 11", 11);
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- channels, rule by rule */

static double nothing(int64_t i) {
  return (void)i, 0;
}

/* Over x: f32[32] and y, z: f32[4]; `body` begins on line 7. */
static Ev *small(const char *channel, const char *body) {
  static const int64_t n[1] = {32}, four[1] = {4};
  static char text[ROOM];
  snprintf(text, sizeof text,
           "kernel g scheduled(x: f32[32], y: inout f32[4], z: inout f32[4]) {\n"
           "threads 384\nshared s: f32[4] stages 2\nfragment q: f32[4]\nfragment f: f32[4, 4]\n"
           "channel ch tiles s stages 2 %s\n%s\n}\n",
           channel, body);
  Ev *e = ev_new(text);
  ev_give(e, "x", DT_F32, 1, n, ev_small);
  ev_give(e, "y", DT_F32, 1, four, nothing);
  ev_give(e, "z", DT_F32, 1, four, nothing);
  return e;
}

static void refuse(const char *channel, const char *body, DiagCode code, const char *part,
                   uint32_t line) {
  Ev *e = small(channel, body);
  ev_fault(e, code, part, line);
  ev_free(e);
}

#define PRODUCER                                                                                   \
  "roles { role p warps 0:+4 { for k: i64 = 0, 8, 1 { acquire ch copy s = x[k*4:+4] commit ch } }"
#define CONSUMER(name, warps, out)                                                                 \
  "role " name " warps " warps " { for k_" name ": i64 = 0, 8, 1 {\nwait ch\n"                     \
  "map i in [4] { load v: f32 = s[i] load w: f32 = " out "[i] store " out "[i] = v + w }\n"        \
  "release ch\n} }"

/* Sum of every fourth element. */
static double column(int64_t i) {
  double sum = 0;
  for (int64_t k = 0; k < 8; k++)
    sum += ev_small(4 * k + i);
  return sum;
}

START_TEST(two_consumers) {
  for (uint64_t shake = 0; shake < 8; shake++) {
    Ev *e = small("producers 1 consumers 2",
                  PRODUCER CONSUMER("c", "4:+4", "y") CONSUMER("d", "8:+4", "z") "}");
    e->options.shake = shake;
    ev_ok(e);
    for (int i = 0; i < 4; i++)
      ck_assert(ev_at(e, "y", i) == column(i) && ev_at(e, "z", i) == column(i));
    ev_free(e);
  }
  refuse("producers 1 consumers 1",
         PRODUCER "\n" CONSUMER("c", "4:+4", "y") "\n" CONSUMER("d", "8:+4", "z") "}", E0480,
         "stage 0 of channel ch is released by more than its 1 consumers", 16);
}
END_TEST

START_TEST(one_role_of_two_warpgroups) {
  Ev *e = small("producers 1 consumers 2", PRODUCER CONSUMER("c", "4:+8", "y") "}");
  ev_ok(e);
  ck_assert(ev_at(e, "y", 1) == column(1));
  ev_free(e);
}
END_TEST

/* Copies run ahead of their use within one agent. */
START_TEST(without_roles) {
  Ev *e =
      small("producers 1 consumers 2",
            "acquire ch copy s = x[0:+4] commit ch\n"
            "for k: i64 = 0, 8, 1 {\n"
            "if k < 7 { acquire ch copy s = x[k*4 + 4:+4] commit ch }\n"
            "wait ch\nmap i in [4] { load v: f32 = s[i] load w: f32 = y[i] store y[i] = v + w }\n"
            "release ch }");
  ev_ok(e);
  for (int i = 0; i < 4; i++)
    ck_assert(ev_at(e, "y", i) == column(i));
  ev_free(e);
  refuse("", "acquire ch commit ch\nacquire ch commit ch\nacquire ch", E0455,
         "the block for stage 0 of channel ch to be released (0 of 1 have)", 9);
}
END_TEST

START_TEST(misuse_of_channels) {
  refuse("", "acquire ch commit ch wait ch\ncopy y = s", E0451,
         "element [0] of s is read before anything wrote it", 8);
  refuse("", "acquire ch copy s = x[0:+4] commit ch wait ch release ch\ncopy y = s", E0479,
         "the block reads s of a stage of channel ch that it released", 8);
  refuse("", "acquire ch\nacquire ch", E0480, "before it committed the last", 8);
  refuse("", "commit ch", E0480, "that it did not acquire", 7);
  refuse("", "release ch", E0480, "that it did not wait for", 7);
  refuse("", "copy s = x[0:+4]", E0479, "the block writes s without having acquired", 7);
  /* What the stage held in its last round does not count. */
  refuse("",
         "for k: i64 = 0, 2, 1 { acquire ch copy s = x[0:+4] commit ch wait ch release ch }\n"
         "acquire ch commit ch wait ch\ncopy y = s",
         E0451, "element [0] of s is read before anything wrote it", 9);
}
END_TEST

#define OPERANDS                                                                                   \
  "fragment a: f32[4, 4]\nfragment b: f32[4, 4]\nmap i, j in [4, 4] { store a[i, j] = 1.0 store "  \
  "b[i, j] = 2.0 store f[i, j] = 0.0 }\n"

START_TEST(products_in_flight) {
  refuse("", OPERANDS "dot f += a @ b async\nmap i, j in [4, 4] { store a[i, j] = 0.0 }", E0481,
         "a is touched while it is an operand of the product issued at line 10", 11);
  refuse("", OPERANDS "dot f += a @ b async\ndot f += a @ b\n", E0481, "f is touched while", 11);
  refuse("", OPERANDS "dot f += a @ b async\nreduce q = sum(f) axis 1", E0481,
         "the result of the product issued at line 10", 11);
  refuse("", OPERANDS "dot f += a @ f async", E0481, "an operand and the result of one product",
         10);
  refuse("", "roles { role r warps 0:+4 {\n" OPERANDS "dot f += a @ b async\n} }", E0481,
         "r ends while this product is in flight", 11);
  Ev *e = small("", OPERANDS "dot f += a @ b async\ndot f += b @ b async\ndot_wait 1\n"
                             "map i, j in [4, 4] { store a[i, j] = 0.0 }\ndot_wait 0\n"
                             "fragment h: f32[4, 4]\nrelayout h = f\nreduce q = sum(h) axis 1\n"
                             "copy y = q");
  ev_ok(e);
  ck_assert(ev_at(e, "y", 3) == 4 * (4 * 2 + 4 * 4));
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- persistent loops */

START_TEST(each_tile_once) {
  static const int64_t grid[3] = {5, 7, 2};
  static const char *const order[] = {"", "group 2", "group 3 dynamic", "turning",
                                      "group 2 turning"};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++)
    for (int blocks = 1; blocks <= 7; blocks += 3) {
      char text[512];
      snprintf(text, sizeof text,
               "kernel g scheduled(n: i64, y: inout f32[5, 7, 2]) {\ngrid p = %d\n"
               "tile_loop a, b, c in [5, 7, n] %s { load v: f32 = y[a, b, c]\n"
               "store y[a, b, c] = v + 1.0 }\ntile_loop d in [0] { assert false }\n}\n",
               blocks, order[i]);
      Ev *e = ev_new(text);
      ev_scalar(e, "n", 2);
      ev_give(e, "y", DT_F32, 3, grid, nothing);
      ev_ok(e);
      for (int t = 0; t < 70; t++)
        ck_assert_msg(ev_at(e, "y", t) == 1, "tile %d, %s", t, order[i]);
      ev_free(e);
    }
}
END_TEST

/* ---------------------------------------------------------------- the suite */

int main(void) {
  const TTest *const tests[] = {products_equal_the_plain_one,
                                attention_equals_the_plain_one,
                                early_release,
                                missing_wait,
                                missing_dot_wait,
                                wrong_consumers,
                                too_few_stages,
                                staging_in_a_live_stage,
                                roles_meet_and_the_block_goes_on,
                                two_consumers,
                                one_role_of_two_warpgroups,
                                without_roles,
                                misuse_of_channels,
                                products_in_flight,
                                each_tile_once,
                                NULL};
  return run_suite("scheduled", tests);
}
