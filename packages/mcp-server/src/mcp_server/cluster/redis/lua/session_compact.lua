-- KEYS: session, notified. ARGV: number of calls that changed the notified changes, new position, then the changes that
-- are pending: name and number of each. Does nothing if the client has been notified of another change meanwhile.
if redis.call('HGET', KEYS[1], 'nv') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'ps', ARGV[2])
redis.call('DEL', KEYS[2])
if #ARGV > 2 then
  for index = 3, #ARGV, 2 do
    redis.call('HSET', KEYS[2], 'p' .. ARGV[index], ARGV[index + 1])
  end
  expire_with(KEYS[1], KEYS[2])
end
return 1
