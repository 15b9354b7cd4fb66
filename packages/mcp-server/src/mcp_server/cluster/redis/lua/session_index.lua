-- KEYS: sessions, epoch, changes. ARGV: id, time of use, most sessions. Returns the position in the changes, and the ids
-- of sessions that are too many. They remain in the list until the caller has deleted them: the reply can be lost.
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], DAY)
local id, change = epoch(KEYS[2], KEYS[3])
local reply = {id .. '/' .. change}
local excess = math.min(1000, redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[3]))
if excess > 0 then
  for _, each in ipairs(redis.call('ZRANGE', KEYS[1], 0, excess)) do
    if each ~= ARGV[1] and #reply <= excess then
      table.insert(reply, each)
    end
  end
end
return reply
