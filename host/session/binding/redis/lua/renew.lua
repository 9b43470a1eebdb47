-- KEYS lock; ARGV now holder lease
if held(KEYS[1]) ~= ARGV[2] then return {'ok', 0} end
keep(KEYS[1], tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'until', text(now + ARGV[3]))
return {'ok', 1}
