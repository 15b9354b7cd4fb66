-- KEYS: tasks, sizes, record. ARGV: id. Returns the entry in the list of expiring tasks.
redis.call('ZREM', KEYS[1], ARGV[1])
local known = redis.call('HMGET', KEYS[3], 'r', 'o', 'x')
if redis.call('ZCARD', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[2])
elseif known[1] then
  redis.call('HINCRBY', KEYS[2], 'bytes', -#known[1])
  redis.call('HINCRBY', KEYS[2], 'unfinished', tonumber(known[2]) - 1)
end
redis.call('DEL', KEYS[3])
return known[3]
