-- Microseconds of a warm call from a Lua loop: with out =, with an output of its own, of nothing;
-- best of five rounds of 1000.
local m = tile.eval [[
kernel add(X: f32[N], Y: f32[N]) -> (Z: f32[N]) {
  grid b = ceildiv(N, 1024)
  for i in parallel(1024) {
    if b*1024 + i < N { Z[b*1024 + i] = X[b*1024 + i] + Y[b*1024 + i] }
  }
}
fn nothing(a, b) { }
]]
local add, nothing, time = m.add, m.nothing, tile.time
local x, y = tile.ones("f32", 1024), tile.ones("f32", 1024)
local z = add(x, y)
local given = {out = z}

local function best(call)
  local least = math.huge
  for _ = 1, 5 do
    local begin = time()
    for _ = 1, 1000 do call(x, y, given) end
    least = math.min(least, (time() - begin) * 1e3)
    assert(tile.all(tile.eq(z, 2)))
  end
  return least
end

print(string.format("a warm call from Lua takes %.3f us with out =, %.3f us with a new output; an empty function %.3f",
  best(function(a, b) add(a, b, given) end), best(function(a, b) return add(a, b) end),
  best(function(a, b) nothing(a, b) end)))
