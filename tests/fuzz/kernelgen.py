"""Random well-typed kernels: one program of the language a seed.

In: a seed. Out: the text of a program that defines a kernel `f`, tensors `a0`, `a1`, … and ends in
`let r = check f(…)`. Always holds: the program is legal, whatever the seed: no access outside a
tensor, nothing read before it is written, no race, every element of an output written. An "exact"
program computes integers that every type on their way holds exactly, so that any order of any sum
gives the same bits; `Bound` walks the statements to see to that. A "real" one has random reals and
no step that turns a small difference into a large one.
"""
import random

FLOAT = {"f64": 2**53, "f32": 2**24, "f16": 2**11, "bf16": 2**8, "f8e4m3": 2**4, "f8e5m2": 2**3}
INT = {"i8": 2**7, "i16": 2**15, "i32": 2**31, "i64": 2**63, "u8": 2**8, "u16": 2**16, "u32": 2**32, "u64": 2**64}
RANK = {d: i for i, d in enumerate(("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"))}
SIZE = {"bool": 1, "i8": 1, "u8": 1, "f8e4m3": 1, "f8e5m2": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4,
        "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


class Overflow(Exception):
    """A value may not be exact any more: the statement is not taken."""


def unsigned(d):
    return d[0] == "u"


def fit(d, b):
    """The bound of a value of type d that would be at most b by magnitude: integers wrap."""
    if d in FLOAT:
        if b > FLOAT[d]:
            raise Overflow
        return b
    return b if d == "bool" or b < INT[d] else INT[d]


def convert(d, have, b):
    if d == "bool":
        return 1
    if d in INT and unsigned(d) and have in INT and not unsigned(have):
        return INT[d]
    return fit(d, b)


def meet(a, b):
    """The type of an operation on a and b; None where the language has none."""
    if a == b:
        return a
    if "bool" in (a, b):
        return None
    if a in FLOAT and b in FLOAT:
        return "f32" if RANK[a] < 4 and RANK[b] < 4 else a if RANK[a] > RANK[b] else b
    if a in FLOAT or b in FLOAT:
        return a if a in FLOAT else b
    wide, other = (a, b) if SIZE[a] > SIZE[b] else (b, a)
    if unsigned(a) != unsigned(b) and (SIZE[a] == SIZE[b] or unsigned(wide)):
        return None
    return wide if unsigned(wide) == unsigned(other) or not unsigned(wide) else None


class Expr:
    """Text, type, shape; bound(env) gives the greatest magnitude, or raises Overflow."""

    def __init__(self, text, dtype, shape, bound):
        self.text, self.dtype, self.shape, self.bound = text, dtype, tuple(shape), bound


class Tile:
    def __init__(self, name, dtype, shape, space):
        self.name, self.dtype, self.shape, self.space = name, dtype, tuple(shape), space


class Tensor:
    """axes: (extent, name in the kernel)."""

    def __init__(self, name, dtype, axes):
        self.name, self.dtype, self.axes = name, dtype, axes

    def declare(self):
        return f"{self.name}: {self.dtype}[{', '.join(n for _, n in self.axes)}]"


class Stmt:
    """Lines of text, and what they do to the bounds of names."""

    def __init__(self, text, step=None, body=None, after="}"):
        self.text, self.step_, self.body, self.after = text, step, body, after

    def lines(self, depth=1):
        pad = "  " * depth
        if self.body is None:
            return [pad + t for t in self.text.split("\n")]
        out = []
        for head, body in self.body:
            out += [pad + head] + [x for s in body for x in s.lines(depth + 1)]
        return out + [pad + self.after]

    def step(self, env):
        if self.step_:
            self.step_(env)


def walk(body, env):
    for s in body:
        s.step(env)


def join(env, other):
    for k in other:
        env[k] = max(env.get(k, 0), other[k])


def repeated(body, times):
    def step(env):
        for _ in range(min(times, 40)):
            inner = dict(env)
            walk(body, inner)
            before = dict(env)
            join(env, {k: v for k, v in inner.items() if k in env})
            if env == before:
                break
    return step


def either(bodies):
    def step(env):
        for b in bodies:
            inner = dict(env)
            walk(b, inner)
            join(env, {k: v for k, v in inner.items() if k in env})
    return step


class Gen:
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
        opts = ("" if axis is None else f", axis = {axis}") + (", keepdims = true" if keep else "")
        d, b = e.dtype, e.bound
        if op == "sum":
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
            f = self.pick("abs({})", "sigmoid({})", "tanh({})", "exp2(min({}, {d}(1)))", "sqrt(abs({}) + {d}(1))",
                          "({} * 0.5)", "-({})")
            if d in ("f8e4m3", "f8e5m2"):
                f = "abs({})"
            return Expr(f.format(x.text, d=d), d, shape, lambda env: 0)
        if d in INT and self.chance(0.4):
            n = self.r.randint(1, 7)
            f = self.pick("({} // {n})", "({} % {n})", "({} << {m})", "({} >> {m})")
            return Expr(f.format(x.text, n=f"{d}({n})", m=self.r.randint(0, 3)), d, shape, lambda env: INT[d] if "<" in f else fit(d, x.bound(env) + n))
        f = self.pick("abs({})", "sign({})", "-({})", "clamp({}, {d}({lo}), {d}(5))", "clamp({}, {d}({lo}), {d}(5))")
        if unsigned(d):
            f = "clamp({}, {d}({lo}), {d}(5))"
        lo = 0 if unsigned(d) else -3
        if d in FLOAT and self.chance(0.2):
            f = self.pick("floor({})", "round({})", "trunc({})")
        if self.fns and d == "f32" and self.chance(0.3):
            f = self.fns[0] + "({})"
            return Expr(f.format(x.text), d, shape, lambda env: fit(d, 2 * x.bound(env) + 1))
        return Expr(f.format(x.text, d=d, lo=lo), d, shape,
                    lambda env: min(5, x.bound(env)) + 3 if f[0] == "c" else fit(d, x.bound(env)))

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
                                 (1, "where"), (2, "base"), (1, "cast"))
            if d == "bool" and not self.real:
                kind = self.weighted((3, "compare"), (1, "binary"), (1, "unary"), (1, "base"), (1, "reduce"))
            if kind == "binary":
                return self.binary(shape, d, depth)
            if kind == "unary":
                return self.unary(shape, d, depth)
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

    # ---------------------------------------------------------------- statements
    def tile(self, shape=None, d=None, space=None):
        """Declares a tile with a first value; gives the statement and the tile."""
        shape = shape or self.pick(*self.shape_pool())
        d = d or self.dtype()
        space = space or self.pick("shared", "fragment", "shared")
        t = Tile(self.name("t"), d, shape, space)
        v = "false" if d == "bool" else str(self.r.randint(0, 3))
        s = Stmt(f"{space} {t.name}: {d}[{', '.join(map(str, shape))}] = {v}",
                 lambda env: env.__setitem__(t.name, 3))
        return s, t

    def origin(self, tensor, axis, tile_extent):
        """Where a region begins on an axis: anything, aligned or not."""
        ext, name = tensor.axes[axis]
        o = self.weighted((3, "grid"), (1, "zero"), (1, "odd"))
        if o == "zero":
            return "0"
        s = self.index_scalar()
        if o == "grid":
            return f"{s}*{tile_extent}"
        return f"{s}*{self.r.randint(1, 5)} {self.pick('+', '-')} {self.r.randint(0, 3)}"

    def region(self, tensor, shape, pad_ok=True):
        lead = len(tensor.axes) - len(shape)
        parts = [f"{self.index_scalar()}" for _ in range(lead)]
        for i, x in enumerate(shape):
            parts.append(self.origin(tensor, lead + i, x))
        if self.chance(0.25):
            parts = parts[:lead] + [f"{o}:{o} + {x}" for o, x in zip(parts[lead:], shape)]
            if lead == 0 and len(shape) == 2 and len(tensor.axes) == 2 and self.chance(0.3):
                o, x = parts[0].split(":")[0], shape[0]
                stop = f"min({o} + {x}, {self.r.randint(0, 30)})"
                parts[0] = f"{o}:{stop}" if False else parts[0]
        return f"{tensor.name}[{', '.join(parts)}]"

    def load(self):
        """A region of an input into a tile, old or new."""
        x = self.pick(*self.inputs)
        old = [t for t in self.scope if t.space != "let" and len(t.shape) <= len(x.axes)]
        new = None
        if old and self.chance(0.5):
            t = self.pick(*old)
        else:
            pool = [s for s in self.shape_pool() if len(s) <= len(x.axes)]
            if not pool:
                return None
            d = x.dtype if self.chance(0.7) else self.dtype()
            t = Tile(self.name("t"), d, self.pick(*pool), self.pick("shared", "shared", "fragment"))
            new = f"{t.space} {t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]"
        if (t.dtype == "bool") != (x.dtype == "bool"):
            return None
        pad = ""
        if x.dtype != "bool" and self.chance(0.15):
            pad = f", pad = {self.r.randint(0, 3)}"
        text = f"copy({self.region(x, t.shape)}, {t.name}{pad})"
        if new:
            self.scope.append(t)
            text = new + "\n" + text
        return Stmt(text, lambda env: env.__setitem__(t.name, max(3, convert(t.dtype, x.dtype, env[x.name]))))

    def declare(self):
        s, t = self.tile()
        self.scope.append(t)
        return s

    def writable(self):
        return [t for t in self.scope if t.space != "let"]

    def assign(self):
        w = self.writable()
        if not w:
            return self.declare()
        t = self.pick(*w)
        e = self.whole(t.shape, t.dtype if self.chance(0.75) else self.dtype())
        if (e.dtype == "bool") != (t.dtype == "bool"):
            return None
        if self.chance(0.2) and self.cells(t.shape) > 1:  # a slice of it
            cut, shape = [], []
            for x in t.shape:
                n = self.r.randint(1, x)
                o = self.r.randint(0, x - n)
                cut.append(f"{o}:{o + n}")
                shape.append(n)
            e = self.whole(tuple(shape), t.dtype, 1)

            def weak(env):
                env[t.name] = max(env[t.name], convert(t.dtype, e.dtype, e.bound(env)))
            how = self.pick("{}[{}] = {}", "copy({2}, {0}[{1}])")
            if how[0] == "c" and not self.has_shape(e.text, shape):
                how = "{}[{}] = {}"
            return Stmt(how.format(t.name, ", ".join(cut), e.text), weak)
        if self.chance(0.25) and t.dtype == e.dtype and t.dtype != "bool":
            op = self.pick("+=", "+=", "-=", "*=")

            def grow(env):
                p, q = env[t.name], e.bound(env)
                env[t.name] = INT[t.dtype] if op == "-=" and unsigned(t.dtype) else fit(t.dtype, p * q if op == "*=" else p + q)
            return Stmt(f"{t.name} {op} {e.text}", grow)
        return Stmt(f"{t.name} = {e.text}",
                    lambda env: env.__setitem__(t.name, convert(t.dtype, e.dtype, e.bound(env))))

    def has_shape(self, text, shape):
        return any(t.name == text and t.shape == tuple(shape) for t in self.scope)

    def let(self):
        shape = self.pick(*self.shape_pool())
        e = None
        for _ in range(6):  # its shape must be all there: a tile of the shape is part of it
            base = [t for t in self.scope if t.shape == shape]
            if base:
                e = self.full(self.pick(*base))
                break
            shape = self.pick(*self.shape_pool())
        if e is None:
            e = self.product(shape)
        if e is None:
            return self.declare()
        v = Tile(self.name("v"), e.dtype, shape, "let")
        self.scope.append(v)
        return Stmt(f"let {v.name} = {e.text}", lambda env: env.__setitem__(v.name, e.bound(env)))

    def let_scalar(self):
        if self.real or not self.scope:
            return None
        t = self.pick(*self.scope)
        e = self.reduced(Expr(t.name, t.dtype, t.shape, lambda env: env[t.name]), None, False, ())
        if e.dtype == "bool":
            return None
        n = self.name("s")
        self.scalars.append(Expr(n, e.dtype, (), lambda env: env[n]))
        return Stmt(f"let {n} = {e.text}", lambda env: env.__setitem__(n, e.bound(env)))

    def matmul(self):
        """acc += A @ B in a loop over k, in all its variants."""
        if not self.inputs:
            return None
        a, b, c = self.ext
        if a * b * c > 70000:
            return None
        d = self.pick("f16", "bf16", "f32", "f64") if self.real else \
            self.pick("f16", "f16", "f16", "bf16", "bf16", "f32", "f64", "i8", "i8", "f8e4m3", "f8e5m2", "u8", "i32")
        out = "f64" if d == "f64" else "f32" if d in FLOAT else "i32" if SIZE[d] == 1 else "i64"
        ta, tb = self.chance(0.3), self.chance(0.3)
        srcs = [x for x in self.inputs if len(x.axes) >= 2 and x.dtype == d]
        if len(srcs) < 2:
            axes = lambda p, q: [self.axis(p), self.axis(q)]
            xa = Tensor(self.name("A"), d, axes(c, a) if ta else axes(a, c))
            xb = Tensor(self.name("B"), d, axes(b, c) if tb else axes(c, b))
            self.inputs += [xa, xb]
            self.env[xa.name] = self.env[xb.name] = 6 if unsigned(d) else 3
        else:
            xa, xb = self.pick(*srcs), self.pick(*srcs)
        sa, sb = (c, a) if ta else (a, c), (b, c) if tb else (c, b)
        acc = Tile(self.name("t"), out, (a, b), self.pick("fragment", "fragment", "fragment", "shared"))
        A = Tile(self.name("t"), d, sa, self.pick("shared", "shared", "shared", "fragment"))
        B = Tile(self.name("t"), d, sb, self.pick("shared", "shared", "shared", "fragment"))
        n = self.r.randint(0, 5)
        k = self.name("k")
        head = self.weighted((4, f"pipelined({n}, {self.r.randint(1, 5)})"), (2, f"range({n})"), (0.5, f"unroll({n})"),
                             (1, f"pipelined({n})"))
        inside = self.chance(0.25)
        decl = lambda t: f"{t.space} {t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]"
        put = self.scalars, self.scope
        body = []
        self.scalars = self.scalars + [Expr(k, "int", (), lambda env: n)]
        for t, x in ((A, xa), (B, xb)):
            lead = len(x.axes) - 2
            o = [self.index_scalar() for _ in range(lead)]
            rows_k = (t is A) == ta  # the first axis is k
            first, second = (f"{k}*{c}", self.origin(x, lead + 1, t.shape[1])) if rows_k == (t is A) or \
                (t is B and not tb) else (self.origin(x, lead, t.shape[0]), f"{k}*{c}")
            if t is B:
                first, second = (f"{k}*{c}", self.origin(x, lead + 1, b)) if not tb else \
                    (self.origin(x, lead, b), f"{k}*{c}")
            body.append(Stmt((decl(t) + "\n" if inside else "") +
                             f"copy({x.name}[{', '.join(o + [first, second])}], {t.name})",
                             lambda env, t=t, x=x: env.__setitem__(t.name, env[x.name])))
        self.scope = self.scope + [acc, A, B]
        if self.chance(0.2):
            s = self.attempt(self.statement_simple, body)
            if s:
                body.append(s)
        at, bt = A.name + (".T" if ta else ""), B.name + (".T" if tb else "")
        most = 2**13 if d.startswith("f8") else FLOAT.get(out, 0)

        def step(env):
            v = env[acc.name] + c * env[A.name] * env[B.name]
            if most and v > most:
                raise Overflow
            env[acc.name] = fit(out, v)
        text = f"{acc.name} += {at} @ {bt}"
        if self.chance(0.2):
            opts = self.pick("", ", policy = \"rows\"", ", policy = \"columns\"", ", policy = \"square\"")
            text = f"gemm({at}, {bt}, {acc.name}{opts})"
        body.append(Stmt(text, step))
        if self.chance(0.2):
            s = self.attempt(self.statement_simple, body)
            if s:
                body.append(s)
        self.scalars, self.scope = put
        pre = [Stmt(decl(acc) + " = 0", lambda env: env.__setitem__(acc.name, 0))]
        if not inside:
            pre += [Stmt(decl(t), lambda env, t=t: env.__setitem__(t.name, 0)) for t in (A, B)]
        loop = Stmt("", repeated(body, n), [(f"for {k} in {head} {{", body)])
        self.scope = self.scope + [acc] + ([A, B] if not inside and n > 0 else [])
        return Group(pre + [loop])

    def axis(self, tile):
        e = self.extent(tile, 3)
        n = self.name("N")
        return (e, n)

    def statement_simple(self):
        return self.weighted((3, self.load), (4, self.assign), (1, self.fill), (1, self.parallel),
                             (0.7, self.element), (0.5, self.atomic))()

    def fill(self):
        w = self.writable()
        if not w:
            return None
        t = self.pick(*w)
        v = "true" if t.dtype == "bool" else str(self.r.randint(0, 3))
        where = t.name
        if self.chance(0.4):
            cut = []
            for x in t.shape:
                n = self.r.randint(1, x)
                o = self.r.randint(0, x - n)
                cut.append(f"{o}:{o + n}")
            where = f"{t.name}[{', '.join(cut)}]"
        return Stmt(f"fill({where}, {v})", lambda env: env.__setitem__(t.name, max(3, env[t.name])))

    # ---------------------------------------------------------------- elements
    def element_index(self, shape, names):
        """An index of a tile that is always inside: by the loop's names where they fit."""
        out = []
        for x in shape:
            fits = [n for n, e in names if e <= x]
            if fits and self.chance(0.75):
                n = self.pick(*fits)
                e = dict(names)[n]
                out.append(f"{n} + {self.r.randint(1, x - e)}" if x > e and self.chance(0.4) else
                           f"{x - 1} - {n}" if self.chance(0.15) else n)
            elif names and self.chance(0.5):
                out.append(f"({self.pick(*[n for n, _ in names])}*{self.r.randint(1, 5)} + {self.r.randint(0, 9)}) % {x}")
            else:
                out.append(str(self.r.randrange(x)))
        return ", ".join(out)

    def element_value(self, d, names, banned, depth):
        """A scalar of type d inside a parallel loop."""
        kind = self.weighted((4, "tile"), (1, "literal"), (1 if not self.real else 0, "index"), (3 if depth else 0, "binary"),
                             (1 if depth and not self.real else 0, "choice"), (1 if depth else 0, "math"))
        if kind == "binary" and d != "bool":
            x, y = (self.element_value(d, names, banned, depth - 1) for _ in "xy")
            op = self.pick("+", "-", "*")

            def bound(env):
                p, q = x.bound(env), y.bound(env)
                return INT[d] if op == "-" and unsigned(d) else fit(d, p * q if op == "*" else p + q)
            return Expr(f"({x.text} {op} {y.text})", d, (), bound)
        if kind == "choice":
            x, y = (self.element_value(d, names, banned, depth - 1) for _ in "xy")
            c = self.element_value("i32", names, banned, 0)
            return Expr(f"({x.text} if {c.text} > {self.r.randint(-1, 3)} else {y.text})", d, (),
                        lambda env: max(x.bound(env), y.bound(env), min(0, c.bound(env))))
        if kind == "math" and d != "bool" and not unsigned(d):
            x = self.element_value(d, names, banned, depth - 1)
            f = self.pick("abs", "sign") if not self.real else self.pick("abs", "sigmoid")
            return Expr(f"{f}({x.text})", d, (), lambda env: fit(d, x.bound(env)))
        if kind == "index" and names:
            n, e = self.pick(*names)
            return self.cast(Expr(n, "int", (), lambda env: e), d)
        tiles = [t for t in self.scope if t not in banned and (not self.real or t.dtype in FLOAT)]
        if kind == "tile" and tiles:
            t = self.pick(*tiles)
            e = Expr(f"{t.name}[{self.element_index(t.shape, names)}]", t.dtype, (), lambda env: env[t.name])
            return self.cast(e, d)
        return self.literal(d)

    def parallel(self):
        """Elements of a tile, each by an iteration of its own."""
        w = self.writable()
        if not w:
            return None
        t = self.pick(*w)
        if self.cells(t.shape) > 4096:
            return None
        names = [(self.name("p"), x) for x in t.shape]
        short = [x if self.chance(0.8) else self.r.randint(0, x) for x in t.shape]
        idx = ", ".join(n for n, _ in names)
        me = Expr(f"{t.name}[{idx}]", t.dtype, (), lambda env: env[t.name])
        v = self.element_value(t.dtype, names, [t], self.r.randint(0, 3))
        body = []
        how = self.weighted((4, "set"), (2, "add"), (2, "if"), (1, "var"), (1, "loop"), (1, "local"))
        weak = [True]
        target = f"{t.name}[{idx}]"

        def update(env):
            env[t.name] = max(env[t.name], convert(t.dtype, v.dtype, v.bound(env)))

        def grow(times):
            def step(env):
                env[t.name] = INT[t.dtype] if unsigned(t.dtype) else fit(t.dtype, env[t.name] + times * v.bound(env))
            return step
        step = update
        if t.dtype == "bool" and how in ("add", "loop", "var", "local"):
            how = "set"
        if how == "set":
            body = [f"{target} = {v.text}"]
        elif how == "add":
            body, step = [f"{target} += {v.text}"], grow(1)
        elif how == "if":
            n, e = self.pick(*names)
            c = self.pick(f"{n} % 2 == 0", f"{n} < {self.r.randint(0, e)}", f"{n} + {self.index_scalar()} > {e // 2}")
            body = [f"if {c} {{", f"  {target} = {v.text}"]
            if self.chance(0.4):
                body += ["} else {", f"  {target} = {self.literal(t.dtype).text}"]
            body += ["}"]

            def step(env):
                update(env)
                env[t.name] = max(env[t.name], 4)
        elif how == "var":
            x = self.name("x")
            body = [f"var {x}: {t.dtype} = {v.text}", f"if {names[0][0]} > {self.r.randint(0, names[0][1])} {{ {x} = {me.text} }}",
                    f"{target} = {x}"]
        elif how == "loop":
            q, n = self.name("q"), self.r.randint(0, 4)
            kind = self.pick("range", "range", "unroll")
            body, step = [f"for {q} in {kind}({n}) {{ {target} += {v.text} }}"], grow(n)
        else:
            x, q = self.name("x"), self.name("q")
            body = [f"local {x}: {t.dtype}[4] = 0", f"for {q} in unroll(4) {{ {x}[{q}] = {v.text} }}",
                    f"{target} = {x}[{names[0][0]} % 4]"]
        head = f"for {idx} in parallel({', '.join(map(str, short))}) {{"
        inner = [Stmt(x) for x in body]
        return Stmt("", step, [(head, inner)])

    def element(self):
        """One element, by the whole block; or a scalar from one."""
        w = self.writable()
        if not w or self.real:
            return None
        t = self.pick(*w)
        v = self.element_value(t.dtype, [], [], 1)
        at = ", ".join(str(self.r.randrange(x)) for x in t.shape)

        def step(env):
            env[t.name] = max(env[t.name], convert(t.dtype, v.dtype, v.bound(env)))
        if self.chance(0.3) and t.dtype != "bool":
            n = self.name("s")
            self.scalars.append(Expr(n, t.dtype, (), lambda env: env[n]))
            return Stmt(f"let {n} = {t.name}[{at}]", lambda env: env.__setitem__(n, env[t.name]))
        return Stmt(f"{t.name}[{at}] = {v.text}", step)

    def atomic(self):
        """Integer sums, maxima, … that do not depend on the order: into a tensor or a shared tile."""
        if self.real:
            return None
        op = self.pick("add", "add", "max", "min", "xor", "or", "and")
        mine = [t for t in self.scope if t.space == "shared" and t.dtype in ("i32", "u32") and
                self.cells(t.shape) <= 1024]
        if mine and self.chance(0.5):
            t = self.pick(*mine)
            name, shape, d = t.name, t.shape, t.dtype
        else:
            fitting = [x for x in self.atomics if x[1] == op]
            if fitting:
                x = self.pick(*fitting)[0]
            else:
                x = Tensor(self.name("H"), self.pick("i32", "i64", "u32"), [(n, str(n)) for n in
                           ((self.r.randint(1, 40),) if self.chance(0.6) else (self.r.randint(1, 9), self.r.randint(1, 9)))])
                self.atomics.append((x, op))
            name, shape, d = x.name, tuple(a for a, _ in x.axes), x.dtype
            t = None
        if t is None and self.chance(0.3):  # a tile into a region
            src = [s for s in self.scope if len(s.shape) <= len(shape) and s.dtype not in ("bool",) and
                   (s.dtype not in FLOAT or True)]
            if src and op in ("add", "max", "min"):
                s = self.pick(*src)
                if s.dtype != d:
                    return None
                lead = len(shape) - len(s.shape)
                at = ", ".join(["0"] * lead + [str(self.r.randint(-1, 3)) for _ in s.shape])
                return Stmt(f"atomic_{op}({name}[{at}], {s.name})", lambda env: None)
        names = [(self.name("p"), self.r.randint(1, 40)) for _ in shape]
        idx = ", ".join(f"({n}*{self.r.randint(1, 3)} + {self.r.randint(0, 5)}) % {x}" for (n, _), x in zip(names, shape))
        v = self.element_value(d, names, [t] if t else [], 1)
        head = f"for {', '.join(n for n, _ in names)} in parallel({', '.join(str(e) for _, e in names)}) {{"
        body = [Stmt(f"atomic_{op}({name}[{idx}], {v.text})")]

        def step(env):
            v.bound(env)
            if t:
                env[name] = INT[d]
        return Stmt("", step, [(head, body)])

    # ---------------------------------------------------------------- control
    def block(self, n, extra=()):
        """Statements in a scope of their own; bounds are looked at by the caller."""
        put = list(self.scope), list(self.scalars), dict(self.env)
        self.scalars = self.scalars + list(extra)
        self.depth += 1
        body = []
        for _ in range(n):
            s = self.attempt(self.statement, body)
            if s:
                body.append(s)
        self.depth -= 1
        self.scope, self.scalars, self.env = put
        return body

    def attempt(self, make, body):
        """A statement that keeps the bounds after the body so far; None: none came."""
        put = list(self.scope), list(self.scalars)
        for _ in range(4):
            s = make()
            if s is not None:
                env = dict(self.env)
                try:
                    s.step(env)
                    self.env = env
                    return s
                except (Overflow, KeyError):
                    pass
            self.scope, self.scalars = list(put[0]), list(put[1])
        return None

    def loop(self):
        n = self.weighted((1, 0), (2, 1), (4, 2), (3, 3), (1, 5))
        k = self.name("k")
        head = self.weighted((3, f"range({n})"), (2, f"pipelined({n}, {self.r.randint(1, 5)})"), (1, f"unroll({n})"),
                             (0.3, f"vectorized({n})"), (1, f"range(1, {2 * n + 1}, 2)"), (0.5, f"range({n}, 0, -1)"))
        body = self.block(self.r.randint(1, 4), [Expr(k, "int", (), lambda env: 2 * n + 1)])
        if head[0] == "r" and self.chance(0.2):
            word = self.pick("break", "continue")
            body.insert(self.r.randint(0, len(body)), Stmt(f"if {k} == {self.r.randint(0, n)} {{ {word} }}"))
        while body:
            try:
                repeated(body, n)(dict(self.env))
                break
            except (Overflow, KeyError):
                body.pop()
        return Stmt("", repeated(body, n), [(f"for {k} in {head} {{", body)]) if body else None

    def condition(self):
        i = self.index_scalar()
        options = [f"{i} % 2 == {self.r.randint(0, 1)}", f"{i} < {self.r.randint(0, 3)}"]
        ext = [n for x in self.inputs for _, n in x.axes]
        if ext:
            options.append(f"{self.pick(*ext)} > {self.r.randint(0, 40)}")
        typed = [s.text for s in self.scalars if s.dtype in INT and not self.real]
        if typed:
            options.append(f"{self.pick(*typed)} > 1")
        return self.pick(*options)

    def if_(self):
        a = self.block(self.r.randint(1, 3))
        b = self.block(self.r.randint(1, 3)) if self.chance(0.5) else []
        if not a:
            return None
        parts = [(f"if {self.condition()} {{", a)] + ([("} else {", b)] if b else [])
        return Stmt("", either([a, b]), parts)

    def while_(self):
        n, w = self.r.randint(0, 3), self.name("w")
        body = self.block(self.r.randint(1, 2))
        while body:
            try:
                repeated(body, n)(dict(self.env))
                break
            except (Overflow, KeyError):
                body.pop()
        loop = Stmt("", repeated(body, n), [(f"while {w} < {n} {{", body + [Stmt(f"{w} += 1")])])
        return Group([Stmt(f"var {w}: i32 = 0"), loop])

    def statement(self):
        self.budget -= 1
        deep = self.depth >= 2 or self.budget < 0
        return self.weighted((4, self.load), (5, self.assign), (2, self.let), (1, self.let_scalar), (2, self.declare),
                             (2, self.parallel), (1, self.element), (0.7, self.fill), (0.8, self.atomic),
                             (0 if deep else 2, self.loop), (0 if deep else 1.2, self.if_), (0 if deep else 0.4, self.while_),
                             (0 if deep else 2.5, self.matmul))()

    # ---------------------------------------------------------------- the kernel
    def stores(self):
        """Each output's part of the block, once."""
        out = []
        for y, tile, origin in self.outputs:
            shape = tuple(x for x in tile if x is not None)
            v = self.attempt_expr(shape, y.dtype)
            mixed = None in tile[tile.count(None):]  # single indices behind slices
            at = ", ".join(o if x is None or not mixed else f"{o}:{o} + {x}" for o, x in zip(origin, tile))
            if self.chance(0.7) or self.cells(shape) > 4096:
                if self.has_shape(v.text, shape):
                    out.append(Stmt(f"copy({v.text}, {y.name}[{at}])"))
                else:
                    t = Tile(self.name("t"), v.dtype, shape, self.pick("shared", "fragment"))
                    out.append(Stmt(f"{t.space} {t.name}: {t.dtype}[{', '.join(map(str, shape))}]"))
                    out.append(Stmt(f"{t.name} = {v.text}"))
                    out.append(Stmt(f"copy({t.name}, {y.name}[{at}])"))
                continue
            t = Tile(self.name("t"), v.dtype, shape, self.pick("shared", "fragment"))
            names = [self.name("p") for _ in shape]
            it, idx, guard = iter(names), [], []
            for (ext, n), x, o in zip(y.axes, tile, origin):
                place = o if x is None else f"{o} + {next(it)}"
                idx.append(place)
                guard.append(f"{place} < {n}")
            out.append(Stmt(f"{t.space} {t.name}: {t.dtype}[{', '.join(map(str, shape))}]"))
            out.append(Stmt(f"{t.name} = {v.text}"))
            inner = [Stmt(f"if {' and '.join(guard)} {{ {y.name}[{', '.join(idx)}] = {t.name}[{', '.join(names)}] }}")]
            out.append(Stmt("", None, [(f"for {', '.join(names)} in parallel({', '.join(map(str, shape))}) {{", inner)]))
        return out

    def attempt_expr(self, shape, d):
        for _ in range(8):
            e = self.whole(shape, d)
            try:
                convert(d, e.dtype, e.bound(self.env))
                return e
            except (Overflow, KeyError):
                continue
        return self.literal(d)

    def setup(self):
        self.ext = [self.tile_extent() for _ in range(3)]
        if self.chance(0.3):
            self.ext = [self.pick(16, 32, 64), self.pick(8, 16, 32, 64), self.pick(16, 32)]
        rank = self.weighted((1, 0), (3, 1), (4, 2), (2, 3))
        self.grid = []  # (variable, extent's name, tile, extent)
        dims = [("M", self.ext[0]), ("N", self.ext[1]), ("P", self.pick(1, 1, 2, 3))][:rank]
        self.r.shuffle(dims)
        for i, (n, tile) in enumerate(dims):
            e = self.extent(tile, 3 if rank < 3 else 2)
            self.grid.append(("xyz"[i], n, tile, e))
            v = "b" + "xyz"[i]
            self.scalars.append(Expr(v, "int", (), lambda env: 3))

    def outputs_make(self):
        for _ in range(self.r.randint(1, 2)):
            axes, tile, origin = [], [], []
            for v, n, t, e in self.grid:
                axes.append((e, n))
                one = t == 1 and self.chance(0.5)
                tile.append(None if one else t)
                origin.append(f"b{v}" if one else f"b{v}*{t}")
            if len(axes) < 3 and (not axes or self.chance(0.3)):  # an axis that the tile covers
                t = self.ext[2]
                e = self.r.randint(max(t - 2, 0), t)
                axes.append((e, str(e)))
                tile.append(t)
                origin.append("0")
            order = list(range(len(axes)))
            self.r.shuffle(order)
            axes, tile, origin = ([z[i] for i in order] for z in (axes, tile, origin))
            if all(x is None for x in tile):
                tile[0], origin[0] = 1, origin[0] + "*1"
            if self.cells([x or 1 for x in tile]) > 8192:
                continue
            self.outputs.append((Tensor(self.name("Y"), self.dtype(), axes), tile, origin))

    def inputs_make(self):
        known = [(e, n) for _, n, _, e in self.grid]
        for _ in range(self.r.randint(1, 3)):
            axes = []
            for _ in range(self.weighted((2, 1), (5, 2), (1.5, 3))):
                axes.append(self.pick(*known) if known and self.chance(0.6) else self.axis(self.pick(*self.ext)))
            x = Tensor(self.name("X"), self.dtype(), axes)
            self.inputs.append(x)
            self.env[x.name] = 6 if unsigned(x.dtype) else 3

    def program(self):
        self.setup()
        self.inputs_make()
        self.outputs_make()
        if not self.outputs:
            return Gen(self.r.random()).program()
        if self.chance(0.2):
            self.fns = ["twice"]
        body = []
        for x in self.inputs[:2]:
            s = self.attempt(self.load, body)
            if s:
                body.append(s)
        for _ in range(self.r.randint(1, 7)):
            s = self.attempt(self.statement, body)
            if s:
                body.append(s)
        body += self.stores()
        return self.text(body)

    def head(self):
        lines = []
        for v, n, t, e in self.grid:
            pass
        if self.grid:
            names = ", ".join("b" + g[0] for g in self.grid)
            sizes = ", ".join(g[1] if g[2] == 1 else f"ceildiv({g[1]}, {g[2]})" for g in self.grid)
            opts = ""
            if self.chance(0.25):
                opts += f", threads = {self.pick(32, 64, 96, 128, 256, 384)}"
            if len(self.grid) == 2 and self.chance(0.2):
                opts += f", raster = grouped({self.r.randint(1, 8)})"
            lines.append(f"  grid {names} = {sizes}{opts}")
        return lines

    def layouts(self):
        return []

    def argument(self, x):
        """An expression that makes the tensor, maybe a view with odd strides, and its extents."""
        ext = [e for e, _ in x.axes]
        how = self.weighted((5, "plain"), (2, "T"), (2, "slice"), (1, "step"), (0.5, "back"))
        make = [list(ext), ""]
        if how == "T" and len(ext) >= 2:
            make = [ext[:-2] + [ext[-1], ext[-2]], ".T"]
        elif how == "slice":
            lo = [self.r.randint(0, 3) for _ in ext]
            hi = [self.pick(0, 1, 5, 8) for _ in ext]
            make = [[e + p + q for e, p, q in zip(ext, lo, hi)],
                    "[" + ", ".join(f"{p}:{p + e}" for e, p in zip(ext, lo)) + "]"]
        elif how == "step":
            make = [ext[:-1] + [2 * ext[-1]], "[" + ", ".join([":"] * (len(ext) - 1) + ["::2"]) + "]"]
        elif how == "back" and ext[0] > 0:
            make = [list(ext), "[::-1]"]
        dims = ", ".join(map(str, make[0]))
        if x.dtype == "bool":
            text = f"(randint(i32, 0, 2, {dims}) == 1)"
        elif self.real:
            text = f"randn({x.dtype}, {dims})" if x.dtype in ("f32", "f64", "f16", "bf16") else f"randn(f32, {dims}).to({x.dtype})"
        else:
            lo, hi = (0, 7) if unsigned(x.dtype) else (-3, 4)
            text = f"randint(i32, {lo}, {hi}, {dims})" + ("" if x.dtype == "i32" else f".to({x.dtype})")
        return text + make[1]

    def text(self, body):
        outs = [y for y, _, _ in self.outputs]
        starts = []
        for y in outs:
            start = "" if self.chance(0.7) else f" = {'false' if y.dtype == 'bool' else self.r.randint(0, 3)}"
            starts.append(y.declare() + start)
        for x, op in self.atomics:
            starts.append(x.declare() + f" = {0 if op != 'min' else 9}")
        lines = []
        if self.fns:
            lines += ["fn twice(x: f32) -> f32 { return 2 * x + 1 if x > 0 else -x }"] if not self.real else \
                     ["fn twice(x: f32) -> f32 { return 2 * x + 1 }"]
        seen, ins = set(), []
        for x in self.inputs:
            ins.append(x.declare())
        lines.append(f"kernel f({', '.join(ins)}) -> ({', '.join(starts)}) {{")
        lines += self.head()
        for s in body:
            lines += s.lines()
        lines.append("}")
        missing = {n for y in outs for _, n in y.axes if not n.isdigit()} - {n for x in self.inputs for _, n in x.axes}
        if missing:  # extents that no input binds come as numbers
            ext = {n: e for y in outs for e, n in y.axes}
            first = ", ".join(f"{n}: i32" for n in sorted(missing))
            k = next(i for i, t in enumerate(lines) if t.startswith("kernel"))
            lines[k] = lines[k].replace("kernel f(", f"kernel f({first}" + (", " if ins else ""))
        names = []
        for i, x in enumerate(self.inputs):
            lines.append(f"let a{i} = {self.argument(x)}")
            names.append(f"a{i}")
        args = ([str(ext[n]) for n in sorted(missing)] if missing else []) + names
        lines.append(f"let r = check f({', '.join(args)})")
        return "\n".join(lines) + "\n"


class Group(Stmt):
    """Statements that come together, in the scope around them."""

    def __init__(self, parts):
        self.parts = parts

    def lines(self, depth=1):
        return [x for s in self.parts for x in s.lines(depth)]

    def step(self, env):
        walk(self.parts, env)


def program(seed):
    """The text of a seed's program, and whether its results must be equal to the last bit."""
    g = Gen(seed)
    text = g.program()
    return text, not g.real
