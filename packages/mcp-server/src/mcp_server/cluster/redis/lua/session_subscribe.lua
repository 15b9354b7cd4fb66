-- KEYS: session, subscriptions. ARGV: URI, position.
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
  expire_with(KEYS[1], KEYS[2])
end
return 1
