//! Checks that all files in `vectors/` are parsed as they state. `vectors/README.md` describes the
//! formats.

use hailer_proto::wire::Notes;
use hailer_proto::{DatagramContext, Explanation, Frame, Input, Status, Step, Transport};
use hailer_testkit::vector::{Conversation, Line, Vector};
use hailer_testkit::{golden, vector};
use sha2::{Digest, Sha256};
use std::fmt::Write;

#[test]
fn every_vector_is_explained() {
    let mut complaints = Vec::new();
    for vector in vector::all_vectors() {
        if let Err(complaint) = explained(&vector) {
            complaints.push(format!("vectors/{}.txt: {complaint}", vector.name));
        }
    }
    golden::settle(&complaints);
}

#[test]
fn replays_every_conversation() {
    let mut complaints = Vec::new();
    for conversation in vector::all_conversations() {
        let name = &conversation.name;
        match talk(&conversation) {
            Ok(Some(status)) => complaints.extend(check_status(&conversation, &status).err()),
            Ok(None) => {}
            Err((line, complaint)) => {
                complaints.push(format!("conversation {name}:{line}: {complaint}"));
            }
        }
    }
    golden::settle(&complaints);
}

/// Compares the final status with that of another conversation, or with a golden file.
fn check_status(conversation: &Conversation, status: &Status) -> Result<(), String> {
    let name = &conversation.name;
    let Some(other) = &conversation.same_as else {
        return golden::check(&format!("conversations/{name}.json"), &summary(status));
    };
    let conversations = vector::all_conversations();
    let original = conversations
        .iter()
        .find(|original| original.name == *other && original.same_as.is_none())
        .ok_or_else(|| {
            format!("conversation {name}: no conversation {other} with a golden file")
        })?;
    match original.play(|_, bytes| Some(bytes.to_vec())) {
        Step::Done(expected) if *expected == *status => Ok(()),
        _ => Err(format!("conversation {name} does not end like {other}")),
    }
}

/// Longest player list that a golden file shows in full.
const LISTED_PLAYERS: usize = 16;

/// Returns the status as JSON. A long player list is shortened to the first two and the last
/// player, with a digest of the status.
fn summary(status: &Status) -> String {
    let pretty =
        |status: &Status| serde_json::to_string_pretty(status).expect("a status serializes");
    let list = &status.players.list;
    let (Some(last), true) = (list.last(), list.len() > LISTED_PLAYERS) else {
        return pretty(status) + "\n";
    };
    let digest = Sha256::digest(pretty(status));
    let digest = digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let mut shown = status.clone();
    shown.players.list = [&list[..2], std::slice::from_ref(last)].concat();
    format!(
        "{{\n  \"players_listed\": {},\n  \"sha256_of_whole_status\": \"{digest}\",\n  \"status\": {}\n}}\n",
        list.len(),
        pretty(&shown).replace('\n', "\n  ")
    )
}

/// The bytes that an exchange sends depend only on its cookie, so a conversation can start again at
/// any time: a sweep stores nothing for servers that have not replied.
#[test]
fn conversations_replay() {
    for conversation in vector::all_conversations() {
        let mut first = Vec::new();
        conversation.exchange().handle(Input::Start, &mut first);
        let mut again = Vec::new();
        conversation.exchange().handle(Input::Start, &mut again);
        assert_eq!(first, again, "{}", conversation.name);
        let played = conversation.play(|_, bytes| Some(bytes.to_vec()));
        assert_eq!(
            played,
            conversation.play(|_, bytes| Some(bytes.to_vec())),
            "{}",
            conversation.name
        );
    }
}

fn explained(vector: &Vector) -> Result<(), String> {
    let Vector {
        protocol, bytes, ..
    } = vector;
    let explain = |seen| {
        let mut notes = Notes::explaining();
        (protocol.explain(bytes, seen, &mut notes), notes)
    };
    let (explanation, notes) = explain(vector.direction.into());
    let (anyway, other_notes) = explain(DatagramContext::Unknown);
    let Some(explanation) = explanation else {
        return match (&vector.message, anyway) {
            (None, None) => Ok(()),
            (None, Some(other)) => {
                Err(format!("without a direction, it is explained as {other:?}"))
            }
            (Some(message), _) => Err(format!(
                "expected a {message}, found nothing of this protocol"
            )),
        };
    };
    let error = explanation.error.map(|error| error.to_string());
    let met: Vec<&str> = notes.met().map(|deviation| deviation.name).collect();
    let mut differences = Vec::new();
    let mut same = |what: &str, expected: String, found: String| {
        if expected != found {
            differences.push(format!("{what}: expected `{expected}`, found `{found}`"));
        }
    };
    let none = || "none".to_string();
    same(
        "message",
        vector.message.clone().unwrap_or_else(none),
        explanation.message.into(),
    );
    same(
        "direction",
        format!("{:?}", vector.direction),
        format!("{:?}", explanation.direction),
    );
    same("deviations", vector.deviations.join(", "), met.join(", "));
    same(
        "error",
        vector.error.clone().unwrap_or_else(none),
        error.unwrap_or_else(none),
    );
    let clean = vector.deviations.is_empty() && vector.error.is_none();
    if !clean && anyway.is_some_and(|anyway| anyway.direction != vector.direction) {
        // An invalid message may look like one of the other direction.
        return well_placed(&notes, bytes.len())
            .and(golden::check(
                &format!("explained/{}.txt", vector.name),
                &listing(&explanation, &notes),
            ))
            .and(if differences.is_empty() {
                Ok(())
            } else {
                Err(differences.join("\n  "))
            });
    }
    if let Some(message) = &vector.without_direction {
        same(
            "message without a direction",
            message.clone(),
            anyway.map_or_else(none, |anyway| anyway.message.into()),
        );
        differences.extend(
            golden::check(
                &format!("explained/{}.txt", vector.name),
                &listing(&explanation, &notes),
            )
            .err(),
        );
        return if differences.is_empty() {
            Ok(())
        } else {
            Err(differences.join("\n  "))
        };
    }
    same(
        "without a direction",
        format!("{:?}", Some(explanation)),
        format!("{anyway:?}"),
    );
    same(
        "without a direction, fields",
        format!("{:?}", notes.fields()),
        format!("{:?}", other_notes.fields()),
    );
    same(
        "without a direction, deviations",
        format!("{:?}", notes.deviations()),
        format!("{:?}", other_notes.deviations()),
    );
    differences.extend(well_placed(&notes, bytes.len()).err());
    differences.extend(
        golden::check(
            &format!("explained/{}.txt", vector.name),
            &listing(&explanation, &notes),
        )
        .err(),
    );
    if differences.is_empty() {
        Ok(())
    } else {
        Err(differences.join("\n  "))
    }
}

/// Checks that fields are inside the datagram and sorted by start, and that a field inside another
/// one does not cross its end.
fn well_placed(notes: &Notes, length: usize) -> Result<(), String> {
    let mut open: Vec<&hailer_proto::wire::Field> = Vec::new();
    for field in notes.fields() {
        let range = &field.range;
        if range.start > range.end || range.end > length {
            return Err(format!(
                "field {} at {range:?} is outside of {length} bytes",
                field.name
            ));
        }
        if open
            .last()
            .is_some_and(|last| range.start < last.range.start)
        {
            return Err(format!(
                "field {} at {range:?} starts before the one in front of it",
                field.name
            ));
        }
        open.retain(|outer| outer.range.end > range.start);
        if let Some(outer) = open.iter().find(|outer| range.end > outer.range.end) {
            return Err(format!(
                "field {} at {range:?} crosses the end of {} at {:?}",
                field.name, outer.name, outer.range
            ));
        }
        open.push(field);
    }
    match notes.deviations().iter().find(|(_, at)| *at > length) {
        Some((deviation, at)) => Err(format!(
            "deviation {} at {at} is outside of {length} bytes",
            deviation.name
        )),
        None => Ok(()),
    }
}

fn listing(explanation: &Explanation, notes: &Notes) -> String {
    let sure = if explanation.is_certain {
        "sure"
    } else {
        "by shape"
    };
    let mut out = format!("{} ({sure})\n", explanation.message);
    for field in notes.fields() {
        let _ = writeln!(
            out,
            "{:04x}..{:04x}  {} = {}",
            field.range.start, field.range.end, field.name, field.value
        );
    }
    for (deviation, at) in notes.deviations() {
        let _ = writeln!(out, "{at:04x}  deviation {}", deviation.name);
    }
    if let Some(error) = explanation.error {
        let _ = writeln!(out, "{:04x}  error {error}", error.at);
    }
    out
}

/// Runs a conversation. Returns the status if it ends with one, or the line that does not fit and
/// the reason.
fn talk(conversation: &Conversation) -> Result<Option<Status>, (usize, String)> {
    let mut exchange = conversation.exchange();
    let mut out = Vec::new();
    let is_stream = conversation.protocol.info().transport == Transport::Stream;
    let mut step = Some(exchange.handle(Input::Start, &mut out));
    let mut end = None;
    // Start of a message of a stream.
    let mut unread: Vec<u8> = Vec::new();
    for (number, line) in &conversation.lines {
        let fail = |complaint: String| Err((*number, complaint));
        if end.is_some() {
            return fail("the conversation is over already".into());
        }
        let message;
        let input = match line {
            Line::Received(bytes) => {
                unread.extend_from_slice(bytes);
                let length = unread.len();
                let early = match exchange.frame(&unread) {
                    _ if !is_stream => None,
                    Ok(Frame::Complete(message)) if message == length => None,
                    Ok(Frame::Incomplete { total }) if total > length => Some(Step::Wait),
                    Err(error) => Some(Step::Bad(error.into())),
                    frame => return fail(format!("not cut as one message: {frame:?}")),
                };
                if let Some(early) = early {
                    if let Some(step) = step {
                        return fail(format!("add a line that expects {step:?}"));
                    }
                    step = Some(early);
                    continue;
                }
                message = std::mem::take(&mut unread);
                Input::Datagram(&message)
            }
            Line::Closed(rest) => Input::Closed(rest),
            Line::Timeout => Input::Timeout,
            Line::GiveUp => Input::GiveUp,
            expected => {
                match (expected, step.take()) {
                    (Line::Sent(bytes), Some(Step::Send))
                    | (Line::Reconnect(bytes), Some(Step::Reconnect))
                        if *bytes == out => {}
                    (Line::SentMore(bytes), Some(Step::SendMore)) if *bytes == out => {
                        out.clear();
                        step = Some(exchange.handle(Input::Continue, &mut out));
                    }
                    (
                        Line::Sent(bytes) | Line::SentMore(bytes) | Line::Reconnect(bytes),
                        Some(Step::Send | Step::SendMore | Step::Reconnect),
                    ) => {
                        return fail(format!(
                            "expected to be sent {bytes:02x?}, found {out:02x?}"
                        ));
                    }
                    (Line::Wait, Some(Step::Wait)) => {}
                    (Line::Progress, Some(Step::Progress)) => {}
                    (Line::Done, Some(Step::Done(status))) => end = Some(Some(*status)),
                    (Line::Bad(text), Some(Step::Bad(fault))) if *text == fault.to_string() => {}
                    (Line::Fail(text), Some(Step::Fail(fault))) if *text == fault.to_string() => {
                        end = Some(None);
                    }
                    (_, Some(other)) => {
                        return fail(format!("expected {expected:02x?}, found {other:?}"));
                    }
                    (_, None) => {
                        return fail(
                            "the exchange got no input since the last line; add `<` or `timeout`"
                                .into(),
                        );
                    }
                }
                continue;
            }
        };
        if let Some(step) = step {
            return fail(format!(
                "the line before needs an expected step before this one; found {step:?}"
            ));
        }
        out.clear();
        step = Some(exchange.handle(input, &mut out));
        if matches!(step, Some(Step::Wait | Step::Progress | Step::Bad(_))) && !out.is_empty() {
            return fail(format!(
                "{step:?} with a datagram in the buffer: {out:02x?}"
            ));
        }
    }
    let last = conversation.lines.last().map_or(0, |(number, _)| *number);
    match (step, end) {
        (Some(step), _) => Err((
            last,
            format!("ends with {step:?}; add a line that expects it"),
        )),
        (None, Some(end)) => Ok(end),
        (None, None) if matches!(conversation.lines.last(), Some((_, Line::Bad(_)))) => Ok(None),
        (None, None) => Err((
            last,
            "end with `= done`, `= fail TEXT` or `= bad TEXT`".into(),
        )),
    }
}
