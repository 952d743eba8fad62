//! Heartbeats of this node, and the chunks it polls.
//!
//! In: leases in Redis. Out: chunks that the poller starts or stops.
//!
//! May import: `crate::cluster`, `crate::cluster::entry`, `crate::cluster::keys`,
//! `crate::cluster::lease`, `crate::cluster::push`, `crate::cluster::scripts`, `crate::health`,
//! `crate::poll`, `crate::sample`, `crate::server`, `crate::sessions`, `hailer`.

use super::entry::{StateRecord, read_server};
use super::keys::part;
use super::lease::{AcquiredChunk, Chunk, HeartbeatResult, LeaseChanges};
use super::push::PushCommand;
use super::{ByChunk, Reference, Shared, scripts};
use crate::health::Health;
use crate::poll::{Handover, ServerState};
use crate::sample::{Millis, millis};
use crate::server::{Server, ServerId};
use crate::sessions::RESUME_MS;
use hailer::support::link::{RedisConnection, stop_requested};
use redis::{RedisError, RedisResult, Script, pipe};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

/// Results from this long before the last heartbeat of the previous owner may not have been
/// written, in milliseconds.
const UNCONFIRMED_MS: Millis = 5_000;
/// Limit of chunks read in one pipeline.
const CHUNKS_PER_READ: usize = 16;
/// Timeout for reading states from PostgreSQL if Redis does not have them.
const STATE_READ_TIMEOUT: Duration = Duration::from_secs(2);

static BEAT: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::BEAT));

/// For a new chunk, the time after which missed samples are made up for, if any. `None` for a chunk
/// that this node has already.
type CatchUp = Option<Option<Millis>>;

/// State from one heartbeat to the next.
struct Control {
    shared: Arc<Shared>,
    /// Servers of the chunks that were read.
    servers: ByChunk<Vec<ServerId>>,
    /// Chunks to be read.
    to_read: VecDeque<(Chunk, CatchUp)>,
    filled: String,
    /// Whether the reply to the last heartbeat may have been lost, or there was none.
    is_fresh: bool,
    leads_until: Millis,
}

/// Sends heartbeats until `stop`, then gives all chunks back.
pub(super) async fn run(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut control = Control {
        servers: ByChunk::default(),
        to_read: VecDeque::new(),
        filled: String::new(),
        is_fresh: true,
        leads_until: 0,
        shared: shared.clone(),
    };
    loop {
        let mut link = tokio::select! {
            link = shared.connect("heartbeat") => link,
            () = stop_requested(&mut stop) => return,
        };
        let live = control.live(&mut link);
        let ended = tokio::select! {
            ended = live => ended,
            () = stop_requested(&mut stop) => {
                control.leave(&mut link).await;
                return;
            }
        };
        if let Err(error) = ended {
            shared.set_error("heartbeat", Some(shared.config.redis.describe(&error)));
        }
        control.is_fresh = true;
        control.check_lead();
        sleep(shared.heartbeat().min(super::RECONNECT_DELAY)).await;
    }
}

/// Stops polling chunks whose leases have ended by the clock of this node, even if Redis does not
/// reply.
pub(super) async fn watch_over(shared: Arc<Shared>) {
    loop {
        sleep(shared.config.lease / 50).await;
        let ended = shared.leases().expire(shared.now());
        if !ended.is_empty() {
            let servers: Vec<ServerId> = shared
                .poll
                .asked()
                .into_iter()
                .filter(|id| ended.contains(&Chunk::of(*id)))
                .collect();
            shared.stop(ended, &servers).await;
        }
    }
}

impl Control {
    async fn live(&mut self, link: &mut RedisConnection) -> RedisResult<()> {
        let shared = self.shared.clone();
        shared.compare_with_redis(link).await?;
        loop {
            let next = shared.now() + millis(shared.heartbeat());
            let is_more = self.heartbeat(link, false).await?;
            shared.set_error("heartbeat", None);
            loop {
                self.read_some(link).await?;
                self.give().await;
                let is_giving = shared.leases().is_giving();
                if shared.now() >= next || is_giving || (is_more && self.to_read.is_empty()) {
                    break;
                }
                if self.to_read.is_empty() {
                    let wait = (next - shared.now()).clamp(1, 50);
                    sleep(Duration::from_millis(wait as u64)).await;
                }
            }
        }
    }

    /// Sends one heartbeat. Returns whether more chunks may be free now.
    async fn heartbeat(
        &mut self,
        link: &mut RedisConnection,
        is_leaving: bool,
    ) -> RedisResult<bool> {
        let shared = self.shared.clone();
        let asked = shared.now();
        let sent = shared.clock.now();
        let heartbeat = shared.leases().heartbeat();
        let mut script = BEAT.prepare_invoke();
        for word in [
            "leases", "owners", "workers", "versions", "leader", "filled", "changed",
        ] {
            script.key(shared.keys.control(word));
        }
        let roles = shared.config.roles;
        let takes_part = !is_leaving && !shared.has_wrong_clock();
        let works = roles.can_poll && takes_part;
        let wants = roles.can_serve && takes_part;
        script
            .arg(&shared.me)
            .arg(shared.config.lease.as_millis() as u64);
        script
            .arg(u8::from(works))
            .arg(u8::from(wants))
            .arg(u8::from(self.is_fresh))
            .arg(heartbeat.given.len());
        for chunk in heartbeat.given.iter().chain(&heartbeat.held) {
            script.arg(chunk.0);
        }
        type HeartbeatReply = (
            i64,
            i64,
            i64,
            usize,
            u8,
            String,
            u64,
            Vec<i64>,
            Vec<u64>,
            Vec<i64>,
        );
        // If the reply is lost, the script may have run.
        self.is_fresh = true;
        let reply: HeartbeatReply = script.invoke_async(link).await?;
        self.is_fresh = false;
        let (now, _alive, chunks, share, leads, filled, changed, lost, held, taken) = reply;
        let answer = HeartbeatResult {
            now,
            share,
            lost: lost.into_iter().map(Chunk).collect(),
            versions: held
                .chunks_exact(2)
                .map(|pair| (Chunk(pair[0] as i64), pair[1]))
                .collect(),
            taken: taken.chunks_exact(3).map(taken_chunk).collect(),
        };
        shared.record_time(Reference::Redis, now, sent);
        shared
            .redis_start
            .store(now - shared.now(), Ordering::Relaxed);
        let orders = {
            let mut leases = shared.leases();
            leases.given(&heartbeat);
            leases.answer(asked, &answer)
        };
        let is_more =
            !answer.taken.is_empty() && answer.taken.len() + answer.versions.len() < share;
        self.obey(orders).await;

        let life = millis(shared.config.lease);
        self.leads_until = if leads == 1 {
            asked + life - life / 10
        } else {
            0
        };
        self.check_lead();
        if filled != self.filled {
            // Redis was emptied: write the state of our servers again.
            let _ = shared.to_push.send(PushCommand::Rewrite).await;
            self.filled.clone_from(&filled);
        }
        if leads == 1 && (filled.is_empty() || chunks == 0 && !shared.live.is_empty()) {
            shared.must_fill.store(true, Ordering::Relaxed);
            shared.fill.notify_one();
        }
        if shared.changed.swap(changed, Ordering::Relaxed) != changed {
            shared.news.notify_one();
        }
        Ok(is_more)
    }

    /// The leader steps down when its lease ends by its own clock.
    fn check_lead(&self) {
        let leads = self.leads_until > self.shared.now();
        self.shared
            .leads
            .send_if_modified(|known| std::mem::replace(known, leads) != leads);
    }

    fn servers_of(&self, chunks: &[Chunk]) -> Vec<ServerId> {
        chunks
            .iter()
            .flat_map(|chunk| self.servers.get(chunk).map_or(&[][..], Vec::as_slice))
            .copied()
            .collect()
    }

    async fn obey(&mut self, orders: LeaseChanges) {
        let LeaseChanges {
            stop,
            drain,
            read,
            begin,
        } = orders;
        self.to_read
            .retain(|(chunk, _)| !stop.contains(chunk) && !drain.contains(chunk));
        let servers = self.servers_of(&stop);
        for chunk in &stop {
            self.servers.remove(chunk);
        }
        self.shared.stop(stop, &servers).await;
        self.shared.poll.pause(&self.servers_of(&drain));
        self.to_read
            .extend(begin.into_iter().map(|(chunk, since)| (chunk, Some(since))));
        self.to_read
            .extend(read.into_iter().map(|chunk| (chunk, None)));
    }

    /// Gives back the chunks whose last results have arrived.
    async fn give(&mut self) {
        let shared = &self.shared;
        let now = shared.now();
        let draining: Vec<(Chunk, Millis)> = shared.leases().draining().collect();
        let is_done = |(chunk, end): &(Chunk, Millis)| {
            *end <= now || !shared.poll.is_polling(&self.servers_of(&[*chunk]))
        };
        let done: Vec<Chunk> = draining
            .into_iter()
            .filter(is_done)
            .map(|(chunk, _)| chunk)
            .collect();
        if done.is_empty() {
            return;
        }
        let (done_sender, written) = oneshot::channel();
        let _ = shared
            .to_push
            .send(PushCommand::Flush(done.clone(), done_sender))
            .await;
        let _ = timeout(super::STOP_TIMEOUT, written).await;
        let servers = self.servers_of(&done);
        shared.stop(done.clone(), &servers).await;
        for chunk in &done {
            self.servers.remove(chunk);
        }
        let mut leases = self.shared.leases();
        for chunk in done {
            leases.gave(chunk);
        }
    }

    /// Reads some of the chunks that are new or have changed.
    async fn read_some(&mut self, link: &mut RedisConnection) -> RedisResult<()> {
        let mut chunks: BTreeMap<usize, Vec<(Chunk, CatchUp)>> = BTreeMap::new();
        for _ in 0..CHUNKS_PER_READ {
            let Some((chunk, since)) = self.to_read.pop_front() else {
                break;
            };
            chunks.entry(part(chunk)).or_default().push((chunk, since));
        }
        for chunks in chunks.into_values() {
            let mut pipe = pipe();
            for (chunk, _) in &chunks {
                pipe.cmd("HGETALL").arg(self.shared.keys.targets(*chunk));
                pipe.cmd("HGETALL").arg(self.shared.keys.state(*chunk));
            }
            let read: Vec<HashMap<String, Vec<u8>>> = match pipe.query_async(link).await {
                Ok(read) => read,
                Err(error) => {
                    self.to_read.extend(chunks);
                    return Err(error);
                }
            };
            for ((chunk, since), pair) in chunks.into_iter().zip(read.chunks_exact(2)) {
                self.begin(chunk, since, &pair[0], &pair[1]).await;
            }
        }
        Ok(())
    }

    /// Begins to poll the servers of a chunk that is new or has changed.
    async fn begin(
        &mut self,
        chunk: Chunk,
        since: CatchUp,
        targets: &HashMap<String, Vec<u8>>,
        states: &HashMap<String, Vec<u8>>,
    ) {
        let shared = self.shared.clone();
        let mut servers = Vec::new();
        for (field, json) in targets {
            // Skip the fields of the version and the digest.
            let Ok(id) = field.parse::<i64>() else {
                continue;
            };
            servers.extend(read_server(id, json).filter(|server| Chunk::of(server.id) == chunk));
        }
        if !shared.leases().holds(chunk, shared.now()) {
            return;
        }
        let ids: Vec<ServerId> = servers.iter().map(|server| server.id).collect();
        let before = self.servers.insert(chunk, ids.clone()).unwrap_or_default();
        let Some(since) = since else {
            let gone = before.into_iter().filter(|id| !ids.contains(id)).collect();
            shared.replace_servers(gone, servers);
            return;
        };
        let mut memories = shared.read_memories(chunk, &ids, states).await;
        let _ = shared
            .to_push
            .send(PushCommand::Begin(chunk, memories.clone()))
            .await;
        let since = since.map(|since| since - shared.ahead());
        let resumed = servers.into_iter().map(|server| {
            let memory = memories.remove(&server.id).unwrap_or_default();
            let interval = millis(server.interval.unwrap_or(shared.interval));
            let after = since.map(|since| memory.at.max(since - UNCONFIRMED_MS - interval / 20));
            Handover {
                server,
                known: memory.known(),
                after,
            }
        });
        let resumed: Vec<Handover> = resumed.collect();
        {
            // Skip the chunk if its lease was lost meanwhile. The lock prevents a loss until
            // polling starts.
            let leases = shared.leases();
            if leases.holds(chunk, shared.now()) {
                shared.poll.resume(resumed);
            }
        }
        tokio::spawn(async move {
            let since = shared.clock.now() - RESUME_MS;
            let sessions = shared
                .history
                .sessions_of(chunk.first(), chunk.end(), since);
            if let Ok(Ok(sessions)) = timeout(STATE_READ_TIMEOUT, sessions).await {
                let _ = shared.to_push.send(PushCommand::Sessions(sessions)).await;
            }
        });
    }

    /// Gives all chunks back.
    async fn leave(&mut self, link: &mut RedisConnection) {
        let held: Vec<Chunk> = self.shared.leases().held().collect();
        let servers = self.servers_of(&held);
        self.shared.poll.pause(&servers);
        let end = self.shared.now() + 1_000;
        while self.shared.poll.is_polling(&servers) && self.shared.now() < end {
            sleep(Duration::from_millis(20)).await;
        }
        let (done_sender, written) = oneshot::channel();
        let _ = self
            .shared
            .to_push
            .send(PushCommand::Flush(held.clone(), done_sender))
            .await;
        let _ = timeout(super::STOP_TIMEOUT, written).await;
        // Close the sessions last.
        self.shared.stop(held.clone(), &servers).await;
        let (done_sender, written) = oneshot::channel();
        let _ = self
            .shared
            .to_push
            .send(PushCommand::Flush(Vec::new(), done_sender))
            .await;
        let _ = timeout(super::STOP_TIMEOUT, written).await;
        {
            let mut leases = self.shared.leases();
            for chunk in held {
                leases.gave(chunk);
            }
        }
        // One try: a node that stops does not wait for Redis.
        let _: Result<bool, RedisError> = self.heartbeat(link, true).await;
    }
}

impl Shared {
    /// Stops polling the servers that are gone, and polls those that are there now. Servers that
    /// stay keep their state; new ones start without.
    fn replace_servers(&self, gone: Vec<ServerId>, servers: Vec<Server>) {
        self.poll.leave(&gone);
        for id in &gone {
            self.live.remove(*id);
        }
        if !gone.is_empty() {
            self.live.announce(gone);
        }
        let resumed = servers.into_iter().map(|server| Handover {
            server,
            known: ServerState::default(),
            after: None,
        });
        self.poll.resume(resumed.collect());
    }

    /// Returns the state of the servers of a chunk, as stored in Redis, or else in PostgreSQL.
    async fn read_memories(
        &self,
        chunk: Chunk,
        servers: &[ServerId],
        stored: &HashMap<String, Vec<u8>>,
    ) -> HashMap<ServerId, StateRecord> {
        let mut memories: HashMap<ServerId, StateRecord> = HashMap::new();
        for (field, json) in stored {
            if let (Ok(id), Ok(memory)) = (field.parse(), serde_json::from_slice(json)) {
                memories.insert(ServerId(id), memory);
            }
        }
        if servers.iter().all(|id| memories.contains_key(id)) {
            return memories;
        }
        let states = self.history.states_of(chunk.first(), chunk.end());
        if let Ok(Ok(states)) = timeout(STATE_READ_TIMEOUT, states).await {
            for (id, state, since) in states {
                memories.entry(id).or_insert(StateRecord {
                    health: Health::known(state, since),
                    ..StateRecord::default()
                });
            }
        }
        memories
    }
}

fn taken_chunk(three: &[i64]) -> AcquiredChunk {
    AcquiredChunk {
        chunk: Chunk(three[0]),
        version: three[1] as u64,
        since: (three[2] > 0).then_some(three[2]),
    }
}
