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

/// Longer names are of no use in addresses and lists.
const MAX_NAME: usize = 64;

/// What is wrong with a name of a server.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name.bytes().all(is_good) && (1..=MAX_NAME).contains(&name.len()) && !name.starts_with('.') {
        true => Ok(()),
        false => Err("write 1 to 64 letters, digits, `.`, `_` and `-`, the first no dot"),
    }
}

/// What is wrong with a target.
pub fn check_target(target: &str) -> Result<(), String> {
    match target.parse::<Target>() {
        Ok(Target { protocol: Some(_), .. }) => Ok(()),
        Ok(_) => Err(format!("{target}: no protocol; write it as PROTOCOL://{target}")),
        Err(error) => Err(error.to_string()),
    }
}
