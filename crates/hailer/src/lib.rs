//! Game server protocols, in both roles: queries servers, and responds for them.
//!
//! ```text
//!   query     Target ─► NameResolver ─► socket ─► ExchangeDriver ─► Exchange ─► Status     (client)
//!   respond   Status ─► Board ─► Responder ◄─ Service ◄─ socket                            (respond)
//!             source ─► TimedStatus ─► Policy ─► Board                                     (respond::source)
//! ```
//!
//! The protocols are in [`hailer_proto`], re-exported as [`proto`]. This crate adds sockets,
//! clocks, retries and limits.
//!
//! - [`Client`] queries single servers; [`client`] has its other types.
//! - [`sweep`] queries many servers with a rate limit.
//! - [`discover`] finds servers on the local network, and reads lists of public ones.
//! - [`respond`] replies to queries, with a status from a [source](respond::source).
//! - [`check`] tests whether a server or a client conforms to its protocol.
//! - [`minecraft`] joins, serves and proxies the game protocol of the 1.3 snapshots.
//! - [`support`] has what several of these share.
//!
//! May import: `hailer_minecraft`, `hailer_proto`, `hailer_udp`.

mod answer;
#[cfg(feature = "check")]
pub mod check;
pub mod client;
#[cfg(feature = "discover")]
pub mod discover;
mod error;
mod merge;
#[cfg(feature = "game")]
pub mod minecraft;
mod names;
#[cfg(feature = "respond")]
mod prefix;
#[cfg(feature = "respond")]
pub mod respond;
pub mod support;
#[cfg(feature = "sweep")]
pub mod sweep;
mod target;
mod transcript;

pub use answer::Answer;
pub use client::{Client, ClientConfig};
pub use error::Error;
pub use hailer_proto as proto;
pub use hailer_proto::{Ask, Status};
pub use target::Target;

#[cfg(test)]
mod tests {
    use std::fs::read_to_string;

    /// Reads a file of the project, relative to the folder of this crate.
    fn read(path: &str) -> String {
        read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    /// Counts the names that a line of this file makes public.
    fn public_names(line: &str) -> usize {
        match line.strip_prefix("pub use ") {
            Some(names) => names.split(',').count(),
            None => usize::from(line.starts_with("pub ")),
        }
    }

    #[test]
    fn front_page_has_at_most_15_items() {
        assert_eq!(public_names("pub use client::{Client, ClientConfig};"), 2);
        let page = read("src/lib.rs");
        assert!(!page.contains("\npub use hailer_proto::*") && !page.contains("::{\n"));
        let items: usize = page.lines().map(public_names).sum();
        assert!((10..=15).contains(&items), "{items} items");
    }

    #[test]
    fn every_feature_is_in_the_readme_and_built_alone() {
        let manifest = read("Cargo.toml");
        let features = manifest.split("[features]\n").nth(1).unwrap();
        let features = features.split("\n[").next().unwrap();
        let names: Vec<&str> = features
            .lines()
            .filter_map(|line| line.split_once(" = ["))
            .map(|(name, _)| name)
            .filter(|name| *name != "default")
            .collect();
        assert!(names.contains(&"sweep") && names.len() >= 8, "{names:?}");
        let readme = read("README.md");
        for name in &names {
            assert!(readme.contains(&format!("| `{name}` |")), "{name}");
        }
        let ci = read("../../.ci/run");
        let built = ci.split("for feature in ").nth(1).unwrap();
        let mut built: Vec<&str> = built.split(';').next().unwrap().split(' ').collect();
        let mut expected = names.clone();
        built.sort_unstable();
        expected.sort_unstable();
        assert_eq!(built, expected);
    }
}
