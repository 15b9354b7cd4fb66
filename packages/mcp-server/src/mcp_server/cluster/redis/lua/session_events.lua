-- KEYS: events. ARGV: stream, number. Returns the later events of the stream: number, request and data of each.
local reply = {}
local after = tonumber(ARGV[2])
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
  local fields = entry[2]
  if fields[2] == ARGV[1] and tonumber(fields[4]) > after then
    table.insert(reply, fields[4])
    table.insert(reply, fields[6])
    table.insert(reply, fields[8])
  end
end
return reply
