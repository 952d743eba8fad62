//! Row of the state table: the current state of one server.

use crate::health::{Health, State};
use crate::icon::IconId;
use crate::sample::{Millis, PollError, Sample};
use crate::server::{Server, ServerId};
use crate::uptime::{Uptime, sample_length_ms};
use compact_str::CompactString;
use hailer::Status;
use hailer::proto::Text;
use hailer::support::catalog;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;

/// Number of buckets of the sparkline: one day in steps of 30 minutes.
pub const DAY_BUCKETS: usize = 48;
/// Length of a bucket, in milliseconds.
pub const DAY_BUCKET_MS: Millis = 30 * 60_000;

/// Current state of one server.
#[derive(Clone, Debug)]
pub struct ServerRow {
    /// Server of this row.
    pub server: Arc<Server>,
    /// Whether the server is up.
    pub state: State,
    /// Whether the server is flapping: its short ups and downs are not reported.
    pub is_flapping: bool,
    /// Whether the state was reported. If not, the server is flapping, and the state has not lasted
    /// for long enough.
    pub is_settled: bool,
    /// Times of the changes that make the server flap, the oldest first; empty if it is not flapping.
    pub changes: Vec<Millis>,
    /// When the server entered this state, in Unix milliseconds.
    pub since: Millis,
    /// The last sample.
    pub last_sample: Option<Sample>,
    /// When the last sample was taken, by the clock of Redis. It decides which sample is the newest:
    /// the clocks of nodes may differ. 0 for a monitor that runs alone.
    pub(crate) taken: Millis,
    /// Why the last poll failed; `None` if it did not.
    pub error: Option<Arc<PollError>>,
    /// The last status; kept while the server is down.
    pub last_status: Option<Arc<LastStatus>>,
    /// Players and uptime of the last day.
    pub day: Day,
}

impl ServerRow {
    /// Returns the id of the protocol of the last answer. Before the first, that in which the server is
    /// polled.
    pub fn protocol(&self) -> &str {
        let last = self.last_status.as_ref().and_then(|last| last.protocol);
        last.unwrap_or_else(|| super::find::protocol(&self.server))
    }

    /// Returns the last sample if the server replied.
    pub fn last_answer(&self) -> Option<Sample> {
        self.last_sample.filter(|last| last.is_answered)
    }

    /// Copies the health of the server into its row.
    pub(crate) fn set_health(&mut self, health: &Health) {
        self.state = health.state;
        self.since = health.since;
        self.is_flapping = health.is_flapping;
        self.is_settled = health.is_settled();
        self.changes.clear();
        self.changes.extend_from_slice(health.flapping_changes());
    }

    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            state: State::Unknown,
            is_flapping: false,
            is_settled: true,
            changes: Vec::new(),
            since: 0,
            last_sample: None,
            taken: 0,
            error: None,
            last_status: None,
            day: Day::default(),
        }
    }
}

/// Id of a protocol of the catalog.
type ProtocolId = &'static str;

/// The last status of a server. Short texts, up to 24 bytes, are stored inline: there may be
/// 100,000 of each.
///
/// The history and the cluster store it as JSON, without player names, answer and datagrams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LastStatus {
    /// When the poll was due, in Unix milliseconds.
    pub at: Millis,
    /// Address that replied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Id of the protocol of the answer; of several, the main one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(default, deserialize_with = "known_protocol")]
    pub protocol: Option<ProtocolId>,
    /// Name of the server, or else the first line of its MOTD; unfiltered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<CompactString>,
    /// MOTD with formatting.
    #[serde(default, with = "stored_text")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub motd: Option<Text>,
    /// Game, as the server reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub game: Option<CompactString>,
    /// Version of game or server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<CompactString>,
    /// Name of the map or world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<CompactString>,
    /// Maximum number of players.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Whether players need a password to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_password: Option<bool>,
    /// Whether the server uses anti-cheat software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_anti_cheat: Option<bool>,
    /// Number of bots, which the number of players may include or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bots: Option<u32>,
    /// Icon, in [`StateTable::icons`](super::StateTable::icons) or the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<IconId>,
    /// Names of the players online, without formatting.
    #[serde(skip)]
    pub players: Box<[CompactString]>,
    /// Whether `players` lists all players who are online.
    #[serde(skip)]
    pub is_whole: bool,
    /// Whether `players` is a sample that the server chose. It may contain texts that are no names.
    #[serde(skip)]
    pub is_sample: bool,
    /// The answer as JSON without the icon, see `schema/answer-v2.json`; empty if it exceeded a limit.
    #[serde(skip)]
    pub answer: Box<[u8]>,
    /// The datagrams of the reply; empty if they exceeded a limit.
    #[serde(skip)]
    pub replies: Vec<Box<[u8]>>,
}

/// Reads the id of a protocol; `None` if this version does not know it.
fn known_protocol<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ProtocolId>, D::Error> {
    let id = Option::<String>::deserialize(from)?;
    let protocol = id.and_then(|id| catalog::protocol(&id));
    Ok(protocol.map(|protocol| protocol.info().id))
}

/// A text as it was received, and whether it contains formatting codes.
mod stored_text {
    use hailer::proto::Text;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(text: &Option<Text>, to: S) -> Result<S::Ok, S::Error> {
        let text = text.as_ref().map(|text| {
            let has_codes = Text::legacy(text.raw()).plain() == text.plain();
            (text.raw(), has_codes)
        });
        text.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Text>, D::Error> {
        let text = Option::<(String, bool)>::deserialize(from)?;
        Ok(text.map(|(raw, has_codes)| match has_codes {
            true => Text::legacy(raw),
            false => Text::unformatted(raw),
        }))
    }
}

impl LastStatus {
    /// Returns the bytes of the answer and of the datagrams.
    pub(crate) fn long_bytes(&self) -> usize {
        self.answer.len() + self.replies.iter().map(|reply| reply.len()).sum::<usize>()
    }

    /// Returns how complete the list of players is: `whole`, `partial`, `sample` or `absent`.
    pub fn roster(&self) -> &'static str {
        match (&*self.players, self.is_sample, self.is_whole) {
            (_, true, _) => "sample",
            (_, _, true) => "whole",
            ([], ..) => "absent",
            _ => "partial",
        }
    }

    /// Decodes the whole status. `None` if the answer was too long to be kept, or if a node of
    /// another version wrote it in a way that this version cannot read.
    pub fn status(&self) -> Option<Status> {
        hailer::respond::source::json::status(&self.answer).ok()
    }
}

/// State of the last day: 48 buckets of half an hour in a ring.
#[derive(Clone, Debug)]
pub struct Day {
    /// Number of the newest bucket, counted from 1970.
    newest: i64,
    /// When the newest sample was taken, 0 before the first.
    last_sample: Millis,
    buckets: [DayBucket; DAY_BUCKETS],
}

/// Half an hour. Times are in tenths of a second, which keeps a bucket at 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DayBucket {
    /// Players, times the tenths of a second with a reply.
    players: f32,
    up: u16,
    observed: u16,
}

/// 30 minutes of one server, as the history stores them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfHour {
    /// The server that was polled.
    pub server: ServerId,
    /// When it starts, in Unix milliseconds.
    pub start: Millis,
    /// Time of its newest sample; 0 if it was not read.
    pub last_sample: Millis,
    /// Time with samples, in milliseconds.
    pub observed_ms: Millis,
    /// Time with replies, in milliseconds.
    pub up_ms: Millis,
    /// Mean number of players, 0 without replies.
    pub players: f32,
}

impl Default for Day {
    fn default() -> Self {
        Self {
            newest: 0,
            last_sample: 0,
            buckets: [DayBucket::default(); DAY_BUCKETS],
        }
    }
}

impl Day {
    /// Adds a sample.
    /// A sample from a clock that is more than half an hour ahead of `now` is not of the last day,
    /// and buckets after that time are dropped: they would hide later samples.
    pub fn add_sample(&mut self, sample: &Sample, now: Millis) {
        let last = (now + DAY_BUCKET_MS).div_euclid(DAY_BUCKET_MS);
        if self.newest > last {
            let kept = self.newest - DAY_BUCKETS as i64 + 1..=last;
            for number in last + 1..=self.newest {
                let place = number.rem_euclid(DAY_BUCKETS as i64) as usize;
                self.buckets[place] = DayBucket::default();
            }
            self.newest = if kept.is_empty() { 0 } else { last };
        }
        // A node that takes over may repeat the last sample.
        if sample.at > now + DAY_BUCKET_MS || sample.at == self.last_sample {
            return;
        }
        let previous = Some(self.last_sample).filter(|previous| *previous > 0);
        let known = Some(sample.observed_ms.into());
        let length = sample_length_ms(known, previous, sample.at);
        self.last_sample = sample.at;
        let up = if sample.is_answered { length } else { 0 };
        let players = sample.players.unwrap_or_default();
        self.add(sample.at, length, up, players as f32);
    }

    /// Adds `observed_ms` milliseconds to the bucket of `at`, of which the server was up for
    /// `up_ms`, with `players` players in the mean. Times before the last day are ignored.
    pub fn add(&mut self, at: Millis, observed_ms: Millis, up_ms: Millis, players: f32) {
        let number = at.div_euclid(DAY_BUCKET_MS);
        if number <= self.newest - DAY_BUCKETS as i64 {
            return;
        }
        for passed in (self.newest + 1).max(number - DAY_BUCKETS as i64 + 1)..=number {
            self.buckets[passed.rem_euclid(DAY_BUCKETS as i64) as usize] = DayBucket::default();
        }
        self.newest = self.newest.max(number);
        let tenths = |millis: Millis| u16::try_from(millis.max(0) / 100).unwrap_or(u16::MAX);
        let up = tenths(up_ms.min(observed_ms));
        let bucket = &mut self.buckets[number.rem_euclid(DAY_BUCKETS as i64) as usize];
        bucket.players += players * f32::from(up);
        bucket.up = bucket.up.saturating_add(up);
        bucket.observed = bucket.observed.saturating_add(tenths(observed_ms));
    }

    /// Returns the time of the newest sample, 0 before the first.
    pub fn last_sample(&self) -> Millis {
        self.last_sample
    }

    /// Adds a half-hour bucket of the history.
    pub(super) fn add_half_hour(&mut self, half_hour: &HalfHour) {
        let HalfHour {
            start,
            last_sample,
            observed_ms,
            up_ms,
            players,
            ..
        } = *half_hour;
        self.add(start, observed_ms, up_ms, players);
        self.last_sample = self.last_sample.max(last_sample);
    }

    /// Replaces a bucket by that of the history, `None` if the history has none.
    pub(super) fn replace(&mut self, start: Millis, half_hour: Option<&HalfHour>) {
        let number = start.div_euclid(DAY_BUCKET_MS);
        if number <= self.newest && number > self.newest - DAY_BUCKETS as i64 {
            let place = number.rem_euclid(DAY_BUCKETS as i64) as usize;
            self.buckets[place] = DayBucket::default();
        }
        if let Some(half_hour) = half_hour {
            self.add_half_hour(half_hour);
        }
    }

    /// Returns the mean number of players in each bucket up to `now`, the oldest first; `None`
    /// without replies.
    pub fn players(&self, now: Millis) -> [Option<f32>; DAY_BUCKETS] {
        self.buckets(now)
            .map(|bucket| (bucket.up > 0).then(|| bucket.players / f32::from(bucket.up)))
    }

    /// Returns the uptime in each bucket up to `now`, the oldest first; `None` without samples.
    pub fn uptimes(&self, now: Millis) -> [Option<f32>; DAY_BUCKETS] {
        self.buckets(now).map(|bucket| {
            let share = bucket.uptime().share()?;
            Some(share as f32)
        })
    }

    /// Returns the uptime of the last day, from 0 to 1; `None` without samples.
    pub fn uptime(&self, now: Millis) -> Option<f32> {
        let mut all = Uptime::default();
        for bucket in self.buckets(now) {
            all.merge(bucket.uptime());
        }
        all.share().map(|share| share as f32)
    }

    fn buckets(&self, now: Millis) -> [DayBucket; DAY_BUCKETS] {
        let last = now.div_euclid(DAY_BUCKET_MS);
        std::array::from_fn(|nth| {
            let number = last - (DAY_BUCKETS - 1 - nth) as i64;
            let is_kept = number <= self.newest && number > self.newest - DAY_BUCKETS as i64;
            if is_kept {
                self.buckets[number.rem_euclid(DAY_BUCKETS as i64) as usize]
            } else {
                DayBucket::default()
            }
        })
    }
}

impl DayBucket {
    fn uptime(self) -> Uptime {
        let mut uptime = Uptime::default();
        let observed = u64::from(self.observed);
        uptime.add(Millis::from(self.observed), observed, self.up.into());
        uptime
    }
}
