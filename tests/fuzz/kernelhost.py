"""The head of a random kernel and its calls: parameters, grid, arguments, views.

In: a kernel's statements, its tensors and their extents. Out: the text of the program. Always holds:
an extent that a parameter names is that of its argument, in a second call with other extents too; no
argument overlaps an output.
"""
import re

from kernelstore import Stores
from kerneltype import Expr, Tensor, unsigned


class Calls(Stores):
    """What stands around a body."""

    # ---------------------------------------------------------------- parameters
    def axis(self, tile):
        """A new extent; some are known when the kernel is compiled."""
        return (self.extent(tile, 3), self.name("D" if self.chance(0.08) else "N"))

    def parameters_make(self):
        """Scalars, settings and attributes."""
        self.more, self.settings, self.attribute = [], [], ""
        for _ in range(self.weighted((6, 0), (2, 1), (1, 2))):
            d, v = self.pick("i32", "i64", "u32", "i16", "u8", "f32", "f16"), self.r.randint(0, 4)
            if self.real and d[0] != "f":
                continue
            n = self.name("sc")
            self.more.append((n, d, v))
            self.env[n] = 4
            self.scalars.append(Expr(n, d, (), lambda env, n=n: env[n]))
        if not self.real and self.chance(0.2):
            n, v = self.name("P"), self.r.randint(1, 4)
            how = self.pick(str(v), str(v), f"auto({v})")
            self.settings.append((n, how, None if how[0] == "a" or self.chance(0.5) else str(self.r.randint(0, 4))))
            self.scalars.append(Expr(n, "int", (), lambda env: 4))
        if self.chance(0.08):
            self.attribute = self.pick("@exact", "@unchecked") + "\n"

    def dtype_parameter(self):
        """Names the type of the first tensor that has one."""
        if self.inputs and self.chance(0.15):
            d = self.inputs[0].dtype
            for x in self.inputs:
                x.written = "E" if x.dtype == d else None
            self.settings.append(("E: dtype", d, None))  # the body is checked with it too

    # ---------------------------------------------------------------- the grid
    def options(self):
        opts = ""
        if self.chance(0.25):
            opts += f", threads = {self.pick(32, 64, 96, 128, 256, 384)}"
        if len(self.grid) == 2 and self.chance(0.2):
            opts += f", raster = grouped({self.r.randint(1, 8)})"
        if self.chance(0.08):
            dims = [str(self.pick(1, 1, 2, 2)) for _ in self.grid]
            opts += f", cluster = ({', '.join(dims)})" if len(dims) > 1 else f", cluster = {dims[0]}"
        if self.chance(0.06):
            opts += f", resident = {self.pick('true', 'false')}"
        return opts

    def head(self):
        if not self.grid:
            return []
        names = ", ".join("b" + g[0] for g in self.grid)
        sizes = ", ".join(g[1] if g[2] == 1 else f"ceildiv({g[1]}, {g[2]})" for g in self.grid)
        if self.persistent:
            return self.turns(sizes)
        return [f"  grid {names} = {sizes}{self.options()}"]

    def turns(self, sizes):
        """Fewer blocks, which share the program's out among them."""
        sizes = re.findall(r"ceildiv\([^)]*\)|[^, ]+", sizes)
        lines = [f"  grid blk = {self.pick(1, 2, 3, 4, 'min(sms, 5)')}", f"  for turn in persistent({'*'.join(sizes)}) {{"]
        before = ""
        for g, size in zip(self.grid, sizes):
            lines.append(f"    let b{g[0]} = turn // (1{before}) % {size}")
            before += "*" + size
        return lines

    # ---------------------------------------------------------------- arguments
    def fresh(self, d, ext):
        """Numbers of a type that any sum of a kernel holds."""
        dims = ", ".join(map(str, ext))
        if d == "bool":
            return f"(randint(i32, 0, 2, {dims}) == 1)"
        if self.real:
            return f"randn({d}, {dims})" if d in ("f32", "f64", "f16", "bf16") else f"randn(f32, {dims}).to({d})"
        lo, hi = (0, 7) if unsigned(d) else (-3, 4)
        return f"randint(i32, {lo}, {hi}, {dims})" + ("" if d == "i32" else f".to({d})")

    def view(self, d, ext, depth, store=False):
        """An expression that makes a tensor of these extents, maybe by odd strides of another."""
        how = self.weighted((6, "plain"), (2, "T"), (2, "slice"), (1, "step"), (0.7, "back"), (0.7, "perm"), (0.5, "flat"),
                            (0.7, "row")) if depth else "plain"
        ext = list(ext)
        i = self.r.randrange(len(ext)) if ext else 0
        whole = [":"] * len(ext)
        if how == "T" and len(ext) >= 2:
            return self.view(d, ext[:-2] + [ext[-1], ext[-2]], depth - 1) + ".T"
        if how == "slice" and ext:
            lo = [self.r.randint(0, 3) for _ in ext]
            hi = [self.pick(0, 1, 5, 8) for _ in ext]
            cut = ", ".join(f"{p}:{p + e}" for e, p in zip(ext, lo))
            return self.view(d, [e + p + q for e, p, q in zip(ext, lo, hi)], depth - 1) + f"[{cut}]"
        if how == "step" and ext:
            n = self.pick(2, 2, 3)
            whole[i] = f"::{n}"
            make = ext[:i] + [n * ext[i]] + ext[i + 1:]
            return self.view(d, make, depth - 1) + f"[{', '.join(whole)}]"
        if how == "back" and ext and ext[i] > 0:
            whole[i] = "::-1"
            return self.view(d, ext, depth - 1) + f"[{', '.join(whole)}]"
        if how == "perm" and len(ext) == 3:
            p = self.pick((1, 2, 0), (2, 0, 1), (1, 0, 2))
            make = [0] * 3
            for to, of in enumerate(p):
                make[of] = ext[to]
            return f"transpose({self.view(d, make, depth - 1)}, {p[0]}, {p[1]}, {p[2]})"
        if how == "flat" and len(ext) >= 2 and not store:
            n = 1
            for e in ext:
                n *= e
            return f"reshape({self.view(d, [n], depth - 1)}, {', '.join(map(str, ext))})"
        if how == "row" and 0 < len(ext) < 3:
            n = self.r.randint(1, 3)
            return self.view(d, [n] + ext, depth - 1) + f"[{self.r.randrange(n)}]"
        return self.fresh(d, ext)

    def extents_of(self, x, other):
        """An axis' extent: as made, or as the second call has it."""
        return [other.get(n, e) for e, n in x.axes]

    def call(self, k, other, out):
        """Lines that make the arguments of call number k, and its check."""
        tag = "" if k == 0 else f"_{k}"
        lines, args = [], []
        for n, d, v in self.more:
            v = v if k == 0 else self.r.randint(0, 4)
            args.append(str(v) if d[0] != "f" else f"{v}.0")
        for i, (x, write) in enumerate([(x, False) for x in self.inputs] + [(x, True) for x in self.held()]):
            ext = self.extents_of(x, other)
            made = x.given if x.given and k == 0 else self.view(x.dtype, ext, 2, write)
            lines.append(f"let a{i}{tag} = {made}")
            args.append(f"a{i}{tag}")
        ext = {n: e for y, _, _ in self.outputs for e, n in y.axes}
        args = [str(other.get(n, ext[n])) for n in self.missing] + args
        if out:
            names = []
            for i, y in enumerate(self.returned()):
                lines.append(f"let c{i}{tag} = {self.view(y.dtype, self.extents_of(y, other), 2, True)}")
                names.append(f"c{i}{tag}")
            args.append(f"out = {names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}")
        at = [f"{n.split(':')[0]} = {v}" for n, _, v in self.settings if v is not None]
        at = f"[{', '.join(at)}]" if at else ""
        return lines, f"f{at}({', '.join(args)})"

    def held(self):
        return [y for y, _, _ in self.outputs if y.inout]

    def returned(self):
        return [y for y, _, _ in self.outputs if not y.inout] + [x for x, _ in self.atomics]

    def starts(self):
        out = []
        for y, _, _ in self.outputs:
            if not y.inout:
                out.append(y.declare() + ("" if y.start is None else f" = {y.start}"))
        return out + [x.declare() + f" = {0 if op != 'min' else 9}" for x, op in self.atomics]

    def text(self, body):
        lines = []
        if self.fns:
            lines += ["fn twice(x: f32) -> f32 { return 2 * x + 1 if x > 0 else -x }"] if not self.real else \
                     ["fn twice(x: f32) -> f32 { return 2 * x + 1 }"]
            lines += ["fn both(a, b) { return a + b, a - b }", "fn greater(x, y) { return max(x, y) }", "fn mixed(x, n) {",
                      "  var k: i32 = 0", "  while k < n { k += 1 }", "  if k > 1 { return x + x }", "  return x", "}"]
        self.dtype_parameter()
        ins = [f"{n}: {d}" for n, d, _ in self.more] + [x.declare() for x in self.inputs]
        ins += [y.declare().replace(": ", ": inout ", 1) for y in self.held()]
        bound = {n for x in self.inputs + self.held() for _, n in x.axes}
        self.missing = sorted({n for y in self.returned() for _, n in y.axes if not n.isdigit()} - bound)
        ins = [f"{n}: i32" for n in self.missing] + ins  # extents that no tensor binds come as numbers
        settings = f"[{', '.join(f'{n} = {v}' for n, v, _ in self.settings)}]" if self.settings else ""
        outs = self.starts()
        if self.attribute:
            lines.append(self.attribute.strip())
        to = f" -> ({', '.join(outs)})" if outs else ""
        lines.append(f"kernel f{settings}({', '.join(ins)}){to} {{")
        lines += self.head()
        for s in self.opening() + body:
            lines += s.lines(2 if self.persistent else 1)
        lines += ["  }", "}"] if self.persistent else ["}"]
        return "\n".join(lines + self.calls()) + "\n"

    def results(self):
        """Lines that call the kernel once more, and what a kernel after it may take: type, extents, argument."""
        of = self.returned()
        names = [f"d{i}" for i in range(len(of))]
        taken = [(y.dtype, [e for e, _ in y.axes], f"clamp({n}, {0 if unsigned(y.dtype) else -3}, 3)")
                 for n, y in zip(names, of) if y.dtype != "bool"]
        return f"let {', '.join(names)} = {self.called}\n", taken

    def calls(self):
        out = self.returned() and self.chance(0.15)
        made, call = self.call(0, {}, out)
        self.called = call if not out and self.returned() and not self.held() else None
        lines = made + [f"let r = check {call}"]
        if self.chance(0.15) and not self.prints:  # the same kernel of other extents
            named = {n: e for x in self.inputs + [y for y, _, _ in self.outputs] for e, n in x.axes if not n.isdigit()}
            least = (lambda e: e) if self.picked else (lambda e: 0)
            other = {n: self.pick(e, e + 1, e + self.r.randint(0, 20), max(least(e), e - 1), max(least(e), 0)) for n, e in named.items()}
            made, again = self.call(1, other, False)
            lines += made + [f"let r1 = check {again}"]
        return lines
