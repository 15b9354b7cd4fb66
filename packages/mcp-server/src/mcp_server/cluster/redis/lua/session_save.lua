-- KEYS: session, events, subscriptions, notified. ARGV: lifetime, position, number of fields to remove, these fields, then
-- fields and values.
local is_new = redis.call('EXISTS', KEYS[1]) == 0
if is_new then
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
  redis.call('HSET', KEYS[1], 'ps', ARGV[2], 'nw', 0, 'ev', 0, 'by', 0, 'an', 0, 'ab', 0, 'nv', 0)
end
local removed = tonumber(ARGV[3])
if removed > 0 then
  redis.call('HDEL', KEYS[1], unpack(ARGV, 4, 3 + removed))
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4 + removed))
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[1])
end
return is_new and 1 or 0
