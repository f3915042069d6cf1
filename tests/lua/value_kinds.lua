-- Values of the language in Lua and back.
local m = tile.eval [=[
let i = 3
let f = 2.5
let b = true
let s = "text"
let l = [1, [2, 3]]
let t = (1, "x")
let d = f16
let n = nil
fn same(x) { return x }
fn pair(x) { return x, "two" }
fn kind(x) { return x.dtype }
fn add(a, b) { return a + b }
]=]
print(m.i, m.f, m.b, m.s, m.l[2][1], m.t[2], m.d, m.n, math.type(m.i), math.type(m.f))
for _, v in ipairs{1, 1.5, true, "str"} do print(m.same(v)) end
print(m.same(nil), m.same({1, 2})[2], #m.same({}), m.same(print) == print, m.same(m.same))
local t = {x = 1}
print(m.same({t})[1] == t, m.pair(1))
print(m.add("a", "b"), m.add(1, {b = 2}), m.kind(tile.ones("f16", 1)))
print(pcall(m.add, 1))
print(pcall(m.add, 1, {c = 2}))
print(pcall(m.add, 1, "x"))
print(pcall(m.same, setmetatable({}, {__index = error}), 2))
local deep = {}
for _ = 1, 100 do deep = {deep} end
print(pcall(m.same, deep))
local args = {}
for i = 1, 40 do args[i] = i end
print(pcall(m.same, table.unpack(args)))
