//! A responder in front of a server: the status that is polled in one protocol is served in each
//! other one.
//!
//! A query of its own responder shows the members that a protocol carries. A shield must not lose more
//! than that, whatever protocol it polls.

use hailer::Status;
use hailer::proto::model::{Icon, Roster};
use hailer::proto::protocol::Input;
use hailer::proto::testing::memory;
use hailer::proto::{Ask, Cookie, Epoch, Keys, Options, Player, Protocol, Step, Text, registry};
use hailer_testkit::golden;
use std::fmt::Write;

/// A PNG file of one pixel.
const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82";

/// A member of a status, as text. `None`: the status does not have it.
type Member = (&'static str, fn(&Status) -> Option<String>);

/// Members that a shield passes on, with the heads of their columns.
const MEMBERS: [Member; 10] = [
    ("title", Status::title),
    ("map", |status| status.map.as_deref().map(str::to_owned)),
    ("mode", |status| status.mode.as_deref().map(str::to_owned)),
    ("version", |status| {
        status.version.as_deref().map(str::to_owned)
    }),
    ("players online", |status| count(status.players.online)),
    ("players max", |status| count(status.players.max)),
    ("bots", |status| count(status.players.bots)),
    ("password", |status| {
        status.has_password.map(|flag| flag.to_string())
    }),
    ("icon", |status| {
        status.icon.as_ref().map(|icon| icon.data_uri().to_owned())
    }),
    ("player names", |status| {
        let mut names: Vec<String> = status
            .players
            .list
            .iter()
            .map(|player| player.name.plain())
            .collect();
        names.sort();
        (!names.is_empty()).then(|| names.join(", "))
    }),
];

fn count(number: Option<i64>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn player(name: &str, number: u128) -> Player {
    Player {
        uuid: Some(number.to_be_bytes()),
        score: Some(7),
        ..Player::named(Text::unformatted(name))
    }
}

/// A status with every member. Only two of five players are listed if `is_sample`.
fn reference(is_sample: bool) -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("Harbour")),
        motd: Some(Text::unformatted("Harbour")),
        map: Some("mill".into()),
        mode: Some("coop".into()),
        version: Some("1.2.3".into()),
        has_password: Some(true),
        icon: Some(Icon::from_png(PNG).unwrap()),
        ..Status::default()
    };
    let list = vec![player("Alice", 1), player("Bob", 2)];
    if is_sample {
        status.players.set_sample(list);
        status.players.online = Some(5);
    } else {
        status.players.set_list(list);
        status.players.online = Some(2);
        status.players.bots = Some(0);
    }
    status.players.max = Some(20);
    status
}

/// Returns the protocols that have a responder.
fn protocols() -> Vec<&'static dyn Protocol> {
    let mut protocols = registry::responders();
    let keys = Keys::new([7; 16]);
    protocols.retain(|protocol| {
        let responder = protocol.responder(&Status::default(), &keys, &Options::default());
        responder.is_ok()
    });
    protocols
}

/// Returns what a client reads from a responder with this status.
fn query(protocol: &dyn Protocol, status: &Status) -> Status {
    let responder = protocol
        .responder(status, &Keys::new([7; 16]), &Options::default())
        .unwrap();
    let mut exchange = protocol.exchange(&Ask::default(), Cookie(1));
    let from = ([192, 0, 2, 7], 50_000).into();
    let mut server = memory::Server::new(&*responder, from, Epoch(1));
    let step = match memory::run(&mut *exchange, &mut server, |_, _| {}) {
        step @ Step::Done(_) => step,
        // The server never had the list that the exchange waits for.
        _ => exchange.handle(Input::GiveUp, &mut Vec::new()),
    };
    match step {
        Step::Done(status) => *status,
        other => panic!("{}: {other:?}", protocol.info().id),
    }
}

/// Returns the status that `source.poll` passes on after a query in this protocol.
fn polled(protocol: &dyn Protocol, status: &Status) -> Status {
    let mut status = query(protocol, status);
    status.deviations.clear();
    status.address = None;
    status
}

#[test]
fn every_protocol_is_served_in_each_other_one() {
    let mut complaints = Vec::new();
    for is_sample in [false, true] {
        let reference = reference(is_sample);
        for from in protocols() {
            let source = polled(from, &reference);
            for to in protocols() {
                let native = query(to, &reference);
                let served = query(to, &source);
                let pair = format!("{} to {}", from.info().id, to.info().id);
                for (name, member) in MEMBERS {
                    let native = member(&native);
                    let is_carried = native.is_some() && native == member(&reference);
                    let sent = member(&source);
                    let found = member(&served);
                    if is_carried && sent.is_some() && found != sent {
                        complaints.push(format!("{pair}: {name}: {found:?} instead of {sent:?}"));
                    }
                }
                let players = &source.players;
                let has_missing_names = (players.list.len() as i64) < players.count();
                if has_missing_names && served.players.roster == Roster::Whole {
                    complaints.push(format!("{pair}: an incomplete list is served as complete"));
                }
            }
        }
    }
    golden::settle(&complaints);
}

/// The documentation names what each protocol cannot carry.
#[test]
fn the_table_shows_what_is_lost() {
    let reference = reference(false);
    let heads = MEMBERS.map(|(name, _)| name).join(" | ");
    let mut page = format!(
        "# Members that responders send\n\n\
         Generated by a query of each responder. With `source.poll`, a status is polled in one protocol and served in \
         others: a member arrives if both rows have it. A list with fewer names than players is never served as \
         complete.\n\n\
         | protocol | {heads} |\n| --- |{}\n",
        " --- |".repeat(MEMBERS.len())
    );
    for protocol in protocols() {
        let served = query(protocol, &reference);
        let cells = MEMBERS.map(|(_, member)| match member(&served) {
            Some(value) if member(&reference) == Some(value.clone()) => "yes",
            Some(_) => "changed",
            None => "–",
        });
        writeln!(page, "| `{}` | {} |", protocol.info().id, cells.join(" | ")).unwrap();
    }
    let complaints: Vec<String> = golden::check("../docs/reference/carried.md", &page)
        .err()
        .into_iter()
        .collect();
    golden::settle(&complaints);
}
