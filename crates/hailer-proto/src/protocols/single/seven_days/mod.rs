//! 7 Days to Die: the information that servers send to the game's own browser. TCP, on the port of
//! the game.
//!
//! ```text
//!   client                    server
//!     (connects)
//!                        ◄─  length in 5 digits, lines `Key:Value;`
//! ```
//!
//! The client sends nothing. The server sends once and closes.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::SevenDaysFormat;
pub use server::SevenDaysServer;

use crate::model::Status;
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
pub struct SevenDays;

static INFO: Info = Info {
    id: "seven-days",
    title: "7 Days to Die",
    port: 26900,
    declares_charset: false,
    fields: &[
        Doc::new("game-type", "Game, if it is not `7DTD`"),
        Doc::new("save", "Name of the saved game"),
        Doc::new("day", "Day in the game"),
        Doc::new(
            "details",
            "False if the server is up but sends no information, because it is too long",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    ..Info::CONNECTED
};

impl Protocol for SevenDays {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<SevenDaysFormat>::new(ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        options.check(INFO.options)?;
        Ok(Arc::new(SingleResponder::new(SevenDaysServer::new(status))))
    }

    fn sample(&self, seed: u64) -> Status {
        sample::status(seed)
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
