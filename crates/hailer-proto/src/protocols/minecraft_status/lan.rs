//! Announcements of worlds that a player opened to the local network (spec/minecraft-status.md#12).

use crate::wire::cut;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use memchr::memmem;

/// Multicast group and port of announcements.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 2, 60), 4445);
/// Time between two announcements of a server.
pub const INTERVAL: core::time::Duration = core::time::Duration::from_millis(1_500);
/// Longest description that [`write()`] sends, in bytes. With it, a datagram needs no fragments.
pub const MAX_MOTD: usize = 1_024;

const MOTD: (&[u8], &[u8]) = (b"[MOTD]", b"[/MOTD]");
const ADDRESS: (&[u8], &[u8]) = (b"[AD]", b"[/AD]");

/// Returns the port of an announced server, or `None` if the bytes are not an announcement. The
/// address is that of the sender, not one in the text.
pub fn port_of(bytes: &[u8]) -> Option<u16> {
    let (_, rest) = between(bytes, MOTD)?;
    let (address, _) = between(rest, ADDRESS)?;
    let address = core::str::from_utf8(address).ok()?;
    let port = address.rsplit(':').next().unwrap_or(address);
    // `parse` accepts a sign.
    let port = port.parse().ok().filter(|_| !port.starts_with('+'));
    port.filter(|port| *port > 0)
}

/// Returns the bytes between the first opening mark and the next closing one, and those after it.
fn between<'a>(bytes: &'a [u8], (open, close): (&[u8], &[u8])) -> Option<(&'a [u8], &'a [u8])> {
    let start = memmem::find(bytes, open)? + open.len();
    let rest = bytes.get(start..)?;
    let length = memmem::find(rest, close)?;
    Some((rest.get(..length)?, rest.get(length + close.len()..)?))
}

/// Appends the announcement of a server. The description is one line with formatting codes; what
/// exceeds [`MAX_MOTD`] is left out, and so are marks that would end it.
pub fn write(motd: &str, port: u16, out: &mut Vec<u8>) {
    let (open, close) = MOTD;
    out.extend_from_slice(open);
    for line in cut(motd, MAX_MOTD).split("[/MOTD]") {
        out.extend(
            line.bytes()
                .map(|byte| if byte == b'\n' { b' ' } else { byte }),
        );
    }
    out.extend_from_slice(close);
    let (open, close) = ADDRESS;
    out.extend_from_slice(open);
    out.extend_from_slice(alloc::format!("{port}").as_bytes());
    out.extend_from_slice(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_address_are_read() {
        for (text, port) in [
            ("[MOTD]Alice - World[/MOTD][AD]54321[/AD]", Some(54_321)),
            ("[MOTD]Alice[/MOTD][AD]192.0.2.7:25565[/AD]", Some(25_565)),
            ("[MOTD][AD]1[/AD][/MOTD][AD]2[/AD]", Some(2)),
            ("[MOTD][/MOTD][AD]65536[/AD]", None),
            ("[MOTD][/MOTD][AD]0[/AD]", None),
            ("[MOTD][/MOTD][AD]+5[/AD]", None),
            ("[MOTD][/MOTD][AD][/AD]", None),
            ("[AD]5[/AD]", None),
            ("", None),
        ] {
            assert_eq!(port_of(text.as_bytes()), port, "{text}");
        }
    }

    #[test]
    fn a_written_announcement_is_read_and_no_part_of_it() {
        let mut bytes = Vec::new();
        write("A [/MOTD][AD]1[/AD]\nworld", 25_565, &mut bytes);
        assert_eq!(bytes, b"[MOTD]A [AD]1[/AD] world[/MOTD][AD]25565[/AD]");
        assert_eq!(port_of(&bytes), Some(25_565));
        for end in 0..bytes.len() {
            assert_eq!(port_of(&bytes[..end]), None, "{end}");
        }
        let long = "ä".repeat(MAX_MOTD);
        bytes.clear();
        write(&long, 1, &mut bytes);
        assert_eq!(port_of(&bytes), Some(1));
        assert!(bytes.len() < MAX_MOTD + 32);
    }
}
