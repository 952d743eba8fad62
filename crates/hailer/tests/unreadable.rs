//! An unreadable later message never costs the messages before it, in any protocol.
//!
//! Each conversation of the vectors runs up to one of its later messages, which arrives broken,
//! however often the client repeats its request. The answer has all that it has if the server is
//! silent instead. The table is `golden/unreadable.txt`: `kept` is a status that names the gap,
//! `same` is the whole status, `read` is a status with the broken message, whose text parses, and
//! `nothing` an error, because the messages before were challenges, or parts without a start.

use hailer::Status;
use hailer::proto::Depth;
use hailer::proto::model::Roster;
use hailer::proto::wire::UNREADABLE_MESSAGE;
use hailer::proto::{Fault, Transport};
use hailer::support::drive::{Action, ExchangeDriver, QueryLimits};
use hailer_testkit::vector::{self, Conversation, Line};
use hailer_testkit::{golden, statuses::Random};
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests that get the broken message as a reply.
const TURNS: usize = 64;

#[test]
fn messages_before_an_unreadable_one_count() {
    let mut table = String::from(
        "# Answers to conversations whose later message is broken. See crates/hailer/tests/unreadable.rs.\n",
    );
    let mut complaints = Vec::new();
    let mut kept_by = BTreeMap::new();
    for conversation in vector::all_conversations() {
        if conversation.ask.depth != Depth::Full {
            continue;
        }
        let Ok(Some(whole)) = run(&conversation, usize::MAX, <[u8]>::to_vec) else {
            continue;
        };
        let mut row = Vec::new();
        for place in 1..conversation.received().count() {
            let before = run(&conversation, place, |_| Vec::new()).ok().flatten();
            let results = breakages().map(|edit| run(&conversation, place, edit));
            match summarize(&results, before.as_ref(), &whole) {
                Ok(word) => row.push(word),
                Err(problem) => {
                    complaints.push(format!("{}, message {place}: {problem}", conversation.name))
                }
            }
        }
        if !row.is_empty() {
            let id = conversation.protocol.info().id;
            *kept_by.entry(id).or_insert(false) |= row.contains(&"kept");
            table.push_str(&format!("{:50} {}\n", conversation.name, row.join(" ")));
        }
    }
    for (id, is_kept) in kept_by {
        if !is_kept {
            table.push_str(&format!("{id}: no message before the last has a status\n"));
        }
    }
    complaints.extend(golden::check("unreadable.txt", &table).err());
    golden::settle(&complaints);
}

/// Returns a broken message.
type Edit = fn(&[u8]) -> Vec<u8>;

/// Ways to break a message: its second half is missing, or everything after its start is noise or
/// zeros, so that counts and lengths are too large or too small.
fn breakages() -> [Edit; 4] {
    fn start(bytes: &[u8]) -> usize {
        (bytes.len() / 2).min(14)
    }
    [
        |bytes| bytes[..bytes.len() / 2].to_vec(),
        |bytes| {
            let mut bytes = bytes.to_vec();
            let start = start(&bytes);
            bytes[start..].fill(0xFF);
            bytes
        },
        |bytes| {
            let mut bytes = bytes.to_vec();
            let start = start(&bytes);
            let mut random = Random(5);
            bytes[start..].fill_with(|| random.below(256) as u8);
            bytes
        },
        |bytes| bytes[..(bytes.len() - 1).min(6)].to_vec(),
    ]
}

/// Returns the status of a conversation whose received message `place` is edited, and repeated
/// from then on; `None` if there is no status because of the message.
///
/// An empty message stands for silence.
fn run(conversation: &Conversation, place: usize, edit: Edit) -> Result<Option<Status>, Fault> {
    let mut limits = QueryLimits::default();
    limits.deadline = Duration::from_secs(60);
    let is_stream = conversation.protocol.info().transport == Transport::Stream;
    let mut driver = ExchangeDriver::new(conversation.exchange(), limits);
    let mut now = Duration::from_secs(1);
    let mut out = Vec::new();
    let mut action = driver.start(now, &mut out);
    let mut received = 0;
    for (_, line) in &conversation.lines {
        now += Duration::from_millis(1);
        action = match line {
            Line::Received(bytes) if received < place => {
                received += 1;
                match is_stream {
                    true => driver.stream(now, bytes, &mut out),
                    false => driver.datagram(now, bytes, &mut out),
                }
            }
            Line::Received(bytes) => {
                return broken(&mut driver, now, is_stream, &edit(bytes));
            }
            Line::SentMore(_) => driver.resume(now, &mut out),
            Line::Closed(rest) => {
                driver.stream(now, rest, &mut out);
                driver.closed(now, &mut out)
            }
            Line::Timeout => {
                now = driver.due();
                driver.tick(now, &mut out)
            }
            Line::GiveUp => break,
            _ => continue,
        };
        if let Action::End(end) = action {
            return Ok(end.ok().map(|output| *output.status));
        }
    }
    drop(action);
    Ok(driver.take_partial().map(|output| *output.status))
}

/// Sends the broken message, again after each request, until the query ends.
fn broken(
    driver: &mut ExchangeDriver,
    mut now: Duration,
    is_stream: bool,
    bytes: &[u8],
) -> Result<Option<Status>, Fault> {
    let mut out = Vec::new();
    for _ in 0..TURNS {
        let mut action = match is_stream {
            _ if bytes.is_empty() => Action::Wait,
            true => driver.stream(now, bytes, &mut out),
            false => driver.datagram(now, bytes, &mut out),
        };
        loop {
            action = match action {
                Action::SendMore => driver.resume(now, &mut out),
                Action::Wait | Action::Progress => {
                    now = driver.due();
                    driver.tick(now, &mut out)
                }
                Action::Send | Action::Reconnect => break,
                Action::End(Ok(output)) => return Ok(Some(*output.status)),
                Action::End(Err(hailer::support::drive::ExchangeError::Fault {
                    fault, ..
                })) => {
                    return Err(*fault);
                }
                Action::End(Err(_)) => return Ok(None),
            };
        }
        now += Duration::from_millis(1);
    }
    panic!("the query does not end");
}

/// Returns the word of the table for the answers to one message, or the problem of one.
fn summarize(
    results: &[Result<Option<Status>, Fault>],
    before: Option<&Status>,
    whole: &Status,
) -> Result<&'static str, String> {
    let statuses: Vec<_> = results
        .iter()
        .filter_map(|end| end.as_ref().ok()?.as_ref())
        .collect();
    let Some(before) = before else {
        return Ok("nothing");
    };
    if statuses.len() < results.len() {
        return Err(format!("it costs what was read before: {results:?}"));
    }
    let mut word = "same";
    for status in statuses {
        let is_marked = status.deviations.contains(&&UNREADABLE_MESSAGE);
        let has_lost = status.name != before.name
            || status.players.list.len() < before.players.list.len()
            || status.rules.len() < before.rules.len();
        if is_marked && has_lost {
            return Err(format!("{before:?} becomes {status:?}"));
        }
        let listed = status.players.list.len() as i64;
        let was_whole = before.players.roster == Roster::Whole;
        let is_whole = status.players.roster == Roster::Whole;
        let has_gap = |met: &&hailer::proto::Deviation| met.name.starts_with("unreadable");
        let is_missing = listed < before.players.online.unwrap_or(0)
            && matches!(whole.players.roster, Roster::Whole | Roster::Partial)
            && status.players.list.len() < whole.players.list.len();
        if is_missing
            && status.deviations.iter().any(has_gap)
            && status.players.roster != Roster::Partial
        {
            return Err(format!("an unreadable list is not partial: {status:?}"));
        }
        if is_marked && is_whole && !was_whole && Some(listed) < whole.players.online {
            return Err(format!("a part of a list passes for whole: {status:?}"));
        }
        if status == whole {
            continue;
        }
        let names_gap = status.deviations != whole.deviations
            || status.extra("unanswered").is_some()
            || status.extra("list-error").is_some();
        word = match (names_gap, word) {
            (true, "same") => "kept",
            (false, _) => "read",
            (true, word) => word,
        };
    }
    Ok(word)
}
