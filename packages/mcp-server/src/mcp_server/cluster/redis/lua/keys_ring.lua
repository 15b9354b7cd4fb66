-- KEYS: keys. ARGV: a ring for an empty server, a new key, seconds until rotation, seconds for which a key remains.
-- A ring is a list of keys, the newest first: `key time` of each, separated by commas.
local time = redis.call('TIME')[1]
local text = redis.call('GET', KEYS[1])
if not text then
  text = ARGV[1] ~= '' and ARGV[1] or ARGV[2] .. ' ' .. time
end
local kept, newer = {}, nil
for key, made in string.gmatch(text, '([^ ,]+) (%d+)') do
  -- A key is needed until the states are invalid that it sealed before the next key replaced it.
  if not newer or time - newer < tonumber(ARGV[4]) then
    table.insert(kept, key .. ' ' .. made)
  end
  newer = tonumber(made)
end
local newest = tonumber(string.match(kept[1], ' (%d+)$'))
if time - newest >= tonumber(ARGV[3]) then
  table.insert(kept, 1, ARGV[2] .. ' ' .. time)
end
local ring = table.concat(kept, ',')
redis.call('SET', KEYS[1], ring, 'PX', DAY)
return {time, ring}
