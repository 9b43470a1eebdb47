-- KEYS binding rewind turns work; ARGV now spend holder lease
if held(KEYS[2]) then return {'rewind'} end
begin(KEYS[3], ARGV[3], tonumber(ARGV[4]))
return state(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2])
