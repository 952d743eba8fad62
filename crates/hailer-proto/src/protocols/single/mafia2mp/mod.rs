//! Mafia II Multiplayer and Mafia II Online: one request, one reply. UDP.
//!
//! ```text
//!   client         server
//!     "M2MP"    ─►
//!               ◄─  "M2MP" name, counts, mode, password, players
//! ```
//!
//! Request and reply start with the same bytes, and the client's address is not verified, so Hailer has
//! no responder (spec/mafia2mp.md#6).

mod client;
pub mod deviation;
pub mod message;

pub use client::Mafia2MpClient;

use crate::one_request::datagram::SingleExchange;
use crate::protocol::{Ask, Cookie, DatagramContext, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Mafia2Mp;

static INFO: Info = Info {
    id: "mafia2mp",
    title: "Mafia II Multiplayer",
    port: 27_017,
    declares_charset: false,
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

impl Protocol for Mafia2Mp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::new(ask, Mafia2MpClient::new(ask)))
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
