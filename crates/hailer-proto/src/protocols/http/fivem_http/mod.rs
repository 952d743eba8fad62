//! FiveM and RedM: the files that each server offers over HTTP. HTTP.
//!
//! ```text
//!   client                     server
//!     GET /dynamic.json  ─►
//!          ◄─  JSON: name, map, counts
//!     GET /players.json  ─►
//!          ◄─  JSON: the players
//!     GET /info.json     ─►
//!          ◄─  JSON: version, resources, variables, icon
//! ```
//!
//! The files are public. The same port number answers `quake3` over UDP.

mod client;
pub mod deviation;
mod server;

pub use client::FiveMFiles;
pub use server::FiveMHttpResponder;

use crate::model::{Extra, Rule, Status, Text};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options, Protocol,
    ResponderResult,
};
use crate::protocols::http::HttpFiles;
use crate::testing::sample::Server;
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct FiveMHttp;

static INFO: Info = Info {
    id: "fivem-http",
    title: "FiveM (HTTP)",
    port: 30120,
    fields: &[
        Doc::new("info-version", "Number that changes with the info"),
        Doc::new(
            "anonymised",
            "Whether all players have the same name, which replaces the real ones",
        ),
        Doc::new("resources", "Names of the resources"),
        Doc::new(
            "steam-ticket",
            "Whether players need Steam, as the server writes it",
        ),
        Doc::new(
            "enhanced-host-support",
            "Whether the server supports the newer form of game sessions",
        ),
        Doc::new("unanswered", "Files without a usable response, by name"),
    ],
    player_fields: &[Doc::new("id", "Number of the player on the server")],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::HTTP
};

impl Protocol for FiveMHttp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, cookie: Cookie) -> Box<dyn Exchange> {
        HttpFiles::of::<FiveMFiles>(&INFO).exchange(ask, cookie)
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(FiveMHttpResponder::new(status)))
    }

    fn sample(&self, seed: u64) -> Status {
        let mut server = Server::new(seed);
        let name = server.name.clone();
        for (id, player) in (1i64..).zip(&mut server.players) {
            player.uuid = None;
            player.latency_ms = Some(server.random.below(200) as i32);
            player.extra = [Extra::new("id", id)].into();
        }
        let is_anonymous = server.players.len() > 1
            && server.players.iter().all(|player| {
                Some(&player.name) == server.players.first().map(|first| &first.name)
            });
        server.status.name = Some(Text::unformatted(name));
        server.status.mode = Some("Freeroam".into());
        server.status.map = Some("San Andreas".into());
        server.status.game = Some("gta5".into());
        server.status.version = Some("FXServer-master v1.0.0.12345 linux".into());
        server.status.rules = [Rule {
            key: "onesync_enabled".into(),
            value: "true".into(),
        }]
        .into();
        let mut status = server.finish();
        status.extra.push(Extra::new("info-version", "1804289383"));
        if is_anonymous {
            status.extra.push(Extra::new("anonymised", true));
        }
        status
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        HttpFiles::of::<FiveMFiles>(&INFO).explain(bytes, seen, notes)
    }
}
