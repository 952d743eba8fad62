//! Names of keys. What is in braces keeps keys on one node of a Redis Cluster: all that a script touches.
//!
//! | key | what |
//! | --- | --- |
//! | `{NAME}:leases` | sorted set: until when each chunk is somebody's; 0: it never was |
//! | `{NAME}:owners` | hash: whose |
//! | `{NAME}:workers` | sorted set: until when each worker counts as alive |
//! | `{NAME}:versions` | hash: the version of each chunk |
//! | `{NAME}:changed` | how many versions there have been: whoever mirrors looks at the others if it is another number |
//! | `{NAME}:leader` | hash: who leads, until when |
//! | `{NAME}:filled` | another value each time that everything was written: absent, and it must be |
//! | `{NAME:P}:targets:CHUNK` | hash: the servers by number, `v` their version, `d` a digest |
//! | `{NAME:P}:state:CHUNK` | hash: what is known of each server by number |
//! | `{NAME:P}:results` | stream: samples, events, sessions; the group `history` writes them |
//! | `{NAME:P}:said` | stream: what servers said, for pages; short |

use super::lease::Chunk;

/// Parts that work is spread over, so that the nodes of a Redis Cluster share it. All processes must agree: never changed.
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
        format!("{{{}}}:{word}", self.name)
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

    pub(super) fn said(&self, part: usize) -> String {
        format!("{}said", self.part(part))
    }

    fn part(&self, part: usize) -> String {
        format!("{{{}:{part}}}:", self.name)
    }
}

/// The part of a chunk.
pub(super) fn part(chunk: Chunk) -> usize {
    chunk.0.rem_euclid(PARTS as i64) as usize
}
