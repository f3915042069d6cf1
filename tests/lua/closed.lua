-- Values can be closed; what is left says so. Their metamethods refuse other things.
do
  local t <close> = tile.ones("f32", 2)
  held = t
end
print(pcall(function() return held.shape end))
print(pcall(function() return held + 1 end))
print(getmetatable(tile.ones("f32", 1)))
local meta = debug.getmetatable(tile.ones("f32", 1))
for _, name in ipairs{"__gc", "__tostring", "__index", "__len", "__add"} do
  print(name, pcall(meta[name], 1, 2))
end
