-- KEYS: session, events, subscriptions, notified. ARGV: time of use, lifetime. Returns whether the session exists.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'us', ARGV[1])
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
-- The ids of the events begin with the time at which they were stored.
local oldest = now() - tonumber(ARGV[2])
local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)
if first[1] and tonumber(string.match(first[1][1], '^%d+')) < oldest then
  free(KEYS[1], KEYS[2], function(_, _, id)
    return tonumber(string.match(id, '^%d+')) >= oldest
  end)
end
return 1
