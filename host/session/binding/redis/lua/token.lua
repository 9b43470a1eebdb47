-- KEYS binding; ARGV now provider sandbox token
if redis.call('EXISTS', KEYS[1]) == 0 then return {'ok', 0} end
local unknown = version(KEYS[1])
if unknown then return unknown end
if not names(KEYS[1], ARGV[2], ARGV[3]) then return {'ok', 0} end
redis.call('HSET', KEYS[1], 'token', ARGV[4])
return {'ok', 1}
