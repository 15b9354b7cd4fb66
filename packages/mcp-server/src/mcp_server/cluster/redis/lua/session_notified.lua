-- KEYS: session, notified. ARGV: position, then changes.
if redis.call('EXISTS', KEYS[1]) == 1 then
  set_notified(KEYS[1], KEYS[2], ARGV[1], {unpack(ARGV, 2)})
end
return 1
