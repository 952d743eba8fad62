//! The passive reader on whole sessions in every wire version.

use hailer_minecraft::sample::SampleRng;
use hailer_minecraft::tap::{Tap, TapError, TapPacket};
use hailer_minecraft::{Build, PacketDirection};
use hailer_testkit::session::Session;

/// Returns all packets that are available.
fn all(tap: &mut Tap) -> Vec<TapPacket> {
    std::iter::from_fn(|| tap.next().unwrap()).collect()
}

fn bytes_of(seen: &[TapPacket], direction: PacketDirection) -> Vec<&[u8]> {
    seen.iter()
        .filter(|seen| seen.direction == direction)
        .map(|seen| &seen.bytes[..])
        .collect()
}

/// Asserts that these packets have the bytes of all packets that the session sends in a direction.
#[track_caller]
fn assert_sees(seen: &[TapPacket], session: &Session, direction: PacketDirection) {
    assert_eq!(
        bytes_of(seen, direction),
        session.packets_of(direction),
        "{} {direction}",
        session.build
    );
}

/// Feeds the session in random pieces, then ends it.
fn watch(session: &Session, tap: &mut Tap, dice: &mut SampleRng, widest: usize) -> Vec<TapPacket> {
    let mut seen = Vec::new();
    for (direction, wire) in &session.wire {
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(dice.below(rest.len().min(widest)) + 1);
            tap.push(*direction, now);
            seen.extend(all(tap));
            rest = later;
        }
    }
    tap.end();
    seen.extend(all(tap));
    seen
}

fn sessions() -> impl Iterator<Item = Session> {
    let each = Build::DIALECTS
        .iter()
        .flat_map(|&build| [(build, true), (build, false)]);
    each.flat_map(|(build, encrypted)| {
        (0..3).map(move |seed| Session::new(build, encrypted, 150, seed))
    })
}

#[test]
fn sessions_are_decoded_and_the_build_is_detected() {
    let mut dice = SampleRng::new(1);
    for session in sessions() {
        for widest in [1, 5, 100, 10_000] {
            let mut tap = Tap::new(None, session.secret.clone());
            let seen = watch(&session, &mut tap, &mut dice, widest);
            let about = (session.build, session.secret.is_some());
            // If no packet differs between two builds with the same number, both stay possible.
            let may_stay = match session.build.protocol() {
                32 => session.secret.is_none(),
                38 => true,
                _ => false,
            };
            match tap.build() {
                Some(build) => assert_eq!(build.dialect(), session.build),
                None => assert!(may_stay, "{about:?}"),
            }
            for direction in PacketDirection::BOTH {
                assert_eq!(
                    bytes_of(&seen, direction),
                    session.packets_of(direction),
                    "{about:?} {direction}"
                );
                let mut offset = 0;
                for seen in seen.iter().filter(|seen| seen.direction == direction) {
                    assert_eq!(seen.offset, offset);
                    offset += seen.bytes.len() as u64;
                }
                assert_eq!(
                    (tap.sealed(direction), tap.rest(direction)),
                    (None, &[][..])
                );
                assert_eq!(
                    tap.encrypted_at(direction).is_some(),
                    session.secret.is_some()
                );
            }
            if widest == 1 {
                let order: Vec<_> = session
                    .packets
                    .iter()
                    .map(|(direction, bytes)| (*direction, &bytes[..]))
                    .collect();
                let settled = ![32, 38].contains(&session.build.protocol());
                let read: Vec<_> = seen
                    .iter()
                    .map(|seen| (seen.direction, &seen.bytes[..]))
                    .collect();
                assert!(!settled || read == order, "{about:?}");
            }
        }
    }
}

#[test]
fn packets_after_encryption_need_the_secret() {
    let mut dice = SampleRng::new(2);
    for session in sessions().filter(|session| session.secret.is_some()) {
        let mut tap = Tap::new(None, None);
        let seen = watch(&session, &mut tap, &mut dice, 400);
        let names: Vec<_> = seen.iter().map(|seen| seen.packet.name()).collect();
        assert_eq!(
            names,
            [
                "Handshake",
                "EncryptionRequest",
                "EncryptionResponse",
                "EncryptionResponse"
            ]
        );
        for direction in PacketDirection::BOTH {
            let sealed = tap.sealed(direction).unwrap();
            assert_eq!(
                (sealed.offset + sealed.bytes) as usize,
                session.stream(direction).len()
            );
            assert_eq!(
                sealed.offset,
                bytes_of(&seen, direction)
                    .iter()
                    .map(|bytes| bytes.len() as u64)
                    .sum::<u64>()
            );
        }
    }
}

#[test]
fn one_direction_is_enough() {
    for session in sessions() {
        for direction in PacketDirection::BOTH {
            let stream = session.stream(direction);
            // The direction to the client does not name the build.
            let build = (direction == PacketDirection::ToClient).then_some(session.build);
            let mut tap = Tap::new(build, session.secret.clone());
            let mut seen = Vec::new();
            for piece in stream.chunks(777) {
                tap.push(direction, piece);
                seen.extend(all(&mut tap));
            }
            tap.end();
            seen.extend(all(&mut tap));
            assert_sees(&seen, &session, direction);
        }
    }
}

/// Packets that are the same in several builds are parsed as the newest of them, so only bytes are
/// compared.
#[test]
fn wrong_builds_are_dropped_at_invalid_packets() {
    for session in sessions().filter(|session| session.secret.is_none()) {
        let mut tap = Tap::new(None, None);
        tap.push(
            PacketDirection::ToClient,
            &session.stream(PacketDirection::ToClient),
        );
        tap.end();
        assert_sees(&all(&mut tap), &session, PacketDirection::ToClient);
    }
}

#[test]
fn either_direction_may_come_first() {
    for session in sessions() {
        let mut tap = Tap::new(None, session.secret.clone());
        let mut seen = Vec::new();
        for direction in PacketDirection::BOTH {
            tap.push(direction, &session.stream(direction));
        }
        tap.end();
        seen.extend(all(&mut tap));
        for direction in PacketDirection::BOTH {
            assert_sees(&seen, &session, direction);
        }
    }
}

#[test]
fn an_error_ends_its_direction_only() {
    let session = Session::new(Build::W30c, false, 50, 9);
    let mut tap = Tap::new(None, None);
    let to_server = session.stream(PacketDirection::ToServer);
    tap.push(PacketDirection::ToServer, &to_server);
    tap.push(PacketDirection::ToServer, &[0x45, 1, 2, 3]);
    tap.push(
        PacketDirection::ToClient,
        &session.stream(PacketDirection::ToClient),
    );
    let mut seen = Vec::new();
    let mut errors = Vec::new();
    loop {
        match tap.next() {
            Ok(Some(packet)) => seen.push(packet),
            Ok(None) => break,
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(
        bytes_of(&seen, PacketDirection::ToClient),
        session.packets_of(PacketDirection::ToClient)
    );
    let [(PacketDirection::ToServer, TapError::Packet(broken))] = errors[..] else {
        panic!("{errors:?}")
    };
    assert_eq!(
        (broken.id, broken.at, broken.packet),
        (0x45, to_server.len() as u64, None)
    );
    assert_eq!(tap.rest(PacketDirection::ToServer), [0x45, 1, 2, 3]);
}

#[test]
fn other_clients_are_reported() {
    let mut tap = Tap::new(None, None);
    tap.push(PacketDirection::ToServer, &[0x02, 51, 0, 1]);
    assert_eq!(
        tap.next().unwrap_err().1.to_string(),
        "protocol 51, known are 29 to 39"
    );
    assert_eq!(tap.next(), Ok(None));

    let session = Session::new(Build::W30c, true, 1, 1);
    let mut tap = Tap::new(None, Some(vec![0; 32]));
    tap.push(
        PacketDirection::ToServer,
        &session.stream(PacketDirection::ToServer),
    );
    assert_eq!((tap.next().unwrap().unwrap().packet.name()), "Handshake");
    assert_eq!(
        (tap.next().unwrap().unwrap().packet.name()),
        "EncryptionResponse"
    );
    let error = tap.next().unwrap_err().1.to_string();
    assert!(
        error.contains("needs a shared secret of 16 bytes, not 32"),
        "{error}"
    );
}

#[test]
fn reads_pings() {
    let mut tap = Tap::new(None, None);
    tap.push(PacketDirection::ToServer, &[0xFE]);
    tap.push(
        PacketDirection::ToClient,
        &[
            0xFF, 0, 6, 0, 0x41, 0, 0xA7, 0, 0x30, 0, 0xA7, 0, 0x32, 0, 0x30,
        ],
    );
    let names: Vec<_> = all(&mut tap)
        .iter()
        .map(|seen| seen.packet.at(seen.build).to_string())
        .collect();
    assert_eq!(names, ["ServerListPing", "Kick reason=A§0§20"]);
}

#[test]
fn noise_never_panics() {
    let mut dice = SampleRng::new(3);
    for round in 0..300 {
        let secret = (round % 3 == 0).then(|| dice.bytes(16));
        let mut tap = Tap::new(None, secret);
        for _ in 0..dice.below(30) {
            let direction = PacketDirection::BOTH[dice.below(2)];
            let count = dice.below(200);
            let noise = dice.bytes(count);
            tap.push(direction, &noise);
            while tap.next() != Ok(None) {}
        }
        tap.end();
        while tap.next() != Ok(None) {}
    }
}
