-- KEYS work data; ARGV now id lease
local ends = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not ends or tonumber(ends) <= now then return {'ok', 0} end
keep(KEYS[1], tonumber(ARGV[3]))
keep(KEYS[2], tonumber(ARGV[3]))
redis.call('ZADD', KEYS[1], text(now + ARGV[3]), ARGV[2])
return {'ok', 1}
