//! Checks that every protocol of the registry is complete and well-behaved. Failures name the
//! missing part and where to add it.

use hailer_proto::testing::memory;
use hailer_proto::wire::{Notes, UNREADABLE_MESSAGE};
use hailer_proto::{Ask, ConnectionStep, DatagramContext, Depth, registry};
use hailer_proto::{
    Cookie, Direction, Doc, Epoch, Exchange, Input, Keys, Options, Proof, Protocol, Responder,
    Rule, Status, Step, Transport, Value, Verdict,
};
use hailer_testkit::statuses::Random;
use hailer_testkit::vector::{Conversation, Line};
use hailer_testkit::{golden, statuses, vector};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOW: Epoch = Epoch(59_833_333);

fn protocols() -> impl Iterator<Item = (&'static str, &'static dyn Protocol)> {
    registry::PROTOCOLS
        .iter()
        .map(|&protocol| (protocol.info().id, protocol))
}

/// The protocols that have a responder.
fn responding() -> impl Iterator<Item = (&'static str, &'static dyn Protocol)> {
    protocols().filter(|(_, protocol)| protocol.info().has_responder)
}

#[test]
fn protocols_state_whether_they_have_a_responder() {
    let mut complaints = Vec::new();
    for (id, protocol) in protocols() {
        let info = protocol.info();
        let keys = Keys::new([7; 16]);
        let responder = protocol.responder(&statuses::plain(3), &keys, &Options::default());
        if responder.is_ok() != info.has_responder {
            complaints.push(format!(
                "{id}: Info.has_responder is {}, but responder() says otherwise",
                info.has_responder
            ));
        }
        if !info.has_responder && !info.options.is_empty() {
            complaints.push(format!("{id}: options without a responder"));
        }
    }
    golden::settle(&complaints);
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn ids_are_unique_and_in_kebab_case() {
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for (id, protocol) in protocols() {
        let info = protocol.info();
        if !seen.insert(id) {
            complaints.push(format!(
                "{id}: two protocols have this id; rename one in its Info"
            ));
        }
        let keys = [info.fields, info.player_fields, info.options]
            .into_iter()
            .flatten()
            .map(|doc| doc.key);
        let names = info.deviations.iter().map(|deviation| deviation.name);
        for name in std::iter::once(id).chain(keys).chain(names) {
            if !is_kebab(name) {
                complaints.push(format!(
                    "{id}: `{name}` is not in kebab-case; rename it in the protocol's folder"
                ));
            }
        }
        let helps = [info.fields, info.player_fields, info.options]
            .into_iter()
            .flatten()
            .map(|doc| (doc.key, doc.help));
        let helps = helps.chain(
            info.deviations
                .iter()
                .map(|deviation| (deviation.name, deviation.help)),
        );
        for (key, help) in helps {
            if help.is_empty() || help.ends_with('.') || help.contains("  ") {
                complaints.push(format!(
                    "{id}: the help of `{key}` is to be one sentence without a final stop: `{help}`"
                ));
            }
        }
        for (what, docs) in [
            ("fields", info.fields),
            ("player_fields", info.player_fields),
            ("options", info.options),
        ] {
            let keys: BTreeSet<&str> = docs.iter().map(|doc| doc.key).collect();
            if keys.len() != docs.len() {
                complaints.push(format!("{id}: a key appears twice in Info.{what}"));
            }
        }
    }
    golden::settle(&complaints);
}

fn is_kebab(name: &str) -> bool {
    let mut words = name.split('-');
    words.all(|word| {
        !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

#[test]
fn the_spec_page_names_everything() {
    let mut complaints = Vec::new();
    for (id, protocol) in protocols() {
        let info = protocol.info();
        let page = read(&golden::root().join(format!("spec/{id}.md")));
        if page.is_empty() {
            complaints.push(format!(
                "{id}: write spec/{id}.md: sections numbered, each claim with its source"
            ));
            continue;
        }
        let keys = |docs: &'static [Doc]| docs.iter().map(|doc| doc.key);
        let named = info
            .deviations
            .iter()
            .map(|deviation| ("deviation", deviation.name));
        let named = named.chain(keys(info.fields).map(|key| ("extra field", key)));
        let named = named.chain(keys(info.player_fields).map(|key| ("player's extra field", key)));
        for (what, name) in
            named.chain(keys(info.options).map(|key| ("option of the responder", key)))
        {
            if !page.contains(&format!("`{name}`")) {
                complaints.push(format!(
                    "{id}: name the {what} `{name}` in spec/{id}.md (in backticks)"
                ));
            }
        }
    }
    golden::settle(&complaints);
}

#[test]
fn vectors_cover_both_directions_and_every_deviation() {
    let mut complaints = Vec::new();
    for (id, protocol) in protocols() {
        let vectors = vector::vectors(protocol);
        let conversations = vector::conversations(protocol);
        let mut start = Vec::new();
        let mut exchange = protocol.exchange(&Ask::default(), Cookie(1));
        exchange.handle(Input::Start, &mut start);
        for (way, word) in [(Direction::Request, "request"), (Direction::Reply, "reply")] {
            // Some servers send without a request.
            let is_needed = way == Direction::Reply || !start.is_empty();
            if is_needed
                && !vectors
                    .iter()
                    .any(|vector| vector.direction == way && vector.message.is_some())
            {
                complaints.push(format!(
                    "{id}: add a vector of a {word} as vectors/{id}/<name>.txt"
                ));
            }
        }
        for depth in [Depth::Ping, Depth::Basic, Depth::Full] {
            if !conversations
                .iter()
                .any(|conversation| conversation.ask.depth == depth)
            {
                let word = format!("{depth:?}").to_lowercase();
                complaints.push(format!(
                    "{id}: add a conversation with `ask: {word}` in vectors/{id}/conversations/"
                ));
            }
        }
        let mut met: BTreeSet<String> = vectors
            .iter()
            .flat_map(|vector| vector.deviations.clone())
            .collect();
        for conversation in &conversations {
            met.extend(
                status_of(conversation)
                    .iter()
                    .flat_map(|s| &s.deviations)
                    .map(|d| d.name.to_string()),
            );
        }
        for deviation in protocol.info().deviations {
            if !met.remove(deviation.name) {
                complaints.push(format!(
                    "{id}: add a vector or a conversation in vectors/{id}/ that shows the deviation {} ({})",
                    deviation.name, deviation.help
                ));
            }
        }
        for unknown in met {
            // Any protocol with several messages can have it.
            if unknown == UNREADABLE_MESSAGE.name {
                continue;
            }
            complaints.push(format!(
                "{id}: the deviation {unknown} is met in vectors; add it to Info.deviations"
            ));
        }
    }
    golden::settle(&complaints);
}

/// Returns the status at the end of a conversation, if it ends with one.
fn status_of(conversation: &Conversation) -> Option<Status> {
    match conversation.play(|_, bytes| Some(bytes.to_vec())) {
        Step::Done(status) => Some(*status),
        _ => None,
    }
}

#[test]
fn extra_fields_are_documented_and_documented_ones_appear() {
    let mut complaints = Vec::new();
    for (id, protocol) in protocols() {
        let info = protocol.info();
        let mut fields = BTreeSet::new();
        let mut player_fields = BTreeSet::new();
        for conversation in vector::conversations(protocol) {
            let Some(status) = status_of(&conversation) else {
                continue;
            };
            fields.extend(status.extra.iter().map(|extra| extra.key.to_string()));
            player_fields.extend(
                status
                    .players
                    .list
                    .iter()
                    .flat_map(|player| &player.extra)
                    .map(|extra| extra.key.to_string()),
            );
        }
        for (what, found, docs) in [
            ("fields", fields, info.fields),
            ("player_fields", player_fields, info.player_fields),
        ] {
            let documented: BTreeSet<String> = docs.iter().map(|doc| doc.key.into()).collect();
            for key in found.difference(&documented) {
                complaints.push(format!("{id}: document the extra `{key}` in Info.{what}"));
            }
            for key in documented.difference(&found) {
                complaints.push(format!(
                    "{id}: Info.{what} documents `{key}`, but no conversation shows it; add one in \
                     vectors/{id}/conversations/"
                ));
            }
        }
    }
    golden::settle(&complaints);
}

/// Responders with the option `max-reply`: least value and default in bytes.
const MAX_REPLY: [(&str, usize, usize); 12] = [
    ("minecraft-query", 1_024, 65_507),
    ("ugp", 64, 1_024),
    ("gamespy1", 576, 1_400),
    ("gamespy2", 576, 1_400),
    ("quake3", 1_100, 1_400),
    ("quake2", 1_000, 1_400),
    ("quake1", 1_000, 1_400),
    ("doom3", 1_000, 1_400),
    ("teeworlds", 576, 1_400),
    ("samp", 576, 1_400),
    ("unreal2", 1_100, 1_400),
    ("ase", 1_000, 1_400),
];

/// Replies of many players and rules are at most as long as the option allows, and longer if it
/// allows more.
#[test]
fn replies_keep_their_limit() {
    let has_option = |docs: &[Doc]| docs.iter().any(|doc| doc.key == "max-reply");
    let with_option = responding().filter(|(_, protocol)| has_option(protocol.info().options));
    let ids: Vec<&str> = with_option.map(|(id, _)| id).collect();
    assert_eq!(ids, MAX_REPLY.map(|(id, ..)| id));
    let mut status = statuses::plain(90);
    status.rules = (0..400)
        .map(|number| Rule {
            key: format!("rule-{number}").into(),
            value: "x".repeat(number).into(),
        })
        .collect();
    for (id, least, default) in MAX_REPLY {
        let protocol = registry::find(id).expect("an id of the registry");
        let build = |options: &Options| protocol.responder(&status, &Keys::new([7; 16]), options);
        let help = protocol.info().options.iter().map(|doc| doc.help);
        let range = format!("{least} to 65507");
        assert!(help.clone().any(|help| help.contains(&range)), "{id}");
        for wrong in [
            Value::Int(least as i64 - 1),
            Value::Int(65_508),
            Value::from("x"),
        ] {
            let options = Options::default().with("max-reply", wrong);
            let error = build(&options).err().expect("a value out of range");
            let problem = format!("max-reply: must be a whole number from {range}");
            assert_eq!(error.to_string(), problem, "{id}");
        }
        let replies = |options: &Options| {
            let responder = build(options).expect("a value of the range");
            let received = talk(&*responder, protocol.exchange(&Ask::default(), Cookie(5))).1;
            assert!(!received.is_empty(), "{id}");
            received
        };
        let with = |limit: usize| {
            let received = replies(&Options::default().with("max-reply", limit as i64));
            let longest = received.iter().map(Vec::len).max().unwrap_or_default();
            assert!(longest <= limit, "{id}: {longest} bytes, not {limit}");
            (longest, received)
        };
        assert_eq!(with(default).1, replies(&Options::default()), "{id}");
        let [short, long] = [least, 65_507].map(|limit| with(limit).0);
        assert!(short < long, "{id}: {short} and {long} bytes");
    }
}

#[test]
fn unknown_options_are_rejected() {
    for (id, protocol) in responding() {
        let options = Options::default().with("no-such-option", 1);
        let built = protocol.responder(&statuses::plain(3), &Keys::new([7; 16]), &options);
        let error = built.err().map(|error| error.to_string());
        let error = error.expect("an option that the protocol lacks");
        assert!(error.starts_with("no-such-option: "), "{id}: {error}");
        for doc in protocol.info().options {
            assert!(error.contains(doc.key), "{id}: {error}");
        }
    }
}

fn responder(protocol: &dyn Protocol, status: &Status) -> Arc<dyn Responder> {
    protocol
        .responder(status, &Keys::new([7; 16]), &Options::default())
        .expect("no options are good options")
}

fn client_address() -> SocketAddr {
    "192.0.2.7:50000".parse().expect("an address")
}

#[test]
fn no_request_is_claimed_by_two_protocols() {
    let mut complaints = Vec::new();
    let responders: Vec<_> = responding()
        .map(|(id, protocol)| {
            let transport = protocol.info().transport;
            (id, transport, responder(protocol, &statuses::plain(3)))
        })
        .collect();
    for vector in vector::all_vectors()
        .iter()
        .filter(|vector| vector.direction == Direction::Request)
    {
        let owners: Vec<_> = responders
            .iter()
            .filter(|(_, transport, _)| *transport == vector.protocol.info().transport)
            .filter(|(_, _, responder)| is_claimed(&**responder, &vector.bytes))
            .map(|(id, _, _)| *id)
            .collect();
        let families: BTreeSet<&str> = owners.iter().map(|id| family(id)).collect();
        if families.len() > 1 {
            complaints.push(format!(
                "vectors/{}.txt is claimed by {}; all but one responder must give Verdict::Pass",
                vector.name,
                owners.join(" and ")
            ));
        }
    }
    golden::settle(&complaints);
}

/// Returns the id of the protocol whose requests this one shares, or its own.
fn family(id: &'static str) -> &'static str {
    let protocol = registry::find(id).expect("an id of the registry");
    protocol.info().dialect_of.unwrap_or(id)
}

/// A dialect is that of an earlier protocol, so that a shared port has one first choice, and this
/// protocol is no dialect itself.
#[test]
fn dialects_name_an_earlier_protocol() {
    let mut earlier = Vec::new();
    for (id, protocol) in protocols() {
        if let Some(original) = protocol.info().dialect_of {
            assert!(
                earlier.contains(&original),
                "{id} is a dialect of {original}"
            );
        } else {
            earlier.push(id);
        }
    }
}

/// Returns whether a responder takes the first bytes of a connection or a datagram.
fn is_claimed(responder: &dyn Responder, bytes: &[u8]) -> bool {
    match responder.connection(client_address()) {
        Some(mut connection) => {
            let mut out = Vec::new();
            let mut received = connection.receive(NOW, bytes, &mut out);
            if received.step == ConnectionStep::Wait && received.consumed == 0 && out.is_empty() {
                received = connection.pause(bytes, &mut out);
            }
            received.step != ConnectionStep::Pass
        }
        None => responder.answer(client_address(), NOW, bytes, &mut Vec::new()) != Verdict::Pass,
    }
}

/// Two servers must never reply to each other: one forged request would start an endless exchange.
#[test]
fn no_responder_answers_a_reply() {
    let mut complaints = Vec::new();
    // Datagrams never reach a stream, and only they can be forged.
    let responders: Vec<_> = registry::datagram()
        .filter(|protocol| protocol.info().has_responder)
        .map(|protocol| {
            let id = protocol.info().id;
            (id, responder(protocol, &statuses::plain(3)))
        })
        .collect();
    let mut replies: Vec<(String, Vec<u8>)> = Vec::new();
    let is_datagram = |protocol: &dyn Protocol| protocol.info().transport == Transport::Datagram;
    for vector in vector::all_vectors()
        .into_iter()
        .filter(|vector| vector.direction == Direction::Reply && is_datagram(vector.protocol))
    {
        // Some servers send replies without the mark of a reply, which look like requests. Ours
        // have the mark.
        let explanation = vector.protocol.explain(
            &vector.bytes,
            DatagramContext::Request,
            &mut Notes::default(),
        );
        if !vector.deviations.is_empty()
            && explanation.is_some_and(|explanation| explanation.error.is_none())
        {
            continue;
        }
        replies.push((format!("vectors/{}.txt", vector.name), vector.bytes));
    }
    for conversation in vector::all_conversations() {
        if !is_datagram(conversation.protocol) {
            continue;
        }
        replies.extend(
            conversation
                .received()
                .map(|bytes| (format!("conversation {}", conversation.name), bytes.clone())),
        );
    }
    for protocol in registry::datagram().filter(|protocol| protocol.info().has_responder) {
        let id = protocol.info().id;
        for status in statuses::several() {
            let responder = responder(protocol, &status);
            let received = talk(&*responder, protocol.exchange(&Ask::default(), Cookie(5))).1;
            replies.extend(
                received
                    .into_iter()
                    .map(|bytes| (format!("a reply of {id}'s own responder"), bytes)),
            );
        }
    }
    for (name, bytes) in &replies {
        for (id, responder) in &responders {
            let verdict = responder.answer(client_address(), NOW, bytes, &mut Vec::new());
            if matches!(verdict, Verdict::Reply { .. }) {
                complaints.push(format!(
                    "{id}'s responder answers {name}, which is a reply; tell the two apart"
                ));
            }
        }
    }
    golden::settle(&complaints);
}

/// Runs an exchange against a responder without loss. Returns the last step and the replies.
fn talk(responder: &dyn Responder, mut exchange: Box<dyn Exchange>) -> (Step, Vec<Vec<u8>>) {
    let mut received = Vec::new();
    let mut server = memory::Server::new(responder, client_address(), NOW);
    let step = memory::run(&mut *exchange, &mut server, |direction, bytes| {
        if direction == Direction::Reply {
            received.push(bytes.clone());
        }
    });
    (step, received)
}

/// Maximum number of requests that are sent from many addresses.
const ANSWERED_REQUESTS: usize = 20;

/// Replies to unverified sources are at most as long as documented, and the documented figure is
/// reached. `golden/amplification.txt` has the measured figures.
#[test]
fn amplification_is_as_documented() {
    let mut complaints = Vec::new();
    let mut table = "# Largest replies to unverified clients, in bytes of payload, over all vectors (also truncated and mutated) and noise.\n\
         protocol             proof      documented            measured by length    measured by factor\n"
        .to_string();
    let shared = shared_requests();
    for (id, protocol) in responding() {
        let info = protocol.info();
        let documented = info.amplification;
        let mut longest = (0, 1);
        let mut worst = (0, 1);
        // Returns whether there is a reply.
        let mut try_one = |responder: &dyn Responder,
                           from: SocketAddr,
                           epoch: Epoch,
                           request: &[u8],
                           out: &mut Vec<u8>| {
            out.clear();
            let verdict = responder.answer(from, epoch, request, out);
            match verdict {
                Verdict::Reply { .. } if out.is_empty() => {
                    complaints.push(format!("{id}: an empty reply to {request:02x?}"));
                }
                Verdict::Reply { is_verified: false } => {
                    if out.len() > documented.reply
                        || out.len() * documented.request > documented.reply * request.len()
                    {
                        complaints.push(format!(
                            "{id}: {} bytes for {} of an unverified source; Info.amplification says {documented:?}",
                            out.len(),
                            request.len()
                        ));
                    }
                    if (out.len(), std::cmp::Reverse(request.len()))
                        > (longest.0, std::cmp::Reverse(longest.1))
                    {
                        longest = (out.len(), request.len());
                    }
                    if out.len() * worst.1 > worst.0 * request.len() {
                        worst = (out.len(), request.len());
                    }
                }
                Verdict::Reply { is_verified: true } if info.proof == Proof::Connection => {}
                // No request here was made with a token of these keys.
                Verdict::Reply { is_verified: true } => {
                    complaints.push(format!(
                        "{id}: takes {request:02x?} of a stranger for proof of an address"
                    ));
                }
                _ if !out.is_empty() => {
                    complaints.push(format!("{id}: {verdict:?} but bytes in the buffer"));
                }
                _ => {}
            }
            matches!(verdict, Verdict::Reply { .. })
        };
        let mut random = Random(1);
        let mut out = Vec::new();
        let own = own_requests(protocol);
        let mut requests: Vec<&[u8]> = shared.iter().chain(&own).map(Vec::as_slice).collect();
        requests.sort();
        requests.dedup();
        for status in statuses::several() {
            let responder = responder(protocol, &status);
            let mut answered = requests.clone();
            answered
                .retain(|request| try_one(&*responder, client_address(), NOW, request, &mut out));
            // The length of a challenge depends on the client's address.
            let step = answered.len().div_ceil(ANSWERED_REQUESTS).max(1);
            for _ in 0..200 {
                let from = SocketAddr::from((
                    [192, 0, 2, random.below(256) as u8],
                    random.below(65_536) as u16,
                ));
                let epoch = Epoch(random.bits() as u32);
                for request in answered.iter().step_by(step) {
                    try_one(&*responder, from, epoch, request, &mut out);
                }
            }
        }
        if longest.0 * 4 < documented.reply * 3
            || worst.0 * documented.request * 4 < documented.reply * worst.1 * 3
        {
            complaints.push(format!(
                "{id}: Info.amplification says {documented:?}, but the worst measured is {} for {} (longest) and {} for \
                 {} (factor); state the true figure, or add a vector that reaches it",
                longest.0, longest.1, worst.0, worst.1
            ));
        }
        let proof = match info.proof {
            Proof::Nothing => "nothing",
            Proof::Token => "token",
            Proof::Connection => "connection",
        };
        let show = |reply: usize, request: usize| {
            format!(
                "{reply} for {request}, {:.2}",
                reply as f64 / request as f64
            )
        };
        let _ = writeln!(
            table,
            "{id:20} {proof:10} {:21} {:21} {}",
            show(documented.reply, documented.request),
            show(longest.0, longest.1),
            show(worst.0, worst.1)
        );
    }
    complaints.extend(golden::check("amplification.txt", &table).err());
    complaints.truncate(20);
    golden::settle(&complaints);
}

/// Variants of the requests and replies of all protocols, and noise.
fn shared_requests() -> Vec<Vec<u8>> {
    let vectors = vector::all_vectors().into_iter();
    let mut all = variants(&vectors.map(|vector| vector.bytes).collect());
    let mut random = Random(1);
    for _ in 0..2_000 {
        let length = random.below(64) as usize;
        all.push((0..length).map(|_| random.bits() as u8).collect());
    }
    all.sort();
    all
}

/// Variants of the requests in the conversations of a protocol.
fn own_requests(protocol: &'static dyn Protocol) -> Vec<Vec<u8>> {
    let mut sent = BTreeSet::new();
    for conversation in vector::conversations(protocol) {
        for (_, line) in conversation.lines {
            if let Line::Sent(bytes) | Line::SentMore(bytes) | Line::Reconnect(bytes) = line {
                sent.insert(bytes);
            }
        }
    }
    variants(&sent)
}

/// Returns requests complete, cut at every byte, longer, and with random changes.
fn variants(whole: &BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for request in whole.iter().filter(|request| request.len() <= 256) {
        all.extend((0..=request.len()).map(|end| request[..end].to_vec()));
        all.push([request.as_slice(), &[0; 8]].concat());
        // Seeded by the request, so that a new vector does not change the others.
        let seed = |seed: u64, byte: &u8| seed.wrapping_mul(31).wrapping_add(u64::from(*byte));
        let mut random = Random(request.iter().fold(1, seed));
        for _ in 0..40 {
            let mut changed = request.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len().max(1) as u64) as usize;
                if let Some(byte) = changed.get_mut(at) {
                    *byte = match random.below(3) {
                        0 => random.bits() as u8,
                        1 => *byte ^ 1 << random.below(8),
                        _ => 0xFF,
                    };
                }
            }
            all.push(changed);
        }
    }
    all
}

/// In a protocol with tokens, the last request of a conversation is answered only from the address
/// and, with `bind-port`, the port that got the token; not earlier, not much later, and not with
/// other keys.
#[test]
fn a_token_is_valid_only_for_its_address_and_time() {
    for (id, protocol) in protocols().filter(|(_, protocol)| protocol.info().proof == Proof::Token)
    {
        let is_port_bound = Options::default().with("bind-port", true);
        let build = |secret, options: &Options| {
            let keys = Keys::new([secret; 16]);
            protocol
                .responder(&statuses::plain(3), &keys, options)
                .expect("protocols with tokens have the option bind-port")
        };
        let responder = build(7, &is_port_bound);
        let mut exchange = protocol.exchange(&Ask::default(), Cookie(5));
        let mut server = memory::Server::new(&*responder, client_address(), NOW);
        let mut request = Vec::new();
        let mut last = Vec::new();
        let mut replies = VecDeque::new();
        let mut step = exchange.handle(Input::Start, &mut request);
        loop {
            let has_more = step == Step::SendMore;
            if matches!(step, Step::Send | Step::SendMore) {
                last = std::mem::take(&mut request);
                replies.extend(server.request(&last));
            }
            step = if has_more {
                exchange.handle(Input::Continue, &mut request)
            } else if let Some(reply) = replies.pop_front() {
                exchange.handle(Input::Datagram(&reply), &mut request)
            } else {
                break;
            };
        }
        let verified = Verdict::Reply { is_verified: true };
        let ask = |responder: &dyn Responder, from: &str, epoch: u32| {
            responder.answer(
                from.parse().expect("an address"),
                Epoch(epoch),
                &last,
                &mut Vec::new(),
            )
        };
        assert_eq!(ask(&*responder, "192.0.2.7:50000", NOW.0), verified, "{id}");
        assert_eq!(
            ask(&*responder, "[::ffff:192.0.2.7]:50000", NOW.0),
            verified,
            "{id}: the same client on a dual-stack socket"
        );
        for (from, epoch) in [
            ("192.0.2.8:50000", NOW.0),
            ("192.0.2.7:50001", NOW.0),
            ("[2001:db8::1]:50000", NOW.0),
            ("192.0.2.7:50000", NOW.0 + 10),
            ("192.0.2.7:50000", NOW.0 - 1),
            ("192.0.2.7:50000", 0),
        ] {
            assert_ne!(
                ask(&*responder, from, epoch),
                verified,
                "{id}: {from} in epoch {epoch} with a token of another"
            );
        }
        let others = build(8, &is_port_bound);
        assert_ne!(
            ask(&*others, "192.0.2.7:50000", NOW.0),
            verified,
            "{id}: a token of other keys"
        );
    }
}

#[test]
fn an_exchange_is_rebuilt_from_its_cookie() {
    for (id, protocol) in protocols() {
        for depth in [Depth::Ping, Depth::Basic, Depth::Full] {
            let ask = Ask {
                depth,
                ..Ask::default()
            };
            let mut starts = BTreeSet::new();
            for cookie in (0..1_000).map(|i| Cookie(i << 32 | i)) {
                let mut first = Vec::new();
                let step = protocol
                    .exchange(&ask, cookie)
                    .handle(Input::Start, &mut first);
                assert!(
                    matches!(step, Step::Send | Step::SendMore),
                    "{id}: an exchange starts by sending"
                );
                let mut rebuilt = protocol.exchange(&ask, cookie);
                let mut again = Vec::new();
                rebuilt.handle(Input::Start, &mut again);
                assert_eq!(
                    first, again,
                    "{id}: what an exchange sends must derive from its cookie alone"
                );
                starts.insert(first);
            }
            // A protocol without an id always sends the same request; one with an id must rarely
            // repeat it.
            assert!(
                starts.len() == 1 || starts.len() > 900,
                "{id}: {} different starts of 1,000 cookies; derive a longer id from the cookie",
                starts.len()
            );
            if !protocol.info().has_responder {
                continue;
            }
            let responder = responder(protocol, &statuses::plain(3));
            let mut sent = Vec::new();
            protocol
                .exchange(&ask, Cookie(77))
                .handle(Input::Start, &mut sent);
            let (first, _) = talk(&*responder, protocol.exchange(&ask, Cookie(77)));
            let (second, _) = talk(&*responder, protocol.exchange(&ask, Cookie(77)));
            assert!(matches!(first, Step::Done(_)), "{id} {depth:?}: {first:?}");
            assert_eq!(first, second, "{id}");
        }
    }
}

#[test]
fn citations_name_sections_that_exist() {
    let mut complaints = Vec::new();
    for file in sources(&golden::root().join("crates")) {
        let text = read(&file);
        for (number, line) in text.lines().enumerate() {
            for (at, _) in line.match_indices("spec/") {
                let word = line[at..]
                    .split(|c: char| !(c.is_ascii_alphanumeric() || "/.-#_".contains(c)))
                    .next();
                let Some((page, section)) = word.and_then(|word| word.split_once(".md#")) else {
                    continue;
                };
                let section = section.trim_end_matches(['.', ',']);
                let headings = read(&golden::root().join(format!("{page}.md")));
                let numbered = |heading: &str| {
                    heading
                        .trim_start_matches('#')
                        .split_whitespace()
                        .next()
                        .map(|number| number.trim_end_matches('.'))
                        == Some(section)
                };
                if !headings
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(numbered)
                {
                    complaints.push(format!(
                        "{}:{}: {page}.md has no heading numbered {section}; correct the citation or the page",
                        file.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    golden::settle(&complaints);
}

/// Returns all Rust files below a folder except this one, whose messages are not citations.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && !path.ends_with("tests/house.rs")
        {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The README lists the protocols of the registry, in its order.
#[test]
fn the_readme_lists_all_protocols() {
    let readme = read(&golden::root().join("README.md"));
    let ids: Vec<String> = protocols().map(|(id, _)| format!("`{id}`")).collect();
    let list = ids.join(", ");
    assert!(
        readme.contains(&format!(": {list}.")),
        "README.md must list the protocols: {list}"
    );
}

/// A family of protocols imports only shared modules, as the first lines of `protocols/mod.rs` say.
#[test]
fn protocol_families_do_not_import_each_other() {
    let folder = golden::root().join("crates/hailer-proto/src/protocols");
    let rule = "A family imports only shared modules, never\n//! another family.";
    let front = read(&folder.join("mod.rs"));
    assert!(front.contains(rule), "protocols/mod.rs states the rule");
    let mut complaints = Vec::new();
    let files = sources(&folder);
    let names: BTreeSet<String> = protocols().map(|(id, _)| id.replace('-', "_")).collect();
    for name in &names {
        let of_protocol = |file: &&PathBuf| {
            let path = file.with_extension("");
            let path = path.strip_prefix(&folder).expect("below the folder");
            path.iter().any(|part| part == name.as_str())
        };
        if !files.iter().any(|file| of_protocol(&file)) {
            complaints.push(format!(
                "{name}: the file or folder of a protocol is named after its id, below {}",
                folder.display()
            ));
        }
    }
    let family = |file: &Path| {
        let path = file.strip_prefix(&folder).expect("below the folder");
        let first = path.iter().next().expect("a file").to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    };
    let families: BTreeSet<String> = files.iter().map(|file| family(file)).collect();
    assert!(families.len() > 10, "{families:?}");
    for file in files.iter().filter(|file| **file != folder.join("mod.rs")) {
        let own = family(file);
        let text = read(file);
        for path in ["crate::{", "protocols::{"] {
            let groups = text.split(path).skip(1);
            let groups = groups.filter_map(|rest| rest.split(';').next());
            let mut items = groups.flat_map(|group| group.split([',', '{', '}', ' ', '\n']));
            let is_module = |item: &str| {
                let first = item.split("::").next().unwrap_or_default();
                first == "protocols" || families.contains(first) || names.contains(first)
            };
            if items.any(is_module) {
                complaints.push(format!(
                    "{}: `{path}` has a family; name it by its whole path",
                    file.display()
                ));
            }
        }
        let lines = text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| line.contains("::")) {
            let others = families.iter().filter(|other| **other != own);
            let others = others.map(|other| format!("protocols::{other}"));
            let upper = ["registry", "testing::fuzzing"].map(String::from);
            let short = families.iter().chain(&names).chain(&upper);
            let short = short.map(|name| format!("crate::{name}"));
            for path in others.chain(short).filter(|path| names_module(line, path)) {
                complaints.push(format!(
                    "{}:{}: imports {path}; a family imports only shared modules, by their paths",
                    file.display(),
                    number + 1
                ));
            }
        }
    }
    golden::settle(&complaints);
}

/// Returns whether a line has a path that is not just the start of a longer name: `samp` is not
/// `sample`.
fn names_module(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let next = line[at + path.len()..].chars().next();
        next.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}

#[test]
fn golden_files_have_their_vectors() {
    let mut complaints = Vec::new();
    let vectors: BTreeSet<String> = vector::all_vectors()
        .into_iter()
        .map(|vector| vector.name)
        .collect();
    let conversations: BTreeSet<String> = vector::all_conversations()
        .into_iter()
        .map(|talk| talk.name)
        .collect();
    for (kind, names) in [("explained", vectors), ("conversations", conversations)] {
        for folder in std::fs::read_dir(golden::root().join("golden").join(kind))
            .into_iter()
            .flatten()
            .flatten()
        {
            for file in std::fs::read_dir(folder.path())
                .into_iter()
                .flatten()
                .flatten()
            {
                let path = file.path();
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                if !names.contains(&format!("{}/{stem}", folder.file_name().to_string_lossy())) {
                    complaints.push(format!("{} has no vector; remove it", path.display()));
                }
            }
        }
    }
    golden::settle(&complaints);
}

/// The corpus of each fuzz target covers each protocol. It is made from the vectors; `BLESS=1`
/// writes it.
#[test]
fn every_protocol_has_a_fuzz_corpus() {
    let mut complaints = Vec::new();
    for (index, (id, protocol)) in protocols().enumerate() {
        for (target, entries) in corpus(index as u8, protocol) {
            let folder = golden::root().join(format!(
                "crates/hailer-proto/tests/__fuzz__/{target}/corpus"
            ));
            let name = |i: usize| folder.join(format!("{id}-{i:02}"));
            if golden::blessing() {
                std::fs::create_dir_all(&folder).expect("the corpus can be written");
                for i in 0..200 {
                    let _ = std::fs::remove_file(name(i));
                }
                for (i, entry) in entries.iter().enumerate() {
                    std::fs::write(name(i), entry).expect("the corpus can be written");
                }
            }
            let is_needed = target != "responder" || protocol.info().has_responder;
            let current = !(is_needed && entries.is_empty())
                && entries
                    .iter()
                    .enumerate()
                    .all(|(i, entry)| std::fs::read(name(i)).is_ok_and(|stored| stored == *entry));
            if !current {
                complaints.push(format!(
                    "{id}: its corpus for the fuzz target {target} is not made from its vectors of today; run `BLESS=1 \
                     cargo test -p hailer-proto --test house` and commit {}",
                    folder.display()
                ));
            }
        }
    }
    golden::settle(&complaints);
}

/// Returns a few small entries for each fuzz target: one for each message, deviation and end of a
/// conversation.
fn corpus(index: u8, protocol: &'static dyn Protocol) -> [(&'static str, Vec<Vec<u8>>); 3] {
    const LONGEST: usize = 1_024;
    let mut kinds = BTreeSet::new();
    let mut explain: Vec<Vec<u8>> = Vec::new();
    for vector in vector::vectors(protocol)
        .into_iter()
        .filter(|vector| vector.bytes.len() <= LONGEST)
    {
        if kinds.insert((vector.message, vector.deviations, vector.error.is_some())) {
            explain.push(vector.bytes);
        }
    }
    let mut responder = Vec::new();
    let mut exchange = Vec::new();
    let mut ends = BTreeSet::new();
    for conversation in vector::conversations(protocol) {
        let deviations = status_of(&conversation)
            .map(|status| status.deviations.iter().map(|d| d.name).collect::<Vec<_>>());
        let mut orders = vec![index, depth_byte(conversation.ask.depth)];
        let mut sent = Vec::new();
        for (_, line) in &conversation.lines {
            match line {
                Line::Sent(bytes) | Line::SentMore(bytes) | Line::Reconnect(bytes) => {
                    sent.push(bytes.clone());
                }
                Line::Timeout => orders.push(0),
                Line::GiveUp => orders.push(3),
                Line::Received(bytes) => {
                    orders.push(1);
                    orders.extend((bytes.len() as u16).to_be_bytes());
                    orders.extend(bytes);
                }
                _ => {}
            }
        }
        if orders.len() <= LONGEST && ends.insert((orders[1], deviations)) {
            exchange.push(orders);
        }
        if let (Some(first), Some(last)) = (sent.first(), sent.last()) {
            let entry = [&[index, first.len() as u8], first.as_slice(), last].concat();
            if responder.len() < 8 && !responder.contains(&entry) {
                responder.push(entry);
            }
        }
    }
    if !protocol.info().has_responder {
        responder.clear();
        return [
            ("explain", explain),
            ("responder", responder),
            ("exchange", exchange),
        ];
    }
    // A complete exchange with Hailer's responder: unchanged, and with three changes in the last
    // reply.
    exchange.push(vec![index, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0, 2, 0]);
    exchange.push(vec![
        index, 0, 2, 0, 2, 3, 0, 20, 1, 0, 30, 7, 0, 40, 0xFF, 0, 2, 0,
    ]);
    [
        ("explain", explain),
        ("responder", responder),
        ("exchange", exchange),
    ]
}

fn depth_byte(depth: Depth) -> u8 {
    match depth {
        Depth::Full => 0,
        Depth::Basic => 1,
        Depth::Ping => 2,
    }
}

/// ARCHITECTURE.md must not name files that do not exist.
#[test]
fn architecture_names_files_that_exist() {
    let mut complaints = Vec::new();
    let page = read(&golden::root().join("ARCHITECTURE.md"));
    for (number, line) in page.lines().enumerate() {
        for word in line.split('`').skip(1).step_by(2) {
            let tops = [
                "crates/",
                "spec/",
                "vectors/",
                "golden/",
                "schema/",
                "examples/",
                "fuzz/",
                "docs/",
                "deploy/",
            ];
            let path = word.trim_end_matches(['/', '*']);
            let is_path = tops.iter().any(|top| word.starts_with(top))
                && !word.contains(['<', ' ', '{', '*']);
            if is_path
                && !golden::root()
                    .join(path.split('#').next().unwrap_or(path))
                    .exists()
            {
                complaints.push(format!(
                    "ARCHITECTURE.md:{}: `{word}` does not exist",
                    number + 1
                ));
            }
        }
    }
    golden::settle(&complaints);
}

/// At most one protocol identifies a datagram with certainty.
#[test]
fn at_most_one_protocol_is_certain_of_a_datagram() {
    let mut complaints = Vec::new();
    for vector in vector::all_vectors() {
        let sure = |(_, protocol): &(_, &'static dyn Protocol)| {
            let explanation = protocol.explain(
                &vector.bytes,
                DatagramContext::Unknown,
                &mut Notes::default(),
            );
            explanation
                .is_some_and(|explanation| explanation.is_certain && explanation.error.is_none())
        };
        let owners: Vec<_> = protocols().filter(sure).map(|(id, _)| id).collect();
        if owners.len() > 1 {
            complaints.push(format!(
                "vectors/{}.txt: {} all claim it with certainty",
                vector.name,
                owners.join(", ")
            ));
        }
    }
    golden::settle(&complaints);
}

/// Without `std`, the compiler guarantees sans-IO: there are no sockets, clocks, environment
/// variables or random sources.
#[test]
fn the_standard_library_is_for_tests_only() {
    let front = include_str!("../src/lib.rs");
    assert!(
        front.contains("\n#![no_std]\n"),
        "src/lib.rs must say #![no_std]"
    );
    for path in sources(&golden::root().join("crates/hailer-proto/src")) {
        let text = read(&path);
        for (at, _) in text.match_indices("extern crate std") {
            let before = text[..at].trim_end();
            assert!(
                before.ends_with("#[cfg(test)]"),
                "{}: `extern crate std` outside of tests",
                path.display()
            );
        }
    }
}
