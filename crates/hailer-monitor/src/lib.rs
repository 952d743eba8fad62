//! Watches game servers over time: who is up, how many play, since when; a page, an API, alerts.
//!
//! ```text
//!   plan ─┐                                    ┌─► StateTable ────► page, API, metrics, `hailer watch`
//!   API ──┼─► Watchlist ─► Schedule ─► poll ─► Watch ─► Batch ─► History (SQL) ─► charts, export
//!   tool ─┘                          a sweep   │
//!                                              └─► Change ─► Alerts ─► webhook, command
//! ```
//!
//! A [`Server`](server::Server) is what is watched. Every so often it is asked, by the engine of the sweep, and what comes of it is a
//! [`Sample`](sample::Sample). [`Health`](health::Health) makes of the samples whether it is up, and of differences
//! [`Event`](sample::Event)s. [`StateTable`](state::StateTable) holds how things stand now; [`history`] remembers.
//!
//! Sans-IO, told the time, tested in simulated time: [`health`], [`schedule`], the rules of alerts. Those that do something:
//! `poll` (a thread with sockets), [`history`] (SQL), `web` (HTTP), the delivery of alerts.

pub mod alert;
mod cached;
pub mod cluster;
mod error;
pub mod health;
pub mod history;
mod local;
pub mod monitor;
pub mod monitor_health;
mod node;
pub mod poll;
pub mod sample;
pub mod schedule;
pub mod server;
pub mod sessions;
pub mod state;
mod status_record;
mod status_store;
pub mod test_alert;
pub mod uptime;
pub mod watchlist;
pub mod web;
