//! Scripts in Redis. Each runs atomically, by the clock of Redis, and touches the keys of one hash
//! tag.

/// Heartbeat of a worker.
///
/// KEYS: leases, owners, workers, versions, leader, filled, changed.
///
/// ARGV: id of the worker, length of a lease in ms, whether it polls, whether it can lead, whether
/// it may have missed a reply, the number of chunks that it gives back, these chunks, and the
/// chunks that it holds.
///
/// Returns: time in ms, number of live workers, number of chunks, share of this worker, whether it
/// leads, `filled`, `changed`, then three lists: lost chunks; held chunks with their versions;
/// acquired chunks with their versions and the time since which they had no owner (0: always).
pub(super) const BEAT: &str = r#"
local leases, owners, workers, versions, leader = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, life, works, wants, fresh, gives = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if works == '1' then redis.call('ZADD', workers, now + life, me) else redis.call('ZREM', workers, me) end
redis.call('ZREMRANGEBYSCORE', workers, '-inf', now)

local leads = 0
local who, till = redis.call('HGET', leader, 'who'), tonumber(redis.call('HGET', leader, 'until') or '0')
if wants == '1' and (who == me or till <= now) then
  redis.call('HSET', leader, 'who', me, 'until', now + life)
  leads = 1
elseif who == me then
  redis.call('DEL', leader)
end

for at = 7, 6 + gives do
  if redis.call('HGET', owners, ARGV[at]) == me then
    redis.call('HDEL', owners, ARGV[at])
    redis.call('ZADD', leases, 'XX', now, ARGV[at])
  end
end

local lost, held, mine = {}, {}, {}
for at = 7 + gives, #ARGV do
  local chunk = ARGV[at]
  local owner = redis.call('HGET', owners, chunk)
  local version = redis.call('HGET', versions, chunk)
  -- Nobody's: Redis has lost what it knew. A chunk that has a version and no lease has no servers any more.
  local again = not owner and (not version or redis.call('ZSCORE', leases, chunk))
  if owner == me or again then
    redis.call('ZADD', leases, now + life, chunk)
    if again then redis.call('HSET', owners, chunk, me) end
    mine[chunk] = true
    held[#held + 1] = chunk
    held[#held + 1] = version or '0'
  else
    lost[#lost + 1] = chunk
  end
end

-- What was handed out by an answer that never arrived is nobody's.
if fresh == '1' then
  local all = redis.call('HGETALL', owners)
  for at = 1, #all, 2 do
    if all[at + 1] == me and not mine[all[at]] then
      redis.call('HDEL', owners, all[at])
      redis.call('ZADD', leases, 'XX', now, all[at])
    end
  end
end

local chunks, alive, share = redis.call('ZCARD', leases), redis.call('ZCARD', workers), 0
if works == '1' then
  local rank = 0
  for _, other in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
    if other < me then rank = rank + 1 end
  end
  share = math.floor(chunks / alive)
  if rank < chunks % alive then share = share + 1 end
end

local taken = {}
local want = math.min(share - #held / 2, 500)
if want > 0 then
  local free = redis.call('ZRANGE', leases, '-inf', now, 'BYSCORE', 'LIMIT', 0, want, 'WITHSCORES')
  for at = 1, #free, 2 do
    local chunk, since = free[at], tonumber(free[at + 1])
    if since > 0 and redis.call('HEXISTS', owners, chunk) == 1 then since = since - life end
    redis.call('ZADD', leases, now + life, chunk)
    redis.call('HSET', owners, chunk, me)
    taken[#taken + 1] = chunk
    taken[#taken + 1] = redis.call('HGET', versions, chunk) or '0'
    taken[#taken + 1] = string.format('%.0f', since)
  end
end
return { now, alive, chunks, share, leads, redis.call('GET', KEYS[6]) or '', redis.call('GET', KEYS[7]) or '0', lost, held, taken }
"#;

/// Writes the servers of a chunk, if its version is still the one read before the database was
/// read.
///
/// KEYS: targets. ARGV: that version (empty for none), digest, then numbers and servers. Returns
/// the new version, or nothing.
pub(super) const FILL: &str = r#"
if (redis.call('HGET', KEYS[1], 'v') or '') ~= ARGV[1] then return '' end
local time = redis.call('TIME')
-- Greater than all before, even those that Redis has forgotten.
local version = math.max(time[1] * 1000000 + time[2], (tonumber(ARGV[1]) or 0) + 1)
version = string.format('%.0f', version)
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'v', version, 'd', ARGV[2])
for at = 3, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
return version
"#;

/// Announces written chunks. New chunks are leased after a delay, in which nodes that hold them can
/// renew their leases.
///
/// KEYS: leases, owners, versions, changed. ARGV: the delay in ms, then number, version and number
/// of servers of each chunk.
pub(super) const ANNOUNCE: &str = r#"
local leases, owners, versions = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local wait = tonumber(ARGV[1])
local score = 0
if wait > 0 then score = time[1] * 1000 + math.floor(time[2] / 1000) + wait end
for at = 2, #ARGV, 3 do
  local chunk, version, count = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local known = tonumber(redis.call('HGET', versions, chunk) or '0')
  if tonumber(version) > known then
    redis.call('HSET', versions, chunk, version)
    redis.call('INCR', KEYS[4])
  end
  if tonumber(version) >= known then
    if count == '0' then
      redis.call('ZREM', leases, chunk)
      redis.call('HDEL', owners, chunk)
    else
      redis.call('ZADD', leases, 'NX', score, chunk)
    end
  end
end
return 1
"#;
