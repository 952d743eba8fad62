//! Checks the detectors of joins by the conversations in `vectors/joins`, and how they handle
//! truncated, forged and late datagrams. `vectors/README.md` describes the format.

use hailer_proto::joins::{self, FAMILIES, JoinDetector, JoinFamily, JoinVerdict};
use hailer_proto::{ConnectionStep, Epoch, JoinAttempt, Keys, Options, Status, registry};
use hailer_testkit::golden;
use hailer_testkit::statuses::Random;
use hailer_testkit::vector::{append, files};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

const NOW: Epoch = Epoch(59_833_333);
/// Headers of IPv4 and UDP.
const HEADERS: usize = 28;
/// Text for clients that may not join.
const REASON: &str = "ask the admin";

fn keys() -> Keys {
    Keys::new([7; 16])
}

fn client() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 7], 50_000))
}

/// A conversation with a detector.
struct Talk {
    name: String,
    family: String,
    lines: Vec<(usize, String)>,
}

fn talks() -> Vec<Talk> {
    let mut talks = Vec::new();
    for path in files(&golden::root().join("vectors/joins")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let mut talk = Talk {
            name: stem.into(),
            family: String::new(),
            lines: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = line.strip_prefix("=== ") {
                let next = Talk {
                    name: name.into(),
                    family: String::new(),
                    lines: Vec::new(),
                };
                talks.push(std::mem::replace(&mut talk, next));
            } else if let Some(family) = line.strip_prefix("family: ") {
                talk.family = family.into();
            } else if !line.is_empty() && !line.starts_with('#') {
                talk.lines.push((number + 1, line.into()));
            }
        }
        talks.push(talk);
    }
    talks
}

/// Returns the bytes of a line. `{1..3}` are bytes 1 and 2 of the last reply.
fn bytes_of(line: &str, reply: &[u8]) -> Vec<u8> {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        let (range, after) = after.split_once('}').expect("a closing bracket");
        let (from, to) = range.split_once("..").expect("a range");
        let part = &reply[from.parse().unwrap()..to.parse().unwrap()];
        // Inside of a text, quotes end and start it again.
        let is_quoted = before.matches('"').count() % 2 == 1;
        text += before;
        text += if is_quoted { "\" " } else { "" };
        text += &hex(part);
        text += if is_quoted { " \"" } else { "" };
        rest = after;
    }
    text += rest;
    let mut bytes = Vec::new();
    append(&text, &mut bytes).unwrap_or_else(|error| panic!("{line}: {error}"));
    bytes
}

fn hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(" ")
}

fn shown(attempt: &JoinAttempt) -> String {
    let mut text = "join".to_owned();
    let numbers = [
        ("port", i64::from(attempt.port)),
        ("protocol", i64::from(attempt.protocol)),
    ];
    for (key, value) in [("name", &attempt.name), ("host", &attempt.host)] {
        if !value.is_empty() {
            let _ = write!(text, " {key}={value}");
        }
    }
    for (key, value) in numbers.iter().filter(|(_, value)| *value != 0) {
        let _ = write!(text, " {key}={value}");
    }
    text
}

/// Results of a conversation.
#[derive(Default)]
struct Played {
    complaints: Vec<String>,
    /// Requests and the challenges that they got.
    challenges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Datagrams that were joins.
    joins: Vec<Vec<u8>>,
}

fn play(talk: &Talk, detector: &dyn JoinDetector) -> Played {
    let mut played = Played::default();
    let mut reply = Vec::new();
    let mut last = Vec::new();
    let mut result = String::new();
    for (number, line) in &talk.lines {
        let complaint =
            |text: String| format!("vectors/joins, {} line {number}: {text}", talk.name);
        if let Some(line) = line.strip_prefix("> ") {
            last = bytes_of(line, &reply);
            let mut out = Vec::new();
            let verdict = detector.detect(client(), NOW, &last, &mut out);
            assert_eq!(out.is_empty(), verdict != JoinVerdict::Challenge);
            result = match verdict {
                JoinVerdict::Challenge => "challenge".into(),
                JoinVerdict::Join(attempt) => {
                    played.joins.push(last.clone());
                    shown(&attempt)
                }
                JoinVerdict::Drop(reason) => format!("drop {reason}"),
                JoinVerdict::Pass => "pass".into(),
            };
            if !out.is_empty() {
                played.challenges.push((last.clone(), out.clone()));
                reply = out;
            }
        } else if let Some(line) = line.strip_prefix("< ") {
            if bytes_of(line, &[]) != reply {
                played
                    .complaints
                    .push(complaint(format!("the reply is\n< {}", hex(&reply))));
            }
        } else if line == "hold" || line == "refuse" {
            reply.clear();
            let is_sent = detector.dismiss(&last, REASON, line == "hold", &mut reply);
            assert_eq!(is_sent, !reply.is_empty());
            result = if is_sent { "dismissal" } else { "nothing" }.into();
        } else if line.strip_prefix("= ") != Some(&result) {
            played
                .complaints
                .push(complaint(format!("the result is\n= {result}")));
        }
    }
    played
}

/// Returns each conversation with its detector.
fn with_detectors() -> Vec<(Talk, &'static JoinFamily, Arc<dyn JoinDetector>)> {
    let talks = talks().into_iter();
    let with = |talk: Talk| {
        let family = joins::find(&talk.family)?;
        Some((talk, family, family.detector(&keys())))
    };
    talks.filter_map(with).collect()
}

#[test]
fn conversations_end_as_they_state() {
    let mut complaints = Vec::new();
    for (talk, _, detector) in with_detectors() {
        complaints.extend(play(&talk, &*detector).complaints);
    }
    for family in FAMILIES {
        let all = with_detectors();
        let mut own = all.iter().filter(|(_, of, _)| of.id == family.id);
        if !own.any(|(talk, _, detector)| !play(talk, &**detector).joins.is_empty()) {
            complaints.push(format!("{}: no vector with a join", family.id));
        }
    }
    golden::settle(&complaints);
}

/// Minecraft Java joins over connections, which its responder handles.
#[test]
fn connections_of_minecraft_java_end_as_they_state() {
    let protocol = registry::find("minecraft-status").unwrap();
    let responder = protocol
        .responder(&Status::default(), &keys(), &Options::default())
        .unwrap();
    let mut joined = 0;
    let talks = talks().into_iter();
    for talk in talks.filter(|talk| talk.family == "minecraft-java") {
        let mut connection = responder.connection(client()).unwrap();
        let mut bytes = Vec::new();
        // An attempt is complete with the step that closes the connection.
        let mut is_closed = false;
        for (number, line) in &talk.lines {
            if let Some(line) = line.strip_prefix("> ") {
                bytes.extend(bytes_of(line, &[]));
                let received = connection.receive(NOW, &bytes, &mut Vec::new());
                bytes.drain(..received.consumed);
                is_closed = received.step == ConnectionStep::Close;
                continue;
            }
            let attempt = connection.join_attempt().filter(|_| is_closed);
            let found = attempt.map_or("none".into(), shown);
            joined += usize::from(found != "none");
            assert_eq!(line, &format!("= {found}"), "{} line {number}", talk.name);
        }
    }
    assert!(joined >= 2);
}

/// Detects a datagram. The buffer is unchanged unless it is a challenge.
fn detect(
    detector: &dyn JoinDetector,
    from: SocketAddr,
    epoch: Epoch,
    bytes: &[u8],
) -> JoinVerdict {
    let mut out = b"before".to_vec();
    let verdict = detector.detect(from, epoch, bytes, &mut out);
    assert!(out.starts_with(b"before"));
    assert_eq!(out.len() > 6, verdict == JoinVerdict::Challenge);
    verdict
}

fn is_join(verdict: &JoinVerdict) -> bool {
    matches!(verdict, JoinVerdict::Join(_))
}

#[test]
fn truncated_datagrams_are_no_joins() {
    for (talk, family, detector) in with_detectors() {
        for join in play(&talk, &*detector).joins {
            // A connect of Source is complete with its challenges, the acknowledgement of ENet with its numbers.
            let least = match (family.id, talk.name.as_str()) {
                (_, "source") => 21,
                (_, "goldsrc") => join.iter().position(|byte| *byte == b'"').unwrap() - 1,
                (_, "enet-with-time") => 12,
                _ => join.len(),
            };
            for length in 0..join.len() {
                let verdict = detect(&*detector, client(), NOW, &join[..length]);
                let is_complete = length >= least;
                assert_eq!(
                    is_join(&verdict),
                    is_complete,
                    "{} {length}: {verdict:?}",
                    talk.name
                );
            }
        }
        for (request, _) in play(&talk, &*detector).challenges {
            for length in 0..request.len() {
                let verdict = detect(&*detector, client(), NOW, &request[..length]);
                assert!(!is_join(&verdict), "{} {length}", talk.name);
            }
        }
    }
}

#[test]
fn tokens_are_bound_to_source_key_and_time() {
    let mut checked = 0;
    for (talk, family, detector) in with_detectors() {
        for join in play(&talk, &*detector).joins {
            checked += 1;
            let name = &talk.name;
            let joins = |detector: &dyn JoinDetector, from, epoch| {
                is_join(&detect(detector, from, epoch, &join))
            };
            assert!(joins(&*detector, client(), NOW), "{name}");
            for (age, is_valid) in [(1, true), (2, true), (3, false), (u32::MAX, false)] {
                let epoch = Epoch(NOW.0.wrapping_add(age));
                assert_eq!(
                    joins(&*detector, client(), epoch),
                    is_valid,
                    "{name}: {age}"
                );
            }
            for other in ["192.0.2.8:50000", "192.0.2.7:50001", "[2001:db8::7]:50000"] {
                assert!(
                    !joins(&*detector, other.parse().unwrap(), NOW),
                    "{name}: {other}"
                );
            }
            let mapped = "[::ffff:192.0.2.7]:50000".parse().unwrap();
            assert!(joins(&*detector, mapped, NOW), "{name}");
            let rotated = keys().rotate([8; 16]);
            assert!(joins(&*family.detector(&rotated), client(), NOW), "{name}");
            let twice = rotated.rotate([9; 16]);
            assert!(!joins(&*family.detector(&twice), client(), NOW), "{name}");
            for other in FAMILIES.iter().filter(|other| other.id != family.id) {
                let verdict = detect(&*other.detector(&keys()), client(), NOW, &join);
                assert!(!is_join(&verdict), "{name} by {}: {verdict:?}", other.id);
            }
        }
    }
    assert!(checked >= 8, "{checked}");
}

/// A changed bit of a token is no join. Other bits may be.
#[test]
fn forged_tokens_are_no_joins() {
    let mut random = Random(5);
    for (talk, family, detector) in with_detectors() {
        let played = play(&talk, &*detector);
        let (Some(join), Some((_, challenge))) = (played.joins.first(), played.challenges.first())
        else {
            continue;
        };
        // Position of the token in the join, and in the challenge.
        let (at, token) = match (family.id, talk.name.as_str()) {
            ("raknet", _) => (17, 26..30),
            ("quic", _) => (6, 10..18),
            (_, "source") => (13, 9..13),
            (_, "goldsrc") => (15, 14..24),
            (_, name) => (if name == "enet" { 6 } else { 8 }, 6..8),
        };
        assert_eq!(
            join[at..at + token.len()],
            challenge[token.clone()],
            "{}",
            talk.name
        );
        for bit in 0..8 * token.len() {
            let mut forged = join.clone();
            forged[at + bit / 8] ^= 1 << (bit % 8);
            let verdict = detect(&*detector, client(), NOW, &forged);
            assert!(!is_join(&verdict), "{}: bit {bit}", talk.name);
        }
        for _ in 0..10_000 {
            let mut forged = join.clone();
            for byte in &mut forged[at..at + token.len()] {
                *byte = random.bits() as u8;
            }
            assert!(
                !is_join(&detect(&*detector, client(), NOW, &forged)),
                "{}",
                talk.name
            );
        }
    }
}

/// The golden table has the largest challenges that the vectors and truncated datagrams get.
#[test]
fn challenges_are_small() {
    let mut table = "# Largest challenge for each byte of a request, in bytes of payload, and with headers of 28 bytes.\n".to_owned();
    for family in FAMILIES {
        let mut worst = (0, 1);
        let all = with_detectors();
        for (talk, _, detector) in all.iter().filter(|(_, of, _)| of.id == family.id) {
            for (request, _) in play(talk, &**detector).challenges {
                for length in 0..=request.len() {
                    let mut out = Vec::new();
                    detector.detect(client(), NOW, &request[..length], &mut out);
                    assert!(
                        out.len() + HEADERS <= 3 * (length + HEADERS),
                        "{}",
                        talk.name
                    );
                    if out.len() * worst.1 > worst.0 * length.max(1) {
                        worst = (out.len(), length);
                    }
                }
            }
        }
        let documented = family.amplification;
        let (reply, request) = worst;
        assert!(
            reply * documented.request <= documented.reply * request,
            "{}: {reply} for {request}",
            family.id
        );
        let ratio = reply as f64 / request as f64;
        let whole = (reply + HEADERS) as f64 / (request + HEADERS) as f64;
        let _ = writeln!(
            table,
            "{:8} {request:5} {reply:5} {ratio:6.2} {whole:6.2}",
            family.id
        );
    }
    golden::settle(&Vec::from_iter(golden::check("joins.txt", &table).err()));
}

/// 10,000 queries of every protocol, and everything else in the vectors, are no joins.
#[test]
fn queries_and_noise_are_no_joins() {
    let vectors = hailer_testkit::vector::all_vectors();
    let mut random = Random(9);
    let mut sent = 0;
    for family in FAMILIES {
        let detector = family.detector(&keys());
        for vector in &vectors {
            for _ in 0..10_000_usize.div_ceil(vectors.len()) {
                let mut bytes = vector.bytes.clone();
                if let Some(byte) = bytes
                    .len()
                    .checked_sub(1)
                    .map(|last| random.below(last as u64 + 1))
                {
                    bytes[byte as usize] = random.bits() as u8;
                }
                sent += 1;
                let verdict = detect(&*detector, client(), NOW, &bytes);
                assert!(
                    !is_join(&verdict),
                    "{} takes {} for a join",
                    family.id,
                    vector.name
                );
            }
        }
    }
    assert!(sent >= 40_000);
}

#[test]
fn families_are_found_by_id_and_protocol() {
    for family in FAMILIES {
        assert_eq!(
            joins::find(family.id).map(|found| found.id),
            Some(family.id)
        );
        for protocol in family.protocols {
            assert!(registry::find(protocol).is_some(), "{protocol}");
            let found = joins::of_protocol(protocol).map(|found| found.id);
            assert_eq!(found, Some(family.id));
        }
    }
    assert!(joins::find("traffic").is_none());
    assert!(joins::of_protocol("minecraft-query").is_none());
}
