//! rFactor and ARCA Sim Racing '08: one request, one reply of fixed layout. UDP.
//!
//! ```text
//!   client         server
//!     "rF_S"    ─►
//!               ◄─  fields of fixed length, then the list of vehicles
//! ```
//!
//! Little-endian. The client's address is not verified, so Hailer has no responder
//! (spec/rfactor.md#6).

mod client;
pub mod deviation;
pub mod message;

pub use client::RFactorClient;

use crate::one_request::datagram::SingleExchange;
use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct RFactor;

static INFO: Info = Info {
    id: "rfactor",
    title: "rFactor",
    port: 34_297,
    declares_charset: false,
    fields: &[
        Doc::new("aids", "Driving aids that are allowed"),
        Doc::new("damage", "Damage in percent"),
        Doc::new("time", "Time of the session, as sent"),
        Doc::new("laps", "Number of laps"),
        Doc::new("race-cast", "Whether the server runs a race cast"),
        Doc::new("fixed-setups", "Whether setups of vehicles are fixed"),
        Doc::new("vehicles", "Vehicles that are allowed"),
    ],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

impl Protocol for RFactor {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::new(ask, RFactorClient))
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
