"""Makes a failing program small.

In: its text and a test that says whether a text still fails in the same way. Out: a text that does,
from which nothing of what is tried here can be taken: blocks, lines, numbers, types, knobs, operands.
Works on text alone, since a cut that is not legal fails in another way and is not kept.
"""
import re
import time

TYPES = r"\b(f64|f16|bf16|f8e4m3|f8e5m2|i8|i16|i64|u8|u16|u32|u64|bool)\b"


def closing(lines, i):
    """The line where the block that opens at the end of line i closes."""
    depth = 0
    for k in range(i, len(lines)):
        depth += lines[k].count("{") - lines[k].count("}")
        if depth <= 0:
            return k
    return len(lines) - 1


def blocks(lines):
    """Whole blocks away; a block replaced by its body."""
    for i, line in enumerate(lines):
        if line.rstrip().endswith("{") and not line.startswith(("kernel", "fn")) and "}" not in line:
            k = closing(lines, i)
            yield lines[:i] + lines[k + 1:]
            if "for" not in line:
                yield lines[:i] + [x for x in lines[i + 1:k] if "} else" not in x] + lines[k + 1:]


def single(lines):
    for n in (8, 4, 2, 1):
        for i in range(len(lines) - n, -1, -1):
            cut = lines[i:i + n]
            if any(x.startswith(("kernel", "}")) for x in cut):
                continue
            if sum(x.count("{") - x.count("}") for x in cut) == 0:
                yield lines[:i] + lines[i + n:]


def operands(lines):
    """A bracketed operation becomes one of its operands; a call its argument."""
    for i, line in enumerate(lines):
        for m in re.finditer(r"\(", line):
            depth, parts, start, end = 0, [], m.end(), None
            for k in range(m.end() - 1, len(line)):
                depth += (line[k] in "([{") - (line[k] in ")]}")
                if depth == 1 and (line[k] == "," or re.match(r" [-+*/&|^<>=!@%]+ | else | if ", line[k:])):
                    parts.append(line[start:k])
                    start = k + (1 if line[k] == "," else re.match(r" [^ ]+ ", line[k:]).end())
                if depth == 0:
                    parts.append(line[start:k])
                    end = k + 1
                    break
            if end is None:
                continue
            name = re.search(r"~?-?\w*$", line[:m.start()]).start()
            if line[name:m.start()] in ("copy", "parallel", "range", "pipelined", "f"):
                continue
            for p in parts:
                yield lines[:i] + [line[:name] + p.strip() + line[end:]] + lines[i + 1:]


def numbers(lines):
    text = "\n".join(lines)
    for n in sorted({int(x) for x in re.findall(r"(?<![\w.])\d+\b", text)}, reverse=True):
        for m in {0, 1, 2, 8, 16, n // 2, n - 1}:
            if 0 <= m < n:
                yield re.sub(rf"(?<![\w.]){n}\b", str(m), text).split("\n")
    for m in list(re.finditer(r"(?<![\w.])\d+\b", text)):
        n = int(m.group())
        for v in (0, 1, n // 2):
            if v < n:
                yield (text[:m.start()] + str(v) + text[m.end():]).split("\n")


def words(lines):
    """Types to f32 or i32, knobs and views away, loops to the plain kind."""
    text = "\n".join(lines)
    for d in sorted(set(re.findall(TYPES, text))):
        for other in ("f32", "i32"):
            yield re.sub(rf"\b{d}\b", other, text).split("\n")
    for pattern, to in ((r", threads = \d+", ""), (r", raster = \w+\(\d+\)", ""), (r", policy = \"\w+\"", ""),
                        (r", pad = \d+", ""), (r"\)\.T$", ")"), (r"\)(\.to\(\w+\))?\[[^\]]*\]$", r")\1"),
                        (r"pipelined\((\d+)(, \d+)?\)", r"range(\1)"), (r"unroll\(", "range("),
                        (r"\bshared\b", "fragment"), (r"\bfragment\b", "shared"), (r" = \d+$", " = 0")):
        for m in list(re.finditer(pattern, text, re.M)):
            yield (text[:m.start()] + m.expand(to) + text[m.end():]).split("\n")


def parameters(lines):
    """A parameter and its argument away."""
    k = next((i for i, x in enumerate(lines) if x.startswith("kernel f(")), None)
    r = next((i for i, x in enumerate(lines) if x.startswith("let r")), None)
    if k is None or r is None:
        return
    m = re.match(r"kernel f\((.*)\) -> \((.*)\) \{$", lines[k])
    c = re.match(r"let r = check f\((.*)\)$", lines[r])
    if not m or not c:
        return
    split = lambda s: re.split(r", (?![^\[]*\])", s) if s else []
    ins, outs, args = split(m.group(1)), split(m.group(2)), split(c.group(1))

    def made(i, o, a):
        head = f"kernel f({', '.join(i)}) -> ({', '.join(o)}) {{"
        new = lines[:k] + [head] + lines[k + 1:r] + [f"let r = check f({', '.join(a)})"] + lines[r + 1:]
        return new
    for i in range(len(ins)):
        if i < len(args):
            yield made(ins[:i] + ins[i + 1:], outs, args[:i] + args[i + 1:])
    for i in range(len(outs)):
        if len(outs) > 1:
            yield made(ins, outs[:i] + outs[i + 1:], args)


def shrink(text, same, until):
    lines = text.rstrip("\n").split("\n")
    seen = set()

    def good(new):
        t = "\n".join(new) + "\n"
        if t in seen or time.time() > until:
            return False
        seen.add(t)
        return same(t)
    again = True
    while again and time.time() < until:
        again = False
        for way in (blocks, single, parameters, operands, words, numbers):
            found = True
            while found and time.time() < until:
                found = False
                for new in way(lines):
                    if new != lines and good(new):
                        lines, found, again = new, True, True
                        break
    return "\n".join(lines) + "\n"
