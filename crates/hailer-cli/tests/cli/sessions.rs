//! `hailer decode` on game sessions: recordings, raw streams and captures.

use crate::schema::check;
use crate::session::Session;
use crate::tool::{Finished, Temporary, assert_harmless, random_below, run};
use etherparse::PacketBuilder;
use hailer::minecraft::Recorder;
use hailer::minecraft::game::table::Chat;
use hailer::minecraft::game::{Build, Packet, PacketDirection};
use std::time::Duration;

fn recording(session: &Session) -> Vec<u8> {
    let mut file = Vec::new();
    let mut recorder = Recorder::start(&mut file, session.build).unwrap();
    for (i, (direction, bytes)) in (0..).zip(&session.packets) {
        recorder
            .packet(Duration::from_millis(i * 50), *direction, bytes)
            .unwrap();
    }
    file
}

fn decode(bytes: impl AsRef<[u8]>, args: &[&str]) -> Finished {
    let file = Temporary::file("game", bytes);
    run(["decode", file.text()].iter().chain(args))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the shown packets of one direction.
#[track_caller]
fn shown(output: &Finished, direction: PacketDirection) -> Vec<String> {
    let direction = if direction == PacketDirection::ToServer {
        "to-server"
    } else {
        "to-client"
    };
    let lines = output
        .json()
        .into_iter()
        .filter(|line| line["direction"] == direction);
    lines
        .map(|line| line["hex"].as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn shows(output: &Finished, session: &Session, about: &str) {
    for direction in PacketDirection::BOTH {
        let expected: Vec<_> = session.packets_of(direction).into_iter().map(hex).collect();
        assert!(
            shown(output, direction) == expected,
            "{about} {direction}\n{}",
            output.err
        );
    }
}

/// Builds the packets of a TCP connection.
struct Tcp {
    v6: bool,
    vlan: bool,
    port: u16,
    packets: Vec<Vec<u8>>,
}

const CLIENT_SEQ: u32 = u32::MAX - 200;
const SERVER_SEQ: u32 = 77;

impl Tcp {
    fn new() -> Self {
        Self {
            v6: false,
            vlan: false,
            port: 25_565,
            packets: Vec::new(),
        }
    }

    fn packet(&self, direction: PacketDirection, seq: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
        let (from, to) = if direction == PacketDirection::ToServer {
            (7, 9)
        } else {
            (9, 7)
        };
        let ports = if direction == PacketDirection::ToServer {
            (50_001, self.port)
        } else {
            (self.port, 50_001)
        };
        let v6 = |last: u8| {
            [
                0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last,
            ]
        };
        let link = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let step = match (self.vlan, self.v6) {
            (true, true) => link
                .single_vlan(42.try_into().unwrap())
                .ipv6(v6(from), v6(to), 64),
            (true, false) => link.single_vlan(42.try_into().unwrap()).ipv4(
                [192, 0, 2, from],
                [192, 0, 2, to],
                64,
            ),
            (false, true) => link.ipv6(v6(from), v6(to), 64),
            (false, false) => link.ipv4([192, 0, 2, from], [192, 0, 2, to], 64),
        };
        let mut tcp = step.tcp(ports.0, ports.1, seq, 8_192);
        if flags.contains('S') {
            tcp = tcp.syn();
        }
        if flags.contains('A') {
            tcp = tcp.ack(1);
        }
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, payload).unwrap();
        bytes
    }

    fn open(mut self) -> Self {
        self.packets
            .push(self.packet(PacketDirection::ToServer, CLIENT_SEQ, "S", &[]));
        self.packets
            .push(self.packet(PacketDirection::ToClient, SERVER_SEQ, "SA", &[]));
        self.packets
            .push(self.packet(PacketDirection::ToServer, CLIENT_SEQ + 1, "A", &[]));
        self
    }

    /// Adds all data of a session, in segments of at most `size` bytes.
    fn session(mut self, session: &Session, size: usize) -> Self {
        let mut seqs = [CLIENT_SEQ.wrapping_add(1), SERVER_SEQ + 1];
        for (direction, wire) in &session.wire {
            for piece in wire.chunks(size) {
                let seq = &mut seqs[usize::from(*direction == PacketDirection::ToClient)];
                self.packets.push(self.packet(*direction, *seq, "A", piece));
                *seq = seq.wrapping_add(piece.len() as u32);
            }
        }
        self
    }

    fn pcap(&self) -> Vec<u8> {
        let mut file = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
        file.extend([
            2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0,
        ]);
        for (i, packet) in (0_u32..).zip(&self.packets) {
            let length = packet.len() as u32;
            let second = 1_700_000_000 + i / 1_000;
            let fraction = i % 1_000 * 1_000;
            file.extend(
                [second, fraction, length, length]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
            file.extend(packet);
        }
        file
    }
}

fn secret_of(session: &Session) -> String {
    hex(session.secret.as_deref().unwrap())
}

#[test]
fn shows_recordings_with_one_line_per_packet() {
    for &build in Build::DIALECTS {
        let session = Session::new(build, true, 100, 1);
        let file = recording(&session);
        let output = decode(&file, &[]).ends_with(0);
        assert_eq!(output.out.lines().count(), session.packets.len());
        assert_harmless(&output.out, false);
        assert!(
            output.out.starts_with("→ 0.000000 s 0x02 Handshake "),
            "{}",
            output.out
        );
        let output = decode(&file, &["--json", "--hex"]).ends_with(0);
        shows(&output, &session, build.name());
        check("packet-v2.json", &output);
        check(
            "packet-v2.json",
            &decode(&file, &["--json", "--long", "--only", "Handshake,Login"]).ends_with(0),
        );
    }
}

#[test]
fn filters_packets_by_name_id_and_direction() {
    let session = Session::new(Build::LATEST, false, 300, 2);
    let file = recording(&session);
    let names = |args: &[&str]| {
        let output = decode(&file, &[&["--json"], args].concat()).ends_with(0);
        output
            .json()
            .iter()
            .map(|line| line["packet"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = names(&[]);
    let only = |names: &[&str]| {
        all.iter()
            .filter(|name| names.contains(&name.as_str()))
            .count()
    };
    assert_eq!(
        names(&["--only", "chat,0x0"]).len(),
        only(&["Chat", "KeepAlive"])
    );
    assert_eq!(
        names(&["--only", "chat", "--only", "kick"]).len(),
        only(&["Chat", "Kick"])
    );
    assert_eq!(
        names(&["--hide", "CHAT"]).len(),
        all.len() - only(&["Chat"])
    );
    assert_eq!(
        names(&["--direction", "to-server"]).len(),
        session.packets_of(PacketDirection::ToServer).len()
    );
    let output = decode(&file, &["--hide", "Chat"]).ends_with(0);
    output.warns(&["not shown"]);
    for (word, expected) in [
        ("Chta", "did you mean Chat?"),
        ("0x45", "no packet has this id"),
        ("", "no packet"),
    ] {
        let output = decode(&file, &["--only", word]).ends_with(2);
        output.warns(&[expected]);
    }
}

#[test]
fn summary_counts_packets() {
    let session = Session::new(Build::LATEST, false, 300, 3);
    let file = recording(&session);
    let output = decode(&file, &["--summary", "--json"]).ends_with(0);
    let summary = check("packet-summary-v2.json", &output);
    let sum = |key: &str| {
        summary[0]["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[key].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(sum("packets"), session.packets.len() as u64);
    assert_eq!(
        sum("bytes"),
        session
            .packets
            .iter()
            .map(|(_, bytes)| bytes.len() as u64)
            .sum::<u64>()
    );
    let odd = |output: &Finished| output.out.lines().last().unwrap().to_owned();
    let output = decode(&file, &["--summary"]).ends_with(0);
    output.shows(&["0x02 Handshake", "  all "]);
    assert!(
        odd(&output).starts_with("each encodes back"),
        "{}",
        output.out
    );
    // A boolean with the value 2.
    let file = "# hailer session 1\n# build 1.3.2\n> 0 0a02\n> 1 0a01\n";
    let output = decode(file, &["--summary"]).ends_with(0);
    assert!(
        output.out.contains(", 1 odd") && odd(&output).starts_with("1 odd"),
        "{}",
        output.out
    );
}

#[test]
fn invalid_lines_of_a_recording_are_reported_and_skipped() {
    let head = "# hailer session 1\n# build 1.3.2\n";
    for (line, expected) in [
        ("< 0 45aabb", "0x45 unknown"),
        ("< 0 030002004100", "0x03 Chat"),
        ("< 0 03ffff", "text at offset 1"),
        ("< 0 030001004199", "end of packet at offset 5"),
    ] {
        let output = decode(
            format!("{head}{line}\n< 1.5 030001 0041\n").replace("030001 ", "030001"),
            &[],
        )
        .ends_with(1);
        output.shows(&[expected, "malformed"]);
        assert!(
            output.out.ends_with("← 1.500000 s 0x03 Chat text=A\n"),
            "{}",
            output.out
        );
        check(
            "packet-v2.json",
            &decode(format!("{head}{line}\n"), &["--json", "--long"]).ends_with(1),
        );
    }
    let output = decode(format!("{head}? what\n< 1 ff0000\n"), &[]).ends_with(1);
    output.shows(&["Kick"]);
    output.warns(&["line 3: must begin with"]);
}

#[test]
fn reads_streams_with_their_secret() {
    for &build in Build::DIALECTS {
        let session = Session::new(build, true, 60, 4);
        let mut args = vec!["--json", "--hex", "--build", build.name()];
        let secret = session.secret.as_deref().map(hex);
        if let Some(secret) = &secret {
            args.extend(["--secret", secret]);
        }
        for (direction, name) in [
            (PacketDirection::ToServer, "to-server"),
            (PacketDirection::ToClient, "to-client"),
        ] {
            let output = decode(
                session.stream(direction),
                &[&["--stream", name], &args[..]].concat(),
            )
            .ends_with(0);
            let expected: Vec<_> = session.packets_of(direction).into_iter().map(hex).collect();
            assert_eq!(shown(&output, direction), expected, "{build} {direction}");
            check("packet-v2.json", &output);
        }
        let one = Temporary::file("s", session.stream(PacketDirection::ToServer));
        let two = Temporary::file("c", session.stream(PacketDirection::ToClient));
        // The handshake determines the build.
        args.drain(2..4);
        let both = ["decode", "--stream", "both", one.text(), two.text()];
        shows(
            &run(both.iter().chain(&args)).ends_with(0),
            &session,
            build.name(),
        );
    }
}

#[test]
fn explains_hexadecimal_packets() {
    let mut bytes = Vec::new();
    Packet::from(Chat {
        text: "Hi \u{1b}[2J".into(),
    })
    .write(&mut bytes, Build::LATEST);
    let output = run([
        "decode",
        "--build",
        "1.3.2",
        "--stream",
        "to-client",
        &hex(&bytes),
    ])
    .ends_with(0);
    assert!(
        output.out.starts_with("← 0x03 Chat, offset 0, 17 bytes\n") && output.out.contains("text"),
        "{}",
        output.out
    );
    assert_harmless(&output.out, false);
    let output = run([
        "decode",
        "--build",
        "12w30a",
        "--stream",
        "to-client",
        "45 01",
    ])
    .ends_with(1);
    output.shows(&["0x45 unknown", "45 01"]);
    let output = run("decode --build 12w30a --stream to-client 0300054100".split(' ')).ends_with(1);
    output.shows(&["0x03 Chat"]);
    output.warns(&["in the middle of a packet"]);
    run(["decode", "--build", "1.3.2", "03"])
        .fails_as_usage("--stream to-server or --stream to-client");
    run(["decode", "--stream", "both", "03"]).fails_as_usage("takes two files");
    run(["decode", "--stream", "to-client", "xyz"])
        .fails_as_usage("neither one file nor hexadecimal");
    run(["decode", "--build", "2.0", "--stream", "to-client", "03"]).ends_with(2);
    run(["decode", "--secret", "00", "--stream", "to-client", "03"]).ends_with(2);
}

#[test]
fn reassembles_captures_in_any_order() {
    for &build in Build::DIALECTS {
        let session = Session::new(build, build != Build::W22a, 60, 5);
        let secret = session.secret.as_deref().map(hex);
        let mut args = vec!["--json", "--hex"];
        if let Some(secret) = &secret {
            args.extend(["--secret", secret]);
        }
        for (shape, change) in [
            ("as sent", (|_| {}) as fn(&mut Vec<Vec<u8>>)),
            ("twice", |packets| {
                *packets = packets
                    .iter()
                    .flat_map(|packet| [packet.clone(), packet.clone()])
                    .collect();
            }),
            ("neighbors swapped", |packets| {
                packets[3..].chunks_mut(2).for_each(<[_]>::reverse);
            }),
            ("in threes, backwards", |packets| {
                packets[3..].chunks_mut(3).for_each(<[_]>::reverse);
            }),
        ] {
            let mut tcp = Tcp {
                v6: build == Build::W19a,
                vlan: build == Build::W21a,
                ..Tcp::new()
            };
            tcp = tcp.open().session(&session, 311);
            change(&mut tcp.packets);
            let output = decode(tcp.pcap(), &args).ends_with(0);
            shows(&output, &session, &format!("{build} {shape}"));
        }
    }
}

#[test]
fn reports_missing_segments() {
    let session = Session::new(Build::LATEST, false, 80, 6);
    let mut tcp = Tcp::new().open().session(&session, 100);
    let lost = tcp.packets.len() / 2;
    tcp.packets.remove(lost);
    let output = decode(tcp.pcap(), &["--json", "--hex"]).ends_with(1);
    output.warns(&["missing at offset", "192.0.2.7:50001 > 192.0.2.9:25565"]);
    let whole = PacketDirection::BOTH.iter().filter(|direction| {
        shown(&output, **direction).len() == session.packets_of(**direction).len()
    });
    assert_eq!(whole.count(), 1, "the other direction is read to its end");
}

#[test]
fn reads_captures_without_the_secret_up_to_the_encryption() {
    let session = Session::new(Build::LATEST, true, 20, 7);
    let tcp = Tcp::new().open().session(&session, 1_000);
    let output = decode(tcp.pcap(), &[]).ends_with(0);
    assert_eq!(output.out.lines().count(), 4, "{}", output.out);
    assert_eq!(
        output.err.matches("encrypted from offset").count(),
        2,
        "{}",
        output.err
    );
    let wrong = decode(tcp.pcap(), &["--secret", &"00".repeat(16)]).ends_with(1);
    wrong.warns(&["the secret may be another connection's"]);
    let short = decode(tcp.pcap(), &["--secret", &"00".repeat(32)]).ends_with(1);
    short.warns(&["16 bytes, not 32"]);
}

#[test]
fn secrets_are_found_by_address() {
    let session = Session::new(Build::W19a, true, 40, 8);
    let tcp = Tcp::new().open().session(&session, 500);
    let line = |client: &str, secret: &str| {
        format!("2023-11-14T22:13:20Z {client} 192.0.2.9:25565 client 12w19a {secret}\n")
    };
    let text = format!(
        "# mine\n{}{}",
        line("192.0.2.8:50001", &"00".repeat(32)),
        line("192.0.2.7:50001", &secret_of(&session))
    );
    let secrets = Temporary::file("secrets", text);
    let output = decode(
        tcp.pcap(),
        &["--json", "--hex", "--secrets", secrets.text()],
    )
    .ends_with(0);
    shows(&output, &session, "by address");
    let wrong = Temporary::file(
        "secrets",
        format!("{}nonsense deadbeef\n", line("192.0.2.7:1", "00")),
    );
    let output = decode(tcp.pcap(), &["--secrets", wrong.text()]).ends_with(2);
    assert!(
        output.err.contains("line 2") && !output.err.contains("deadbeef"),
        "{}",
        output.err
    );
}

#[test]
fn finds_the_game_on_other_ports_and_among_datagrams() {
    let session = Session::new(Build::LATEST, false, 20, 9);
    let mut tcp = Tcp {
        port: 4_711,
        ..Tcp::new()
    }
    .open()
    .session(&session, 500);
    let mut datagram = Vec::new();
    let udp = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([192, 0, 2, 7], [192, 0, 2, 9], 64)
        .udp(50_001, 25_565);
    udp.write(&mut datagram, b"\xFE\xFD\x09\0\0\0\x01").unwrap();
    tcp.packets.insert(5, datagram);
    let count = session.packets.len();
    for (args, expected) in [
        (&[][..], count + 1),
        (&["--port", "4711"], count + 1),
        (&["--port", "4712"], 1),
    ] {
        let output = decode(tcp.pcap(), &[&["--json"], args].concat()).ends_with(0);
        assert_eq!(output.json().len(), expected, "{args:?}");
        assert_eq!(
            output
                .json()
                .iter()
                .filter(|line| line["schema"] == "hailer/datagram/2")
                .count(),
            1
        );
    }
    // Unrelated traffic on another port.
    let mut other = Tcp {
        port: 80,
        ..Tcp::new()
    }
    .open();
    other.packets.push(other.packet(
        PacketDirection::ToServer,
        CLIENT_SEQ.wrapping_add(1),
        "A",
        b"GET / HTTP/1.1\r\n\r\n",
    ));
    let output = decode(other.pcap(), &[]).ends_with(0);
    output.warns(&["no game session"]);
    // A capture that starts in the middle of a session.
    let mut late = Tcp::new().session(&session, 500);
    late.packets.drain(..6);
    let output = decode(late.pcap(), &[]).ends_with(1);
    output.warns(&["began before the capture"]);
}

#[test]
fn swapped_stream_files_are_recognized() {
    for &build in Build::DIALECTS {
        let session = Session::new(build, false, 10, 5);
        let to_server = Temporary::file("s", session.stream(PacketDirection::ToServer));
        let to_client = Temporary::file("c", session.stream(PacketDirection::ToClient));
        let hint = "first the file of bytes to the server";
        let swapped = [
            "decode",
            "--stream",
            "both",
            to_client.text(),
            to_server.text(),
        ];
        let printed = run(swapped).ends_with(1);
        assert!(printed.err.contains(hint), "{build}: {}", printed.err);
        let right = [
            "decode",
            "--stream",
            "both",
            to_server.text(),
            to_client.text(),
        ];
        let printed = run(right).ends_with(0);
        assert!(!printed.err.contains(hint), "{build}: {}", printed.err);
    }
}

#[test]
fn invalid_stream_error_has_row_field_and_offset() {
    let session = Session::new(Build::LATEST, false, 5, 10);
    let mut stream = session.stream(PacketDirection::ToClient);
    // The last packet, a kick, has 11 bytes.
    let at = stream.len() - 11;
    stream.truncate(at);
    stream.extend([0x1D, 0xFF, 1, 2, 3]);
    let output = decode(&stream, &["--stream", "to-client", "--build", "1.3.2"]).ends_with(1);
    assert!(
        output
            .out
            .contains(&format!("0x1D DestroyEntities, offset {at}, 5 bytes")),
        "{}",
        output.out
    );
    output.shows(&["1d", "not understood", "malformed"]);
    output.warns(&["entities at offset 1", "nothing after it can be read"]);
}

#[test]
fn damaged_game_captures_never_panic() {
    let session = Session::new(Build::LATEST, true, 30, 11);
    let file = Tcp::new().open().session(&session, 200).pcap();
    let mut random = random_below();
    for round in 0..40 {
        let mut damaged = file.clone();
        for _ in 0..=random(30) {
            let at = 24 + random(damaged.len() - 24);
            damaged[at] = random(256) as u8;
        }
        let secret = secret_of(&session);
        let args: &[&str] = if round % 2 == 0 {
            &["--secret", &secret]
        } else {
            &["--long"]
        };
        let output = decode(damaged, args);
        assert!(
            matches!(output.code(), Some(0..=1)) && !output.err.contains("panicked"),
            "{}",
            output.err
        );
        assert_harmless(&output.out, false);
    }
}
