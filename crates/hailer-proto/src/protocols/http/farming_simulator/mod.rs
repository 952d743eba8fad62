//! Farming Simulator 19, 22 and 25: the statistics of dedicated servers. HTTP.
//!
//! ```text
//!   client                                            server
//!     GET /feed/dedicated-server-stats.xml?code=   ─►
//!          ◄─  XML: name, map, slots with the names of players, mods
//! ```
//!
//! The code is that of the owner (spec/farming-simulator.md#1).

mod client;

pub use client::FarmingSimulatorFiles;

use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::protocols::http::HttpFiles;
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct FarmingSimulator;

static INFO: Info = Info {
    id: "farming-simulator",
    title: "Farming Simulator",
    port: 8080,
    fields: &[
        Doc::new("day-time", "Time of the day in the game, in milliseconds"),
        Doc::new("mods", "Mods with their versions"),
    ],
    player_fields: &[Doc::new("admin", "Whether the player is an administrator")],
    ..Info::HTTP
};

impl Protocol for FarmingSimulator {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<FarmingSimulatorFiles>(&INFO).exchange(ask, cookie)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<FarmingSimulatorFiles>(&INFO).explain(bytes, seen, notes)
    }
}
