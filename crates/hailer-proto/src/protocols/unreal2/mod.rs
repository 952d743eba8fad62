//! Unreal 2: the query of Unreal Tournament 2003 and 2004, Killing Floor, Red Orchestra and related
//! games. UDP.
//!
//! ```text
//!   client                    server
//!     79 00 00 00 00  ─►              name, map, counts
//!                 ◄─  80 00 00 00 00 …
//!     79 00 00 00 01  ─►              rules, in datagrams without a number
//!     79 00 00 00 02  ─►              players, in datagrams without a number
//! ```
//!
//! Little-endian. Nothing links a reply to its request, and nothing marks its end. The client's
//! address is not verified: the responder limits its replies (spec/unreal2.md#9).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod client;
pub mod deviation;
pub mod message;
mod sample;
mod server;

pub use client::Unreal2Exchange;
pub use server::{MaxReply, Unreal2Responder};

use crate::model::Codes;
use crate::protocol::{Amplification, Composed, Doc, Info, Wave};
use alloc::{boxed::Box, sync::Arc};

/// Key of the first rule of Hailer's responder: the number of rules, with those that it adds.
const RULE_COUNT: &str = "Rule count";
/// Key of a rule of Hailer's responder: the number of listed players, if it is not that of all.
const LISTED_PLAYERS: &str = "Listed players";

static INFO: Info = Info {
    id: "unreal2",
    title: "Unreal 2",
    port: 7778,
    wave: Wave::Later,
    place: 11,
    amplification: Amplification {
        request: message::HEADER,
        reply: MaxReply::DEFAULT,
    },
    fields: &[
        Doc::new("wave", "Wave of Killing Floor"),
        Doc::new("last-wave", "Last wave of Killing Floor"),
        Doc::new("flags", "Flags of the server, if any are set"),
        Doc::new("skill", "Level of skill or difficulty"),
        Doc::new("server-id", "Number of the server, if it has one"),
        Doc::new("mutators", "Mutators of the game"),
        Doc::new(
            "scoreboard",
            "Lines of the list that are no players, such as teams, with their scores",
        ),
        Doc::new(
            "unanswered",
            "Requests without a complete reply: `rules`, `players`",
        ),
    ],
    player_fields: &[
        Doc::new("id", "Number of the player"),
        Doc::new(
            "statistics-id",
            "Number of the player's statistics, if it does not name a team",
        ),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: &[Doc::new(
        "max-reply",
        "Longest reply in bytes, 1100 to 65507, default 1400; players that do not fit are left out; amplification grows with it",
    )],
    codes: |_| Codes::Unreal,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(Unreal2Exchange::new(ask)),
    responder: Some(|status, _, options| {
        options.check(INFO.options)?;
        let max_reply = MaxReply::read(options)?;
        Ok(Arc::new(Unreal2Responder::new(status, max_reply)))
    }),
    sample: sample::status,
    explain: |bytes, seen, notes| message::explain(bytes, seen.direction(), notes),
};
