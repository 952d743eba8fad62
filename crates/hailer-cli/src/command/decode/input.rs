//! Inputs of `hailer decode`: files, and datagrams from any of them.
//!
//! In: files, standard input, hexadecimal arguments. Out: datagrams, or bytes of a session.
//!
//! May import: `crate::exit`.

use crate::exit::OrUsage;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

/// Source and destination of a datagram.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A datagram from any input.
pub(super) struct InputDatagram {
    /// Description of the place in the input, for users.
    pub(super) place: String,
    /// Addresses of both sides; `None` if it does not come from a capture.
    pub(super) ends: Option<Ends>,
    pub(super) bytes: Vec<u8>,
}

/// Returns whether the path is a file or a pipe, such as `<(…)` of a shell.
pub(super) fn is_file(path: &str) -> bool {
    let path = Path::new(path);
    path.exists() && !path.is_dir()
}

/// Opens a file.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn open(path: &str) -> anyhow::Result<File> {
    Ok(File::open(path).or_usage_in(path)?)
}
