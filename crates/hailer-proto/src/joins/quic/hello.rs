//! The name of the server in the first packets of a client: SNI (RFC 6066, section 3).

use super::super::bytes_at;
use super::variable_number;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Parts of a handshake in one packet that are put together.
const MAX_PARTS: usize = 32;
/// Frames of an Initial.
const PADDING: u64 = 0;
const PING: u64 = 1;
const CRYPTO: u64 = 6;
/// Type of a ClientHello, and offset of its session id.
const CLIENT_HELLO: u8 = 1;
const SESSION_ID: usize = 4 + 2 + 32;
/// Type of the extension.
const SERVER_NAME: u16 = 0;

/// Returns the name in the decrypted frames of an Initial, in lower case.
pub(super) fn server_name(mut frames: &[u8]) -> Option<CompactString> {
    let mut parts: Vec<(usize, &[u8])> = Vec::new();
    while let Some((kind, rest)) = variable_number(frames) {
        frames = match kind {
            PADDING | PING => rest,
            CRYPTO if parts.len() < MAX_PARTS => {
                let (offset, rest) = variable_number(rest)?;
                let (length, rest) = variable_number(rest)?;
                let (data, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                parts.push((usize::try_from(offset).ok()?, data));
                rest
            }
            _ => break,
        };
    }
    // Clients send the parts in any order.
    parts.sort_unstable_by_key(|(offset, _)| *offset);
    let mut hello = Vec::new();
    for (offset, data) in parts {
        let known = hello.len().checked_sub(offset);
        let Some(new) = known.map(|known| data.get(known..).unwrap_or_default()) else {
            break;
        };
        hello.extend_from_slice(new);
    }
    let name = name_in_hello(&hello)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let text = core::str::from_utf8(name).ok()?;
    (name.iter().all(is_name) && name.len() <= 253).then(|| text.to_ascii_lowercase().into())
}

/// Returns the name in a ClientHello, of which the end may be missing.
fn name_in_hello(hello: &[u8]) -> Option<&[u8]> {
    if hello.first() != Some(&CLIENT_HELLO) {
        return None;
    }
    let rest = after(hello.get(SESSION_ID..)?, 1)?;
    let rest = after(rest, 2)?;
    let rest = after(rest, 1)?;
    let mut extensions = rest.get(2..)?;
    loop {
        let kind = u16::from_be_bytes(bytes_at(extensions, 0)?);
        let rest = extensions.get(2..)?;
        if kind == SERVER_NAME {
            // Lengths of extension and list, the type of the name, and its length.
            let length = usize::from(u16::from_be_bytes(bytes_at(rest, 5)?));
            return rest.get(7..7 + length).filter(|_| rest.get(4) == Some(&0));
        }
        extensions = after(rest, 2)?;
    }
}

/// Returns what follows a field with its length before it, in `size` bytes.
fn after(bytes: &[u8], size: usize) -> Option<&[u8]> {
    let (length, rest) = bytes.split_at_checked(size)?;
    let length = length
        .iter()
        .fold(0, |all, byte| all << 8 | usize::from(*byte));
    rest.get(length..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with the extension 10 before SNI.
    fn hello(name: &[u8]) -> Vec<u8> {
        let length = name.len() as u8;
        let mut hello = [&[CLIENT_HELLO, 0, 1, 0, 3, 3][..], &[9; 32], &[1, 7]].concat();
        hello.extend([0, 2, 0x13, 1, 1, 0, 1, 0, 0, 10, 0, 2, 0, 29]);
        hello.extend([0, 0, 0, length + 5, 0, length + 3, 0, 0, length]);
        hello.extend(name);
        hello
    }

    fn frame(offset: u8, data: &[u8]) -> Vec<u8> {
        [&[6, offset, 0x40, data.len() as u8][..], data].concat()
    }

    #[test]
    fn the_name_is_found_in_parts_of_any_order() {
        let hello = hello(b"Play.Example.com");
        let (first, second) = hello.split_at(50);
        let (second, third) = second.split_at(5);
        let found = |frames: &[&[u8]]| server_name(&frames.concat());
        let frames = [frame(0, first), frame(50, second), frame(55, third)];
        let expected = Some("play.example.com".into());
        let [a, b, c] = &frames;
        for order in [[a, b, c], [c, a, b], [b, c, a]] {
            let order = order.map(|frame| &frame[..]);
            assert_eq!(
                found(&[&[0, 1, 0], order[0], order[1], &[0], order[2], &[0; 9]]),
                expected
            );
        }
        assert_eq!(found(&[&frame(0, &hello)]), expected);
        assert_eq!(
            found(&[&frame(0, &hello), &frame(20, &hello[20..40])]),
            expected
        );
        assert_eq!(found(&[a, c]), None, "a part is missing");
    }

    #[test]
    fn no_truncated_or_odd_name_is_found() {
        let whole = hello(b"a.example");
        for length in 0..whole.len() {
            assert_eq!(server_name(&frame(0, &whole[..length])), None, "{length}");
        }
        for name in [&b"a b"[..], b"\xFF", b"a\0"] {
            assert_eq!(server_name(&frame(0, &hello(name))), None, "{name:?}");
        }
        assert_eq!(server_name(&[0x1C, 0]), None);
        let frames = frame(0, &whole);
        for length in 0..frames.len() {
            assert_eq!(server_name(&frames[..length]), None, "{length}");
        }
    }
}
