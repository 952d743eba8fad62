//! The Minecraft game protocol of the 1.3 pre-releases, 12w16a to 12w30e, on top of 1.2.5 and as in 1.3.2: every packet of
//! every build, both roles, without I/O.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod block;
pub mod build;
pub mod chunk;
pub mod connection;
pub mod crypto;
pub mod fuzzing;
pub mod map;
pub mod nbt;
pub mod packet;
pub mod sample;
pub mod state;
pub mod stream;
pub mod table;
pub mod types;
pub mod world;

pub use build::Build;
pub use connection::{Connection, PeerError, Role};
pub use packet::{Broken, Way};
pub use state::State;
pub use stream::{Outcome, Stream};
pub use table::{Packet, TABLE};
pub use world::World;
