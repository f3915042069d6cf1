-- Kernels and functions called inside coroutines; errors and calls back stay there.
local m = tile.eval "fn apply(f, x) { return f(x) }"
local co = coroutine.wrap(function(x)
  for _ = 1, 3 do
    x = coroutine.yield(m.apply(function(y) return y + 1 end, x))
  end
end)
print(co(1), co(10), co(100))
local bad = coroutine.create(function() return tile.reshape(tile.ones("f32", 3), 2) end)
print(coroutine.resume(bad))
local yields = coroutine.create(function() m.apply(coroutine.yield, 1) end)
print(coroutine.resume(yields))
