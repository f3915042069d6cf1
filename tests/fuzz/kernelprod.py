"""Random kernels around products that tensor cores take: tiles and tensors as their schedules want.

In: a random generator. Out: the text of a whole program, as kernelgen.py's: a product with something
before and behind it, or two chained as attention has them. Always holds: as there; most tensors have
rows of 16-byte multiples, since other ones leave the fast schedules.
"""

SIZE = {"f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1, "f32": 4}


class Product:
    def __init__(self, r, real):
        self.r, self.real = r, real
        self.inputs, self.args, self.outputs, self.lines = [], [], [], []

    def pick(self, *v):
        return self.r.choice(v)

    def chance(self, p):
        return self.r.random() < p

    def tensor(self, name, dtype, names, extents):
        """A parameter and its argument: a view whose rows begin at 16 bytes, or any."""
        self.inputs.append(f"{name}: {dtype}[{', '.join(names)}]")
        dims = [max(e, 0) for e in extents]
        view = ""
        if self.chance(0.15):
            lo = [self.pick(0, 1, 8, 16) for _ in dims]
            view = "[" + ", ".join(f"{p}:{p + e}" for p, e in zip(lo, dims)) + "]"
            dims = [p + e + self.pick(0, 8, 16) for p, e in zip(lo, dims)]
        shape = ", ".join(map(str, dims))
        if self.real:
            text = f"randn(f32, {shape}).to({dtype})" if dtype[0] == "f" and dtype != "f32" or dtype == "bf16" \
                else f"randn(f32, {shape})"
        else:
            lo, hi = (0, 4) if dtype == "u8" else (-2, 3)
            text = f"randint(i32, {lo}, {hi}, {shape}).to({dtype})"
        self.args.append(text + view)

    def extent(self, tile, dtype, least=0):
        """Of a row: mostly by 16 bytes, near multiples of the tile."""
        step = 16 // SIZE[dtype]
        e = self.pick(tile, 2 * tile, tile + step, max(tile - step, step), 2 * tile + 3 * step, step)
        if self.chance(0.1):
            e = self.pick(tile + 1, 1, tile // 2 + 3, least)
        return e

    def rows(self, tile):
        return self.pick(tile, tile + 1, 2 * tile - 1, tile // 2, 1, 2 * tile, tile + 17)

    def loop(self, count):
        how = self.r.random()
        if how < 0.2:
            return f"range({count})"
        return f"pipelined({count}, {self.r.randint(1, 5)})" if how < 0.85 else f"pipelined({count})"

    def threads(self, rows):
        """Mostly the compiler's choice, or that of the warpgroup schedules."""
        how = self.r.random()
        if how < 0.7:
            return ""
        return f", threads = {128 * (rows // 64 + 1)}" if how < 0.8 and rows >= 64 else \
            f", threads = {self.pick(32, 64, 128, 256)}"

    def behind(self, acc, out, bm, bn, columns):
        """What is done to a result before it is stored."""
        for _ in range(self.r.randint(0, 2)):
            how = self.r.randint(0, 6)
            if how == 0:
                self.lines.append(f"{acc} = {acc} * 2")
            elif how == 1:
                self.lines.append(f"for p, q in parallel({bm}, {bn}) {{ if {acc}[p, q] < 0 {{ {acc}[p, q] = 0 }} }}")
            elif how == 2 and "bias" not in " ".join(self.inputs):
                self.tensor("bias", "f32", [columns[0]], [columns[1]])
                self.lines += [f"fragment bs: f32[{bn}]", f"copy(bias[{columns[2]}], bs)",
                               f"{acc} = {acc} + {'bs' if out == 'f32' else out + '(bs)'}[None, :]"]
            elif how == 3:
                self.lines.append(f"{acc} = max({acc}, 0)")
            elif how == 4 and "top" not in " ".join(self.lines):
                self.lines += [f"let top = max({acc}, axis = 1)", f"{acc} = min({acc}, top[:, None])"]
            elif how == 5:
                self.lines.append(f"for p, q in parallel({bm}, {bn}) {{ {acc}[p, q] += {'1' if not self.real else '0.5'} }}")

    def matmul(self):
        d = self.pick("f16", "f16", "bf16", "f16", "f8e4m3", "f8e5m2", "i8", "u8", "f32")
        if self.real:
            d = self.pick("f16", "bf16", "f32")
        step = 32 // SIZE[d]
        acc = "i32" if d in ("i8", "u8") else "f32"
        bm, bn = self.pick(64, 64, 128, 16, 32), self.pick(8, 16, 32, 64, 64, 96, 128)
        if self.chance(0.1):
            bm, bn = self.pick(192, 256), self.pick(16, 32, 64)
        bk = step * self.pick(1, 2, 2, 3, 4)
        while bm * bn * bk > 600000:
            bk, bn = max(step, bk // 2), max(8, bn // 2)
        ta, tb = self.chance(0.2), self.chance(0.4)
        m, k = self.rows(bm), self.pick(0, bk, 2 * bk, 3 * bk, bk + 16 // SIZE[d], self.extent(bk, d))
        n = self.extent(bn, d)
        if ta:
            m = self.extent(bm, d)
        self.tensor("A", d, ["K", "M"] if ta else ["M", "K"], [k, m] if ta else [m, k])
        self.tensor("B", d, ["N", "K"] if tb else ["K", "N"], [n, k] if tb else [k, n])
        out = self.pick(acc, acc, "f32", "f16", "bf16") if not self.real else self.pick("f32", "f16")
        if not self.real and out in ("f16", "bf16"):
            out = acc
        swap = self.chance(0.3)
        grid = ("by, bx", f"ceildiv(M, {bm}), ceildiv(N, {bn})") if swap else \
            ("bx, by", f"ceildiv(N, {bn}), ceildiv(M, {bm})")
        opts = self.threads(bm) + (f", raster = grouped({self.r.randint(1, 4)})" if self.chance(0.2) else "")
        self.grid = f"grid {grid[0]} = {grid[1]}{opts}"
        sa, sb = ([bk, bm] if ta else [bm, bk]), ([bn, bk] if tb else [bk, bn])
        oa = f"ko*{bk}, by*{bm}" if ta else f"by*{bm}, ko*{bk}"
        ob = f"bx*{bn}, ko*{bk}" if tb else f"ko*{bk}, bx*{bn}"
        at, bt = "As" + (".T" if ta else ""), "Bs" + (".T" if tb else "")
        self.lines += [f"shared As: {d}[{sa[0]}, {sa[1]}], Bs: {d}[{sb[0]}, {sb[1]}]",
                       f"fragment acc: {acc}[{bm}, {bn}] = {self.pick('0', '0', '0', '1')}"]
        if self.chance(0.15):
            self.lines.append(f"layout {self.pick('As', 'Bs')} = {self.pick('swizzle(128)', 'swizzle(64)', 'padded(8)')}")
        twice = self.chance(0.2)
        if twice:
            self.lines.append(f"fragment more: {acc}[{bm}, {bn}] = 0")
        count = f"ceildiv(K, {bk})"
        begin = ""
        if self.chance(0.15):
            begin = f"{self.pick('1', 'by', 'bx')}, "
        self.lines.append(f"for ko in {self.loop(count) if not begin else f'range({begin}{count})'} {{")
        body = [f"copy(A[{oa}], As)", f"copy(B[{ob}], Bs)"]
        if self.chance(0.2):
            body.reverse()
        if self.chance(0.1):
            body.append(f"for p, q in parallel({sa[0]}, {sa[1]}) {{ As[p, q] = {self.pick('As[p, q] + As[p, q]', d + '(1)')} }}"
                        if not self.real else "As = As + As")
        if self.chance(0.12):
            at, bt = self.through(body, d, sa, sb, at, bt, ta)
        if self.chance(0.08):
            body.append("if ko == 1 { continue }")
        how = self.r.randint(0, 5)
        tf32 = d == "f32" and self.chance(0.6) and not self.real
        policy = f", policy = \"{self.pick('rows', 'columns', 'square')}\"" if self.chance(0.5) else ""
        if d[:2] == "f8" and self.chance(0.5):
            how, policy = 0, policy + f", promote = {self.pick(0, 32, 64, 128, 256)}"
        if how == 0 or tf32:
            body.append(f"gemm({at}, {bt}, acc{policy}{', tf32 = true' if tf32 else ''})")
        elif how == 1 and not (acc == "i32"):
            body += [f"let part = {at} @ {bt}", "acc += part"]
        else:
            body.append(f"acc += {at} @ {bt}")
        if twice:
            body.append(f"more += {at} @ {bt}")
        if self.chance(0.1):
            body.append("acc = acc * 1" if acc == "i32" else "acc = acc * 1.0")
        if self.chance(0.08):
            body.append("if ko >= 2 { break }")
        self.lines += ["  " + x for x in body] + ["}"]
        if twice:
            self.lines.append("acc = acc - more * 2")
        self.behind("acc", acc, bm, bn, ("N", n, f"bx*{bn}"))
        self.store(out, acc, bm, bn, m, n)

    def through(self, body, d, sa, sb, at, bt, ta):
        """An operand that comes by another tile, is changed in part, or is read by more than products."""
        which = self.pick("As", "Bs")
        shape = sa if which == "As" else sb
        how = self.r.randint(0, 4)
        if how == 0:  # the copy fills another tile
            k = next(i for i, x in enumerate(body) if x.endswith(f", {which})"))
            body[k] = body[k].replace(f", {which})", ", raw)")
            body.insert(k + 1, self.pick(f"copy(raw, {which})", f"{which} = raw", f"{which} = {d}(raw)"))
            self.lines.insert(0, f"{self.pick('shared', 'shared', 'fragment')} raw: {d}[{shape[0]}, {shape[1]}]")
        elif how == 1:  # the product reads another tile
            self.lines.insert(0, f"{self.pick('shared', 'shared', 'fragment')} more{which}: {d}[{shape[0]}, {shape[1]}]")
            body.append(self.pick(f"copy({which}, more{which})", f"more{which} = {which}"))
            at, bt = at.replace(which, f"more{which}"), bt.replace(which, f"more{which}")
        elif how == 2:
            body.append(f"{which}[0:8, :] = {which}[0:8, :] + {which}[0:8, :]")
        elif how == 3:
            body.append(f"copy({which}[0:4, 0:8], {which}[4:8, 0:8])")
        elif not self.real and d[0] != "u":
            self.lines.append(f"fragment seen: {'i32' if d[0] == 'i' else 'f32'}[{shape[1]}] = 0")
            body.append(f"seen += sum({which}, axis = 0)")
        return at, bt

    def store(self, out, acc, bm, bn, m, n):
        place = f"by*{bm}, bx*{bn}"
        how = self.r.randint(0, 5)
        value = "acc" if out == acc or self.chance(0.5) else f"{out}(acc)"
        self.outputs.append(f"C: {out}[M, N]" if how != 1 else f"C: {out}[N, M]")
        if how == 1:
            self.lines.append(f"copy(acc.T, C[bx*{bn}, by*{bm}])")
        elif how == 2:
            self.lines.append(f"for p, q in parallel({bm}, {bn}) {{ if by*{bm} + p < M and bx*{bn} + q < N "
                              f"{{ C[by*{bm} + p, bx*{bn} + q] = acc[p, q] }} }}")
        elif how == 3:
            self.lines += [f"shared Cs: {out}[{bm}, {bn}]", "copy(acc, Cs)", f"copy(Cs, C[{place}])"]
        else:
            self.lines.append(f"copy({value}, C[{place}])")

    def attention(self):
        d = self.pick("f16", "f16", "bf16")
        bm, bn, w = self.pick(64, 64, 128, 32), self.pick(16, 32, 64, 64), self.pick(16, 32, 64, 64)
        heads = self.pick(1, 2)
        s, rr = self.rows(bm), self.pick(bn, 2 * bn, 3 * bn + 5, bn - 3, 1, 0)
        self.tensor("Q", d, ["H", "S", str(w)], [heads, s, w])
        self.tensor("K", d, ["H", "R", str(w)], [heads, rr, w])
        self.tensor("V", d, ["H", "R", str(w)], [heads, rr, w])
        self.grid = f"grid bx, h = ceildiv(S, {bm}), H{self.threads(bm)}"
        causal = self.chance(0.4)
        self.lines += [f"shared Qs: {d}[{bm}, {w}], Ks: {d}[{bn}, {w}], Vs: {d}[{bn}, {w}]",
                       f"fragment acc: f32[{bm}, {w}] = 0, m: f32[{bm}] = {'-inf' if self.real else -99}, l: f32[{bm}] = 0",
                       f"copy(Q[h, bx*{bm}, 0], Qs)"]
        end = f"min(R, (bx + 1)*{bm})" if causal and self.chance(0.5) else "R"
        self.lines.append(f"for j in {self.loop(f'ceildiv({end}, {bn})')} {{")
        low = "-inf" if self.real else "-50"
        body = [f"copy(K[h, j*{bn}, 0], Ks)"]
        early = self.chance(0.6)
        if early:
            body.append(f"copy(V[h, j*{bn}, 0], Vs)")
        mask = f"j*{bn} + c >= R" + (f" or j*{bn} + c > bx*{bm} + r" if causal else "")
        body += [f"fragment s: f32[{bm}, {bn}] = Qs @ Ks.T",
                 f"for r, c in parallel({bm}, {bn}) {{ if {mask} {{ s[r, c] = {low} }} }}"]
        if self.real:
            body += ["let m1 = max(m, max(s, axis = 1) * 0.2)", "let p = exp2(s*0.2 - m1[:, None])",
                     "let alpha = exp2(m - m1)", "l = l*alpha + sum(p, axis = 1)", "m = m1",
                     "acc = acc * alpha[:, None]"]
        else:
            body += ["let m1 = max(m, max(s, axis = 1))", f"let p = {self.pick('clamp(s, 0, 2)', 'where(s > 0, 1.0, 0.0)')}",
                     self.pick("l = l + sum(p, axis = 1)", "l += sum(p, axis = 1)"), "m = m1"]
            if self.chance(0.3):
                body.append("acc = acc * where(m1 > 3, 1.0, 1.0)[:, None]")
        if not early:
            body.append(f"copy(V[h, j*{bn}, 0], Vs)")
        body.append(f"acc += {d}(p) @ Vs")
        self.lines += ["  " + x for x in body] + ["}"]
        self.outputs.append(f"O: f32[H, S, {w}]")
        if self.real:
            self.lines.append(f"copy(acc * (1.0 / (l + 1.0))[:, None], O[h, bx*{bm}, 0])")
        else:
            self.lines.append(f"copy(acc + l[:, None]{self.pick('', ' + m[:, None]')}, O[h, bx*{bm}, 0])")
        if self.chance(0.4):
            self.outputs.append("L: f32[H, S]")
            self.lines.append(f"copy(l, L[h, bx*{bm}])")

    def text(self):
        head = f"kernel f({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}) {{"
        lets = [f"let a{i} = {x}" for i, x in enumerate(self.args)]
        call = f"let r = check f({', '.join(f'a{i}' for i in range(len(self.args)))})"
        return "\n".join([head, "  " + self.grid] + ["  " + x for x in self.lines] + ["}"] + lets + [call]) + "\n"


def program(r, real):
    p = Product(r, real)
    if p.chance(0.65):
        p.matmul()
    else:
        p.attention()
    return p.text()
