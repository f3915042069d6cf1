"""Random kernels gone wrong: a legal program with a few places changed.

In: a text and a random generator. Out: a text that may be illegal, may fault, or may be another legal
program. Always holds: what fails of it says so by a diagnostic at tile level; what does not is the same
at every level, so that neither a crash nor a difference is the program's own fault.
"""
import re

SWAPS = (("shared", "fragment"), ("range", "pipelined", "unroll"), ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"), ("<", "<=", ">", ">=", "==", "!="),
         ("max", "min", "sum", "prod", "argmax", "cumsum"), ("axis = 0", "axis = 1"), ("0:", "1:", "2:"), (".T", ""), ("true", "false"),
         ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"),
         ("atomic_add", "atomic_max", "atomic_xor"), ("break", "continue", "return"), ("+=", "-=", "=", "*="))


def places(text, word):
    """Where a word stands by itself."""
    before, after = (r"(?<![\w.])", r"(?!\w)") if word[:1].isalnum() else (r"(?<=[\w)\]])", "") if word == ".T" else ("(?<= )", "(?= |$)")
    return list(re.finditer(before + re.escape(word) + after, text, re.M)) if word else []


def number(text, r):
    found = list(re.finditer(r"(?<![\w.])\d+\b", text))
    if not found:
        return text
    m = r.choice(found)
    n = int(m.group())
    return text[:m.start()] + str(r.choice((0, 1, 2, n + 1, max(n - 1, 0), 2 * n, n // 2, n + 7))) + text[m.end():]


def word(text, r):
    group = r.choice(SWAPS)
    found = [m for w in group for m in places(text, w)]
    if not found:
        return text
    m = r.choice(found)
    return text[:m.start()] + r.choice(group) + text[m.end():]


def name(text, r):
    """A name becomes another one of its kind."""
    names = sorted(set(re.findall(r"\b[a-zA-Z]+\d*\b", text)))
    pairs = [(x, y) for x in names for y in names if x != y and len(x) > 1 and x.rstrip("0123456789xyz") == y.rstrip("0123456789xyz") and not places(x, "f64")]
    if not pairs:
        return text
    x, y = r.choice(pairs)
    m = r.choice(places(text, x))
    return text[:m.start()] + y + text[m.end():]


def line(text, r):
    """A line away, twice, or changed for the next one."""
    lines = text.split("\n")
    k = next(i for i, x in enumerate(lines) if x.startswith("kernel"))
    flat = [i for i in range(k + 1, len(lines) - 1) if lines[i].count("{") == lines[i].count("}") and lines[i].startswith("  ")]
    if not flat:
        return text
    i, how = r.choice(flat), r.randint(0, 2)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(i, lines[i])
    elif i + 1 in flat:
        lines[i], lines[i + 1] = lines[i + 1], lines[i]
    return "\n".join(lines)


def mutated(text, r):
    for _ in range(r.randint(1, 3)):
        text = r.choice((number, number, word, word, name, line))(text, r)
    return text
