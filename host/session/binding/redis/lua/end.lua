-- KEYS turns; ARGV now holder
redis.call('ZREM', KEYS[1], ARGV[2])
if turns(KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return {'ok'}
