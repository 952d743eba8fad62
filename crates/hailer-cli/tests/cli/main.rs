//! The real binary against real sockets on loopback.

mod capture;
mod check;
#[cfg(feature = "monitor")]
mod cluster;
#[cfg(unix)]
mod condition;
#[cfg(target_os = "linux")]
mod daemon;
mod decode;
mod discover;
mod documentation;
#[cfg(unix)]
mod door;
#[cfg(unix)]
mod door_guide;
mod farm;
#[cfg(all(unix, feature = "game"))]
mod front;
#[cfg(feature = "game")]
mod game;
mod gamedig;
mod generate;
mod harvest;
#[cfg(feature = "game")]
mod join;
#[cfg(unix)]
mod linuxgsm;
mod mistakes;
#[cfg(feature = "monitor")]
mod monitor;
#[cfg(feature = "monitor")]
mod monitor_demo;
#[cfg(unix)]
mod observe;
#[cfg(feature = "monitor")]
mod page;
#[cfg(unix)]
mod pelican;
mod ping;
mod probe;
#[cfg(feature = "monitor")]
mod prometheus;
#[cfg(feature = "game")]
mod proxy;
mod query;
mod schema;
#[cfg(unix)]
mod scripts;
mod serve;
#[cfg(feature = "game")]
mod sessions;
#[cfg(target_os = "linux")]
mod shield;
mod sources;
#[cfg(unix)]
mod steer;
mod sweep;
#[cfg(unix)]
mod terminal;
mod tool;
#[cfg(all(feature = "monitor", unix))]
mod watch;

use hailer_testkit::servers as support;
#[cfg(feature = "game")]
use hailer_testkit::session;
