"""Random kernels with the author's roles in loops, over leading axes, and chained as attention has them.

In: a random generator. Out: the text of a whole program, as kernelgen.py's. Always holds: as
kernelrole.py says; places in the ring are counted over all rounds of the loops around the roles.
"""
from kernelrole import SIZE, Roles


class Ring(Roles):
    def place(self, count):
        """The words for the place in the ring of round `count`, and for the phases that fill and drain it wait for."""
        n = self.stages
        return f"{count} % {n}", f"({count} // {n} + 1) % 2", f"{count} // {n} % 2"

    def filled(self, count, copies):
        """The producer's round number `count`."""
        s, free, _ = self.place(count)
        ahead = f"wait(free[{s}], {free})" if self.chance(0.7) else f"if {count} >= {self.stages} {{ wait(free[{s}], {free}) }}"
        end = f", signal = full[{s}]" if self.signal else ""
        return [ahead] + [f"copy({source}, {tile}[{s}]{end})" for source, tile in copies] + \
            ([] if self.signal else [f"arrive(full[{s}])"])

    def drained(self, count, work):
        s, _, full = self.place(count)
        return [f"wait(full[{s}], {full})"] + [w.replace("@s", s) for w in work] + [f"arrive(free[{s}])"]

    def product(self):
        """A product in a loop over tiles: roles in each round of it, or it in each role."""
        self.setup()
        d = self.pick("f16", "f16", "bf16", "i8", "u8", "f32", "f8e4m3", "f8e5m2", "f64")
        acc = {"i8": "i32", "u8": "i32", "f64": "f64"}.get(d, "f32")
        self.groups, self.consumers = self.pick(1, 1, 2), 1
        bm = self.pick(16, 32, 64, 64) if self.groups == 1 else 128
        bn, bk = self.pick(8, 16, 32, 64), 32 // {**SIZE, "f8e5m2": 1}[d] * self.pick(1, 2)
        self.stages = min(self.stages, 3)
        ta, tb, heads = self.chance(0.25), self.chance(0.4), self.pick(0, 0, 1, 2, 3)
        m, n = self.pick(bm, bm + 5, 2 * bm, 1, bm - 3), self.pick(bn, 3 * bn, bn + 8, bn - 1)
        kk = self.pick(bk, 2 * bk, 3 * bk, 5 * bk, bk + 8, 0, 3)
        lead, many, h = (["H"], [heads], "h, ") if heads else ([], [], "")
        self.tensor("A", d, lead + (["K", "M"] if ta else ["M", "K"]), many + ([kk, m] if ta else [m, kk]))
        self.tensor("B", d, lead + (["N", "K"] if tb else ["K", "N"]), many + ([n, kk] if tb else [kk, n]))
        self.outputs.append(f"C: {acc}[{''.join(x + ', ' for x in lead)}M, N]")
        nk, nx = f"ceildiv(K, {bk})", f"ceildiv(N, {bn})"
        self.put(f"grid y{', h' if heads else ''} = ceildiv(M, {bm}){', H' if heads else ''}",
                 f"shared As: {d}[{self.stages}, {f'{bk}, {bm}' if ta else f'{bm}, {bk}'}], Bs: {d}[{self.stages}, {f'{bn}, {bk}' if tb else f'{bk}, {bn}'}]")
        around = self.chance(0.5)  # the loop stands around the roles
        self.put(f"barrier full[{self.stages}], free[{self.stages}]", f"let nk = {nk}")
        deep = 0
        if around:
            self.put(f"for x in {self.pick('range', 'range', 'pipelined')}({nx}) {{")
            if self.chance(0.7):
                self.put(f"  fragment acc: {acc}[{bm}, {bn}] = 0")
                outside = True
            else:
                outside = False
            deep = 1
        else:
            outside = False
        copies = [(f"A[{h}k*{bk}, y*{bm}]" if ta else f"A[{h}y*{bm}, k*{bk}]", "As"), (f"B[{h}x*{bn}, k*{bk}]" if tb else f"B[{h}k*{bk}, x*{bn}]", "Bs")]
        fill = ["for k in range(nk) {", "  let c = x*nk + k"] + ["  " + x for x in self.filled("c", copies)] + ["}"]
        a, b = "As[@s].T" if ta else "As[@s]", "Bs[@s].T" if tb else "Bs[@s]"
        work = [self.multiply(a, b, d)]
        if self.chance(0.15) and not ta and d != "f64":
            work = [f"fragment Af: {d}[{bm}, {bk}]", "copy(As[@s], Af)", f"acc += Af @ {b}"]
        drain = ["for k in range(nk) {", "  let c = x*nk + k"] + ["  " + x for x in self.drained("c", work)] + ["}"]
        store = [*self.behind(acc, bm, bn), f"copy(acc, C[{h}y*{bm}, x*{bn}])"]
        self.put("specialize {", depth=deep)
        self.put(self.role("producer"), depth=deep + 1)
        if not around:
            fill = [f"for x in range({nx}) {{"] + ["  " + x for x in fill] + ["}"]
            drain = [f"fragment acc: {acc}[{bm}, {bn}] = 0", f"for x in range({nx}) {{", "  acc = 0"] + ["  " + x for x in drain + store] + ["}"]
        elif not outside:
            drain = [f"fragment acc: {acc}[{bm}, {bn}] = 0"] + drain + store
        self.put(*fill, depth=deep + 2)
        self.put("}", depth=deep + 1)
        self.put(self.role("consumer"), depth=deep + 1)
        self.put(*drain, depth=deep + 2)
        self.put("}", depth=deep + 1)
        self.put("}", depth=deep)
        if outside:
            self.put(*store, depth=deep)
        if around:
            self.put("}")

    def multiply(self, a, b, d):
        if not self.chance(0.3):
            return f"acc += {a} @ {b}"
        opts = self.pick("", ", policy = \"rows\"", ", policy = \"columns\"")
        if d[:2] == "f8":
            opts += self.pick("", ", promote = 0", ", promote = 64")
        return f"gemm({a}, {b}, acc{opts}{', tf32 = true' if d == 'f32' else ''})"

    def attention(self):
        """Keys and values in a ring of their own each, or in one; the queries before them."""
        self.setup()
        self.groups, self.consumers = 1, self.pick(1, 1, 2)
        d = self.pick("f16", "f16", "bf16")
        bm, bn, w = self.pick(16, 64, 64), self.pick(16, 32, 64), self.pick(16, 32, 64)
        self.stages = min(self.stages, 3)
        rows = bm * self.consumers
        s, rr = self.pick(rows, rows + 1, 1, 2 * rows, rows // 2), self.pick(bn, 2 * bn, 3 * bn + 5, bn - 3, 0)
        self.tensor("Q", d, ["S", str(w)], [s, w], -1, 2)
        self.tensor("K", d, ["R", str(w)], [rr, w], -1, 2)
        self.tensor("V", d, ["R", str(w)], [rr, w])
        self.outputs.append(f"O: f32[S, {w}]")
        names = [f"Q{c}" for c in range(self.consumers)]
        self.put(f"grid y = ceildiv(S, {rows})", f"shared {', '.join(f'{q}: {d}[{bm}, {w}]' for q in names)}",
                 f"shared Ks: {d}[{self.stages}, {bn}, {w}], Vs: {d}[{self.stages}, {bn}, {w}]",
                 f"barrier full[{self.stages}], free[{self.stages}](arrivals = {self.consumers})")
        before = self.chance(0.5)
        if before:
            self.put(*[f"copy(Q[y*{rows} + {c * bm}, 0], {q})" for c, q in enumerate(names)])
        else:
            self.put("barrier asked")
        self.put("specialize {")
        self.put(self.role("producer"), depth=1)
        if not before:
            self.put(*[f"copy(Q[y*{rows} + {c * bm}, 0], {q})" for c, q in enumerate(names)], "arrive(asked)", depth=2)
        self.loop_of(bn, self.filled("k", [(f"K[k*{bn}, 0]", "Ks"), (f"V[k*{bn}, 0]", "Vs")]))
        self.put("}", depth=1)
        for c, q in enumerate(names):
            self.put(self.role("consumer"), depth=1)
            self.put(f"fragment acc: f32[{bm}, {w}] = 0, top: f32[{bm}] = -9", depth=2)
            if not before:
                self.put("wait(asked, 0)", depth=2)
            work = [f"{self.pick(f'fragment sc: f32[{bm}, {bn}] =', 'let sc =')} {q} @ Ks[@s].T", "let more = max(top, max(sc, axis = 1))",
                    f"let p = {self.pick('clamp(sc, -1, 2)', 'where(sc > 0, 1.0, 0.0)', 'min(sc, 1)')}", "top = more", f"acc += {d}(p) @ Vs[@s]"]
            self.loop_of(bn, self.drained("k", work))
            self.put(self.pick("acc = acc + top[:, None]", "acc = acc * 2"), f"copy(acc, O[y*{rows} + {c * bm}, 0])", depth=2)
            self.put("}", depth=1)
        self.put("}")

    def loop_of(self, bn, body):
        self.put(f"for k in range(ceildiv(R, {bn})) {{", *["  " + x for x in body], "}", depth=2)


def program(r):
    w = Ring(r)
    (w.product if w.chance(0.65) else w.attention)()
    return w.text()
