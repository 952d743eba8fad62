//! The Minecraft game protocol on sockets: the crate `hailer_minecraft` does the thinking, this module the waiting.

pub mod bridge;
mod join;
pub mod proxy;
mod recording;
mod serve;

pub use bridge::Bridge;
pub use join::{Join, JoinError, Session, join};
pub use proxy::Proxy;
pub use recording::{Entry, Recorder, Recording, RecordingError};
pub use serve::{GameServer, GameServerError};
