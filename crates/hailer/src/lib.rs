//! Game server protocols, in both roles: queries servers, and responds for them.
//!
//! A complete program for each use:
//!
//! # One server
//!
//! Without a protocol or game, the common protocols are probed in waves. `Answer` has the status, the address, the latency, and the protocol of each field.
//!
//! ```no_run
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), hailer::Error> {
//!     let server = std::env::args().nth(1).unwrap_or("127.0.0.1".into());
//!     let answer = hailer::Client::default().query(&server).await?;
//!     let status = answer.status;
//!     let players = status.players.count();
//!     println!("{}: {players} players", status.title().unwrap_or(server));
//!     for player in &status.players.list {
//!         println!("  {}", player.name.plain());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Many servers
//!
//! Each query has its own socket. Results arrive in the order in which the queries end.
//!
//! ```no_run
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let servers: Vec<String> = std::env::args().skip(1).collect();
//!     let client = hailer::Client::builder().retries(1).build();
//!     let mut results = client.query_many(servers, 100);
//!     while let Some((server, result)) = results.next().await {
//!         match result.as_ref().map(|answers| &answers.best().status) {
//!             Ok(status) => println!("{server}: {} players", status.players.count()),
//!             Err(error) => println!("{server}: {}", error.kind()),
//!         }
//!     }
//! }
//! ```
//!
//! # A sweep
//!
//! Ranges or lists of any length at a limited rate, from one socket. `start` in place of `run` returns an iterator of the results. Needs the feature `sweep`.
//!
//! ```no_run
//! use hailer::sweep::{Sweep, SweepError};
//!
//! fn main() -> Result<(), SweepError> {
//!     let sweep = Sweep::new(std::env::args().skip(1)).rate(500.0);
//!     let counts = sweep.per_network(20.0).run(|probe| match probe.result {
//!         Ok(answer) => {
//!             let players = answer.status.players.count();
//!             println!("{}: {players} players", answer.transcript.address);
//!         }
//!         Err(error) => eprintln!("{error}"),
//!     })?;
//!     println!("{} of {} probes answered", counts.answered, counts.probes);
//!     Ok(())
//! }
//! ```
//!
//! # Respond
//!
//! Answers from separate threads, with rate limits, until the value is dropped. Needs the feature `respond`.
//!
//! ```no_run
//! use hailer::proto::{Player, Status, Text};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let address = std::env::args().nth(1).unwrap_or("127.0.0.1".into());
//!     let mut status = Status::default();
//!     let server = hailer::serve(&status, address)?;
//!     println!("answering on {:?}", server.addresses());
//!     status.name = Some(Text::unformatted("My server"));
//!     let alice = Player::named(Text::unformatted("Alice"));
//!     status.players.set_list(vec![alice]);
//!     server.publish(&status)?;
//!     server.wait()
//! }
//! ```
//!
//! # A game of your own
//!
//! A game is a row: its protocols and its ports.
//!
//! ```no_run
//! use hailer::proto::games::{Game, QueryPort};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     hailer::support::catalog::add_game(Game {
//!         id: "harbour-wars",
//!         name: "Harbour Wars",
//!         protocols: &["ugp"],
//!         port: Some(7777),
//!         query: QueryPort::Offset(1),
//!         ..Game::EMPTY
//!     })?;
//!     let server = std::env::args().nth(1).unwrap_or_default();
//!     let answer = hailer::blocking::query(server)?;
//!     println!("{} players", answer.status.players.count());
//!     Ok(())
//! }
//! ```
//!
//! # A protocol of your own
//!
//! A protocol with one request and one reply is one function. Others implement [`proto::Protocol`].
//!
//! ```no_run
//! use hailer::proto::one_request::OneDatagram;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let who = OneDatagram::define("who", 4242, b"WHO?", |reply, status| {
//!         reply.constant(b"HERE", "magic")?;
//!         status.players.online = Some(reply.u8("players")?.into());
//!         Ok(())
//!     });
//!     hailer::support::catalog::add_protocol(who)?;
//!     let server = std::env::args().nth(1).unwrap_or_default();
//!     let answer = hailer::blocking::query(server)?;
//!     println!("{} players", answer.status.players.count());
//!     Ok(())
//! }
//! ```
//!
//! # Without an async runtime
//!
//! The client brings its own small runtime.
//!
//! ```no_run
//! use hailer::blocking::Client;
//!
//! fn main() -> std::io::Result<()> {
//!     let client = Client::new(hailer::Client::default())?;
//!     for server in std::env::args().skip(1) {
//!         match client.query(&server) {
//!             Ok(answer) => println!("{server}: {} players", answer.status.players.count()),
//!             Err(error) => println!("{error}"),
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Modules
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
//! - [`Client`] queries single servers; [`client`] has its other types. [`blocking`] has the same
//!   for programs without an async runtime.
//! - [`sweep`] queries many servers with a rate limit.
//! - [`discover`] finds servers on the local network, and reads lists of public ones.
//! - [`serve`] and [`respond`] reply to queries, with a status from a [source](respond::source).
//! - [`door`] keeps the address of a game that sleeps without players.
//! - [`check`] tests whether a server or a client conforms to its protocol.
//! - [`minecraft`] joins, serves and proxies the game protocol of the 1.3 snapshots.
//! - [`support`] has what several of these share: the games and protocols that targets can name,
//!   answers as JSON.
//!
//! # Versions
//!
//! The crate follows semantic versioning. While the major version is 0, a minor version may change
//! the API, and a patch only adds to it. Structs and enums that may grow are `#[non_exhaustive]`.
//! Also breaking: a higher minimum of Rust, a changed id of a protocol or a game, another word of
//! [`ErrorKind`](client::ErrorKind). JSON has separate versions: within `hailer/answer/2`, members
//! are never renamed or removed. `docs/versioning.md` in the repository has the details.
//!
//! May import: `hailer_minecraft`, `hailer_proto`, `hailer_udp`.

mod answer;
pub mod blocking;
#[cfg(feature = "check")]
pub mod check;
pub mod client;
#[cfg(feature = "discover")]
pub mod discover;
#[cfg(feature = "respond")]
pub mod door;
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
pub use client::Client;
pub use error::Error;
pub use hailer_proto as proto;
pub use hailer_proto::Status;
#[cfg(feature = "respond")]
pub use respond::serve;
pub use target::Target;

/// The programs of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
    fn front_page_has_at_most_16_items() {
        assert_eq!(public_names("pub use client::{Client, Host};"), 2);
        let page = read("src/lib.rs");
        assert!(!page.contains("\npub use hailer_proto::*") && !page.contains("::{\n"));
        let items: usize = page.lines().map(public_names).sum();
        assert!((10..=16).contains(&items), "{items} items");
    }

    /// Flags of `hailer query` and `hailer sweep` that are no methods: those of the command line and
    /// its output, and what the library has in another place.
    const OTHER_FLAGS: [&str; 31] = [
        "all",             // Client::query_all
        "allow-private",   // lists of master servers
        "auth-token-file", // files are read by the tool
        "checkpoint",      // sweep::run
        "concurrency",     // an argument of Client::query_many
        "failed",
        "fields",
        "force",
        "for",
        "format",
        "game",  // also in a target
        "games", // support::catalog
        "help",
        // Conditions: support::condition.
        "every",
        "hold",
        "if",
        "until",
        "wait-ready",
        "icon",
        "json",
        "long",
        "no-players", // players(false)
        "no-rules",   // rules(false)
        "output",
        "protocol", // also in a target
        "quiet",
        "raw", // for a sweep: SweepConfig::has_replies
        "resume",
        "show-icon",
        "summary",
        "targets", // Sweep::new
    ];

    #[test]
    fn methods_of_builders_have_the_names_of_flags() {
        for (command, file) in [("query", "client/builder.rs"), ("sweep", "sweep/simple.rs")] {
            let code = read(&format!("src/{file}"));
            let own = code.split("#[cfg(test)]").next().unwrap();
            assert!(own.contains("query_setters!("), "{file}");
            let code = format!("{own}{}", read("src/support/setters.rs"));
            let help = read(&format!("../../golden/cli/help-{command}.txt"));
            let mut count = 0;
            for line in help.lines().map(str::trim_start) {
                let line = line
                    .get(4..)
                    .filter(|_| line.starts_with('-'))
                    .map_or(
                        line,
                        |rest| {
                            if line.starts_with("--") { line } else { rest }
                        },
                    );
                let Some(flag) = line.strip_prefix("--") else {
                    continue;
                };
                let end = flag.find(|c: char| !c.is_ascii_lowercase() && c != '-');
                let flag = &flag[..end.unwrap_or(flag.len())];
                let method = format!("pub fn {}", flag.replace('-', "_"));
                let is_method = ["(", "<"]
                    .iter()
                    .any(|end| code.contains(&format!("{method}{end}")));
                assert!(
                    is_method || OTHER_FLAGS.contains(&flag),
                    "{command} --{flag}"
                );
                count += usize::from(is_method);
            }
            assert!(count > 10, "{command}: {count} methods");
        }
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
