//! DarkMultiPlayer for Kerbal Space Program: the server information. HTTP.
//!
//! ```text
//!   client         server
//!     GET /  ─►
//!          ◄─  JSON: name, slots, names of players in one text
//! ```
//!
//! The information is public (spec/kspdmp.md).

mod client;

pub use client::KspDmpFiles;

use crate::protocol::{
    Ask, Cookie, DatagramContext, Exchange, Explanation, Info, Protocol, Transport,
};
use crate::protocols::http::{self, FilesExchange};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct KspDmp;

static INFO: Info = Info {
    id: "kspdmp",
    title: "KSP - DMP",
    transport: Transport::Http,
    port: 6703,
    ..Info::CONNECTED
};

impl Protocol for KspDmp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::<KspDmpFiles>::new(ask))
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        http::explain::<KspDmpFiles>(bytes, seen, notes)
    }
}
