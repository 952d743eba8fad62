//! Savage 2: one request, one reply. UDP.
//!
//! ```text
//!   client        server
//!     01       ─►
//!              ◄─  12 bytes, name, counts, time, map, …
//! ```
//!
//! Nothing verifies the client's address, so Hailer has no responder (spec/savage2.md#6).

mod client;
pub mod deviation;
pub mod message;

pub use client::Savage2Client;

use crate::one_request::datagram::SingleExchange;
use crate::protocol::{
    Amplification, Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Proof, Protocol,
    Transport,
};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Savage2;

static INFO: Info = Info {
    id: "savage2",
    title: "Savage 2",
    transport: Transport::Datagram,
    port: 11_235,
    proof: Proof::Nothing,
    amplification: Amplification {
        request: 1,
        reply: 0,
    },
    fields: &[
        Doc::new("time", "Time of the match, as sent"),
        Doc::new("next-map", "Next map"),
        Doc::new("location", "Location of the server"),
        Doc::new("min-players", "Players that a match needs"),
        Doc::new("min-level", "Lowest level of players"),
    ],
    player_fields: &[],
    deviations: deviation::ALL,
    has_responder: false,
    options: &[],
};

impl Protocol for Savage2 {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn declares_charset(&self) -> bool {
        false
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::new(ask, Savage2Client))
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
