//! Terraria: whether a server is up, and whether it requires a password. TCP, on the port of the
//! game.
//!
//! ```text
//!   client                            server
//!     01 "Terraria0"   ─►
//!                      ◄─  02 wrong version, full or banned; 37 password; 03 slot
//! ```
//!
//! The client joins with a version that no release has, so that the server rejects it. The server
//! then closes.

mod client;
pub mod deviation;
pub mod message;
mod server;

pub use client::TerrariaFormat;
pub use server::TerrariaServer;

use crate::model::{Extra, Status};
use crate::one_request::stream::{SingleExchange, SingleResponder};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Options, Protocol,
    ResponderResult,
};
use crate::token::Keys;
use crate::wire::Notes;
use alloc::{boxed::Box, sync::Arc};

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct TerrariaJoin;

static INFO: Info = Info {
    id: "terraria-join",
    title: "Terraria (up or down)",
    port: 7777,
    fields: &[Doc::new(
        "refusal",
        "Why the server rejects the join: `wrong-version`, `full`, `banned`, or its own text",
    )],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

impl Protocol for TerrariaJoin {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<TerrariaFormat>::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SingleResponder::new(TerrariaServer::new(status))))
    }

    fn sample(&self, _: u64) -> Status {
        Status {
            extra: [Extra::new("refusal", "wrong-version")].into(),
            ..Status::default()
        }
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
