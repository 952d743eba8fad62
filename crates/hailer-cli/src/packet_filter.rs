//! Selection of game packets by name or id, and by direction.

use hailer::minecraft::game::table::PacketInfo;
use hailer::minecraft::game::{Packet, PacketDirection, TABLE};
use std::collections::HashSet;
use std::str::FromStr;

/// Maximum edit distance between a word and the packet names that an error suggests.
const MAX_DISTANCE: usize = 3;
/// Maximum number of names that an error suggests.
const MAX_SUGGESTIONS: usize = 3;
/// Maximum length of a word, in bytes, that is compared with names.
const MAX_COMPARED_BYTES: usize = 40;

/// Packets that only report positions: the majority of a session, and rarely of interest.
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

/// Decides which packets to show, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct PacketFilter {
    only: HashSet<&'static str>,
    hide: HashSet<&'static str>,
    direction: Option<PacketDirection>,
    /// Number of packets not shown so far.
    pub(crate) hidden: u64,
}

impl PacketFilter {
    /// Shows the packets in `only`, or all if it is empty. Excludes those in `hide` and those of
    /// the other direction.
    pub(crate) fn new(
        only: &[PacketNames],
        hide: &[PacketNames],
        direction: Option<PacketDirection>,
    ) -> Self {
        let names = |chosen: &[PacketNames]| {
            chosen
                .iter()
                .flat_map(|names| names.0.iter().copied())
                .collect()
        };
        Self {
            only: names(only),
            hide: names(hide),
            direction,
            hidden: 0,
        }
    }

    /// Hides movements too, unless packets were chosen with `only`.
    pub(crate) fn without_movements(mut self) -> Self {
        if self.only.is_empty() {
            self.hide.extend(MOVEMENTS);
        }
        self
    }

    /// Returns whether to show a packet. Counts it otherwise.
    pub(crate) fn shows(&mut self, packet: &Packet, direction: PacketDirection) -> bool {
        let name = packet.name();
        let shows = (self.only.is_empty() || self.only.contains(name))
            && !self.hide.contains(name)
            && self.direction.is_none_or(|only| only == direction);
        self.hidden += u64::from(!shows);
        shows
    }
}

/// Packets that one word on the command line selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PacketNames(Vec<&'static str>);

impl FromStr for PacketNames {
    type Err = String;

    /// Parses a name, ignoring case, or an id such as 0x33, which several packets may have.
    fn from_str(word: &str) -> Result<Self, String> {
        let lower = word.to_ascii_lowercase();
        let id = lower
            .strip_prefix("0x")
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let fits = |row: &&PacketInfo| row.name.eq_ignore_ascii_case(word) || Some(row.id) == id;
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
            .take_while(|(distance, _)| *distance <= MAX_DISTANCE)
            .map(|(_, name)| name)
            .collect();
        Err(match near.as_slice() {
            [] => "no packet has this name; names are like ChunkData, ids like 0x33".into(),
            near => format!(
                "no packet has this name; did you mean {}?",
                near[..near.len().min(MAX_SUGGESTIONS)].join(", ")
            ),
        })
    }
}

/// Returns the Levenshtein distance between a word and a name, ignoring case, or 1 if the name
/// contains the word.
fn distance(word: &str, name: &str) -> usize {
    let name = name.to_ascii_lowercase();
    if word.len() >= 3 && name.contains(word) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in word.bytes().take(MAX_COMPARED_BYTES).enumerate() {
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
    use hailer::minecraft::game::Build;
    use hailer::minecraft::game::sample::SampleRng;

    #[test]
    fn parses_names_and_ids() {
        let names = |word: &str| word.parse::<PacketNames>().map(|names| names.0);
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
    fn counts_hidden_packets() {
        let filter = |only: &[&str], hide: &[&str], direction| {
            let names = |words: &[&str]| -> Vec<PacketNames> {
                words.iter().map(|word| word.parse().unwrap()).collect()
            };
            PacketFilter::new(&names(only), &names(hide), direction)
        };
        let shown = |mut filter: PacketFilter| {
            let rows = TABLE
                .iter()
                .filter(|row| row.is_in(PacketDirection::ToClient, Build::LATEST));
            let packets = rows.map(|row| (row.sample)(&mut SampleRng::new(1), Build::LATEST));
            let names: Vec<_> = packets
                .filter(|packet| filter.shows(packet, PacketDirection::ToClient))
                .map(|packet| packet.name())
                .collect();
            assert_eq!(names.len() as u64 + filter.hidden, 64);
            names
        };
        assert_eq!(
            shown(filter(&["chat", "0x00"], &[], None)),
            ["KeepAlive", "Chat"]
        );
        assert_eq!(shown(filter(&["chat"], &["chat"], None)).len(), 0);
        assert_eq!(shown(filter(&[], &["chat"], None)).len(), 63);
        assert_eq!(
            shown(filter(&[], &[], Some(PacketDirection::ToServer))).len(),
            0
        );
        assert_eq!(shown(filter(&[], &[], None).without_movements()).len(), 54);
        assert_eq!(
            shown(filter(&["Entity"], &[], None).without_movements()),
            ["Entity"]
        );
    }
}
