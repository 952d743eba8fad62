//! The Minecraft game protocol of the 1.3 pre-releases, 12w16a to 12w30e, on top of 1.2.5 and as in
//! 1.3.2: every packet of every build, both roles, without I/O.
//!
//! ```text
//!            table ─────► packet (the macro) ─────► Packet: struct, reader, writer, sampler, line of TABLE
//!              │ builds in brackets                    │
//!            types: how a field lies on the wire       │
//!                                                      ▼
//!   peer ─► receive ─► cipher ─► PacketStream ──────────► next() ─► you        one Connection, in either role,
//!   peer ◄─ outgoing ◄ cipher ◄──────────────────── send() ◄─ you        walks the table of states
//!
//!            chunk: what is inside of columns ─► World ─► map
//! ```
//!
//! - **[`Build`]**, not the protocol number, selects a layout: two numbers are shared by two
//!   protocols each.
//! - **One table**, [`table`], has a row for each packet, with the builds that have it. To change
//!   the protocol, change a row.
//! - **A stream has no frames.** Invalid data ends it. The error names packet, field and offset.
//! - Bytes, time and randomness are arguments. Nothing here opens a socket or reads a clock;
//!   `clippy.toml` enforces that.
//!
//! ```
//! use hailer_minecraft::{Build, Connection, Packet, Role, table::{Kick, ServerListPing}};
//!
//! let (mut client, mut server) = (Connection::new(Role::Client, Build::V1_3_2), Connection::new(Role::Server, Build::V1_3_2));
//! client.send(&ServerListPing {}.into()).unwrap();
//! server.receive(client.outgoing());
//! assert_eq!(server.next(), Ok(Some(Packet::ServerListPing(ServerListPing {}))));
//!
//! server.send(&Kick { reason: "A server§3§20".into() }.into()).unwrap();
//! for byte in server.outgoing() {
//!     client.receive(&[*byte]);
//! }
//! let Ok(Some(Packet::Kick(kick))) = client.next() else { panic!() };
//! assert_eq!(kick.reason.to_string(), "A server§3§20");
//! ```
//!
//! Layers of this crate; imports only go down: `client`, `server`, `tap` > [`connection`] >
//! [`state`], [`stream`] > [`table`] > [`types`] > [`chunk`], [`nbt`], [`crypto`] >
//! [`build`](mod@build).
//!
//! May import: `hailer_proto`.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod block;
pub mod build;
pub mod chunk;
pub mod client;
pub mod connection;
pub mod crypto;
pub mod fuzzing;
pub mod hello;
pub mod map;
pub mod nbt;
pub mod packet;
pub mod plugin;
pub mod sample;
pub mod server;
pub mod shape;
pub mod state;
pub mod stream;
pub mod table;
pub mod tap;
pub mod types;
pub mod world;

pub use build::Build;
pub use client::Client;
pub use connection::{Connection, PeerError, Role};
pub use hello::ClientHello;
pub use packet::{PacketDirection, PacketError};
pub use server::Server;
pub use state::ConnectionState;
pub use stream::{PacketStream, ReadOutcome};
pub use table::{Packet, TABLE};
pub use tap::Tap;
pub use world::World;

/// Default port of servers.
pub const PORT: u16 = 25565;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
