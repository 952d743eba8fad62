//! Stream protocols with bytes that arrive in any pieces, and with hostile bytes in both roles.

use hailer_proto::minecraft_status::{self, message};
use hailer_proto::{
    Ask, Connection, ConnectionStep, Cookie, Depth, Epoch, Exchange, Fault, Frame, Input, Keys,
    Options, Protocol, Status, Step, Text, Transport, registry, wire,
};
use hailer_testkit::statuses;
use hailer_testkit::vector::{self, Line};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const NOW: Epoch = Epoch(59_833_333);

fn from() -> SocketAddr {
    "192.0.2.7:50000".parse().unwrap()
}

fn protocol() -> &'static dyn Protocol {
    &minecraft_status::PROTOCOL
}

/// A connection to a responder with this status and these options.
fn connect(status: &Status, options: &Options) -> Box<dyn Connection> {
    let keys = Keys::new([7; 16]);
    let responder = protocol().responder(status, &keys, options).unwrap();
    responder.connection(from()).unwrap()
}

/// Sends pieces to a connection. Returns the replies and the last step.
fn send(connection: &mut dyn Connection, pieces: &[&[u8]]) -> (Vec<u8>, ConnectionStep) {
    let mut unread = Vec::new();
    let mut out = Vec::new();
    let mut step = ConnectionStep::Wait;
    for piece in pieces {
        unread.extend_from_slice(piece);
        let received = connection.receive(NOW, &unread, &mut out);
        unread.drain(..received.consumed);
        step = received.step;
        if step != ConnectionStep::Wait {
            return (out, step);
        }
    }
    if out.is_empty() {
        step = connection.pause(&unread, &mut out).step;
    }
    (out, step)
}

/// Every start of a message needs more bytes, at most as many as the message has; the whole message
/// is complete, also with more bytes behind it.
#[test]
fn messages_are_cut_at_the_same_place_from_every_start() {
    let mut messages = 0;
    for conversation in vector::all_conversations() {
        if conversation.protocol.info().transport != Transport::Stream {
            continue;
        }
        let mut exchange = conversation.exchange();
        let mut out = Vec::new();
        exchange.handle(Input::Start, &mut out);
        let mut unread = Vec::new();
        for (number, line) in &conversation.lines {
            out.clear();
            match line {
                Line::Received(bytes) => {
                    unread.extend_from_slice(bytes);
                    let whole = exchange.frame(&unread);
                    if whole == Ok(Frame::Complete(unread.len())) {
                        check_starts(
                            &*exchange,
                            &unread,
                            &format!("{}:{number}", conversation.name),
                        );
                        exchange.handle(Input::Datagram(&unread), &mut out);
                        unread.clear();
                        messages += 1;
                    }
                }
                Line::Timeout => drop(exchange.handle(Input::Timeout, &mut out)),
                Line::Closed(rest) => drop(exchange.handle(Input::Closed(rest), &mut out)),
                _ => {}
            }
        }
    }
    assert!(messages > 50, "{messages}");
}

fn check_starts(exchange: &dyn Exchange, message: &[u8], place: &str) {
    // Bytes in place of a pong have no length.
    if message.starts_with(&[0xFF, 0xFF]) {
        return;
    }
    for end in 0..message.len() {
        match exchange.frame(&message[..end]) {
            Ok(Frame::Incomplete { total }) => {
                assert!(
                    total > end && total <= message.len(),
                    "{place}: {total} after {end}"
                );
            }
            // Another service is recognized by its first bytes.
            other => assert!(
                message.starts_with(b"HTTP/") || message.starts_with(&[0x15, 3]),
                "{place}: {other:?} after {end} of {}",
                message.len()
            ),
        }
    }
    let more = [message, &[1, 0]].concat();
    let length = exchange.frame(&more);
    assert!(
        length == Ok(Frame::Complete(message.len())) || length == Ok(Frame::Complete(more.len())),
        "{place}: {length:?}"
    );
}

/// Returns the handshake of a status ping.
fn handshake() -> Vec<u8> {
    let mut bytes = Vec::new();
    message::Handshake {
        protocol: 47,
        host: "h".into(),
        port: 1,
        intent: message::Intent::Status,
    }
    .write(&mut bytes);
    bytes
}

/// The responder sends the same bytes for a request in two pieces as for one in one piece.
#[test]
fn requests_may_be_split_at_every_byte() {
    let status = statuses::plain(3);
    let handshake = |intent, more: &[u8]| {
        let mut bytes = Vec::new();
        let host = "mc.example.org".into();
        message::Handshake {
            protocol: 47,
            host,
            port: 25565,
            intent,
        }
        .write(&mut bytes);
        bytes.extend_from_slice(more);
        bytes
    };
    let mut ping = vec![1, 0];
    message::write_ping(77, &mut ping);
    let mut full = Vec::new();
    message::write_legacy_request(message::LegacyForm::Full, "localhost", 25565, &mut full);
    let old_login = [
        &b"\x02\x4E\0\x04\0A\0l\0e\0x\0\x04\0h\0o\0s\0t"[..],
        &25565i32.to_be_bytes(),
    ]
    .concat();
    for (name, request) in [
        ("status", handshake(message::Intent::Status, &[1, 0])),
        ("status and ping", handshake(message::Intent::Status, &ping)),
        ("ping alone", handshake(message::Intent::Status, &ping[2..])),
        (
            "zero bytes",
            handshake(message::Intent::Status, &[0, 0, 1, 0, 0]),
        ),
        (
            "login",
            handshake(message::Intent::Login, b"\x06\0\x04Alex"),
        ),
        (
            "transfer",
            handshake(message::Intent::Transfer, b"\x07\0\x04Alexx"),
        ),
        ("legacy", full),
        ("old login", old_login),
        ("older login", b"\x02\0\x07\0A\0;\0h\0:\09\09\09".to_vec()),
    ] {
        let options = Options::default();
        let whole = send(&mut *connect(&status, &options), &[&request]);
        assert!(!whole.0.is_empty(), "{name}");
        for split in 0..=request.len() {
            let (start, end) = request.split_at(split);
            let mut connection = connect(&status, &options);
            assert_eq!(
                send(&mut *connection, &[start, end]),
                whole,
                "{name} after {split}"
            );
            // No start gets more than the whole.
            let (reply, step) = send(&mut *connect(&status, &options), &[start]);
            // After a pause, FE alone is the beta form.
            let is_beta = start == [message::LEGACY_PING];
            assert!(
                is_beta || whole.0.starts_with(&reply),
                "{name} cut to {split}"
            );
            assert!(
                step == ConnectionStep::Wait || is_beta || reply == whole.0,
                "{name} cut to {split}: {step:?}"
            );
        }
        let mut connection = connect(&status, &options);
        let bytes: Vec<&[u8]> = request.chunks(1).collect();
        assert_eq!(send(&mut *connection, &bytes), whole, "{name} byte by byte");
    }
}

/// The responder of every protocol sends the same bytes for the first request of a client in two
/// pieces as for one in one piece.
#[test]
fn requests_of_every_protocol_may_be_split() {
    let mut streams = registry::responders();
    streams.retain(|protocol| protocol.info().transport == Transport::Stream);
    for protocol in streams {
        let id = protocol.info().id;
        let keys = Keys::new([7; 16]);
        let responder = protocol.responder(&statuses::plain(3), &keys, &Options::default());
        let responder = responder.unwrap();
        let mut request = Vec::new();
        let mut exchange = protocol.exchange(&Ask::default(), Cookie(5));
        exchange.handle(Input::Start, &mut request);
        if request.is_empty() {
            continue;
        }
        let whole = send(&mut *responder.connection(from()).unwrap(), &[&request]);
        assert!(!whole.0.is_empty(), "{id}");
        for split in 1..request.len() {
            let (start, end) = request.split_at(split);
            let mut connection = responder.connection(from()).unwrap();
            let pieces = send(&mut *connection, &[start, end]);
            assert_eq!(pieces, whole, "{id} after {split}");
        }
    }
}

#[test]
fn legacy_requests_get_their_form() {
    let mut status = statuses::plain(3);
    status.motd = Some(Text::legacy("\u{A7}6Gold\nline"));
    status.version = Some("1.21.8".into());
    let reply = |request: &[u8]| {
        let (bytes, step) = send(&mut *connect(&status, &Options::default()), &[request]);
        assert_eq!(step, ConnectionStep::Close);
        let units: Vec<u16> = bytes[3..]
            .chunks(2)
            .map(|unit| u16::from_be_bytes([unit[0], unit[1]]))
            .collect();
        assert_eq!(&bytes[..1], [0xFF]);
        assert_eq!(
            usize::from(bytes[1]) << 8 | usize::from(bytes[2]),
            units.len()
        );
        String::from_utf16(&units).unwrap()
    };
    let (unknown, _) = send(
        &mut *connect(&Status::default(), &Options::default()),
        &[b"\xFE"],
    );
    assert!(unknown.ends_with(b"\0\xA7\x000\0\xA7\x000"), "counts of 0");
    assert_eq!(reply(b"\xFE"), "Gold line\u{A7}3\u{A7}100");
    let newer = "\u{A7}1\x00772\x001.21.8\0\u{A7}6Gold line\x003\x00100";
    assert_eq!(reply(b"\xFE\x01"), newer);
    let mut full = Vec::new();
    message::write_legacy_request(message::LegacyForm::Full, "h", 1, &mut full);
    assert_eq!(reply(&full), newer);
    // Clients that send the start of the 1.6 form only, or texts in bytes instead of UTF-16.
    assert_eq!(reply(&full[..3]), newer);
    let in_bytes = b"\xFE\x01\xFA\0\x0BMC|PingHost\0\x10\x4A\0\x09127.0.0.1\x64\x64";
    assert_eq!(reply(in_bytes), newer);
    assert_eq!(reply(&[&full[..], b"more"].concat()), newer);
    // The other forms may start with FE alone, so it gets no reply before a pause.
    let mut out = Vec::new();
    let mut connection = connect(&status, &Options::default());
    for start in [&full[..1], &full[..1]] {
        let received = connection.receive(NOW, start, &mut out);
        assert_eq!(
            (received.consumed, received.step),
            (0, ConnectionStep::Wait)
        );
    }
    assert!(out.is_empty());
    let paused = connection.pause(&full[..1], &mut out);
    assert_eq!((paused.consumed, paused.step), (1, ConnectionStep::Close));
    assert!(!out.is_empty());
    out.clear();
    let after = connection.receive(NOW, &full[..1], &mut out);
    assert_eq!((after.step, out.len()), (ConnectionStep::Close, 0));
}

/// A pause in a request that has an end sends nothing.
#[test]
fn only_requests_without_an_end_are_complete_after_a_pause() {
    let handshake = handshake();
    for start in [&handshake[..], &handshake[..5], b"\x02", b""] {
        let mut connection = connect(&Status::default(), &Options::default());
        let mut out = Vec::new();
        let received = connection.receive(NOW, start, &mut out);
        let paused = connection.pause(&start[received.consumed..], &mut out);
        assert_eq!((paused.consumed, paused.step), (0, ConnectionStep::Wait));
        assert!(out.is_empty(), "{start:02x?}");
    }
}

/// Servers that send less than the length of their packet keep the connection open.
#[test]
fn the_whole_text_is_usable_without_the_rest_of_its_packet() {
    let mut exchange = protocol().exchange(&Ask::default(), Cookie(1));
    exchange.handle(Input::Start, &mut Vec::new());
    let mut reply = vec![99, 0, 19];
    reply.extend(b"{\"description\":\"x\"}");
    for end in 0..reply.len() {
        assert!(!exchange.is_usable_start(&reply[..end]), "{end}");
        assert!(matches!(
            exchange.frame(&reply[..end]),
            Ok(Frame::Incomplete { .. })
        ));
    }
    assert!(exchange.is_usable_start(&reply));
    let mut out = Vec::new();
    assert_eq!(
        exchange.handle(Input::Datagram(&reply), &mut out),
        Step::Send
    );
    assert!(!exchange.is_usable_start(&reply), "waits for the pong");
    let pong = exchange.handle(Input::Datagram(&out.clone()), &mut out);
    let Step::Done(status) = pong else {
        panic!("{pong:?}")
    };
    assert_eq!(status.motd, Some(Text::legacy("x")));
    let met: Vec<_> = status.deviations.iter().map(|met| met.name).collect();
    assert_eq!(met, ["no-version", "no-players", "length-wrong"]);
    // Neither another packet nor a kick.
    let mut exchange = protocol().exchange(&Ask::default(), Cookie(1));
    exchange.handle(Input::Start, &mut Vec::new());
    for other in [
        &b"\x63\0\0a"[..],
        b"\x63\x01\x01a",
        b"\xFF\0\x02\0a",
        b"\x63\0\xFF\xFF\xFF\xFF\x0F",
    ] {
        assert!(!exchange.is_usable_start(other), "{other:02x?}");
    }
}

#[test]
fn joins_are_kicked_and_reported() {
    let options = Options::default().with("kick", "\u{A7}eStarting up.\nTry again in a minute.");
    let mut request = Vec::new();
    let host = "Play.Example.ORG.\0FML2\0".into();
    message::Handshake {
        protocol: 767,
        host,
        port: 25566,
        intent: message::Intent::Login,
    }
    .write(&mut request);
    let mut connection = connect(&Status::default(), &options);
    let (reply, step) = send(&mut *connection, &[&request]);
    assert_eq!((reply, step), (vec![], ConnectionStep::Wait));
    request.extend(b"\x16\0\x04Alex0123456789abcdef");
    let mut connection = connect(&Status::default(), &options);
    let (reply, step) = send(&mut *connection, &[&request]);
    assert_eq!(step, ConnectionStep::Close);
    let json = "{\"text\":\"\u{A7}eStarting up.\\nTry again in a minute.\"}";
    let expected = [
        &[json.len() as u8 + 2, 0, json.len() as u8],
        json.as_bytes(),
    ]
    .concat();
    assert_eq!(reply, expected);
    let join = connection.join_attempt().unwrap();
    assert_eq!(
        (&*join.name, &*join.host, join.port, join.protocol),
        ("Alex", "play.example.org", 25566, 767)
    );

    let old = b"\x02\x27\0\x05\0S\0t\0e\0v\0e\0\x01\0h\0\0\x63\xDD";
    let older = b"\x02\0\x0D\0S\0t\0e\0v\0e\0;\0h\0:\x002\x005\x005\x006\x005";
    for (request, protocol) in [(&old[..], 39), (older, 0)] {
        let mut connection = connect(&Status::default(), &options);
        let (reply, step) = send(&mut *connection, &[request]);
        assert_eq!(step, ConnectionStep::Close, "{request:02x?}");
        assert!(
            reply.starts_with(b"\xFF\0\x25\0\xA7\0e\0S\0t"),
            "{reply:02x?}"
        );
        let join = connection.join_attempt().unwrap();
        assert_eq!(
            (&*join.name, &*join.host, join.port, join.protocol),
            ("Steve", "h", 25565, protocol)
        );
    }
    // A status request is no attempt to join.
    let mut connection = connect(&Status::default(), &options);
    send(&mut *connection, &[b"\xFE\x01"]);
    assert_eq!(connection.join_attempt(), None);
}

#[test]
fn joins_with_hosts_of_all_lengths_are_reported() {
    // A packet length of 254, 382 and so on starts with the byte of a legacy ping.
    for length in (0..=600).chain([3_000]) {
        let mut request = Vec::new();
        let intent = message::Intent::Login;
        let host = format!("h\0{}", "a".repeat(length)).into();
        let (protocol, port) = (47, 25565);
        message::Handshake {
            protocol,
            host,
            port,
            intent,
        }
        .write(&mut request);
        let mut connection = connect(&Status::default(), &Options::default());
        let (reply, step) = send(&mut *connection, &[&request]);
        assert_eq!((reply.len(), step), (0, ConnectionStep::Wait), "{length}");
        let (_, step) = send(&mut *connection, &[b"\x06\0\x04Alex"]);
        assert_eq!(step, ConnectionStep::Close, "{length}");
        assert_eq!(connection.join_attempt().unwrap().name, "Alex");
    }
}

#[test]
fn the_protocol_number_is_that_of_client_status_or_option() {
    let number = |status: &Status, options: &Options, client| {
        let mut request = Vec::new();
        let intent = message::Intent::Status;
        message::Handshake {
            protocol: client,
            host: "h".into(),
            port: 1,
            intent,
        }
        .write(&mut request);
        request.extend([1, 0]);
        let (reply, step) = send(&mut *connect(status, options), &[&request]);
        assert_eq!(step, ConnectionStep::Wait, "a ping may follow");
        let reply = String::from_utf8_lossy(&reply).into_owned();
        let (_, after) = reply.split_once("\"protocol\":").unwrap();
        after[..after.find('}').unwrap()].parse::<i32>().unwrap()
    };
    let plain = Status::default();
    let none = Options::default();
    assert_eq!(number(&plain, &none, 47), 47);
    assert_eq!(number(&plain, &none, i32::MAX), i32::MAX);
    assert_eq!(number(&plain, &none, 0), 0);
    assert_eq!(number(&plain, &none, -1), minecraft_status::NEWEST);
    let mut own = Status::default();
    own.extra.push(hailer_proto::Extra::new("protocol", 5));
    assert_eq!(number(&own, &none, 47), 5);
    let echo = Options::default().with("protocol", "echo");
    assert_eq!(number(&own, &echo, 47), 47);
    let fixed = Options::default().with("protocol", 340i64);
    assert_eq!(number(&own, &fixed, 47), 340);
    for wrong in [
        Options::default().with("protocol", "newest"),
        Options::default().with("protocol", 1i64 << 32),
        Options::default().with("icon", "icon.png"),
        Options::default().with("icon", 1i64),
        Options::default().with("kick", 1i64),
        Options::default().with("motd", "x"),
    ] {
        assert!(
            protocol()
                .responder(&plain, &Keys::new([7; 16]), &wrong)
                .is_err(),
            "{wrong:?}"
        );
    }
}

#[test]
fn invalid_requests_close_the_connection() {
    let start = |more: &[u8]| [&handshake()[..], more].concat();
    for (request, error) in [
        (
            start(&[1, 0, 1, 0]),
            "packet length at offset 0: expected 9, a ping",
        ),
        (
            start(&[1, 5]),
            "packet id at offset 1: expected 0, a status request",
        ),
        (
            start(&[0xFF, 0xFF, 0xFF, 0xFF]),
            "packet length at offset 0: expected a varint of at most 3 bytes",
        ),
        (
            start(&[0x81, 0x19]),
            "packet length at offset 0: more than 3200, the most accepted",
        ),
        (
            start(&[0; 5_000]),
            "connection at offset 0: more than 4096, the most accepted",
        ),
    ] {
        let (_, step) = send(
            &mut *connect(&Status::default(), &Options::default()),
            &[&request],
        );
        match step {
            ConnectionStep::Bad(found) => assert_eq!(found.to_string(), error),
            other => panic!("{other:?} instead of {error}"),
        }
    }
    // Others can have what does not start a handshake.
    for request in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\xFE\xFD\x09\0\0\0\x01",
        b"\x16\x03\x01\x02\0\x01\0",
        b"\0",
        b"\xFF\0\x01\0a",
        b"SSH-2.0-OpenSSH",
        b"\x07\0\x2F\x01h\0\x01\x04",
    ] {
        let (reply, step) = send(
            &mut *connect(&Status::default(), &Options::default()),
            &[request],
        );
        assert_eq!(
            (reply, step),
            (vec![], ConnectionStep::Pass),
            "{request:02x?}"
        );
    }
}

/// Passes one reply to a client that waits for a status.
fn receive(reply: &[u8]) -> (Step, Duration) {
    let mut exchange = protocol().exchange(&Ask::default(), Cookie(1));
    let mut out = Vec::new();
    exchange.handle(Input::Start, &mut out);
    out.clear();
    let started = Instant::now();
    let step = match exchange.frame(reply) {
        Ok(Frame::Complete(length)) => exchange.handle(Input::Datagram(&reply[..length]), &mut out),
        Ok(Frame::Incomplete { total }) => {
            assert!(total <= 3 + message::MAX_PACKET_BYTES * 2, "{total}");
            Step::Wait
        }
        Err(error) => Step::Bad(error.into()),
    };
    (step, started.elapsed())
}

fn status(json: &str) -> Vec<u8> {
    let mut body = vec![0];
    message::write_string(json, &mut body);
    let mut out = Vec::new();
    message::write_packet(&body, &mut out);
    out
}

/// Replies of 2 MB that take long in naive parsers: each ends with a status or with an error that
/// names field and offset, in bounded time.
#[test]
fn hostile_replies_are_bounded() {
    const SIZE: usize = 2_000_000;
    let fill = |unit: &str| unit.repeat(SIZE / unit.len());
    let object = |key: &str, value: String| status(&format!("{{\"{key}\":{value}}}"));
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    let field = "at offset";
    for (name, reply, expected) in [
        ("lists", status(&fill("[")), field),
        ("objects", status(&fill("{\"a\":")), field),
        ("numbers", object("a", format!("[{}1]", fill("1,"))), field),
        (
            "keys",
            status(&format!("{{{}\"a\":1}}", fill("\"a\":1,"))),
            field,
        ),
        (
            "keys below the limit",
            status(&format!("{{{}\"a\":1}}", "\"a\":1,".repeat(49_000))),
            "",
        ),
        (
            "other keys",
            status(&format!(
                "{{{}\"a\":1}}",
                (0..49_000)
                    .map(|i| format!("\"k{i}\":1,"))
                    .collect::<String>()
            )),
            "",
        ),
        ("a long text", object("a", format!("\"{}\"", fill("x"))), ""),
        (
            "a long description",
            object("description", format!("\"{}\"", fill("x"))),
            field,
        ),
        (
            "codes",
            object("description", format!("\"{}\"", fill("\u{A7}a"))),
            field,
        ),
        (
            "escapes",
            object("description", format!("[\"{}\"]", fill("\\u00a7"))),
            "",
        ),
        (
            "deep components",
            object("description", nested("{\"extra\":[", "]}", 64)),
            field,
        ),
        (
            "many components",
            object("description", format!("[{}1]", "1,".repeat(90_000))),
            field,
        ),
        (
            "arguments",
            object(
                "description",
                format!(
                    "{{\"translate\":\"{}\",\"with\":[\"{}\"]}}",
                    "%1$s".repeat(90_000),
                    "\u{A7}a".repeat(400_000)
                ),
            ),
            field,
        ),
        (
            "empty arguments",
            object(
                "description",
                format!(
                    "{{\"translate\":\"{}\",\"with\":[{{{}\"b\":1}}]}}",
                    "%1$s".repeat(9_000),
                    "\"a\":1,".repeat(45_000)
                ),
            ),
            field,
        ),
        (
            "an icon",
            object(
                "favicon",
                format!("\"data:image/png;base64,{}\"", fill("A")),
            ),
            "",
        ),
        (
            "players",
            object(
                "players",
                format!(
                    "{{\"sample\":[{}{{}}]}}",
                    "{\"name\":\"a\"},".repeat(30_000)
                ),
            ),
            "",
        ),
        (
            "mods",
            object("forgeData", format!("{{\"d\":\"{}\"}}", fill("\u{7FFF}"))),
            "",
        ),
        (
            "zero mods",
            object(
                "forgeData",
                format!("{{\"d\":\"\u{7FFF}\u{7FFF}{}\"}}", fill("\0")),
            ),
            "",
        ),
        ("an overlong varint", vec![0xFF; 8], field),
    ] {
        let (step, time) = receive(&reply);
        match &step {
            Step::Bad(fault @ Fault::Malformed(_)) => {
                assert!(
                    !expected.is_empty() && fault.to_string().contains(expected),
                    "{name}: {fault}"
                );
            }
            // The ping follows a status.
            Step::Send => assert_eq!(expected, "", "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        // Generous, for a debug build on a busy machine; quadratic work takes minutes.
        assert!(time < Duration::from_secs(20), "{name}: {time:?}");
    }
}

/// Each cut of a status in its JSON is an error that names a field, not a status.
#[test]
fn every_cut_names_a_field() {
    let whole = &vector::vectors(protocol())
        .into_iter()
        .find(|vector| vector.name.ends_with("/status"))
        .unwrap()
        .bytes;
    for end in 0..whole.len() {
        let mut exchange = protocol().exchange(&Ask::default(), Cookie(1));
        exchange.handle(Input::Start, &mut Vec::new());
        let step = exchange.handle(Input::Closed(&whole[..end]), &mut Vec::new());
        match step {
            Step::Bad(Fault::Malformed(wire::Error { field, at, .. })) => {
                assert!(!field.is_empty() && at <= end);
            }
            Step::Reconnect => assert_eq!(end, 0),
            other => panic!("cut to {end}: {other:?}"),
        }
    }
}

/// The longest texts and lists still fit into what the game accepts.
#[test]
fn replies_of_the_responder_fit() {
    let mut status = statuses::plain(300);
    status.motd = Some(Text::legacy(
        "\u{A7}x\u{A7}1\u{A7}2\u{A7}3\u{A7}4\u{A7}5\u{A7}6\u{1}".repeat(9_000),
    ));
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.resize(20_000, 7);
    for icon in [1_000, 20_000, 60_000] {
        png.resize(icon, 7);
        status.icon = hailer_proto::Icon::from_png(&png).ok();
        let request = [&handshake()[..], &[1, 0]].concat();
        let (reply, _) = send(&mut *connect(&status, &Options::default()), &[&request]);
        let units = String::from_utf8_lossy(&reply).encode_utf16().count();
        assert!(units < 32_767, "{units}");
        let (step, _) = receive(&reply);
        assert_eq!(step, Step::Send);
    }
}

/// Parts of a status that is too long are left out in order.
#[test]
fn long_replies_lose_icon_then_sample_then_mods() {
    let request = [&handshake()[..], &[1, 0]].concat();
    let parts = |icon: usize, name: usize, mods: usize| {
        let mut status = statuses::plain(0);
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.resize(icon, 7);
        status.icon = hailer_proto::Icon::from_png(&png).ok();
        status
            .extra
            .push(hailer_proto::Extra::new("mod-loader", "FML"));
        let mut rows = hailer_proto::Rows::with_capacity(COLUMNS, mods);
        for _ in 0..mods {
            rows.push([Some(&*"x".repeat(80)), Some("1")]);
        }
        status.extra.push(hailer_proto::Extra::new(
            "mods",
            hailer_proto::Value::Rows(rows),
        ));
        let player = hailer_proto::Player::named(Text::unformatted("y".repeat(name)));
        status.players.set_list(vec![player; 12]);
        let (reply, _) = send(&mut *connect(&status, &Options::default()), &[&request]);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        ["favicon", "sample", "modinfo"].map(|key| reply.contains(key))
    };
    assert_eq!(parts(1_000, 16, 10), [true, true, true]);
    assert_eq!(parts(40_000, 16, 10), [false, true, true]);
    assert_eq!(parts(40_000, 16, 1_000), [false, false, false]);
    // 110 bytes for each mod and 116 for each player: without the sample, the mods fit.
    assert_eq!(parts(40_000, 64, 268), [false, false, true]);
}

/// Numbers have at most 5 bytes, and texts before 1.7 at most 32,767 units.
#[test]
fn numbers_and_texts_have_limits() {
    let six = [0x80, 0x80, 0x80, 0x80, 0x80, 0];
    let packet = |body: &[u8]| {
        let mut out = Vec::new();
        message::write_packet(body, &mut out);
        out
    };
    for (reply, field) in [
        (packet(&six), "packet id"),
        (packet(&[&[0][..], &six].concat()), "JSON length"),
    ] {
        let (step, _) = receive(&reply);
        let Step::Bad(fault) = step else {
            panic!("{step:?}")
        };
        let text = fault.to_string();
        assert!(
            text.starts_with(field) && text.ends_with("at most 5 bytes"),
            "{text}"
        );
    }
    for (request, field) in [
        (packet(&six), "packet id"),
        (packet(&[&[0][..], &six].concat()), "protocol"),
        (packet(&[&[0, 47][..], &six].concat()), "host"),
        (
            packet(&[&[0, 47, 1, b'h', 0, 1][..], &six].concat()),
            "intent",
        ),
    ] {
        let mut notes = wire::Notes::default();
        let error = message::Handshake::read(&mut wire::Reader::new(&request, &mut notes));
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with(field) && error.ends_with("at most 5 bytes"),
            "{error}"
        );
    }
    let login = packet(&six);
    let mut notes = wire::Notes::default();
    let error = message::read_login_start(&mut wire::Reader::new(&login, &mut notes));
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("at most 5 bytes"), "{error}");
    let kick = |units: u16| message::legacy_length(&[&[0xFF][..], &units.to_be_bytes()].concat());
    assert_eq!(kick(32_767), Ok(Err(3 + 2 * 32_767)));
    assert!(kick(32_768).is_err());
    // Requests have successive numbers.
    let mut exchange = protocol().exchange(&Ask::default(), Cookie(1));
    exchange.handle(Input::Start, &mut Vec::new());
    assert_eq!(exchange.stage(), 0);
    exchange.handle(Input::Datagram(&status("{}")), &mut Vec::new());
    assert_eq!(exchange.stage(), 1);
}

const COLUMNS: &&[&str] = &(&["id", "version"] as &[_]);

/// Clients before 1.16 do not know these colors, and texts of codes only are no version.
#[test]
fn legacy_replies_have_the_nearest_named_color() {
    let text = |motd: &str, version: &str| {
        let mut status = statuses::plain(0);
        status.motd = Some(Text::legacy(motd));
        status.version = Some(version.into());
        let (bytes, _) = send(&mut *connect(&status, &Options::default()), &[b"\xFE\x01"]);
        let units: Vec<u16> = bytes[3..]
            .chunks(2)
            .map(|unit| u16::from_be_bytes([unit[0], unit[1]]))
            .collect();
        let text = String::from_utf16(&units).unwrap();
        let parts: Vec<&str> = text.split('\0').collect();
        format!("{}|{}", parts[2], parts[3])
    };
    assert_eq!(text("\u{A7}aGreen", "1.8"), "1.8|\u{A7}aGreen");
    let hex = "\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0RGB";
    assert_eq!(text(hex, "\u{A7}a1.8"), "1.8|\u{A7}6RGB");
    assert_eq!(text("\u{A7}#FF8800RGB", "\u{A7}a"), "Minecraft|\u{A7}6RGB");
}

#[test]
fn every_depth_reads_its_fields() {
    let status = minecraft_status::PROTOCOL.sample(3);
    let keys = Keys::new([7; 16]);
    let responder = protocol()
        .responder(&status, &keys, &Options::default())
        .unwrap();
    for (depth, requests) in [(Depth::Ping, 1), (Depth::Basic, 1), (Depth::Full, 2)] {
        let ask = Ask {
            depth,
            ..Ask::default()
        };
        let mut exchange = protocol().exchange(&ask, Cookie(1));
        let mut server = hailer_proto::testing::memory::Server::new(&*responder, from(), NOW);
        let mut sent = 0;
        let step =
            hailer_proto::testing::memory::run(&mut *exchange, &mut server, |direction, _| {
                sent += usize::from(direction == hailer_proto::Direction::Request);
            });
        let Step::Done(found) = step else {
            panic!("{step:?}")
        };
        assert_eq!(sent, requests, "{depth:?}");
        match depth {
            Depth::Ping => assert_eq!(*found, Status::default()),
            Depth::Basic => {
                assert_eq!(
                    (&found.motd, &found.version),
                    (&status.motd, &status.version)
                );
                assert_eq!(found.players.online, status.players.online);
                assert_eq!((found.players.list.len(), &found.icon), (0, &None));
            }
            Depth::Full => assert_eq!(*found, status),
        }
    }
}

#[test]
fn the_uuid_of_a_login_is_read_in_all_its_forms() {
    let uuid: [u8; 16] = std::array::from_fn(|i| i as u8 + 1);
    let login = |rest: &[u8]| {
        let mut packet = Vec::new();
        message::write_packet(&[b"\x00\x05Alice", rest].concat(), &mut packet);
        packet
    };
    let read = |rest: &[u8], protocol| {
        let packet = login(rest);
        let mut notes = wire::Notes::default();
        let mut reader = wire::Reader::new(&packet, &mut notes);
        let login = message::read_login_start(&mut reader).unwrap();
        assert_eq!(login.name, "Alice");
        login.uuid(protocol)
    };
    let signed = [&[1; 300][..], &[1], &uuid].concat();
    for (rest, protocol, expected) in [
        (vec![], 758, None),
        (vec![0], 759, None),
        // A signature of 1.19, and no UUID.
        (vec![1; 300], 759, None),
        ([&[0, 1][..], &uuid].concat(), 760, Some(uuid)),
        (vec![0, 0], 760, None),
        (signed, 760, Some(uuid)),
        ([&[1][..], &uuid].concat(), 761, Some(uuid)),
        (vec![0], 763, None),
        (uuid.to_vec(), 764, Some(uuid)),
        (uuid[1..].to_vec(), 772, None),
    ] {
        assert_eq!(read(&rest, protocol), expected, "{protocol} {rest:?}");
    }
}
