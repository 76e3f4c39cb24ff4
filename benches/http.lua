-- One kind of load for wrk. A thread's requests may overtake each other on its connections, so requests that need each
-- other are sent a window apart, which is wider than the number of connections.

local token = os.getenv("BENCH_TOKEN")
local kind = os.getenv("BENCH_KIND")
local window = 1024
local threads = 0

local headers = " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " .. token .. "\r\n"
local no_body = headers .. "\r\n"
-- With a session, what an earlier run has left locked is resumed.
local json = '{"session_id":"bench"}'
local body = headers .. "Content-Type: application/json\r\nContent-Length: " .. #json .. "\r\n\r\n" .. json

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local count = 0

-- Steps through the verbs, a window of documents at a time.
local function sweep(verbs)
  local position = count
  count = count + 1
  local verb = verbs[math.floor(position / window) % #verbs + 1]
  local document = position % window
  return verb .. " /api/documents/bench-" .. number .. "-" .. document .. "/lock" .. body
end

function request()
  if kind == "noop" then
    return "GET /healthz" .. no_body
  elseif kind == "cycle" then
    return sweep({ "POST", "PUT", "DELETE" })
  elseif kind == "pair" then
    return sweep({ "POST", "DELETE" })
  end
  -- The first window takes the locks.
  if count < window then
    return sweep({ "POST" })
  end
  return sweep({ "PUT" })
end
