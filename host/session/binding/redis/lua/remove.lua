-- KEYS work data; ARGV now id
redis.call('ZREM', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[2], ARGV[2])
return {'ok'}
