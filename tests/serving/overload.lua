-- For wrk with one connection a thread: times every answer, and keeps those that were accepted
-- apart from those that were refused. About PAUSE_MS is waited before each request but the first;
-- what is asked within the first second, when all connections begin at once, is not counted.
local ffi = require("ffi")
ffi.cdef[[typedef struct { long s; long ns; } timespec_t; int clock_gettime(int, timespec_t *);]]
local now = ffi.new("timespec_t")
local function milliseconds()
  ffi.C.clock_gettime(1, now)
  return tonumber(now.s) * 1e3 + tonumber(now.ns) / 1e6
end

local file = io.open(os.getenv("BODY"), "rb")
wrk.body = file:read("*a")
file:close()
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-Request-Deadline-Ms"] = os.getenv("DEADLINE_MS")

local threads, pause = {}, tonumber(os.getenv("PAUSE_MS"))
function setup(thread) table.insert(threads, thread) end
function init() begun, accepted, refused, slow_refusals, other, sent = milliseconds(), "", 0, 0, 0, 0 end
function delay() return pause * (0.5 + math.random()) end
function request()
  sent = milliseconds()
  return wrk.format()
end
function response(status, headers)
  if sent < begun + 1000 then return end
  local took = milliseconds() - sent
  if status == 200 then accepted = accepted .. string.format("%.2f ", took)
  elseif status == 503 and headers["Retry-After"] or headers["retry-after"] then
    refused = refused + 1
    if took > 100 then slow_refusals = slow_refusals + 1 end
  else other = other + 1 end
end
function done()
  local all, no, slow, strange = "", 0, 0, 0
  for _, thread in ipairs(threads) do
    all = all .. thread:get("accepted")
    no, slow = no + thread:get("refused"), slow + thread:get("slow_refusals")
    strange = strange + thread:get("other")
  end
  print("REFUSED " .. no .. " " .. slow .. " " .. strange)
  print("ACCEPTED " .. all)
end
