"""Random parallel loops, elements and atomics; and what a statement is.

In: tiles and tensors in scope. Out: statements. Always holds: each iteration writes elements of its
own and reads no other that the loop writes; atomics are of integers, and give the same in any order.
"""
from kernelexpr import Values
from kerneltype import FLOAT, INT, Expr, Tensor, convert, fit, unsigned


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


class Group(Stmt):
    """Statements that come together, in the scope around them."""

    def __init__(self, parts):
        self.parts = parts

    def lines(self, depth=1):
        return [x for s in self.parts for x in s.lines(depth)]

    def step(self, env):
        walk(self.parts, env)


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


class Elements(Values):
    """Statements of elements."""

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
        kind = self.weighted((4, "tile"), (1, "literal"), (1 if not self.real else 0, "index"), (2, "tensor"),
                             (3 if depth else 0, "binary"),
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
        if kind == "math" and d in INT and not self.real and self.chance(0.5):
            return self.function_of(self.element_value(d, names, banned, depth - 1))
        if kind == "math" and d != "bool" and not unsigned(d):
            x = self.element_value(d, names, banned, depth - 1)
            if self.chance(0.6):
                return self.function_of(x)
            if self.fns and d == "f32":
                return Expr(f"twice({x.text})", d, (), lambda env: fit(d, 2 * x.bound(env) + 1))
            f = self.pick("abs", "sign") if not self.real else self.pick("abs", "sigmoid")
            return Expr(f"{f}({x.text})", d, (), lambda env: fit(d, x.bound(env)))
        if kind == "tensor" and self.inputs:
            e = self.element_of_tensor(names)
            if not self.real or e.dtype in FLOAT:
                return self.cast(e, d)
        if kind == "index" and names:
            n, e = self.pick(*names)
            return self.cast(Expr(n, "int", (), lambda env: e), d)
        tiles = [t for t in self.scope if t not in banned and (not self.real or t.dtype in FLOAT)]
        if kind == "tile" and tiles:
            t = self.pick(*tiles)
            e = Expr(f"{t.name}[{self.element_index(t.shape, names)}]", t.dtype, (), lambda env: env[t.name])
            return self.cast(e, d)
        return self.literal(d)

    def element_of_tensor(self, names):
        """An element of an input, where there is one; else 0."""
        x = self.pick(*self.inputs)
        idx, inside = [], []
        for _, n in x.axes:
            p = self.pick(*[n for n, _ in names]) if names and self.chance(0.8) else str(self.r.randint(0, 3))
            p = self.weighted((3, p), (2, f"{self.index_scalar()}*{self.r.randint(1, 16)} + {p}"), (0.5, f"{p} - 1"),
                              (0.5, f"2*{p}"))
            idx.append(p)
            inside.append(f"0 <= {p} < {n}" if "-" in p else f"{p} < {n}")
        zero = "false" if x.dtype == "bool" else f"{x.dtype}(0)"
        return Expr(f"({x.name}[{', '.join(idx)}] if {' and '.join(inside)} else {zero})", x.dtype, (),
                    lambda env: env[x.name])

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
        how = self.weighted((4, "set"), (2, "add"), (2, "if"), (1, "var"), (1, "loop"), (1, "local"), (0.7, "next"),
                            (0.7, "while"))
        weak = [True]
        target = f"{t.name}[{idx}]"

        def update(env):
            env[t.name] = max(env[t.name], convert(t.dtype, v.dtype, v.bound(env)))

        def grow(times):
            def step(env):
                env[t.name] = INT[t.dtype] if unsigned(t.dtype) else fit(t.dtype, env[t.name] + times * v.bound(env))
            return step
        step = update
        if t.dtype == "bool" and how in ("add", "loop", "var", "local", "while"):
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
        elif how == "next":
            n, e = self.pick(*names)
            body = [f"if {n} % 3 == {self.r.randint(0, 2)} {{ continue }}", f"{target} = {v.text}"]
        elif how == "while":
            x, n = self.name("x"), self.pick(*names)[0]
            body = [f"var {x}: i32 = 0", f"while {x} < {n} and {x} < {self.r.randint(0, 5)} {{ {x} += 1 }}",
                    f"{target} = {t.dtype}({x})"]

            def step(env):
                env[t.name] = max(env[t.name], 5)
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
        sizes = [self.run_time(x) if self.chance(0.15) else str(x) for x in short]
        head = f"for {idx} in parallel({', '.join(sizes)}) {{"
        inner = [Stmt(x) for x in body]
        return Stmt("", step, [(head, inner)])

    def run_time(self, most):
        """An extent of a loop that is known when it runs."""
        known = [n for x in self.inputs for _, n in x.axes]
        s = self.pick(*known, self.index_scalar()) if known else self.index_scalar()
        return f"min({most}, {s} + {self.r.randint(-1, 3)})" if s != "0" else str(most)

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
