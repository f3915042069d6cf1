local e = setmetatable({}, {__tostring = function() return "an object with words" end})
print(pcall(error, e))
print(tile.ones("i32", 2))
error(e)
