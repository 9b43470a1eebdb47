-- KEYS lock; ARGV now holder
if held(KEYS[1]) == ARGV[2] then redis.call('HDEL', KEYS[1], 'holder', 'until') end
return {'ok'}
