-- The same with etcd's lock service, through its HTTP gateway. All locks of a thread share one lease, as in an etcd session.
local held = {}
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
  lease = args[1]
end

local json = { ["Content-Type"] = "application/json" }
local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(text)
  local out = {}
  for i = 1, #text, 3 do
    local a, b, c = text:byte(i, i + 2)
    local n = a * 65536 + (b or 0) * 256 + (c or 0)
    for place = 3, 0, -1 do
      local digit = math.floor(n / 64 ^ place) % 64
      local is_there = place == 3 or place == 2 or (place == 1 and b) or (place == 0 and c)
      out[#out + 1] = is_there and letters:sub(digit + 1, digit + 1) or "="
    end
  end
  return table.concat(out)
end

function request()
  local key = table.remove(held)
  if key then
    return wrk.format("POST", "/v3/lock/unlock", json, string.format('{"key":"%s"}', key))
  end
  local name = base64(string.format("PRESTAMO/%d", math.random(0, 99999)))
  return wrk.format("POST", "/v3/lock/lock", json, string.format('{"name":"%s","lease":"%s"}', name, lease))
end

function response(status, headers, body)
  if status ~= 200 then
    refused = refused + 1
    return
  end
  local key = body:match('"key":"([^"]+)"')
  if key then
    held[#held + 1] = key
  else
    pairs_done = pairs_done + 1
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
