"""The types of random kernels, and the greatest magnitudes that keep their numbers exact.

In: types of the language and magnitudes. Out: the bound of a conversion or of a result, or Overflow
where it might not be exact. Always holds: integers wrap, so that any bound of theirs is one; floats
hold integers up to FLOAT of them.
"""

FLOAT = {"f64": 2**53, "f32": 2**24, "f16": 2**11, "bf16": 2**8, "f8e4m3": 2**4, "f8e5m2": 2**3}
INT = {"i8": 2**7, "i16": 2**15, "i32": 2**31, "i64": 2**63, "u8": 2**8, "u16": 2**16, "u32": 2**32, "u64": 2**64}
RANK = {d: i for i, d in enumerate(("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"))}
SIZE = {"bool": 1, "i8": 1, "u8": 1, "f8e4m3": 1, "f8e5m2": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4,
        "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


class Overflow(Exception):
    """A value may not be exact any more: the statement is not taken."""


def unsigned(d):
    return d[0] == "u"


def fit(d, b):
    """The bound of a value of type d that would be at most b by magnitude: integers wrap."""
    if d in FLOAT:
        if b > FLOAT[d]:
            raise Overflow
        return b
    return b if d == "bool" or b < INT[d] else INT[d]


def convert(d, have, b):
    if d == "bool":
        return 1
    if d in INT and unsigned(d) and have in INT and not unsigned(have):
        return INT[d]
    return fit(d, b)


def meet(a, b):
    """The type of an operation on a and b; None where the language has none."""
    if a == b:
        return a
    if "bool" in (a, b):
        return None
    if a in FLOAT and b in FLOAT:
        return "f32" if RANK[a] < 4 and RANK[b] < 4 else a if RANK[a] > RANK[b] else b
    if a in FLOAT or b in FLOAT:
        return a if a in FLOAT else b
    wide, other = (a, b) if SIZE[a] > SIZE[b] else (b, a)
    if unsigned(a) != unsigned(b) and (SIZE[a] == SIZE[b] or unsigned(wide)):
        return None
    return wide if unsigned(wide) == unsigned(other) or not unsigned(wide) else None


class Expr:
    """Text, type, shape; bound(env) gives the greatest magnitude, or raises Overflow."""

    def __init__(self, text, dtype, shape, bound):
        self.text, self.dtype, self.shape, self.bound = text, dtype, tuple(shape), bound


class Tile:
    def __init__(self, name, dtype, shape, space):
        self.name, self.dtype, self.shape, self.space = name, dtype, tuple(shape), space


class Tensor:
    """axes: (extent, name in the kernel)."""

    def __init__(self, name, dtype, axes):
        self.name, self.dtype, self.axes = name, dtype, axes
        self.written = None  # the type's name in the head, where it has one
        self.inout, self.start = False, None
        self.given = None  # the text of its argument, where there is one already

    def declare(self):
        axes = ", ".join(("static " if n[0] == "D" else "") + n for _, n in self.axes)
        return f"{self.name}: {self.written or self.dtype}[{axes}]"
