//! The connection to Redis: one command at a time, and a new session after each failure.
//!
//! In: commands, events of Redis. Out: replies, a view of the network.
//!
//! May import: `crate::respond::network`, `crate::respond::network::event`,
//! `crate::respond::network::record`, `crate::respond::network::scripts`,
//! `crate::respond::network::view`, `crate::support`, `hailer_proto`.

use super::event::Event;
use super::record::{FIELDS, MAX_TEXT, Member, Record};
use super::scripts;
use super::view::{HashAge, Uuid};
use super::{MAX_CHANGES, NetworkShared, NetworkState, millis, now, wall};
use crate::support::link::{RedisConnection, stop_requested};
use hailer_proto::model::uuid_text;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Script, Value, cmd, from_redis_value};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Lifetime of written keys in seconds. Heartbeats renew it.
const LIFE: i64 = 90;
/// Time between reads of the stream, about that of the reference. Without blocking reads, one
/// connection is enough.
const POLL: Duration = Duration::from_millis(150);
/// Maximum number of stream entries per read.
const EVENTS_PER_READ: usize = 100;
/// Maximum number of stream reads in a row.
const READS: usize = 10;
/// Maximum number of servers per read.
const SERVERS: usize = 50;
/// Maximum number of entries of a set or a hash per read.
const ENTRIES: usize = 1_000;
/// Initial and maximum delay between connection attempts; it doubles each time.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

static BEAT: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::BEAT));
static JOIN: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::JOIN));
static LEAVE: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::LEAVE));
static UNREGISTER: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::UNREGISTER));
static GONE: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::GONE));

/// Connects to Redis, and reconnects until stopped.
pub(super) async fn run(shared: Arc<NetworkShared>, mut stop: watch::Receiver<bool>) {
    let mut registered = false;
    let mut wait = BACK_OFF.0;
    loop {
        let connected = tokio::select! {
            () = stop_requested(&mut stop) => return,
            connected = shared.config.redis.connect() => connected,
        };
        let failure = match connected {
            Err(error) => error,
            Ok(link) => {
                let next = Instant::now();
                let session = Session {
                    link,
                    shared: &shared,
                    registered: &mut registered,
                    beat_at: next,
                    pulse_at: next,
                    refresh_at: next,
                    cursor: "0-0".into(),
                };
                match session.live(&mut stop).await {
                    Ok(()) => return,
                    Err(error) => {
                        // A connection that fails immediately, for example for missing permissions,
                        // keeps the delay.
                        if next.elapsed() > BACK_OFF.1 {
                            wait = BACK_OFF.0;
                        }
                        shared.config.redis.describe(&error)
                    }
                }
            }
        };
        {
            let mut state = shared.state();
            state.is_connected = false;
            state.errors += 1;
            state.last_error = Some(failure);
        }
        shared.changed.notify_one();
        // All members lose Redis at the same moment and should not return at the same moment.
        let spread =
            0.75 + f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX) / 2.0;
        tokio::select! {
            () = stop_requested(&mut stop) => return,
            () = sleep(wait.mul_f64(spread)) => {}
        }
        wait = (wait * 2).min(BACK_OFF.1);
    }
}

/// Returns whether an error only means that a key has another type.
fn is_about_content(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE")
        || matches!(error.kind(), redis::ErrorKind::UnexpectedReturnType)
}

struct Session<'a> {
    link: RedisConnection,
    shared: &'a NetworkShared,
    /// Whether this process has registered before.
    registered: &'a mut bool,
    beat_at: Instant,
    /// Time of the next read of other members' heartbeats.
    pulse_at: Instant,
    refresh_at: Instant,
    /// The last stream entry that was read.
    cursor: String,
}

impl Session<'_> {
    /// Runs until stopped or until a command fails.
    async fn live(mut self, stop: &mut watch::Receiver<bool>) -> RedisResult<()> {
        let reads = self.shared.config.mode.reads();
        {
            let mut state = self.shared.state();
            match state
                .last_message
                .map(|last_message| last_message.elapsed())
            {
                // A view that is too old to be used must be read again.
                Some(away) if away > self.shared.config.keep_view => {
                    state.known.clear();
                    state.refreshed = None;
                }
                // The others could not send heartbeats in the meantime.
                Some(away) => state.known.expect_returns(now(), Some(millis(away))),
                None => {}
            }
        }
        self.write_moves().await?;
        self.heartbeat().await?;
        self.shared.state().is_connected = true;
        let mut poll_at = Instant::now();
        loop {
            // In this order: a busy stream must not delay heartbeats. Changes of the game come
            // last, because there may be new ones at any time; everything else has pauses.
            tokio::select! {
                biased;
                () = stop_requested(stop) => return self.unregister().await,
                () = sleep_until(self.beat_at) => {
                    self.write_moves().await?;
                    self.heartbeat().await?;
                }
                () = sleep_until(self.refresh_at), if reads => self.refresh().await?,
                () = sleep_until(self.pulse_at), if reads => self.pulse().await?,
                () = sleep_until(poll_at), if reads => {
                    self.read_events().await?;
                    self.shared.state().known.prune(now());
                    poll_at = Instant::now() + POLL;
                }
                () = self.shared.wake.notified() => self.write_changes().await?,
            }
            self.shared.changed.notify_one();
        }
    }

    fn record_message(&self) {
        self.shared.state().last_message = Some(std::time::Instant::now());
    }

    /// Writes the complete state of this server.
    async fn heartbeat(&mut self) -> RedisResult<()> {
        let shared = self.shared;
        let id = &shared.config.server_id;
        let (record, players) = {
            let mut state = shared.state();
            // The script removes players who left; it cannot know where they moved.
            state.gone.retain(|_, to| to.is_some());
            state.needs_rewrite = false;
            let players = state
                .roster
                .iter()
                .map(|(uuid, member)| (*uuid, member.clone(), state.fresh.contains(uuid)));
            (shared.record(&state), players.collect::<Vec<_>>())
        };
        let fields = record.fields();
        let online = Event::Online {
            server: id.clone(),
            name: record.name.clone(),
        };
        let keys = &shared.keys;
        let mut script = BEAT.key(keys.server(id));
        script
            .key(keys.players(id))
            .key(keys.servers())
            .key(keys.events());
        script
            .arg(id)
            .arg(&keys.prefix)
            .arg(LIFE)
            .arg(i32::from(!*self.registered))
            .arg(online.write());
        script.arg(fields.len() * 2);
        for (field, value) in &fields {
            script.arg(*field).arg(value);
        }
        for (uuid, member, fresh) in &players {
            script.arg(uuid_text(uuid)).arg(member.write());
            script
                .arg(shared.joining(*uuid, member, id, &record.name))
                .arg(i32::from(*fresh));
        }
        let (knew, _): (i64, i64) = script.invoke_async(&mut self.link).await?;
        {
            let mut state = shared.state();
            for (uuid, member, _) in &players {
                state.record_sent(uuid, member);
            }
            if *self.registered && knew == 0 {
                state.known.expect_returns(now(), None);
            }
        }
        *self.registered = true;
        self.record_message();
        self.beat_at = Instant::now() + shared.config.heartbeat;
        Ok(())
    }

    /// Writes the players who joined and left since the last write.
    async fn write_changes(&mut self) -> RedisResult<()> {
        self.write_moves().await?;
        let shared = self.shared;
        let id = &shared.config.server_id;
        let too_much = {
            let state = shared.state();
            state.needs_rewrite || state.fresh.len() > MAX_CHANGES
        };
        if too_much {
            return self.heartbeat().await;
        }
        let (gone, fresh, name) = {
            let mut state = shared.state();
            let gone: Vec<_> = state.gone.drain().map(|(uuid, _)| uuid).collect();
            let fresh = state
                .fresh
                .iter()
                .filter_map(|uuid| Some((*uuid, state.roster.get(uuid)?.clone())));
            (gone, fresh.collect::<Vec<_>>(), shared.record(&state).name)
        };
        let keys = &shared.keys;
        for uuid in gone {
            let event = Event::Leave {
                uuid,
                server: id.clone(),
            }
            .write();
            let mut script = LEAVE.key(keys.server(id));
            script
                .key(keys.players(id))
                .key(keys.player(&uuid))
                .key(keys.events());
            let _: i64 = script
                .arg(id)
                .arg(uuid_text(&uuid))
                .arg(event)
                .invoke_async(&mut self.link)
                .await?;
        }
        for (uuid, member) in fresh {
            if self.join(id, uuid, &member, &name).await? {
                shared.state().record_sent(&uuid, &member);
            } else {
                // Redis has lost its data.
                self.beat_at = Instant::now();
            }
        }
        Ok(())
    }

    /// Writes the players who moved. A heartbeat would only remove them.
    async fn write_moves(&mut self) -> RedisResult<()> {
        let moves: Vec<_> = {
            let mut state = self.shared.state();
            let moves = state
                .gone
                .iter_mut()
                .filter_map(|(uuid, to)| Some((*uuid, to.take()?)));
            moves.collect()
        };
        for (uuid, (to, member)) in moves {
            let name: Option<Vec<u8>> = cmd("HGET")
                .arg(self.shared.keys.server(&to))
                .arg("serverName")
                .query_async(&mut self.link)
                .await?;
            let name = name
                .map(|name| super::record::text(&name))
                .unwrap_or_default();
            // After a failure the entry stays and becomes a plain leave.
            if self.join(&to, uuid, &member, &name).await? {
                self.shared.state().gone.remove(&uuid);
            }
        }
        Ok(())
    }

    /// Writes a player of a server. Returns false if Redis does not know the server.
    async fn join(
        &mut self,
        server: &str,
        uuid: Uuid,
        member: &Member,
        name: &str,
    ) -> RedisResult<bool> {
        let keys = &self.shared.keys;
        let mut script = JOIN.key(keys.server(server));
        script.key(keys.players(server)).key(keys.events());
        script
            .arg(server)
            .arg(&keys.prefix)
            .arg(LIFE)
            .arg(uuid_text(&uuid))
            .arg(member.write());
        script.arg(self.shared.joining(uuid, member, server, name));
        Ok(script.invoke_async::<i64>(&mut self.link).await? == 1)
    }

    async fn unregister(mut self) -> RedisResult<()> {
        let keys = &self.shared.keys;
        let id = &self.shared.config.server_id;
        let event = Event::Offline { server: id.clone() }.write();
        let mut script = UNREGISTER.key(keys.server(id));
        script
            .key(keys.players(id))
            .key(keys.servers())
            .key(keys.events());
        // No retries while stopping.
        let _ = script
            .arg(id)
            .arg(event)
            .invoke_async::<i64>(&mut self.link)
            .await;
        self.shared.state().is_connected = false;
        Ok(())
    }

    /// Reads everything. The stream continues from its position before that, so that no event is
    /// missed.
    async fn refresh(&mut self) -> RedisResult<()> {
        let newest = cmd("XREVRANGE")
            .arg(self.shared.keys.events())
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(1)
            .to_owned();
        if let Some(newest) = self.ask::<Vec<(String, Value)>>(&newest).await? {
            self.cursor = newest.into_iter().next().map_or("0-0".into(), |(id, _)| id);
        }
        let ids = self.ids().await?;
        self.read(&ids, true).await?;
        let now = std::time::Instant::now();
        let mut state = self.shared.state();
        state.last_message = Some(now);
        state.refreshed = Some(now);
        drop(state);
        self.refresh_at = Instant::now() + self.shared.config.refresh;
        self.put_off_pulse();
        Ok(())
    }

    /// Reads all heartbeats. They are no events, and a full read may come too late.
    async fn pulse(&mut self) -> RedisResult<()> {
        let ids = self.ids().await?;
        let changed = self.read(&ids, false).await?;
        self.read(&changed, true).await?;
        self.record_message();
        self.put_off_pulse();
        Ok(())
    }

    fn put_off_pulse(&mut self) {
        let config = &self.shared.config;
        self.pulse_at = Instant::now() + config.heartbeat.min(config.stale / 3);
    }

    /// Returns the other servers: those of the set and the known ones. Members whose Redis was
    /// emptied come back without being in the set.
    async fn ids(&mut self) -> RedisResult<Vec<String>> {
        let shared = self.shared;
        let own = &shared.config.server_id;
        let most = shared.config.max_servers;
        let mut ids: BTreeSet<String> = shared
            .state()
            .known
            .ids()
            .map(|id| id.to_string())
            .collect();
        let mut cursor = 0;
        loop {
            let scan = cmd("SSCAN")
                .arg(shared.keys.servers())
                .arg(cursor)
                .arg("COUNT")
                .arg(ENTRIES)
                .to_owned();
            let Some((next, found)) = self.ask::<(u64, Vec<Vec<u8>>)>(&scan).await? else {
                break;
            };
            for id in found {
                match String::from_utf8(id) {
                    Ok(id) if id == *own => {}
                    Ok(id) if id.len() > MAX_TEXT => shared.state().skipped += 1,
                    Ok(id) if ids.len() >= most && !ids.contains(&id) => {
                        shared.state().refused += 1;
                    }
                    Ok(id) => drop(ids.insert(id)),
                    Err(_) => shared.state().skipped += 1,
                }
            }
            cursor = next;
            // Entries beyond the limit are not read at all.
            if cursor == 0 || ids.len() >= most {
                break;
            }
        }
        let listed = cmd("SISMEMBER")
            .arg(shared.keys.servers())
            .arg(own)
            .to_owned();
        if self.ask::<i64>(&listed).await? != Some(1) {
            // Emptied while connected: the others will register again, like this member.
            shared.state().known.expect_returns(now(), None);
            self.beat_at = Instant::now();
        }
        Ok(ids.into_iter().collect())
    }

    /// Reads servers, with or without players. Returns those whose players must be read.
    async fn read(&mut self, ids: &[String], with_players: bool) -> RedisResult<Vec<String>> {
        let mut changed = Vec::new();
        for ids in ids.chunks(SERVERS) {
            if Instant::now() >= self.beat_at {
                self.write_moves().await?;
                self.heartbeat().await?;
            }
            let keys = &self.shared.keys;
            let mut pipe = Pipeline::new();
            pipe.ignore_errors();
            for id in ids {
                pipe.cmd("HMGET").arg(keys.server(id)).arg(&FIELDS);
                pipe.cmd("PTTL").arg(keys.server(id));
                if with_players {
                    pipe.cmd("HSCAN")
                        .arg(keys.players(id))
                        .arg(0)
                        .arg("COUNT")
                        .arg(ENTRIES);
                }
            }
            let replies: Vec<RedisResult<Value>> = pipe.query_async(&mut self.link).await?;
            let mut replies = replies.into_iter();
            for id in ids {
                let record = self.read_record(replies.next(), replies.next())?;
                let first = if with_players { replies.next() } else { None };
                let now = now();
                match record {
                    Err(()) => self.shared.state().skipped += 1,
                    Ok(None) => {
                        let is_gone = self.shared.state().known.missing(id, now);
                        if is_gone {
                            self.gone(id).await?;
                        }
                    }
                    Ok(Some((record, age))) => {
                        let reported = record.count;
                        if self.shared.state().known.record(id, record, age, now) {
                            changed.push(id.clone());
                        }
                        if with_players && let Some(players) = self.read_players(id, first).await? {
                            let NetworkState { known, gone, .. } = &mut *self.shared.state();
                            // Redis does not know these players yet.
                            known.list(id, players, reported, |uuid| {
                                gone.get(uuid).is_some_and(Option::is_some)
                            });
                        }
                    }
                }
            }
        }
        Ok(changed)
    }

    /// Returns the hash of a server and its age. The inner error means that the key is no hash.
    #[allow(clippy::type_complexity, reason = "read in one place")]
    fn read_record(
        &self,
        fields: Option<RedisResult<Value>>,
        life: Option<RedisResult<Value>>,
    ) -> RedisResult<Result<Option<(Record, HashAge)>, ()>> {
        let Some(fields) = content::<Vec<Option<Vec<u8>>>>(fields)? else {
            return Ok(Err(()));
        };
        let life: i64 = content(life)?.unwrap_or(-1);
        // Another lifetime than ours does not reveal the age.
        let by_redis = Some(LIFE * 1_000 - life).filter(|age| life >= 0 && *age >= 0);
        Ok(Ok(Record::read(&fields).map(|record| {
            let by_itself = record
                .heartbeat
                .map(|heartbeat| wall().saturating_sub(heartbeat));
            (
                record,
                HashAge {
                    by_redis,
                    by_itself,
                },
            )
        })))
    }

    /// Returns the players of a server, starting from the first reply. Invalid entries are skipped.
    /// `None`: there is no list.
    async fn read_players(
        &mut self,
        id: &str,
        first: Option<RedisResult<Value>>,
    ) -> RedisResult<Option<HashMap<Uuid, Member>>> {
        let most = self.shared.config.max_players;
        let mut players = HashMap::new();
        let mut skipped = 0;
        let mut left_out = 0;
        let mut page = content::<(u64, Vec<Vec<u8>>)>(first)?;
        while let Some((cursor, entries)) = page {
            for pair in entries.chunks_exact(2) {
                match Member::read(&pair[0], &pair[1], wall()) {
                    Some((uuid, member)) if players.len() < most => {
                        drop(players.insert(uuid, member));
                    }
                    Some(_) => left_out += 1,
                    None => skipped += 1,
                }
            }
            if cursor == 0 || left_out > 0 {
                let mut state = self.shared.state();
                state.skipped += skipped;
                state.refused += left_out;
                return Ok(Some(players));
            }
            let key = self.shared.keys.players(id);
            page = self
                .ask(cmd("HSCAN").arg(key).arg(cursor).arg("COUNT").arg(ENTRIES))
                .await?;
        }
        Ok(None)
    }

    /// Announces that an id has no hash.
    async fn gone(&mut self, id: &str) -> RedisResult<()> {
        let keys = &self.shared.keys;
        let mut script = GONE.key(keys.server(id));
        script.key(keys.servers()).key(keys.events());
        let event = Event::Offline { server: id.into() }.write();
        let _: i64 = script
            .arg(id)
            .arg(event)
            .invoke_async(&mut self.link)
            .await?;
        Ok(())
    }

    /// Reads new stream entries.
    async fn read_events(&mut self) -> RedisResult<()> {
        type Entries = Vec<(String, Option<Vec<Vec<u8>>>)>;
        type Streams = Option<Vec<(Vec<u8>, Entries)>>;
        for _ in 0..READS {
            let mut read = cmd("XREAD");
            read.arg("COUNT")
                .arg(EVENTS_PER_READ)
                .arg("STREAMS")
                .arg(self.shared.keys.events())
                .arg(&self.cursor);
            let read: Option<Streams> = self.ask(&read).await?;
            let entries: Entries = read
                .flatten()
                .into_iter()
                .flatten()
                .flat_map(|(_, entries)| entries)
                .collect();
            let full = entries.len() >= EVENTS_PER_READ;
            if full && self.has_gap().await? {
                // A different count means that the players must be read.
                self.pulse_at = Instant::now();
            }
            let mut unknown = BTreeSet::new();
            for (id, fields) in entries {
                let fields = fields.unwrap_or_default();
                let data = fields
                    .chunks_exact(2)
                    .find(|pair| pair[0] == b"data")
                    .map(|pair| &pair[1]);
                match data.and_then(|data| Event::read(data)) {
                    Some(event) => unknown.extend(self.apply(event)),
                    None => self.shared.state().skipped += 1,
                }
                self.cursor = id;
            }
            let unknown: Vec<_> = unknown.into_iter().collect();
            self.read(&unknown, true).await?;
            if !full {
                break;
            }
        }
        self.record_message();
        Ok(())
    }

    /// Returns whether the stream was trimmed beyond the last entry that was read. The stream holds
    /// about a thousand entries, and a large number of joins can exceed that.
    async fn has_gap(&mut self) -> RedisResult<bool> {
        let oldest = cmd("XRANGE")
            .arg(self.shared.keys.events())
            .arg("-")
            .arg("+")
            .arg("COUNT")
            .arg(1)
            .to_owned();
        let oldest = self
            .ask::<Vec<(String, Value)>>(&oldest)
            .await?
            .and_then(|entries| entries.into_iter().next());
        let number = |id: &str| {
            id.split_once('-')
                .map(|(ms, seq)| (ms.parse::<u64>().ok(), seq.parse::<u64>().ok()))
        };
        Ok(oldest.is_some_and(|(oldest, _)| number(&oldest) > number(&self.cursor)))
    }

    /// Applies an event. Returns the id of a server that must be read.
    fn apply(&mut self, event: Event) -> Option<String> {
        let own = &self.shared.config.server_id;
        let mut state = self.shared.state();
        match &event {
            // Our own event. Older events of other servers may contradict it.
            Event::Join { uuid, server, .. } if server == own => {
                if state.roster.contains_key(uuid) {
                    state.known.claim(uuid);
                }
                None
            }
            // Another member considers this one gone.
            Event::Offline { server } if server == own => {
                self.beat_at = Instant::now();
                None
            }
            Event::Online { server, .. } | Event::Leave { server, .. } if server == own => None,
            _ => state.known.apply(event, wall()),
        }
    }

    /// Sends a command; `None` if the key has another type.
    async fn ask<T: redis::FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<Option<T>> {
        let reply = command.query_async(&mut self.link).await;
        let content = content(Some(reply))?;
        if content.is_none() {
            self.shared.state().skipped += 1;
        }
        Ok(content)
    }
}

/// Turns an error about the type of a key into `None`.
fn content<T: redis::FromRedisValue>(reply: Option<RedisResult<Value>>) -> RedisResult<Option<T>> {
    match reply {
        None => Ok(None),
        Some(Ok(value)) => Ok(from_redis_value(value).ok()),
        Some(Err(error)) if is_about_content(&error) => Ok(None),
        Some(Err(error)) => Err(error),
    }
}
