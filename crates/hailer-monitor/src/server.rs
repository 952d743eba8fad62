//! What is watched.

use hailer::Target;
use hailer::target::TargetError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of a server in the history. Never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerId(pub i64);

/// Who wants it watched: each may only take back what it said itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The file of the plan.
    Plan,
    /// The API, which `hailer monitor add` speaks to as well.
    Api,
}

/// A server that is watched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Server {
    /// Its number.
    pub id: ServerId,
    /// What people call it, unique: letters, digits, `.`, `_` and `-`, at most 64; part of addresses of the page.
    pub name: String,
    /// Whom to ask, as it was typed, with a protocol: `minecraft-query://play.example.com`.
    pub target: String,
    /// For lists and filters; empty: none.
    pub group: String,
    /// For filters and alerts.
    pub labels: BTreeMap<String, String>,
    /// How often it is asked; `None`: as often as all.
    pub interval: Option<Duration>,
    /// Who wants it watched.
    pub origin: Origin,
}

impl Server {
    /// Whom to ask, read. What was stored was checked: an error means that somebody wrote to the database.
    pub fn target(&self) -> Result<Target, TargetError> {
        self.target.parse()
    }
}
