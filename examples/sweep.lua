#!/usr/bin/env tilesh
-- A program around a kernel, in Lua: every choice of tile sizes is checked and timed, the best is
-- printed. Tile sizes never change what a kernel means, so all of them must give the same result.
local m = tile.eval [[
kernel matmul[BM = 32, BN = 32, BK = 32](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
  grid bx, by = ceildiv(N, BN), ceildiv(M, BM)
  shared As: f32[BM, BK], Bs: f32[BK, BN]
  fragment acc: f32[BM, BN] = 0
  for k in pipelined(ceildiv(K, BK), 2) {
    copy(A[by*BM, k*BK], As)
    copy(B[k*BK, bx*BN], Bs)
    acc += As @ Bs
  }
  copy(acc, C[by*BM, bx*BN])
}]]

local a, b = tile.randn("f32", 100, 70), tile.randn("f32", 70, 90)
local expected = tile.matmul(a, b)

local results = {}
for _, bm in ipairs{16, 32, 64} do
  for _, bk in ipairs{16, 32} do
    local kernel = m.matmul{BM = bm, BK = bk} -- a kernel too, with these settings
    assert(tile.allclose(kernel(a, b), expected, {rtol = 1e-4, atol = 1e-4}))
    local figures = tile.bench(kernel, {a, b}, {bursts = 5})
    results[#results + 1] = {bm = bm, bk = bk, ms = figures.ms}
  end
end

table.sort(results, function(x, y) return x.ms < y.ms end)
for i, r in ipairs(results) do
  io.stderr:write(string.format("%d. BM = %2d, BK = %2d: %.4f ms\n", i, r.bm, r.bk, r.ms))
end
print(#results .. " settings give the same product")
