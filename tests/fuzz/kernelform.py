"""Statements of random kernels in all the forms that the language has for them.

In: tiles and scalars in scope. Out: statements: places that are slices, with run-time starts too,
assigned in every way; chosen branches, printing, asserting, functions of tiles, tuples. Always holds:
as kernelgen.py says; an assertion holds, and what is printed is the same in any order of blocks.
"""
from kernelelem import Elements, Group, Stmt, either
from kerneltype import FLOAT, INT, Expr, Tile, convert, fit, unsigned


class Forms(Elements):
    """Ways to write statements."""

    # ---------------------------------------------------------------- places
    def cut(self, shape, narrow=None):
        """A slice inside a shape: its text, and its own shape."""
        text, out = [], []
        for i, x in enumerate(shape):
            n = narrow[i] if narrow else self.r.randint(1, x)
            s, o = self.index_scalar(), self.r.randint(0, x - n)
            if s != "0" and x > n and self.chance(0.5):
                start = f"{s} % {x - n + 1}"
                text.append(self.pick(f"{start}:{start} + {n}", f"{start}:+{n}"))
            else:
                text.append(":" if n == x and self.chance(0.5) else f"{o}:+{n}" if self.chance(0.5) else f"{o}:{o + n}")
            out.append(n)
        return ", ".join(text), tuple(out)

    def sliced(self):
        """Part of a tile, or all of it, changed in place."""
        w = [t for t in self.writable() if t.dtype != "bool"]
        if not w:
            return None
        t = self.pick(*w)
        where, shape = t.name, t.shape
        if self.chance(0.5):
            at, shape = self.cut(t.shape)
            where = f"{t.name}[{at}]"
        d = t.dtype
        if d in INT and not self.real and self.chance(0.6):
            e = self.expr(shape, d, 1)
            how = self.pick("&= {}", "|= {}", "^= {}", f"<<= {self.r.randint(0, 3)}", f">>= {self.r.randint(0, 3)}",
                            f"//= {d}({self.r.randint(1, 5)})", f"%= {d}({self.r.randint(1, 5)})", "+= {}", "*= {}")
            return Stmt(f"{where} {how.format(e.text)}", lambda env: (e.bound(env), env.__setitem__(t.name, INT[d])))
        if d in FLOAT and self.chance(0.4):
            by = self.pick(2, 4) if not self.real else self.pick(3, 7)
            return Stmt(f"{where} /= {d}({by})" + ("" if self.real else f"\n{where} = floor({where})"),
                        lambda env: env.__setitem__(t.name, env[t.name] + 1))
        e = self.whole(shape, d, 1)
        op = self.pick("+=", "-=", "*=", "=")

        def step(env):
            p, q = env[t.name], e.bound(env)
            q = fit(d, p * q if op == "*=" else q if op == "=" else p + q)
            env[t.name] = INT[d] if op == "-=" and unsigned(d) else max(p, q)
        return Stmt(f"{where} {op} {e.text}", step)

    def whole_copy(self):
        """A whole expression, or part of a tile, into part of another."""
        w = [t for t in self.writable() if t.dtype != "bool"]
        if not w:
            return None
        to = self.pick(*w)
        of = [t for t in self.scope if t.dtype != "bool" and len(t.shape) == len(to.shape)]
        of = self.pick(*of)
        shape = tuple(self.r.randint(1, min(a, b)) for a, b in zip(of.shape, to.shape))
        text, bound = f"{of.name}[{self.cut(of.shape, shape)[0]}]", lambda env: env[of.name]
        if self.chance(0.4):
            e = self.full(of)
            text, shape, bound = e.text, of.shape, e.bound
            if any(a > b for a, b in zip(shape, to.shape)):
                return None
        place = f"{to.name}[{self.cut(to.shape, shape)[0]}]" if shape != to.shape or self.chance(0.5) else to.name
        if of is to and text[0] != "(":
            return None  # a copy between overlapping parts has no order
        return Stmt(f"copy({text}, {place})",
                    lambda env: env.__setitem__(to.name, max(env[to.name], convert(to.dtype, of.dtype, bound(env)))))

    def layout(self):
        """Where a new tile's elements lie."""
        s, t = self.tile(None, None, "shared")
        if len(t.shape) != 2:
            return None
        how = self.pick(f"padded({self.pick(1, 4, 8)})", "swizzle(32)", "swizzle(64)", "swizzle(128)",
                        f"(i, j) -> i*{t.shape[1]} + j", f"(i, j) -> j*{t.shape[0]} + i")
        self.scope.append(t)
        return Group([s, Stmt(f"layout {t.name} = {how}")])

    def global_scalar(self):
        """An element of an input that is there."""
        x = self.pick(*self.inputs)
        if self.real or x.dtype == "bool" or any(e == 0 for e, _ in x.axes):
            return None
        n = self.name("s")
        self.picked = True
        at = ", ".join(str(self.r.randrange(e)) for e, _ in x.axes)
        self.scalars.append(Expr(n, x.dtype, (), lambda env: env[n]))
        return Stmt(f"let {n} = {x.name}[{at}]", lambda env: env.__setitem__(n, env[x.name]))

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

    # ---------------------------------------------------------------- branches
    def chosen(self):
        """One of several branches; what no block takes too."""
        bodies = [self.block(self.r.randint(1, 2)) for _ in range(self.r.randint(2, 4))]
        if not all(bodies):
            return None
        s = self.index_scalar()
        tests = [self.pick(f"0 <= {s} < {i + 1}", f"{s} == {i}", f"not {s} > {i}", f"{s} < {i} or {s} % 3 == 1",
                           f"{s} >= {i} and {s} < 5") for i in range(len(bodies))]
        parts = [(("if " if i == 0 else "} else if ") + tests[i] + " {", b) for i, b in enumerate(bodies)]
        if self.chance(0.5):
            parts[-1] = ("} else {", bodies[-1])
        return Stmt("", either(bodies), parts)

    # ---------------------------------------------------------------- functions
    def function_of_tiles(self):
        """A function that takes tiles, or gives two."""
        of = [t for t in self.scope if t.dtype in (FLOAT if self.real else {**FLOAT, **INT}) and t.dtype != "bool"]
        if not of:
            return None
        self.fns = self.fns or ["twice"]
        x = self.pick(*of)
        d, y = x.dtype, self.full(x)

        def most(env):
            p, q = env[x.name], y.bound(env)
            return INT[d] if unsigned(d) else fit(d, 2 * (p + q) + 2)
        names = [self.name("v") for _ in range(3)]
        how = self.r.randint(0, 2)
        text = [f"let {names[0]}, {names[1]} = both({x.name}, {y.text})", f"let {names[0]} = greater({x.name}, {y.text})",
                f"let {names[0]} = mixed({y.text}, {self.r.randint(0, 2)})"][how]
        made = names[:2] if how == 0 else names[:1]
        for n in made:
            self.scope.append(Tile(n, d, x.shape, "let"))

        def step(env):
            for n in made:
                env[n] = most(env)
        return Stmt(text, step)

    # ---------------------------------------------------------------- variables
    def variable(self):
        """A scalar of the block that statements change, in loops and branches too."""
        if self.real:
            return None
        mine = [x for x in self.scalars if x.text[0] == "u"]
        if not mine or self.chance(0.4):
            n, d = self.name("u"), self.pick("i32", "i32", "i64", "u32", "i16", "u8", "f32", "f64", "f16")
            self.scalars.append(Expr(n, d, (), lambda env: env[n]))
            return Stmt(f"var {n}: {d} = {self.r.randint(0, 3)}", lambda env: env.__setitem__(n, 3))
        x = self.pick(*mine)
        d, e = x.dtype, self.scalar(x.dtype)
        of = [t for t in self.scope if t.dtype != "bool"]
        if of and self.chance(0.6):
            t = self.pick(*of)
            e = self.cast(self.reduced(Expr(t.name, t.dtype, t.shape, lambda env: env[t.name]), None, False, ()), d)
        op = self.pick("=", "+=", "=", "-=", "*=" if d in INT else "+=")

        def step(env):
            p, q = env[x.text], e.bound(env)
            env[x.text] = INT[d] if d in INT else fit(d, q if op == "=" else p + q)
        return Stmt(f"{x.text} {op} {e.text}", step)

    # ---------------------------------------------------------------- words
    def first_block(self):
        return " and ".join(f"b{g[0]} == 0" for g in self.grid) if not self.persistent else "turn == 0"

    def saying(self):
        """Prints scalars, elements, small tiles: each block its own line."""
        if self.real:
            return None
        parts = [f'"at {self.n.get("k", 0)}"'] + [s.text for s in self.r.sample(self.scalars, min(len(self.scalars), 2))]
        small = [t for t in self.scope if self.cells(t.shape) <= 600]
        if small and self.chance(0.6):
            t = self.pick(*small)
            parts.append(self.pick(f"{t.name}[{', '.join(str(self.r.randrange(x)) for x in t.shape)}]",
                                   f"{t.name}[{', '.join(f'0:{min(x, 3)}' for x in t.shape)}]"))
        elif small:
            t = self.pick(*small)
            e = self.reduced(Expr(t.name, t.dtype, t.shape, lambda env: env[t.name]), None, False, ())
            return Stmt(f"print({', '.join(parts)}, {e.text})", lambda env: (e.bound(env), self.told())[1])
        return Stmt(f"print({', '.join(parts)})", lambda env: self.told())

    def told(self):
        self.prints = True

    def claim(self):
        """An assertion that holds."""
        s = self.index_scalar()
        options = [f"{s} >= 0", f"{s} * 2 == {s} + {s}"]
        for t in self.scope[-2:]:
            if t.dtype != "bool" and not self.real:
                options += [f"max({t.name}) >= min({t.name})", f"all(({t.name} == {t.name}))", f"not any(({t.name} != {t.name}))"]
        return Stmt(f"assert {self.pick(*options)}, \"claim {self.r.randint(0, 9)}\"")

    def said_by_elements(self):
        """Prints and assertions of iterations, after all an order of their own."""
        if self.real or not self.scope:
            return None
        t = self.pick(*self.scope)
        names = [(self.name("p"), x) for x in t.shape]
        idx = ", ".join(n for n, _ in names)
        last = " and ".join(f"{n} == {self.r.randrange(x)}" for n, x in names)
        body = [Stmt(self.pick(f"assert 0 <= {names[0][0]} < {names[0][1]}", f"assert {t.name}[{idx}] == {t.name}[{idx}], \"same\""))]
        if self.chance(0.6):
            body.append(Stmt(f"if {last} {{ print(\"element\", {idx}, {t.name}[{idx}]) }}"))
        return Stmt("", lambda env: self.told(), [(f"for {idx} in parallel({', '.join(map(str, t.shape))}) {{", body)])

    def opening(self):
        """The line that says how often the kernel ran, for a program that prints."""
        where = self.first_block()
        return [Stmt("print(\"once\")" if not where else f"if {where} {{ print(\"once\") }}")] if self.prints else []
