-- KEYS binding rewind turns work; ARGV now spend
return state(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2])
