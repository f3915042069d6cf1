-- check, bench, source.
local m = tile.eval [[
kernel add(A: f32[N], B: f32[N]) -> (C: f32[N]) { for i in parallel(N) { C[i] = A[i] + B[i] } }
kernel racy(A: inout f32[N]) { for i in parallel(N) { A[i] = A[i] + 1 } }
]]
local x = tile.ones("f32", 8)
local r = tile.check(m.add, {x, x})
print(r.ok, r.max_abs, r.max_rel, #r.where)
print(tile.check(m.racy, {x}).ok, x:sum(), tile.check(m.add, {x, B = x}).ok)
local b = tile.bench(m.add, {x, x}, {bursts = 5})
print(b.ms > 0, b.min_ms <= b.max_ms, b.gbps > 0, b.tflops > 0, b.spread >= 0)
for _, stage in ipairs{"ir", "scheduled", "lowered", "cuda"} do
  local text = m.add:source(stage, x, x)
  print(stage, #text > 100, text:find("add") ~= nil)
end
print(m.add:source() == m.add:source("ir", x, x))
print(pcall(m.add.source, m.add, "nonsense"))
print(pcall(tile.check, m.add, {x}))
print(pcall(tile.check, 3))
print(pcall(tile.bench, m.add, 3))
for _, n in ipairs{-1, 0, 10001, 1.5, 1 / 0, -1 / 0, 2^53, math.mininteger, "3", true} do
  print(pcall(tile.bench, m.add, {x, x}, {bursts = n}))
end
print(select(2, pcall(tile.bench, m.add, {x, x}, {bursts = 0 / 0})):gsub("%-?nan", "NaN"))
print(tile.bench(m.add, {x, x}, {bursts = 2.0}).ms > 0, tile.bench(m.add, {x, x}, {}).ms > 0)
print(pcall(tile.check, m.add, {x, x}, {tol = 1}))
print(pcall(tile.bench, m.add, {x, x}, {burst = 1}))
print(pcall(function() return m.add.nothing end))
-- Products count in the roles of `specialize` as they do outside.
local p = tile.eval [[
kernel product(A: f16[64, K], B: f16[K, 64]) -> (C: f32[64, 64]) {
  shared As: f16[2, 64, 64], Bs: f16[2, 64, 64]
  fragment acc: f32[64, 64] = 0
  barrier full[2], empty[2]
  specialize {
    producer(warpgroups = 1) {
      for k in range(ceildiv(K, 64)) {
        wait(empty[k % 2], k // 2 + 1)
        copy(A[0, k*64], As[k % 2], signal = full[k % 2])
        copy(B[k*64, 0], Bs[k % 2], signal = full[k % 2])
      }
    }
    consumer(warpgroups = 1) {
      for k in range(ceildiv(K, 64)) {
        wait(full[k % 2], k // 2)
        acc += As[k % 2] @ Bs[k % 2]
        arrive(empty[k % 2])
      }
      copy(acc, C[0, 0])
    }
  }
}
]]
local f = tile.bench(p.product, {tile.ones("f16", 64, 192), tile.ones("f16", 192, 64)}, {bursts = 1})
print(math.floor(f.tflops * f.ms * 1e9 + 0.5), 2 * 64 * 64 * 192)
