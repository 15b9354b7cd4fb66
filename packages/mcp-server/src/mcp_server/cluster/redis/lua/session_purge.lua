-- KEYS: session, events, subscriptions, notified. ARGV: time. Deletes the session unless it was used since then: then returns
-- the time of use.
local used = redis.call('HGET', KEYS[1], 'us')
if used and tonumber(used) >= tonumber(ARGV[1]) then
  return used
end
redis.call('DEL', unpack(KEYS))
return 0
