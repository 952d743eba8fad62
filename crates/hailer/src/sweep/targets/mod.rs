//! Targets of a sweep: lists, ranges, exclusions and names come in, probes in random order go out.
//!
//! Lookups of names are the only part that sends datagrams, on a separate thread. The engine
//! supplies the numbers of protocols and games.
//!
//! In: lists, ranges, exclusions and names. Out: probes in random order.
//!
//! May import: `crate::error`, `crate::names`, `crate::support`, `crate::sweep`,
//! `crate::sweep::engine`, `crate::target`, `hailer_proto`.

mod collector;
mod exclude;
mod growing_list;
mod list;
mod lookups;
mod order;
mod span;
mod target_lines;

pub use collector::{Collector, Item, Name, Skipped, Targets};
pub use exclude::Exclusions;
pub use growing_list::StreamSource;
pub use list::{ListSource, SourceConfig};
pub use order::{Order, Shard, ShardError};
