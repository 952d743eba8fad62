//! The responder: the next step of the handshake, shorter than its request
//! (spec/teamspeak-voice.md#5).

use super::message;
use crate::protocol::{Responder, Verdict};
use crate::token::{Epoch, Keys};
use crate::wire::Notes;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Purpose of the hash in replies.
const PURPOSE: u8 = b'V';

/// Responder of any server.
#[derive(Debug)]
pub struct VoiceResponder {
    keys: Keys,
}

impl VoiceResponder {
    /// Creates a responder with these keys.
    pub fn new(keys: &Keys) -> Self {
        Self { keys: keys.clone() }
    }
}

impl Responder for VoiceResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !message::is_request(bytes) {
            return Verdict::Pass;
        }
        match message::read_request(bytes, &mut Notes::discarding()) {
            // A later step: clients do not continue here.
            Err(_) => Verdict::Drop("unsupported"),
            Ok(random) => {
                let cookie = self.keys.mint(PURPOSE, from, epoch).to_be_bytes();
                message::write_reply(random, cookie, out);
                Verdict::Reply { is_verified: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::VoiceExchange;
    use super::*;
    use crate::protocol::{Cookie, Exchange, Input, Step};
    use alloc::boxed::Box;

    #[test]
    fn the_handshake_ends_after_one_reply() {
        let responder = VoiceResponder::new(&Keys::new([7; 16]));
        let mut exchange = VoiceExchange::new(Cookie(5));
        let mut request = Vec::new();
        let mut reply = Vec::new();
        exchange.handle(Input::Start, &mut request);
        let from = "192.0.2.7:50000".parse().unwrap();
        let verdict = responder.answer(from, Epoch(1), &request, &mut reply);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert!(reply.len() < request.len());
        let step = exchange.handle(Input::Datagram(&reply), &mut Vec::new());
        assert_eq!(step, Step::Done(Box::default()));
        request[17] = 2;
        for (other, verdict) in [
            (&reply[..], Verdict::Pass),
            (&request[..33], Verdict::Pass),
            (&request[..], Verdict::Drop("unsupported")),
        ] {
            let answer = responder.answer(from, Epoch(1), other, &mut Vec::new());
            assert_eq!(answer, verdict);
        }
    }
}
