-- Before every script: the time in milliseconds, the server's unless a test gave one,
-- and what several scripts share. ARGV[1] is that time. Numbers are written out in
-- full: tostring would round them.
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end

local function text(n) return string.format('%.0f', n) end

-- held returns who holds the lock at key, and for how long still.
local function held(key)
  local h = redis.call('HMGET', key, 'holder', 'until')
  local left = (tonumber(h[2]) or 0) - now
  if h[1] and left > 0 then return h[1], left end
end

-- lost: the writer's lifecycle lock is not its own any more. A writer without a
-- lock has fence 0.
local function lost(key, fence)
  if fence == '0' then return false end
  return not held(key) or redis.call('HGET', key, 'fence') ~= fence
end

-- keep makes a key outlast a lease that starts now, and never shortens its life. The
-- server then forgets it by itself; what counts is the time inside. A renewal calls it
-- first: a server without memory refuses commands only before a script's first write,
-- and this write needs no memory, so that what is held can be kept.
local function keep(key, lease)
  redis.call('PEXPIRE', key, text(math.max(redis.call('PTTL', key), lease + 60000)))
end

-- Turns are a sorted set of holders by when they end. A member that never ends says
-- that the open turn's rebuild is spent.
local function turns(key) return redis.call('ZCOUNT', key, '(' .. text(now), '(+inf') end

-- begin opens or extends one hold. A turn of which no hold was left is over.
local function begin(key, holder, lease)
  local open = turns(key)
  redis.call('ZADD', key, text(now + lease), holder)
  if open == 0 then
    redis.call('ZREM', key, '!')
    redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
  end
  keep(key, lease)
end

-- Work is a sorted set of ids by when they end, beside a hash of what they are.
local function works(key) return redis.call('ZCOUNT', key, '(' .. text(now), '+inf') end

-- state reads a session for a resolve.
local function state(b, r, t, w, spend)
  local open = turns(t)
  local spent = open > 0 and redis.call('ZSCORE', t, '!') and 1 or 0
  if spend == '1' and open > 0 and spent == 0 then redis.call('ZADD', t, '+inf', '!') end
  return {'ok', open, works(w), spent, held(r) and 1 or 0, redis.call('HGETALL', b)}
end

-- version returns an answer about a record that this program must not touch.
local function version(b)
  local v = redis.call('HGET', b, 'v')
  if v ~= '1' then return {'schema', v or ''} end
end

local function names(b, provider, sandbox)
  local f = redis.call('HMGET', b, 'provider', 'sandbox')
  return f[1] == provider and f[2] == sandbox
end
