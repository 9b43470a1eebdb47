-- KEYS binding lock; ARGV now fence provider sandbox, then field value ...
if lost(KEYS[2], ARGV[2]) then return {'lost'} end
if redis.call('EXISTS', KEYS[1]) == 1 then
  return version(KEYS[1]) or {'ok', names(KEYS[1], ARGV[3], ARGV[4]) and 1 or 0}
end
local fields = {}
for i = 5, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', KEYS[1], unpack(fields))
return {'ok', 1}
