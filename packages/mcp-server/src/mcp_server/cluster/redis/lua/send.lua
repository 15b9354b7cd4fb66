-- KEYS: stream, its size, epoch. ARGV: worker, most messages, most bytes, lifetime, then number and message of each.
local known = redis.call('HMGET', KEYS[3], 'id', 'change')
local position = known[1] and known[1] .. '/' .. known[2] or ''
local entries = {}
for index = 5, #ARGV, 2 do
  table.insert(entries, {ARGV[1], ARGV[index], position, ARGV[index + 1]})
end
add_bounded(KEYS[1], KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), entries)
return 1
