//! `hailer decode`.

use crate::capture::{Capture, Link};
use crate::tool::{
    Finished, Process, Temporary, assert_harmless, command, finish, random_below, run, run_with,
};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

const HANDSHAKE: &[u8] = b"\xFE\xFD\x09\0\0\0\x01";
const UGP_PING: &[u8] = b"\xFF\xFFUGP\0\x01\0";
const CHALLENGE: &[u8] = b"ONEQUERY\0";

/// A full stat with enough players to need three packets.
fn full_stat() -> Vec<u8> {
    let mut stat = b"\0\0\0\0\x01splitnum\0\x80\0hostname\0A full house\0gametype\0SMP\0game_id\0MINECRAFT\0version\x001.21.8\0\
                     plugins\0\0map\0harbour\0numplayers\x00260\0maxplayers\x00300\0hostport\x0025565\0hostip\x00127.0.0.1\0\
                     \0\x01player_\0"
        .to_vec();
    for player in 0..260 {
        stat.extend(format!("Player_number_{player:03}\0").bytes());
    }
    stat.push(0);
    assert!(stat.len() > 4_096, "{}", stat.len());
    stat
}

fn decode(bytes: impl AsRef<[u8]>, args: &[&str]) -> Finished {
    let file = Temporary::file("capture", bytes);
    run(["decode", file.text()].iter().chain(args))
}

#[track_caller]
fn messages(output: &Finished) -> Vec<String> {
    output
        .json()
        .iter()
        .map(|line| {
            format!(
                "{} {}",
                line["protocol"].as_str().unwrap_or("?"),
                line["message"].as_str().unwrap_or("?")
            )
        })
        .collect()
}

/// Returns the text column of a hexdump.
fn graphic(bytes: &[u8]) -> String {
    let letter = |byte: &u8| match byte.is_ascii_graphic() {
        true => char::from(*byte),
        false => '.',
    };
    bytes.iter().map(letter).collect()
}

#[test]
fn accepts_hexadecimal_arguments_in_every_form() {
    for args in [
        &["fefd0900000001"][..],
        &["FEFD0900000001"],
        &["fe", "fd", "09", "00", "00", "00", "01"],
        &["fe fd 09 00 00 00 01"],
        &["fe:fd:09:00:00:00:01"],
        &["0xfe,0xfd,0x09,0x00,0x00,0x00,0x01"],
        &["\\xfe\\xfd\\x09\\x00\\x00\\x00\\x01"],
        &["fefd09", "00000001"],
    ] {
        let output = run(["decode"].iter().chain(args)).ends_with(0);
        for expected in [
            "Minecraft Query handshake request, 7 bytes",
            "magic",
            "session id",
            "fe fd",
            "00 00 00 01",
        ] {
            assert!(
                output.out.contains(expected),
                "{args:?} {expected}: {}",
                output.out
            );
        }
        assert_harmless(&output.out, false);
    }
}

#[test]
fn detects_each_protocol() {
    for (hex, expected) in [
        ("fefd0900000001", "minecraft-query handshake request"),
        ("09000000013132333400", "minecraft-query handshake reply"),
        ("ffff55475000 01 00", "ugp ping"),
        ("ffff55475000 01 80", "ugp ping"),
        ("4f4e455155455259 00", "onequery challenge request"),
    ] {
        let output = run(["decode", "--json", hex]).ends_with(0);
        assert!(
            messages(&output)[0].starts_with(expected),
            "{:?}",
            messages(&output)
        );
    }
}

#[test]
fn marks_the_first_invalid_byte() {
    let output = run(["decode", "fefd0300000001"]).ends_with(1);
    output.shows(&["malformed", "type at offset 2"]);
    let output = run(["decode", "--json", "fefd0900"]).ends_with(1).json();
    assert_eq!(
        (&output[0]["error"]["field"], &output[0]["error"]["offset"]),
        (&"session id".into(), &3.into())
    );
    let output = run(["decode", "deadbeef"]).ends_with(1);
    output.shows(&["unknown, 4 bytes", "de ad be ef"]);
}

#[test]
fn protocol_and_direction_can_be_set() {
    let output =
        run("decode --json --protocol minecraft-query --direction reply 09000000013100".split(' '))
            .ends_with(0)
            .json();
    assert_eq!(
        (&output[0]["protocol"], &output[0]["direction"]),
        (&"minecraft-query".into(), &"reply".into())
    );
    run(["decode", "--protocol", "ugp", "fefd0900000001"]).ends_with(1);
    run(["decode", "--protocol", "gopher", "00"]).ends_with(2);
    run(["decode", "--direction", "sideways", "00"]).ends_with(2);
}

#[test]
fn standard_input_may_be_lines_or_a_dump() {
    let lines =
        "# an exchange\n> fefd0900000001\n< 0900000001 31 32 33 34 00\n\nffff554750000100\n";
    let output = run_with(["decode", "--json"], lines.as_bytes()).ends_with(0);
    let dash = run_with(["decode", "--json", "-"], lines.as_bytes()).ends_with(0);
    assert_eq!(dash.out, output.out, "`-` is standard input");
    assert_eq!(
        messages(&output)[..2],
        [
            "minecraft-query handshake request",
            "minecraft-query handshake reply"
        ]
    );
    assert_eq!(
        (output.json().len(), &output.json()[1]["place"]),
        (3, &"line 3".into())
    );

    let stat = full_stat();
    let xxd: String = stat
        .chunks(16)
        .enumerate()
        .map(|(row, bytes)| {
            let pairs: Vec<String> = bytes
                .chunks(2)
                .map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect())
                .collect();
            let text = graphic(bytes);
            format!("{:08x}: {:<39}  {text}\n", row * 16, pairs.join(" "))
        })
        .collect();
    let canonical: String = stat
        .chunks(16)
        .enumerate()
        .map(|(row, bytes)| {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let (left, right) = hex.split_at(hex.len().min(8));
            let text = graphic(bytes);
            format!(
                "{:08x}  {:<23}  {:<23}  |{text}|\n",
                row * 16,
                left.join(" "),
                right.join(" ")
            )
        })
        .collect();
    for dump in [xxd, canonical] {
        for output in [
            run_with(["decode", "--json"], dump.as_bytes()),
            decode(&dump, &["--json"]),
        ] {
            let datagrams = output.ends_with(0).json();
            assert_eq!(
                (datagrams.len(), &datagrams[0]["message"]),
                (1, &"full stat reply".into())
            );
            assert_eq!(datagrams[0]["length_bytes"], stat.len());
        }
    }
}

#[test]
fn legacy_status_requests_are_detected_by_their_shape_only() {
    let lines = b"fe\nff0006004100a7003000a700320030\nfefd0900000001\n";
    let output = run_with(["decode", "--json"], lines).ends_with(0);
    assert_eq!(
        messages(&output),
        [
            "minecraft-status legacy request of beta",
            "minecraft-status legacy reply of beta",
            "minecraft-query handshake request"
        ]
    );
    for other in ["fe02", "ff0006", "ff0001004100"] {
        assert!(
            !run(["decode", other]).out.contains("Minecraft Status"),
            "{other}"
        );
    }
    let cut = [
        "decode",
        "--protocol",
        "minecraft-status",
        "--direction",
        "reply",
        "ff00060041",
    ];
    assert!(
        run(cut)
            .ends_with(1)
            .out
            .contains("text at offset 3: ends 10 bytes too early")
    );
}

#[test]
fn invalid_hexadecimal_is_refused() {
    run(["decode", "nothex"]).fails_as_usage("neither a file nor hexadecimal");
    run(["decode", "fef"])
        .fails_as_usage("neither a file nor hexadecimal: fef: an odd number of digits");
    run(["decode", ""]).fails_as_usage("no bytes");
    run(["decode", "/"]).fails_as_usage("/: this is a folder");
    run(["decode", "./no/such.pcap"]).fails_as_usage("./no/such.pcap: no such file");
    run_with(["decode"], b"").fails_as_usage("no bytes");
    run_with(["decode"], b"# nothing\n\n").fails_as_usage("no bytes");
    run_with(["decode"], b"fefd09\nhello there\n").fails_as_usage("line 2");
    run_with(["decode"], b"\xFF\xFE\xFD\xFC").fails_as_usage("neither a capture file nor text");
}

#[test]
fn reads_captures_of_every_kind() {
    for link in Link::ALL {
        let capture = Capture::new(link)
            .udp(HANDSHAKE)
            .tcp()
            .udp6(UGP_PING)
            .udp(CHALLENGE);
        let mut files: Vec<(String, Vec<u8>)> = vec![("pcapng".into(), capture.pcapng())];
        for (little, nanoseconds) in [(true, false), (true, true), (false, false), (false, true)] {
            files.push((
                format!("pcap {little} {nanoseconds}"),
                capture.pcap(little, nanoseconds),
            ));
        }
        for (kind, file) in files {
            let output = decode(&file, &["--json"]).ends_with(0);
            assert_eq!(output.err, "", "{link:?} {kind}");
            let found = output.json();
            assert_eq!(found.len(), 3, "{link:?} {kind}: {}", output.out);
            assert_eq!(messages(&output)[0], "minecraft-query handshake request");
            let places: Vec<_> = found
                .iter()
                .map(|datagram| datagram["place"].as_str().unwrap())
                .collect();
            assert_eq!(
                places[0], "#1 0.000000 s 192.0.2.7:50001 > 192.0.2.9:25565",
                "{link:?} {kind}"
            );
            assert_eq!(
                places[1], "#3 2.000000 s [2001:db8::7]:50001 > [2001:db8::9]:25565",
                "{link:?} {kind}"
            );
            // The same file on standard input.
            assert_eq!(
                run_with(["decode", "--json"], &file).ends_with(0).out,
                output.out
            );
        }
    }
}

#[test]
fn shows_captures_as_text() {
    let capture = Capture::new(Link::Ethernet)
        .udp(HANDSHAKE)
        .udp(b"something else entirely");
    let output = decode(capture.pcap(true, false), &[]).ends_with(0);
    output.shows(&["192.0.2.7:50001", "Minecraft Query handshake request"]);
    output.warns(&["not shown", "--all"]);
    let all = decode(capture.pcap(true, false), &["--all"]).ends_with(1);
    all.shows(&["unknown, 23 bytes"]);
    assert_harmless(&all.out, false);
}

#[test]
fn reassembles_fragments() {
    let stat = full_stat();
    for capture in [
        Capture::new(Link::Ethernet).fragments(&stat, 1_480),
        Capture::new(Link::Raw).fragments(&stat, 1_480).reversed(),
    ] {
        let output = decode(capture.pcap(true, false), &["--json"]).ends_with(0);
        let found = output.json();
        assert_eq!(
            (found.len(), &found[0]["length_bytes"], &found[0]["message"]),
            (1, &stat.len().into(), &"full stat reply".into())
        );
        let named = |field: &&serde_json::Value| {
            field["value"]
                .as_str()
                .unwrap()
                .contains("Player_number_259")
        };
        assert!(
            found[0]["fields"]
                .as_array()
                .unwrap()
                .iter()
                .any(|field| named(&field))
        );
    }
}

#[test]
fn shows_the_intact_part_of_a_damaged_capture() {
    let whole = Capture::new(Link::Ethernet).udp(HANDSHAKE).udp(CHALLENGE);
    for file in [
        whole.pcap(true, false),
        whole.pcap(false, true),
        whole.pcapng(),
    ] {
        let output = decode(&file[..file.len() - 3], &["--json"]);
        assert!(
            !output.err.contains("panicked") && output.err.contains("damaged or cut"),
            "{}",
            output.err
        );
        assert_eq!(messages(&output)[0], "minecraft-query handshake request");
    }
}

#[test]
fn damaged_files_never_panic() {
    let whole = Capture::new(Link::Ethernet)
        .udp(HANDSHAKE)
        .fragments(&full_stat(), 1_480)
        .udp6(UGP_PING);
    let mut random = random_below();
    let mut files: Vec<Vec<u8>> = Vec::new();
    for file in [
        whole.pcap(true, false),
        whole.pcap(false, true),
        whole.pcapng(),
    ] {
        // Cut inside each header, and at some other offsets.
        files.extend(
            [1, 4, 5, 12, 23, 24, 25, 30, 39, 40, 41, 55, 70, 83, 100]
                .map(|end| file[..end.min(file.len())].to_vec()),
        );
        for _ in 0..12 {
            let mut damaged = file.clone();
            for _ in 0..=random(8) {
                // Mostly in the headers, where damage has the most effect.
                let at = random(damaged.len().min(160));
                damaged[at] = [0, 0xFF, 0x7F, random(256) as u8][random(4)];
            }
            files.push(damaged);
        }
        let mut garbage = file[..24].to_vec();
        garbage.extend((0..5_000).map(|_| random(256) as u8));
        files.push(garbage);
    }
    files.push((0..10_000).map(|_| random(256) as u8).collect());
    files.push(vec![0; 100_000]);
    files.push(vec![b'f'; 100_001]);
    for file in files {
        let output = run_with(["decode", "--all"], &file);
        assert!(
            matches!(output.code(), Some(0..=2)),
            "{:?} {}",
            output.code(),
            output.err
        );
        assert!(!output.err.contains("panicked"), "{}", output.err);
        assert!(output.err.lines().count() <= 3, "{}", output.err);
        assert_harmless(&output.out, false);
    }
}

#[test]
fn hostile_bytes_do_not_reach_the_terminal() {
    let stat = b"\0\0\0\0\x01splitnum\0\x80\0hostname\0\x1b[2J\x9b31m\xE2\x80\xAEevil\r\n\0gametype\0SMP\0\0\x01player_\0\x1b[1mEve\0\0";
    let hex: String = stat.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = run(["decode", &hex]);
    assert_harmless(&output.out, false);
    output.shows(&["evil", "Eve"]);
    let output = run(["decode", "--json", &hex]);
    assert_harmless(&output.out, false);
    assert_eq!((output.out.lines().count(), output.json().len()), (1, 1));
}

#[test]
fn closed_output_ends_it_without_an_error() {
    let mut capture = Capture::new(Link::Ethernet);
    for _ in 0..2_000 {
        capture = capture.udp(HANDSHAKE);
    }
    let file = Temporary::file("capture", capture.pcap(true, false));
    let process = Process::start(&mut command(["decode", file.text()]));
    let (code, output) = process.ends_without_output();
    assert_eq!((code, output.as_str()), (Some(0), ""));
}

#[test]
fn shows_a_live_capture_while_it_is_written() {
    let capture = Capture::new(Link::Ethernet).udp(HANDSHAKE);
    for file in [
        capture.pcap(true, false),
        capture.pcap(false, true),
        capture.pcapng(),
    ] {
        let mut process = Process::start(command(["decode"]).stdin(Stdio::piped()));
        let mut stdin = process.child.stdin.take().unwrap();
        stdin.write_all(&file).unwrap();
        // The capture has not ended: standard input stays open while the test waits for the first
        // line.
        let mut out = BufReader::new(process.child.stdout.take().unwrap());
        let (say, output) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            say.send(line)
        });
        let line = output
            .recv_timeout(Duration::from_secs(10))
            .expect("the first datagram was not shown before the end");
        assert!(line.contains("Minecraft Query handshake request"), "{line}");
        drop(stdin);
        process.wait();
        reader.join().unwrap().unwrap();
    }
}

#[test]
fn reads_from_named_pipes() {
    let mut shell = std::process::Command::new("bash");
    let script = "\"$0\" decode <(echo fefd0900000001)";
    shell
        .args(["-c", script, env!("CARGO_BIN_EXE_hailer")])
        .stdin(Stdio::null());
    let output = finish(shell, None).ends_with(0);
    output.shows(&["handshake request"]);
}

#[test]
fn reports_a_capture_without_datagrams() {
    let output = decode(Capture::new(Link::Ethernet).tcp().pcap(true, false), &[]).ends_with(0);
    assert!(
        output.out.is_empty()
            && output
                .err
                .contains("no UDP datagram and no game session in 1 packet; queries over TCP and HTTP are not decoded\n"),
        "{}",
        output.err
    );
}
