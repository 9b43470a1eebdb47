-- KEYS binding lock; ARGV now fence provider sandbox
if lost(KEYS[2], ARGV[2]) then return {'lost'} end
if redis.call('EXISTS', KEYS[1]) == 0 then return {'ok', 0} end
local unknown = version(KEYS[1])
if unknown then return unknown end
if not names(KEYS[1], ARGV[3], ARGV[4]) then return {'ok', 0} end
redis.call('DEL', KEYS[1])
return {'ok', 1}
