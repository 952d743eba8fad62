//! Protocols with one request and one reply, over UDP or TCP.
//!
//! In: bytes of replies, or a status. Out: a status, or bytes of replies.
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`, `crate::sample`,
//! `crate::token`, `crate::wire`.

pub mod gbx_remote;
pub mod mafia2mp;
pub mod perfect_dark;
pub mod rfactor;
pub mod satisfactory;
pub mod savage2;
pub mod seven_days;
pub mod starmade;
pub mod teamspeak_voice;
pub mod terraria_join;
pub mod tibia;
pub mod tribes1;
pub mod vintage_story;
