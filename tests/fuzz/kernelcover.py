"""What of the language random programs hold: a table.

In: texts of programs. Out: lines `group construct N`, N the number of programs that have it, those
that no program has first. Operations, statements, operators and types are taken from the tables of
src, so that a new row is asked for at once; the knobs and forms that stand in no table are here.
"""
import os
import re

SRC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")
SIGN = {"add": r" \+ ", "sub": r" - ", "mul": r"\*", "div": r" / ", "floordiv": "//", "mod": " % ", "pow": r"\bpow\(|\*\*",
        "neg": r"[(= ]-[\w(]", "and": " & ", "or": r" \| ", "xor": r" \^ ", "not": "~", "shl": "<<", "shr": ">>", "eq": "==",
        "ne": "!=", "lt": " < ", "le": "<=", "gt": " > ", "ge": ">=", "cast": r"\b[iuf]\d\w*\(", "rmax": r"\bmax\([^,()]*\)|\bmax\([^()]*axis",
        "rmin": r"\bmin\([^,()]*\)|\bmin\([^()]*axis", "bitcast": r"\bbitcast\("}
FORMS = {
    "knob": {"threads": "threads = ", "raster": "raster = ", "cluster": "cluster = ", "resident": "resident = ",
             "cooperative": "cooperative = ", "policy": "policy = ", "promote": "promote = ", "tf32": "tf32 = true",
             "stages left out": r"pipelined\(\w+\)", "stages given": r"pipelined\([^)]*, (stages = )?\w+\) \{",
             "registers": "registers = ", "warpgroups": "warpgroups = ", "@exact": "@exact", "@unchecked": "@unchecked",
             "layout swizzle": r"= swizzle\(", "layout padded": r"= padded\(", "layout map": r"layout \w+ = \(i, j",
             "sms": r"\bsms\b"},
    "parameter": {"inout": ": inout ", "static": r"\bstatic ", "scalar": r"[(,] ?s\w*: \w+[,)]", "compile-time": r"kernel f\[[A-Z]",
                  "auto": r"= auto\(", "dtype": ": dtype", "initial value": r"\] = \w", "out =": r"\bout = ",
                  "extent expression": r"\[[^\]]*(ceildiv|\+|\*)[^\]]*\][^{]*\{$", "setting at the call": r"f\[\w+ = "},
    "argument": {"T": r"\.T\b.*$", "slice": r"let [ac]\d+ = .*\d:\d", "step": r"let [ac].*::2", "backwards": r"let [ac].*::-1",
                 "transpose": r"let [ac].*transpose\(", "reshape": r"let [ac].*reshape\(", "row": r"let [ac].*\[\d+\]",
                 "no elements": r"let [ac].*[ ,(]0[,)]"},
    "loop": {k: rf"\bin {k}\(" for k in ("range", "parallel", "pipelined", "unroll", "vectorized", "persistent")},
    "region": {"origin": r"copy\(\w+\[[^:\]]*\], ", "slices": r"copy\(\w+\[[^\]]*:", "stop": r":min\(", "pad": "pad = ",
               "k:+n": r":\+", "of a tile": r"copy\([\w]+\[", "atomic tile": r"^ *atomic_\w+\([^()]*\], \w+\)$",
               "run-time start": r"[btv]\d+\[[^\]]*\b[bks]\w+[^\]]*:"},
    "product": {"of slices": r"\w\[[^\]]*:[^\]]*\](\.T)? @ ", "turned": r"\.T @ |@ \w+(\[[^\]]*\])?\.T", "of expressions": r"\) @ | @ \(",
                "in while": r"while ko .*(\n    .*)* @ ", "in a branch": r"if .*\{\n +acc \+= .* @ ", "in nested loops": r"pipelined\(.*\{\n +for ko in",
                "to rows": r"\]\s*\+= .* @ ", "in a ring": r"@ \w+\[[a-z] % ", "with leading axes": r"copy\([AB]\[h, ", "split": r"\(kp, ",
                "of 8 bits": r"shared As: [iu]8", "of f8": r"shared As: f8", "of f64": r"shared As: f64", "of tf32": "tf32 = true",
                "roles in a loop": r"for .*\{\n(    .*\n)*    specialize"},
    "call": {"fn": r"^fn ", "fn of tiles": r"= (both|greater|mixed)\(", "several kernels": r"^kernel g", "called twice": r"let r1 = check f",
             "choice": r" if .* else ", "chain": r"\w+ <=? \w+ <=? ", "iota": r"\biota\(", "fill": r"\bfill\(", "gemm": r"\bgemm\(",
             "print": r"\bprint\(", "assert": r"\bassert ", "keepdims": "keepdims", "reverse": "reverse", "exclusive": "exclusive",
             "cumsum": "cumsum", "cummax": "cummax", "copy signal": "signal = ", "arrive": r"\barrive\(", "wait": r"\bwait\(",
             "if, else if": r"\} else if ", "whole-tile source": r"copy\(\(", "transposed source": r"copy\(\w+\.T"},
}
WORDS = ("let", "var", "shared", "fragment", "local", "barrier", "grid", "layout", "for", "while", "if", "break", "continue",
         "return", "assert", "specialize")


def rows(name, pattern):
    with open(os.path.join(SRC, name)) as f:
        return re.findall(pattern, f.read(), re.M)


def constructs():
    """(group, name, regular expression of what has it)."""
    out = []
    for kind, name in rows("ops/ops.def", r'^(PURE|REDUCE|ATOMIC)\(\w+, "(\w+)"') + \
            [("PURE", m) for m in rows("ops/ops.def", r"^MATH\(\w+, (\w+)")]:
        if name not in ("const", "var", "ex2", "rcp", "tid", "lane", "warp", "desc", "prmt", "atomic_inc") and \
                not re.match(r"blocks?_[xyz]|pack_|low_|high_", name):
            out.append((kind.lower(), name, SIGN.get(name, rf"\b{name}\(")))
    out += [("type", d, rf"\b{d}\b") for d in rows("base/dtypes.def", r'^DTYPE\(\w+, "(\w+)"')]
    out += [("statement", w, rf"^ *{w}\b|[{{] *{w}\b") for w in WORDS]
    out += [("assignment", s, re.escape(s)) for s in ("+=", "-=", "*=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>=", "/=")]
    return out + [(g, n, p) for g, forms in FORMS.items() for n, p in forms.items()]


def table(texts):
    found = []
    for group, name, pattern in constructs():
        have = re.compile(pattern, re.M)
        found.append((sum(1 for t in texts if have.search(t)), group, name))
    return "".join(f"{n:6d}  {group}: {name}\n" for n, group, name in sorted(found))
