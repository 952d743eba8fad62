//! TeamSpeak: lines of commands over TCP.
//!
//! In: lines of replies, or a status. Out: a status, or lines of replies.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

mod command_lines;
pub mod teamspeak2;
pub mod teamspeak3;
