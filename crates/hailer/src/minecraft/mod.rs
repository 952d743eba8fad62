//! The Minecraft game protocol on sockets: the crate `hailer_minecraft` does the thinking, this module the waiting.

pub mod bridge;
mod join;
pub mod proxy;
mod recording;
mod serve;

pub use bridge::Bridge;
pub use join::{Join, JoinError, JoinSession, join};
pub use proxy::Proxy;
pub use recording::{RecordedPacket, Recorder, Recording, RecordingError};
pub use serve::{GameServer, GameServerError};

/// Why there is no connection, in words that say where to look.
fn unreachable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            "nothing listens on this TCP port: the server is down, or the port is another".into()
        }
        _ => error.to_string(),
    }
}
