-- KEYS binding; ARGV now tenant config
if redis.call('EXISTS', KEYS[1]) == 0 then return {'ok', 0} end
local unknown = version(KEYS[1])
if unknown then return unknown end
local f = redis.call('HMGET', KEYS[1], 'tenant', 'config', 'stale')
if f[1] ~= ARGV[2] or f[2] ~= ARGV[3] or f[3] then return {'ok', 0} end
redis.call('HSET', KEYS[1], 'stale', text(now))
return {'ok', 1}
