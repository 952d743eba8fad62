//! The responder: one reply for each form, encoded once (spec/teeworlds.md#9).
//!
//! Limits: replies have at most `max-reply` bytes (default 1,400). Lists have as many clients as fit, and in the older
//! forms 16 or 24. Names of clients have at most 15 bytes, clans 11, and other texts 63.

use super::message::write_integer;
use super::message::{self, FLAG_PASSWORD, FLAG_TIME_SCORE, Form, Request, Token};
use crate::model::{Codes, Player, Status, Text, Value, is_control};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::{Epoch, Keys, owner};
use crate::wire::{Notes, cut};
use alloc::string::{String, ToString};
use alloc::{format, vec::Vec};
use core::net::SocketAddr;
use subtle::ConstantTimeEq;

/// Longest reply in bytes. The least is enough for all information. By default: the limit of the
/// games.
pub type MaxReply = crate::protocol::MaxReply<576, 1_400>;
/// Makes tokens differ from those of other protocols with the same keys.
const PURPOSE: u8 = b'7';
/// Epochs in which a token is valid.
const GENERATIONS: u32 = 2;
/// Longest text of the server in bytes.
const MAX_TEXT: usize = 63;
/// Longest name of a client in bytes.
const MAX_NAME: usize = 15;
/// Longest name of a clan in bytes.
const MAX_CLAN: usize = 11;
/// Longest counts after a name, in bytes.
const MAX_COUNTS: usize = 16;
/// Longest start of a reply, up to its token or number, in bytes.
const MAX_START: usize = 23;
/// Clients in a reply of 0.5 and 0.6.
const LISTED_SIX: usize = 16;
/// Clients in a reply for 64 players.
const LISTED_SIXTY_FOUR: usize = 24;
/// Largest count that is sent.
const MAX_COUNT: i64 = 99_999;
/// Longest texts of short replies in bytes: with headers, the reply to an extended request is at
/// most 3 times as long.
const TINY: Limits = Limits {
    name: 20,
    map: 10,
    other: 6,
};

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "versions",
        "\"all\" (default), \"0.6\" or \"0.7\": the requests that get a reply; only 0.7 verifies the address",
    ),
    Doc::new(
        "max-reply",
        "Longest reply in bytes, 576 to 65507, default 1400, which is the limit of the games; clients that do not fit are left out; amplification grows with it",
    ),
];

/// Options of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TeeworldsConfig {
    /// Whether requests of 0.5, 0.6 and DDNet get a reply.
    pub has_six: bool,
    /// Whether requests of 0.7 get a reply.
    pub has_seven: bool,
    /// Longest reply in bytes, 576 to 65,507.
    pub max_reply: MaxReply,
}

impl Default for TeeworldsConfig {
    fn default() -> Self {
        Self {
            has_six: true,
            has_seven: true,
            max_reply: MaxReply::default(),
        }
    }
}

impl TeeworldsConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let versions = options.word("versions", &["all", "0.6", "0.7"])?;
        Ok(Self {
            max_reply: MaxReply::read(options)?,
            has_six: versions != Some("0.7"),
            has_seven: versions != Some("0.6"),
        })
    }
}

/// Responder of one server. Replies are stored from the version on.
#[derive(Debug)]
pub struct TeeworldsResponder {
    config: TeeworldsConfig,
    keys: Keys,
    five: Vec<u8>,
    six: Vec<u8>,
    sixty_four: Vec<u8>,
    extended: Vec<u8>,
    seven: Vec<u8>,
    /// Short replies of 0.5, 0.6, for 64 players, and extended.
    tiny: [Vec<u8>; 4],
}

impl TeeworldsResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, keys: &Keys, config: &TeeworldsConfig) -> Self {
        let status = &*status.with_codes(Codes::None);
        let max_reply = config.max_reply.bytes();
        let body = |form| Server::new(status, Limits::default(), form).encode(Some(max_reply));
        let tiny = |form| Server::new(status, TINY, form).encode(None);
        Self {
            config: *config,
            keys: keys.clone(),
            five: body(Form::Five),
            six: body(Form::Six),
            sixty_four: body(Form::SixtyFour),
            extended: body(Form::Extended),
            seven: body(Form::Seven),
            tiny: [Form::Five, Form::Six, Form::SixtyFour, Form::Extended].map(tiny),
        }
    }

    fn token(&self, from: SocketAddr, epoch: Epoch) -> Token {
        token_of(self.keys.mint(PURPOSE, owner(from, false), epoch))
    }

    fn accepts(&self, token: Token, from: SocketAddr, epoch: Epoch) -> bool {
        (0..GENERATIONS).any(|age| {
            let tags = self
                .keys
                .accepted(PURPOSE, owner(from, false), epoch.before(age));
            tags.map(token_of)
                .any(|accepted| accepted.ct_eq(&token).into())
        })
    }

    /// Returns form and token of a request that is answered without verification, and its place
    /// among the short replies.
    fn unverified(request: Request) -> Option<(Form, Option<u32>, usize)> {
        match request {
            Request::Five { token } => Some((Form::Five, token.map(u32::from), 0)),
            Request::Six { token } => Some((Form::Six, Some(token.into()), 1)),
            Request::SixtyFour { token } => Some((Form::SixtyFour, Some(token.into()), 2)),
            Request::Extended { token } => Some((Form::Extended, Some(token), 3)),
            Request::Token { .. } | Request::Seven { .. } => None,
        }
    }
}

/// Returns a token with 31 bits of a tag. A token of ones would mean that there is none.
fn token_of(tag: u128) -> Token {
    (tag as u32 & i32::MAX as u32).to_be_bytes()
}

impl Responder for TeeworldsResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !Request::is_request(bytes) {
            return Verdict::Pass;
        }
        let Ok(request) = Request::read(bytes, &mut Notes::discarding()) else {
            return Verdict::Drop("malformed");
        };
        let is_served = match request {
            Request::Token { .. } | Request::Seven { .. } => self.config.has_seven,
            _ => self.config.has_six,
        };
        if !is_served {
            return Verdict::Pass;
        }
        match request {
            Request::Token { client } => {
                message::write_token(client, self.token(from, epoch), out);
                Verdict::Reply { is_verified: false }
            }
            Request::Seven {
                server,
                client,
                number,
            } if self.accepts(server, from, epoch) => {
                message::write_seven_start(client, server, number, out);
                out.extend_from_slice(&self.seven);
                Verdict::Reply { is_verified: true }
            }
            Request::Seven { .. } => Verdict::Drop("token"),
            _ => {
                let Some((form, token, _)) = Self::unverified(request) else {
                    return Verdict::Drop("malformed");
                };
                message::write_start(form, token, out);
                out.extend_from_slice(match form {
                    Form::Five => &self.five,
                    Form::Six => &self.six,
                    Form::SixtyFour => &self.sixty_four,
                    Form::Extended => &self.extended,
                    Form::Seven => &self.seven,
                });
                Verdict::Reply { is_verified: false }
            }
        }
    }

    /// Returns name and counts without clients (spec/teeworlds.md#9).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let request = Request::read(request, &mut Notes::discarding()).ok();
        let Some((form, token, place)) = request.and_then(Self::unverified) else {
            return false;
        };
        let Some(body) = self.tiny.get(place) else {
            return false;
        };
        message::write_start(form, token, out);
        out.extend_from_slice(body);
        true
    }
}

/// Longest texts in bytes.
#[derive(Clone, Copy)]
struct Limits {
    name: usize,
    map: usize,
    other: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            name: MAX_TEXT,
            map: MAX_TEXT,
            other: MAX_TEXT,
        }
    }
}

/// Content of a reply.
struct Server<'a> {
    form: Form,
    is_short: bool,
    status: &'a Status,
    version: String,
    name: String,
    host: String,
    map: String,
    game_type: String,
    clients: i64,
    max: i64,
}

impl<'a> Server<'a> {
    fn new(status: &'a Status, limits: Limits, form: Form) -> Self {
        let other = |text: &Option<compact_str::CompactString>, limit| {
            let text = line(text.as_deref().unwrap_or_default());
            String::from(cut(&text, limit))
        };
        let names = status.name.iter().chain(&status.motd);
        let mut names = names.map(wire_text);
        let name = names.find(|name| !name.trim().is_empty());
        let clients = status.players.count();
        let clients = clients.clamp(0, message::MAX_CLIENTS as i64);
        let host = status
            .address
            .as_ref()
            .and_then(|address| address.host.as_deref());
        Self {
            form,
            is_short: limits.name == TINY.name,
            status,
            version: other(&status.version, limits.other),
            name: cut(&name.unwrap_or_default(), limits.name).into(),
            host: cut(&line(host.unwrap_or_default()), limits.other).into(),
            map: other(&status.map, limits.map),
            game_type: other(&status.mode, limits.other),
            clients,
            max: status.players.max.unwrap_or(clients).clamp(0, MAX_COUNT),
        }
    }

    /// Returns a number of the status. Short replies have none.
    fn extra(&self, key: &str) -> Option<i64> {
        match self.status.extra(key) {
            Some(Value::Int(number)) if !self.is_short => Some(*number),
            _ => None,
        }
    }

    /// Returns the reply after its token or number, with as many clients as `max_reply` bytes have
    /// room for.
    fn encode(&self, max_reply: Option<usize>) -> Vec<u8> {
        let list = &self.status.players.list;
        let most = match self.form {
            Form::Five | Form::Six => LISTED_SIX,
            Form::SixtyFour => LISTED_SIXTY_FOUR,
            Form::Extended | Form::Seven => message::MAX_CLIENTS,
        };
        // More clients than counted would be a contradiction.
        let is_listed = max_reply.is_some() && list.len() as i64 <= self.clients;
        let most = if is_listed { most } else { 0 };
        let head = self.head(0, true);
        let used = MAX_START + MAX_COUNTS + head.len();
        let room = max_reply.unwrap_or_default().saturating_sub(used);
        let mut length = 0;
        let entries = list.iter().take(most).map(|player| self.client(player));
        let entries: Vec<Vec<u8>> = entries
            .take_while(|entry| {
                length += entry.len();
                length <= room
            })
            .collect();
        let mut out = self.head(entries.len() as i64, is_listed && !list.is_empty());
        out.extend(entries.concat());
        out
    }

    /// Returns the fields before the clients. If the list is not complete, the older forms count
    /// only the listed clients, and their name has the true counts.
    fn head(&self, listed: i64, is_listed: bool) -> Vec<u8> {
        let has_hidden = self.form != Form::Extended
            && self.form != Form::Five
            && is_listed
            && listed < self.clients;
        let (clients, max) = if has_hidden {
            (listed, listed)
        } else {
            (self.clients, self.max)
        };
        let name = if has_hidden {
            format!(
                "{} [{}/{}]",
                self.name,
                self.clients,
                self.max.max(self.clients)
            )
        } else {
            self.name.clone()
        };
        let spectators = self
            .status
            .players
            .list
            .iter()
            .filter(|player| has(player, "spectator"));
        let playing = self.clients - spectators.count() as i64;
        let playing = self.extra("playing").unwrap_or(playing).clamp(0, clients);
        let max_playing = self.extra("max-playing").unwrap_or(max).clamp(0, max);
        let has_password = self.status.has_password == Some(true);
        let mut flags = self.extra("flags").unwrap_or(0).clamp(0, MAX_COUNT) & !FLAG_PASSWORD;
        if has_password {
            flags |= FLAG_PASSWORD;
        }
        if self.form == Form::Seven && self.status.extra("score-is-time") == Some(&true.into()) {
            flags |= FLAG_TIME_SCORE;
        }
        if self.form == Form::Seven {
            let mut out = Vec::new();
            for text in [&self.version, &name, &self.host, &self.map, &self.game_type] {
                out.extend(text.bytes());
                out.push(0);
            }
            let skill = self.extra("skill-level").unwrap_or(0).clamp(0, MAX_COUNT);
            for number in [flags, skill, playing, max_playing, clients, max] {
                write_integer(number as i32, &mut out);
            }
            return out;
        }
        let mut texts = Vec::from([self.version.clone(), name, self.map.clone()]);
        if self.form == Form::Extended {
            for key in ["map-crc", "map-size"] {
                let number = self.extra(key).unwrap_or(0).clamp(0, u32::MAX.into());
                texts.push(number.to_string());
            }
        }
        texts.push(self.game_type.clone());
        texts.push(flags.to_string());
        match self.form {
            Form::Five => {
                let progression = self.extra("progression").unwrap_or(-1);
                texts.push(progression.clamp(-1, MAX_COUNT).to_string());
                texts.extend([self.clients, self.max].map(|count| count.to_string()));
            }
            _ => texts.extend([playing, max_playing, clients, max].map(|count| count.to_string())),
        }
        if self.form == Form::Extended {
            let is_complete = listed == self.clients;
            texts.push(if is_complete {
                String::new()
            } else {
                listed.to_string()
            });
        }
        let mut out = Vec::new();
        for text in texts {
            out.extend(text.bytes());
            out.push(0);
        }
        if self.form == Form::SixtyFour {
            write_integer(0, &mut out);
        }
        out
    }

    fn client(&self, player: &Player) -> Vec<u8> {
        let number = |key: &str| match value(player, key) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        let clan = match value(player, "clan") {
            Some(Value::Str(clan)) => line(clan),
            _ => String::new(),
        };
        let name = wire_text(&player.name);
        let name = cut(&name, MAX_NAME);
        let score = player.score.unwrap_or(0);
        let score = score.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let country = number("country").and_then(|country| i32::try_from(country).ok());
        let country = country.unwrap_or(-1);
        let is_spectator = has(player, "spectator");
        let mut out = [name.as_bytes(), b"\0"].concat();
        if self.form == Form::Five {
            out.extend(format!("{score}\0").bytes());
            return out;
        }
        out.extend([cut(&clan, MAX_CLAN).as_bytes(), b"\0"].concat());
        if self.form == Form::Seven {
            let kind = if has(player, "bot") {
                2
            } else {
                i32::from(is_spectator)
            };
            for number in [country, score, kind] {
                write_integer(number, &mut out);
            }
            return out;
        }
        let plays = i32::from(!is_spectator);
        out.extend(format!("{country}\0{score}\0{plays}\0").bytes());
        if self.form == Form::Extended {
            out.push(0);
        }
        out
    }
}

fn value<'a>(player: &'a Player, key: &str) -> Option<&'a Value> {
    let extra = player.extra.iter().find(|extra| extra.key == key);
    extra.map(|extra| &extra.value)
}

fn has(player: &Player, key: &str) -> bool {
    value(player, key) == Some(&Value::Bool(true))
}

/// Returns a text without formatting codes and control characters.
fn wire_text(text: &Text) -> String {
    line(&text.plain())
}

/// Returns a text with spaces in place of control characters, as the games send them.
fn line(text: &str) -> String {
    let space = |c: char| if is_control(c) { ' ' } else { c };
    text.chars().map(space).collect()
}

#[cfg(test)]
mod tests {
    use super::super::message::Reply;
    use super::*;
    use crate::model::Extra;
    use alloc::vec;

    fn responder(status: &Status) -> TeeworldsResponder {
        TeeworldsResponder::new(status, &Keys::new([7; 16]), &TeeworldsConfig::default())
    }

    fn answer(responder: &TeeworldsResponder, request: Request) -> (Verdict, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut out = Vec::new();
        request.write(&mut bytes);
        let from = "192.0.2.7:50000".parse().unwrap();
        (responder.answer(from, Epoch(9), &bytes, &mut out), out)
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Te\nst")),
            map: Some("ctf5".into()),
            mode: Some("CTF".into()),
            version: Some("0.6.4".into()),
            has_password: Some(true),
            ..Status::default()
        };
        let player = Player {
            score: Some(12),
            extra: vec![Extra::new("clan", "clan"), Extra::new("country", 276)],
            ..Player::named(Text::unformatted("Al"))
        };
        let spectator = Player {
            score: Some(-3),
            extra: vec![Extra::new("spectator", true)],
            ..Player::named(Text::unformatted("Bo"))
        };
        status.players.max = Some(8);
        status.players.set_list(vec![player, spectator]);
        status
    }

    #[test]
    fn replies_have_the_form_of_the_request() {
        let responder = responder(&status());
        let verdict = Verdict::Reply { is_verified: false };
        let all = b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF";
        let reply = |rest: &[u8]| (verdict, [all, rest].concat());
        assert_eq!(
            answer(&responder, Request::Six { token: 72 }),
            reply(b"inf372\x000.6.4\0Te st\0ctf5\0CTF\x001\x001\x008\x002\x008\0Al\0clan\x00276\x0012\x001\0Bo\0\0-1\0-3\x000\0")
        );
        assert_eq!(
            answer(&responder, Request::Extended { token: 1_193_032 }),
            reply(b"iext1193032\x000.6.4\0Te st\0ctf5\x000\x000\0CTF\x001\x001\x008\x002\x008\0\0Al\0clan\x00276\x0012\x001\0\0Bo\0\0-1\0-3\x000\0\0")
        );
        assert_eq!(
            answer(&responder, Request::Five { token: None }),
            reply(b"info0.6.4\0Te st\0ctf5\0CTF\x001\0-1\x002\x008\0Al\x0012\0Bo\0-3\0")
        );
        assert_eq!(
            answer(&responder, Request::SixtyFour { token: 0 }),
            reply(b"dtsf0\x000.6.4\0Te st\0ctf5\0CTF\x001\x001\x008\x002\x008\0\0Al\0clan\x00276\x0012\x001\0Bo\0\0-1\0-3\x000\0")
        );
    }

    #[test]
    fn seven_needs_a_token() {
        let responder = responder(&status());
        let client = *b"HAIL";
        let (verdict, reply) = answer(&responder, Request::Token { client });
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        let Ok(Reply::Token { server, .. }) = Reply::read(&reply, &mut Notes::default()) else {
            panic!("{reply:?}")
        };
        let request = |server| Request::Seven {
            server,
            client,
            number: 72,
        };
        let (verdict, reply) = answer(&responder, request(server));
        assert_eq!(verdict, Verdict::Reply { is_verified: true });
        let rest = b"\xFF\xFF\xFF\xFFinf3\x88\x010.6.4\0Te st\0\0ctf5\0CTF\0\x01\0\x01\x08\x02\x08Al\0clan\0\x94\x04\x0C\0Bo\0\0\x40\x42\x01";
        assert_eq!(reply, [&b"\x21HAIL"[..], &server, rest].concat());
        let wrong = answer(&responder, request(*b"ABCD"));
        assert_eq!(wrong, (Verdict::Drop("token"), vec![]));
    }

    #[test]
    fn long_lists_are_counted() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        status.players.max = Some(128);
        status.players.set_list(vec![long; 100]);
        status.name = Some(Text::unformatted("\u{E9}".repeat(100)));
        let responder = responder(&status);
        for (request, form, most) in [
            (Request::Five { token: Some(1) }, Form::Five, 16),
            (Request::Six { token: 1 }, Form::Six, 16),
            (Request::SixtyFour { token: 1 }, Form::SixtyFour, 24),
            (Request::Extended { token: 1 }, Form::Extended, 100),
        ] {
            let (_, reply) = answer(&responder, request);
            assert!(reply.len() <= MaxReply::DEFAULT, "{}", reply.len());
            let mut notes = Notes::default();
            let Ok(Reply::Info(info)) = Reply::read(&reply, &mut notes) else {
                panic!("{reply:?}")
            };
            assert_eq!(notes.met().count(), 0);
            assert_eq!(info.form, form);
            let listed = info.list.len();
            assert!((16..=most).contains(&listed), "{form:?} {listed}");
            match form {
                Form::Extended => assert_eq!(info.reserved, listed.to_string().as_bytes()),
                Form::Five => assert_eq!(info.players, Some(100)),
                _ => assert!(info.name.ends_with(b" [100/128]"), "{:?}", info.name),
            }
        }
    }

    #[test]
    fn lists_grow_with_the_longest_reply() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        status.players.set_list(vec![long; 100]);
        status.name = Some(Text::unformatted("\u{E9}".repeat(100)));
        for (max_reply, least, most) in [(576, 1, 30), (65_507, 100, 100)] {
            let options = Options::default().with("max-reply", max_reply);
            let config = TeeworldsConfig::read(&options).unwrap();
            let responder = TeeworldsResponder::new(&status, &Keys::new([7; 16]), &config);
            let (_, reply) = answer(&responder, Request::Extended { token: 1 });
            assert!(reply.len() as i64 <= max_reply, "{}", reply.len());
            let Ok(Reply::Info(info)) = Reply::read(&reply, &mut Notes::default()) else {
                panic!("{reply:?}")
            };
            let listed = info.list.len();
            assert!((least..=most).contains(&listed), "{listed}");
        }
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
        status.map = Some("\u{4E2D}".repeat(100).into());
        status.version = status.map.clone();
        status.mode = status.map.clone();
        status.players.online = Some(i64::MAX);
        status.players.max = Some(i64::MAX);
        for key in [
            "map-crc",
            "map-size",
            "playing",
            "max-playing",
            "flags",
            "progression",
        ] {
            status.extra.push(Extra::new(key, i64::MAX));
        }
        let responder = responder(&status);
        for request in [
            Request::Five { token: None },
            Request::Five { token: Some(255) },
            Request::Six { token: 255 },
            Request::SixtyFour { token: 255 },
            Request::Extended { token: 0xFF_FFFF },
        ] {
            let mut bytes = Vec::new();
            let mut out = Vec::new();
            request.write(&mut bytes);
            assert!(responder.short_reply(&bytes, &mut out));
            assert!(
                out.len() + 28 <= 3 * (bytes.len() + 28),
                "{} for {request:?}",
                out.len()
            );
            assert!(matches!(
                Reply::read(&out, &mut Notes::default()),
                Ok(Reply::Info(_))
            ));
        }
        let seven = [0; 20];
        assert!(!responder.short_reply(&seven, &mut Vec::new()));
    }

    #[test]
    fn other_datagrams_are_passed_on_or_dropped() {
        let all = responder(&status());
        let from = "192.0.2.7:50000".parse().unwrap();
        let try_one = |bytes: &[u8]| all.answer(from, Epoch(1), bytes, &mut Vec::new());
        let (_, reply) = answer(&all, Request::Six { token: 1 });
        for other in [&reply[..], b"", b"\x10\0\0\x05", b"\xFF\xFF\xFF\xFFgetinfo"] {
            assert_eq!(try_one(other), Verdict::Pass);
        }
        let mut bytes = Vec::new();
        Request::Token { client: *b"HAIL" }.write(&mut bytes);
        bytes.truncate(512);
        assert_eq!(try_one(&bytes), Verdict::Drop("malformed"));
        let options = Options::default().with("versions", "0.7");
        let config = TeeworldsConfig::read(&options).unwrap();
        let seven = TeeworldsResponder::new(&status(), &Keys::new([7; 16]), &config);
        assert_eq!(answer(&seven, Request::Six { token: 1 }).0, Verdict::Pass);
        let error = TeeworldsConfig::read(&Options::default().with("versions", "0.5"));
        assert!(error.unwrap_err().to_string().contains("\"0.7\""));
    }
}
