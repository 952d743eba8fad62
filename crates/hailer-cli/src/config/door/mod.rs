//! The table `[server.door]`: a game server that sleeps while it has no players.
//!
//! In: parsed tables. Out: configuration of doors, mistakes with line numbers.
//!
//! May import: `crate::config`, `crate::config::action`, `crate::config::checker`,
//! `crate::config::reader`, `crate::files`, `hailer`.

pub(crate) mod access;
pub(crate) mod control;
pub(crate) mod table;
