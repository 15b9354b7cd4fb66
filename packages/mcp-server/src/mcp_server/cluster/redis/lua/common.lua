-- Functions that all scripts can use. Times are in milliseconds.
local DAY = 86400000

-- Returns the id of the data and the number of the last change. A server that restarted, took over or lost its data has
-- another id: numbers of changes that it has not received from the previous server may be used again.
local function epoch(key, changes)
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local known = redis.call('HMGET', key, 'run', 'id', 'change')
  if known[1] == run then
    return known[2], tonumber(known[3])
  end
  local time = redis.call('TIME')
  local id = string.sub(redis.sha1hex(run .. ':' .. time[1] .. ':' .. time[2]), 1, 12)
  redis.call('DEL', changes)
  redis.call('HSET', key, 'run', run, 'id', id, 'change', 0)
  redis.call('PEXPIRE', key, DAY)
  return id, 0
end

local function now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- Lets keys that were just created expire with the key of their session.
local function expire_with(session, ...)
  local left = redis.call('PTTL', session)
  for _, key in ipairs({...}) do
    redis.call('PEXPIRE', key, left)
  end
end

-- Reads the state of a stream: its last event, whether it is over or standalone, the numbers of its events and
-- undelivered responses, the bytes of these responses, the call that began it, and its worker.
local function read_stream(text)
  local last, over, standalone, events, answers, bytes, nonce, worker =
    string.match(text, '^(%d+) (%d) (%d) (%d+) (%d+) (%d+) (%S+) (.*)$')
  return {
    last = tonumber(last), over = over == '1', standalone = standalone == '1', events = tonumber(events),
    answers = tonumber(answers), bytes = tonumber(bytes), nonce = nonce, worker = worker,
  }
end

local function write_stream(stream)
  return string.format('%.0f %d %d %d %d %.0f %s %s', stream.last, stream.over and 1 or 0, stream.standalone and 1 or 0,
    stream.events, stream.answers, stream.bytes, stream.nonce, stream.worker)
end

-- Ends a stream: its responses need not be kept any more.
local function end_stream(session, number)
  local text = redis.call('HGET', session, 's' .. number)
  if not text then
    return
  end
  local stream = read_stream(text)
  if stream.over then
    return
  end
  stream.over = true
  redis.call('HDEL', session, 'p' .. number)
  if stream.answers > 0 then
    redis.call('HINCRBY', session, 'an', -stream.answers)
    redis.call('HINCRBY', session, 'ab', string.format('%.0f', -stream.bytes))
    stream.answers, stream.bytes = 0, 0
  end
  if stream.events == 0 and number ~= redis.call('HGET', session, 'nw') then
    redis.call('HDEL', session, 's' .. number)
  else
    redis.call('HSET', session, 's' .. number, write_stream(stream))
  end
end

-- Removes events: those of ended streams first, then those that are not responses, in both cases the oldest first, and
-- never the newest event. It stops when `is_enough` says so.
local function free(session, events, is_enough)
  local found = redis.call('XRANGE', events, '-', '+')
  local streams, ended, plain = {}, {}, {}
  for place = 1, #found - 1 do
    local fields = found[place][2]
    local number = fields[2]
    if not streams[number] then
      local text = redis.call('HGET', session, 's' .. number)
      streams[number] = text and read_stream(text)
    end
    local stream = streams[number]
    local event = {id = found[place][1], number = number, order = tonumber(number), place = place, size = #fields[8]}
    if not stream or stream.over then
      table.insert(ended, event)
    elseif fields[6] == '' then
      table.insert(plain, event)
    end
  end
  table.sort(ended, function(a, b)
    return a.order < b.order or (a.order == b.order and a.place < b.place)
  end)
  local counts = redis.call('HMGET', session, 'ev', 'by', 'nw')
  local left, bytes = tonumber(counts[1]), tonumber(counts[2])
  for _, list in ipairs({ended, plain}) do
    for _, event in ipairs(list) do
      if is_enough(left, bytes, event.id) then
        break
      end
      redis.call('XDEL', events, event.id)
      left, bytes = left - 1, bytes - event.size
      if streams[event.number] then
        streams[event.number].events = streams[event.number].events - 1
      end
    end
  end
  redis.call('HSET', session, 'ev', left, 'by', string.format('%.0f', bytes))
  for number, stream in pairs(streams) do
    if stream and stream.over and stream.events <= 0 and number ~= counts[3] then
      redis.call('HDEL', session, 's' .. number)
    elseif stream then
      redis.call('HSET', session, 's' .. number, write_stream(stream))
    end
  end
end

-- Records that the client of a session was notified of changes up to a position.
local function set_notified(session, notified, position, keys)
  local id, number = string.match(position, '^(%w*)/(%d+)$')
  for _, key in ipairs(keys) do
    local known = redis.call('HGET', notified, 'n' .. key)
    local known_id, known_number = string.match(known or '', '^(%w*)/(%d+)$')
    if known_id ~= id or tonumber(known_number) < tonumber(number) then
      redis.call('HSET', notified, 'n' .. key, position)
    end
    redis.call('HDEL', notified, 'p' .. key)
  end
  if #keys > 0 then
    redis.call('HINCRBY', session, 'nv', 1)
    expire_with(session, notified)
  end
end

-- Adds entries to a stream that is bounded by count and bytes. An entry has the fields w, n, c and m.
local function add_bounded(stream, counter, most, most_bytes, lifetime, entries)
  local bytes = tonumber(redis.call('GET', counter) or 0)
  if redis.call('EXISTS', stream) == 0 then
    bytes = 0
  end
  for _, entry in ipairs(entries) do
    redis.call('XADD', stream, '0-*', 'w', entry[1], 'n', entry[2], 'c', entry[3], 'm', entry[4])
    bytes = bytes + #entry[4] + 64
  end
  local excess = redis.call('XLEN', stream) - most
  while excess > 0 or (bytes > most_bytes and redis.call('XLEN', stream) > 1) do
    for _, old in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', math.max(1, math.min(excess, 100)))) do
      redis.call('XDEL', stream, old[1])
      bytes = bytes - #old[2][8] - 64
      excess = excess - 1
    end
  end
  redis.call('SET', counter, string.format('%.0f', bytes), 'PX', lifetime)
  redis.call('PEXPIRE', stream, lifetime)
end

local function last_id(stream)
  local found = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  return found[1] and found[1][1] or '0-0'
end
