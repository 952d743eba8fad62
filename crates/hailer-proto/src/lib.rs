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
//! Modules import only from modules further right: [`games`] > [`registry`] > the protocol
//! folders > [`gamespy`], [`http`], [`infostring`], [`single_datagram`] > [`master`], [`protocol`] >
//! [`sample`] > [`token`] > [`model`] > [`wire`]. A protocol folder never imports another one.
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

pub mod a2s;
pub mod armagetron;
pub mod ase;
pub mod assetto;
pub mod battlefield;
pub mod beammp;
pub mod charset;
pub mod codepage;
mod command_lines;
pub mod cs2d;
pub mod discord;
pub mod doom3;
pub mod eco;
pub mod encoding;
pub mod factorio;
pub mod farming_simulator;
pub mod ffow;
pub mod fivem_http;
pub mod fuzzing;
pub mod games;
pub mod gamespy;
pub mod gamespy1;
pub mod gamespy2;
pub mod gamespy3;
pub mod gbx_remote;
pub mod http;
pub mod infostring;
pub mod kspdmp;
pub mod lhmp;
pub mod luanti;
pub mod mafia2mp;
pub mod master;
pub mod memory;
pub mod minecraft_bedrock;
pub mod minecraft_query;
pub mod minecraft_status;
pub mod model;
pub mod mumble;
pub mod netquake;
pub mod nitrado;
pub mod onequery;
pub mod openspades;
pub mod openttd;
pub mod openttd_info;
pub mod openttd_udp;
pub mod palworld;
pub mod protocol;
pub mod quake1;
pub mod quake2;
pub mod quake3;
pub mod registry;
pub mod rfactor;
pub mod samp;
pub mod sample;
pub mod satisfactory;
pub mod satisfactory_api;
pub mod savage2;
pub mod seven_days;
pub mod single_datagram;
pub mod single_stream;
pub mod starmade;
pub mod teamspeak2;
pub mod teamspeak3;
pub mod teamspeak_voice;
pub mod teeworlds;
pub mod terraria_join;
pub mod tibia;
pub mod token;
pub mod tribes1;
pub mod tshock;
pub mod ugp;
pub mod unreal2;
pub mod vintage_story;
pub mod wire;

pub use encoding::Charset;
pub use games::Game;
pub use model::{Address, Extra, Icon, Player, Players, Roster, Rows, Rule, Status, Text, Value};
pub use protocol::{
    Amplification, Ask, Connection, ConnectionStep, Cookie, DatagramContext, Depth, Direction,
    Discovery, Doc, Excerpt, Exchange, Explanation, Fault, Frame, Info, Input, JoinAttempt,
    OptionError, Options, Proof, Protocol, Received, Responder, ResponderResult, Route, Secret,
    Step, Tls, Transport, Verdict,
};
pub use token::{Epoch, Keys};
pub use wire::Deviation;
