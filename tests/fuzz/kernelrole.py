"""Random kernels with the author's roles and barriers, and kernels whose blocks wait for each other.

In: a random generator. Out: the text of a whole program, as kernelgen.py's. Always holds: as there;
each wait is for a phase that comes, each tile is free again before it is filled, so there is neither a
deadlock nor a race.
"""

SIZE = {"f16": 2, "bf16": 2, "f32": 4, "i32": 4, "i8": 1, "u8": 1, "f64": 8, "f8e4m3": 1}


class Writer:
    """Parameters, arguments and lines of one kernel."""

    def __init__(self, r):
        self.r = r
        self.inputs, self.args, self.outputs, self.lines, self.flags = [], [], [], [], ""

    def pick(self, *v):
        return self.r.choice(v)

    def chance(self, p):
        return self.r.random() < p

    def tensor(self, name, dtype, axes, extents, low=-2, high=3):
        self.inputs.append(f"{name}: {dtype}[{', '.join(axes)}]")
        low = 0 if dtype[0] == "u" else low
        view, dims = "", [max(e, 0) for e in extents]
        if self.chance(0.2):
            lo = [self.pick(0, 1, 8) for _ in dims]
            view = "[" + ", ".join(f"{p}:{p + e}" for p, e in zip(lo, dims)) + "]"
            dims = [p + e + self.pick(0, 8) for p, e in zip(lo, dims)]
        elif self.chance(0.15) and len(dims) == 2:
            dims, view = dims[::-1], ".T"
        shape = ", ".join(map(str, dims))
        self.args.append(f"randint(i32, {low}, {high}, {shape}).to({dtype}){view}")

    def put(self, *lines, depth=0):
        self.lines += ["  " * depth + x for x in lines]

    def text(self):
        lets = [f"let a{i} = {x}" for i, x in enumerate(self.args)]
        head = f"kernel f({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}) {{"
        call = f"let r = check f({', '.join(f'a{i}' for i in range(len(self.args)))})"
        return "\n".join([head] + ["  " + x for x in self.lines] + ["}"] + lets + [call]) + "\n"


class Roles(Writer):
    """A ring that one role fills and others empty."""

    def setup(self):
        """How the ring turns: its depth, and how the words of its barriers are written."""
        self.stages = self.pick(1, 2, 2, 3, 3, 4)
        self.style = self.pick("parity", "count", "primed", "variables", "guard")
        self.consumers = self.pick(1, 1, 1, 2)
        self.registers = self.chance(0.5)
        self.signal = self.chance(0.6)

    def role(self, kind):
        opts = []
        groups = self.groups if kind == "consumer" else 1
        if groups > 1 or self.chance(0.3):
            opts.append(f"warpgroups = {groups}")
        if self.registers:
            opts.append(f"registers = {40 if kind == 'producer' else 160 if groups > 1 or self.consumers > 1 else 224}")
        return f"{kind}{'(' + ', '.join(opts) + ')' if opts else ''} {{"

    def barriers(self):
        free = f"free[{self.stages}]"
        if self.style == "primed" or self.chance(0.5):
            free += f"(arrivals = {self.consumers})"
        self.put(f"barrier full[{self.stages}], {free}")

    def slot(self, k):
        """The words for the place in the ring and for its phase."""
        n = self.stages
        if self.style == "variables":
            return "s", "ph"
        return f"{k} % {n}", f"{k} // {n}" if self.style in ("count", "primed") else f"{k} // {n} % 2"

    def begin(self, first):
        return [f"var s: i32 = 0", f"var ph: i32 = {first}"] if self.style == "variables" else []

    def turn(self):
        return ["s += 1", f"if s == {self.stages} {{ s = 0; ph ^= 1 }}"] if self.style == "variables" else []

    def fill(self, k, copies):
        """The producer's round."""
        s, ph = self.slot(k)
        n = self.stages
        wait = {"parity": f"wait(free[{s}], ({k} // {n} + 1) % 2)", "count": f"wait(free[{s}], {k} // {n} + 1)",
                "primed": f"wait(free[{s}], {k} // {n})", "variables": f"wait(free[{s}], ph)",
                "guard": f"if {k} >= {n} {{ wait(free[{s}], ({k} // {n} + 1) % 2) }}"}[self.style]
        out = [wait]
        for source, tile, convert in copies:
            if self.signal:
                out.append(f"copy({source}, {tile}[{s}], signal = full[{s}])")
            else:
                out.append(f"copy({source}, {tile}[{s}])")
        if not self.signal:
            out.append(f"arrive(full[{s}])")
        return out + self.turn()

    def drain(self, k, work):
        """A consumer's round."""
        s, ph = self.slot(k)
        return [f"wait(full[{s}], {ph})"] + [w.replace("@s", s) for w in work] + [f"arrive(free[{s}])"] + self.turn()

    def prime(self, index):
        return [f"for q in range({self.stages}) {{ arrive(free[q]) }}"] if self.style == "primed" else []

    def loop(self, count, body, depth):
        self.put(f"for k in range({count}) {{", depth=depth)
        self.put(*body, depth=depth + 1)
        self.put("}", depth=depth)

    def product(self):
        self.setup()
        d = self.pick("f16", "f16", "bf16", "i8", "f32", "f8e4m3")
        acc = "i32" if d == "i8" else "f32"
        self.groups = self.pick(1, 1, 2) if self.consumers == 1 else 1
        bm = self.pick(16, 64, 64, 128, 32) if self.groups == 1 else 128
        bn, bk = self.pick(8, 16, 32, 64), self.pick(16, 32, 64) if SIZE[d] > 1 else self.pick(32, 64)
        self.stages = min(self.stages, 3 if bm * bk * SIZE[d] * self.consumers > 16000 else 4)
        rows = bm * self.consumers
        m, n = self.pick(rows, rows + 5, 2 * rows, 1, rows - 3), self.pick(bn, 2 * bn, bn + 8, bn - 1, 1)
        kk = self.pick(bk, 2 * bk, 3 * bk, 5 * bk, bk + 8, 0, 3, 4 * bk + 1)
        tb, persistent = self.chance(0.4), self.chance(0.25)
        self.tensor("A", d, ["M", "K"], [m, kk])
        self.tensor("B", d, ["N", "K"] if tb else ["K", "N"], [n, kk] if tb else [kk, n])
        out = self.pick(acc, acc, "f32") if acc == "f32" else acc
        self.outputs.append(f"C: {out}[M, N]")
        nm, nn = f"ceildiv(M, {rows})", f"ceildiv(N, {bn})"
        if persistent:
            self.put(f"let nx, ny = {nn}, {nm}", f"grid b = {self.r.randint(1, 4)}")
            at = (f"t // nx * {rows}", f"t % nx * {bn}")
        else:
            self.put(f"grid x, y = {nn}, {nm}")
            at = (f"y*{rows}", f"x*{bn}")
        if persistent and self.style != "variables":
            self.style = "variables"
        names = [f"A{c}s" for c in range(self.consumers)]
        bshape = f"{bn}, {bk}" if tb else f"{bk}, {bn}"
        self.put(f"shared {', '.join(f'{x}: {d}[{self.stages}, {bm}, {bk}]' for x in names)}, Bs: {d}[{self.stages}, {bshape}]")
        outside = self.consumers == 1 and self.chance(0.3) and not persistent
        if outside:
            self.put(f"fragment acc: {acc}[{bm}, {bn}] = 0")
        self.barriers()
        self.put("specialize {")
        self.put(self.role("producer"), depth=1)
        b = f"B[{at[1]}, k*{bk}]" if tb else f"B[k*{bk}, {at[1]}]"
        copies = [(f"A[{at[0]}{f' + {c * bm}' if c else ''}, k*{bk}]", x, None) for c, x in enumerate(names)] + [(b, "Bs", None)]
        self.put(*self.begin(1 if self.style != "primed" else 0), depth=2)
        deep = 2
        if persistent:
            self.put("for t in persistent(nx * ny) {", depth=2)
            deep = 3
        self.loop(f"ceildiv(K, {bk})", self.fill("k", copies), deep)
        if persistent:
            self.put("}", depth=2)
        self.put("}", depth=1)
        for c in range(self.consumers):
            self.put(self.role("consumer"), depth=1)
            if not outside:
                self.put(f"fragment acc: {acc}[{bm}, {bn}] = 0", depth=2)
            self.put(*self.begin(0), *self.prime(c), depth=2)
            if persistent:
                self.put("for t in persistent(nx * ny) {", "  acc = 0", depth=2)
            bt = "Bs[@s].T" if tb else "Bs[@s]"
            work = [f"acc += {names[c]}[@s] @ {bt}"]
            if self.chance(0.15):
                work = [f"let part = {names[c]}[@s] @ {bt}", "acc += part"]
            self.loop(f"ceildiv(K, {bk})", self.drain("k", work), deep)
            for x in self.behind(acc, bm, bn):
                self.put(x, depth=deep)
            if not outside:
                self.put(f"copy(acc, C[{at[0]}{f' + {c * bm}' if c else ''}, {at[1]}])", depth=deep)
            if persistent:
                self.put("}", depth=2)
            self.put("}", depth=1)
        self.put("}")
        if outside:
            self.put(f"copy(acc, C[{at[0]}, {at[1]}])")

    def behind(self, acc, bm, bn):
        return [self.pick("acc = acc * 2", "acc = max(acc, 0)", f"for p, q in parallel({bm}, {bn}) {{ if acc[p, q] < 0 {{ acc[p, q] = 1 }} }}")] \
            if self.chance(0.3) else []

    def reduce(self):
        """Rows summed, greatest, … by consumers that each do something else of the same tiles."""
        self.setup()
        self.groups = 1
        d = self.pick("f32", "i32", "f16", "f64", "i8", "u8", "bf16")
        wide = "f64" if d == "f64" else "f32" if d[0] in "fb" else "i32"
        bm, bn = self.pick(8, 16, 32, 5), self.pick(8, 16, 64, 17)
        m, n = self.pick(bm, 2 * bm + 1, 1, 3 * bm), self.pick(bn, 3 * bn, 2 * bn + 1, 0, 1, 5 * bn)
        self.tensor("X", d, ["M", "N"], [m, n])
        self.put(f"grid i = ceildiv(M, {bm})", f"shared t: {d}[{self.stages}, {bm}, {bn}]")
        before = self.chance(0.3)
        if before:
            self.put(f"shared first: {d}[{bm}, {bn}]", f"copy(X[i*{bm}, 0], first)")
        self.barriers()
        self.put("specialize {")
        self.put(self.role("producer"), depth=1)
        self.put(*self.begin(1 if self.style != "primed" else 0), depth=2)
        self.loop(f"ceildiv(N, {bn})", self.fill("k", [(f"X[i*{bm}, k*{bn}]", "t", None)]), 2)
        self.put("}", depth=1)
        for c in range(self.consumers):
            y = f"Y{c}"
            kind = self.pick("sum", "max", "elements", "sum")
            self.put(self.role("consumer"), depth=1)
            if kind == "elements":
                self.outputs.append(f"{y}: {d}[M, N]")
                self.put(*self.begin(0), *self.prime(c), depth=2)
                work = [f"for p, q in parallel({bm}, {bn}) {{ if i*{bm} + p < M and k*{bn} + q < N "
                        f"{{ {y}[i*{bm} + p, k*{bn} + q] = t[@s, p, q] + {d}(1) }} }}"]
                if self.chance(0.4):
                    work = [f"fragment g: {d}[{bm}, {bn}] = t[@s] * 2", f"copy(g, {y}[i*{bm}, k*{bn}])"]
                self.loop(f"ceildiv(N, {bn})", self.drain("k", work), 2)
            else:
                self.outputs.append(f"{y}: {wide}[M]")
                self.put(f"fragment acc: {wide}[{bm}] = 0", *self.begin(0), *self.prime(c), depth=2)
                step = "acc += sum(t[@s], axis = 1)" if kind == "sum" else f"acc = max(acc, {wide}(max(t[@s], axis = 1)))"
                self.loop(f"ceildiv(N, {bn})", self.drain("k", [step]), 2)
                if before and self.chance(0.5):
                    self.put(f"acc += sum(first, axis = 1)", depth=2)
                self.put(f"copy(acc, {y}[i*{bm}])", depth=2)
            self.put("}", depth=1)
        self.put("}")


class Grid(Writer):
    """Blocks that wait for each other, or find themselves last."""

    def phases(self):
        """A barrier of the whole grid between phases, each of which reads what other blocks wrote."""
        n = self.r.randint(1, 5)
        d = self.pick("i32", "f32", "i64", "f16", "f64", "u8")
        w = self.pick(1, 7, 32, 40)
        self.tensor("X", d, ["N", str(w)], [n, w])
        self.outputs += [f"Y: {d}[N, {w}]", f"Z: {d}[N, {w}]", "bar: i32[1] = 0"]
        self.put(f"grid b = N, cooperative = true{self.pick('', ', threads = 64', ', threads = 128')}")
        kind = self.pick("parallel", "tile", "element")
        wait = self.pick("while atomic_add(bar[0], 0) < {n} {{ }}", "while atomic_max(bar[0], 0) < {n} {{ }}")

        def step(to, of, where, times):
            at = f"({where}) % N"
            if kind == "tile":
                t = f"t{len(self.lines)}"
                self.put(f"{self.pick('shared', 'fragment')} {t}: {d}[{w}]", f"copy({of}[{at}, 0], {t})", f"copy({t} + {d}({times}), {to}[b, 0])")
            elif kind == "parallel":
                self.put(f"for j in parallel({w}) {{ {to}[b, j] = {of}[{at}, {w} - 1 - j] + {d}({times}) }}")
            else:
                self.put(f"for j in range({w}) {{ {to}[b, j] = {of}[{at}, j] + {d}({times}) }}")

        def barrier(k):
            self.put("atomic_add(bar[0], 1)", wait.format(n=f"{k}*i32(N)"))
        step("Y", "X", "b", 1)
        for k in range(1, self.r.randint(1, 3) + 1):
            barrier(2 * k - 1)
            step("Z", "Y", f"b + {k}", 0)
            barrier(2 * k)
            step("Y", "Z", f"b + {self.r.randint(0, 3)}", 1)

    def chain(self):
        """Each block waits for the one before it."""
        n, w = self.r.randint(1, 6), self.pick(1, 8, 33)
        d = self.pick("i32", "f32", "i64")
        self.tensor("X", d, ["N", str(w)], [n, w])
        self.outputs += [f"Y: {d}[N, {w}]", "flag: i32[N] = 0"]
        self.put("grid b = N, cooperative = true")
        look = self.pick("atomic_add(flag[b - 1], 0) == 0", "atomic_cas(flag[b - 1], 1, 1) != 1", "atomic_or(flag[b - 1], 0) < 1")
        self.put(f"if b > 0 {{ while {look} {{ }} }}")
        if self.chance(0.5):
            self.put(f"fragment t: {d}[{w}] = 0", f"if b > 0 {{ copy(Y[b - 1, 0], t) }}", f"fragment x: {d}[{w}]",
                     "copy(X[b, 0], x)", "copy(t + x, Y[b, 0])")
        else:
            self.put(f"for j in parallel({w}) {{ Y[b, j] = X[b, j] + (Y[b - 1, j] if b > 0 else {d}(0)) }}")
        self.put(self.pick("atomic_exchange(flag[b], 1)", "atomic_add(flag[b], 1)", "atomic_cas(flag[b], 0, 1)"))

    def last(self):
        """Parts, and the block that finds itself last adds them up."""
        parts, n, m = self.r.randint(1, 5), self.pick(1, 16, 50), self.pick(1, 8, 20)
        d = self.pick("f32", "i32", "f64", "i64")
        self.tensor("X", d, ["M", "N"], [m, n])
        self.outputs += [f"P: {d}[{parts}, N] = 0", f"Y: {d}[N] = 0", "done: i32[1] = 0"]
        self.put(f"grid p = {parts}{self.pick('', ', threads = 128', ', threads = 32')}", f"let each = ceildiv(M, {parts})")
        if self.chance(0.5):
            self.put(f"for j in parallel(N) {{", f"  var a: {d} = 0", "  for i in range(p*each, min((p + 1)*each, M)) { a += X[i, j] }",
                     "  P[p, j] = a", "}")
        else:
            self.put(f"fragment a: {d}[64] = 0, x: {d}[64]", "for i in range(p*each, min((p + 1)*each, M)) {", "  copy(X[i, 0], x)",
                     "  a += x", "}", "copy(a, P[p, 0])")
        self.put(f"if atomic_add(done[0], 1) == {parts - 1} {{")
        if self.chance(0.5):
            self.put("for j in parallel(N) {", f"  var s: {d} = 0", f"  for q in range({parts}) {{ s += P[q, j] }}", "  Y[j] = s", "}", depth=1)
        else:
            self.put(f"shared t: {d}[{parts}, 64]", "copy(P[0, 0], t)", "copy(sum(t, axis = 0), Y[0])", depth=1)
        self.put("}")

    def ticket(self):
        """A lock taken by compare and swap, or work taken by tickets."""
        n, w = self.r.randint(1, 5), self.pick(1, 8, 40)
        if self.chance(0.5):
            self.tensor("X", "i32", ["N", str(w)], [n, w])
            self.outputs += [f"S: i32[{w}] = 0", "lock: i32[1] = 0"]
            self.put("grid b = N, cooperative = true", "while atomic_cas(lock[0], 0, 1) != 0 { }")
            if self.chance(0.5):
                self.put(f"shared t: i32[{w}], x: i32[{w}]", "copy(S[0], t)", "copy(X[b, 0], x)", "t += x", "copy(t, S[0])")
            else:
                self.put(f"for j in parallel({w}) {{ S[j] = S[j] + X[b, j] }}")
            self.put("atomic_exchange(lock[0], 0)")
            return
        self.tensor("X", "i32", ["N", str(w)], [n, w])
        self.outputs += [f"Y: i32[N, {w}]", "next: i32[1] = 0"]
        self.put(f"grid b = {self.r.randint(1, 3)}", "var t = atomic_add(next[0], 1)", "while t < N {",
                 f"  for j in parallel({w}) {{ Y[t, j] = X[t, j] * 2 }}", "  t = atomic_add(next[0], 1)", "}")

    def bits(self):
        """Every atomic, in every type, whose result does not depend on the order."""
        d = self.pick("i32", "u32", "i64", "u64")
        n, w = self.pick(1, 40, 100), self.pick(1, 5, 32)
        op = self.pick("and", "or", "xor", "max", "min", "add")
        self.tensor("X", d, ["N"], [n], 0, 60)
        self.outputs += [f"H: {d}[{w}] = {self.pick(0, 9, 255)}"]
        shared = self.chance(0.5)
        self.put(f"grid b = ceildiv(N, 16)")
        if shared:
            start = {"and": f"~{d}(0)" if False else "255", "min": "99"}.get(op, "0")
            self.put(f"shared h: {d}[{w}] = {start}")
        self.put("for j in parallel(16) {", "  if b*16 + j < N {", f"    let v = X[b*16 + j]")
        to = "h" if shared else "H"
        self.put(f"    atomic_{op}({to}[(b*16 + j) * 7 % {w}], v)", "  }", "}")
        if shared:
            self.put(f"atomic_{op}(H[0], h)" if self.chance(0.5) and op in ("add", "max", "min", "and", "or", "xor") else
                     f"for j in parallel({w}) {{ atomic_{op}(H[j], h[j]) }}")

    def floats(self):
        """Sums of small integers in floats, exact in any order; places given out by tickets."""
        d = self.pick("f32", "f16", "bf16", "f64")
        n, w = self.pick(1, 30, 60), self.pick(1, 6, 16)
        self.tensor("X", d, ["N", str(w)], [n, w], -1, 2)
        self.outputs += [f"S: {d}[{w}] = 0"]
        self.put("grid b = ceildiv(N, 8)")
        how = self.r.randint(0, 2)
        if how == 0:
            self.put(f"for i, j in parallel(8, {w}) {{ if b*8 + i < N {{ atomic_add(S[j], X[b*8 + i, j]) }} }}")
        elif how == 1:
            self.put(f"fragment x: {d}[8, {w}]", "copy(X[b*8, 0], x)", f"let s = {d}(sum(x, axis = 0))", "atomic_add(S[0], s)")
        else:
            self.put(f"shared h: {d}[{w}] = 0", f"for i, j in parallel(8, {w}) {{ if b*8 + i < N {{ atomic_add(h[j], X[b*8 + i, j]) }} }}",
                     "atomic_add(S[0], h)")


def program(r):
    if r.random() < 0.5:
        w = Roles(r)
        (w.product if w.chance(0.6) else w.reduce)()
    else:
        w = Grid(r)
        w.pick(w.phases, w.chain, w.last, w.ticket, w.bits, w.bits, w.floats)()
    return w.text()
