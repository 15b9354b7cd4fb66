-- KEYS: session. ARGV: stream.
end_stream(KEYS[1], ARGV[1])
return 1
