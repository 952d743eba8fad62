//! The stub resolver against name servers that fail, lie or flood.

use super::NameResolver;
use super::stub::{Kind, LookupFailure, Record, StubResolver};
use crate::target::Host;
use simple_dns::rdata::{A, CNAME, RData, SOA, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE};
use simple_dns::{ResourceRecord, TYPE};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const NAME: &str = "play.example.test";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

/// A name server on loopback, until it is dropped.
struct NameServer {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Starts a server. `act` gets each request with the number of those before it, and sends
    /// replies.
    fn run(act: impl FnMut(&UdpSocket, SocketAddr, &[u8], usize) + Send + 'static) -> Self {
        Self::at(UdpSocket::bind("127.0.0.1:0").unwrap(), act)
    }

    fn at(
        socket: UdpSocket,
        mut act: impl FnMut(&UdpSocket, SocketAddr, &[u8], usize) + Send + 'static,
    ) -> Self {
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let address = socket.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (count, end) = (requests.clone(), is_stopped.clone());
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !end.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let before = count.fetch_add(1, Ordering::Relaxed);
                    act(&socket, from, &buffer[..length], before);
                }
            }
        });
        Self {
            address,
            requests,
            is_stopped,
            thread: Some(thread),
        }
    }

    /// Starts a server that sends what `reply` makes of each request.
    fn of(reply: impl Fn(Packet<'_>) -> Vec<u8> + Send + 'static) -> Self {
        Self::run(move |socket, from, request, _| {
            let reply = reply(Packet::parse(request).unwrap());
            socket.send_to(&reply, from).unwrap();
        })
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    async fn lookup(&self) -> Result<Vec<Record>, LookupFailure> {
        let stub = StubResolver::default();
        stub.lookup(&[self.address], NAME, Kind::Ipv4).await
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn name(text: &str) -> Name<'_> {
    Name::new(text).unwrap()
}

fn record<'a>(owner: &'a str, ttl: u32, data: RData<'a>) -> ResourceRecord<'a> {
    ResourceRecord::new(name(owner), CLASS::IN, ttl, data)
}

fn address(owner: &str, ip: Ipv4Addr, ttl: u32) -> ResourceRecord<'_> {
    record(owner, ttl, RData::A(A::from(ip)))
}

fn alias<'a>(owner: &'a str, target: &'a str) -> ResourceRecord<'a> {
    record(owner, 60, RData::CNAME(CNAME(name(target))))
}

/// Returns the reply to a request, with these records.
fn reply(request: Packet<'_>, records: Vec<ResourceRecord<'_>>) -> Vec<u8> {
    let mut packet = request.into_owned_reply();
    packet.answers = records;
    packet.build_bytes_vec().unwrap()
}

/// Returns the reply to a request, with this code and no records.
fn refusal(request: Packet<'_>, code: RCODE) -> Vec<u8> {
    let mut packet = request.into_owned_reply();
    *packet.rcode_mut() = code;
    packet.build_bytes_vec().unwrap()
}

trait IntoReply {
    fn into_owned_reply<'a>(self) -> Packet<'a>;
}

impl IntoReply for Packet<'_> {
    fn into_owned_reply<'a>(self) -> Packet<'a> {
        let mut reply = Packet::new_reply(self.id());
        reply.questions = self
            .questions
            .into_iter()
            .map(Question::into_owned)
            .collect();
        reply
    }
}

fn found() -> Result<Vec<Record>, LookupFailure> {
    Ok(vec![Record::Address(ADDRESS.into())])
}

#[tokio::test]
async fn requests_want_recursion_and_have_random_ids_and_ports() {
    let (sender, received) = mpsc::channel();
    let server = NameServer::run(move |socket, from, request, _| {
        let packet = Packet::parse(request).unwrap();
        let is_recursive = packet.has_flags(PacketFlag::RECURSION_DESIRED);
        let question = packet.questions[0].qname.to_string();
        sender
            .send((packet.id(), from.port(), is_recursive, question))
            .unwrap();
        let reply = reply(packet, vec![address(NAME, ADDRESS, 0)]);
        socket.send_to(&reply, from).unwrap();
    });
    for _ in 0..8 {
        assert_eq!(server.lookup().await, found());
    }
    let requests: Vec<_> = received.try_iter().collect();
    assert_eq!(requests.len(), 8);
    for (_, _, is_recursive, question) in &requests {
        assert!(is_recursive);
        assert_eq!(question, NAME);
    }
    let ids: std::collections::HashSet<_> = requests.iter().map(|request| request.0).collect();
    let ports: std::collections::HashSet<_> = requests.iter().map(|request| request.1).collect();
    assert!(ids.len() > 4 && ports.len() > 4, "{requests:?}");
}

#[tokio::test]
async fn only_the_reply_to_the_question_counts() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let wrong = Ipv4Addr::new(192, 0, 2, 66);
    let server = NameServer::run(move |socket, from, request, _| {
        let packet = || Packet::parse(request).unwrap();
        let valid = reply(packet(), vec![address(NAME, wrong, 60)]);
        // The right message from another port.
        other.send_to(&valid, from).unwrap();
        let mut lies = vec![Vec::new(), valid[..11].to_vec(), request.to_vec()];
        let mut other_id = valid.clone();
        other_id[1] ^= 1;
        lies.push(other_id);
        // No reply, and another operation.
        for bits in [0x80, 0x08] {
            let mut other_flags = valid.clone();
            other_flags[2] ^= bits;
            lies.push(other_flags);
        }
        for (asked, kind, class) in [
            ("nope.example.test", TYPE::A, CLASS::IN),
            (NAME, TYPE::AAAA, CLASS::IN),
            (NAME, TYPE::A, CLASS::CH),
        ] {
            let mut lie = Packet::new_reply(packet().id());
            let (kind, class) = (QTYPE::TYPE(kind), QCLASS::CLASS(class));
            lie.questions
                .push(Question::new(name(asked), kind, class, false));
            lie.answers.push(address(NAME, wrong, 60));
            lies.push(lie.build_bytes_vec().unwrap());
            lie.questions.clear();
            lies.push(lie.build_bytes_vec().unwrap());
        }
        // A record without its end.
        lies.push(valid[..valid.len() - 1].to_vec());
        for lie in lies {
            socket.send_to(&lie, from).unwrap();
        }
        let valid = reply(packet(), vec![address("PLAY.example.TEST", ADDRESS, 60)]);
        socket.send_to(&valid, from).unwrap();
    });
    assert_eq!(server.lookup().await, found());
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_flood_of_other_replies_ends_the_lookup() {
    let server = NameServer::run(|socket, from, request, _| {
        let packet = Packet::parse(request).unwrap();
        let mut lie = reply(packet, vec![address(NAME, ADDRESS, 60)]);
        lie[1] ^= 1;
        for _ in 0..150 {
            let _ = socket.send_to(&lie, from);
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let error = server.lookup().await.unwrap_err().to_string();
    let expected = format!("the name server {} sends invalid replies", server.address);
    assert_eq!(error, expected);
}

#[tokio::test]
async fn records_of_other_names_are_ignored() {
    let server = NameServer::of(|request| {
        let mut foreign = address(NAME, Ipv4Addr::new(192, 0, 2, 66), 60);
        foreign.class = CLASS::CH;
        let records = vec![
            foreign,
            address("evil.example.test", Ipv4Addr::new(192, 0, 2, 66), 60),
            alias("other.example.test", "evil.example.test"),
            address("two.example.test", ADDRESS, 60),
            alias("one.example.test", "two.example.test"),
            alias(NAME, "One.Example.test"),
        ];
        reply(request, records)
    });
    assert_eq!(server.lookup().await, found());
    let server =
        NameServer::of(|request| reply(request, vec![address("evil.example.test", ADDRESS, 60)]));
    assert_eq!(server.lookup().await, Err(LookupFailure::NotFound));
}

#[tokio::test]
async fn aliases_without_their_records_are_looked_up() {
    let server = NameServer::of(|request| match &*request.questions[0].qname.to_string() {
        NAME => reply(request, vec![alias(NAME, "one.example.test")]),
        "one.example.test" => reply(request, vec![alias("one.example.test", "two.example.test")]),
        _ => reply(request, vec![address("two.example.test", ADDRESS, 60)]),
    });
    assert_eq!(server.lookup().await, found());
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn aliases_in_a_circle_end_the_lookup() {
    // Within a reply, and from reply to reply.
    let circle = NameServer::of(|request| {
        let records = vec![
            alias(NAME, "one.example.test"),
            alias("one.example.test", NAME),
        ];
        reply(request, records)
    });
    let endless = NameServer::run(|socket, from, request, before| {
        let packet = Packet::parse(request).unwrap();
        let owner = packet.questions[0].qname.to_string();
        let next = format!("n{before}.example.test");
        let reply = reply(packet, vec![alias(&owner, &next)]);
        socket.send_to(&reply, from).unwrap();
    });
    for server in [circle, endless] {
        let error = server.lookup().await.unwrap_err();
        assert!(
            matches!(&error, LookupFailure::NotFound | LookupFailure::Failed(_)),
            "{error:?}"
        );
        assert!(server.requests() <= 9, "{}", server.requests());
    }
}

#[tokio::test]
async fn aliases_that_are_no_host_names_lead_nowhere() {
    for target in [".", "a b.example.test", "x\\000.example.test"] {
        let target = target.to_owned();
        let server = NameServer::of(move |request| reply(request, vec![alias(NAME, &target)]));
        assert_eq!(server.lookup().await, Err(LookupFailure::NotFound));
        assert_eq!(server.requests(), 1);
    }
}

/// Starts a name server that truncates its replies. Over TCP it sends the whole reply to one
/// request, with what `length` makes of its length.
fn truncating(length: impl Fn(usize) -> usize + Send + 'static) -> NameServer {
    // A port that is free for both transports.
    let (socket, listener) = std::iter::repeat_with(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind(listener.local_addr().unwrap());
        socket.map(|socket| (socket, listener))
    })
    .find_map(Result::ok)
    .unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 2];
        stream.read_exact(&mut request).unwrap();
        let mut request = vec![0; usize::from(u16::from_be_bytes(request))];
        stream.read_exact(&mut request).unwrap();
        let request = Packet::parse(&request).unwrap();
        let reply = reply(request, vec![address(NAME, ADDRESS, 60)]);
        let length = length(reply.len()) as u16;
        stream.write_all(&length.to_be_bytes()).unwrap();
        let _ = stream.write_all(&reply);
    });
    NameServer::at(socket, |socket, from, request, _| {
        let packet = Packet::parse(request).unwrap();
        let mut short = reply(packet, vec![address(NAME, ADDRESS, 60)]);
        short[2] |= 2;
        short.truncate(short.len() - 3);
        socket.send_to(&short, from).unwrap();
    })
}

#[tokio::test]
async fn a_truncated_reply_is_read_over_tcp() {
    let server = truncating(|length| length);
    assert_eq!(server.lookup().await, found());
}

#[tokio::test]
async fn replies_over_tcp_are_bounded() {
    for (length, expected) in [
        (16 * 1024 + 1, "its reply is too long"),
        (11, "sends invalid replies"),
    ] {
        let server = truncating(move |_| length);
        let error = server.lookup().await.unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[tokio::test]
async fn the_next_name_server_is_asked_after_a_failure_or_silence() {
    let failing = NameServer::of(|request| refusal(request, RCODE::ServerFailure));
    let silent = NameServer::run(|_, _, _, _| {});
    let working = NameServer::of(|request| reply(request, vec![address(NAME, ADDRESS, 60)]));
    let servers = [failing.address, silent.address, working.address];
    let stub = StubResolver::default();
    let started = Instant::now();
    assert_eq!(stub.lookup(&servers, NAME, Kind::Ipv4).await, found());
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(400), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(1_900), "{elapsed:?}");
    assert_eq!((failing.requests(), silent.requests()), (1, 1));
}

#[tokio::test]
async fn failures_name_the_server_and_its_error() {
    for (code, word) in [
        (RCODE::ServerFailure, "SERVFAIL"),
        (RCODE::Refused, "REFUSED"),
        (RCODE::NotImplemented, "NOTIMP"),
        (RCODE::FormatError, "FORMERR"),
    ] {
        let server = NameServer::of(move |request| refusal(request, code));
        let error = server.lookup().await.unwrap_err().to_string();
        let expected = format!(
            "the name server {} reports an error: {word}",
            server.address
        );
        assert_eq!(error, expected);
        assert_eq!(server.requests(), 1);
    }
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let stub = StubResolver::default();
    let error = stub.lookup(&[closed], NAME, Kind::Ipv4).await.unwrap_err();
    let expected = format!("nothing listens at the name server {closed}");
    assert_eq!(error.to_string(), expected);
    let error = stub.lookup(&[], NAME, Kind::Ipv4).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no name server");
}

#[tokio::test]
async fn a_silent_name_server_is_asked_six_times() {
    let silent = NameServer::run(|_, _, _, _| {});
    let started = Instant::now();
    assert_eq!(silent.lookup().await, Err(LookupFailure::NoReply));
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_millis(6_500), "{elapsed:?}");
    assert_eq!(silent.requests(), 6);
}

#[tokio::test]
async fn a_lost_request_is_repeated() {
    let server = NameServer::run(|socket, from, request, before| {
        if before == 1 {
            let packet = Packet::parse(request).unwrap();
            let reply = reply(packet, vec![address(NAME, ADDRESS, 60)]);
            socket.send_to(&reply, from).unwrap();
        }
    });
    assert_eq!(server.lookup().await, found());
}

#[tokio::test]
async fn replies_are_cached_until_they_expire() {
    for (ttl, requests) in [(0, 3), (60, 1)] {
        let server =
            NameServer::of(move |request| reply(request, vec![address(NAME, ADDRESS, ttl)]));
        let stub = StubResolver::default();
        for _ in 0..3 {
            let servers = [server.address];
            assert_eq!(stub.lookup(&servers, NAME, Kind::Ipv4).await, found());
        }
        assert_eq!(server.requests(), requests, "{ttl} s");
    }
    // Missing names, as long as their zone says.
    for (minimum, requests) in [(0, 3), (60, 1)] {
        let server = NameServer::of(move |request| {
            let mut packet = request.into_owned_reply();
            *packet.rcode_mut() = RCODE::NameError;
            let soa = SOA {
                mname: name("ns.example.test"),
                rname: name("who.example.test"),
                serial: 1,
                refresh: 1,
                retry: 1,
                expire: 1,
                minimum,
            };
            let record = record("example.test", 3600, RData::SOA(soa));
            packet.name_servers.push(record);
            packet.build_bytes_vec().unwrap()
        });
        let stub = StubResolver::default();
        for _ in 0..3 {
            let servers = [server.address];
            let lookup = stub.lookup(&servers, NAME, Kind::Ipv4).await;
            assert_eq!(lookup, Err(LookupFailure::NotFound));
        }
        assert_eq!(server.requests(), requests, "{minimum} s");
    }
}

#[tokio::test]
async fn services_without_a_usable_host_or_port_are_skipped() {
    let server = NameServer::of(|request| {
        let service = |port, target| {
            let service = SRV {
                priority: 0,
                weight: 0,
                port,
                target: name(target),
            };
            record("_minecraft._tcp.play.example.test", 60, RData::SRV(service))
        };
        let services = vec![
            service(25_565, "."),
            service(0, "zero.example.test"),
            service(25_565, "no host.example.test"),
            service(25_570, "Host.example.test"),
            service(25_571, "second.example.test"),
        ];
        reply(request, services)
    });
    let names = NameResolver::new(Some(server.address));
    let found = names.service("_minecraft._tcp", "play.example.test.").await;
    assert_eq!(found, Some(("host.example.test.".into(), 25_570)));
    assert_eq!(names.service("_minecraft._tcp", "single").await, None);
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn no_name_server_is_asked_for_localhost() {
    let server = NameServer::run(|_, _, _, _| {});
    let names = NameResolver::new(Some(server.address));
    for host in ["localhost", "localhost.", "a.localhost"] {
        let host = Host::Name(host.into());
        let found = names.resolve(&host, Some(1), 1, None).await;
        let found = found.ok().unwrap().addresses;
        assert!(found.iter().all(|address| address.ip().is_loopback()));
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn messages_of_any_bytes_are_parsed_in_bounded_time() {
    use super::stub::is_reply;
    use proptest::prelude::*;
    let question = "\u{4}play\u{7}example\u{4}test\0\0\u{1}\0\u{1}".as_bytes();
    // The longest chain of pointers, at which the names of as many records as possible start.
    let mut bomb = [&[0, 7, 0x81, 0x80, 0, 1, 0xFF, 0xFF, 0, 0, 0, 0], question].concat();
    let chain = bomb.len() + 12;
    bomb.extend([0xC0, 12, 0, 99, 0, 1, 0, 0, 0, 0, 0x20, 0]);
    bomb.extend([0xC0, 12]);
    for at in (chain..chain + 0x1FFE).step_by(2) {
        bomb.extend((0xC000 | at as u16).to_be_bytes());
    }
    let last = bomb.len() as u16 - 2;
    while bomb.len() + 12 <= 16 * 1024 {
        bomb.extend((0xC000 | last).to_be_bytes());
        bomb.extend([0, 99, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
    let started = Instant::now();
    is_reply(&bomb, 7, NAME);
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    proptest!(|(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        counts in any::<[u8; 6]>(),
    )| {
        is_reply(&bytes, 7, NAME);
        let header = [&[0, 7, 0x81, 0x80, 0, 1][..], &counts].concat();
        is_reply(&[&header, question, &bytes].concat(), 7, NAME);
    });
}
