"""Random well-typed kernels: one program of the language a seed.

In: a seed. Out: the text of a program that defines a kernel `f`, tensors `a0`, `a1`, … and ends in
`let r = check f(…)`. Always holds: the program is legal, whatever the seed: no access outside a
tensor, nothing read before it is written, no race, every element of an output written. An "exact"
program computes integers that every type on their way holds exactly, so that any order of any sum
gives the same bits; `Bound` walks the statements to see to that. A "real" one has random reals and
no step that turns a small difference into a large one.
"""
import re

import kernelblend
import kernelprod
import kernelring
import kernelrole
from kernelelem import Group, Stmt, either, repeated
from kernelhost import Calls
from kerneltype import FLOAT, INT, SIZE, Expr, Overflow, Tensor, Tile, convert, fit, unsigned


class Gen(Calls):
    """Statements, and the kernel of them."""

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
            if self.chance(0.4):
                i = self.r.randrange(len(shape))
                o, x = parts[lead + i].split(":")[0], shape[i]
                stop = tensor.axes[lead + i][1]
                if stop[0] == "N" or stop in "MNP":  # one that is known when the kernel is compiled gives an extent
                    parts[lead + i] = f"{o}:min({o} + {x}, {stop})"
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
            if d in FLOAT and self.chance(0.3):
                opts += f", promote = {self.pick(0, 16, 32, 128)}"
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

    def chain(self):
        """Two products, the second of what the first gave, in a loop: as attention has them."""
        a, b, c = (self.pick(16, 32, 64, 16, 32) for _ in range(3))
        d = self.pick("f16", "f16", "bf16")
        q, k, v = (Tensor(self.name("Q"), d, [self.axis(x), self.axis(c)]) for x in (a, b, b))
        self.inputs += [q, k, v]
        for x in (q, k, v):
            self.env[x.name] = 3
        Q, K, V = (Tile(self.name("t"), d, s, "shared") for s in ((a, c), (b, c), (b, c)))
        acc = Tile(self.name("t"), "f32", (a, c), "fragment")
        s, p, j = self.name("v"), self.name("v"), self.name("k")
        m = Tile(self.name("t"), "f32", (a,), "fragment")
        n = self.r.randint(0, 4)
        decl = lambda t: f"{t.space} {t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]"
        head = self.pick(f"range({n})", f"pipelined({n}, {self.r.randint(1, 4)})", f"pipelined({n}, 2)")
        small = f"tanh({s} * 0.1)" if self.real else f"clamp({s}, -2, 2)"
        lines = [f"copy({k.name}[{j}*{b}, 0], {K.name})", f"copy({v.name}[{j}*{b}, 0], {V.name})",
                 f"let {s} = {Q.name} @ {K.name}.T", f"let {p} = {small}"]
        if self.chance(0.4):
            lines[2] = f"fragment {s}: f32[{a}, {b}] = {Q.name} @ {K.name}.T"
            r, w = self.name("p"), self.name("p")
            lines.insert(3, f"for {r}, {w} in parallel({a}, {b}) {{\n  if {j}*{b} + {w} >= {k.axes[0][1]} "
                            f"{{ {s}[{r}, {w}] = 0 }}\n}}")
        if self.chance(0.5):
            lines.append(f"{m.name} = max({m.name}, max({s}, axis = 1))")
        if self.chance(0.3):
            lines.append(f"{acc.name} = {acc.name} * {'0.5' if self.real else '1.0'}")
        if self.chance(0.3) and not self.real:
            lines.append(f"{acc.name} = clamp({acc.name}, -50, 50) - {m.name}[:, None] * 0")
        lines.append(f"{acc.name} += {d}({p}) @ {V.name}")

        def step(env):
            env[acc.name] = n * b * 2 * 3 + 50
            env[m.name] = c * 9
        pre = [Stmt("\n".join([decl(x) for x in (Q, K, V)] + [decl(acc) + " = 0", decl(m) + " = 0",
                                                             f"copy({q.name}[{self.origin(q, 0, a)}, 0], {Q.name})"]))]
        loop = Stmt("", step, [(f"for {j} in {head} {{", [Stmt(x) for x in lines])])
        self.scope = self.scope + [acc, m]
        return Group(pre + [loop])

    def statement_simple(self):
        return self.weighted((3, self.load), (4, self.assign), (1, self.fill), (1, self.parallel),
                             (0.7, self.element), (0.5, self.atomic))()

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

    def bounded(self, body, n):
        """Takes statements from the end until n rounds of the rest stay within their types."""
        while body:
            try:
                repeated(body, n)(dict(self.env))
                return
            except (Overflow, KeyError):
                body.pop()

    def loop(self):
        n = self.weighted((1, 0), (2, 1), (4, 2), (3, 3), (1, 5))
        k = self.name("k")
        head = self.weighted((3, f"range({n})"), (2, f"pipelined({n}, {self.r.randint(1, 5)})"), (1, f"unroll({n})"),
                             (0.3, f"vectorized({n})"), (1, f"range(1, {2 * n + 1}, 2)"), (0.5, f"range({n}, 0, -1)"))
        body = self.block(self.r.randint(1, 4), [Expr(k, "int", (), lambda env: 2 * n + 1)])
        if head[0] == "r" and self.chance(0.2):
            word = self.pick("break", "continue")
            body.insert(self.r.randint(0, len(body)), Stmt(f"if {k} == {self.r.randint(0, n)} {{ {word} }}"))
        self.bounded(body, n)
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
        self.bounded(body, n)
        loop = Stmt("", repeated(body, n), [(f"while {w} < {n} {{", body + [Stmt(f"{w} += 1")])])
        return Group([Stmt(f"var {w}: i32 = 0"), loop])

    def statement(self):
        self.budget -= 1
        deep = self.depth >= 2 or self.budget < 0
        return self.weighted((4, self.load), (5, self.assign), (2, self.let), (1, self.let_scalar), (2, self.declare),
                             (2, self.parallel), (1, self.element), (0.7, self.fill), (0.8, self.atomic),
                             (0 if deep else 2, self.loop), (0 if deep else 1.2, self.if_), (0 if deep else 0.4, self.while_),
                             (0 if deep else 2.5, self.matmul), (0 if deep else 0.6, self.chain),
                             (0.5, self.layout), (0.4, self.global_scalar), (2.5, self.sliced), (0.8, self.whole_copy),
                             (0 if deep else 0.5, self.chosen), (0.5, self.function_of_tiles), (0.5, self.saying),
                             (0.4, self.claim), (0.8, self.variable), (0.5, self.said_by_elements))()

    # ---------------------------------------------------------------- the kernel
    def setup(self):
        self.ext = [self.tile_extent() for _ in range(3)]
        if self.chance(0.3):
            self.ext = [self.pick(16, 32, 64), self.pick(8, 16, 32, 64), self.pick(16, 32)]
        rank = self.weighted((1, 0), (3, 1), (4, 2), (2, 3))
        self.persistent = rank > 0 and self.chance(0.07)
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
            y = Tensor(self.name("Y"), self.dtype(), axes)
            y.inout = self.chance(0.2)
            if self.chance(0.3):
                y.start = "false" if y.dtype == "bool" else self.r.randint(0, 3)
            self.env[y.name] = 6 if unsigned(y.dtype) else 3
            self.outputs.append((y, tile, origin))

    def inputs_make(self):
        known = [(e, n) for _, n, _, e in self.grid]
        for d, ext, text in self.given:
            x = Tensor(self.name("X"), d, [(e, self.name("N")) for e in ext])
            x.given = text
            self.inputs.append(x)
            self.env[x.name] = 6 if unsigned(d) else 3
        for _ in range(self.r.randint(1, 3)):
            axes = []
            for _ in range(self.weighted((2, 1), (5, 2), (1.5, 3))):
                axes.append(self.pick(*known) if known and self.chance(0.6) else self.axis(self.pick(*self.ext)))
            x = Tensor(self.name("X"), self.dtype(), axes)
            self.inputs.append(x)
            self.env[x.name] = 6 if unsigned(x.dtype) else 3

    def program(self):
        if self.chance(0.13):
            return kernelprod.program(self.r, self.real)
        if self.chance(0.13):
            return kernelblend.program(self.r, self.real)
        if self.chance(0.15) and not self.real:
            return self.pick(kernelrole, kernelrole, kernelrole, kernelring).program(self.r)
        if not self.prepared():
            self.__init__(self.r.random())  # another kernel, exact or real as it turns out
            return self.program()
        text = self.described()
        return self.followed(text) if self.called and not self.prints and self.chance(0.08) else text

    def prepared(self):
        """Whether there is an output."""
        self.setup()
        self.parameters_make()
        self.inputs_make()
        self.outputs_make()
        return self.outputs != []

    def described(self):
        """Statements, and the text of all."""
        if self.chance(0.2):
            self.fns = ["twice"]
        body = []
        for x in self.inputs[:2]:
            s = self.attempt(self.load, body)
            if s:
                body.append(s)
        for y, tile, origin in self.outputs:
            s = self.attempt(lambda: self.held_before(y, tile, origin), body)
            if s:
                body.append(s)
        for _ in range(self.r.randint(1, 7)):
            s = self.attempt(self.statement, body)
            if s:
                body.append(s)
        if self.grid and not self.persistent and self.chance(0.08):  # some blocks end early
            body.append(Stmt("", None, [(f"if {self.condition()} {{", self.stores() + [Stmt("return")])]))
            s = self.attempt(self.statement, body)
            body += [s] if s else []
        return self.text(body + self.stores())

    def followed(self, text):
        """A second kernel, of what the first one gives."""
        g = Gen(self.r.random())
        call, given = self.results()
        g.real, g.given = self.real, given[:2]
        if not given or not g.prepared():
            return text
        more = g.described()
        for pattern, to in ((r"\ba(\d+)", r"e\1"), (r"\bc(\d+)", r"o\1"), (r"^let r1 ", "let r3 "), (r"^let r ", "let r2 "),
                            (r"\bkernel f\b", "kernel g"), (r"(= |check )f(?=[\[(])", r"\1g")):
            more = re.sub(pattern, to, more, flags=re.M)
        if g.fns and self.fns:
            more = more[more.index("kernel g"):]
        return text + call + more


def program(seed):
    """The text of a seed's program, and whether its results must be equal to the last bit."""
    g = Gen(seed)
    text = g.program()
    return text, not g.real
