-- t:write and tile.read.
local path = os.tmpname()
os.remove(path)
path = path .. ".npy"
local t = tile.tensor("f32", {{1, 2}, {3, 4}})
t:write(path)
print(tile.read(path))
tile.write(path, t.T)
print(tile.read(path)[{0, 1}])
os.remove(path)
print(pcall(tile.read, "nothere.npy"))
print(pcall(t.write, t, "x.png"))
print(pcall(t.write, t))
