-- KEYS: records. Returns the record, the worker and the token of each.
local reply = {}
for _, key in ipairs(KEYS) do
  table.insert(reply, redis.call('HMGET', key, 'r', 'w', 't'))
end
return reply
