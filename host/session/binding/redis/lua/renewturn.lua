-- KEYS rewind turns; ARGV now holder lease
if held(KEYS[1]) then return {'ok', 0} end
keep(KEYS[2], tonumber(ARGV[3]))
begin(KEYS[2], ARGV[2], tonumber(ARGV[3]))
return {'ok', 1}
