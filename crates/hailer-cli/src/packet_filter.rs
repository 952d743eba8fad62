//! Which packets to show: by name or id, and by direction.

use crate::args::Choice;
use hailer::game::{Packet, PacketDirection, TABLE};
use std::collections::HashSet;

/// Packets that say only where somebody is now: most of a session, and seldom what is looked for.
const MOVEMENTS: &[&str] = &[
    "Player",
    "PlayerPosition",
    "PlayerLook",
    "PlayerPositionLook",
    "EntityVelocity",
    "Entity",
    "EntityRelativeMove",
    "EntityLook",
    "EntityLookRelativeMove",
    "EntityTeleport",
    "EntityHeadLook",
];

/// What is shown, and how much was not.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    only: HashSet<&'static str>,
    hide: HashSet<&'static str>,
    way: Option<PacketDirection>,
    /// Packets not shown.
    pub(crate) hidden: u64,
}

impl Filter {
    pub(crate) fn new(choice: &Choice, way: Option<PacketDirection>) -> Self {
        let names = |chosen: &[Names]| {
            chosen
                .iter()
                .flat_map(|names| names.0.iter().copied())
                .collect()
        };
        Self {
            only: names(&choice.only),
            hide: names(&choice.hide),
            way,
            hidden: 0,
        }
    }

    /// Hides movements too, unless a choice was made.
    pub(crate) fn without_movements(mut self) -> Self {
        if self.only.is_empty() {
            self.hide.extend(MOVEMENTS);
        }
        self
    }

    /// Whether to show a packet; counts it otherwise.
    pub(crate) fn shows(&mut self, packet: &Packet, way: PacketDirection) -> bool {
        let name = packet.name();
        let shows = (self.only.is_empty() || self.only.contains(name))
            && !self.hide.contains(name)
            && self.way.is_none_or(|only| only == way);
        self.hidden += u64::from(!shows);
        shows
    }
}

/// The packets that a user means by one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(Vec<&'static str>);

impl std::str::FromStr for Names {
    type Err = String;

    /// A name, without regard to case, or an id such as 0x33, which may be of several packets.
    fn from_str(word: &str) -> Result<Self, String> {
        let lower = word.to_ascii_lowercase();
        let id = lower
            .strip_prefix("0x")
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let fits = |row: &&hailer::game::packet::PacketInfo| {
            row.name.eq_ignore_ascii_case(word) || Some(row.id) == id
        };
        let names: Vec<_> = TABLE.iter().filter(fits).map(|row| row.name).collect();
        if !names.is_empty() {
            return Ok(Self(names));
        }
        if lower.starts_with("0x") {
            return Err("no packet has this id".into());
        }
        let mut near: Vec<(usize, &str)> = TABLE
            .iter()
            .map(|row| (distance(&lower, row.name), row.name))
            .collect();
        near.sort_unstable();
        near.dedup();
        let near: Vec<_> = near
            .into_iter()
            .take_while(|(distance, _)| *distance <= 3)
            .map(|(_, name)| name)
            .collect();
        Err(match near.as_slice() {
            [] => "no packet has this name; names are like ChunkData, ids like 0x33".into(),
            near => format!(
                "no packet has this name; did you mean {}?",
                near[..near.len().min(3)].join(", ")
            ),
        })
    }
}

/// How far a word is from a name: letters to change (Levenshtein), or less if it is a part of it.
fn distance(word: &str, name: &str) -> usize {
    let name = name.to_ascii_lowercase();
    if word.len() >= 3 && name.contains(word) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in word.bytes().take(40).enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, b) in name.bytes().enumerate() {
            let changed = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::game::Build;
    use hailer::game::sample::SampleRng;

    #[test]
    fn words_are_names_or_ids() {
        let names = |word: &str| word.parse::<Names>().map(|names| names.0);
        assert_eq!(names("chunkdata"), Ok(vec!["ChunkData"]));
        assert_eq!(names("0x33"), Ok(vec!["ChunkData"]));
        assert_eq!(
            names("0x0D"),
            Ok(vec!["PlayerPositionLook", "PlayerTeleport"])
        );
        assert_eq!(
            names("ChunkDate").unwrap_err(),
            "no packet has this name; did you mean ChunkData?"
        );
        assert!(names("sound").unwrap_err().contains("NamedSoundEffect"));
        assert!(names("0x45").unwrap_err().contains("no packet has this id"));
        assert!(names("xyzzyxyzzy").unwrap_err().contains("names are like"));
        assert!(names("").is_err() && names(&"é".repeat(99)).is_err());
        MOVEMENTS
            .iter()
            .for_each(|name| assert_eq!(names(name), Ok(vec![*name])));
    }

    #[test]
    fn hidden_packets_are_counted() {
        let choice = |only: &[&str], hide: &[&str]| Choice {
            only: only.iter().map(|word| word.parse().unwrap()).collect(),
            hide: hide.iter().map(|word| word.parse().unwrap()).collect(),
            ..Choice::default()
        };
        let shown = |mut filter: Filter| {
            let rows = TABLE
                .iter()
                .filter(|row| row.is_in(PacketDirection::ToClient, Build::LATEST));
            let packets = rows.map(|row| (row.sample)(&mut SampleRng::new(1), Build::LATEST));
            let names: Vec<_> = packets
                .filter(|packet| filter.shows(packet, PacketDirection::ToClient))
                .map(|it| it.name())
                .collect();
            assert_eq!(names.len() as u64 + filter.hidden, 64);
            names
        };
        assert_eq!(
            shown(Filter::new(&choice(&["chat", "0x00"], &[]), None)),
            ["KeepAlive", "Chat"]
        );
        assert_eq!(
            shown(Filter::new(&choice(&["chat"], &["chat"]), None)).len(),
            0
        );
        assert_eq!(shown(Filter::new(&choice(&[], &["chat"]), None)).len(), 63);
        assert_eq!(
            shown(Filter::new(
                &choice(&[], &[]),
                Some(PacketDirection::ToServer)
            ))
            .len(),
            0
        );
        assert_eq!(
            shown(Filter::new(&choice(&[], &[]), None).without_movements()).len(),
            54
        );
        assert_eq!(
            shown(Filter::new(&choice(&["Entity"], &[]), None).without_movements()),
            ["Entity"]
        );
    }
}
