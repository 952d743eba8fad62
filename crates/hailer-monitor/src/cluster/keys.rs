//! Names of keys. The hash tag in braces keeps all keys of a script on one node of a Redis Cluster.
//!
//! | key | contents |
//! | --- | --- |
//! | `{NAME}:2:leases` | sorted set: end of the lease of each chunk, 0 for none |
//! | `{NAME}:2:owners` | hash: owner of each chunk |
//! | `{NAME}:2:workers` | sorted set: until when each worker is alive |
//! | `{NAME}:2:versions` | hash: the version of each chunk |
//! | `{NAME}:2:changed` | number of versions so far; mirrors read the versions when it changes |
//! | `{NAME}:2:leader` | hash: leader and end of its lease |
//! | `{NAME}:2:filled` | changes whenever all chunks were written; if absent, they must be written |
//! | `{NAME:P}:2:targets:CHUNK` | hash: the servers by number, `v` their version, `d` a digest |
//! | `{NAME:P}:2:state:CHUNK` | hash: state record of each server by number |
//! | `{NAME:P}:2:results` | stream: samples, events, sessions; the group `history` writes them |
//! | `{NAME:P}:2:statuses` | stream: statuses for pages; short |

use super::lease::Chunk;

/// Version of the division into chunks. Nodes of another version are another cluster.
const LAYOUT: &str = "2";
/// Number of parts that spread the load over the nodes of a Redis Cluster. Must be the same in all
/// processes.
pub(super) const PARTS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Keys {
    name: String,
}

impl Keys {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into() }
    }

    /// `leases`, `owners`, `workers`, `versions`, `changed`, `leader` or `filled`.
    pub(super) fn control(&self, word: &str) -> String {
        format!("{{{}}}:{LAYOUT}:{word}", self.name)
    }

    pub(super) fn targets(&self, chunk: Chunk) -> String {
        format!("{}targets:{}", self.part(part(chunk)), chunk.0)
    }

    pub(super) fn state(&self, chunk: Chunk) -> String {
        format!("{}state:{}", self.part(part(chunk)), chunk.0)
    }

    pub(super) fn results(&self, part: usize) -> String {
        format!("{}results", self.part(part))
    }

    pub(super) fn statuses(&self, part: usize) -> String {
        format!("{}statuses", self.part(part))
    }

    fn part(&self, part: usize) -> String {
        format!("{{{}:{part}}}:{LAYOUT}:", self.name)
    }
}

/// Returns the part of a chunk.
pub(super) fn part(chunk: Chunk) -> usize {
    chunk.0.rem_euclid(PARTS as i64) as usize
}
