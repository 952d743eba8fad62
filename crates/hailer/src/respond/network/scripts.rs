//! The scripts that write to Redis, each atomic: the effects of spec/onequery.md#12.3, and the
//! additions of spec/onequery.md#12.6.
//!
//! The first key decides the node of a cluster. All other keys of a network are on the same node.

/// Register and heartbeat. Writes the server and makes the list in Redis equal to the local list:
/// missing players are added, others removed, and the count is that of the list.
///
/// KEYS: server, players, servers, events. ARGV: id, prefix, lifetime in seconds, `1` to announce
/// the server, its event, the number of fields and values, these; then for each player the UUID,
/// the entry, the event and `1` if the player has just joined. Returns whether Redis knew the
/// server, and the number of listed players.
pub(super) const BEAT: &str = r#"
local server, players, servers, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, prefix, life, announce, online = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local first = 7 + ARGV[6]
local knew = redis.call('EXISTS', server)
redis.call('HDEL', server, 'host')
redis.call('HSET', server, unpack(ARGV, 7, first - 1))
if redis.call('SADD', servers, id) == 1 then
  knew = 0
end
if announce == '1' or knew == 0 then
  redis.call('XADD', events, 'MAXLEN', '~', '1000', '*', 'data', online)
end

local mine, count = {}, 0
for at = first, #ARGV, 4 do
  local uuid, entry, join, fresh = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local key = prefix .. 'player:' .. uuid
  local owner = redis.call('GET', key)
  local elsewhere = false
  if owner and owner ~= id then
    local there = prefix .. 'server:' .. owner
    if fresh == '1' then
      if redis.call('HDEL', there .. ':players', uuid) == 1 then
        local n = tonumber(redis.call('HGET', there, 'playerCount')) or 0
        if n > 0 then redis.call('HSET', there, 'playerCount', string.format('%d', n - 1)) end
      end
    else
      -- Moved without a notice to this server: while the other server exists, the player is there.
      elsewhere = redis.call('EXISTS', there) == 1 and redis.call('HEXISTS', there .. ':players', uuid) == 1
    end
  end
  if not elsewhere then
    mine[uuid] = true
    count = count + 1
    redis.call('SET', key, id, 'EX', life)
    if redis.call('HSETNX', players, uuid, entry) == 1 then
      redis.call('XADD', events, 'MAXLEN', '~', '1000', '*', 'data', join)
    elseif fresh == '1' then
      redis.call('HSET', players, uuid, entry)
      redis.call('XADD', events, 'MAXLEN', '~', '1000', '*', 'data', join)
    end
  end
end

if redis.call('HLEN', players) ~= count then
  for _, uuid in ipairs(redis.call('HKEYS', players)) do
    if not mine[uuid] then
      redis.call('HDEL', players, uuid)
      local owner = redis.call('GET', prefix .. 'player:' .. uuid)
      if not owner or owner == id then
        redis.call('DEL', prefix .. 'player:' .. uuid)
        local leave = cjson.encode({ type = 'leave', uuid = uuid, server = id })
        redis.call('XADD', events, 'MAXLEN', '~', '1000', '*', 'data', leave)
      end
    end
  end
end
redis.call('HSET', server, 'playerCount', count)
redis.call('EXPIRE', server, life)
redis.call('EXPIRE', players, life)
return { knew, count }
"#;

/// Join, also on behalf of the server to which a player moves.
///
/// KEYS: server, players, events. ARGV: id, prefix, lifetime in seconds, UUID, entry, event.
/// Returns 0 and does nothing if Redis does not know the server.
pub(super) const JOIN: &str = r#"
local server, players, events = KEYS[1], KEYS[2], KEYS[3]
local id, prefix, life, uuid, entry, join = unpack(ARGV)
if redis.call('EXISTS', server) == 0 then return 0 end
local key = prefix .. 'player:' .. uuid
local owner = redis.call('GET', key)
if owner and owner ~= id then
  local there = prefix .. 'server:' .. owner
  -- Only listed players are counted. A count alone would recreate the hash of an expired server.
  if redis.call('HDEL', there .. ':players', uuid) == 1 then
    local n = tonumber(redis.call('HGET', there, 'playerCount')) or 0
    if n > 0 then redis.call('HSET', there, 'playerCount', string.format('%d', n - 1)) end
  end
end
redis.call('SET', key, id, 'EX', life)
if redis.call('HSET', players, uuid, entry) == 1 then
  redis.call('HSET', server, 'playerCount', redis.call('HLEN', players))
end
-- Else a server that dies before its first heartbeat leaves a list for ever.
if redis.call('TTL', players) < 0 then redis.call('EXPIRE', players, life) end
redis.call('XADD', events, 'MAXLEN', '~', '1000', '*', 'data', join)
return 1
"#;

/// Leave. KEYS: server, players, player, events. ARGV: id, UUID, event.
pub(super) const LEAVE: &str = r#"
local server, players, player, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, uuid, leave = unpack(ARGV)
if redis.call('GET', player) ~= id then return 0 end
redis.call('DEL', player)
if redis.call('HDEL', players, uuid) == 1 and redis.call('EXISTS', server) == 1 then
  redis.call('HSET', server, 'playerCount', redis.call('HLEN', players))
end
redis.call('XADD', events, 'MAXLEN', '~', '1000', '*', 'data', leave)
return 1
"#;

/// Stop. The keys of players expire. KEYS: server, players, servers, events. ARGV: id, event.
pub(super) const UNREGISTER: &str = r#"
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('SREM', KEYS[3], ARGV[1])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', '1000', '*', 'data', ARGV[2])
return 1
"#;

/// An id without a hash: removed, unless the hash exists by now. KEYS: server, servers, events.
/// ARGV: id, event.
pub(super) const GONE: &str = r#"
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('SREM', KEYS[2], ARGV[1]) == 1 then
  redis.call('XADD', KEYS[3], '*', 'data', ARGV[2])
end
return 1
"#;
