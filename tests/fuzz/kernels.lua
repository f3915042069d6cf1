-- part of kernels, which starts it: runs the programs of a list, one after the other, in one
-- process.
--
-- In: a file of lines `SEED PATH`. Out: a line `seed SEED begin`, then `seed SEED end ` and `ok`
-- with what was run and the greatest difference, or `fail` with the words; kernels reads them.
local tile = require "tile"
local gate = arg[2] == "gate"

local function gates(m, name, settings, calls)
  local a, k = {}, m[name]
  for word in calls:gmatch("[^ ,()]+") do
    if word == "out" then break end
    a[#a + 1] = m[word] or tonumber(word)
  end
  local set = {}
  for n, v in settings:gmatch("(%w+) = (%w+)") do set[n] = tonumber(v) or v end
  if next(set) then k = k(set) end
  local before = k:source("lowered", table.unpack(a))
  k:source("cubin", table.unpack(a))
  assert(k:source("lowered", table.unpack(a)) == before, "the gate refused the first schedule")
end

-- Each `let rN = check k[…](…)` of the text.
local function one(text)
  local m = tile.eval(text)
  local ok, most, runs = true, 0, ""
  for r, k, rest in text:gmatch("let (r%d*) = check (%w+)([^\n]*)") do
    local settings, calls = rest:match("^(%b[])(.*)$")
    if gate then gates(m, k, settings or "", calls or rest) end
    ok, runs = ok and m[r].ok, m[r].runs .. runs
    if not (m[r].max_abs <= most) then most = m[r].max_abs end
  end
  assert(runs ~= "", "no check")
  return { ok = ok, max_abs = most, runs = runs }
end

for line in io.lines(arg[1]) do
  local seed, path = line:match("(%S+) (.*)")
  local file = io.open(path)
  local text = file:read("a")
  file:close()
  print("seed " .. seed .. " begin")
  io.flush()
  local ok, r = pcall(one, text)
  local words = ok and string.format("%s %s %s", r.ok, r.max_abs, r.runs) or tostring(r)
  print("seed " .. seed .. " end " .. (ok and "ok " or "fail ") .. words:gsub("\\", "\\\\"):gsub("\n", "\\n"))
  io.flush()
  collectgarbage()
end
