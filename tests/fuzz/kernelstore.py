"""How random kernels store their results, and what they read of them before.

In: outputs, each with its tile and the tile's place, and what is in scope. Out: statements. Always
holds: each block stores its own part of an output, once and all of it.
"""
from kernelelem import Stmt
from kernelform import Forms
from kerneltype import Expr, Overflow, Tile, convert, fit


class Stores(Forms):
    """The end of a kernel."""

    def stores(self):
        """Each output's part of the block, once."""
        out = []
        for y, tile, origin in self.outputs:
            shape = tuple(x for x in tile if x is not None)
            v = self.attempt_expr(shape, y.dtype)
            at = self.place(tile, origin)
            way = self.r.random()
            if way < 0.1 and len(shape) == 2:
                t = [t for t in self.scope if t.shape == shape[::-1] and t.dtype == y.dtype]
                if t:
                    out.append(Stmt(f"copy({t[0].name}.T, {y.name}[{at}])"))
                    continue
            if way < 0.2 and None not in tile:
                s = self.tensor_to_tensor(y, shape, origin)
                if s:
                    out.append(s)
                    continue
            if way > 0.85 and self.cells(shape) <= 4096:
                out.append(self.direct(y, tile, origin, shape))
                continue
            if way < 0.65 or self.cells(shape) > 4096:
                same = [t for t in self.scope if t.shape == shape and t.dtype == y.dtype]
                if same and self.chance(0.2):
                    out.append(Stmt(f"copy({self.bounded_full(self.pick(*same)).text}, {y.name}[{at}])"))
                elif self.has_shape(v.text, shape):
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

    def tensor_to_tensor(self, y, shape, origin):
        x = [x for x in self.inputs if len(x.axes) == len(shape) and x.dtype == y.dtype]
        if not x:
            return None
        x = self.pick(*x)
        cut = lambda o, n: f"{o}:{o} + {n}"
        to = ", ".join(cut(o, n) for o, n in zip(origin, shape))
        at = ", ".join(cut(self.origin(x, i, n), n) for i, n in enumerate(shape))
        return Stmt(f"copy({x.name}[{at}], {y.name}[{to}])")

    @staticmethod
    def place(tile, origin):
        """The block's own region of an output."""
        mixed = None in tile[tile.count(None):]  # single indices behind slices
        return ", ".join(o if x is None or not mixed else f"{o}:{o} + {x}" for o, x in zip(origin, tile))

    def held_before(self, y, tile, origin):
        """What the block's part of an output held when the kernel began."""
        if not y.inout and (y.start is None or self.chance(0.5)):
            return None
        t = Tile(self.name("t"), y.dtype, tuple(x for x in tile if x is not None), self.pick("shared", "fragment"))
        self.scope.append(t)
        return Stmt(f"{t.space} {t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]\n"
                    f"copy({y.name}[{self.place(tile, origin)}], {t.name})", lambda env: env.__setitem__(t.name, env[y.name]))

    def direct(self, y, tile, origin, shape):
        """Each element computed where it is stored."""
        names = [(self.name("p"), x) for x in shape]
        it, idx, guard = iter(names), [], []
        for (ext, n), x, o in zip(y.axes, tile, origin):
            place = o if x is None else f"{o} + {next(it)[0]}" if o != "0" else next(it)[0]
            idx.append(place)
            guard.append(f"{place} < {n}")
        v = None
        while v is None:
            v = self.element_value(y.dtype, names, [], self.r.randint(0, 3))
            try:
                convert(y.dtype, v.dtype, v.bound(self.env))
            except (Overflow, KeyError):
                v = None
        op = "="
        if (y.inout or y.start is not None) and y.dtype == v.dtype != "bool" and self.exact_sum(y, v):
            op = "+="
        inner = [Stmt(f"if {' and '.join(guard)} {{ {y.name}[{', '.join(idx)}] {op} {v.text} }}")]
        head = f"for {', '.join(n for n, _ in names)} in parallel({', '.join(map(str, shape))}) {{"
        return Stmt("", None, [(head, inner)])

    def exact_sum(self, y, v):
        try:
            fit(y.dtype, self.env[y.name] + v.bound(self.env))
            return True
        except Overflow:
            return False

    def attempt_expr(self, shape, d):
        for _ in range(8):
            e = self.whole(shape, d)
            try:
                convert(d, e.dtype, e.bound(self.env))
                return e
            except (Overflow, KeyError):
                continue
        return self.literal(d)

    def bounded_full(self, t):
        """As full(), within its type."""
        for _ in range(8):
            e = self.full(t)
            try:
                e.bound(self.env)
                return e
            except (Overflow, KeyError):
                continue
        return Expr(t.name, t.dtype, t.shape, lambda env: env[t.name])
