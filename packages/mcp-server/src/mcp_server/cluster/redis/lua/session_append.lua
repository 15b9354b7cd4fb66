-- KEYS: session, events, notified. ARGV: most events, most bytes, position, then stream, number, id of the request, data
-- and change of each event. Returns 0, or the number of changes that the session remembers; or a list: why nothing was
-- stored, the stream, and the number of its last event or the id of the request.
local known = redis.call('HMGET', KEYS[1], 'rv', 'ev', 'by', 'an', 'ab')
if not known[1] then
  return 0
end
local count, bytes = tonumber(known[2]), tonumber(known[3])
local answers, answer_bytes = tonumber(known[4]), tonumber(known[5])
local streams, pending, added, notified = {}, {}, {}, {}
for index = 4, #ARGV, 5 do
  local name, number, answered, data = ARGV[index], tonumber(ARGV[index + 1]), ARGV[index + 2], ARGV[index + 3]
  local stream = streams[name]
  if not stream then
    local text = redis.call('HGET', KEYS[1], 's' .. name)
    if not text then
      return {'unknown', name, ''}
    end
    stream = read_stream(text)
    streams[name] = stream
  end
  if number > stream.last then
    if stream.over then
      return {'over', name, ''}
    end
    if number ~= stream.last + 1 then
      return {'gap', name, string.format('%.0f', stream.last)}
    end
    if answered ~= '' then
      local ids = pending[name] or cjson.decode(redis.call('HGET', KEYS[1], 'p' .. name) or '[]')
      local place
      for each, id in ipairs(ids) do
        if id == answered then
          place = each
        end
      end
      if not place then
        return {'answers', name, answered}
      end
      table.remove(ids, place)
      pending[name] = ids
      stream.answers, stream.bytes = stream.answers + 1, stream.bytes + #data
      answers, answer_bytes = answers + 1, answer_bytes + #data
    end
    stream.last, stream.events = number, stream.events + 1
    count, bytes = count + 1, bytes + #data
    table.insert(added, index)
    if ARGV[index + 4] ~= '' then
      table.insert(notified, ARGV[index + 4])
    end
  end
end
if #added == 0 then
  return 0
end
for _, index in ipairs(added) do
  redis.call('XADD', KEYS[2], '*', 's', ARGV[index], 'n', ARGV[index + 1], 'a', ARGV[index + 2], 'd', ARGV[index + 3])
end
if count == #added then
  expire_with(KEYS[1], KEYS[2])
end
local fields = {'ev', count, 'by', string.format('%.0f', bytes), 'an', answers, 'ab', string.format('%.0f', answer_bytes)}
for name, stream in pairs(streams) do
  table.insert(fields, 's' .. name)
  table.insert(fields, write_stream(stream))
end
for name, ids in pairs(pending) do
  if #ids == 0 then
    redis.call('HDEL', KEYS[1], 'p' .. name)
  else
    table.insert(fields, 'p' .. name)
    table.insert(fields, cjson.encode(ids))
  end
end
redis.call('HSET', KEYS[1], unpack(fields))
local most, most_bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
if count > most or bytes > most_bytes then
  -- Until there is space for more than one event: sorting the events for each new one costs too much.
  free(KEYS[1], KEYS[2], function(left, size)
    return left <= math.floor(most * 7 / 8) and size <= math.floor(most_bytes * 7 / 8)
  end)
end
if #notified == 0 then
  return 0
end
set_notified(KEYS[1], KEYS[3], ARGV[3], notified)
return redis.call('HLEN', KEYS[3])
