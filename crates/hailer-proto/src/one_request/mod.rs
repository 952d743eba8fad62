//! Protocols with one request and one reply, as values: a table of messages and a function that
//! reads a reply into a status. Exchange, depths and explanations follow from these.
//!
//! ```text
//!   OneDatagram { info, messages, read }   UDP
//!   OneStream { info, messages, read, .. } TCP, one request on each connection
//! ```
//!
//! In: a table of messages, a function that reads. Out: exchanges, responders, explanations.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

pub mod datagram;
mod message;
pub mod stream;

pub use datagram::OneDatagram;
pub use message::{Mark, Message, ReadReply};
pub use stream::{OneStream, frame_of};
