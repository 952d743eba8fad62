//! The client: one attempt to join, with a version that the server rejects
//! (spec/terraria-join.md#4).

use super::message::{self, REQUEST, Reply, WRONG_VERSION};
use crate::model::{Extra, Status};
use crate::one_request::stream::{Format, frame_of};
use crate::protocol::{Fault, Frame};
use crate::wire::{Error, Notes, by_content};
use alloc::{boxed::Box, vec::Vec};

/// Keys of texts and their meanings. Other texts are reported as sent.
const REFUSALS: [(&[u8], &str); 3] = [
    (WRONG_VERSION, "wrong-version"),
    (b"CLI.ServerIsFull", "full"),
    (b"LegacyMultiplayer.3", "banned"),
];

/// Format of request and reply.
#[derive(Debug)]
pub struct TerrariaFormat;

impl Format for TerrariaFormat {
    const CLOSED: &'static str = "it closes the connection without a reply";

    fn write_request(out: &mut Vec<u8>) {
        out.extend_from_slice(REQUEST);
    }

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        let length = message::packet_length(bytes)?;
        Ok(frame_of(bytes.len(), length.unwrap_or(3)))
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        let mut status = Box::<Status>::default();
        match Reply::read(bytes, notes)? {
            Reply::Rejected { is_key, text } => {
                let known = REFUSALS.iter().find(|(key, _)| is_key && *key == text);
                let refusal = match known {
                    Some((_, refusal)) => Extra::new("refusal", *refusal),
                    None => Extra::new("refusal", &*by_content(text).0),
                };
                status.extra.push(refusal);
            }
            Reply::Slot => status.has_password = Some(false),
            Reply::Password => status.has_password = Some(true),
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_are_translated() {
        for (mode, refusal) in [(2, "full"), (0, "CLI.ServerIsFull")] {
            let text = b"CLI.ServerIsFull";
            let mut packet = Vec::from([0, 0, 2, mode, text.len() as u8]);
            packet.extend(text);
            packet.extend((mode > 0).then_some(0));
            packet[0] = packet.len() as u8;
            let status = TerrariaFormat::read(&packet, &mut Notes::default()).unwrap();
            assert_eq!(status.extra("refusal"), Some(&refusal.into()));
        }
    }
}
