-- A text that is raised again as it is keeps its status; one that Lua adds to is Lua's.
local ok, message = pcall(tile.eval, "let a = = 1")
error(message, 0)
