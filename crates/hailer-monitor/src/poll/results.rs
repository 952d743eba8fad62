//! Results of probes: samples, events and statuses, for the state table and the receiver.

use super::probes::{HttpResults, OpenProbe, OpenProbes};
use super::table::PolledServer;
use super::{Counts, PollResult, PollShared, ServerState};
use crate::lock::lock;
use crate::sample::{Event, Millis, PollError, Sample};
use crate::schedule::DueSample;
use crate::server::ServerId;
use crate::state::{LastStatus, Update};
use crate::uptime::observed_ms;
use hailer::proto::model::Roster;
use hailer::support::report::AnswerLine;
use hailer::sweep::{ProbeResult, Progress, Sink};
use hailer::{Answer, Error};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Limit for the JSON of an answer, and for the datagrams of a reply, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// Limit for the answers of all servers together, in bytes: about 8,000 servers. Later answers are
/// shown without details.
const MAX_TOTAL_ANSWER_BYTES: u64 = 16 << 20;
/// Limit of player names kept from one answer.
const MAX_PLAYERS: usize = 1_024;

/// Collects results until the next progress report of the sweep, then passes them on.
pub(super) struct ResultSink {
    shared: Arc<PollShared>,
    /// Channel for the results; `None` after the poller has ended.
    sender: Option<mpsc::Sender<Vec<PollResult>>>,
    open: Arc<Mutex<OpenProbes>>,
    http: HttpResults,
    results: Vec<PollResult>,
}

impl Sink for ResultSink {
    fn record(&mut self, end: ProbeResult) {
        let probe = lock(&self.open).remove(end.index);
        if let Some(probe) = probe {
            self.record_probe(&probe, end.result);
        }
    }

    fn report_progress(&mut self, _: &Progress<'_>) {
        self.take_http_results();
        self.pass_on();
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }
}

impl ResultSink {
    pub(super) fn new(
        shared: Arc<PollShared>,
        open: Arc<Mutex<OpenProbes>>,
        http: HttpResults,
    ) -> Self {
        Self {
            sender: shared.results.upgrade(),
            shared,
            open,
            http,
            results: Vec::new(),
        }
    }

    fn take_http_results(&mut self) {
        let ended = {
            let mut ended = lock(&self.http);
            std::mem::take(&mut *ended)
        };
        for (index, result) in ended {
            let probe = lock(&self.open).remove(index);
            if let Some(probe) = probe {
                self.record_probe(&probe, result);
            }
        }
    }

    /// Records the result of a probe, and that of the poll if it was the last one.
    fn record_probe(&mut self, probe: &OpenProbe, result: Result<Answer, Error>) {
        let shared = self.shared.clone();
        let mut table = shared.table();
        let Some(polled) = table.watched.get_mut(&probe.due.server) else {
            return;
        };
        let result = match &mut polled.poll {
            None => Some(result),
            Some(poll) if poll.at == probe.due.at => {
                poll.results.push((probe.place, result));
                poll.open = poll.open.saturating_sub(1);
                (poll.open == 0).then(|| polled.combine(&shared.config.sweep.ask))
            }
            // The server has another target by now.
            Some(_) => None,
        };
        if let Some(result) = result {
            self.record_poll(probe.due, polled, result);
        }
    }

    fn record_poll(
        &mut self,
        due: DueSample,
        polled: &mut PolledServer,
        result: Result<Answer, Error>,
    ) {
        let at = due.at;
        let counts = &self.shared.counts;
        polled.is_asked = false;
        let before = polled.last_status.clone();
        let (sample, status, error) = match result {
            Ok(answer) => {
                let sample = answered(due, &answer);
                let target = &polled.server.target;
                let mut answer = answer;
                let icon = answer.status.icon.take();
                let icon = icon.and_then(|icon| self.shared.live.icons().insert(icon));
                let mut status = last_status(target, answer, at, before.as_deref(), counts);
                status.icon = icon;
                (sample, Some(Arc::new(status)), None)
            }
            Err(error) => {
                let why = PollError::from(&error);
                (unanswered(due, &error), None, Some(Arc::new(why)))
            }
        };
        let mut sample = sample;
        let interval = self.shared.config.interval_of(&polled.server);
        sample.observed_ms = observed_ms(polled.last_at.replace(at), at, interval);
        let rules = &self.shared.config.rules;
        let reason = || error.as_ref().map(|error| error.kind.clone());
        let interval = self.shared.config.interval_of(&polled.server);
        let changes = polled
            .health
            .sample(rules, interval, at, sample.is_answered, || {
                reason().unwrap_or_default()
            });
        let server = due.server;
        let mut events: Vec<Event> = Vec::new();
        for (at, kind) in changes.into_iter().flatten() {
            events.push(Event { server, at, kind });
        }
        let found = polled.find_changes(at, status.as_ref()).into_iter();
        events.extend(found.map(|kind| Event { server, at, kind }));
        let state = ServerState {
            health: polled.health.kept(rules),
            last_status: polled.last_status.clone(),
            changes: polled.changes,
        };
        counts.samples.fetch_add(1, Ordering::Relaxed);
        let now = self.shared.config.clock.now();
        counts.last.store(now as u64, Ordering::Relaxed);
        self.results.push(PollResult {
            sample,
            error,
            status,
            events,
            state,
        });
    }

    /// Updates the state table and sends the results to the history or the cluster.
    fn pass_on(&mut self) {
        if self.results.is_empty() {
            return;
        }
        let results = std::mem::take(&mut self.results);
        let mut update = Update::default();
        let mut latest: HashMap<ServerId, &PollResult> = HashMap::with_capacity(results.len());
        for result in &results {
            let server = result.sample.server;
            latest.insert(server, result);
            update.servers.push(server);
            update.events.extend(result.events.iter().cloned());
        }
        let now = self.shared.config.clock.now();
        self.shared.live.change(update, |row| {
            let Some(result) = latest.get(&row.server.id) else {
                return;
            };
            let sample = result.sample;
            row.set_health(&result.state.health);
            row.day.add_sample(&sample, now);
            row.last_sample = Some(sample);
            row.error.clone_from(&result.error);
            // Keep the status of before a restart until the server answers.
            if let Some(status) = &result.state.last_status {
                row.last_status = Some(status.clone());
            }
        });
        let count = results.len() as u64;
        let sent = self.sender.as_ref().map(|sender| sender.try_send(results));
        if !matches!(sent, Some(Ok(()))) {
            self.shared
                .counts
                .dropped
                .fetch_add(count, Ordering::Relaxed);
        }
    }
}

fn answered(due: DueSample, answer: &Answer) -> Sample {
    let players = &answer.status.players;
    // A server may report any number. Numbers that no player count can have are dropped.
    let count = |count: i64| u32::try_from(count).ok();
    let has_players = players.online.is_some() || !players.list.is_empty();
    Sample {
        observed_ms: 0,
        server: due.server,
        at: due.at,
        is_answered: true,
        players: if has_players {
            count(players.count())
        } else {
            None
        },
        max: players.max.and_then(count),
        latency: Some(u32::try_from(answer.latency.as_micros()).unwrap_or(u32::MAX)),
        sent: saturate(answer.transcript.sent),
        // Each reply belongs to one datagram, but lists need more than one reply. So the count may
        // be too low, and is never too high.
        resent: saturate(
            answer
                .transcript
                .sent
                .saturating_sub(answer.transcript.received),
        ),
    }
}

fn unanswered(due: DueSample, error: &Error) -> Sample {
    let sent = error.transcript().map_or(0, |transcript| transcript.sent);
    Sample {
        observed_ms: 0,
        server: due.server,
        at: due.at,
        is_answered: false,
        players: None,
        max: None,
        latency: None,
        sent: saturate(sent),
        resent: saturate(sent.saturating_sub(1)),
    }
}

fn saturate(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn last_status(
    typed: &str,
    answer: Answer,
    at: Millis,
    before: Option<&LastStatus>,
    counts: &Counts,
) -> LastStatus {
    let mut json = Vec::new();
    AnswerLine::answered(typed, &answer).write(&mut json);
    let Answer {
        transcript, status, ..
    } = answer;
    let replies: usize = transcript
        .datagrams
        .iter()
        .map(|datagram| datagram.bytes.len())
        .sum();
    // The total counts each row once: the bytes of the previous answer are given back first.
    let old = before.map_or(0, LastStatus::long_bytes) as u64;
    let kept = counts.kept.fetch_sub(old, Ordering::Relaxed) - old;
    let mut new_status = LastStatus {
        at,
        address: Some(transcript.address),
        protocol: Some(transcript.protocol.id),
        title: status.title().map(Into::into),
        has_password: status.has_password,
        has_anti_cheat: status.has_anti_cheat,
        bots: status
            .players
            .bots
            .and_then(|bots| u32::try_from(bots).ok()),
        game: status.game,
        version: status.version,
        map: status.map,
        max: status.players.max.and_then(|max| u32::try_from(max).ok()),
        players: status
            .players
            .list
            .iter()
            .take(MAX_PLAYERS)
            .map(|player| player.name.plain().into())
            .collect(),
        is_whole: status.players.roster == Roster::Whole
            && status.players.list.len() <= MAX_PLAYERS,
        is_sample: status.players.roster == Roster::Sample,
        motd: status.motd,
        icon: None,
        answer: Box::default(),
        replies: Vec::new(),
    };
    if json.len() <= MAX_ANSWER_BYTES && kept + json.len() as u64 <= MAX_TOTAL_ANSWER_BYTES {
        new_status.answer = json.into();
    }
    if replies <= MAX_ANSWER_BYTES
        && kept + (new_status.long_bytes() + replies) as u64 <= MAX_TOTAL_ANSWER_BYTES
    {
        new_status.replies = transcript
            .datagrams
            .into_iter()
            .map(|datagram| datagram.bytes.into())
            .collect();
    }
    counts
        .kept
        .fetch_add(new_status.long_bytes() as u64, Ordering::Relaxed);
    new_status
}
