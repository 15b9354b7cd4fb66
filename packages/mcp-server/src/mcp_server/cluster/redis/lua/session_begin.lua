-- KEYS: session. ARGV: whether the stream is standalone, worker, id of this call, most events, most bytes, pending ids.
-- Returns the number of the stream; 0 without a session; or a list of the bound that is reached and its use.
local known = redis.call('HMGET', KEYS[1], 'rv', 'nw', 'an', 'ab', 'sa')
if not known[1] then
  return 0
end
local newest = tonumber(known[2])
for number = newest, math.max(1, newest - 15), -1 do
  local text = redis.call('HGET', KEYS[1], 's' .. string.format('%.0f', number))
  if text and read_stream(text).nonce == ARGV[3] then
    return number
  end
end
if tonumber(known[3]) >= tonumber(ARGV[4]) then
  return {'events', known[3]}
end
if tonumber(known[4]) >= tonumber(ARGV[5]) then
  return {'bytes', known[4]}
end
local standalone = ARGV[1] == '1'
local number = 2 * math.floor((newest + 1) / 2) + (standalone and 2 or 1)
local name = string.format('%.0f', number)
redis.call('HSET', KEYS[1], 'nw', name)
if standalone then
  if known[5] then
    end_stream(KEYS[1], known[5])
  end
  redis.call('HSET', KEYS[1], 'sa', name)
else
  redis.call('HSET', KEYS[1], 'p' .. name, ARGV[6])
end
redis.call('HSET', KEYS[1], 's' .. name, write_stream({
  last = 0, over = false, standalone = standalone, events = 0, answers = 0, bytes = 0, nonce = ARGV[3], worker = ARGV[2],
}))
-- The previous newest stream may have been kept only for its number.
local before = string.format('%.0f', newest)
local text = redis.call('HGET', KEYS[1], 's' .. before)
if text then
  local stream = read_stream(text)
  if stream.over and stream.events == 0 then
    redis.call('HDEL', KEYS[1], 's' .. before)
  end
end
return number
