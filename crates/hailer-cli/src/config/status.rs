//! The status of a server as users write it, in a file or with flags.

use super::checker::Checker;
use super::reader::{
    FromShort, FromText, IntegerBetween, Ordered, Parsed, TextOr, TextOrNumber, Time,
};
use hailer::Status;
use hailer::proto::minecraft_query;
use hailer::proto::model::{Address, Extra, Rule, colored, uuid_from_text};
use hailer::proto::{Player, Text};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use toml::Spanned;

/// The table `status = { … }`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct StatusConfig {
    pub(crate) name: Option<String>,
    pub(crate) motd: Option<String>,
    /// A PNG file.
    pub(crate) icon: Option<Spanned<PathBuf>>,
    pub(crate) game: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) map: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) software: Option<String>,
    pub(crate) plugins: Vec<TextOr<Plugin>>,
    pub(crate) online: Option<PlayerCount>,
    pub(crate) max_players: Option<PlayerCount>,
    pub(crate) bots: Option<PlayerCount>,
    pub(crate) password: Option<bool>,
    pub(crate) anti_cheat: Option<bool>,
    pub(crate) players: Vec<Spanned<TextOr<Member>>>,
    pub(crate) rules: Ordered<TextOrNumber>,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<IntegerBetween<u16, 0, 65_535>>,
}

/// A number of players.
pub(crate) type PlayerCount = IntegerBetween<i64, 0, { i32::MAX as i64 }>;

/// A plugin: a table, or a string such as `"WorldEdit 7.3"`, whose last word is the version if it
/// begins with a digit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plugin {
    name: String,
    #[serde(default)]
    version: String,
}

impl FromShort for Plugin {
    const EXPECTED: &'static str =
        "a plugin such as \"WorldEdit 7.3\" or { name = \"WorldEdit\", version = \"7.3\" }";

    fn from_short(text: &str) -> Result<Self, String> {
        let is_version = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
        let (name, version) = match text.rsplit_once(' ') {
            Some((name, version)) if is_version(version) => (name, version),
            _ => (text, ""),
        };
        let name = name.to_owned();
        let version = version.to_owned();
        Ok(Self { name, version })
    }
}

/// A player on the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    name: Parsed<PlayerName>,
    uuid: Option<Parsed<Uuid>>,
    score: Option<i64>,
    team: Option<String>,
    /// Time since the player joined.
    time: Option<Parsed<Time<0>>>,
    latency: Option<Parsed<Time<0>>>,
}

impl FromShort for Member {
    const EXPECTED: &'static str = "a player such as \"Alice\" or { name = \"Bob\", uuid = \"…\" }";

    fn from_short(text: &str) -> Result<Self, String> {
        let name = Parsed(PlayerName::from_text(text)?);
        Ok(Self {
            name,
            uuid: None,
            score: None,
            team: None,
            time: None,
            latency: None,
        })
    }
}

/// The name of a player, which is not empty.
enum PlayerName {}

impl FromText for PlayerName {
    type Value = String;
    const EXPECTED: &'static str = "a name in quotes";

    fn parse(text: &str) -> Option<String> {
        (!text.trim_matches('\0').is_empty()).then(|| text.into())
    }

    fn from_text(text: &str) -> Result<String, String> {
        Self::parse(text).ok_or_else(|| "the name of a player is empty; write one".into())
    }
}

/// The UUID of a player.
enum Uuid {}

impl FromText for Uuid {
    type Value = [u8; 16];
    const EXPECTED: &'static str = "a UUID in quotes, which has 32 hexadecimal digits";

    fn parse(text: &str) -> Option<[u8; 16]> {
        uuid_from_text(text)
    }

    fn from_text(text: &str) -> Result<[u8; 16], String> {
        Self::parse(text)
            .ok_or_else(|| format!("{text:?} is not a UUID, which has 32 hexadecimal digits"))
    }
}

impl StatusConfig {
    /// Adds a player by name, for a flag.
    ///
    /// # Errors
    /// The name is empty.
    pub(crate) fn add_player(&mut self, name: &str) -> Result<(), String> {
        let member = TextOr(Member::from_short(name)?);
        self.players.push(Spanned::new(0..0, member));
        Ok(())
    }

    /// Returns the status. Players with a duplicate UUID are left out, with a warning.
    pub(crate) fn status(&self, checker: &mut Checker<'_>) -> Status {
        let mut status = Status {
            name: self.name.clone().map(Text::legacy),
            motd: self.motd.as_deref().map(|motd| Text::legacy(colored(motd))),
            icon: self.icon.as_ref().and_then(|file| checker.icon(file)),
            game: self.game.as_deref().map(Into::into),
            mode: self.mode.as_deref().map(Into::into),
            map: self.map.as_deref().map(Into::into),
            version: self.version.as_deref().map(Into::into),
            has_password: self.password,
            has_anti_cheat: self.anti_cheat,
            ..Status::default()
        };
        let software = self.software.clone();
        status
            .extra
            .extend(software.map(|software| Extra::new("software", software)));
        let plugins = self.plugins.iter().map(|TextOr(plugin)| plugin);
        let plugins = plugins.map(|plugin| (plugin.name.as_str(), plugin.version.as_str()));
        status.extra.extend(minecraft_query::plugins(plugins));
        if self.host.is_some() || self.port.is_some() {
            status.address = Some(Address {
                host: self.host.as_deref().map(Into::into),
                port: self.port.map(|port| port.0),
            });
        }
        let rule = |(key, value): &(Spanned<String>, Spanned<TextOrNumber>)| Rule {
            key: key.get_ref().as_str().into(),
            value: value.get_ref().0.as_str().into(),
        };
        status.rules = self.rules.0.iter().map(rule).collect();
        let mut uuids = BTreeSet::new();
        let mut players = Vec::new();
        for member in &self.players {
            let TextOr(Member { name, uuid, .. }) = member.get_ref();
            let uuid = uuid.as_ref().map(|uuid| uuid.0);
            if uuid.is_some_and(|uuid| !uuids.insert(uuid)) {
                let text = format!(
                    "status.players: {:?} has the UUID of an earlier player and is left out",
                    name.0
                );
                checker.warn(&member.span(), text);
                continue;
            }
            let TextOr(member) = member.get_ref();
            let time = member.time.as_ref().map(|time| time.0);
            let latency = member.latency.as_ref().map(|time| time.0);
            players.push(Player {
                uuid,
                score: member.score,
                team: member.team.as_deref().map(Into::into),
                time_s: time.map(|time| time.as_secs_f32()),
                latency_ms: latency.and_then(|time| i32::try_from(time.as_millis()).ok()),
                ..Player::named(Text::legacy(name.0.as_str()))
            });
        }
        let listed = i64::try_from(players.len()).unwrap_or(i64::MAX);
        status.players.online = Some(self.online.map_or(listed, |online| online.0));
        status.players.bots = self.bots.map(|bots| bots.0);
        status.players.max = Some(self.max_players.map_or(20, |max| max.0));
        status.players.set_list(players);
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_typed_with_an_ampersand() {
        assert_eq!(
            colored("&aGreen &&c R&D & &r"),
            "\u{A7}aGreen &c R&D & \u{A7}r"
        );
        let orange = "\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0";
        assert_eq!(
            colored("&#FF8800Orange &#ff88 &&#ff8800 &x &#ff8800"),
            format!("{orange}Orange &#ff88 &#ff8800 \u{A7}x {orange}")
        );
    }

    #[test]
    fn the_short_form_of_a_plugin_ends_with_its_version() {
        let read = |text: &str| {
            let Plugin { name, version } = Plugin::from_short(text).unwrap();
            (name, version)
        };
        assert_eq!(read("World Edit 7.3"), ("World Edit".into(), "7.3".into()));
        assert_eq!(read("World Edit"), ("World Edit".into(), String::new()));
    }
}
