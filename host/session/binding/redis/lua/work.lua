-- KEYS work data; ARGV now
local live = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text(now), '+inf', 'WITHSCORES')
local list = {'ok'}
for i = 1, #live, 2 do
  list[#list + 1] = live[i]
  list[#list + 1] = live[i + 1]
  list[#list + 1] = redis.call('HGET', KEYS[2], live[i]) or ''
end
return list
