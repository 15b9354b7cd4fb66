-- KEYS: record. ARGV: token, worker, id of this call. Returns the record, the worker and the token; nothing if another worker
-- has claimed the task, or if it has ended.
local known = redis.call('HMGET', KEYS[1], 'r', 'o', 't', 'c')
if not known[1] or known[2] == '1' then
  return false
end
if known[3] == ARGV[1] then
  redis.call('HSET', KEYS[1], 't', string.format('%.0f', tonumber(ARGV[1]) + 1), 'w', ARGV[2], 'c', ARGV[3])
elseif known[4] ~= ARGV[3] then
  return false
end
return redis.call('HMGET', KEYS[1], 'r', 'w', 't')
