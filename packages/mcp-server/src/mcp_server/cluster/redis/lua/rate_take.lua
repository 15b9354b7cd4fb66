-- KEYS: rate. ARGV: count, events per second, burst. Returns how many events were taken.
local per_second, burst = tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_seconds = tonumber(time[1]) + tonumber(time[2]) / 1000000
local known = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = burst
if known[1] then
  local passed = math.max(0, now_seconds - tonumber(known[2]))
  left = math.min(burst, tonumber(known[1]) + passed * per_second)
end
-- Binary fractions: a little less than one event is one event.
local taken = math.max(0, math.min(tonumber(ARGV[1]), math.floor(left + 1e-6)))
left = left - taken
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', string.format('%.6f', now_seconds))
redis.call('PEXPIRE', KEYS[1], math.min(DAY, math.ceil((burst - left) / per_second * 1000) + 1000))
return taken
