/* decl.c: written types, parameters, and the declarations of tiles and barriers.
 *
 * In: the stream at a type or a name that is being declared. Out: AstType, AstDecl. The grammar:
 *
 *   decl   = NAME [ ':' [ 'inout' ] type ] [ '=' expr ]
 *   type   = NAME [ '[' [ extent { ',' extent } ] ']' ]
 *   extent = 'static' NAME | NAME '=' expr | expr
 *   barrier = NAME [ '[' extents ']' ] [ '(' 'arrivals' '=' expr ')' ]
 *
 * What each place allows (`inout`, `static D`, an initial value, no type) is one table.
 * Tests: tests/unit/check_parser.c, tests/lang/syntax_*.tile.
 */
#include <string.h>

#include "state.h"

static const struct DeclRule {
  bool needs_type, may_init, may_inout;
  const char *name; /* for parse_name */
} rules[] = {
    [DECL_STATIC] = {false, true, false, "the name of a compile-time parameter"},
    [DECL_INPUT] = {true, false, true, "the name of a parameter"},
    [DECL_OUTPUT] = {true, true, false, "the name of an output"},
    [DECL_PARAM] = {false, false, false, "the name of a parameter"},
    [DECL_TILE] = {false, true, false, "the name of a tile"},
};

/* ---- types ---- */

/* Without a name behind it `static` is an extent's own name. */
static bool at_static(const Parser *p) {
  return parse_at_word(p, "static") && parse_token(p, 1)->kind == T_NAME;
}

/* A static extent is its own value: the name that the argument binds. */
static AstExpr *name_expr(Parser *p, AstName name) {
  AstExpr *e = ARENA_NEW(p->arena, AstExpr);
  e->kind = EXPR_NAME;
  e->depth = 1;
  e->span = name.span;
  e->as.name = name.text;
  return e;
}

/* `static D`, `OH = H // 2`, or an expression. */
static AstExtent parse_extent(Parser *p) {
  AstExtent x = {.span = parse_span(p)};
  x.is_static = at_static(p);
  if (x.is_static)
    parse_advance(p);
  bool named = x.is_static || (parse_at(p, T_NAME) && parse_token(p, 1)->kind == T_ASSIGN);
  if (named) {
    AstName name = parse_name(p, "the name of an extent");
    x.name = name.text;
    x.name_span = name.span;
    x.value = name_expr(p, name);
  }
  if (!x.is_static) {
    if (named)
      parse_advance(p);
    x.value = parse_expr(p);
  }
  x.span = parse_span_from(p, x.span);
  return x;
}

/* None is possible: f32[] is a tensor of no axes. */
static void parse_extents(Parser *p, AstType *type) {
  VEC(AstExtent) v = {0};
  Bracket b = parse_open(p);
  type->has_extents = true;
  while (!parse_at(p, T_RBRACKET) && !p->failed) {
    AstExtent x = parse_extent(p);
    VEC_PUSH(p->arena, &v, x);
    if (!parse_more(p, b))
      break;
  }
  parse_close(p, b);
  type->extents = v.v;
  type->nextents = v.n;
}

/* Types are names, so a dtype and a compile-time parameter look the same here. */
AstType *parse_type(Parser *p) {
  AstType *type = ARENA_NEW(p->arena, AstType);
  type->span = parse_span(p);
  if (!parse_at(p, T_NAME)) {
    Diag *d = parse_fail_here(p, E0034, "expected a type, found %s", parse_found(p));
    parse_hint(p, d, "a type is a scalar type such as f32, or one with extents: f16[M, K]");
    return type;
  }
  type->base = parse_name(p, "a type");
  const char *base = type->base.text;
  if (parse_at(p, T_LBRACKET))
    parse_extents(p, type);
  else if (parse_at(p, T_DOT))
    parse_hint(p, parse_fail_here(p, E0034, "a type is one name, without a module before it"),
               "scalar types are i32, f16, bf16, f32 and others; tensors f16[M, K]");
  else if (parse_at(p, T_LPAREN))
    parse_hint(p, parse_fail_here(p, E0034, "the extents of %s stand in [ ]", base),
               "a tensor or tile is written f16[M, K]");
  type->span = parse_span_from(p, type->span);
  return type;
}

/* Only a result can be a tuple: nothing else holds several values. */
AstType *parse_result_type(Parser *p) {
  if (!parse_at(p, T_LPAREN))
    return parse_type(p);
  AstType *type = ARENA_NEW(p->arena, AstType);
  VEC(AstType *) parts = {0};
  Bracket b = parse_open(p);
  do {
    AstType *part = parse_type(p);
    VEC_PUSH(p->arena, &parts, part);
  } while (parse_more(p, b));
  parse_close(p, b);
  type->parts = parts.v;
  type->nparts = parts.n;
  type->span = parse_span_from(p, b.open);
  return type;
}

/* ---- declarations ---- */

/* Names are bound by parameters only: a tile's extents must be known before it. */
static void check_extents(Parser *p, const AstType *type, bool parameter) {
  for (size_t i = 0; i < type->nextents && !parameter; i++) {
    const AstExtent *x = &type->extents[i];
    if (x->is_static)
      parse_hint(p, parse_fail(p, E0070, x->span, "`static` only stands in a parameter's type"),
                 "the extents of a tile are compile-time values anyway: leave `static` out");
    else if (x->name)
      parse_hint(p, parse_fail(p, E0070, x->span, "an extent is named only in a parameter's type"),
                 "write let %s = … before the tile", x->name);
  }
}

/* Behind the colon. */
static void parse_decl_type(Parser *p, AstDecl *d, DeclKind kind) {
  if (parse_at_word(p, "inout") && parse_token(p, 1)->kind == T_NAME) {
    if (!rules[kind].may_inout)
      parse_hint(p, parse_fail(p, E0059, parse_span(p), "`inout` only stands at a kernel's inputs"),
                 "a result is listed after `->`; what is updated in place is an input");
    d->is_inout = true;
    parse_advance(p);
  }
  d->type = parse_type(p);
  check_extents(p, d->type, kind == DECL_INPUT || kind == DECL_OUTPUT || kind == DECL_PARAM);
}

/* `f32 A[N]` and `As[64, 32]: f32`: how a name and its type stand here instead. */
static void hint_order(Parser *p, Diag *fault, const AstDecl *d, DeclKind kind) {
  const char *name = d->name.text, *extents = kind == DECL_TILE ? "64, 32" : "M, N";
  const Token *next = parse_token(p, 0);
  if (next->kind == T_STAR)
    next = parse_token(p, 1);
  DType type;
  bool named = next->kind == T_NAME && !next->line_start, behind = false;
  if (named) /* `C f32[N]` has lost its colon */
    behind = dtype_parse(parse_text(p, next), strlen(parse_text(p, next)), &type);
  if (behind)
    parse_hint(p, fault, "a colon stands between: %s: %s[%s]", name, parse_text(p, next), extents);
  else if (named)
    parse_hint(p, fault, "the name comes first: %s: f32[%s]", parse_text(p, next), extents);
  else if (next->kind == T_LBRACKET)
    parse_hint(p, fault, "the extents follow the type: %s: f32[%s]", name, extents);
  else if (kind == DECL_TILE)
    parse_hint(p, fault, "write it as %s: f32[BM, BN]", name);
  else
    parse_hint(p, fault, "write it as %s: f32[N], or %s: i32 for a scalar", name, name);
}

/* What the table of rules asks of a declaration as a whole. */
static void check_decl(Parser *p, const AstDecl *d, DeclKind kind, Span assign) {
  Diag *fault = NULL;
  if (rules[kind].needs_type && !d->type) {
    fault = parse_fail(p, E0033, d->name.span, "`%s` needs a type", d->name.text);
    hint_order(p, fault, d, kind);
  } else if (d->init && !rules[kind].may_init) {
    fault = parse_fail(p, E0058, assign, "a parameter has no default value");
    parse_hint(p, fault, "%s",
               kind == DECL_INPUT ? "only compile-time parameters, in [ ], have defaults"
                                  : "call it with every argument");
  } else if (kind == DECL_TILE && !d->type && !d->init) {
    fault = parse_fail(p, E0033, d->name.span, "the tile `%s` needs a type or an initial value",
                       d->name.text);
    hint_order(p, fault, d, kind);
  }
}

/* The parts are read whether the place allows them or not: then the fault can say what is wrong. */
static AstDecl parse_decl(Parser *p, DeclKind kind) {
  AstDecl d = {.span = parse_span(p)};
  d.name = parse_name(p, rules[kind].name);
  if (parse_accept(p, T_COLON))
    parse_decl_type(p, &d, kind);
  Span assign = parse_span(p);
  if (parse_accept(p, T_ASSIGN))
    d.init = parse_expr(p);
  d.span = parse_span_from(p, d.span);
  check_decl(p, &d, kind, assign);
  return d;
}

/* A trailing comma is allowed, for lists of one element a line. */
AstDecls parse_decls(Parser *p, DeclKind kind, Bracket b) {
  VEC(AstDecl) v = {0};
  while (!parse_at(p, b.close) && !p->failed) {
    AstDecl d = parse_decl(p, kind);
    VEC_PUSH(p->arena, &v, d);
    if (!parse_more(p, b))
      break;
  }
  parse_close(p, b);
  return (AstDecls){v.v, v.n};
}

/* No trailing comma here: the line would go on behind it. */
AstDecls parse_loose_decls(Parser *p, DeclKind kind) {
  VEC(AstDecl) v = {0};
  do {
    AstDecl d = parse_decl(p, kind);
    VEC_PUSH(p->arena, &v, d);
  } while (parse_accept(p, T_COMMA));
  return (AstDecls){v.v, v.n};
}

/* `(arrivals = 2)`, which is kept as the barrier's initial value. */
static AstExpr *parse_arrivals(Parser *p, Span at) {
  AstArgs args = parse_args(p, parse_open(p));
  const char *name = args.n == 1 ? args.v[0].name : NULL;
  if (name && strcmp(name, "arrivals") == 0)
    return args.v[0].value;
  if (!p->failed) {
    Diag *d = parse_warn(p, E0062, span_join(at, parse_span(p)),
                         "a barrier has one option, the number of arrivals that end a phase");
    parse_hint(p, d, "barrier full[2](arrivals = 2)");
  }
  return NULL;
}

/* `full[stages], done(arrivals = 2)`: a barrier's type is its extents alone. */
AstDecls parse_barriers(Parser *p) {
  VEC(AstDecl) v = {0};
  do {
    AstDecl d = {.span = parse_span(p)};
    d.name = parse_name(p, "the name of a barrier");
    if (parse_at(p, T_LBRACKET)) {
      d.type = ARENA_NEW(p->arena, AstType);
      Span open = parse_span(p);
      parse_extents(p, d.type);
      d.type->span = parse_span_from(p, open);
      check_extents(p, d.type, false);
    }
    if (parse_at(p, T_LPAREN))
      d.init = parse_arrivals(p, parse_span(p));
    d.span = parse_span_from(p, d.span);
    VEC_PUSH(p->arena, &v, d);
  } while (parse_accept(p, T_COMMA));
  return (AstDecls){v.v, v.n};
}
