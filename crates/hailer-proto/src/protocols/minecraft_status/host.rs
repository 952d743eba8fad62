//! The host in the first bytes of a client, by which several servers share a port
//! (spec/minecraft-status.md#10).

use super::message::{self, Handshake, LegacyForm, LegacyLogin, LegacyRequest, MAX_HOST_UNITS};
use crate::wire::{Error, ErrorKind, Notes, Reader};
use alloc::string::String;

/// Longest packet that can be a handshake, with its packet length.
const MAX_HANDSHAKE_BYTES: usize = 4_096;

/// Host in the first bytes of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedHost {
    /// The client connected to this host: in lower case, without a final dot and without what Forge,
    /// BungeeCord and TCPShield append.
    Known(String),
    /// The client does not send its host, or it is another protocol.
    Missing,
    /// More bytes decide, or a pause of [`PAUSE_MS`](crate::protocol::PAUSE_MS) after a
    /// [legacy ping](message::LEGACY_PING).
    Incomplete,
}

/// Returns the host in the first bytes of a client: of a handshake since 1.7, of the list ping of
/// 1.6, or of a login of any version that sends it.
pub fn requested_host(bytes: &[u8]) -> RequestedHost {
    let mut notes = Notes::discarding();
    match bytes {
        [] => RequestedHost::Incomplete,
        _ if message::is_legacy_request(bytes) => {
            match LegacyRequest::read(&mut Reader::new(bytes, &mut notes)) {
                Ok(request) if request.form == LegacyForm::Full => known(&request.host),
                // The start of the 1.6 form, until a pause shows that nothing follows.
                Ok(_) => RequestedHost::Incomplete,
                Err(error) => incomplete_if_short(&error),
            }
        }
        [LegacyLogin::ID, ..] => match LegacyLogin::read(bytes) {
            Ok(Some(login)) if login.host.is_empty() => RequestedHost::Missing,
            Ok(Some(login)) => known(&login.host),
            Ok(None) => RequestedHost::Incomplete,
            Err(_) => RequestedHost::Missing,
        },
        _ => {
            let packet = match message::packet(bytes) {
                Ok(Some(packet)) => packet,
                Ok(None) => return RequestedHost::Incomplete,
                Err(_) => return RequestedHost::Missing,
            };
            if packet.end == packet.start || packet.end > MAX_HANDSHAKE_BYTES {
                return RequestedHost::Missing;
            }
            let is_whole = packet.end <= bytes.len();
            let part = bytes.get(..packet.end).unwrap_or(bytes);
            match Handshake::read(&mut Reader::new(part, &mut notes)) {
                Ok(handshake) => known(&handshake.host),
                Err(_) if is_whole => RequestedHost::Missing,
                Err(error) => incomplete_if_short(&error),
            }
        }
    }
}

fn known(host: &str) -> RequestedHost {
    RequestedHost::Known(message::host_name(host))
}

fn incomplete_if_short(error: &Error) -> RequestedHost {
    match error.kind {
        ErrorKind::Short { .. } => RequestedHost::Incomplete,
        _ => RequestedHost::Missing,
    }
}

/// Returns a configured host in the form of [`RequestedHost::Known`]. `None` if no client can send
/// it: it is empty, longer than 255 characters, or has characters that names and addresses do not
/// have.
pub fn configured_host(text: &str) -> Option<String> {
    let host = message::host_name(text);
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let has_good_length = !host.is_empty() && host.len() <= MAX_HOST_UNITS;
    (has_good_length && host.chars().all(is_good) && !text.contains(['/', '\0'])).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::super::message::{Intent, write_legacy_request};
    use super::*;
    use alloc::borrow::Cow;
    use alloc::format;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn handshake(host: &str, intent: Intent) -> Vec<u8> {
        let mut out = Vec::new();
        let host = Cow::Borrowed(host);
        let (protocol, port) = (772, 25565);
        Handshake {
            protocol,
            host,
            port,
            intent,
        }
        .write(&mut out);
        out
    }

    fn utf16(text: &str) -> Vec<u8> {
        let units = text.encode_utf16();
        let count = units.clone().count() as u16;
        count
            .to_be_bytes()
            .into_iter()
            .chain(units.flat_map(u16::to_be_bytes))
            .collect()
    }

    /// The first packets of clients of all versions that send a host.
    fn first_packets(host: &str) -> Vec<Vec<u8>> {
        let mut ping = Vec::new();
        write_legacy_request(LegacyForm::Full, host, 25565, &mut ping);
        let login = [
            &[2, 74][..],
            &utf16("Alice"),
            &utf16(host),
            &25565_u32.to_be_bytes(),
        ];
        let old_login = [&[2][..], &utf16(&format!("Alice;{host}:25565"))];
        let mut packets: Vec<_> = [Intent::Status, Intent::Login, Intent::Transfer]
            .map(|intent| handshake(host, intent))
            .into();
        packets.extend([ping, login.concat()]);
        // The length of that text has one byte.
        if host.len() < 200 {
            packets.push(old_login.concat());
        }
        packets
    }

    #[test]
    fn the_host_is_found_once_it_is_there() {
        let long = format!("{}.example.org", "a".repeat(243));
        assert_eq!(long.len(), 255);
        for (sent, expected) in [
            ("mc.example.org", "mc.example.org"),
            ("MC.Example.Org.", "mc.example.org"),
            ("192.0.2.7", "192.0.2.7"),
            (&long, &long),
        ] {
            for packet in first_packets(sent) {
                for end in 0..packet.len() {
                    let found = requested_host(&packet[..end]);
                    assert_eq!(found, RequestedHost::Incomplete, "{packet:?} to {end}");
                }
                let found = RequestedHost::Known(expected.into());
                assert_eq!(requested_host(&packet), found, "{packet:?}");
                let more = [&packet[..], b"\x07\0\x05Alice"].concat();
                assert!(matches!(
                    requested_host(&more),
                    RequestedHost::Known(_) | RequestedHost::Missing
                ));
            }
        }
    }

    #[test]
    fn hosts_of_all_lengths_are_found() {
        // The packet length of 254, 382 and so on starts with the byte of a legacy ping.
        for length in 1..=600 {
            let host = "a".repeat(length);
            let packet = handshake(&host, Intent::Login);
            for end in 0..packet.len().min(8) {
                assert_eq!(requested_host(&packet[..end]), RequestedHost::Incomplete);
            }
            assert_eq!(requested_host(&packet), RequestedHost::Known(host));
        }
    }

    #[test]
    fn suffixes_of_mods_and_proxies_are_ignored() {
        // BungeeCord sends address, UUID and profile of the player.
        let bungeecord = format!(
            "mc.example.org\x00192.0.2.7\x0000000000000000000000000000000000\0[{}]",
            "x".repeat(2_500)
        );
        for host in [
            "mc.example.org\0FML\0",
            "mc.example.org\0FML2\0",
            "mc.example.org.\0FML3\0",
            "mc.example.org\0FORGE",
            "mc.example.org///192.0.2.7:50000///1700000000",
            &bungeecord,
        ] {
            let found = requested_host(&handshake(host, Intent::Login));
            assert_eq!(
                found,
                RequestedHost::Known("mc.example.org".into()),
                "{host:?}"
            );
        }
    }

    #[test]
    fn bytes_without_a_host_have_none() {
        for bytes in [
            &b"\x02\0\x05\0A\0l\0i\0c\0e"[..],
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0",
            b"\x02\x4A\xFF\xFF",
            b"\x10\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
            b"\xFF\xFF\x7F\0\0",
        ] {
            assert_eq!(requested_host(bytes), RequestedHost::Missing, "{bytes:?}");
        }
        for ping in [&b"\xFE"[..], b"\xFE\x01"] {
            assert_eq!(requested_host(ping), RequestedHost::Incomplete);
        }
    }

    #[test]
    fn configured_hosts_have_the_form_of_requested_ones() {
        assert_eq!(
            configured_host("MC.Example.org."),
            Some("mc.example.org".into())
        );
        assert_eq!(configured_host("2001:db8::1"), Some("2001:db8::1".into()));
        for host in [
            "",
            ".",
            "mc example.org",
            "münchen.example",
            "mc.example.org/x",
            "a\0b",
            "http://a",
            "*.a",
            &"a".repeat(256),
        ] {
            assert_eq!(configured_host(host), None, "{host}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000,
            rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn more_bytes_never_change_a_result(
            kind in 0usize..5, changes in proptest::collection::vec((0usize..80, any::<u8>()), 0..3), tail: Vec<u8>,
        ) {
            let mut bytes = first_packets("mc.example.org").swap_remove(kind);
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.extend(tail);
            let mut first = None;
            for end in 0..=bytes.len() {
                let found = requested_host(&bytes[..end]);
                match &first {
                    Some(first) => prop_assert_eq!(&found, first),
                    None if found != RequestedHost::Incomplete => first = Some(found),
                    None => {}
                }
            }
        }
    }
}
