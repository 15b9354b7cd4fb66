-- KEYS: workers, epoch, changes, messages, inbox, layout, keys, sessions. ARGV: worker, layout, age for removal or 0.
local layout = redis.call('GET', KEYS[6])
if layout and layout ~= ARGV[2] then
  return {'layout', layout}
end
redis.call('SET', KEYS[6], ARGV[2], 'PX', DAY)
local time = now()
redis.call('ZADD', KEYS[1], time, ARGV[1])
if tonumber(ARGV[3]) > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', time - tonumber(ARGV[3]))
end
redis.call('PEXPIRE', KEYS[1], 60000)
local id, change = epoch(KEYS[2], KEYS[3])
for _, key in ipairs({KEYS[2], KEYS[3], KEYS[7], KEYS[8]}) do
  redis.call('PEXPIRE', key, DAY)
end
local reply = {'ok', id, id .. '/' .. change, last_id(KEYS[4]), last_id(KEYS[5]), string.format('%.0f', time)}
for _, each in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do
  table.insert(reply, each)
end
return reply
