//! Palworld: the REST interface of dedicated servers. HTTP.
//!
//! ```text
//!   client                               server
//!     GET /v1/api/info, password   ─►
//!          ◄─  JSON: name, version
//!     GET /v1/api/metrics          ─►
//!          ◄─  JSON: counts, frames per second
//!     GET /v1/api/players          ─►
//!          ◄─  JSON: the players
//!     GET /v1/api/settings         ─►
//!          ◄─  JSON: the settings
//! ```
//!
//! Each request has the password of the administrator. The owner enables the interface
//! (spec/palworld.md#1).

mod client;

pub use client::PalworldFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Palworld;

static INFO: Info = Info {
    id: "palworld",
    title: "Palworld",
    port: 8212,
    fields: &[
        Doc::new("world-id", "Id of the world"),
        Doc::new("fps", "Frames per second"),
        Doc::new("frame-time", "Time per frame in milliseconds"),
        Doc::new("uptime", "Uptime in seconds"),
        Doc::new("days", "Days in the game"),
        Doc::new("unanswered", "Files without a usable response, by name"),
    ],
    player_fields: &[Doc::new("level", "Level")],
    ..Info::HTTP
};

impl Protocol for Palworld {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<PalworldFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<PalworldFiles>(&INFO).explain(bytes, seen, notes)
    }
}
