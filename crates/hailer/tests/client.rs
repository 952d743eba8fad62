//! The client and the responders over real sockets on loopback: addresses in 127.0.0.0/8 and ::1,
//! and names from a name server of these tests.

use futures_util::future::join;
use hailer::client::QueryLimits;
use hailer::client::{Answers, ClientConfig};
use hailer::proto::minecraft_status::message::Handshake;
use hailer::proto::wire::{Notes, Reader};
use hailer::proto::{
    Ask, ConnectionStep, Cookie, Destination, Direction, Fault, Input, Options, Roster,
};
use hailer::proto::{Depth, registry};
use hailer::respond::{Board, Budget, Service};
use hailer::support::random_secret;
use hailer::{Client, Error, Status};
use hailer_testkit::servers::dns::{Dns, Record};
use hailer_testkit::servers::{
    ANY, Server, Stream, apart, bind, closed, ids, kick, loopback, minecraft, names, protocol,
    status,
};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ALICE: &[&str] = &["Alice", "Bob"];

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A generous timeout for busy machines. Tests that wait for silence set a shorter one.
fn config() -> ClientConfig {
    time_limit(ms(5_000), 0)
}

fn time_limit(timeout: Duration, retries: u32) -> ClientConfig {
    let mut config = ClientConfig::default();
    let mut limits = QueryLimits::default();
    limits.timeout = timeout;
    limits.retries = retries;
    config.limits = limits;
    config
}

fn impatient() -> Client {
    Client::new(time_limit(ms(60), 1))
}

/// Returns a client that uses this name server.
fn named(dns: &Dns) -> Client {
    let mut config = config();
    config.name_server = Some(dns.address());
    Client::new(config)
}

fn url(id: &str, server: &Server) -> String {
    format!("{id}://{}", server.address)
}

/// Returns the answers of a server in all protocols.
async fn all_answers(address: SocketAddr) -> Answers {
    Client::new(config())
        .query_all(address.to_string().as_str())
        .await
        .unwrap()
}

fn protocols(answers: &Answers) -> Vec<&'static str> {
    let ids = answers.iter().map(|answer| answer.transcript.protocol.id);
    ids.collect()
}

// --- addresses ---

#[tokio::test]
async fn every_form_of_an_address_works() {
    let server = Server::of(&registry::responders(), &status("Forms", ALICE));
    let client = Client::new(config());
    let port = server.port();
    let forms = [
        (format!("127.0.0.1:{port}"), None),
        (format!("localhost:{port}"), None),
        (format!("LOCALHOST:{port}"), None),
        (
            format!("minecraft-query://127.0.0.1:{port}"),
            Some("minecraft-query"),
        ),
        (
            format!("minecraft-query://localhost:{port}/"),
            Some("minecraft-query"),
        ),
        (format!("ugp://127.0.0.1:{port}"), Some("ugp")),
        (format!("UGP://127.0.0.1:{port}"), Some("ugp")),
        (format!("onequery://127.0.0.1:{port}/"), Some("onequery")),
    ];
    for (form, protocol) in forms {
        let answer = client
            .query(form.as_str())
            .await
            .unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(answer.transcript.address.port(), port);
        assert_eq!(answer.status.title().as_deref(), Some("Forms"), "{form}");
        assert!(
            protocol.is_none_or(|id| answer.transcript.protocol.id == id),
            "{form}: {}",
            answer.transcript.protocol.id
        );
    }
    let target: hailer::Target = format!("ugp://127.0.0.1:{port}").parse().unwrap();
    assert_eq!(
        client.query(&target).await.unwrap().transcript.protocol.id,
        "ugp"
    );
    assert_eq!(
        client
            .query(target.with_protocol(protocol("onequery")))
            .await
            .unwrap()
            .transcript
            .protocol
            .id,
        "onequery"
    );
    assert!(matches!(
        client.query("gopher://host").await,
        Err(Error::Target(_))
    ));
    assert!(matches!(
        client.query_all("host:0").await,
        Err(Error::Target(_))
    ));
}

#[tokio::test]
async fn an_ipv6_server_is_found_by_every_form_of_its_address() {
    let Ok(socket) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        eprintln!("this machine has no IPv6");
        return;
    };
    let server = Server::at(socket, &registry::responders(), &status("Six", ALICE));
    let client = Client::new(config());
    for form in [
        format!("[::1]:{}", server.port()),
        format!("ugp://[::1]:{}", server.port()),
    ] {
        let answer = client.query(form.as_str()).await.unwrap();
        assert_eq!(
            (answer.transcript.address, answer.status.title().as_deref()),
            (server.address, Some("Six"))
        );
    }
}

// --- detecting the protocol ---

#[tokio::test]
async fn detection_finds_the_one_protocol_of_a_server() {
    let client = Client::new(config());
    let is_original =
        |protocol: &&dyn hailer::proto::Protocol| protocol.info().dialect_of.is_none();
    for protocol in registry::datagram_responders().filter(is_original) {
        let server = Server::of(&[protocol], &status("Alone", ALICE));
        let started = Instant::now();
        let answer = client
            .query_all(server.address.to_string().as_str())
            .await
            .unwrap()
            .into_best();
        assert_eq!(answer.transcript.protocol.id, protocol.info().id);
        let has_counts = protocol.sample(0).players.online.is_some();
        let expected = if has_counts { 2 } else { 0 };
        assert_eq!(answer.status.players.count(), expected);
        assert!(
            started.elapsed() < ms(3_000),
            "silent protocols must end after 1 s, before the timeout of 5 s"
        );
    }
}

#[tokio::test]
async fn detection_returns_all_answers_the_most_complete_first() {
    let two = [protocol("onequery"), protocol("minecraft-query")];
    let server = Server::of(&two, &status("Two", ALICE));
    for _ in 0..5 {
        let answers = all_answers(server.address).await;
        assert_eq!(protocols(&answers), ["minecraft-query", "onequery"]);
        assert_eq!(answers.best().transcript.protocol.id, "minecraft-query");
        assert_eq!(answers.others().len(), 1);
    }
    // The same server, with a player list in one protocol only.
    let options = Options(vec![(
        "public".into(),
        hailer::proto::Value::List(vec!["basic".into()]),
    )]);
    let board = Board::with_options(
        vec![
            (protocol("onequery"), options),
            (protocol("ugp"), Options::default()),
        ],
        hailer::proto::Keys::new(random_secret()),
        &status("Refusing", ALICE),
    )
    .unwrap();
    let server = Server::board(loopback(), board, Budget::default());
    let answers = all_answers(server.address).await;
    assert_eq!(protocols(&answers), ["ugp", "onequery"]);
}

/// The datagrams of a query and their timing must not decide which answer it returns.
#[tokio::test]
async fn detection_does_not_depend_on_timing() {
    for (lost, delay, wait) in [
        // The first request is repeated inside the window, later ones after a timeout.
        (&[1][..], 0, None),
        (&[2], 0, None),
        // The second reply arrives when the window is over.
        (&[], 60, None),
        (&[], 300, Some(ms(2_000))),
    ] {
        let board = Board::new(&[protocol("minecraft-query")], &status("Slow", ALICE)).unwrap();
        let mut service = Service::new(board, Budget::default());
        let mut requests = 0;
        let server = Server::run(apart(), move |socket, bytes, from| {
            let is_query = bytes.starts_with(&[0xFE, 0xFD]);
            requests += usize::from(is_query);
            if is_query
                && !lost.contains(&requests)
                && let Some(reply) = service.answer(from, bytes).next()
            {
                std::thread::sleep(ms(delay));
                let _ = socket.send_to(reply, from);
            }
        });
        let _stream = Stream::answering(server.address, kick("Slow\u{A7}2\u{A7}20"));
        let mut config = ClientConfig::default();
        config.wait = wait;
        let answers = Client::new(config)
            .query_all(server.address.to_string().as_str())
            .await
            .unwrap();
        assert_eq!(
            protocols(&answers),
            ["minecraft-query", "minecraft-status"],
            "lost {lost:?}, delay {delay} ms"
        );
    }
}

#[tokio::test]
async fn all_protocols_share_a_port() {
    let protocols: Vec<_> = ids().into_iter().map(protocol).collect();
    let server = Server::of(&protocols, &status("Shared", ALICE));
    let client = Client::new(config());
    let answers = all_answers(server.address).await;
    assert_eq!(answers.len(), ids().len());
    for id in ids() {
        let answer = client.query(url(id, &server).as_str()).await.unwrap();
        assert_eq!(answer.transcript.protocol.id, id);
        assert_eq!(
            (answer.status.title().as_deref(), names(&answer.status)),
            (Some("Shared"), vec!["Alice".into(), "Bob".into()])
        );
        assert_eq!(
            (answer.status.players.online, answer.status.players.max),
            (Some(2), Some(20))
        );
        assert_eq!(answer.status.players.roster, Roster::Whole);
        assert!(
            answer.status.deviations.is_empty(),
            "{id}: {:?}",
            answer.status.deviations
        );
        assert!(answer.latency > Duration::ZERO && answer.latency < ms(2_000));
        assert!(
            answer.transcript.sent == answer.transcript.received && answer.transcript.sent >= 1
        );
    }
}

#[tokio::test]
async fn ping_sends_one_datagram_and_measures_the_latency() {
    let server = Server::of(&registry::responders(), &status("Ping", ALICE));
    let client = Client::new(config());
    for id in ids() {
        let answer = client.ping(url(id, &server).as_str()).await.unwrap();
        assert_eq!(
            (
                answer.transcript.protocol.id,
                answer.transcript.sent,
                answer.transcript.received
            ),
            (id, 1, 1)
        );
        assert_eq!(*answer.status, Status::default());
    }
    assert!(
        client
            .ping(server.address.to_string().as_str())
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn players_are_requested_only_if_configured() {
    let server = Server::of(&registry::responders(), &status("Less", ALICE));
    let mut config = config();
    config.ask.has_players = false;
    for depth in [Depth::Basic, Depth::Full] {
        config.ask.depth = depth;
        for id in ids() {
            let answer = Client::new(config.clone())
                .query(url(id, &server).as_str())
                .await
                .unwrap();
            assert_eq!(answer.status.title().as_deref(), Some("Less"));
            assert_eq!(answer.status.players.online, Some(2));
            assert!(answer.status.players.list.is_empty(), "{id} {depth:?}");
            assert_eq!(
                answer.status.players.roster,
                Roster::Absent,
                "{id} {depth:?}"
            );
        }
    }
}

#[tokio::test]
async fn one_client_runs_many_queries_concurrently() {
    let servers: Vec<Server> = (0..10)
        .map(|i| Server::of(&registry::responders(), &status(&format!("S{i}"), ALICE)))
        .collect();
    let client = Client::new(config());
    let asks = servers
        .iter()
        .cycle()
        .take(60)
        .map(|server| client.query(url("onequery", server).parse::<hailer::Target>().unwrap()));
    let answers = futures_util::future::join_all(asks).await;
    for (i, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().status.title(), Some(format!("S{}", i % 10)));
    }
}

#[tokio::test]
async fn query_many_returns_each_result_with_its_target() {
    let servers: Vec<Server> = (0..10)
        .map(|i| Server::of(&registry::responders(), &status(&format!("S{i}"), ALICE)))
        .collect();
    // Hundreds of targets at one address with mixed protocols, among them servers that never reply
    // or send a flood.
    let silent = Server::silent();
    let shut = closed();
    let flood = Server::script(|_| vec![vec![7; 1_000]; 100]);
    let mut config = time_limit(ms(5_000), 0);
    config.limits.deadline = ms(5_000);
    let client = Client::new(config);
    let mut targets: Vec<String> = (0..600)
        .map(|i| url(ids()[i % 3], &servers[i % 10]))
        .collect();
    targets.insert(0, url("ugp", &silent));
    targets.insert(1, url("ugp", &flood));
    targets.insert(2, format!("onequery://{shut}"));
    targets.insert(3, "gopher://host".into());
    let started = Instant::now();
    let mut ends = client.query_many(targets.iter().map(String::as_str), 100);
    let mut answered = 0;
    let mut failed = Vec::new();
    while let Some((target, end)) = ends.next().await {
        match end {
            Ok(answers) => {
                let server = servers
                    .iter()
                    .position(|server| target.ends_with(&server.address.to_string()))
                    .unwrap();
                assert_eq!(answers[0].status.title(), Some(format!("S{server}")));
                assert!(
                    target.starts_with(answers[0].transcript.protocol.id),
                    "{target}"
                );
                answered += 1;
            }
            Err(error) => failed.push((error.kind().as_str(), started.elapsed())),
        }
    }
    assert_eq!(answered, 600);
    let kinds: Vec<_> = failed.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(kinds[0], "target", "{failed:?}");
    assert_eq!(kinds[3], "silence", "{failed:?}");
    assert!(kinds.contains(&"port-closed"), "{failed:?}");
    assert!(
        failed[..2].iter().all(|(_, at)| *at < ms(4_000)),
        "the silent server must not delay others: {failed:?}"
    );
}

#[tokio::test]
async fn query_many_respects_its_concurrency_and_stops_when_dropped() {
    let packets = Arc::new(AtomicU32::new(0));
    let count = packets.clone();
    let server = Server::script(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    });
    let client = Client::new(time_limit(ms(50), 0));
    let target: hailer::Target = url("ugp", &server).parse().unwrap();
    let mut ends = client.query_many(vec![target; 30], 3);
    assert!(ends.next().await.unwrap().1.is_err());
    assert!(packets.load(Ordering::Relaxed) <= 6);
    drop(ends);
    tokio::time::sleep(ms(100)).await;
    assert!(packets.load(Ordering::Relaxed) <= 6);
    assert!(
        client
            .query_many(Vec::<hailer::Target>::new(), 0)
            .next()
            .await
            .is_none()
    );
}

#[test]
fn one_client_works_in_several_runtimes() {
    let server = Server::of(&registry::responders(), &status("Again", ALICE));
    let client = Client::new(config());
    let target: hailer::Target = url("ugp", &server).parse().unwrap();
    let builder = || tokio::runtime::Builder::new_current_thread();
    let kept = builder().enable_all().build().unwrap();
    for _ in 0..3 {
        let passing = builder().enable_all().build().unwrap();
        for runtime in [&kept, &passing] {
            assert_eq!(
                runtime
                    .block_on(client.query(&target))
                    .unwrap()
                    .status
                    .title()
                    .as_deref(),
                Some("Again")
            );
        }
    }
    let several = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let client = Arc::new(client);
    let asks: Vec<_> = (0..40)
        .map(|_| {
            let client = client.clone();
            let target = target.clone();
            several.spawn(async move {
                client
                    .query(&target)
                    .await
                    .map(|answer| answer.status.title())
            })
        })
        .collect();
    for ask in asks {
        assert_eq!(
            several.block_on(ask).unwrap().unwrap().as_deref(),
            Some("Again")
        );
    }
}

// --- failures ---

#[tokio::test]
async fn closed_ports_are_reported_immediately() {
    let started = Instant::now();
    let address = closed();
    for form in [address.to_string(), format!("ugp://{address}")] {
        let error = Client::new(config())
            .query(form.as_str())
            .await
            .unwrap_err();
        match error.most_informative() {
            Error::PortClosed { transcript } => {
                assert_eq!((transcript.address, transcript.sent), (address, 1));
            }
            other => panic!("{form}: {other:?}"),
        }
    }
    assert!(
        started.elapsed() < ms(2_000),
        "the timeout of 5 s is not waited for"
    );
}

#[tokio::test]
async fn silence_is_reported_with_counts_after_all_timeouts() {
    let server = Server::silent();
    let client = Client::new(time_limit(ms(60), 2));
    for target in ids()
        .iter()
        .map(|id| url(id, &server))
        .chain([server.address.to_string()])
    {
        // Without a protocol, the second wave takes a part of the 12 datagrams.
        let sent = if target.contains("://") { 3 } else { 2 };
        let started = Instant::now();
        let error = client.query(target.as_str()).await.unwrap_err();
        match error.most_informative() {
            Error::Silence { transcript, after } => {
                assert_eq!(
                    (transcript.address, transcript.sent, transcript.received),
                    (server.address, sent, 0)
                );
                assert!(
                    *after >= ms(180) && *after < ms(2_000),
                    "{target}: {after:?}"
                );
                assert!(started.elapsed() >= *after);
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn lost_requests_are_repeated() {
    for id in ids() {
        let board = Board::new(&[protocol(id)], &status("Lossy", ALICE)).unwrap();
        let mut service = Service::new(board, Budget::default());
        let mut packets = 0;
        let server = Server::run(loopback(), move |socket, bytes, from| {
            packets += 1;
            // Every second request is lost, so each stage loses one.
            if packets % 2 == 0
                && let Some(reply) = service.answer(from, bytes).next()
            {
                let _ = socket.send_to(reply, from);
            }
        });
        let answer = Client::new(time_limit(ms(100), 3))
            .query(url(id, &server).as_str())
            .await
            .unwrap();
        assert_eq!(names(&answer.status), ALICE);
        // OneQuery gets no reply to a request of version 1.
        let unanswered = if id == "onequery" { 2 } else { 0 };
        let expected = answer.transcript.received * 2 + unanswered;
        assert_eq!(answer.transcript.sent, expected, "{id}");
    }
}

#[tokio::test]
async fn unreadable_replies_are_reported_with_field_offset_and_bytes() {
    // The basic stat ends inside its first text.
    let server = Server::script(|request| vec![minecraft(request, b"Hello")]);
    let mut config = time_limit(ms(100), 1);
    config.ask.depth = Depth::Basic;
    match Client::new(config)
        .query(url("minecraft-query", &server).as_str())
        .await
    {
        Err(error @ Error::Malformed { .. }) => {
            let text = error.to_string();
            let Error::Malformed {
                transcript,
                fault,
                datagram,
            } = error
            else {
                panic!("{error:?}");
            };
            let Fault::Malformed(fault) = *fault else {
                panic!("{fault:?}");
            };
            assert_eq!(
                (transcript.address, transcript.protocol.id),
                (server.address, "minecraft-query")
            );
            assert!(fault.at >= 5 && fault.at <= datagram.len(), "{fault:?}");
            assert!(
                !fault.field.is_empty()
                    && text.contains(fault.field)
                    && text.contains(&fault.at.to_string()),
                "{text}"
            );
            assert!(datagram.ends_with(b"Hello") && datagram.len() == 10);
        }
        other => panic!("{other:?}"),
    }

    let cut = b"\xFF\xFFUGP\0\x01\x81\x07\xFF\xFF";
    let server = Server::script(move |_| vec![cut.to_vec()]);
    match impatient().query(url("ugp", &server).as_str()).await {
        Err(Error::Malformed {
            datagram,
            transcript,
            ..
        }) => {
            assert_eq!((&datagram[..], transcript.protocol.id), (&cut[..], "ugp"));
        }
        other => panic!("{other:?}"),
    }

    let short = b"ONEREPLY\x01\0";
    let server = Server::script(move |_| vec![short.to_vec()]);
    match impatient().query(url("onequery", &server).as_str()).await {
        Err(Error::Malformed {
            datagram,
            transcript,
            ..
        }) => {
            assert_eq!(
                (&datagram[..], transcript.protocol.id),
                (&short[..], "onequery")
            );
        }
        // An answer in place of a challenge may also count as an unrelated datagram.
        Err(Error::Silence { transcript, .. }) => assert!(transcript.received > 0),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn failures_of_all_protocols_are_reported_the_most_informative_first() {
    // Unreadable as Minecraft Query, silent as UGP and OneQuery, closed on TCP.
    let server = Server::script(|request| match request {
        [0xFE, 0xFD, _, _, _, _, _, ..] => vec![minecraft(request, b"Hello")],
        _ => Vec::new(),
    });
    let error = impatient()
        .query_all(server.address.to_string().as_str())
        .await
        .unwrap_err();
    let Error::NoProtocol { failures } = &error else {
        panic!("{error:?}");
    };
    let kinds: Vec<_> = failures
        .iter()
        .map(|failure| (failure.protocol.id, failure.error.kind().as_str()))
        .collect();
    let own = registry::PROTOCOLS.iter();
    let own = own.filter(|protocol| protocol.info().service.is_none());
    assert_eq!(kinds.len(), own.count(), "no remote service is queried");
    assert_eq!(kinds[0], ("minecraft-query", "malformed"));
    for expected in [
        ("ugp", "silence"),
        ("onequery", "silence"),
        ("a2s", "silence"),
        ("minecraft-status", "port-closed"),
    ] {
        assert!(kinds.contains(&expected), "{kinds:?}");
    }
    let rank = |kind: &str| {
        ["malformed", "silence", "port-closed"]
            .iter()
            .position(|k| *k == kind)
    };
    assert!(kinds.is_sorted_by_key(|(_, kind)| rank(kind)), "{kinds:?}");
    assert_eq!(error.kind(), "malformed");
    assert_eq!(error.transcript().unwrap().protocol.id, "minecraft-query");
    let reports = error.protocol_reports();
    assert_eq!(
        reports.len(),
        6,
        "equal results must be reported once: {reports:?}"
    );
    let is_silence = |report: &&String| report.starts_with("UGP, OneQuery V2, A2S, ");
    assert_eq!(reports.iter().filter(is_silence).count(), 1, "{reports:?}");
    // Short enough to be printed when `main` returns the error.
    assert!(format!("{error:?}").len() < 2_000, "{error:?}");
}

/// An open TCP port of another service is more informative than closed UDP ports.
#[tokio::test]
async fn unrelated_tcp_service_is_reported_first() {
    let stream = Stream::silent(closed());
    let error = impatient()
        .query(stream.address.to_string().as_str())
        .await
        .unwrap_err();
    let reports = error.protocol_reports();
    assert!(
        reports[0].contains("connected, but no answer"),
        "{reports:?}"
    );
    assert!(
        reports[1].contains("nothing listens on this UDP port"),
        "{reports:?}"
    );
}

#[tokio::test]
async fn garbage_is_no_answer() {
    let server = Server::script(|request| {
        vec![
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            request.to_vec(),
            Vec::new(),
        ]
    });
    for id in hailer_testkit::servers::datagram_ids() {
        match impatient().query(url(id, &server).as_str()).await {
            // Games with several protocols have the main one first.
            Err(error @ (Error::Silence { .. } | Error::NoProtocol { .. })) => {
                let text = error.to_string();
                // Some protocols have two first requests.
                let transcript = error.transcript().unwrap();
                assert!([2, 4].contains(&transcript.sent), "{id}: {error:?}");
                assert_eq!(transcript.received, 3 * transcript.sent, "{id}: {error:?}");
                assert!(text.contains("no complete answer"), "{text}");
            }
            Err(Error::Malformed { .. }) => {}
            other => panic!("{id}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn refusals_are_reported_and_auth_tokens_accepted() {
    let tokens = hailer::proto::Value::Table(vec![(
        "s3cret".into(),
        hailer::proto::Value::List(vec!["basic".into(), "players".into()]),
    )]);
    let nothing = hailer::proto::Value::List(Vec::new());
    let only_basic = hailer::proto::Value::List(vec!["basic".into()]);
    let serve = |public: hailer::proto::Value| {
        let options = Options(vec![
            ("public".into(), public),
            ("tokens".into(), tokens.clone()),
        ]);
        let onequery = vec![(protocol("onequery"), options)];
        let board = Board::with_options(
            onequery,
            hailer::proto::Keys::new(random_secret()),
            &status("Private", ALICE),
        )
        .unwrap();
        Server::board(loopback(), board, Budget::default())
    };
    let with = |token: Option<&str>| {
        let mut config = config();
        config.ask.auth_token = token.map(Into::into);
        Client::new(config)
    };

    let server = serve(nothing);
    let target = url("onequery", &server);
    for token in [None, Some("wrong")] {
        match with(token).query(target.as_str()).await {
            Err(Error::Refused {
                transcript,
                reason,
                endpoints,
            }) => {
                assert_eq!(endpoints, ["basic", "players"]);
                assert_eq!(transcript.address, server.address);
                assert!(reason.contains("auth token"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    // In a detection, a refusal is more informative than silence.
    let error = impatient()
        .query_all(server.address.to_string().as_str())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "refused");
    let answer = with(Some("s3cret")).query(target.as_str()).await.unwrap();
    assert_eq!(names(&answer.status), ALICE);

    let server = serve(only_basic);
    let answer = with(None)
        .query(url("onequery", &server).as_str())
        .await
        .unwrap();
    assert_eq!(answer.status.title().as_deref(), Some("Private"));
    assert_eq!(
        (
            answer.status.players.roster,
            answer.status.players.list.len()
        ),
        (Roster::Refused, 0)
    );
    let answer = with(Some("s3cret"))
        .query(url("onequery", &server).as_str())
        .await
        .unwrap();
    assert_eq!(answer.status.players.roster, Roster::Whole);
}

#[tokio::test]
async fn floods_end_the_query() {
    let server = Server::script(|_| vec![b"stray".to_vec(); 40]);
    let mut config = config();
    config.limits.max_datagrams = 25;
    match Client::new(config.clone())
        .query(url("ugp", &server).as_str())
        .await
    {
        Err(Error::Flood {
            transcript,
            bytes: 130,
        }) => {
            assert_eq!(
                (transcript.address, transcript.received),
                (server.address, 26)
            );
        }
        other => panic!("{other:?}"),
    }
    config.limits.max_datagrams = 1_000;
    config.limits.max_bytes = 99;
    match Client::new(config)
        .query(url("ugp", &server).as_str())
        .await
    {
        Err(Error::Flood {
            transcript,
            bytes: 100,
        }) => assert_eq!(transcript.received, 20),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_flood_of_strays_does_not_hold_up_the_timeouts() {
    let mut is_flooding = false;
    let server = Server::run(loopback(), move |socket, _, from| {
        let socket = socket.try_clone().unwrap();
        if !std::mem::replace(&mut is_flooding, true) {
            let end = Instant::now() + ms(3_000);
            std::thread::spawn(move || {
                while Instant::now() < end && socket.send_to(b"stray", from).is_ok() {}
            });
        }
    });
    let mut config = time_limit(ms(100), 2);
    config.limits.max_datagrams = u32::MAX;
    config.limits.max_bytes = usize::MAX;
    match Client::new(config)
        .query(url("luanti", &server).as_str())
        .await
    {
        Err(Error::Silence { transcript, after }) => {
            assert_eq!(transcript.sent, 3);
            assert!(
                transcript.received > 1_000 && after < ms(1_000),
                "{after:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn queries_end_at_their_deadline() {
    // The challenge is answered each time, the query never is.
    let server = Server::script(|request| match request.get(8) {
        Some(0) => vec![[b"ONEREPLY\0".as_slice(), &[7; 32], &[0; 7]].concat()],
        _ => Vec::new(),
    });
    let mut config = time_limit(ms(40), 100);
    config.limits.deadline = ms(400);
    match Client::new(config)
        .query(url("onequery", &server).as_str())
        .await
    {
        Err(Error::Silence { transcript, after }) => {
            assert!(
                transcript.received >= 1 && after >= ms(400) && after < ms(2_500),
                "{after:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn strict_mode_rejects_deviations() {
    // A full stat in reply to a basic request.
    let full = b"splitnum\0\x80\0hostname\0Odd\0gametype\0SMP\0game_id\0MINECRAFT\0version\x001\0plugins\0\0map\0m\0\
                 numplayers\x000\0maxplayers\x005\0hostport\x001\0hostip\0h\0\0\x01player_\0\0\0";
    let server = Server::script(move |request| vec![minecraft(request, full)]);
    let mut config = config();
    config.ask.depth = Depth::Basic;
    let answer = Client::new(config.clone())
        .query(url("minecraft-query", &server).as_str())
        .await
        .unwrap();
    let met: Vec<_> = answer
        .status
        .deviations
        .iter()
        .map(|deviation| deviation.name)
        .collect();
    assert_eq!(met, ["full-for-basic"]);
    config.is_strict = true;
    match Client::new(config)
        .query(url("minecraft-query", &server).as_str())
        .await
    {
        Err(Error::Deviates { transcript, names }) => {
            assert_eq!(
                (transcript.address, transcript.protocol.id, names),
                (server.address, "minecraft-query", met)
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn replies_from_other_addresses_are_ignored() {
    for id in ids() {
        let board = Board::new(&[protocol(id)], &status("Elsewhere", ALICE)).unwrap();
        let mut service = Service::new(board, Budget::default());
        let socket = loopback();
        // Another address with the same port, and the same address with another port.
        let elsewhere = [
            bind([127, 0, 0, 2], socket.local_addr().unwrap().port()),
            loopback(),
        ];
        let server = Server::run(socket, move |_, bytes, from| {
            if let Some(reply) = service.answer(from, bytes).next() {
                for other in &elsewhere {
                    let _ = other.send_to(reply, from);
                }
            }
        });
        match impatient().query(url(id, &server).as_str()).await {
            Err(Error::Silence { transcript, .. }) => {
                assert_eq!((transcript.sent, transcript.received), (2, 0));
            }
            other => panic!("{id}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn datagrams_are_stored_if_configured() {
    let server = Server::of(&registry::responders(), &status("Kept", ALICE));
    let mut config = config();
    for id in ids() {
        config.has_datagrams = true;
        let answer = Client::new(config.clone())
            .query(url(id, &server).as_str())
            .await
            .unwrap();
        let count = |direction| {
            answer
                .transcript
                .datagrams
                .iter()
                .filter(|datagram| datagram.direction == direction)
                .count() as u32
        };
        assert_eq!(
            (count(Direction::Request), count(Direction::Reply)),
            (answer.transcript.sent, answer.transcript.received)
        );
        assert_eq!(answer.transcript.datagrams[0].direction, Direction::Request);
        assert!(
            answer
                .transcript
                .datagrams
                .is_sorted_by_key(|datagram| datagram.at)
        );
        for datagram in &answer.transcript.datagrams {
            let mut notes = hailer::proto::wire::Notes::explaining();
            let explained = protocol(id)
                .explain(&datagram.bytes, datagram.direction.into(), &mut notes)
                .unwrap();
            assert_eq!(
                (explained.direction, explained.error),
                (datagram.direction, None)
            );
        }
        config.has_datagrams = false;
        let answer = Client::new(config.clone())
            .query(url(id, &server).as_str())
            .await
            .unwrap();
        assert!(answer.transcript.datagrams.is_empty());
    }
}

// --- streams ---

const LISTING: &str = "A \u{A7}quiet\u{A7}5\u{A7}20";

fn list_ping(server: &Stream) -> String {
    format!("minecraft-status://{}", server.address)
}

#[tokio::test]
async fn stream_replies_arrive_whole_or_in_pieces() {
    for pieces in [512, 7, 1] {
        let (sender, packets) = std::sync::mpsc::channel();
        let server = Stream::run(ANY, move |mut stream| {
            let mut requests = vec![0];
            stream.read_exact(&mut requests).unwrap();
            for piece in kick(LISTING).chunks(pieces) {
                stream.write_all(piece).unwrap();
                std::thread::sleep(ms(2));
            }
            // All bytes that the client ever sends.
            let _ = stream.read_to_end(&mut requests);
            sender.send(requests).unwrap();
        });
        let mut config = config();
        config.has_datagrams = true;
        let answer = Client::new(config)
            .query(list_ping(&server).as_str())
            .await
            .unwrap();
        assert_eq!(
            answer.status.motd.as_ref().map(hailer::proto::Text::raw),
            Some("A \u{A7}quiet")
        );
        assert_eq!(
            (answer.status.players.online, answer.status.players.max),
            (Some(5), Some(20))
        );
        assert_eq!(answer.status.deviations.len(), 2);
        assert_eq!(
            (
                answer.transcript.address,
                answer.transcript.sent,
                answer.transcript.received
            ),
            (server.address, 1, 1)
        );
        let mut request = Vec::new();
        let ask = Ask {
            to: Destination {
                host: server.address.ip().to_string().into(),
                port: server.address.port(),
                ..Destination::default()
            },
            ..Ask::default()
        };
        protocol("minecraft-status")
            .exchange(&ask, Cookie(0))
            .handle(Input::Start, &mut request);
        let kept: Vec<_> = answer
            .transcript
            .datagrams
            .iter()
            .map(|kept| (kept.direction, kept.bytes.clone()))
            .collect();
        assert_eq!(
            kept,
            [
                (Direction::Request, request.clone()),
                (Direction::Reply, kick(LISTING))
            ]
        );
        assert!(answer.transcript.datagrams.is_sorted_by_key(|kept| kept.at));
        assert!(
            answer.latency > Duration::ZERO && answer.latency <= answer.transcript.datagrams[1].at
        );
        assert_eq!(packets.recv_timeout(ms(5_000)), Ok(request));
    }
}

#[tokio::test]
async fn streams_answer_pings_and_basic_queries() {
    let server = Stream::answering(ANY, kick("Hi\u{A7}0\u{A7}5"));
    let answer = Client::new(config())
        .ping(list_ping(&server).as_str())
        .await
        .unwrap();
    let mut status = *answer.status;
    assert_eq!(status.deviations.len(), 1);
    status.deviations.clear();
    assert_eq!(
        (status, answer.transcript.sent, answer.transcript.received),
        (Status::default(), 1, 1)
    );
    for depth in [Depth::Basic, Depth::Full] {
        let mut config = config();
        config.ask.depth = depth;
        let answer = Client::new(config)
            .query(list_ping(&server).as_str())
            .await
            .unwrap();
        assert_eq!(
            (
                answer.status.title().as_deref(),
                answer.status.players.roster
            ),
            (Some("Hi"), Roster::Absent)
        );
    }
}

#[tokio::test]
async fn our_responder_works_over_a_stream() {
    let keys = hailer::proto::Keys::new(random_secret());
    let own = protocol("minecraft-status")
        .responder(&status("Own", ALICE), &keys, &Options::default())
        .unwrap();
    let server = Stream::run(ANY, move |mut stream| {
        let mut connection = own.connection(stream.peer_addr().unwrap()).unwrap();
        let mut step = ConnectionStep::Wait;
        while step == ConnectionStep::Wait {
            let mut request = [0; 64];
            let mut reply = Vec::new();
            let length = stream.read(&mut request).unwrap();
            let received =
                connection.receive(hailer::proto::Epoch(1), &request[..length], &mut reply);
            assert_eq!(received.consumed, length, "each write is a whole request");
            stream.write_all(&reply).unwrap();
            step = received.step;
        }
        assert_eq!(step, ConnectionStep::Close);
    });
    let answer = Client::new(config())
        .query(list_ping(&server).as_str())
        .await
        .unwrap();
    assert_eq!(
        (
            answer.status.title().as_deref(),
            answer.status.players.online
        ),
        (Some("Own"), Some(2))
    );
    assert!(answer.status.deviations.is_empty());
}

#[tokio::test]
async fn incomplete_streams_are_reported_with_field_and_offset() {
    let whole = kick(LISTING);
    for (length, problem) in [
        (1, "packet length at offset 0: ends 1 byte too early"),
        (9, "text at offset 3: ends 20 bytes too early"),
    ] {
        let server = Stream::answering(ANY, &whole[..length]);
        match Client::new(config())
            .query(list_ping(&server).as_str())
            .await
        {
            Err(Error::Malformed {
                transcript,
                fault,
                datagram,
            }) => {
                assert_eq!(
                    (fault.to_string().as_str(), &datagram[..]),
                    (problem, &whole[..length])
                );
                assert_eq!((transcript.sent, transcript.received), (1, 1));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn streams_closed_without_a_reply_are_refusals() {
    let closing = Stream::answering(ANY, []);
    // Closing a connection with unread bytes resets it.
    let resetting = Stream::run(ANY, |stream| {
        stream.peek(&mut [0]).unwrap();
    });
    for server in [closing, resetting] {
        match Client::new(config())
            .query(list_ping(&server).as_str())
            .await
        {
            Err(error @ Error::Refused { .. }) => {
                let transcript = error.transcript().unwrap();
                // Every form gets a separate connection.
                assert_eq!(
                    (transcript.address, transcript.sent, transcript.received),
                    (server.address, 5, 0)
                );
                assert!(
                    error
                        .to_string()
                        .contains("it closes connections without a reply; "),
                    "{error}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_slow_status_is_waited_for() {
    let server = Stream::run(ANY, |mut stream| {
        let _ = stream.read(&mut [0; 64]);
        std::thread::sleep(ms(250));
        let _ = stream.write_all(&kick(LISTING));
    });
    let answer = Client::new(time_limit(ms(100), 3))
        .query(list_ping(&server).as_str())
        .await
        .unwrap();
    assert_eq!(
        (answer.status.players.online, answer.transcript.sent),
        (Some(5), 1)
    );
}

#[tokio::test]
async fn silent_streams_time_out() {
    let client = Client::new(time_limit(ms(50), 3));
    let server = Stream::silent(ANY);
    match client.query(list_ping(&server).as_str()).await {
        Err(error @ Error::Silence { .. }) => {
            assert_eq!(
                error
                    .transcript()
                    .map(|transcript| (transcript.sent, transcript.received)),
                Some((3, 0)),
                "two other forms are tried"
            );
            let Error::Silence { after, .. } = &error else {
                unreachable!()
            };
            assert!(*after >= ms(150) && *after < ms(2_000), "{after:?}");
            assert!(
                error.to_string().contains("connected, but no answer"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }

    // Single bytes do not extend the timeout. It is long enough for the first one on a busy machine.
    let client = Client::new(time_limit(ms(200), 3));
    let server = Stream::run(ANY, |mut stream| {
        let drip = |byte| {
            std::thread::sleep(ms(20));
            stream.write_all(&[byte]).is_err()
        };
        let _ = [0xFF, 0x01, 0x00]
            .into_iter()
            .chain(std::iter::repeat_n(0, 500))
            .any(drip);
    });
    let started = Instant::now();
    match client.query(list_ping(&server).as_str()).await {
        Err(Error::Malformed { fault, .. }) => {
            assert!(fault.to_string().contains("too early"), "{fault}");
        }
        other => panic!("{other:?}"),
    }
    assert!(
        started.elapsed() >= ms(150) && started.elapsed() < ms(2_000),
        "{:?}",
        started.elapsed()
    );
}

/// Such a server waits for the rest of what it takes for another packet.
#[tokio::test]
async fn a_server_of_1_6_that_is_silent_is_read() {
    let server = Stream::run(ANY, |mut stream| {
        let mut request = [0; 64];
        let length = stream.read(&mut request).unwrap_or(0);
        if request[..length].starts_with(&[0xFE, 0x01, 0xFA]) {
            let _ = stream.write_all(&kick(LISTING));
        }
        let _ = stream.read(&mut request);
    });
    let answer = Client::new(time_limit(ms(100), 3))
        .query(format!("minecraft-status://{}", server.address).as_str())
        .await
        .unwrap();
    assert_eq!(answer.status.players.online, Some(5));
}

/// A kick shows what the server is: detection then opens more connections than to unknown hosts.
#[tokio::test]
async fn detection_tries_every_form_with_a_server_that_kicks() {
    for (kicks, connections) in [(true, 4), (false, 2)] {
        let opened = Arc::new(AtomicU32::new(0));
        let count = opened.clone();
        let server = Stream::run(closed(), move |mut stream| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut request = [0; 64];
            let length = stream.read(&mut request).unwrap_or(0);
            if request[..length] == [0xFE] {
                let _ = stream.write_all(&kick(LISTING));
            } else if kicks {
                let _ = stream.write_all(&kick("Protocol error"));
            }
        });
        let result = Client::new(config())
            .query(server.address.to_string().as_str())
            .await;
        assert_eq!(result.is_ok(), kicks, "{result:?}");
        assert_eq!(opened.load(Ordering::Relaxed), connections);
    }
}

/// The second connection, the last one of a host without a protocol, is for servers of 1.4 and 1.6.
#[tokio::test]
async fn detection_finds_old_servers_that_do_not_kick() {
    for length in [2, 3] {
        let opened = Arc::new(AtomicU32::new(0));
        let count = opened.clone();
        // Near these ports, another protocol opens the second connection.
        let mut addresses = std::iter::repeat_with(closed);
        let is_free = |address: &SocketAddr| {
            let near = [42_420, 47_200, 47_700, 48_879].map(|port| port..port + 100);
            !near.iter().any(|near| near.contains(&address.port()))
        };
        let address = addresses.find(is_free).unwrap();
        let server = Stream::run(address, move |mut stream| {
            count.fetch_add(1, Ordering::Relaxed);
            let mut request = vec![0; length];
            let is_whole = stream.read_exact(&mut request).is_ok();
            if is_whole && [0xFE, 0x01, 0xFA].starts_with(&request) {
                let _ = stream.write_all(&kick(LISTING));
            }
        });
        let answer = Client::new(time_limit(ms(300), 3))
            .query(server.address.to_string().as_str())
            .await
            .unwrap();
        assert!(answer.status.motd.is_some());
        assert_eq!(opened.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test]
async fn connection_attempts_time_out() {
    let listener = tokio::net::TcpSocket::new_v4().unwrap();
    listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // These connections are never accepted, so that the next one waits in the queue.
    let mut waiting = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, ms(100)) {
        waiting.push(stream);
    }
    let started = Instant::now();
    match Client::new(time_limit(ms(60), 2))
        .query(format!("minecraft-status://{address}").as_str())
        .await
    {
        Err(error @ Error::Silence { .. }) => {
            assert_eq!(
                error
                    .transcript()
                    .map(|transcript| (transcript.sent, transcript.received)),
                Some((0, 0))
            );
            assert!(
                error.to_string().contains("no connection in 0.2 s"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(
        started.elapsed() >= ms(180) && started.elapsed() < ms(2_000),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn endless_streams_are_bounded() {
    let server = Stream::run(
        ANY,
        |mut stream| while stream.write_all(&[0xFF; 65_536]).is_ok() {},
    );
    let started = Instant::now();
    match Client::new(config())
        .query(list_ping(&server).as_str())
        .await
    {
        Err(Error::Malformed { datagram, .. }) => {
            assert!(datagram.len() <= 128 << 10, "{}", datagram.len());
        }
        other => panic!("{other:?}"),
    }
    let mut config = config();
    config.limits.max_bytes = 99;
    match Client::new(config).query(list_ping(&server).as_str()).await {
        Err(Error::Flood { bytes, .. }) => assert!(bytes > 99 && bytes <= 128 << 10, "{bytes}"),
        other => panic!("{other:?}"),
    }
    assert!(started.elapsed() < ms(2_000));
}

#[tokio::test]
async fn closed_ports_are_reported_with_their_transport() {
    match Client::new(config())
        .query(format!("minecraft-status://{}", closed()).as_str())
        .await
    {
        Err(error @ Error::PortClosed { .. }) => {
            assert_eq!(
                error.transcript().map(|transcript| transcript.sent),
                Some(0)
            );
            assert!(
                error
                    .to_string()
                    .contains("nothing listens on this TCP port: the server is down"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    // If all ports are closed, the UDP ports are reported too.
    let error = Client::new(config())
        .query(closed().to_string().as_str())
        .await
        .unwrap_err();
    let closed = "nothing listens on UDP port";
    assert!(error.to_string().contains(closed), "{error}");
    assert!(error.to_string().contains("and TCP port"), "{error}");
}

/// No game has both protocols, so a silent one would not be waited for.
#[tokio::test]
async fn a_reply_that_arrives_with_the_first_answer_counts() {
    let ids = ["minecraft-bedrock", "quake3"];
    let server = Server::at(apart(), &ids.map(protocol), &status("Both", ALICE));
    let client = Client::new(config());
    let target = server.address.to_string();
    // Both replies arrive while the program is busy: after the requests, which the first poll prepares
    // and the second one sends.
    let busy = async {
        tokio::task::yield_now().await;
        std::thread::sleep(ms(50));
    };
    let (answers, ()) = join(client.detect(target.as_str()), busy).await;
    let mut found = protocols(&answers.unwrap());
    found.sort_unstable();
    assert_eq!(found, ids);
}

#[tokio::test]
async fn detection_prefers_the_query_to_the_list_ping() {
    let server = Server::at(
        apart(),
        &[protocol("minecraft-query")],
        &status("Both", ALICE),
    );
    let _stream = Stream::answering(server.address, kick("Both\u{A7}2\u{A7}20"));
    let answers = all_answers(server.address).await;
    assert_eq!(protocols(&answers), ["minecraft-query", "minecraft-status"]);
}

#[tokio::test]
async fn hanging_streams_do_not_delay_detection() {
    let server = Server::at(
        apart(),
        &[protocol("ugp"), protocol("onequery")],
        &status("Hanging", ALICE),
    );
    let _stream = Stream::silent(server.address);
    let started = Instant::now();
    assert_eq!(all_answers(server.address).await.len(), 2);
    assert!(
        started.elapsed() < ms(3_000),
        "the stream's timeout of 5 s is not waited for"
    );

    for (reply, word) in [
        (&b"SSH-2.0-OpenSSH\r\n"[..], "UDP port"),
        (b"", "UDP port"),
        (&kick("You are banned"), "kicks the client: You are banned"),
    ] {
        let stream = Stream::answering(closed(), reply);
        let error = Client::new(config())
            .query(stream.address.to_string().as_str())
            .await
            .unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

// --- names ---

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The broadcast address. The system refuses to send to it, so default ports can be tested on
/// machines where programs listen on them.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

#[tokio::test]
async fn names_are_resolved() {
    let server = Server::of(&registry::responders(), &status("Named", ALICE));
    let dns = Dns::with(&[
        ("play.example.test", Record::Address(V4)),
        ("both.example.test", Record::Address(V4)),
    ]);
    let client = named(&dns);
    for form in [
        "play.example.test:PORT",
        "PLAY.example.test.:PORT",
        "ugp://both.example.test:PORT",
    ] {
        let form = form.replace("PORT", &server.port().to_string());
        let answer = client
            .query(form.as_str())
            .await
            .unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(answer.transcript.address, server.address);
    }
}

#[tokio::test]
async fn an_ipv6_name_leads_to_its_address() {
    let Ok(socket) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        eprintln!("this machine has no IPv6");
        return;
    };
    let server = Server::at(socket, &registry::responders(), &status("Six", ALICE));
    let dns = Dns::with(&[(
        "six.example.test",
        Record::Address(Ipv6Addr::LOCALHOST.into()),
    )]);
    let answer = named(&dns)
        .query(format!("ugp://six.example.test:{}", server.port()).as_str())
        .await
        .unwrap();
    assert_eq!(answer.transcript.address, server.address);
}

#[tokio::test]
async fn missing_names_differ_from_failed_lookups() {
    let dns = Dns::with(&[
        ("broken.example.test", Record::Failure),
        ("quiet.example.test", Record::Silence),
        (
            "empty.example.test",
            Record::Service {
                host: "nowhere.example.test",
                port: 1,
            },
        ),
    ]);
    let client = named(&dns);
    for name in ["nobody.example.test", "empty.example.test"] {
        for port in ["", ":25565"] {
            match client.query(format!("{name}{port}").as_str()).await {
                Err(Error::NameNotFound { name: sender }) => assert_eq!(sender, name),
                other => panic!("{name}{port}: {other:?}"),
            }
        }
    }
    for name in ["broken.example.test", "quiet.example.test"] {
        let started = Instant::now();
        match client.query(format!("ugp://{name}").as_str()).await {
            Err(Error::Lookup { name: sender, .. }) => assert_eq!(sender, name),
            other => panic!("{name}: {other:?}"),
        }
        assert!(
            started.elapsed() < ms(8_000),
            "{name}: {:?}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn missing_name_server_is_a_failed_lookup() {
    let mut config = config();
    config.name_server = Some(closed());
    let started = Instant::now();
    match Client::new(config).query("play.example.test").await {
        Err(Error::Lookup { name, .. }) => assert_eq!(name, "play.example.test"),
        other => panic!("{other:?}"),
    }
    assert!(started.elapsed() < ms(9_000), "{:?}", started.elapsed());
}

#[tokio::test]
async fn service_record_without_its_host_is_reported() {
    let nobody = closed();
    let dns = Dns::with(&[
        (
            "_minecraft._tcp.only.example.test",
            Record::Service {
                host: "gone.example.test",
                port: 25_565,
            },
        ),
        (
            "_minecraft._tcp.srv.example.test",
            Record::Service {
                host: "host.example.test",
                port: nobody.port(),
            },
        ),
        ("host.example.test", Record::Address(nobody.ip())),
    ]);
    let error = named(&dns).query("only.example.test").await.unwrap_err();
    let reports = error.protocol_reports();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert_eq!(
        reports[0],
        "Minecraft Query, Minecraft Status: its SRV record leads to gone.example.test, which has no address"
    );
    assert!(
        reports[1].starts_with("UGP, OneQuery V2, A2S, ")
            && reports[1].ends_with(": only.example.test has no address"),
        "{reports:?}"
    );
    assert!(!error.to_string().contains("spelling"), "{error}");

    // The user did not type the host and the port of the record.
    let port = nobody.port();
    let record = format!("; the SRV record of srv.example.test leads to host.example.test:{port}");
    let error = named(&dns).query("srv.example.test").await.unwrap_err();
    assert_eq!(error.kind(), "port-closed");
    assert!(!error.to_string().contains("spelling"), "{error}");
    let reports = error.protocol_reports();
    assert!(
        reports[0].starts_with(&format!(
            "{}: nothing listens on UDP port {port}",
            nobody.ip()
        )),
        "{reports:?}"
    );
    assert!(reports[0].ends_with(&record), "{reports:?}");
    let one = "minecraft-status://srv.example.test";
    let error = named(&dns).query(one).await.unwrap_err();
    let expected = format!(
        "{nobody}: nothing listens on this TCP port: the server is down or on another port{record}"
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn errors_name_the_record_and_other_addresses_that_replied() {
    let reply = |socket: &UdpSocket, _: &[u8], from| {
        let _ = socket.send_to(b"?", from);
    };
    let first = Server::run(loopback(), reply);
    let port = first.port();
    let second = UdpSocket::bind(("127.0.0.2", port)).unwrap();
    let second = Server::run(second, reply);
    let host = "host.example.test";
    let service = Record::Service { host, port };
    let dns = Dns::with(&[
        ("_minecraft._tcp.play.example.test", service),
        (host, Record::Address(first.address.ip())),
        (host, Record::Address(second.address.ip())),
        // Nothing listens there.
        (host, Record::Address([127, 0, 0, 3].into())),
    ]);
    let mut config = time_limit(ms(200), 0);
    config.name_server = Some(dns.address());
    let target = "minecraft-query://play.example.test";
    let error = Client::new(config).query(target).await.unwrap_err();
    let mut servers = [first.address, second.address];
    if error.transcript().map(|transcript| transcript.address) == Some(second.address) {
        servers.reverse();
    }
    let [best, other] = servers;
    let text = error.to_string();
    let record = format!(
        "; the SRV record of play.example.test leads to {host}:{port}; {other} replied too: "
    );
    assert!(
        text.starts_with(&best.to_string()) && text.contains(&record),
        "{text}"
    );
    assert!(!text.contains("127.0.0.3"), "{text}");
}

#[tokio::test]
async fn localhost_may_end_with_a_dot() {
    let server = Server::of(&registry::responders(), &status("Dot", ALICE));
    let target = format!("ugp://localhost.:{}", server.port());
    let answer = Client::new(config()).query(target.as_str()).await.unwrap();
    assert_eq!(answer.status.title().as_deref(), Some("Dot"));
}

#[tokio::test]
async fn srv_record_leads_to_host_and_port() {
    let server = Server::of(&[protocol("minecraft-query")], &status("Served", ALICE));
    // Protocols without an SRV record use the name's own address.
    let dns = Dns::with(&[
        ("play.example.test", Record::Address(NOWHERE)),
        (
            "_minecraft._tcp.play.example.test",
            Record::Service {
                host: "host.example.test",
                port: server.port(),
            },
        ),
        (
            "_minecraft._tcp.alias.example.test",
            Record::Alias("_minecraft._tcp.play.example.test"),
        ),
        ("host.example.test", Record::Address(V4)),
    ]);
    for target in [
        "minecraft-query://play.example.test",
        "minecraft-query://alias.example.test",
        "play.example.test",
        "Play.Example.Test.",
    ] {
        let answer = named(&dns)
            .query(target)
            .await
            .unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(
            (answer.transcript.address, answer.transcript.protocol.id),
            (server.address, "minecraft-query")
        );
    }
    assert!(dns.was_asked_for_services());
}

/// spec/minecraft-status.md#8
#[tokio::test]
async fn the_handshake_has_the_typed_host_or_the_configured_one() {
    let server = Stream::answering(ANY, kick(LISTING));
    let port = server.address.port();
    let host = "host.example.test";
    let dns = Dns::with(&[
        (
            "_minecraft._tcp.play.example.test",
            Record::Service { host, port },
        ),
        (host, Record::Address(V4)),
    ]);
    let with_port = format!("minecraft-status://{host}:{port}");
    for (target, configured, sent) in [
        (
            "minecraft-status://play.example.test",
            "",
            "play.example.test",
        ),
        ("minecraft-status://play.example.test", "Lobby", "Lobby"),
        (&with_port, "", host),
    ] {
        let mut config = config();
        config.name_server = Some(dns.address());
        config.has_datagrams = true;
        config.ask.to.host = configured.into();
        let answer = Client::new(config).query(target).await.unwrap();
        let mut notes = Notes::default();
        let request = &answer.transcript.datagrams[0].bytes;
        let handshake = Handshake::read(&mut Reader::new(request, &mut notes)).unwrap();
        assert_eq!((&*handshake.host, handshake.port), (sent, port));
    }
}

#[tokio::test]
async fn srv_records_are_looked_up_only_where_they_apply() {
    let server = Server::of(&registry::responders(), &status("Plain", ALICE));
    let dns = Dns::with(&[
        ("play.example.test", Record::Address(V4)),
        (
            "_minecraft._tcp.play.example.test",
            Record::Service {
                host: "wrong.example.test",
                port: 1,
            },
        ),
        ("nowhere.example.test", Record::Address(NOWHERE)),
    ]);
    let client = named(&dns);
    for target in [
        "minecraft-query://play.example.test:PORT",
        "play.example.test:PORT",
    ] {
        client
            .query(target.replace("PORT", &server.port().to_string()).as_str())
            .await
            .unwrap();
    }
    for target in [
        "ugp://nowhere.example.test",
        "onequery://nowhere.example.test",
    ] {
        let error = client.query(target).await.unwrap_err();
        assert_eq!(
            error.transcript().unwrap().address.ip(),
            NOWHERE,
            "{target}"
        );
    }
    assert!(!dns.was_asked_for_services(), "{:?}", dns.queries());
}

#[tokio::test]
async fn srv_record_without_target_is_ignored() {
    let dns = Dns::with(&[
        ("play.example.test", Record::Address(NOWHERE)),
        (
            "_minecraft._tcp.play.example.test",
            Record::Service {
                host: ".",
                port: 25565,
            },
        ),
    ]);
    let error = named(&dns)
        .query("minecraft-query://play.example.test")
        .await
        .unwrap_err();
    assert_eq!(
        error.transcript().unwrap().address,
        SocketAddr::new(NOWHERE, 25565)
    );
}

#[tokio::test]
async fn silent_srv_lookup_delays_the_query_only_briefly() {
    let dns = Dns::with(&[
        ("play.example.test", Record::Address(NOWHERE)),
        ("_minecraft._tcp.play.example.test", Record::Silence),
    ]);
    let started = Instant::now();
    let error = named(&dns)
        .query("minecraft-query://play.example.test")
        .await
        .unwrap_err();
    assert_eq!(error.transcript().unwrap().address.ip(), NOWHERE);
    assert!(started.elapsed() < ms(4_000), "{:?}", started.elapsed());
}

#[tokio::test]
async fn second_address_is_tried_if_the_first_is_silent() {
    let server = Server::of(&registry::responders(), &status("Alive", ALICE));
    let dead = Server::run(bind([127, 0, 0, 3], server.port()), |_, _, _| {});
    let dns = Dns::with(&[
        ("two.example.test", Record::Address(dead.address.ip())),
        ("two.example.test", Record::Address(server.address.ip())),
        ("owt.example.test", Record::Address(server.address.ip())),
        ("owt.example.test", Record::Address(dead.address.ip())),
    ]);
    for id in ids() {
        for name in ["two", "owt"] {
            let started = Instant::now();
            let answer = named(&dns)
                .query(format!("{id}://{name}.example.test:{}", server.port()).as_str())
                .await
                .unwrap();
            assert_eq!(answer.transcript.address, server.address);
            assert!(
                started.elapsed() < ms(2_500),
                "the timeout of 5 s is not waited for: {:?}",
                started.elapsed()
            );
        }
    }
}

// --- responding ---

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_can_be_replaced_under_load() {
    /// Returns a status in which every field has the same number.
    fn numbered(number: usize) -> Status {
        let players: Vec<String> = (0..number % 5).map(|player| format!("p{player}")).collect();
        let players: Vec<&str> = players.iter().map(String::as_str).collect();
        let mut status = status(&format!("{number}"), &players);
        status.map = Some(format!("{number}").into());
        status
    }

    let board = Board::new(&registry::responders(), &numbered(0)).unwrap();
    let server = Server::board(loopback(), board.clone(), Budget::default());
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let publisher = std::thread::spawn(move || {
        let mut published = 0;
        while !is_over.load(Ordering::Relaxed) {
            published += 1;
            board.publish(&numbered(published)).unwrap();
        }
        published
    });
    let client = Client::new(time_limit(ms(1_000), 3));
    let mut last = 0;
    for id in ["minecraft-query", "ugp"].iter().cycle().take(100) {
        let answer = client
            .query(url(id, &server).as_str())
            .await
            .unwrap()
            .status;
        let number: usize = answer.map.as_deref().unwrap().parse().unwrap();
        assert_eq!(
            answer.title(),
            Some(number.to_string()),
            "a reply must not mix two statuses"
        );
        assert_eq!(answer.players.list.len(), number % 5);
        assert!(number >= last, "replies must not return to an older status");
        last = number;
    }
    over.store(true, Ordering::Relaxed);
    let published = publisher.join().unwrap();
    assert!(published >= last && last > 0, "{last} of {published}");
}

#[tokio::test]
async fn published_status_is_used_immediately() {
    let board = Board::new(&registry::responders(), &status("Before", &[])).unwrap();
    let server = Server::board(loopback(), board.clone(), Budget::default());
    let client = Client::new(config());
    for id in ids() {
        board.publish(&status("Before", &[])).unwrap();
        let answer = client.query(url(id, &server).as_str()).await.unwrap();
        assert_eq!(answer.status.title().as_deref(), Some("Before"));
        board.publish(&status("After", ALICE)).unwrap();
        let answer = client.query(url(id, &server).as_str()).await.unwrap();
        assert_eq!(
            (
                answer.status.title().as_deref(),
                answer.status.players.online
            ),
            (Some("After"), Some(2))
        );
    }
}

#[tokio::test]
async fn no_replies_beyond_the_budget() {
    let mut budget = Budget::default();
    budget.is_loopback_limited = true;
    budget.unverified_per_source = 256;
    let board = Board::new(&registry::responders(), &status("Budget", ALICE)).unwrap();
    let server = Server::board(loopback(), board, budget);
    let socket = loopback();
    socket.connect(server.address).unwrap();
    socket.set_read_timeout(Some(ms(150))).unwrap();
    let started = Instant::now();
    let mut replies = 0;
    let mut buffer = [0; 64];
    for _ in 0..300 {
        // A ping of 8 bytes, answered with 8.
        socket.send(b"\xFF\xFFUGP\0\x01\0").unwrap();
        replies += usize::from(socket.recv(&mut buffer).is_ok());
        if started.elapsed() > ms(1_500) {
            break;
        }
    }
    // A burst of 4 s, and the budget earned since.
    let earned = started.elapsed().as_secs_f64() * 256.0 / 8.0;
    assert!(
        (128..=128 + earned.ceil() as usize).contains(&replies),
        "{replies}, {earned} earned"
    );
}

#[tokio::test]
async fn garbage_does_not_stop_a_service() {
    let server_socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = server_socket.local_addr().unwrap();
    let board = Board::new(&registry::responders(), &status("Sturdy", ALICE)).unwrap();
    let mut service = Service::new(board, Budget::default());
    let talk = async {
        let socket = loopback();
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        for round in 0..600usize {
            let starts: [&[u8]; 6] = [
                b"",
                b"\xFE\xFD\x09",
                b"\xFE\xFD\0",
                b"\xFF\xFFUGP\0\x01\x01",
                b"ONEQUERY\x01",
                b"\x09",
            ];
            let mut bytes = starts[round % starts.len()].to_vec();
            // Up to sizes above the service's buffer and above one packet.
            for _ in 0..[0, 3, 7, 40, 300, 3_000, 60_000][round % 7] {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes.push(state as u8);
            }
            let _ = socket.send_to(&bytes, address);
            // The client closes its socket before the reply, so that the system reports an error to
            // the service.
            if round % 50 == 0 {
                let _ = loopback().send_to(b"\xFF\xFFUGP\0\x01\0", address);
                tokio::task::yield_now().await;
            }
        }
        let client = Client::new(time_limit(ms(500), 5));
        for id in ids() {
            let answer = client
                .query(format!("{id}://{address}").as_str())
                .await
                .unwrap();
            assert_eq!(names(&answer.status), ALICE);
        }
    };
    tokio::select! {
        () = service.run(&server_socket) => unreachable!("a service runs until dropped"),
        () = talk => {}
    }
    let counts = service.counts();
    assert!(
        counts.received > 10 && counts.dropped.values().sum::<u64>() > 0,
        "{counts:?}"
    );
    let sum = counts.answered + counts.unverified + counts.dropped.values().sum::<u64>();
    assert_eq!(counts.received, sum, "every datagram must be counted once");
}

#[tokio::test]
async fn dropped_queries_stop() {
    let packets = Arc::new(AtomicU32::new(0));
    let count = packets.clone();
    let server = Server::script(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    });
    let client = Client::new(time_limit(ms(30), 100));
    let _ = tokio::time::timeout(ms(100), client.query(url("ugp", &server).as_str())).await;
    let then = packets.load(Ordering::Relaxed);
    tokio::time::sleep(ms(150)).await;
    assert!(
        packets.load(Ordering::Relaxed) <= then + 1,
        "the dropped query must not send more than the datagram in flight"
    );
}

#[tokio::test]
async fn partial_answers_survive_a_closed_port() {
    // The server sends its info and closes its socket, so the player request meets a closed port.
    let socket = loopback();
    let address = socket.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let board = Board::new(&[protocol("onequery")], &status("Short-lived", ALICE)).unwrap();
        let mut service = Service::new(board, Budget::default());
        let mut buffer = [0; 2048];
        for _ in 0..2 {
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            let reply = service.answer(from, &buffer[..length]).next().unwrap();
            socket.send_to(reply, from).unwrap();
        }
    });
    let answer = Client::new(config())
        .query(format!("onequery://{address}").as_str())
        .await
        .unwrap();
    server.join().unwrap();
    assert_eq!(answer.status.title().as_deref(), Some("Short-lived"));
    assert_eq!(answer.status.extra("unanswered"), Some(&"players".into()));
}

#[tokio::test]
async fn failed_queries_store_datagrams_too() {
    let server = Server::silent();
    let mut config = time_limit(ms(60), 1);
    config.has_datagrams = true;
    config.ask.auth_token = Some("hunter2".into());
    let error = Client::new(config)
        .query(url("onequery", &server).as_str())
        .await
        .unwrap_err();
    assert_eq!(
        error
            .transcript()
            .map(|transcript| transcript.datagrams.len()),
        Some(2)
    );
    assert!(!format!("{error:?}").contains("hunter2"));
}

// --- ports ---

/// Returns the address of an A2S server whose replies come from `replies`.
fn answers_from_elsewhere(replies: UdpSocket) -> SocketAddr {
    let requests = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = requests.local_addr().unwrap();
    let keys = hailer::proto::Keys::new([7; 16]);
    let responder = protocol("a2s")
        .responder(&status("Elsewhere", ALICE), &keys, &Options::default())
        .unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = requests.recv_from(&mut buffer) {
            let mut reply = Vec::new();
            let epoch = hailer::proto::Epoch(1);
            responder.answer(from, epoch, &buffer[..length], &mut reply);
            replies.send_to(&reply, from).unwrap();
        }
    });
    address
}

#[tokio::test]
async fn replies_from_another_port_of_the_address_count_after_a_timeout() {
    let replies = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = replies.local_addr().unwrap().port();
    let address = answers_from_elsewhere(replies);
    let client = Client::new(time_limit(ms(200), 3));
    let answer = client.query(&*format!("a2s://{address}")).await.unwrap();
    assert_eq!(answer.status.title().unwrap(), "Elsewhere");
    assert_eq!(answer.status.players.list.len(), ALICE.len());
    assert_eq!(answer.transcript.address, address);
    assert_eq!(
        answer.notes,
        [format!("The server replies from port {port}")]
    );
    // Another address is another host.
    let address = answers_from_elsewhere(UdpSocket::bind("127.0.0.2:0").unwrap());
    let error = impatient().query(&*format!("a2s://{address}")).await;
    assert!(matches!(error, Err(Error::Silence { .. })), "{error:?}");
}

#[tokio::test]
async fn a_late_reply_from_the_right_port_counts_after_a_timeout() {
    let requests = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = requests.local_addr().unwrap();
    let keys = hailer::proto::Keys::new([7; 16]);
    let responder = protocol("a2s")
        .responder(&status("Late", ALICE), &keys, &Options::default())
        .unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        let (mut length, first) = requests.recv_from(&mut buffer).unwrap();
        // The repetition comes from another port. Only the first one gets replies.
        let (_, second) = requests.recv_from(&mut [0; 2_048]).unwrap();
        assert_ne!(first, second);
        loop {
            let mut reply = Vec::new();
            let epoch = hailer::proto::Epoch(1);
            responder.answer(first, epoch, &buffer[..length], &mut reply);
            requests.send_to(&reply, first).unwrap();
            (length, _) = requests.recv_from(&mut buffer).unwrap();
        }
    });
    let client = Client::new(time_limit(ms(300), 3));
    let answer = client.query(&*format!("a2s://{address}")).await.unwrap();
    assert_eq!(answer.status.title().unwrap(), "Late");
    assert_eq!(answer.notes, [""; 0]);
}

/// spec/minecraft-status.md#4.1
#[tokio::test]
async fn each_connection_begins_with_a_proxy_header() {
    let connections = Arc::new(AtomicU32::new(0));
    let seen = connections.clone();
    let server = Stream::run(ANY, move |mut stream| {
        let mut header = [0; 28];
        if stream.read_exact(&mut header).is_err() || !header.starts_with(b"\r\n\r\n\0\r\nQUIT\n") {
            return;
        }
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        assert_eq!(header[12..24], *b"\x21\x11\0\x0C\x7F\0\0\x01\x7F\0\0\x01");
        assert_eq!(port(24), stream.peer_addr().unwrap().port());
        assert_eq!(port(26), stream.local_addr().unwrap().port());
        // The first connection is closed, so another form of the request follows on a new one.
        if seen.fetch_add(1, Ordering::Relaxed) == 0 {
            return;
        }
        let mut request = [0; 2];
        stream.read_exact(&mut request).unwrap();
        assert_eq!(request, [0xFE, 1]);
        stream
            .write_all(&kick("\u{A7}1\x0047\x001.4.2\0Pier\x002\x009"))
            .unwrap();
    });
    let target = format!("minecraft-status://{}", server.address);
    let mut config = config();
    let error = Client::new(config.clone()).query(&*target).await;
    assert!(error.is_err());
    assert_eq!(connections.load(Ordering::Relaxed), 0);
    config.has_proxy_header = true;
    let answer = Client::new(config).query(&*target).await.unwrap();
    assert_eq!(answer.status.title().as_deref(), Some("Pier"));
    assert_eq!(connections.load(Ordering::Relaxed), 2);
}
