-- One kind of load for wrk. A thread's requests may overtake each other on its connections, so requests that need each
-- other are sent a window apart, which is wider than the number of connections.

local token = os.getenv("BENCH_TOKEN")
local kind = os.getenv("BENCH_KIND")
local window = 1024
local threads = 0

local headers = " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " .. token .. "\r\n"
-- With a session, locks that an earlier run has left are resumed.
local json = '{"session_id":"bench"}'
local body = headers .. "Content-Type: application/json\r\nContent-Length: " .. #json .. "\r\n\r\n" .. json

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

-- Requests are made before the run, so that making them is not measured. The load steps through `rounds`, a window of
-- documents at a time, and goes back to the round `again`.
local rounds = {}
local again = 1
local round, document = 1, 0

local function window_of(verb)
  local requests = {}
  for n = 1, window do
    requests[n] = verb .. " /api/documents/bench-" .. number .. "-" .. n .. "/lock" .. body
  end
  return requests
end

function init()
  if kind == "noop" then
    rounds = { { "GET /healthz" .. headers .. "\r\n" } }
  elseif kind == "cycle" then
    rounds = { window_of("POST"), window_of("PUT"), window_of("DELETE") }
  elseif kind == "pair" or kind == "pair_with_ids" then
    rounds = { window_of("POST"), window_of("DELETE") }
  else
    -- The first window takes the locks.
    rounds = { window_of("POST"), window_of("PUT") }
    again = 2
  end
end

-- Adds an id that no other request has. It goes into the header, so that the rest of the request stays as it is.
local sent, start = 0, os.time()
function with_id(plain)
  sent = sent + 1
  local id = "Idempotency-Key: " .. start .. "-" .. number .. "-" .. sent .. "\r\n"
  return (plain:gsub("Content%-Type", id .. "Content-Type", 1))
end

function request()
  document = document + 1
  if document > #rounds[round] then
    document = 1
    round = round + 1
    if round > #rounds then
      round = again
    end
  end
  if kind == "pair_with_ids" then
    return with_id(rounds[round][document])
  end
  return rounds[round][document]
end
