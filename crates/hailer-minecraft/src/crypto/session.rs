//! Session hash for the session server, and check of the verify token.

use hailer_proto::wire::hexadecimal;
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

/// Returns the session hash that client and server send to the session server.
/// `spec/minecraft-12w.md#6`
///
/// `id` is the server id from FD, and `public_der` the key as received. The digest is one signed
/// number in lower case hex without leading zeros.
pub fn session_hash(id: &str, secret: &[u8], public_der: &[u8]) -> String {
    let mut sha1 = Sha1::new();
    for char in id.chars() {
        // Java replaces characters outside ISO-8859-1 with a question mark.
        sha1.update([u8::try_from(char).unwrap_or(b'?')]);
    }
    sha1.update(secret);
    sha1.update(public_der);
    signed_hex(sha1.finalize().into())
}

/// Returns whether a client sent back the server's verify token. `spec/minecraft-12w.md#6`
///
/// The time depends only on the length of the tokens, not on their content.
pub fn same_token(sent: &[u8], received: &[u8]) -> bool {
    sent.ct_eq(received).into()
}

fn signed_hex(mut digest: [u8; 20]) -> String {
    let negative = digest.first().is_some_and(|byte| *byte >= 0x80);
    if negative {
        let mut carry = true;
        for byte in digest.iter_mut().rev() {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let hex = hexadecimal(&digest);
    let digits = match hex.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    format!("{}{digits}", if negative { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_spec_page() {
        assert_eq!(
            session_hash("Notch", &[], &[]),
            "4ed1f46bbe04bc756bcb17c0c7ce3e4632f06a48"
        );
        assert_eq!(
            session_hash("jeb_", &[], &[]),
            "-7c9d5b0044c130109a5d7b5fb5c317c02b4e28c1"
        );
        assert_eq!(
            session_hash("simon", &[], &[]),
            "88e16a1019277b15d58faf0541e11910eb756f6"
        );
    }

    #[test]
    fn id_secret_and_key_are_hashed_in_this_order() {
        assert_eq!(
            session_hash("N", b"ot", b"ch"),
            session_hash("Notch", &[], &[])
        );
        assert_eq!(session_hash("é", &[], &[]), session_hash("", &[0xe9], &[]));
        assert_eq!(session_hash("€", &[], &[]), session_hash("?", &[], &[]));
    }

    #[test]
    fn numbers_at_the_edges() {
        let with = |first: u8, last: u8| {
            let mut digest = [0; 20];
            digest[0] = first;
            digest[19] = last;
            signed_hex(digest)
        };
        assert_eq!(with(0, 0), "0");
        assert_eq!(with(0, 0x0a), "a");
        assert_eq!(with(0x80, 0), "-8000000000000000000000000000000000000000");
        assert_eq!(with(0x80, 1), "-7fffffffffffffffffffffffffffffffffffffff");
        assert_eq!(signed_hex([0xff; 20]), "-1");
    }

    #[test]
    fn tokens() {
        assert!(same_token(&[1, 2, 3, 4], &[1, 2, 3, 4]));
        assert!(!same_token(&[1, 2, 3, 4], &[1, 2, 3, 5]));
        assert!(!same_token(&[1, 2, 3, 4], &[1, 2, 3]));
    }
}
