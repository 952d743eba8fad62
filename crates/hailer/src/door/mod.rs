//! The door of a game server that sleeps without players: one public address in every state.
//!
//! ```text
//!   sockets ──► Entrance::enter(source, attempt) ──► Entry        open, wait or refused
//!                   │ requests                  ▲ view
//!                   ▼                           │
//!                 the owner of the door: starts and stops the game, polls its players
//! ```
//!
//! The threads of the sockets share an [`Entrance`] with the owner of the door. They report joins
//! of verified sources, and get an [`Entry`] for the client. The owner runs a
//! [`machine::Machine`], which decides without I/O when the game starts and stops. `access` decides
//! which clients may wake it.
//!
//! May import: `crate`, `crate::names`, `crate::prefix`, `crate::support`, `crate::target`,
//! `hailer_proto`.

#[cfg(feature = "sources")]
pub mod access;
mod address;
mod entrance;
pub mod machine;

pub use address::{GameAddress, GameAddressError, LookupSchedule, follow_address, follow_port};
pub use entrance::{Entrance, Entry, Request, Requests, State, View, Visit};
