-- KEYS: tasks, sizes, record. ARGV: record, whether the task has ended, token, most bytes, lifetime. Returns 1; 0 if the task
-- does not exist; the token if it is another; or the bound that is reached.
local known = redis.call('HMGET', KEYS[3], 'r', 'o', 't')
if not known[1] then
  return 0
end
if known[3] ~= ARGV[3] then
  return {'claimed', tonumber(known[3])}
end
local more = #ARGV[1] - #known[1]
local bytes = tonumber(redis.call('HGET', KEYS[2], 'bytes') or 0) + more
if more > 0 and bytes > tonumber(ARGV[4]) then
  return {'bytes', bytes}
end
redis.call('HSET', KEYS[2], 'bytes', string.format('%.0f', bytes))
redis.call('HINCRBY', KEYS[2], 'unfinished', tonumber(known[2]) - tonumber(ARGV[2]))
redis.call('HSET', KEYS[3], 'r', ARGV[1], 'o', ARGV[2])
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[5]) then
    redis.call('PEXPIRE', key, ARGV[5])
  end
end
return 1
