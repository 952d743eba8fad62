//! Discord: the widget of a guild. HTTPS to the service, not to a server of the owner.
//!
//! ```text
//!   client                                   discord.com
//!     GET /api/guilds/ID/widget.json   ─►
//!          ◄─  JSON: name, members, channels
//! ```
//!
//! The target is the id of the guild: `discord://ID`. The owner enables the widget (spec/discord.md#1).

mod client;

pub use client::DiscordFiles;

use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::protocols::http::{self, FilesExchange};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct Discord;

static INFO: Info = Info {
    id: "discord",
    title: "Discord",
    transport: Transport::Http,
    port: 443,
    fields: &[
        Doc::new("guild", "Id of the guild"),
        Doc::new("invite", "Address of an invitation"),
        Doc::new("channels", "Names of the public voice channels"),
        Doc::new("service", "The remote service that reports the status"),
    ],
    player_fields: &[
        Doc::new("status", "`online`, `idle` or `dnd`"),
        Doc::new("game", "Activity of the member"),
    ],
    ..Info::CONNECTED
};

impl Protocol for Discord {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn service(&self) -> Option<&'static str> {
        Some(client::HOST)
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<DiscordFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<DiscordFiles>(bytes, seen, notes)
    }
}
