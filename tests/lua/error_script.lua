-- An uncaught error of Lua.
local function f(t)
  return t.x.y
end
print("before")
f({})
