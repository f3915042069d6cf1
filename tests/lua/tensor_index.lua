-- Indices count from 0 as in the language; slices are views.
local t = tile.tensor("i32", {{1, 2, 3}, {4, 5, 6}})
print(t[{0, 2}], t[{-1, -1}], t[1], t[{1}], t[{":", 0}], t[{{0, 1}, {1}}], t[{0, "::-1"}], t["1"])
print(t[{"None", 0, 1}], t[{{nil, nil, -1}, 1}])
t[{0, 0}] = 10
t[{1}] = t[{0}]
t[{":", 2}] = 7
print(t)
local row = t[1]
row[0] = -1
print(t[{1, 0}], row)
t["0"] = 0
print(t, t.T, t.T.shape[1])
print(pcall(function() return t[{2, 0}] end))
print(pcall(function() return t[{0, 0, 0}] end))
print(pcall(function() return t[{0, 1.5}] end))
print(pcall(function() return t["x"] end))
print(pcall(function() return t[{"1:y"}] end))
print(pcall(function() return t[true] end))
print(pcall(function() t.name = 1 end))
print(pcall(function() t[{0}] = {1, 2} end))
for i, x in ipairs(tile.tensor("f32", {1.5, 2.5})) do print(i, x) end
for i, r in pairs(tile.tensor("i32", {{1, 2}, {3, 4}})) do r[0] = 9; print(i, r, #r) end
for i, x in ipairs(tile.zeros("f32", 0)) do print("none") end
for i, x in ipairs({"a", "b"}) do print(i, x) end
print(pcall(ipairs, tile.tensor("f32", 1)))
print(pcall(ipairs))
local step, over = ipairs(tile.zeros("f32", 3))
print(select("#", step(over, math.maxinteger)), step(over, 1))
