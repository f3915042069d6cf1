-- To tables and back; every kind of element.
local t = tile.tensor("f32", {{1, 2}, {3, 4.5}}):table()
print(#t, #t[1], t[1][2], t[2][2], math.type(t[1][1]))
print(math.type(tile.tensor("i64", {5}):table()[1]), tile.tensor("bool", {true}):table()[1])
print(tile.full("u64", 3, 1):table()[1], tile.tensor("f64", 2.5):table(), #tile.zeros("f32", 0):table())
local big = tile.eval "let x = tensor(u64, [18446744073709551615])"
print(big.x:table()[1], big.x[0])
print(tile.tensor("f32", t))
local it = tile.tensor("i32", {{1, 2}, {3, 4}})
local back = tile.tensor("i32", it.T:table())
print(back)
print(pcall(it.table, 5))
print(pcall(it.to, it, "x"))
print(pcall(it.to))
