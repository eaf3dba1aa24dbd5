-- Pushes items, a hundred at a time.
pushed, refused = 0, 0
local BATCH = 100

function setup(thread)
  threads = threads or {}
  table.insert(threads, thread)
end

local json = { ["Content-Type"] = "application/json" }
local body

function init(args)
  local items = {}
  for i = 1, BATCH do
    items[i] = '{"payload":"' .. string.rep("x", tonumber(args[1]) - 2) .. '"}'
  end
  body = wrk.format("POST", "/v1/inbox/http", json, '{"items":[' .. table.concat(items, ",") .. "]}")
end

function request()
  return body
end

function response(status)
  if status == 201 then
    pushed = pushed + BATCH
  else
    refused = refused + 1
  end
end

function done(summary, latency, requests)
  local all, bad = 0, 0
  for _, thread in ipairs(threads) do
    all = all + thread:get("pushed")
    bad = bad + thread:get("refused")
  end
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %d\n", all, summary.duration,
    bad + errors.connect + errors.read + errors.write + errors.timeout))
end
