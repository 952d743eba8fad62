//! The Minecraft game protocol on sockets: the crate `hailer_minecraft` does the thinking, this module the waiting.

mod recording;

pub use recording::{Entry, Recorder, Recording, RecordingError};
