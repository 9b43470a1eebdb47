-- KEYS lock; ARGV now holder lease
-- A fence grows with every new holder. It starts at the time, so that it also grows
-- across a server that was emptied.
local holder, left = held(KEYS[1])
if holder and holder ~= ARGV[2] then return {'busy', left} end
local fence = redis.call('HGET', KEYS[1], 'fence')
if not holder then fence = text(math.max((tonumber(fence) or 0) + 1, now * 1000)) end
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'until', text(now + ARGV[3]), 'fence', fence)
keep(KEYS[1], ARGV[3] + 3600000)
return {'ok', fence}
