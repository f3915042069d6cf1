-- load, import, eval, globals, device, require.
-- flags: --device cpu
assert(require "tile" == tile)
local part = tile.load("parts/part.tile")
print(part.three, part.add(tile.ones("f32", 2), tile.ones("f32", 2)))
part = tile.import("parts/part.tile")
print(part.three, tile.import("parts/glue.lua").answer)
print(tile.eval("let a = 1 + 2").a, next(tile.eval("print(5)")))
print(tile.globals.nothing, tile.device())
tile.globals.from_lua = 7
print(tile.globals.from_lua, from_lua)
tile.use_device("cpu")
tile.sync()
print(pcall(tile.use_device, "tpu"))
print(pcall(tile.load))
print(pcall(tile.load, "a\0b"))
print(pcall(function() tile.globals["no name"] = 1 end))
print(pcall(function() tile.globals[1] = 1 end))
print(#args, arg[0], ...)
