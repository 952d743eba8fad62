//! Names as targets of a sweep: they are resolved ahead of time. The name server is part of the
//! tests.

use hailer::client::ClientConfig;
use hailer::proto::Protocol;
use hailer::proto::games::{Game, QueryPort};
use hailer::proto::registry;
use hailer::support::address::AddressPolicy;
use hailer::support::catalog;
use hailer::sweep::{
    self, Collector, DefaultKinds, Exclusions, ListSource, Next, Position, ProbeResult,
    ProbeSource, Progress, Sink, SourceConfig, StreamSource, SweepConfig, Targets,
};
use hailer::{Client, Error};
use hailer_testkit::servers::GAME;
use hailer_testkit::servers::dns::{Dns, Record};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn walk(server: SocketAddr) -> SourceConfig {
    let mut walk = SourceConfig::default();
    walk.name_server = Some(server);
    walk
}

fn collect(
    protocols: &[&'static dyn Protocol],
    lines: &[String],
    exclusions: &Exclusions,
) -> Targets {
    let mut collector = Collector::new(protocols).unwrap();
    lines.iter().for_each(|line| collector.add(line).unwrap());
    collector.finish(exclusions).unwrap()
}

/// Returns all targets and failures of a source, and how often it had none ready. The key is the
/// index with the protocol or the target, the value an address or the kind of the error.
fn all(source: &mut dyn ProbeSource) -> (BTreeMap<(u64, String), String>, u64) {
    let mut all = BTreeMap::new();
    let mut idle = 0;
    let started = Instant::now();
    loop {
        let called_at = Instant::now();
        let next = source.next();
        assert!(
            called_at.elapsed() < Duration::from_secs(2),
            "next() blocks"
        );
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "no end in sight"
        );
        let (index, destination, what) = match next {
            Next::Probe(probe) => {
                let name = probe.name.as_deref().unwrap_or("-");
                (
                    probe.index,
                    format!("{} {name}", probe.protocol.info().id),
                    probe.address.to_string(),
                )
            }
            Next::Failed {
                index,
                target,
                error,
            } => (
                index,
                target.to_string(),
                format!("{}: {error}", error.kind()),
            ),
            Next::Repeat { .. } => continue,
            Next::Pending => {
                idle += 1;
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Next::Done => return (all, idle),
        };
        assert!(all.insert((index, destination), what).is_none());
    }
}

fn without_index(all: BTreeMap<(u64, String), String>) -> Vec<(String, String)> {
    let mut all: Vec<_> = all
        .into_iter()
        .map(|((_, destination), what)| (destination, what))
        .collect();
    all.sort_unstable();
    all
}

/// Masters list servers by name and by address. Targets of the user are queried in any case.
#[test]
fn servers_of_masters_are_queried_once() {
    let dns = Dns::with(&[
        ("one.example.test", Record::Address(V4)),
        ("two.example.test", Record::Address(V4)),
    ]);
    let private = Arc::new(AddressPolicy::new(true));
    let mut collector = Collector::new(&[]).unwrap();
    for target in [
        "ugp://127.0.0.1:1",
        "ugp://127.0.0.1:2",
        "ugp://one.example.test:2",
        "a2s://127.0.0.1:5",
        "ugp://127.0.0.1:5",
        "a2s://127.0.0.0/30:6",
    ] {
        collector.add(target).unwrap();
    }
    for target in [
        "quake3://127.0.0.1:1",
        "quake3://one.example.test:1",
        "quake3://one.example.test:2",
        "quake3://127.0.0.1:5",
        "quake3://127.0.0.1:6",
        "quake3://127.0.0.1:7",
        "ugp://127.0.0.1:7",
        "ugp://one.example.test:7",
        "quake3://one.example.test:8",
        "ugp://one.example.test:8",
        "a2s://two.example.test:8",
        "ugp://127.0.0.1:8",
        "ugp://one.example.test:1",
        "ugp://one.example.test:2",
        "ugp://one.example.test:3",
        "ugp://two.example.test:3",
        "ugp://two.example.test:4",
    ] {
        collector.add_listed(target, &private).unwrap();
    }
    let targets = collector.finish(&Exclusions::default()).unwrap();
    let mut source = ListSource::new(targets, Default::default(), walk(dns.address()));
    let (found, _) = all(&mut source);
    let mut addresses: Vec<_> = found.into_values().collect();
    addresses.sort_unstable();
    // Each port once, and those that the user has named twice. Port 8 is listed by name and by
    // address.
    let ports = [1, 2, 2, 3, 4, 5, 5, 6, 6, 6, 6, 7, 8];
    let mut expected: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).into();
    for (ip, place) in [0, 2, 3].into_iter().zip([7, 9, 10]) {
        expected[place] = format!("127.0.0.{ip}:6");
    }
    expected.sort_unstable();
    assert_eq!(addresses, expected);
}

/// A name that a list has is not queried if it leads to this machine.
#[test]
fn names_of_lists_must_lead_to_public_addresses() {
    let dns = Dns::with(&[
        ("here.example.test", Record::Address(V4)),
        (
            "mapped.example.test",
            Record::Address("::ffff:10.0.0.1".parse().unwrap()),
        ),
        (
            "cloud.example.test",
            Record::Address([169, 254, 169, 254].into()),
        ),
        ("public.example.test", Record::Address([8, 8, 8, 8].into())),
    ]);
    let names = ["here", "mapped", "cloud", "public"];
    let strict = AddressPolicy::default();
    let near = strict.clone().near(&[V4]);
    let private = AddressPolicy::new(true);
    for (policy, allowed) in [
        (strict, &["8.8.8.8:1"][..]),
        (near, &["127.0.0.1:1", "8.8.8.8:1"]),
        (private, &["10.0.0.1:1", "127.0.0.1:1", "8.8.8.8:1"]),
    ] {
        let policy = Arc::new(policy);
        let mut collector = Collector::new(&[]).unwrap();
        for name in names {
            let target = format!("quake3://{name}.example.test:1");
            collector.add_listed(&target, &policy).unwrap();
        }
        let targets = collector.finish(&Exclusions::default()).unwrap();
        let mut source = ListSource::new(targets, Default::default(), walk(dns.address()));
        let (found, _) = all(&mut source);
        let (failed, mut addresses): (Vec<_>, Vec<_>) = found
            .into_values()
            .partition(|end| end.starts_with("excluded: "));
        addresses.sort_unstable();
        assert_eq!(addresses, allowed);
        assert_eq!(failed.len(), names.len() - allowed.len());
        let cloud = failed
            .iter()
            .find(|error| error.contains("169.254.169.254"));
        assert!(cloud.unwrap().contains("metadata"), "{failed:?}");
    }
}

#[test]
fn each_name_is_resolved_once_for_all_protocols() {
    let name_server = || {
        Dns::with(&[
            ("play.example.test", Record::Address(V4)),
            (
                "_minecraft._tcp.play.example.test",
                Record::Service {
                    host: "game.example.test",
                    port: 4242,
                },
            ),
            ("game.example.test", Record::Address([127, 0, 0, 2].into())),
            ("fails.example.test", Record::Failure),
            ("far.example.test", Record::Address([203, 0, 113, 7].into())),
            ("odd.example.test", Record::Address([224, 0, 0, 1].into())),
        ])
    };
    let lines = [
        "play.example.test",
        "ugp://gone.example.test",
        "ugp://fails.example.test",
        "ugp://far.example.test:1",
    ];
    let lines: Vec<String> = lines
        .iter()
        .chain(&["ugp://odd.example.test", "ugp://127.0.0.3"])
        .map(|l| l.to_string())
        .collect();
    let mut exclusions = Exclusions::default();
    exclusions.add("203.0.113.0/24").unwrap();
    let expected = [
        ("minecraft-query play.example.test", "127.0.0.2:4242"),
        ("onequery play.example.test", "127.0.0.1:5520"),
        ("ugp -", "127.0.0.3:22000"),
        ("ugp play.example.test", "127.0.0.1:22000"),
        (
            "ugp://fails.example.test",
            "lookup: fails.example.test: name lookup failed",
        ),
        (
            "ugp://far.example.test:1",
            "excluded: far.example.test: leads to 203.0.113.7, which an exclusion covers",
        ),
        (
            "ugp://gone.example.test",
            "name-not-found: gone.example.test: name not found",
        ),
        (
            "ugp://odd.example.test",
            "excluded: odd.example.test: leads to 224.0.0.1, where no server can be",
        ),
    ];
    let check = |given: BTreeMap<(u64, String), String>| {
        let given = without_index(given);
        assert_eq!(given.len(), expected.len(), "{given:?}");
        for ((destination, what), (expected_targets, expected_what)) in given.iter().zip(expected) {
            assert!(
                destination == expected_targets && what.starts_with(expected_what),
                "{destination}: {what}"
            );
        }
    };
    // On a busy machine, a reply may take longer than the time until the next try.
    let is_resolved_once = (0..20).any(|_| {
        let dns = name_server();
        let targets = collect(&[], &lines, &exclusions);
        let config = walk(dns.address());
        check(
            all(&mut ListSource::new(
                targets,
                exclusions.clone().into(),
                config,
            ))
            .0,
        );
        let queries = dns.queries();
        let lookups = queries.iter().filter(|name| *name == "1 play.example.test");
        lookups.count() == 1
    });
    assert!(is_resolved_once);

    let dns = name_server();
    let input = std::io::Cursor::new(lines.join("\n"));
    let walk = walk(dns.address());
    check(
        all(&mut StreamSource::new(
            "input",
            input,
            DefaultKinds::new(&[]).unwrap(),
            exclusions.into(),
            &walk,
            &Position::default(),
        )
        .unwrap())
        .0,
    );
}

/// Names whose name server does not reply delay neither addresses nor the caller, and stay
/// unfinished until the lookup fails.
#[test]
fn slow_lookups_delay_no_other_target() {
    let dns = Dns::with(&[("slow.example.test", Record::Silence)]);
    let lines = ["slow.example.test".to_string(), "127.0.0.0/26".to_string()];
    let ugp = registry::find("ugp").unwrap();
    let mut list = ListSource::new(
        collect(&[ugp], &lines, &Exclusions::default()),
        Exclusions::default().into(),
        walk(dns.address()),
    );
    let started = Instant::now();
    let mut given = 0;
    let mut later = 0;
    while given < 64 {
        match list.next() {
            Next::Probe(_) => given += 1,
            Next::Pending => later += 1,
            _ => panic!("too early"),
        }
    }
    assert!(started.elapsed() < Duration::from_secs(2) && later == 0);
    assert!(matches!(list.next(), Next::Pending));
    let position = list.position();
    assert_eq!(
        (position.next, position.unfinished.len()),
        (65, 1),
        "{position:?}"
    );

    // A resumed sweep probes only that name again.
    let mut again = ListSource::new(
        collect(&[ugp], &lines, &Exclusions::default()),
        Exclusions::default().into(),
        walk(dns.address()),
    );
    again.resume(&position);
    assert_eq!(again.position(), position);
    let (ends, idle) = all(&mut again);
    assert_eq!(ends.len(), 1);
    assert!(
        idle > 0 && ends.values().next().unwrap().starts_with("lookup: "),
        "{ends:?}"
    );
    let started = Instant::now();
    drop(list);
    assert!(started.elapsed() < Duration::from_secs(2));
}

/// More names than may be looked up or queued at the same time.
#[test]
fn resolves_thousands_of_names() {
    let dns = Dns::with(&[("play.example.test", Record::Address(V4))]);
    // These names are not in the zone, so each lookup gets a negative reply.
    let lines: Vec<String> = (0..3000)
        .map(|number| format!("ugp://host{number}.example.test"))
        .collect();
    let targets = collect(&[], &lines, &Exclusions::default());
    let (ends, _) = all(&mut ListSource::new(
        targets,
        Exclusions::default().into(),
        walk(dns.address()),
    ));
    assert_eq!(ends.len(), 3000);
    assert!(ends.values().all(|end| end.starts_with("name-not-found")));
}

#[test]
fn invalid_lines_are_reported_as_failures() {
    let walk = SourceConfig::default();
    let input = "ugp://host:0\n".as_bytes();
    let mut stream = StreamSource::new(
        "input",
        input,
        DefaultKinds::new(&[]).unwrap(),
        Exclusions::default().into(),
        &walk,
        &Position::default(),
    )
    .unwrap();
    let started = Instant::now();
    loop {
        match stream.next() {
            Next::Failed {
                index: 0,
                target,
                error: Error::Target(error),
            } => {
                assert_eq!(&*target, "ugp://host:0");
                assert!(error.to_string().contains("1 to 65535"), "{error}");
                break;
            }
            Next::Pending => assert!(started.elapsed() < Duration::from_secs(5)),
            _ => panic!("no question"),
        }
    }
}

/// Errors of a sweep, by target.
#[derive(Default)]
struct Errors(BTreeMap<String, String>);

impl Sink for Errors {
    fn record(&mut self, ended: ProbeResult) {
        let target = ended.name.as_deref().unwrap_or("-").to_owned();
        let error = ended.result.unwrap_err();
        assert_eq!(self.0.insert(target, error.to_string()), None);
    }

    fn report_progress(&mut self, _: &Progress<'_>) {}
}

/// In the words of a query, also of a probe that has come to another port of its game.
#[tokio::test]
async fn errors_name_the_srv_record() {
    let port = UdpSocket::bind((V4, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let host = "host.example.test";
    let dns = Dns::with(&[
        (
            "_minecraft._tcp.play.example.test",
            Record::Service { host, port },
        ),
        (
            "_names._udp.play.example.test",
            Record::Service { host, port },
        ),
        ("play.example.test", Record::Address(V4)),
        (host, Record::Address(V4)),
    ]);
    let game = Game {
        id: "sweep-names",
        name: "Sweep Names",
        query: QueryPort::FirstOf(&[QueryPort::Same, QueryPort::Fixed(9)]),
        srv: Some("_names._udp"),
        ..GAME
    };
    catalog::add_game(game).unwrap();
    let mut lines = Vec::from(
        ["minecraft-query", "minecraft-status", "sweep-names"]
            .map(|id| format!("{id}://play.example.test")),
    );
    lines.push(format!("minecraft-query://play.example.test:{port}"));
    let targets = collect(&[], &lines, &Exclusions::default());
    let walk = walk(dns.address());
    let mut source = ListSource::new(targets, Exclusions::default().into(), walk);
    let errors = tokio::task::spawn_blocking(move || {
        let mut errors = Errors::default();
        sweep::run(&SweepConfig::default(), &mut source, &mut errors).unwrap();
        errors.0
    });
    let errors = errors.await.unwrap();
    assert_eq!(errors.len(), lines.len(), "{errors:?}");
    let record = format!("; the SRV record of play.example.test leads to {host}:{port}");
    let mut config = ClientConfig::default();
    config.name_server = Some(dns.address());
    let client = Client::new(config);
    for line in &lines {
        let error = &errors[line];
        let is_named = error.contains(&record);
        assert_eq!(is_named, !line.ends_with(&port.to_string()), "{error}");
        if !line.starts_with("sweep-names") {
            let queried = client.query(line.as_str()).await.unwrap_err();
            assert_eq!(*error, queried.to_string());
        }
    }
}
