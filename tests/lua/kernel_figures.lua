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
print(pcall(tile.bench, m.add, {x, x}, {bursts = -1}))
print(pcall(tile.bench, m.add, {x, x}, {burst = 1}))
print(pcall(function() return m.add.nothing end))
