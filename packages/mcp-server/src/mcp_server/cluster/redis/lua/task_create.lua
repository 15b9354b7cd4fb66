-- KEYS: tasks, sizes, record. ARGV: id, time of creation, record, whether the task has ended, token, worker, entry in the
-- list of expiring tasks, most tasks, most unfinished tasks, most bytes, lifetime. Returns 1, or the bound that is reached.
if redis.call('HGET', KEYS[3], 'r') == ARGV[3] then
  return 1
end
local over, size = ARGV[4] == '1', #ARGV[3]
local tasks = redis.call('ZCARD', KEYS[1]) + 1
local totals = redis.call('HMGET', KEYS[2], 'bytes', 'unfinished')
local bytes = tonumber(totals[1] or 0) + size
local unfinished = tonumber(totals[2] or 0) + (over and 0 or 1)
if tasks > tonumber(ARGV[8]) then
  return {'tasks', tasks}
end
if not over and unfinished > tonumber(ARGV[9]) then
  return {'unfinished', unfinished}
end
if bytes > tonumber(ARGV[10]) then
  return {'bytes', bytes}
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], 'bytes', string.format('%.0f', bytes), 'unfinished', unfinished)
redis.call('HSET', KEYS[3], 'r', ARGV[3], 'o', ARGV[4], 't', ARGV[5], 'w', ARGV[6], 'x', ARGV[7], 'c', '')
redis.call('PEXPIRE', KEYS[3], ARGV[11])
for index = 1, 2 do
  if redis.call('PTTL', KEYS[index]) < tonumber(ARGV[11]) then
    redis.call('PEXPIRE', KEYS[index], ARGV[11])
  end
end
return 1
