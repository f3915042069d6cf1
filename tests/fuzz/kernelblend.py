"""Random kernels whose products stand in other surroundings than the schedules' own pattern.

In: a random generator. Out: the text of a whole program, as kernelgen.py's: a product in nested loops,
loops over tiles, branches and `while`, of operands that are converted, scaled, sliced, in registers or
expressions, over leading axes, split along k, more than one from the same tiles. Always holds: as there.
"""
from kernelprod import SIZE, Product

WIDE = {"i8": ("f16", "bf16", "i32", "f32"), "u8": ("f16", "bf16", "i32"), "f8e4m3": ("f16", "f32"), "f8e5m2": ("f16", "bf16"),
        "f16": ("f32", "bf16"), "bf16": ("f32",), "f32": ("f16", "bf16", "f64"), "i32": ("f16", "i8", "f64")}


class Blend(Product):
    def put(self, *lines):
        self.lines += ["  " * self.deep + x for x in lines]

    def shapes(self):
        """Types, tiles and extents."""
        self.deep = 0
        self.d = self.pick("f16", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "f32", "f64", "i32")
        if self.real:
            self.d = self.pick("f16", "bf16", "f32", "f64")
        self.acc = {"i8": "i32", "u8": "i32", "f64": "f64", "i32": "i64"}.get(self.d, "f32")
        size = {**SIZE, "f64": 8, "i32": 4}[self.d]
        self.bm, self.bn = self.pick(16, 32, 64, 64, 128), self.pick(8, 16, 32, 64, 64)
        self.bk = 32 // size * self.pick(1, 1, 2, 4) if size < 8 else self.pick(4, 8, 16)
        while self.bm * self.bn * self.bk > 300000:
            self.bk //= 2
        self.ta, self.tb = self.chance(0.3), self.chance(0.4)
        step = 16 // size
        near = lambda t: self.pick(t, t + step, 2 * t, max(t - step, step), t + 1, t // 2 + 3, 1)
        self.m, self.n, self.k = near(self.bm), near(self.bn), self.pick(0, self.bk, 2 * self.bk, 3 * self.bk, self.bk + step, 5)
        self.heads = self.pick(1, 2, 3) if self.chance(0.3) else 0

    def operand(self, name, first, second, ext):
        """A tensor, and its tile and the statements that fill it from the place (i, k) or (k, j)."""
        d, source = self.d, self.d
        if self.chance(0.25):  # converted on its way
            fit = [x for x, to in WIDE.items() if d in to and (x[0] == "f" or x == "bf16" or not self.real)]
            source = self.pick(*fit) if fit else d
        lead = ["H"] if self.heads else []
        self.tensor(name, source, lead + [first[1], second[1]], ([self.heads] if self.heads else []) + ext)
        tile = f"{name}s"
        place = f"{name}[{'h, ' if self.heads else ''}{first[2]}, {second[2]}]"
        self.tiles.append(f"shared {tile}: {d}[{first[0]}, {second[0]}]")
        fill = [f"copy({place}, {tile})"]
        if self.chance(0.12) and not self.real:
            raw = f"{name}raw"
            self.tiles.append(f"{self.pick('shared', 'fragment')} {raw}: {source}[{first[0]}, {second[0]}]")
            fill = [f"copy({place}, {raw})", self.pick(f"{tile} = {d}({raw})", f"{tile} = {d}({raw}) * {d}(2)", f"copy({raw}, {tile})")]
        return tile, fill

    def used(self, tile, turned, rows):
        """What stands in the product for a tile whose product's extents are rows: lines before, its text."""
        how = self.r.random()
        if how < 0.15:
            f = f"{tile}f"
            self.tiles.append(f"fragment {f}: {self.d}[{', '.join(map(str, rows[::-1] if turned else rows))}]")
            return [f"copy({tile}, {f})"], f"{f}.T" if turned else f
        text = f"{tile}.T" if turned else tile
        if how < 0.25:
            return [], f"({text} + {text})" if not turned else f"max({tile}, {tile}).T"
        if how < 0.35 and self.d in ("f16", "bf16", "f32", "f64"):
            return [], f"({text} * {self.d}(2))" if not turned else text
        if how < 0.42:
            return [f"let {tile}l = {tile} + {self.d}(0)"], f"{tile}l" + (".T" if turned else "")
        return [], text

    def round(self, fills):
        """The statements of one step along k; `acc` grows."""
        at, a = self.used("As", self.ta, (self.bm, self.bk))
        bt, b = self.used("Bs", self.tb, (self.bk, self.bn))
        out = fills[0] + fills[1] if self.chance(0.8) else fills[1] + fills[0]
        out = out + at + bt
        how = self.r.randint(0, 7)
        half = self.bk // 2
        if how == 0 and half >= 4 and a == "As" and b == "Bs":  # in two halves
            out += [f"acc += As[:, 0:{half}] @ Bs[0:{half}, :]", f"acc += As[:, {half}:{self.bk}] @ Bs[{half}:+{self.bk - half}, :]"]
        elif how == 1 and self.bm >= 32:  # of rows apart
            hm = self.bm // 2
            rows = ("As[:, {}].T" if self.ta else "As[{}, :]") if a in ("As", "As.T") else None
            out += [f"acc[0:{hm}, :] += {rows.format(f'0:{hm}')} @ {b}", f"acc[{hm}:{self.bm}, :] += {rows.format(f'{hm}:+{hm}')} @ {b}"] \
                if rows else [f"acc += {a} @ {b}"]
        elif how == 2:
            out += [f"let part = {a} @ {b}", self.pick("acc += part", "acc = acc + part", "acc = part + acc")]
        elif how == 3:
            policy = self.pick("", ", policy = \"rows\"", ", policy = \"columns\"", ", policy = \"square\"")
            out += [f"gemm({a}, {b}, acc{policy})"]
        elif how == 4:
            c = self.pick("ko % 2 == 0", "ko < 2", "by == 0", "bx > 0 or ko == 0")
            out += [f"if {c} {{", f"  acc += {a} @ {b}", "} else {", f"  {self.pick(f'acc += {a} @ {b}', f'let part = {a} @ {b}; acc -= part', 'acc = acc * 1')}", "}"]
        else:
            out += [f"acc += {a} @ {b}"]
        if self.chance(0.15):
            out += [f"seen += sum(As, axis = {0 if self.ta else 1})"]
            self.sums = True
        return out

    def along_k(self, body):
        """The loop over k, in one of the forms."""
        n = f"ceildiv(K, {self.bk})"
        how = self.r.randint(0, 8)
        inside = ["  " + x for x in body]
        if how == 0:
            self.put("var ko: i32 = 0", f"while ko < {n} {{", *inside, "  ko += 1", "}")
        elif how == 1:  # two loops, one after the other
            self.put(f"for ko in {self.loop(f'{n} // 2')} {{", *inside, "}")
            self.put(f"for ko in range({n} // 2, {n}) {{", *inside, "}")
        elif how == 2:  # nested
            self.put(f"for ks in {self.loop(f'ceildiv({n}, 2)')} {{", f"  for ko in {self.pick('range', 'pipelined')}(2*ks, min(2*ks + 2, {n}), 1) {{",
                     *["  " + x for x in inside], "  }", "}")
        elif how == 3:
            self.put(f"for ko in {self.pick('unroll', 'range')}({n}) {{", *inside, "}")
        elif how == 4:
            self.put(f"for ko in pipelined(0, {n}, 1, stages = {self.r.randint(1, 4)}) {{", *inside, "}")
        else:
            self.put(f"for ko in {self.loop(n)} {{", *inside, "}")

    def over_tiles(self):
        """The grid, and a loop over the tiles of a block where it has more than one."""
        nx, ny = f"ceildiv(N, {self.bn})", f"ceildiv(M, {self.bm})"
        h = (", h", ", H") if self.heads else ("", "")
        how = self.r.random()
        threads = self.threads(self.bm)
        if how < 0.6 or self.split:
            if self.split:
                h = (", kp", f", {self.split}")
            self.grid = f"grid bx, by{h[0]} = {nx}, {ny}{h[1]}{threads}"
            return []
        if how < 0.8:
            self.grid = f"grid by{h[0]} = {ny}{h[1]}{threads}"
            return [f"for bx in range({nx}) {{"]
        self.grid = f"grid blk{h[0]} = {self.r.randint(1, 3)}{h[1]}{threads}"
        if self.heads:
            return [f"for by in range(blk, {ny}, {self.grid.split('= ')[1].split(',')[0]}) {{", f"  for bx in range({nx}) {{"]
        return [f"for turn in persistent({nx} * {ny}) {{", f"  let bx = turn % {nx}", f"  let by = turn // {nx}"]

    def matmul(self):
        self.shapes()
        self.sums, self.tiles = False, []
        self.split = self.pick(2, 3) if not self.heads and self.acc in ("f32", "i32", "f64") and self.chance(0.12) else 0
        i, j, k = (self.bm, "M", f"by*{self.bm}"), (self.bn, "N", f"bx*{self.bn}"), (self.bk, "K", f"ko*{self.bk}")
        a = self.operand("A", *((k, i, [self.k, self.m]) if self.ta else (i, k, [self.m, self.k])))
        b = self.operand("B", *((j, k, [self.n, self.k]) if self.tb else (k, j, [self.k, self.n])))
        body = self.round([a[1], b[1]])
        around = self.over_tiles()
        opened = sum(x.count("{") - x.count("}") for x in around)
        where = self.chance(0.5)  # tiles outside the loop over tiles, or inside it
        accumulators = [f"fragment acc: {self.acc}[{self.bm}, {self.bn}] = 0"]
        if self.sums:
            wide = {"i8": "i32", "u8": "i32", "f64": "f64", "i32": "i32"}.get(self.d, "f32")
            accumulators.append(f"fragment seen: {wide}[{self.bm}] = 0")
        if where:
            self.put(*self.tiles, *accumulators)
        self.put(*around)
        self.deep = opened
        if where and opened:
            self.put("acc = 0", *(["seen = 0"] if self.sums else []))
        if not where:
            self.put(*self.tiles, *accumulators)
        if self.split:
            self.put(f"for ko in {self.pick('range', 'pipelined') }(kp, ceildiv(K, {self.bk}), {self.split}) {{", *["  " + x for x in body], "}")
        else:
            self.along_k(body)
        self.ending()
        for d in range(opened):
            self.deep = opened - 1 - d
            self.put("}")

    def ending(self):
        """Something behind, and the store."""
        h = "h, " if self.heads else ""
        lead = "H, " if self.heads else ""
        if self.split:
            self.outputs.append(f"C: {self.acc}[M, N] = 0")
            self.put(f"atomic_add(C[by*{self.bm}, bx*{self.bn}], acc)")
            return
        if self.sums and "bx in range" not in " ".join(self.lines) and self.chance(0.6):
            self.put("acc = acc + " + ("seen[:, None]" if self.acc != "i64" else "i64(seen)[:, None]"))
        for _ in range(self.r.randint(0, 2)):
            how = self.r.randint(0, 5)
            if how == 0:
                self.put(f"acc = max(acc, 0)")
            elif how == 1:
                self.put(f"for p, q in parallel({self.bm}, {self.bn}) {{ if by*{self.bm} + p == bx*{self.bn} + q {{ acc[p, q] += 1 }} }}")
            elif how == 2:
                self.put("if by == 0 { acc = acc * 2 } else if bx == 1 { acc = acc + 1 } else { acc = -acc }")
            elif how == 3:
                self.put("acc = acc - max(acc, axis = 0)[None, :]")
            elif how == 4 and not self.real:
                self.put(f"acc = where(acc > 0, acc, {self.acc}(iota({self.bn}))[None, :])")
            else:
                self.put(f"acc[0:{self.bm // 2}, :] = acc[{self.bm // 2}:+{self.bm // 2}, :] * 1")
        self.outputs.append(f"C: {self.acc}[{lead}M, N]")
        how = self.r.randint(0, 3)
        if how == 0:
            self.put(f"shared Cs: {self.acc}[{self.bm}, {self.bn}] = acc" if self.bm * self.bn * 8 < 20000 else f"let Cs = acc + 0",
                     f"copy(Cs, C[{h}by*{self.bm}, bx*{self.bn}])")
        elif how == 1:
            hm = self.bm // 2
            self.put(f"copy(acc[0:{hm}, :], C[{h}by*{self.bm}, bx*{self.bn}])",
                     f"copy(acc[{hm}:{self.bm}, :], C[{h}by*{self.bm} + {hm}, bx*{self.bn}])")
        else:
            self.put(f"copy(acc, C[{h}by*{self.bm}, bx*{self.bn}])")
        if self.chance(0.2):
            self.outputs.append(f"S: {self.acc}[{lead}NX = ceildiv(N, {self.bn}), M]")
            self.put(f"copy(sum(acc, axis = 1), S[{h}bx, by*{self.bm}])" if self.acc != "i64" else f"copy(max(acc, axis = 1), S[{h}bx, by*{self.bm}])")


def program(r, real):
    p = Blend(r, real)
    p.matmul()
    return p.text()
