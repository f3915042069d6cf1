-- Kernels from source text: calls, settings, named arguments, outputs given.
-- flags: --device cpu
local m = tile.eval [[
kernel add[BM = 64](A: f32[N], B: f32[N]) -> (C: f32[N]) {
  grid b = ceildiv(N, BM)
  for i in parallel(BM) { if b * BM + i < N { C[b * BM + i] = A[b * BM + i] + B[b * BM + i] } }
}
kernel both(A: f32[N], s: f32) -> (P: f32[N], M: f32[N]) {
  for i in parallel(N) { P[i] = A[i] + s; M[i] = A[i] - s }
}
let three = 3
fn half(x: f32) -> f32 { return x / 2 }
]]
local x, y = tile.ones("f32", 5), tile.arange("f32", 5)
print(m.add(x, y))
print(m.add{BM = 32}(x, y))
print(m.add(x, {B = y}))
local c = tile.zeros("f32", 5)
print(m.add(x, y, {out = c}):sum() == c:sum(), c)
print(rawequal(m.add(x, y, {out = c}), c), rawequal(m.add(x, {B = y, out = c}), c), rawequal(m.add(x, y), c))
local p, q = m.both(y, 10)
print(p, q)
print(m.three, m.half(5), m.half(y))
print(m.add.name, m.add, m.half)
