//! Game server query protocols in both roles, without I/O.
//!
//! ```text
//!  query     Ask ─► Exchange ─► bytes to send       received bytes ─► Exchange ─► Status
//!  respond   Status ─► Responder                    received bytes ─► Responder ─► bytes to send
//!  explain   bytes ─► Protocol::explain ─► fields with offsets, deviations by name
//! ```
//!
//! The crate opens no socket and reads no clock, environment or random source; it is `no_std`, so
//! the compiler enforces this. Bytes, time ([`Epoch`]) and randomness ([`Cookie`], [`Keys`]) are
//! arguments.
//!
//! Modules import only from modules further right: [`games`], [`testing`], `record` > [`registry`],
//! [`joins`] > [`protocols`] > [`one_request`] > [`master`], [`protocol`] > [`sample`], [`token`] > [`model`] >
//! [`wire`].
//!
//! # Example
//!
//! Both roles of one protocol in memory:
//!
//! ```
//! use hailer_proto::{Ask, Cookie, Epoch, Input, Keys, Options, Status, Step, Text, Verdict, registry};
//!
//! let protocol = registry::find("minecraft-query").unwrap();
//! let status = Status { motd: Some(Text::legacy("Hello")), ..Status::default() };
//! let responder = protocol.responder(&status, &Keys::new([7; 16]), &Options::default()).unwrap();
//! let mut exchange = protocol.exchange(&Ask::default(), Cookie(42));
//!
//! let client = "192.0.2.7:50000".parse().unwrap();
//! let epoch = Epoch::at(1_795_000_000);
//! let (mut request, mut reply) = (Vec::new(), Vec::new());
//! let mut step = exchange.handle(Input::Start, &mut request);
//! let received = loop {
//!     match step {
//!         Step::Send => {
//!             let verdict = responder.answer(client, epoch, &request, &mut reply);
//!             assert!(matches!(verdict, Verdict::Reply { .. }));
//!         }
//!         Step::Done(status) => break status,
//!         other => panic!("{other:?}"),
//!     }
//!     request.clear();
//!     step = exchange.handle(Input::Datagram(&reply), &mut request);
//!     reply.clear();
//! };
//! assert_eq!(received.title().as_deref(), Some("Hello"));
//! ```
//!
//! May import: nothing of this workspace.
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

pub mod games;
pub mod joins;
pub mod master;
pub mod model;
pub mod one_request;
pub mod protocol;
pub mod protocols;
#[cfg(feature = "serde")]
pub mod record;
pub mod registry;
pub mod sample;
pub mod testing;
pub mod token;
pub mod wire;

pub use games::Game;
pub use model::{
    Address, Charset, Extra, Icon, Player, Players, Roster, Rows, Rule, Status, Text, Value,
};
pub use protocol::{
    Amplification, Ask, Connection, ConnectionStep, Cookie, DatagramContext, Depth, Destination,
    Direction, Discovery, Doc, Excerpt, Exchange, Explanation, Fault, Frame, Info, Input,
    JoinAttempt, MaxReply, OptionError, Options, Proof, Protocol, Received, Responder,
    ResponderResult, Route, Secret, Step, Tls, Transport, Verdict, Wave,
};
pub use protocols::gamespy::minecraft_query;
pub use protocols::quake::quake3;
pub use protocols::single::starmade;
pub use protocols::{a2s, http, minecraft_bedrock, minecraft_status, onequery, ugp};
pub use token::{Epoch, Keys};
pub use wire::Deviation;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
