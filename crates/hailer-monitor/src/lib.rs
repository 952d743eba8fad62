//! Monitors game servers: status, players, history, a web UI, an API and alerts.
//!
//! ```text
//!   configuration ─┐                                  ┌─► StateTable ──► pages, API, metrics
//!   API ───────────┼─► Watchlist ─► Schedule ─► Poller ─► PollResult ─► Batch ─► History (SQL)
//!   hailer monitor ┘                                  └─► events ─► Alerts ─► receivers
//! ```
//!
//! Each [`Server`](server::Server) is polled once per interval, which gives a
//! [`Sample`](sample::Sample). [`Health`](health::Health) decides from the samples whether the
//! server is up; changes become [`Event`](sample::Event)s. The
//! [`StateTable`](state::StateTable) has the current state, the [`history`] the past.
//!
//! [`health`], [`schedule`], [`sessions`] and the alert rules are sans-IO and tested in simulated
//! time. The poller (a thread with sockets), the [`history`] (SQL), `web` (HTTP) and the delivery
//! of alerts do the I/O.
//!
//! May import: `hailer`.

// Hand-over between nodes is unused without clusters.
#![cfg_attr(not(feature = "cluster"), allow(dead_code))]

pub mod alert;
mod cached;
pub mod clock;
#[cfg(feature = "cluster")]
pub mod cluster;
mod error;
pub mod health;
pub mod history;
pub mod icon;
mod local;
mod lock;
pub mod monitor;
pub mod monitor_health;
mod node;
pub mod poll;
mod reconcile;
pub mod sample;
pub mod schedule;
pub mod server;
pub mod sessions;
pub mod state;
mod status_store;
pub mod test_alert;
pub mod uptime;
pub mod watchlist;
pub mod web;
