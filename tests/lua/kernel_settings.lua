-- k{…} sets compile-time parameters: numbers, dtypes by name, strings.
-- flags: --device cpu
local m = tile.eval [[
kernel scale[BM = 4, E: dtype = f32, mode = "twice"](A: E[N]) -> (C: E[N]) {
  for i in parallel(N) {
    if mode == "twice" { C[i] = A[i] * E(2) } else { C[i] = A[i] * E(BM) }
  }
}
kernel needs[K: int](A: f32[N]) -> (C: f32[N]) { for i in parallel(N) { C[i] = A[i] + K } }
]]
local x = tile.ones("f32", 2)
print(m.scale(x), m.scale{mode = "other"}(x), m.scale{mode = "other"}{BM = 8}(x))
print(m.scale{E = "f16"}(tile.ones("f16", 2)), m.needs{K = 3}(x))
print(pcall(function() return m.scale{BN = 4} end))
print(pcall(function() return m.scale{4} end))
print(pcall(m.needs, x))
print(pcall(m.scale, tile.ones("f32", 2, 2)))
print(pcall(m.scale, {x}))
print(pcall(m.scale))
print(pcall(m.scale, x, {out = tile.ones("f32", 3)}))
print(pcall(m.scale, x, {B = 1}))
