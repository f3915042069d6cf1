-- part of sweep, which starts it: runs the cases of a list, one after the other, in one process.
--
-- In: a file of cases, each a line `case N` and the lines of a program that leaves `said`, what is wrong
-- with its results ("" if nothing). Out: a line `begin N`, then `end N ` and `ok`, or what is wrong.
-- With `list` after it, the names of files of the library in place of that: a line `FILE NAME` for each
-- kernel in them, once.
local tile = require "tile"

if arg[2] == "list" then
  for name in arg[1]:gmatch("%S+") do
    for item, v in pairs(tile.load(name)) do
      if tostring(v) == "kernel " .. item then print(name:match("([^/]+)%.tile$"), item) end
    end
  end
  return
end

local function run(n, lines)
  print("begin " .. n)
  io.flush()
  local ok, m = pcall(tile.eval, table.concat(lines, "\n"))
  local said = not ok and tostring(m) or m.said == "" and "ok" or m.said
  print("end " .. n .. " " .. said:gsub("\\", "\\\\"):gsub("\n", "\\n"))
  io.flush()
  m = nil
  collectgarbage()
end

local n, lines
for line in io.lines(arg[1]) do
  local next = line:match("^case (%d+)$")
  if next then
    if n then run(n, lines) end
    n, lines = next, {}
  else
    lines[#lines + 1] = line
  end
end
if n then run(n, lines) end
