-- Recursion without an end, in Lua and through both languages.
local function f(n) return 1 + f(n + 1) end
print(pcall(f, 1))
local m = tile.eval "fn again(f) { return f(f) }"
local function g() return 1 + m.again(g) end
local ok, message = pcall(g)
print(ok, (message:gsub("\n.*", "")))
print(pcall(string.rep, "x", -1), tile.ones("i32", 2))
