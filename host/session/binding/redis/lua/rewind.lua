-- KEYS rewind turns work; ARGV now holder lease
local holder = held(KEYS[1])
if holder and holder ~= ARGV[2] then return {'rewind'} end
if turns(KEYS[2]) > 0 then return {'turn'} end
if works(KEYS[3]) > 0 then return {'work'} end
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'until', text(now + ARGV[3]))
keep(KEYS[1], tonumber(ARGV[3]))
return {'ok'}
