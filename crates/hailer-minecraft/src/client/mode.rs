//! Game modes as servers report them.

use serde::Serialize;
use std::fmt;

/// Game mode reported by a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the modes of the game")]
pub enum ReportedMode {
    #[default]
    Survival,
    Creative,
    Adventure,
    /// A number that 1.3 does not define.
    Unknown,
}

impl ReportedMode {
    /// Decodes the wire number, in which bit 8 means hardcore (spec/minecraft-12w.md#5.1).
    pub(super) fn of(number: i32) -> Self {
        match number & 7 {
            0 => Self::Survival,
            1 => Self::Creative,
            2 => Self::Adventure,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for ReportedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Survival => "survival",
            Self::Creative => "creative",
            Self::Adventure => "adventure",
            Self::Unknown => "unknown",
        })
    }
}
