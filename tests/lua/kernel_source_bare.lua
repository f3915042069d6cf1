-- The text of a kernel that no argument was given for, at every level.
local tile = require "tile"
local m = tile.eval [[
kernel twice[T = 8](A: f32[N]) -> (B: f32[N]) {
  grid b, c = ceildiv(N, T), 3
  fragment x: f32[T]
  copy(A[b*T], x)
  copy(x * 2.0, B[b*T])
}]]
for _, stage in ipairs{"ir", "scheduled", "lowered", "cuda"} do
  print(stage, m.twice:source(stage):find("twice", 1, true) ~= nil)
  print(stage, m.twice{T = 4}:source(stage):find("twice", 1, true) ~= nil)
end
