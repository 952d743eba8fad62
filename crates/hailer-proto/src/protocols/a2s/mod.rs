//! A2S: the query protocol of Source and GoldSource servers, and of all games that use Steam's
//! server interface, over UDP.
//!
//! ```text
//!   client                                        server
//!     FF FF FF FF 54 "Source Engine Query" 00  ─►                             25 bytes
//!                                              ◄─  FF FF FF FF 41 challenge   9 bytes
//!     the same, then the challenge             ─►                             29 bytes
//!                                              ◄─  FF FF FF FF 49 info
//!     FF FF FF FF 55 challenge                 ─►                             9 bytes: players
//!     FF FF FF FF 56 challenge                 ─►                             9 bytes: rules
//!                                              ◄─  FF FF FF FF 44 players
//!                                              ◄─  FE FF FF FF id number…     rules, in several parts
//! ```
//!
//! Little-endian. The client keeps the challenge of the info reply for both lists, so a query takes
//! three round trips. Split replies of every engine are joined and decompressed.
//!
//! Limits of the client: 5 challenges each for info and for the lists, 32 parts and 256 KiB for a
//! reply, 8,192 rules. Challenges of the responder are valid for 60 to 90 s.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

pub mod binary;
mod bzip2;
mod client;
pub mod deviation;
mod joined;
pub mod message;
mod sample;
mod server;
mod split;

pub use bzip2::SAMPLE as COMPRESSED_SAMPLE;
pub use client::{A2sExchange, MAX_CHALLENGES};
pub use server::{A2sConfig, A2sResponder, Disclosure};

use crate::protocol::{Amplification, Composed, Discovery, Doc, Info, Proof, Wave};
use alloc::{boxed::Box, sync::Arc};

/// First four bytes of each message in one datagram.
pub const SINGLE: &[u8; 4] = b"\xFF\xFF\xFF\xFF";
/// First four bytes of each part of a split reply.
pub const SPLIT: &[u8; 4] = b"\xFE\xFF\xFF\xFF";

static INFO: Info = Info {
    id: "a2s",
    title: "A2S",
    port: 27_015,
    wave: Wave::First,
    place: 2,
    proof: Proof::Token,
    amplification: Amplification {
        request: message::SHORTEST_REQUEST,
        reply: message::CHALLENGE_REPLY,
    },
    declares_charset: false,
    has_replies_from_other_ports: true,
    // spec/a2s.md#1
    discovery: &[Discovery::Broadcast {
        ports: &[27_015, 27_016, 27_017, 27_018, 27_019, 27_020],
    }],
    fields: &[
        Doc::new(
            "protocol",
            "Version of the protocol: 17, or a number of the engine",
        ),
        Doc::new("folder", "Folder of the game"),
        Doc::new("app-id", "Number of the game on Steam"),
        Doc::new(
            "server-type",
            "`dedicated`, `listen`, `relay` (SourceTV, HLTV), or an unknown byte in hexadecimal",
        ),
        Doc::new(
            "system",
            "`linux`, `windows`, `macos`, or an unknown byte in hexadecimal",
        ),
        Doc::new("mode-number", "Number of the mode, in The Ship"),
        Doc::new("witnesses", "Witnesses needed for an arrest, in The Ship"),
        Doc::new("duration", "Seconds before an arrest, in The Ship"),
        Doc::new("steam-id", "Steam id of the server, decimal"),
        Doc::new("tv-port", "Port of SourceTV"),
        Doc::new("tv-name", "Name of SourceTV"),
        Doc::new(
            "keywords",
            "Tags of the server, unparsed; many games use them for settings",
        ),
        Doc::new(
            "game-id",
            "Game id, decimal, if it holds more than the app id",
        ),
        Doc::new("queue", "Players that wait for a place, in Rust and DayZ"),
        Doc::new(
            "mod",
            "Description of the mod, in GoldSource: web site, download, version, size in bytes",
        ),
        Doc::new(
            "difficulty",
            "Byte with difficulty, AI level and view, in Arma 3",
        ),
        Doc::new("crosshair", "Whether there is a crosshair, in Arma 3"),
        Doc::new(
            "dlcs",
            "DLCs in use, in Arma 3 and DayZ; unknown ones as bits",
        ),
        Doc::new(
            "mods",
            "Mods with name, number in the Steam workshop and start of the checksum, in Arma 3 and DayZ",
        ),
        Doc::new(
            "signatures",
            "Keys that mods must be signed with, in Arma 3 and DayZ",
        ),
        Doc::new(
            "description",
            "Description of the server, in DayZ, Rust and Project Zomboid",
        ),
        Doc::new(
            "joined-rules",
            "Texts that the server sends in several rules, joined, by the common part of the names",
        ),
        Doc::new(
            "unanswered",
            "Requests without a complete reply: `players`, `rules` or both",
        ),
        Doc::new(
            "list-error",
            "Error in the last reply with a missing list, if one arrived",
        ),
    ],
    player_fields: &[
        Doc::new("deaths", "Deaths, in The Ship"),
        Doc::new("money", "Money, in The Ship"),
    ],
    deviations: deviation::ALL,
    has_responder: true,
    options: server::OPTIONS,
    ..Info::DATAGRAM
};

/// The protocol.
pub static PROTOCOL: Composed = Composed {
    info: &INFO,
    exchange: |ask, _| Box::new(A2sExchange::new(ask)),
    responder: Some(|status, keys, options| {
        let config = A2sConfig::read(options)?;
        Ok(Arc::new(A2sResponder::new(status, keys, &config)))
    }),
    sample: sample::status,
    explain: message::explain,
};
