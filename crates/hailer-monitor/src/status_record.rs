//! The last status of a server in its stored form: without player names, answer and datagrams.
//!
//! The cluster exchanges it through Redis, and the history keeps it across restarts.

use crate::sample::Millis;
use crate::state::LastStatus;
use hailer::proto::Text;
use hailer::support::catalog;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Stored form of a [`LastStatus`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct StatusRecord {
    /// Time of the answer, in Unix milliseconds.
    pub(crate) at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// Text as received, and whether it contains formatting codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    motd: Option<(String, bool)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    game: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    map: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    has_password: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    has_anti_cheat: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bots: Option<u32>,
    /// Digest of the icon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    icon: Option<String>,
}

impl StatusRecord {
    /// Returns the stored form of a status.
    pub(crate) fn of(status: &LastStatus) -> Self {
        let motd = status.motd.as_ref().map(|motd| {
            let raw = motd.raw().to_owned();
            let has_codes = Text::legacy(raw.as_str()).plain() == motd.plain();
            (raw, has_codes)
        });
        Self {
            at: status.at,
            address: status.address,
            protocol: status.protocol.map(str::to_owned),
            title: status.title.as_deref().map(str::to_owned),
            motd,
            game: status.game.as_deref().map(str::to_owned),
            version: status.version.as_deref().map(str::to_owned),
            map: status.map.as_deref().map(str::to_owned),
            max: status.max,
            has_password: status.has_password,
            has_anti_cheat: status.has_anti_cheat,
            bots: status.bots,
            icon: status.icon.map(|icon| icon.to_string()),
        }
    }

    /// Returns the status, without the parts that are not stored.
    pub(crate) fn into_status(self) -> LastStatus {
        let motd = self.motd.map(|(raw, has_codes)| {
            if has_codes {
                Text::legacy(raw)
            } else {
                Text::unformatted(raw)
            }
        });
        let protocol = self.protocol.as_deref().and_then(catalog::protocol);
        LastStatus {
            at: self.at,
            address: self.address,
            protocol: protocol.map(|protocol| protocol.info().id),
            title: self.title.map(Into::into),
            motd,
            game: self.game.map(Into::into),
            version: self.version.map(Into::into),
            map: self.map.map(Into::into),
            max: self.max,
            has_password: self.has_password,
            has_anti_cheat: self.has_anti_cheat,
            bots: self.bots,
            icon: self.icon.and_then(|icon| icon.parse().ok()),
            ..LastStatus::default()
        }
    }
}
