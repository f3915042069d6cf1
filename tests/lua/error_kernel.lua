-- An uncaught error of a kernel: its own text and exit status, then Lua's stack.
-- flags: --device cpu
local m = tile.eval [[
kernel at(A: f32[N], i: i32) -> (C: f32[N]) {
  for k in parallel(N) { C[k] = A[i] }
}]]
local x = tile.ones("f32", 4)
print(m.at(x, 3):sum())
local function call(i) return m.at(x, i), i end
call(4)
