//! TeamSpeak 3, 5 and 6: whether a virtual server is up. UDP, on its port for voice.
//!
//! ```text
//!   client                                   server
//!     TS3INIT1 … step 0, 4 random bytes  ─►
//!                                        ◄─  TS3INIT1 … step 1, 16 bytes, the 4 bytes reversed
//! ```
//!
//! This is the start of the handshake of clients. The server keeps nothing before a later step.

use crate::model::Status;
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Amplification, Fault, Info, Responder, Verdict};
use crate::token::{Epoch, Keys};
use crate::wire::{Error, Notes, Reader, Writer, deviations, hexadecimal};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

deviations! {
    RESTART "restart" "the server asks to start the handshake again";
    ECHO_DIFFERS "echo-differs" "the reply does not return the random bytes of the request";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "teamspeak-voice",
        title: "TeamSpeak (up or down)",
        port: 9987,
        place: 18,
        amplification: Amplification {
            request: REQUEST_BYTES,
            reply: REPLY_BYTES,
        },
        deviations: ALL,
        has_responder: true,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::reply("restart", Mark::Start(b"TS3INIT1\0\x65\x88\x7F")).certain(),
        Message::reply("step 1", Mark::Start(b"TS3INIT1\0\x65\x88")).certain(),
        Message::request("step 0", Mark::Start(MAGIC), |r| read_request(r).map(drop)).certain(),
    ],
    requests: Some(|_, cookie| Vec::from([request((cookie.derive(0) as u32).to_be_bytes())])),
    is_answer,
    read,
    responder: Some(|_, keys, options| {
        options.check(PROTOCOL.info.options)?;
        Ok(Arc::new(VoiceResponder { keys: keys.clone() }))
    }),
    sample: |_| Status::default(),
};

/// Starts every message, with the number of the packet.
const MAGIC: &[u8] = b"TS3INIT1\0\x65";
/// Marks an unencrypted packet of the handshake.
const KIND: u8 = 0x88;
/// Length of a request in bytes.
const REQUEST_BYTES: usize = 34;
/// Length of a reply in bytes.
const REPLY_BYTES: usize = 32;
/// Place of the step in a reply.
const REPLY_STEP: usize = 11;
/// Places of the random bytes in a request and in a reply.
const REQUEST_RANDOM: core::ops::Range<usize> = 22..26;
const REPLY_RANDOM: core::ops::Range<usize> = 28..32;
/// Steps of the handshake.
const STEP_START: u8 = 0;
const STEP_COOKIE: u8 = 1;
const STEP_RESTART: u8 = 0x7F;
/// Build of a client of 2016, in seconds since 2013. Servers accept older clients.
const CLIENT_BUILD: i32 = 0x063B_ECE9;
/// A time, which servers do not compare with theirs.
const TIME: i32 = 0x6AB1_3B80;

/// Returns a request with random bytes.
fn request(random: [u8; 4]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    // Number of the client, 0 before the handshake.
    out.extend([0, 0, KIND]);
    let mut w = Writer(&mut out);
    w.i32_be(CLIENT_BUILD).u8(STEP_START).i32_be(TIME);
    w.bytes(&random).bytes(&[0; 8]);
    out
}

fn read_request(r: &mut Reader<'_, '_>) -> Result<[u8; 4], Error> {
    r.constant(MAGIC, "magic")?;
    r.u16_be("client")?;
    r.constant(&[KIND], "kind")?;
    r.i32_be("client build")?;
    r.constant(&[STEP_START], "step")?;
    r.i32_be("time")?;
    let random = read_random(r)?;
    r.raw(8, "zeros")?;
    r.end()?;
    Ok(random)
}

fn read_random(r: &mut Reader<'_, '_>) -> Result<[u8; 4], Error> {
    let at = r.at();
    let random = r.array("random bytes")?;
    r.note(at, "random bytes", || hexadecimal(&random));
    Ok(random)
}

/// Reads a reply (spec/teamspeak-voice.md#2). It has nothing for a status.
fn read(r: &mut Reader<'_, '_>, _: &mut Status) -> Result<(), Fault> {
    r.constant(MAGIC, "magic")?;
    r.constant(&[KIND], "kind")?;
    let at = r.at();
    match r.u8("step")? {
        STEP_RESTART => return Ok(()),
        STEP_COOKIE => {}
        _ => return Err(Error::bad("step", at, "1 or 127").into()),
    }
    r.raw(16, "cookie")?;
    read_random(r)?;
    r.trailing(&TRAILING_BYTES);
    Ok(())
}

/// Every reply counts, because some networks change the random bytes (spec/teamspeak-voice.md#3).
fn is_answer(request: &[u8], reply: &[u8], notes: &mut Notes) -> bool {
    let sent = request.get(REQUEST_RANDOM).unwrap_or_default().iter();
    let returned = reply.get(REPLY_RANDOM).unwrap_or_default().iter();
    if reply.get(REPLY_STEP) == Some(&STEP_RESTART) {
        notes.deviation(&RESTART, 0);
    } else if !sent.rev().eq(returned) {
        notes.deviation(&ECHO_DIFFERS, 0);
    }
    true
}

/// Purpose of the hash in replies.
const PURPOSE: u8 = b'V';

/// Responder of any server: the next step of the handshake, shorter than its request
/// (spec/teamspeak-voice.md#5).
struct VoiceResponder {
    keys: Keys,
}

impl Responder for VoiceResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let rest = bytes.strip_prefix(MAGIC);
        if bytes.len() < REQUEST_BYTES || !matches!(rest, Some([_, _, KIND, ..])) {
            return Verdict::Pass;
        }
        let mut notes = Notes::discarding();
        let Ok(mut random) = read_request(&mut Reader::new(bytes, &mut notes)) else {
            // A later step: clients do not continue here.
            return Verdict::Drop("unsupported");
        };
        random.reverse();
        out.extend_from_slice(MAGIC);
        out.extend([KIND, STEP_COOKIE]);
        out.extend(self.keys.mint(PURPOSE, from, epoch).to_be_bytes());
        out.extend(random);
        Verdict::Reply { is_verified: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Ask, Cookie, Input, Options, Protocol, Step};
    use alloc::boxed::Box;

    #[test]
    fn the_handshake_ends_after_one_reply() {
        let keys = Keys::new([7; 16]);
        let responder = PROTOCOL.responder(&Status::default(), &keys, &Options::default());
        let responder = responder.unwrap();
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(5));
        let mut request = Vec::new();
        let mut reply = Vec::new();
        exchange.handle(Input::Start, &mut request);
        assert_eq!(request.len(), REQUEST_BYTES);
        let from = "192.0.2.7:50000".parse().unwrap();
        let verdict = responder.answer(from, Epoch(1), &request, &mut reply);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert_eq!(reply.len(), REPLY_BYTES);
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

    #[test]
    fn messages_that_are_cut_are_invalid() {
        let request = request([1, 2, 3, 4]);
        let reply = [MAGIC, &[KIND, STEP_COOKIE], &[9; 16], &[4, 3, 2, 1]].concat();
        let mut notes = Notes::default();
        assert!(is_answer(&request, &reply, &mut notes));
        let mut read_both = |request: &[u8], reply: &[u8]| {
            let request = read_request(&mut Reader::new(request, &mut notes));
            let mut r = Reader::new(reply, &mut notes);
            (request.ok(), read(&mut r, &mut Status::default()).is_ok())
        };
        assert_eq!(read_both(&request, &reply), (Some([1, 2, 3, 4]), true));
        for end in 0..request.len() {
            assert_eq!(read_both(&request[..end], b""), (None, false));
        }
        for end in 0..reply.len() {
            assert_eq!(read_both(b"", &reply[..end]), (None, false));
        }
        assert_eq!(notes.met().count(), 0);
    }
}
