-- part of kernels, which starts it: runs the programs of a list, one after the other, in one
-- process.
--
-- In: a file of lines `SEED PATH`. Out: a line `seed SEED begin`, then `seed SEED end ` and `ok`
-- with what was run and the greatest difference, or `fail` with the words; kernels reads them.
local tile = require "tile"
local gate = arg[2] == "gate"

local function one(text, calls)
  local m = tile.eval(text)
  if gate then
    local a = {}
    for name in calls:gmatch("[^ ,]+") do a[#a + 1] = m[name] or tonumber(name) end
    local before = m.f:source("lowered", table.unpack(a))
    m.f:source("cubin", table.unpack(a))
    assert(m.f:source("lowered", table.unpack(a)) == before, "the gate refused the first schedule")
  end
  return m.r
end

for line in io.lines(arg[1]) do
  local seed, path = line:match("(%S+) (.*)")
  local file = io.open(path)
  local text = file:read("a")
  file:close()
  print("seed " .. seed .. " begin")
  io.flush()
  local ok, r = pcall(one, text, text:match("check f%((.*)%)"))
  local words = ok and string.format("%s %s %s", r.ok, r.max_abs, r.runs) or tostring(r)
  print("seed " .. seed .. " end " .. (ok and "ok " or "fail ") .. words:gsub("\\", "\\\\"):gsub("\n", "\\n"))
  io.flush()
  collectgarbage()
end
