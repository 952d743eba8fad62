//! Game server query protocols in both roles, without I/O.
//!
//! ```text
//!  asking      Ask ─► Exchange ─► bytes out        bytes in ─► Exchange ─► Status
//!  answering   Status ─► Responder                 bytes in ─► Responder ─► bytes out
//!  explaining  bytes ─► Protocol::explain ─► fields with offsets, deviations by name
//! ```
//!
//! Nothing here opens a socket, reads a clock, an environment or a random source: the crate is `no_std`, so the
//! compiler enforces it. Bytes, time ([`Epoch`]) and randomness ([`Cookie`], [`Keys`]) are arguments.
//!
//! Floors of this crate, imports only go down: [`registry`] > the protocol folders > [`protocol`] > [`token`] >
//! [`model`] > [`wire`]. A protocol folder never imports another.
//!
//! ```
//! use hailer_proto::{Ask, Cookie, Epoch, Input, Keys, Options, Status, Step, Text, Verdict, registry};
//!
//! let protocol = registry::find("minecraft-query").unwrap();
//! let said = Status { motd: Some(Text::legacy("Hello")), ..Status::default() };
//! let responder = protocol.responder(&said, &Keys::new([7; 16]), &Options::default()).unwrap();
//! let mut exchange = protocol.exchange(&Ask::default(), Cookie(42));
//!
//! let (asker, epoch) = ("192.0.2.7:50000".parse().unwrap(), Epoch::at(1_795_000_000));
//! let (mut request, mut reply) = (Vec::new(), Vec::new());
//! let mut step = exchange.handle(Input::Start, &mut request);
//! let heard = loop {
//!     match step {
//!         Step::Send => assert!(matches!(responder.answer(asker, epoch, &request, &mut reply), Verdict::Reply { .. })),
//!         Step::Done(status) => break status,
//!         other => panic!("{other:?}"),
//!     }
//!     request.clear();
//!     step = exchange.handle(Input::Datagram(&reply), &mut request);
//!     reply.clear();
//! };
//! assert_eq!(heard.title().as_deref(), Some("Hello"));
//! ```
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod fuzzing;
pub mod minecraft_12w;
pub mod minecraft_query;
pub mod model;
pub mod onequery;
pub mod protocol;
pub mod registry;
pub mod token;
pub mod ugp;
pub mod wire;

pub use model::{Address, Extra, Player, Players, Roster, Rows, Rule, Status, Text, Value};
pub use protocol::{
    Amplification, Ask, Cookie, DatagramContext, Depth, Direction, Doc, Exchange, Explanation,
    Fault, Info, Input, OptionError, Options, Proof, Protocol, Responder, Secret, Step, Transport,
    Verdict,
};
pub use token::{Epoch, Keys};
pub use wire::Deviation;
