-- KEYS: epoch, changes. ARGV: position, or nothing. Returns the current position, the first change in the log, and the changes after
-- the position: number, method and URI of each.
local id, change = epoch(KEYS[1], KEYS[2])
local known, number = string.match(ARGV[1], '^(%w*)/(%d+)$')
local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)
local first = oldest[1] and string.match(oldest[1][1], '-(%d+)$') or string.format('%.0f', change + 1)
local reply = {id .. '/' .. change, first}
if ARGV[1] == '' then
  return reply
end
local from = known == id and '(0-' .. number or '-'
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], from, '+')) do
  table.insert(reply, string.match(entry[1], '-(%d+)$'))
  table.insert(reply, entry[2][2])
  table.insert(reply, entry[2][4])
end
return reply
