//! Doors: game servers that sleep while nobody plays.
//!
//! In: joins, statuses, commands. Out: games that start and stop.
//!
//! May import: `crate::command::serve`, `crate::command::serve::action`, `crate::config`,
//! `crate::http_client`, `hailer`.

pub(super) mod control;
