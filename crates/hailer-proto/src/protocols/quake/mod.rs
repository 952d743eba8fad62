//! Quake and its descendants: infostrings over UDP.
//!
//! In: bytes of replies, or a status. Out: a status, or bytes of replies.
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`, `crate::sample`,
//! `crate::token`, `crate::wire`.

pub mod doom3;
pub mod infostring;
mod players;
pub mod quake1;
pub mod quake2;
pub mod quake3;
