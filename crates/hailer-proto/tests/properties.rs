//! Properties of all statuses and all bytes, for every protocol of the registry.
//!
//! Every run has the same cases. `PROPTEST_RNG_SEED` changes them and `PROPTEST_CASES` their
//! number.

use hailer_proto::testing::{fuzzing, memory};
use hailer_proto::wire::Error;
use hailer_proto::{
    Address, Ask, Cookie, Direction, Epoch, Exchange, Extra, Frame, Input, Keys, Options, Player,
    Protocol, Responder, Rule, Status, Step, Text, Transport,
};
use hailer_proto::{minecraft_query, registry};
use hailer_testkit::statuses::Random;
use hailer_testkit::{golden, statuses, vector};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

fn config() -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(7);
    }
    config
}

/// A responder with a status, and clients that ask it.
struct Trip<'a> {
    protocol: &'a dyn Protocol,
    responder: Arc<dyn Responder>,
}

impl<'a> Trip<'a> {
    fn new(protocol: &'a dyn Protocol, status: &Status) -> Self {
        let responder = protocol
            .responder(status, &Keys::new([7; 16]), &Options::default())
            .expect("no options are good");
        Self {
            protocol,
            responder,
        }
    }

    /// Sends the status from responder to client with edited replies, and returns the last step.
    /// The editor gets the number of earlier replies and the reply.
    fn run(&self, edit: impl FnMut(usize, &mut Vec<u8>)) -> Step {
        let mut exchange = self.protocol.exchange(&Ask::default(), Cookie(1));
        self.run_exchange(&mut *exchange, edit)
    }

    fn run_exchange(
        &self,
        exchange: &mut dyn Exchange,
        mut edit: impl FnMut(usize, &mut Vec<u8>),
    ) -> Step {
        let from: SocketAddr = "192.0.2.7:50000".parse().expect("an address");
        let mut server = memory::Server::new(&*self.responder, from, Epoch(59_833_333));
        let mut round = 0;
        memory::run(exchange, &mut server, |direction, bytes| {
            if direction == Direction::Reply {
                edit(round, bytes);
                round += 1;
            }
        })
    }
}

/// Like `done`, for a status without some lists: the responder does not reply to requests for them.
fn done_at_deadline(protocol: &dyn Protocol, status: &Status) -> Status {
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(1));
    let mut step = Trip::new(protocol, status).run_exchange(&mut *exchange, |_, _| {});
    if !matches!(step, Step::Done(_)) {
        step = exchange.handle(Input::GiveUp, &mut Vec::new());
    }
    match step {
        Step::Done(status) => *status,
        other => panic!("{}: {other:?} from {status:?}", protocol.info().id),
    }
}

/// Sends a status from responder to client without loss, and returns what the client reads.
fn done(protocol: &dyn Protocol, status: &Status) -> Status {
    match Trip::new(protocol, status).run(|_, _| {}) {
        Step::Done(status) => *status,
        other => panic!("{}: {other:?} from {status:?}", protocol.info().id),
    }
}

/// Name of a member of a status, and a function that reads it.
type Member = (&'static str, fn(&Status) -> String);

/// All members of a status, as text. `golden/carried.txt` lists which of them each protocol
/// carries.
const MEMBERS: &[Member] = &[
    ("name", |s| text(s.name.as_ref())),
    ("motd", |s| text(s.motd.as_ref())),
    ("game", |s| format!("{:?}", s.game)),
    ("mode", |s| format!("{:?}", s.mode)),
    ("map", |s| format!("{:?}", s.map)),
    ("version", |s| format!("{:?}", s.version)),
    ("online", |s| format!("{:?}", s.players.online)),
    ("max", |s| format!("{:?}", s.players.max)),
    ("roster", |s| format!("{:?}", s.players.roster)),
    ("names", |s| {
        let mut names = names(s);
        names.sort();
        names.join(" ")
    }),
    ("order", |s| names(s).join(" ")),
    ("uuids", |s| {
        format!(
            "{:?}",
            s.players
                .list
                .iter()
                .map(|player| player.uuid)
                .collect::<Vec<_>>()
        )
    }),
    ("player extras", |s| {
        format!(
            "{:?}",
            s.players
                .list
                .iter()
                .map(|player| &player.extra)
                .collect::<Vec<_>>()
        )
    }),
    ("rules", |s| format!("{:?}", s.rules)),
    ("host", |s| {
        format!(
            "{:?}",
            s.address.as_ref().and_then(|address| address.host.as_ref())
        )
    }),
    ("port", |s| {
        format!("{:?}", s.address.as_ref().and_then(|address| address.port))
    }),
    ("extras", |s| format!("{:?}", s.extra)),
];

#[test]
fn samples_come_back_equal() {
    for protocol in registry::responders() {
        for seed in 0..500 {
            let sample = protocol.sample(seed);
            let id = protocol.info().id;
            assert_eq!(
                done(protocol, &sample),
                sample,
                "{id}, seed {seed}: implement `Protocol::sample` with only what the protocol carries"
            );
        }
    }
}

fn names(status: &Status) -> Vec<String> {
    status
        .players
        .list
        .iter()
        .map(|player| text(Some(&player.name)))
        .collect()
}

fn text(text: Option<&Text>) -> String {
    format!("{:?}", text.map(Text::raw))
}

/// Returns a status with all members set. Its texts end in `tail`.
fn probe(tail: &str) -> Status {
    let mut status = statuses::plain(3);
    status.name = Some(Text::legacy(format!("Name{tail}")));
    status.motd = Some(Text::legacy(format!("Motd{tail}")));
    for (member, value) in [
        (&mut status.game, "Game"),
        (&mut status.mode, "Mode"),
        (&mut status.map, "Map"),
        (&mut status.version, "1.2.3"),
    ] {
        *member = Some(format!("{value}{tail}").into());
    }
    for (i, player) in status.players.list.iter_mut().enumerate() {
        player.name = Text::legacy(format!("Player{i}{tail}"));
        player.uuid = Some([i as u8 + 1; 16]);
    }
    status.rules = vec![Rule {
        key: format!("rule{tail}").into(),
        value: format!("value{tail}").into(),
    }];
    status
}

/// The members of a status that survive our own responder and client, for plain texts, ISO-8859-1
/// and any text.
#[test]
fn fields_of_each_protocol() {
    let mut table = "# Fields of a status that survive responder and client: plain texts, texts with Latin letters, any texts.\n"
        .to_string();
    for protocol in &registry::responders() {
        let _ = writeln!(table, "\n{}", protocol.info().id);
        for (member, read) in MEMBERS {
            let carried = ["", "\u{E9}", "\u{4E2D}\u{1F600}"].map(|tail| {
                let status = probe(tail);
                if read(&done(*protocol, &status)) == read(&status) {
                    "yes"
                } else {
                    "-"
                }
            });
            let _ = writeln!(
                table,
                "  {member:14}{:4}{:4}{}",
                carried[0], carried[1], carried[2]
            );
        }
    }
    golden::settle(
        &golden::check("carried.txt", &table)
            .err()
            .into_iter()
            .collect::<Vec<_>>(),
    );
}

/// The protocols with a responder, each with the members that it carries.
fn carriers() -> &'static [(&'static dyn Protocol, Vec<&'static Member>)] {
    static CARRIERS: OnceLock<Vec<(&'static dyn Protocol, Vec<&'static Member>)>> = OnceLock::new();
    CARRIERS.get_or_init(|| {
        let status = probe("");
        registry::responders()
            .into_iter()
            .map(|protocol| {
                // A member that is lost from a plain status may be lost from every status.
                let back = done(protocol, &status);
                let members = MEMBERS.iter();
                let carried = members.filter(|(_, read)| read(&back) == read(&status));
                (protocol, carried.collect())
            })
            .collect()
    })
}

/// A proxy keeps statuses: when Hailer's responder sends a status that Hailer's client has read
/// from a real server, the client reads the same status again. `golden/round-trips.txt` lists the
/// exceptions.
#[test]
fn statuses_of_real_servers_survive() {
    let mut table =
        "# Members that change when our responder repeats the status of a conversation. Deviations never come back.\n"
            .to_string();
    for conversation in vector::all_conversations() {
        let Step::Done(status) = conversation.play(|_, bytes| Some(bytes.to_vec())) else {
            continue;
        };
        if !conversation.ask.has_players
            || conversation.ask.depth != hailer_proto::Depth::Full
            || !conversation.protocol.info().has_responder
        {
            continue;
        }
        let back = done_at_deadline(conversation.protocol, &status);
        assert!(
            back.deviations.is_empty(),
            "{}: our own responder deviates",
            conversation.name
        );
        let changed: Vec<_> = MEMBERS
            .iter()
            .filter(|(_, read)| read(&back) != read(&status))
            .map(|(m, _)| *m)
            .collect();
        if !changed.is_empty() {
            let _ = writeln!(table, "{}: {}", conversation.name, changed.join(", "));
        }
    }
    golden::settle(
        &golden::check("round-trips.txt", &table)
            .err()
            .into_iter()
            .collect::<Vec<_>>(),
    );
}

/// Generates words of letters and digits that every protocol can carry.
fn tame() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9]{0,11}"
}

/// Generates all kinds of text: NUL and other control characters, formatting codes, keywords of the
/// protocols, any Unicode, and long texts.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => any::<String>(),
        2 => "[\\x00-\\x1F\u{A7}\u{80}-\u{FF}a;: \u{4E2D}]{0,40}",
        1 => ("[\\x00a\u{E9}\u{4E2D}]{1,4}", 1usize..3_000).prop_map(|(unit, times)| unit.repeat(times)),
        1 => prop::sample::select(vec![
            "", "\0", "hostname\0x\0gametype\0SMP", "\0\u{1}player_\0\0", "splitnum\0\u{80}\0", "hostip", "SMP", ": ", "; ", "a: b; c 1",
            "\u{FFFD}", "\u{C3}\u{A9}", "\u{A7}", "\u{1}player_", "ma\0p", "game type", "?", "0", "-1", "127.0.0.1",
        ]).prop_map(String::from),
    ]
}

fn status_of<S: Strategy<Value = String> + 'static>(
    word: fn() -> S,
    players: usize,
) -> impl Strategy<Value = Status> {
    let option = move || prop::option::weighted(0.8, word());
    let texts = (option(), option(), option(), option(), option(), option());
    let counts = (
        prop::option::of(any::<i64>()),
        prop::option::of(any::<i64>()),
    );
    let names = prop::collection::vec((word(), any::<Option<[u8; 16]>>()), 0..players);
    let rules = prop::collection::vec((word(), word()), 0..players);
    let plugins = prop::collection::vec((tame(), tame()), 0..players);
    let address = prop::option::of((option(), any::<Option<u16>>()));
    (texts, counts, names, rules, option(), plugins, address).prop_map(
        |(
            (name, motd, game, mode, map, version),
            (online, max),
            names,
            rules,
            software,
            plugins,
            address,
        )| {
            let mut status = Status {
                name: name.map(Text::legacy),
                motd: motd.map(Text::legacy),
                game: game.map(Into::into),
                mode: mode.map(Into::into),
                map: map.map(Into::into),
                version: version.map(Into::into),
                rules: rules
                    .into_iter()
                    .map(|(key, value)| Rule {
                        key: key.into(),
                        value: value.into(),
                    })
                    .collect(),
                address: address.map(|(host, port)| Address {
                    host: host.map(Into::into),
                    port,
                }),
                ..Status::default()
            };
            status.players.online = online;
            status.players.max = max;
            let player = |(name, uuid)| Player {
                uuid,
                ..Player::named(Text::legacy(name))
            };
            status
                .players
                .set_list(names.into_iter().map(player).collect());
            status
                .extra
                .extend(software.map(|software| Extra::new("software", software)));
            let plugins = plugins
                .iter()
                .map(|(name, version)| (name.as_str(), version.as_str()));
            status.extra.extend(minecraft_query::plugins(plugins));
            status
        },
    )
}

proptest! {
    #![proptest_config(Config { cases: 256, ..config() })]

    /// Members that a protocol carries survive for every tame status.
    #[test]
    fn plain_statuses_survive_a_round_trip(
        (name, motd, game, mode) in (tame(), tame(), tame(), tame()), (map, version, host) in (tame(), tame(), tame()),
        max in 0i64..=255, port in 1u16.., names in prop::collection::btree_set(tame(), 0..12), (key, value) in ("x-[a-z]{1,8}", tame()),
    ) {
        let mut status = statuses::plain(0);
        status.name = Some(Text::legacy(name));
        status.motd = Some(Text::legacy(motd));
        status.game = Some(game.into());
        status.mode = Some(mode.into());
        status.map = Some(map.into());
        status.version = Some(version.into());
        status.players.max = Some(max);
        status.players.online = Some(names.len() as i64);
        status.players.set_list(names.into_iter().map(|name| Player::named(Text::legacy(name))).collect());
        status.rules = vec![Rule { key: key.into(), value: value.into() }];
        status.address = Some(Address { host: Some(host.into()), port: Some(port) });
        for (protocol, members) in carriers() {
            let back = done(*protocol, &status);
            prop_assert!(back.deviations.is_empty(), "{} deviates", protocol.info().id);
            for (member, read) in members.iter().filter(|(member, _)| !["uuids", "order"].contains(member)) {
                prop_assert_eq!(read(&back), read(&status), "{} of {}", member, protocol.info().id);
            }
        }
    }

    #[test]
    fn hostile_statuses_settle_over_udp(status in status_of(hostile, 6)) {
        settles(&status, |transport| transport == Transport::Datagram)?;
    }

    #[test]
    fn hostile_statuses_settle_over_tcp(status in status_of(hostile, 6)) {
        settles(&status, |transport| transport != Transport::Datagram)?;
    }

    /// Formatted text never controls the terminal, and keeps its bytes.
    #[test]
    fn texts_are_harmless(text in hostile()) {
        fuzzing::text(text.as_bytes());
    }
}

/// Checks that the client reads the reply of each responder without a deviation. A chain of proxies
/// becomes stable: an empty text may be read as absent and then be replaced by a default, and after
/// that nothing changes.
fn settles(
    status: &Status,
    has_transport: impl Fn(Transport) -> bool,
) -> Result<(), TestCaseError> {
    let mut responders = registry::responders();
    responders.retain(|protocol| has_transport(protocol.info().transport));
    for protocol in responders {
        let id = protocol.info().id;
        let once = done(protocol, status);
        prop_assert!(once.deviations.is_empty(), "{id}: {:?}", once.deviations);
        let once = done(protocol, &once);
        let twice = done(protocol, &once);
        // An empty list may be sent or omitted.
        for (member, read) in MEMBERS.iter().filter(|(member, _)| *member != "roster") {
            prop_assert_eq!(read(&twice), read(&once), "{} of {}", member, id);
        }
    }
    Ok(())
}

/// Lengths to which a reply is cut: all from the first and the last 64, those around the ends of
/// messages, and every seventh of the rest. With the environment variable `HAILER_ALL_CUTS`, all.
fn cuts(length: usize, ends: &[usize]) -> impl Iterator<Item = usize> {
    const BORDER: usize = 64;
    let is_complete = std::env::var_os("HAILER_ALL_CUTS").is_some();
    (0..length).filter(move |&cut| {
        is_complete
            || cut < BORDER
            || cut + BORDER >= length
            || cut % 7 == 0
            || ends.iter().any(|&end| cut.abs_diff(end) <= 1)
    })
}

#[test]
fn replies_are_cut_at_their_borders_and_between() {
    if std::env::var_os("HAILER_ALL_CUTS").is_some() {
        assert!(cuts(1_000, &[]).eq(0..1_000));
        return;
    }
    assert!(cuts(128, &[]).eq(0..128));
    let found: Vec<usize> = cuts(300, &[152]).collect();
    assert!((0..64).chain(236..300).all(|cut| found.contains(&cut)));
    let between = found.iter().filter(|cut| (64..236).contains(*cut));
    let sevenths = (70..236).step_by(7);
    let mut expected: Vec<usize> = sevenths.chain([151, 152, 153]).collect();
    expected.sort_unstable();
    expected.dedup();
    assert!(between.eq(&expected), "{found:?}");
}

/// An exchange that records the lengths of the messages that it receives.
struct Recorder {
    exchange: Box<dyn Exchange>,
    messages: Vec<usize>,
}

impl Exchange for Recorder {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        if let Input::Datagram(bytes) = input {
            self.messages.push(bytes.len());
        }
        self.exchange.handle(input, out)
    }

    fn stage(&self) -> usize {
        self.exchange.stage()
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        self.exchange.frame(bytes)
    }
}

/// Returns the length of each reply of a trip, and where messages end in it.
fn reply_lengths(trip: &Trip<'_>) -> Vec<(usize, Vec<usize>)> {
    let mut recorder = Recorder {
        exchange: trip.protocol.exchange(&Ask::default(), Cookie(1)),
        messages: Vec::new(),
    };
    let mut lengths = Vec::new();
    trip.run_exchange(&mut recorder, |_, reply| lengths.push(reply.len()));
    // On a stream, messages and replies have the same bytes with other borders.
    let mut ends = Vec::new();
    let mut end = 0;
    for message in recorder.messages {
        end += message;
        ends.push(end);
    }
    let mut start = 0;
    let mut replies = Vec::new();
    for length in lengths {
        let own = ends.iter().filter_map(|end| end.checked_sub(start));
        replies.push((length, own.filter(|end| *end <= length).collect()));
        start += length;
    }
    replies
}

/// A truncated reply never causes a panic and is never taken for a complete one: either the status
/// is the same, or there is a new deviation, or there is no status.
#[test]
fn cut_replies_never_pass_for_whole_ones() {
    let mut complaints = Vec::new();
    for conversation in vector::all_conversations() {
        let Step::Done(whole) = conversation.play(|_, bytes| Some(bytes.to_vec())) else {
            continue;
        };
        let received: Vec<Vec<u8>> = conversation.received().cloned().collect();
        for (place, reply) in received.iter().enumerate() {
            for end in cuts(reply.len(), &[]) {
                let cut = conversation.play(|i, bytes| {
                    Some(if i == place {
                        bytes[..end].to_vec()
                    } else {
                        bytes.to_vec()
                    })
                });
                let name = &conversation.name;
                complaints.extend(passes_for_whole(name, [place, end], &cut, &whole));
            }
        }
    }
    complaints.truncate(20);
    golden::settle(&complaints);
}

/// The same for the replies of our responders, which are longer.
#[test]
fn cut_replies_of_responders_never_pass_for_whole_ones() {
    let mut complaints = Vec::new();
    for protocol in registry::responders() {
        for status in [statuses::plain(0), statuses::plain(3), statuses::plain(120)] {
            let whole = done(protocol, &status);
            let trip = Trip::new(protocol, &status);
            for (place, (length, ends)) in reply_lengths(&trip).into_iter().enumerate() {
                for end in cuts(length, &ends) {
                    let cut = trip.run(|round, reply| {
                        if round == place {
                            reply.truncate(end);
                        }
                    });
                    let name = protocol.info().id;
                    complaints.extend(passes_for_whole(name, [place, end], &cut, &whole));
                }
            }
        }
    }
    complaints.truncate(20);
    golden::settle(&complaints);
}

fn passes_for_whole(
    name: &str,
    [place, end]: [usize; 2],
    cut: &Step,
    whole: &Status,
) -> Option<String> {
    // A status that names an unreadable or missing list does not pass for whole.
    let names_gap = |status: &Status| {
        let unanswered = status.extra("unanswered");
        status.extra("list-error").is_some()
            || unanswered.is_some()
                && (unanswered != whole.extra("unanswered") || whole.extra("list-error").is_some())
    };
    // Nor does one whose deviations name a cut, which the whole conversation may have too.
    let names_cut = |status: &Status| {
        let mut deviations = status.deviations.iter();
        deviations.any(|deviation| {
            let prefixes = ["cut-", "short-", "unreadable-", "part-gap"];
            prefixes
                .iter()
                .any(|prefix| deviation.name.starts_with(prefix))
        })
    };
    // Any member can be in a part that did not arrive.
    let lacks_parts =
        |status: &Status| status.extra("unanswered") == Some(&hailer_proto::Value::from("parts"));
    match cut {
        Step::Done(status) if names_gap(status) || names_cut(status) => None,
        Step::Done(status) if lacks_parts(status) => None,
        Step::Done(status)
            if **status != *whole
                && status.deviations == whole.deviations
                && status.extra("unanswered") == whole.extra("unanswered") =>
        {
            // The lists of the whole status may be incomplete for another reason.
            let members: &[&str] = match status.extra("unanswered") {
                Some(hailer_proto::Value::Str(name)) => match name.as_str() {
                    "players" => &["names", "order", "uuids", "player extras"],
                    "rules" => &["rules", "extras"],
                    _ => &[],
                },
                _ => &[],
            };
            let is_named = |member: &&str| members.contains(member);
            let changed: Vec<_> = MEMBERS
                .iter()
                .filter(|(_, read)| read(status) != read(whole))
                .map(|(member, _)| *member)
                .filter(|member| !is_named(member))
                .collect();
            if changed.is_empty() {
                return None;
            }
            Some(format!(
                "{name}: reply {place} cut to {end} bytes passes for whole, without its {}",
                changed.join(", ")
            ))
        }
        _ => None,
    }
}

/// Conversations with changed replies never cause a panic, and end in a valid step.
#[test]
fn changed_replies_never_panic() {
    let mut random = Random(3);
    for conversation in vector::all_conversations() {
        for _ in 0..200 {
            conversation.play(|_, bytes| {
                let mut changed = bytes.to_vec();
                mutate(&mut changed, &mut random);
                Some(changed)
            });
        }
    }
}

/// Nor do explanations of changed datagrams.
#[test]
fn changed_datagrams_never_panic() {
    let mut random = Random(3);
    for vector in vector::all_vectors() {
        for i in 0..100 {
            let mut changed = vector.bytes.clone();
            mutate(&mut changed, &mut random);
            // Most other protocols refuse the first bytes.
            if i % 20 == 0 {
                fuzzing::explain(&changed);
            } else {
                fuzzing::explain_as(vector.protocol, &changed);
            }
        }
    }
}

/// Applies one mutation: flips bits, replaces bytes, removes, doubles or moves a piece, inserts
/// NULs, truncates or extends.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let length = bytes.len() as u64;
    let from = random.below(length) as usize;
    let to = random.below(length) as usize;
    let piece = from.min(to)..from.max(to);
    match random.below(8) {
        0 if length > 0 => bytes[from] ^= 1 << random.below(8),
        1 if length > 0 => {
            bytes[from] = [0, 0x7F, 0x80, 0xFF, random.bits() as u8][random.below(5) as usize];
        }
        2 => drop(bytes.drain(piece)),
        3 => bytes.extend_from_within(piece),
        4 => bytes.rotate_left(piece.len()),
        5 if length > 0 => (0..4).for_each(|_| bytes[random.below(length) as usize] = 0),
        6 => bytes.truncate(from),
        _ => bytes.extend((0..random.below(40)).map(|_| random.bits() as u8)),
    }
}

/// Clients of these protocols take a player with ping 0 for a bot.
#[test]
fn players_without_a_latency_do_not_look_like_bots() {
    for id in ["quake1", "quake2", "quake3", "doom3", "unreal2"] {
        let protocol = registry::find(id).unwrap();
        let mut status = Status::default();
        status
            .players
            .set_list(vec![Player::named(Text::unformatted("Ann"))]);
        let read = done(protocol, &status);
        assert_eq!(read.players.list[0].latency_ms, Some(1), "{id}");
    }
}
