-- Claims and completes items, a hundred at a time.
completed, refused = 0, 0
local batches = {}

function setup(thread)
  threads = threads or {}
  table.insert(threads, thread)
end

local json = { ["Content-Type"] = "application/json" }
local claim = '{"worker":"wrk","limit":100,"lease":"1m"}'

function request()
  local claims = table.remove(batches)
  if claims then
    return wrk.format("POST", "/v1/inbox/http/complete", json, '{"claims":[' .. claims .. "]}")
  end
  return wrk.format("POST", "/v1/inbox/http/claim", json, claim)
end

function response(status, headers, body)
  if status ~= 200 then
    refused = refused + 1
    return
  end
  local done = body:match('"done":(%d+)')
  if done then
    completed = completed + tonumber(done)
    return
  end
  local claims = {}
  for claim in body:gmatch('"claim":("[^"]+")') do
    claims[#claims + 1] = claim
  end
  if #claims > 0 then
    batches[#batches + 1] = table.concat(claims, ",")
  end
end

function done(summary, latency, requests)
  local all, bad = 0, 0
  for _, thread in ipairs(threads) do
    all = all + thread:get("completed")
    bad = bad + thread:get("refused")
  end
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %d\n", all, summary.duration,
    bad + errors.connect + errors.read + errors.write + errors.timeout))
end
