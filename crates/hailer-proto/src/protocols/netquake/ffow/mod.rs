//! Frontlines: Fuel of War: a variant of A2S with other letters and byte order. UDP.
//!
//! ```text
//!   client                       server
//!     FF FF FF FF "FLSQ"      ─►
//!                             ◄─  FF FF FF FF "I" protocol, name, map, …
//!     FF FF FF FF "W"         ─►
//!                             ◄─  FF FF FF FF "A" challenge
//!     FF FF FF FF "U" challenge ─►
//!                             ◄─  FF FF FF FF "D" players
//!     FF FF FF FF "V" challenge ─►
//!                             ◄─  FF FF FF FF "E" rules
//! ```
//!
//! Big-endian. The largest reply needs no challenge, so Hailer has no responder (spec/ffow.md#8).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;

pub use client::FfowExchange;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Ffow;

static INFO: Info = Info {
    id: "ffow",
    title: "Frontlines: Fuel of War",
    port: 5478,
    declares_charset: false,
    fields: &[
        Doc::new("protocol-version", "Version of the protocol"),
        Doc::new("mod", "Folder of the mod"),
        Doc::new(
            "server-type",
            "Type of the server: a letter such as `d` for dedicated",
        ),
        Doc::new(
            "system",
            "Operating system: a letter such as `w` for Windows",
        ),
        Doc::new("fps", "Average frames per second"),
        Doc::new("round", "Current round"),
        Doc::new("rounds", "Number of rounds"),
        Doc::new("time-left-s", "Rest of the round in seconds"),
        Doc::new(
            "unanswered",
            "Requests without a reply: `players` and `rules`",
        ),
    ],
    deviations: deviation::ALL,
    ..Info::DATAGRAM
};

impl Protocol for Ffow {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FfowExchange::new(ask))
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
