//! GBXRemote, the remote control of TrackMania and ShootMania: whether a server is up. TCP.
//!
//! ```text
//!   client                            server
//!                      ◄─  length, "GBXRemote 2"
//! ```
//!
//! The server sends its greeting first. All calls that describe the server require a login.

mod client;
pub mod message;

pub use client::GbxRemoteFormat;

use crate::model::{Extra, Status};
use crate::one_request::stream::SingleExchange;
use crate::protocol::{Ask, Cookie, DatagramContext, Doc, Exchange, Explanation, Info, Protocol};
use crate::wire::Notes;
use alloc::boxed::Box;

/// Registry entry of the protocol.
#[derive(Debug)]
pub struct GbxRemote;

static INFO: Info = Info {
    id: "gbx-remote",
    title: "GBXRemote (up or down)",
    port: 5000,
    fields: &[
        Doc::new("details", "False: the server is up but sends no status"),
        Doc::new("remote-version", "Version of the remote control: 1 or 2"),
    ],
    ..Info::CONNECTED
};

impl Protocol for GbxRemote {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(SingleExchange::<GbxRemoteFormat>::new(ask))
    }

    fn sample(&self, _: u64) -> Status {
        Status {
            extra: [
                Extra::new("details", false),
                Extra::new("remote-version", 2_i64),
            ]
            .into(),
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
