//! Options of a query, with the names and defaults of node-gamedig.

use hailer_proto::model::Value;
use std::time::Duration;

/// Longest time that an option can set: a day.
const MAX_TIME_MS: f64 = 86_400_000.0;
/// Largest number of tries.
const MAX_TRIES: f64 = 100.0;

/// Options of a query, as node-gamedig has them. Its options for the order of its tries
/// (`portCache`, `noBreadthOrder`) have no counterpart: Hailer tries the ports of a game at the same
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GamedigOptions {
    /// `type`: id of a game, present or old, or `protocol-` and the name of one of node-gamedig's
    /// protocols. Ids of Hailer's games and protocols are valid too.
    pub kind: String,
    /// `host`: name or IP address of the server.
    pub host: String,
    /// `address`: IP address to query instead of looking up `host`, which servers still get.
    pub address: Option<String>,
    /// `port`: port of the game, or of its query. `None`: that of the game.
    pub port: Option<u32>,
    /// `givenPortOnly`: whether to query only `port`, not the ports that belong to it.
    pub is_port_exact: bool,
    /// `maxRetries`: number of tries, at least 1. Default: 1.
    pub tries: u32,
    /// `socketTimeout`: longest time to wait for one reply. Lost datagrams are repeated within it.
    /// Default: 2 s.
    pub socket_timeout: Duration,
    /// `attemptTimeout`: longest time for one try. Default: 10 s.
    pub attempt_timeout: Duration,
    /// `requestRules`: whether to request the rules of games that speak A2S. Other protocols always
    /// send them.
    pub has_rules: bool,
    /// `requestPlayers`: whether to request the list of players. Default: yes.
    pub has_players: bool,
    /// `requestRulesRequired`: whether missing rules are an error.
    pub needs_rules: bool,
    /// `requestPlayersRequired`: whether a missing list of players is an error.
    pub needs_players: bool,
    /// `stripColors`: whether texts are without color codes. Default: yes.
    pub strips_colors: bool,
    /// `ipFamily`: 4 or 6 for addresses of this version only, 0 for both.
    pub ip_family: u8,
    /// `teamspeakQueryPort`: port of TeamSpeak's queries. `None`: the usual one.
    pub teamspeak_query_port: Option<u16>,
    /// `token`: auth token, for Terraria, Farming Simulator and Satisfactory.
    pub token: Option<String>,
    /// `password`: for Palworld, whose user is always `admin`.
    pub password: Option<String>,
    /// `guildId`: id of a Discord server.
    pub guild: Option<String>,
}

impl Default for GamedigOptions {
    fn default() -> Self {
        Self {
            kind: String::new(),
            host: String::new(),
            address: None,
            port: None,
            is_port_exact: false,
            tries: 1,
            socket_timeout: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(10),
            has_rules: false,
            has_players: true,
            needs_rules: false,
            needs_players: false,
            strips_colors: true,
            ip_family: 0,
            teamspeak_query_port: None,
            token: None,
            password: None,
            guild: None,
        }
    }
}

impl GamedigOptions {
    /// Sets the option with this name of node-gamedig. Values are converted as JavaScript does.
    /// Unknown names, and values that have no meaning, are ignored.
    pub fn set(&mut self, name: &str, value: &Value) {
        let port = || whole(value).and_then(|port| u16::try_from(port).ok());
        let filled = || Some(text(value)).filter(|text| !text.is_empty());
        match name {
            "type" => self.kind = text(value),
            "host" => self.host = text(value),
            "address" => self.address = filled(),
            "port" => self.port = whole(value).filter(|port| *port > 0),
            "givenPortOnly" => self.is_port_exact = is_true(value),
            "maxRetries" => {
                self.tries = number(value).map_or(1, |n| n.clamp(1.0, MAX_TRIES) as u32)
            }
            "socketTimeout" => set_time(&mut self.socket_timeout, value),
            "attemptTimeout" => set_time(&mut self.attempt_timeout, value),
            "requestRules" => self.has_rules = is_true(value),
            "requestPlayers" => self.has_players = is_true(value),
            "requestRulesRequired" => self.needs_rules = is_true(value),
            "requestPlayersRequired" => self.needs_players = is_true(value),
            "stripColors" => self.strips_colors = is_true(value),
            "ipFamily" => {
                let known = whole(value).filter(|family| matches!(family, 4 | 6));
                self.ip_family = known.map_or(0, |family| family as u8);
            }
            "teamspeakQueryPort" => self.teamspeak_query_port = port().filter(|port| *port > 0),
            "token" => self.token = filled(),
            "password" => self.password = filled(),
            "guildId" => self.guild = filled(),
            _ => {}
        }
    }
}

/// Returns a number as JavaScript reads it. `None` for other values.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::Str(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// Returns the number at the start of a value, as `parseInt` does. `None` for other and negative
/// values.
fn whole(value: &Value) -> Option<u32> {
    let Value::Str(text) = value else {
        let number = number(value).filter(|number| (0.0..=f64::from(u32::MAX)).contains(number));
        return number.map(|number| number as u32);
    };
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}

fn set_time(time: &mut Duration, value: &Value) {
    if let Some(ms) = number(value).filter(|ms| *ms > 0.0) {
        *time = Duration::from_micros((ms.min(MAX_TIME_MS) * 1e3) as u64);
    }
}

/// Returns whether JavaScript treats a value as true.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0 && !number.is_nan(),
        Value::Str(text) => !text.is_empty(),
        _ => true,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Bool(flag) => flag.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_converted_as_in_javascript() {
        let mut options = GamedigOptions::default();
        for (name, value) in [
            ("type", Value::from("csgo")),
            ("port", "27015x".into()),
            ("ipFamily", "6".into()),
            ("maxRetries", "3".into()),
            ("socketTimeout", Value::Float(1.5)),
            ("attemptTimeout", "no number".into()),
            ("requestRules", "false".into()),
            ("requestPlayers", Value::Int(0)),
            ("teamspeakQueryPort", Value::Int(70_000)),
            ("password", Value::Int(7)),
            ("unknown", true.into()),
        ] {
            options.set(name, &value);
        }
        let expected = GamedigOptions {
            kind: "csgo".into(),
            port: Some(27_015),
            ip_family: 6,
            tries: 3,
            socket_timeout: Duration::from_micros(1_500),
            // Any text but the empty one is true.
            has_rules: true,
            has_players: false,
            password: Some("7".into()),
            ..GamedigOptions::default()
        };
        assert_eq!(options, expected);
        for (value, port) in [
            (Value::Int(-1), None),
            (Value::Int(0), None),
            (Value::Int(70_000), Some(70_000)),
            (Value::Float(27_015.9), Some(27_015)),
            (Value::Float(f64::NAN), None),
            ("x1".into(), None),
        ] {
            options.set("port", &value);
            assert_eq!(options.port, port, "{value:?}");
        }
    }
}
