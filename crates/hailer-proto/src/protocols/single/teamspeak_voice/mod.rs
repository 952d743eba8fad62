//! TeamSpeak 3, 5 and 6: whether a virtual server is up. UDP, on its port for voice.
//!
//! ```text
//!   client                                   server
//!     TS3INIT1 … step 0, 4 random bytes  ─►
//!                                        ◄─  TS3INIT1 … step 1, 16 bytes, the 4 bytes reversed
//! ```
//!
//! This is the start of the handshake of clients. The server keeps nothing before a later step.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::VoiceExchange;
pub use server::VoiceResponder;

use crate::model::Status;
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Exchange, Explanation, Info, Options, Protocol,
    ResponderResult,
};
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct TeamSpeakVoice;

static INFO: Info = Info {
    id: "teamspeak-voice",
    title: "TeamSpeak (up or down)",
    port: 9987,
    amplification: Amplification {
        request: message::REQUEST_BYTES,
        reply: message::REPLY_BYTES,
    },
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::DATAGRAM
};

impl Protocol for TeamSpeakVoice {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, _: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        Box::new(VoiceExchange::new(cookie))
    }

    fn responder(&self, _: &Status, keys: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(VoiceResponder::new(keys)))
    }

    fn sample(&self, _: u64) -> Status {
        Status::default()
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        message::explain(bytes, seen.direction(), notes)
    }
}
