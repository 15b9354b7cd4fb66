-- KEYS: epoch, changes. ARGV: most changes, then method and URI of each. Returns the position of the last change.
local id, change = epoch(KEYS[1], KEYS[2])
for index = 2, #ARGV, 2 do
  change = change + 1
  redis.call('XADD', KEYS[2], '0-' .. change, 'm', ARGV[index], 'u', ARGV[index + 1])
end
redis.call('XTRIM', KEYS[2], 'MAXLEN', '~', ARGV[1])
redis.call('HSET', KEYS[1], 'change', change)
redis.call('PEXPIRE', KEYS[1], DAY)
redis.call('PEXPIRE', KEYS[2], DAY)
return id .. '/' .. change
