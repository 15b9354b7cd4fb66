-- KEYS: tasks. ARGV: time of creation, id, number. Returns the ids of the tasks that follow this position.
local reply, offset = {}, 0
while #reply < tonumber(ARGV[3]) do
  local found = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', offset, 100)
  for index = 1, #found, 2 do
    local is_later = tonumber(found[index + 1]) > tonumber(ARGV[1]) or found[index] > ARGV[2]
    if is_later and #reply < tonumber(ARGV[3]) then
      table.insert(reply, found[index])
    end
  end
  if #found < 200 then
    break
  end
  offset = offset + 100
end
return reply
