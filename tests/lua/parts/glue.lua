-- part of import_lua.tile and others
local M = {answer = 42, name = "glue"}
function M.double(x) return x * 2 end
function M.two(a, named) return a + 1, (named or {}).n end
function M.apply(f, x) return f(x) end
function M.sum(list)
  local s = 0
  for _, v in ipairs(list) do s = s + v end
  return s
end
function M.broken(x)
  local t = nil
  return t.x
end
function M.reshape(t)
  return require("tile").reshape(t, 7, 7)
end
return M
