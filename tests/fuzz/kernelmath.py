"""Mathematics in random kernels: what one operand of a type may become.

In: a generator, the text of an operand, its type and bound. Out: (text, type, bound), or None where
the type has nothing of the kind. Always holds: in exact programs the result is an integer that the
type holds, however the function's own bits fall; in real ones no small difference becomes large.
"""
from kerneltype import FLOAT, INT, SIZE, fit, unsigned

# Of reals: {0} the operand, {d} its type. Slopes are at most about 4.
REAL = ("sin(clamp({0}, {d}(-4), {d}(4)))", "cos(clamp({0}, {d}(-4), {d}(4)))", "tan(clamp({0}, {d}(-1), {d}(1)))",
        "asin(clamp({0}, {d}(-0.5), {d}(0.5)))", "acos(clamp({0}, {d}(-0.5), {d}(0.5)))", "atan({0})", "atan2({0}, {d}(2))",
        "hypot({0}, {d}(1))", "sinh(clamp({0}, {d}(-1), {d}(1)))", "cosh(clamp({0}, {d}(-1), {d}(1)))", "tanh({0})",
        "sigmoid({0})", "erf({0})", "exp(min({0}, {d}(1)))", "exp2(min({0}, {d}(1)))", "expm1(min({0}, {d}(1)))",
        "log(abs({0}) + {d}(1))", "log2(abs({0}) + {d}(1))", "log1p(abs({0}))", "sqrt(abs({0}) + {d}(1))",
        "rsqrt(abs({0}) + {d}(1))", "cbrt(abs({0}) + {d}(1))", "fma({0}, {d}(0.5), {d}(1))", "({0} / {d}(3))",
        "({d}(1) / (abs({0}) + {d}(1)))", "pow(abs({0}) + {d}(1), {d}(0.5))", "abs({0})", "({0} * 0.5)", "-({0})",
        "where(isnan({0}) | isinf({0}), {d}(1), {0})")
# Of floats that hold integers: the result's bound.
WHOLE = (("round(sin({0}) * {d}(4))", 4), ("round(cos({0}) * {d}(4))", 4), ("floor(atan({0}) * {d}(3))", 5),
         ("trunc(tan(clamp({0}, {d}(-1), {d}(1))) * {d}(3))", 5), ("ceil(asin(clamp({0}, {d}(-1), {d}(1))) * {d}(2))", 4),
         ("floor(acos(clamp({0}, {d}(-1), {d}(1))))", 4), ("round(atan2({0}, {d}(2)))", 4), ("round(erf({0}) * {d}(5))", 5),
         ("trunc(sinh(clamp({0}, {d}(-2), {d}(2))))", 4), ("ceil(cosh(clamp({0}, {d}(-2), {d}(2))))", 4),
         ("round(tanh({0}) * {d}(4))", 4), ("round(sigmoid({0}) * {d}(4))", 4), ("floor(exp(min({0}, {d}(2))))", 8),
         ("exp2(clamp({0}, {d}(0), {d}(3)))", 8), ("round(expm1(min({0}, {d}(2))))", 8), ("floor(log(abs({0}) + {d}(1)))", 40),
         ("floor(log2(abs({0}) + {d}(1)))", 54), ("round(log1p(abs({0})))", 40), ("round(rsqrt(abs({0}) + {d}(1)) * {d}(6))", 6),
         ("round(cbrt(min(abs({0}), {d}(8))))", 4), ("floor(sqrt(min(abs({0}), {d}(16))))", 4),
         ("round(hypot(min(abs({0}), {d}(4)), {d}(1)))", 8), ("round(pow(min(abs({0}), {d}(3)), {d}(2)))", 10),
         ("round(min(abs({0}), {d}(8)) / {d}(3))", 4), ("where(isinf({0} / {d}(0)), {d}(1), {d}(2))", 2),
         ("where(isnan({0} / {d}(0)), {d}(1), {d}(3))", 3), ("where(isnan(sqrt({0})), {d}(2), {d}(3))", 3),
         ("where(isnan(log({0})), {d}(2), {d}(3))", 3), ("where(isinf(exp({0} * {d}(8))), {d}(2), {d}(1))", 2))
SAME = ("floor({0})", "round({0})", "trunc({0})", "ceil({0})", "where(isnan({0}) | isinf({0}), {d}(1), {0})",
        "fma({0}, {d}(1), {d}(0))", "({0} / {d}(1))", "bitcast({d}, bitcast({o}, {0}))")
# Of integers, with what wraps: any bound.
BITS = ("mulhi({0}, {d}(7))", "ceildiv({0}, {d}(3))", "bitcast({d}, bitcast({o}, {0}))", "({0} ** 2)", "pow({0}, {d}(2))",
        "({0} ** (({0}) & {d}(3)))", "~({0})", "({0} << ({0}))", "({0} >> ({0} & {d}(7)))", "({0} // (({0} & {d}(3)) + {d}(1)))",
        "({0} % (({0} & {d}(3)) + {d}(1)))", "mulhi({0}, ~({0}))")
NARROW = ("f8e4m3", "f8e5m2")


def twin(d):
    """An integer type of the same bits."""
    if d in FLOAT:
        return "ui"[SIZE[d] > 1] + str(8 * SIZE[d])
    return ("i" if unsigned(d) else "u") + d[1:]


def integer(g, x, d, bound):
    how = g.r.random()
    if how < 0.25:
        f, n = g.pick(("{d}(popcount({0}))", 64), ("{d}(clz({0}))", 64))
        return f.format(x, d=d), d, lambda env: (bound(env), n)[1]
    if how < 0.4:  # a conversion that saturates: fractions, and beyond the type
        f = g.pick("f32", "f64", "f16")
        return f"{d}({f}({x}) * {f}({g.pick('37.5', '-1000.25', '3e4', '0.3')}))", d, lambda env: (bound(env), INT[d])[1]
    return g.pick(*BITS).format(x, d=d, o=twin(d)), d, lambda env: (bound(env), INT[d])[1]


def whole(g, x, d, bound):
    """Of a float that holds an integer."""
    if g.chance(0.4):
        f = g.pick(*SAME)
        return f.format(x, d=d, o=twin(d)), d, bound
    f, n = g.pick(*WHOLE)
    if d in NARROW:
        n = min(n, FLOAT[d])

    def most(env):
        bound(env)
        return fit(d, n)
    return f.format(x, d=d), d, most


def applied(g, x, d, bound):
    if x[0] in "-~":
        x = f"({x})"  # a power binds closer than a sign
    if d in INT and not g.real:
        return integer(g, x, d, bound)
    if d not in FLOAT:
        return None
    if not g.real:
        return whole(g, x, d, bound)
    return ("abs({0})" if d in NARROW else g.pick(*REAL)).format(x, d=d), d, lambda env: 0
