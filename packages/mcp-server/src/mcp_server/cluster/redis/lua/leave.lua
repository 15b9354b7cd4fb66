-- KEYS: workers, inbox, size of the inbox. ARGV: worker.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2], KEYS[3])
return 1
