local tile = require "tile"
local a = tile.zeros("float32", 4)
