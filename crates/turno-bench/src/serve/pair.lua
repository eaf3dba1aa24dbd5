-- Acquires and releases a lock: a thread releases the leases that it holds before it acquires the next lock.
local leases = {}
pairs_done, refused = 0, 0
local thread_number = 0

function setup(thread)
  thread_number = thread_number + 1
  thread:set("seed", thread_number)
  threads = threads or {}
  table.insert(threads, thread)
end

function init(args)
  math.randomseed(seed)
end

local json = { ["Content-Type"] = "application/json" }

function request()
  local lease = table.remove(leases)
  if lease then
    return wrk.format("DELETE", "/v1/leases/" .. lease)
  end
  local body = string.format('{"resource":"PRESTAMO/%d","ttl":"30s"}', math.random(0, 99999))
  return wrk.format("POST", "/v1/locks", json, body)
end

function response(status, headers, body)
  if status == 201 then
    leases[#leases + 1] = body:match('"id":"([^"]+)"')
  elseif status == 204 then
    pairs_done = pairs_done + 1
  elseif status ~= 409 then
    refused = refused + 1
  end
end

function done(summary, latency, requests)
  local all, bad = 0, 0
  for _, thread in ipairs(threads) do
    all = all + thread:get("pairs_done")
    bad = bad + thread:get("refused")
  end
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %d\n", all, summary.duration,
    bad + errors.connect + errors.read + errors.write + errors.timeout))
end
