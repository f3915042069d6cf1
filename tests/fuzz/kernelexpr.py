"""Random whole-tile expressions with bounds: the half of kernelgen.py below statements.

In: tiles and scalars in scope. Out: expressions of a wanted type that broadcast to a wanted shape.
Always holds: each is legal; its bound is the greatest magnitude that it can have, or Overflow where
some step of it might not be exact.
"""
import random

from kerneltype import FLOAT, INT, RANK, SIZE, Expr, Overflow, convert, fit, meet, unsigned
import kernelmath


class Values:
    """What is in scope, and expressions of it."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.real = self.r.random() < 0.15
        self.n = {}
        self.scope = []    # tiles that may be read
        self.scalars = []  # Expr of scalars: loop variables, block indices, lets
        self.env = {}
        self.inputs, self.outputs, self.decls = [], [], []
        self.atomics = []  # tensors that only atomics touch
        self.depth = 0
        self.budget = self.r.randint(4, 16)
        self.fns = []
        self.prints = False
        self.given = []  # type, extents and text of arguments that are there
        self.called = None
        self.picked = False  # whether an element stands at a fixed place of an input

    # ---------------------------------------------------------------- small things
    def name(self, p):
        self.n[p] = self.n.get(p, -1) + 1
        return f"{p}{self.n[p]}"

    def pick(self, *v):
        return self.r.choice(v)

    def chance(self, p):
        return self.r.random() < p

    def weighted(self, *pairs):
        return self.r.choices([p[1] for p in pairs], [p[0] for p in pairs])[0]

    def dtype(self, kind="any"):
        if self.real:
            return self.pick("f32", "f32", "f32", "f16", "bf16", "f64")
        if kind == "float":
            return self.pick("f32", "f32", "f32", "f16", "f16", "bf16", "f64", "f8e4m3", "f8e5m2")
        if kind == "int":
            return self.pick("i32", "i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64")
        return self.pick("f32", "f32", "f32", "f16", "f16", "bf16", "f64", "f8e4m3", "f8e5m2", "i32", "i32", "i64",
                         "i8", "u8", "i16", "u16", "u32", "u64", "bool")

    def literal(self, d):
        if d == "bool":
            return Expr(self.pick("true", "false"), d, (), lambda env: 1)
        if self.real:
            v = self.pick("0.5", "0.25", "1.5", "-0.75", "2.0")
            return Expr(v, d, (), lambda env: 0)
        v = self.r.randint(0, 4) if unsigned(d) else self.r.randint(-4, 4)
        return Expr(f"{d}({v})", d, (), lambda env: abs(v))

    # ---------------------------------------------------------------- shapes
    def tile_extent(self):
        return self.weighted((3, 16), (2, 32), (2, 8), (1, 64), (1, 4), (1, 1), (1, 2), (1, 3), (1, 5), (1, 7),
                             (1, 12), (1, 17), (1, 24), (0.4, 33), (0.3, 48), (0.3, 128), (0.2, 100))

    def extent(self, tile, most):
        near = [tile, tile + 1, max(tile - 1, 0), 2 * tile, 2 * tile + 3, 3 * tile - 1]
        v = self.weighted((6, self.pick(*near)), (3, self.r.randint(1, 70)), (0.5, 0), (1, 1),
                          (1, self.pick(16, 32, 64, 8, 48)))
        return min(v, most * tile)

    def shape_pool(self):
        a, b, c = self.ext
        pool = [(a,), (b,), (a, b), (a, b), (a, b), (a, c), (c, b), (b, c), (b, a), (c,), (c, a)]
        if a * b * c <= 1024:
            pool += [(a, b, c), (c, a, b)]
        return [s for s in pool if self.cells(s) <= 8192]

    @staticmethod
    def cells(s):
        n = 1
        for x in s:
            n *= x
        return n

    # ---------------------------------------------------------------- expressions
    def index_scalar(self):
        """An integer scalar for an origin: text."""
        ints = [s.text for s in self.scalars if s.dtype == "int"]
        return self.pick(*ints) if ints else "0"

    def tiles(self, want):
        return [t for t in self.scope if want(t)]

    def leaf(self, shape, d=None):
        """A tile that broadcasts to the shape, cast to d where it is given."""
        options = []
        for t in self.scope:
            if t.shape == shape:
                options += [(4, t, t.name, ())]
            if len(shape) == 2 and t.shape == shape[::-1]:
                options += [(2, t, f"{t.name}.T", ())]
            if len(shape) == 2 and t.shape == (shape[0],):
                options += [(2, t, f"{t.name}[:, None]", ())]
            if len(shape) == 2 and t.shape == (shape[1],):
                options += [(2, t, f"{t.name}[None, :]", ())]
            if len(shape) == 1 and len(t.shape) == 2 and t.shape[1] == shape[0]:
                options += [(1, t, f"{t.name}[{self.r.randrange(t.shape[0])}, :]", ())]
            if len(shape) == 1 and len(t.shape) == 2 and t.shape[0] == shape[0]:
                options += [(1, t, f"{t.name}[:, {self.r.randrange(t.shape[1])}]", ())]
            if len(shape) == 3 and t.shape == shape[1:]:
                options += [(1, t, f"{t.name}[None, :, :]", ())]
            if len(t.shape) == len(shape) and t.shape != shape and all(x >= y for x, y in zip(t.shape, shape)):
                cut = []
                for x, y in zip(t.shape, shape):
                    o = self.r.randint(0, x - y)
                    cut.append(":" if x == y else f"{o}:{o + y}")
                options += [(1, t, f"{t.name}[{', '.join(cut)}]", ())]
            if self.cells(t.shape) == self.cells(shape) and t.shape != shape and self.cells(shape) <= 512:
                options += [(0.7, t, f"reshape({t.name}, {', '.join(map(str, shape))})", ())]
            if len(shape) == 3 and len(t.shape) == 3:
                for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0)):
                    if tuple(t.shape[p] for p in perm) == shape and perm != (0, 1, 2):
                        options += [(1, t, f"transpose({t.name}, {perm[0]}, {perm[1]}, {perm[2]})", ())]
        if not options:
            return None
        _, t, text, _ = self.r.choices(options, [o[0] for o in options])[0]
        return Expr(text, t.dtype, shape, lambda env, n=t.name: env[n])

    def cast(self, e, d):
        if e.dtype == d:
            return e
        if d == "bool":
            return Expr(f"({e.text} > {e.dtype}(0))", d, e.shape, lambda env: max(0, min(1, e.bound(env) + 1)))
        if e.dtype == "int":
            return Expr(f"{d}({e.text})", d, e.shape, lambda env: convert(d, "i64", e.bound(env)))
        return Expr(f"{d}({e.text})", d, e.shape, lambda env: convert(d, e.dtype, e.bound(env)))

    def scalar(self, d):
        """A typed scalar expression."""
        if self.real:
            return self.literal(d)
        s = [x for x in self.scalars if x.dtype == "int" or x.dtype in FLOAT or x.dtype in INT]
        if s and self.chance(0.5):
            x = self.pick(*s)
            return self.cast(x, d)
        return self.literal(d)

    def base(self, shape, d):
        e = None
        if self.chance(0.85):
            e = self.leaf(shape)
        if e is None and len(shape) == 1 and not self.real and self.chance(0.7):
            n = shape[0]
            e = Expr(f"iota({n})", "i32", shape, lambda env: n)
        if e is None and len(shape) == 2 and not self.real and self.chance(0.6):
            n = self.pick(0, 1)
            e = Expr(f"iota({shape[n]})[{':, None' if n == 0 else 'None, :'}]", "i32", shape,
                     lambda env: shape[n])
        if e is None:
            e = self.scalar(d)
        return self.cast(e, d)

    def reduction(self, shape, d):
        """sum/max/… of a tile with one more axis; or a scan."""
        options = []
        for t in self.scope:
            for axis in range(len(t.shape)):
                if t.shape[:axis] + t.shape[axis + 1:] == shape:
                    options.append((t, axis, False))
                elif t.shape[:axis] + (1,) + t.shape[axis + 1:] == shape:
                    options.append((t, axis, True))
        if not options:
            return None
        t, axis, keep = self.pick(*options)
        e = Expr(t.name, t.dtype, t.shape, lambda env: env[t.name])
        if self.chance(0.3):
            e = self.full(t)
        return self.reduced(e, axis, keep, shape)

    def reduced(self, e, axis, keep, shape):
        n = self.cells(e.shape) if axis is None else e.shape[axis]
        ops = ["sum", "max", "min", "absmax", "argmax", "argmin"]
        if e.dtype == "bool":
            ops = ["any", "all", "sum"]
        elif self.real:
            ops = ["sum", "max", "min", "absmax"]
        op = self.pick(*ops)
        if e.dtype in INT and self.chance(0.15):
            op = "prod"
        opts = ("" if axis is None else f", axis = {axis}") + (", keepdims = true" if keep else "")
        d, b = e.dtype, e.bound
        if op == "prod":
            d = "i32" if SIZE[d] < 4 else d
            b = lambda env, o=e.bound, d=d: (o(env), INT[d])[1]
        elif op == "sum":
            d = "f32" if d in FLOAT and RANK[d] < 4 else "i32" if d == "bool" or d in INT and SIZE[d] < 4 else d
            b = lambda env, o=e.bound, d=d: fit(d, n * o(env))
        elif op in ("argmax", "argmin"):
            d, b = "i32", lambda env: n
        elif op in ("any", "all"):
            d, b = "bool", lambda env: 1
        elif op == "absmax" and unsigned(d):
            op = "max"
        return Expr(f"{op}({e.text}{opts})", d, shape, b)

    def scan(self, shape, d):
        if len(shape) > 2:
            return None
        e = self.leaf(shape)
        if e is None or e.dtype == "bool":
            return None
        axis = self.r.randrange(len(shape))
        op = self.pick("cumsum", "cumsum", "cummax")
        opts = f", axis = {axis}" + self.pick("", "", ", reverse = true")
        if op == "cumsum" and self.chance(0.3):
            opts += ", exclusive = true"
        d, b = e.dtype, e.bound
        if op == "cumsum":
            d = "f32" if d in FLOAT and RANK[d] < 4 else "i32" if d in INT and SIZE[d] < 4 else d
            b = lambda env, o=e.bound, d=d: fit(d, shape[axis] * o(env))
        return Expr(f"{op}({e.text}{opts})", d, shape, b)

    def product(self, shape):
        """a @ b over tiles in scope: the type is that of the sum."""
        if len(shape) != 2:
            return None
        m, n = shape
        left = [(t, tr, t.shape[::-1][1] if tr else t.shape[1]) for t in self.scope if len(t.shape) == 2
                for tr in (False, True) if (t.shape[::-1] if tr else t.shape)[0] == m]
        right = [(t, tr, (t.shape[::-1] if tr else t.shape)[0]) for t in self.scope if len(t.shape) == 2
                 for tr in (False, True) if (t.shape[::-1] if tr else t.shape)[1] == n]
        pairs = [(x, y) for x in left for y in right if x[2] == y[2] and m * n * x[2] <= 70000
                 and x[0].dtype != "bool" and y[0].dtype != "bool"]
        same = [p for p in pairs if p[0][0].dtype == p[1][0].dtype]
        if not pairs:
            return None
        (a, ta, k), (b, tb, _) = self.pick(*(same or pairs))
        at, bt = a.name + (".T" if ta else ""), b.name + (".T" if tb else "")
        d = a.dtype
        if b.dtype != d:
            if meet(d, b.dtype) is None:
                return None
            bt = f"{d}({bt})"
        out = "f64" if d == "f64" else "f32" if d in FLOAT else "i32" if SIZE[d] == 1 else "i64"
        most = 2**13 if d.startswith("f8") else FLOAT.get(out, 0)

        def bound(env):
            v = k * env[a.name] * convert(d, b.dtype, env[b.name])
            if most and v > most:
                raise Overflow
            return fit(out, v)
        return Expr(f"({at} @ {bt})", out, shape, bound)

    def binary(self, shape, d, depth):
        x, y = self.expr(shape, d, depth - 1), self.expr(shape, d, depth - 1)
        if d == "bool":
            op = self.pick("&", "|", "^")
            return Expr(f"({x.text} {op} {y.text})", d, shape, lambda env: 1)
        if self.real:
            op = self.pick("+", "-", "*", "min", "max")
        elif d in INT:
            op = self.pick("+", "-", "*", "min", "max", "&", "|", "^", "+", "-")
        else:
            op = self.pick("+", "-", "*", "min", "max", "+")

        def bound(env):
            p, q = x.bound(env), y.bound(env)
            if op in ("min", "max"):
                return max(p, q)
            if op in "&|^":
                return INT[d]
            if op == "-" and unsigned(d):
                return INT[d]
            return fit(d, p * q if op == "*" else p + q)
        text = f"{op}({x.text}, {y.text})" if op in ("min", "max") else f"({x.text} {op} {y.text})"
        return Expr(text, d, shape, bound)

    def unary(self, shape, d, depth):
        x = self.expr(shape, d, depth - 1)
        if d == "bool":
            return Expr(f"~{x.text}" if x.text[0] == "(" else f"~({x.text})", d, shape, lambda env: 1)
        if self.real:
            return self.function_of(x)
        if d in INT and self.chance(0.4):
            n = self.r.randint(1, 7)
            f = self.pick("({} // {n})", "({} % {n})", "({} << {m})", "({} >> {m})")
            return Expr(f.format(x.text, n=f"{d}({n})", m=self.r.randint(0, 3)), d, shape, lambda env: INT[d] if "<" in f else fit(d, x.bound(env) + n))
        f = self.pick("abs({})", "sign({})", "-({})", "clamp({}, {d}({lo}), {d}(5))", "clamp({}, {d}({lo}), {d}(5))")
        if unsigned(d):
            f = "clamp({}, {d}({lo}), {d}(5))"
        lo = 0 if unsigned(d) else -3
        if self.fns and d == "f32" and self.chance(0.3):
            f = self.fns[0] + "({})"
            return Expr(f.format(x.text), d, shape, lambda env: fit(d, 2 * x.bound(env) + 1))
        return Expr(f.format(x.text, d=d, lo=lo), d, shape,
                    lambda env: min(5, x.bound(env)) + 3 if f[0] == "c" else fit(d, x.bound(env)))

    def function(self, shape, d, depth):
        return self.function_of(self.expr(shape, d, depth - 1))

    def function_of(self, x):
        made = kernelmath.applied(self, x.text, x.dtype, x.bound)
        return Expr(made[0], made[1], x.shape, made[2]) if made else x

    def compare(self, shape, depth):
        d = self.dtype()
        while d == "bool":
            d = self.dtype()
        x, y = self.expr(shape, d, depth - 1), self.expr(shape, d, depth - 1)
        op = self.pick("<", "<=", ">", ">=", "==", "!=")

        def bound(env):
            x.bound(env), y.bound(env)
            return 1
        return Expr(f"({x.text} {op} {y.text})", "bool", shape, bound)

    def expr(self, shape, d, depth):
        """An expression of type d that broadcasts to the shape (an operand may have fewer elements)."""
        e = None
        if depth > 0:
            kind = self.weighted((4, "binary"), (2, "unary"), (1.5, "reduce"), (0.5, "scan"), (1, "product"),
                                 (1, "where"), (2, "base"), (1, "cast"), (1.5, "function"))
            if d == "bool" and not self.real:
                kind = self.weighted((3, "compare"), (1, "binary"), (1, "unary"), (1, "base"), (1, "reduce"))
            if kind == "binary":
                return self.binary(shape, d, depth)
            if kind == "unary":
                return self.unary(shape, d, depth)
            if kind == "function":
                return self.function(shape, d, depth)
            if kind == "compare":
                return self.compare(shape, depth)
            if kind == "reduce":
                e = self.reduction(shape, d)
            elif kind == "scan":
                e = self.scan(shape, d)
            elif kind == "product":
                e = self.product(shape)
            elif kind == "where" and not self.real:
                c, x, y = self.expr(shape, "bool", 1), self.expr(shape, d, depth - 1), self.expr(shape, d, depth - 1)

                def bound(env):
                    c.bound(env)
                    return max(x.bound(env), y.bound(env))
                return Expr(f"where({c.text}, {x.text}, {y.text})", d, shape, bound)
            elif kind == "cast":
                e = self.expr(shape, self.dtype(), depth - 1)
        if e is None:
            e = self.base(shape, d)
        if self.real and (e.dtype == "bool" or e.dtype in INT):
            e = self.literal(d)
        return self.cast(e, d)

    def full(self, t):
        """An expression of exactly the shape of t: of t and something else."""
        x = self.expr(t.shape, t.dtype, self.r.randint(0, 2))
        if t.dtype == "bool" or (t.dtype in INT and self.chance(0.3)):
            return Expr(f"({t.name} & {x.text})", t.dtype, t.shape, lambda env: x.bound(env) if t.dtype == "bool" else INT[t.dtype])
        if unsigned(t.dtype):
            return Expr(f"max({t.name}, {x.text})", t.dtype, t.shape, lambda env: max(env[t.name], x.bound(env)))
        return Expr(f"({t.name} + {x.text})", t.dtype, t.shape, lambda env: fit(t.dtype, env[t.name] + x.bound(env)))

    def whole(self, shape, d, depth=None):
        """What is assigned to a tile of that shape."""
        depth = self.r.choice((0, 1, 1, 2, 2, 3)) if depth is None else depth
        return self.expr(shape, d, depth)
