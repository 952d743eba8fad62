//! Sweeps of games over real sockets on loopback: query ports, quirks, protocols of a game, and
//! games and protocols that programs add.

use hailer::proto::games::{Game, QueryPort, Quirk};
use hailer::proto::{
    Ask, Cookie, DatagramContext, Exchange, Explanation, Info, Keys, Options, Protocol,
    ResponderResult, Transport, wire,
};
use hailer::support::catalog;
use hailer::sweep::{
    self, Collector, Counts, DefaultKinds, Exclusions, Item, ListSource, ProbeResult, Progress,
    Sink, SourceConfig, SweepConfig,
};
use hailer::{Answer, Error, Status};
use hailer_testkit::servers::{GAME, Server, protocol, status};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Collects the results of a sweep.
#[derive(Default)]
struct Ends {
    names: Vec<Option<String>>,
    results: Vec<Result<Answer, Error>>,
    indices: BTreeSet<u64>,
    counts: Counts,
}

impl Sink for Ends {
    fn record(&mut self, result: ProbeResult) {
        assert!(self.indices.insert(result.index), "an index ends twice");
        self.names.push(result.name.as_deref().map(str::to_owned));
        self.results.push(result.result);
    }

    fn report_progress(&mut self, _: &Progress<'_>) {}
}

impl Ends {
    /// Returns the only answer.
    fn answer(&self) -> &Answer {
        match &self.results[..] {
            [Ok(answer)] => answer,
            other => panic!("{other:?}"),
        }
    }
}

fn sweep(defaults: DefaultKinds, targets: &[&str]) -> Ends {
    let mut collector = Collector::with_defaults(defaults);
    for target in targets {
        collector.add(target).unwrap();
    }
    let targets = collector.finish(&Exclusions::default()).unwrap();
    let mut source = ListSource::new(targets, Arc::default(), SourceConfig::default());
    let mut config = SweepConfig::default();
    config.limits.timeout = Duration::from_millis(300);
    config.limits.retries = 1;
    config.limits.deadline = Duration::from_secs(5);
    let mut ends = Ends::default();
    ends.counts = sweep::run(&config, &mut source, &mut ends).unwrap();
    ends
}

fn sweep_one(target: &str) -> Ends {
    sweep(DefaultKinds::new(&[]).unwrap(), &[target])
}

fn server(id: &str) -> Server {
    Server::of(&[protocol(id)], &status("Harbour", &["Alice"]))
}

/// Ports below those that the system chooses, so that no test opens them.
const CLOSED: [u16; 2] = [3, 5];

#[test]
fn the_given_port_comes_before_the_derived_one() {
    let given = server("ugp");
    let derived = server("ugp");
    let query = QueryPort::Fixed(derived.port());
    let id = "swept-both";
    catalog::add_game(Game { id, query, ..GAME }).unwrap();
    let ends = sweep_one(&format!("swept-both://{}", given.address));
    assert_eq!(ends.answer().transcript.address, given.address);
    assert!(ends.answer().notes.is_empty());
    let ends = sweep_one(&format!("swept-both://{}", given.address.ip()));
    assert_eq!(ends.answer().transcript.address, derived.address);
    // The port that players connect to is not queried.
    let ends = sweep_one(&format!("swept-both://{}:9", given.address.ip()));
    assert_eq!(ends.answer().transcript.address, derived.address);
    assert_eq!(ends.counts.port_retries, 0);
}

#[test]
fn other_query_ports_follow_a_failure() {
    let server = server("ugp");
    let silent = Server::silent();
    let gibberish = Server::script(|_| vec![b"?".to_vec()]);
    let query = QueryPort::Fixed(server.port());
    let id = "swept-next";
    catalog::add_game(Game { id, query, ..GAME }).unwrap();
    for first in [CLOSED[0], silent.port(), gibberish.port()] {
        let target = format!("swept-next://127.0.0.1:{first}");
        let ends = sweep_one(&target);
        assert_eq!(ends.names, [Some(target)]);
        let answer = ends.answer();
        assert_eq!(answer.transcript.address, server.address);
        let note = format!(
            "The query port {} answered, not the first port {first}",
            server.port()
        );
        assert_eq!(answer.notes, [note]);
        let counts = &ends.counts;
        assert_eq!(
            [counts.probes, counts.answered, counts.port_retries],
            [1; 3]
        );
    }
}

#[test]
fn a_failure_at_every_port_is_one_result() {
    let query = QueryPort::Fixed(CLOSED[1]);
    let id = "swept-closed";
    catalog::add_game(Game { id, query, ..GAME }).unwrap();
    let ends = sweep_one(&format!("swept-closed://127.0.0.1:{}", CLOSED[0]));
    match &ends.results[..] {
        [Err(Error::PortClosed { .. })] => {}
        other => panic!("{other:?}"),
    }
    let counts = &ends.counts;
    assert_eq!(
        [counts.probes, counts.port_closed, counts.port_retries],
        [1; 3]
    );
}

#[test]
fn other_query_ports_follow_over_tcp_too() {
    // One port is closed, and the other accepts a connection and closes it.
    let first = CLOSED[0];
    let second = TcpListener::bind("127.0.0.1:0").unwrap();
    let query = QueryPort::Fixed(second.local_addr().unwrap().port());
    catalog::add_game(Game {
        id: "swept-tcp",
        protocols: &["minecraft-status"],
        query,
        ..GAME
    })
    .unwrap();
    let accepted = std::thread::spawn(move || {
        let (_, from) = second.accept().unwrap();
        from.ip().is_loopback()
    });
    let ends = sweep_one(&format!("swept-tcp://127.0.0.1:{first}"));
    assert!(accepted.join().unwrap());
    assert!(ends.results[0].is_err());
    assert_eq!([ends.counts.probes, ends.counts.port_retries], [1; 2]);
}

#[test]
fn players_are_not_requested_if_servers_never_list_them() {
    let server = server("ugp");
    let query = QueryPort::Fixed(server.port());
    for (id, quirks, listed) in [
        ("swept-listed", &[][..], 1),
        ("swept-unlisted", &[Quirk::NoPlayerList], 0),
    ] {
        catalog::add_game(Game {
            id,
            query,
            quirks,
            ..GAME
        })
        .unwrap();
        let ends = sweep_one(&format!("{id}://127.0.0.1"));
        assert_eq!(ends.answer().status.players.list.len(), listed, "{id}");
    }
}

/// Replies to A2S requests. The name is in Big5.
fn taiwanese(request: &[u8]) -> Vec<Vec<u8>> {
    let reply = match request.get(4) {
        Some(b'T') => &b"\x49\x11\xC5\x77\xAA\xEF\xA8\xD3\xA8\xEC\xA5\x78\xC6\x57\0\xA4\xE5\0tf\0TF\0\xB8\x01\0\x18\0dl\0\x018\0\0"[..],
        Some(b'U') => b"\x44\0",
        _ => b"\x45\0\0",
    };
    vec![[&[0xFF; 4], reply].concat()]
}

#[test]
fn texts_are_in_the_charset_of_the_game_or_in_a_guess() {
    let server = Server::script(taiwanese);
    for (id, quirks, name, map, charset) in [
        (
            "swept-guess",
            &[][..],
            "\u{6B61}\u{8FCE}\u{4F86}\u{5230}\u{53F0}\u{7063}",
            "\u{6587}",
            "Big5",
        ),
        (
            "swept-cyrillic",
            &[Quirk::Charset("cp1251")],
            "\u{415}\u{77}\u{404}\u{43F}\u{401}\u{423}\u{401}\u{43C}\u{490}\u{78}\u{416}\u{57}",
            "\u{A4}\u{435}",
            "windows-1251",
        ),
    ] {
        catalog::add_game(Game {
            id,
            protocols: &["a2s"],
            query: QueryPort::Fixed(server.address.port()),
            quirks,
            ..GAME
        })
        .unwrap();
        let ends = sweep_one(&format!("{id}://127.0.0.1"));
        let status = &ends.answer().status;
        assert_eq!(status.title().as_deref(), Some(name), "{id}");
        assert_eq!(status.map.as_deref(), Some(map), "{id}");
        assert_eq!(status.extra("charset"), Some(&charset.into()), "{id}");
    }
}

#[test]
fn quirks_explain_an_answer() {
    let server = server("ugp");
    let query = QueryPort::Fixed(server.port());
    catalog::add_game(Game {
        id: "swept-unsure",
        query,
        quirks: &[Quirk::UnsureCount],
        ..GAME
    })
    .unwrap();
    let ends = sweep_one("swept-unsure://127.0.0.1");
    assert_eq!(
        ends.answer().notes,
        ["Harbour Wars: player counts may be wrong"]
    );
}

#[test]
fn every_protocol_of_a_game_is_a_probe() {
    let protocols = ["onequery", "minecraft-query"].map(protocol);
    let server = Server::of(&protocols, &status("Harbour", &["Alice"]));
    catalog::add_game(Game {
        id: "swept-two",
        protocols: &["onequery", "minecraft-query"],
        ..GAME
    })
    .unwrap();
    let game = catalog::game("swept-two").unwrap();
    let target = server.address.to_string();
    let ends = sweep(DefaultKinds::of_game(game).unwrap(), &[&target]);
    let found: BTreeSet<&str> = ends
        .results
        .iter()
        .map(|result| result.as_ref().unwrap().transcript.protocol.id)
        .collect();
    assert_eq!(found, ["minecraft-query", "onequery"].into());
}

/// A protocol that is not in the registry: UGP with another name.
struct Renamed;

static RENAMED: LazyLock<Info> = LazyLock::new(|| Info {
    id: "renamed",
    title: "Renamed",
    ..*protocol("ugp").info()
});

impl Protocol for Renamed {
    fn info(&self) -> &'static Info {
        &RENAMED
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        protocol("ugp").exchange(ask, cookie)
    }

    fn responder(&self, status: &Status, keys: &Keys, options: &Options) -> ResponderResult {
        protocol("ugp").responder(status, keys, options)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut wire::Notes,
    ) -> Option<Explanation> {
        protocol("ugp").explain(bytes, seen, notes)
    }
}

#[test]
fn programs_add_protocols_and_games() {
    let server = server("ugp");
    catalog::add_protocol(&Renamed).unwrap();
    let query = QueryPort::Fixed(server.port());
    catalog::add_game(Game {
        id: "swept-added",
        protocols: &["renamed"],
        query,
        ..GAME
    })
    .unwrap();
    for target in [
        "swept-added://127.0.0.1",
        &format!("renamed://{}", server.address),
    ] {
        let ends = sweep_one(target);
        let answer = ends.answer();
        assert_eq!(answer.transcript.protocol.id, "renamed", "{target}");
        assert_eq!(answer.transcript.address, server.address, "{target}");
    }
}

#[test]
fn one_sweep_has_every_game() {
    let games = catalog::games();
    let queried: Vec<&Game> = games
        .into_iter()
        .filter(|game| catalog::obstacle(game).is_none() && game.srv.is_none())
        .filter(|game| {
            let mut protocols = catalog::protocols_of(game).into_iter();
            protocols.any(|protocol| protocol.info().transport != Transport::Http)
        })
        .collect();
    assert!(queried.len() > 150);
    let mut collector = Collector::new(&[]).unwrap();
    for game in &queried {
        collector.add(&format!("{}://192.0.2.1", game.id)).unwrap();
    }
    let targets = collector.finish(&Exclusions::default()).unwrap();
    let mut found = BTreeSet::new();
    for index in 0..targets.len() {
        let Some(Item::Address(address, kind)) = targets.item(index) else {
            panic!("{index}");
        };
        // A word that is both names the protocol, unless the game adds protocols or ports.
        let Some(game) = kind.game else {
            assert!(catalog::game(kind.protocol.info().id).is_some());
            continue;
        };
        assert_eq!(Some(&address.port()), game.query_ports(None).first());
        found.insert(game.id);
    }
    let named_like_protocols = queried
        .iter()
        .filter(|game| catalog::protocol(game.id).is_some() && !found.contains(game.id));
    assert_eq!(found.len() + named_like_protocols.count(), queried.len());
}
