-- flags: --safe
print(os, io, package, debug, dofile, loadfile)
print(require "tile" == tile, require "string" == string)
print(pcall(require, "glue"))
print(load(string.dump(function() end)))
print(load("return 1 + 1")(), load("return x", "chunk", "b", {x = 5})())
print(tile.ones("i32", 2))
