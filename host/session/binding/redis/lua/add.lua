-- KEYS rewind work data; ARGV now id kind data lease limit most
if held(KEYS[1]) then return {'rewind'} end
local kin, others = 0, 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(now), '+inf')) do
  if id ~= ARGV[2] then
    others = others + 1
    local what = redis.call('HGET', KEYS[3], id) or ''
    if string.sub(what, 1, #ARGV[3] + 1) == ARGV[3] .. '\n' then kin = kin + 1 end
  end
end
if kin >= tonumber(ARGV[6]) or others >= tonumber(ARGV[7]) then return {'limit'} end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now))) do
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id)
end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3] .. '\n' .. ARGV[4])
redis.call('ZADD', KEYS[2], text(now + ARGV[5]), ARGV[2])
keep(KEYS[2], tonumber(ARGV[5]))
keep(KEYS[3], tonumber(ARGV[5]))
return {'ok'}
