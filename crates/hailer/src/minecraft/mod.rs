//! The Minecraft game protocol on sockets. The crate `hailer_minecraft` has the protocol, this
//! module the I/O.
//!
//! In: connections, targets. Out: events of the game and forwarded packets.
//!
//! May import: `crate::error`, `crate::names`, `crate::support`, `crate::target`,
//! `hailer_minecraft`, `hailer_proto`.

pub mod bridge;
mod join;
pub mod proxy;
mod recording;
mod serve;

pub use bridge::Bridge;
pub use hailer_minecraft as game;
pub use join::{Join, JoinError, JoinSession, join};
pub use proxy::Proxy;
pub use recording::{RecordedPacket, Recorder, Recording, RecordingError};
pub use serve::{GameServer, GameServerError};

/// Describes why a TCP connection failed.
fn unreachable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            "nothing listens on this TCP port: the server is down, or it uses another port".into()
        }
        _ => error.to_string(),
    }
}
