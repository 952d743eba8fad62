//! The responder: sends the same bytes as vanilla servers, without leaking data
//! (spec/minecraft-query.md#7).

use super::message::{self, Key, PAIRS_END, PAIRS_START, Request, Token};
use crate::model::{Codes, Status, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::protocols::gamespy::fits_latin1;
use crate::protocols::gamespy::qr2::{self, Challenges, REPLY_HEADER, TYPE_ECHO, TYPE_QUERY};
use crate::token::{BIND_PORT, Epoch, Keys};
use crate::wire::{Latin1, Notes, cut};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::{iter, mem};

/// Makes tokens differ from those of other protocols with the same keys.
const PURPOSE: u8 = b'M';
/// Longest reply in bytes. The least is enough for all pairs with short values.
pub type MaxReply = crate::protocol::MaxReply<1_024, 65_507>;

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "encoding",
        "\"auto\" (default): UTF-8 if the version is 1.21.11 or later, if the polled server uses UTF-8, or if ISO-8859-1 \
               cannot hold every text, else ISO-8859-1, like older servers; \"latin-1\": characters outside of it become \
               question marks; \"utf-8\": always",
    ),
    BIND_PORT,
    Doc::new(
        "max-reply",
        "The longest full stat in bytes, 1024 to 65507 (default); names past it are left out. 1400 avoids fragments",
    ),
];

/// Encoding of a reply. All texts of a reply have the same encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8 if the version is 1.21.11 or later, if the status was polled from a server that uses
    /// UTF-8, or if ISO-8859-1 cannot represent every text in a way that readers recognize.
    /// Otherwise ISO-8859-1 (spec/minecraft-query.md#4.1).
    #[default]
    Auto,
    /// ISO-8859-1, as vanilla servers before 1.21.11. Other characters become question marks.
    Latin1,
    /// UTF-8, as vanilla servers since 1.21.11, PocketMine and Pumpkin.
    Utf8,
}

/// Configuration of the responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MinecraftQueryConfig {
    /// Encoding of texts.
    pub encoding: Encoding,
    /// Whether a challenge token is valid only for the port that requested it, not just for the
    /// address.
    pub is_port_bound: bool,
    /// Longest full stat in bytes, 1,024 to 65,507. Player names beyond it are left out; the count
    /// is not changed.
    pub max_reply: MaxReply,
}

impl MinecraftQueryConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let encoding = match options.word("encoding", &["auto", "latin-1", "utf-8"])? {
            Some("latin-1") => Encoding::Latin1,
            Some("utf-8") => Encoding::Utf8,
            _ => Encoding::Auto,
        };
        Ok(Self {
            encoding,
            is_port_bound: options.bool("bind-port", false)?,
            max_reply: MaxReply::read(options)?,
        })
    }
}

/// Responder for one Minecraft server. Both replies are encoded once; answering copies one and
/// writes the session id.
#[derive(Debug)]
pub struct MinecraftQueryResponder {
    challenges: Challenges,
    /// Bytes after type and session id.
    basic: Vec<u8>,
    full: Vec<u8>,
}

impl MinecraftQueryResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, keys: &Keys, config: &MinecraftQueryConfig) -> Self {
        let status = &*status.with_codes(Codes::Legacy);
        let limit = config.max_reply.bytes() - REPLY_HEADER;
        let is_utf8 = match config.encoding {
            Encoding::Utf8 => true,
            Encoding::Latin1 => false,
            Encoding::Auto => {
                status.is_utf8
                    || status.version.as_deref().is_some_and(has_utf8_queries)
                    || !texts(status).all(fits_latin1)
            }
        };
        let body = Body {
            status,
            is_utf8,
            limit,
        };
        Self {
            challenges: Challenges {
                keys: keys.clone(),
                purpose: PURPOSE,
                is_port_bound: config.is_port_bound,
            },
            basic: body.basic(),
            full: body.full(),
        }
    }
}

impl Responder for MinecraftQueryResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !bytes.starts_with(&message::MAGIC) || is_other_dialect(bytes) {
            return Verdict::Pass;
        }
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Drop("malformed"),
            Ok(Request::Handshake { session }) => {
                qr2::write_challenge(session, self.challenges.token(from, epoch), out);
                Verdict::Reply { is_verified: false }
            }
            Ok(Request::Stat {
                session,
                token: Token::Number(token),
                is_full,
            }) if self.challenges.accepts(token, from, epoch) => {
                qr2::write_reply_header(session, out);
                out.extend_from_slice(if is_full { &self.full } else { &self.basic });
                Verdict::Reply { is_verified: true }
            }
            Ok(Request::Stat { .. }) => Verdict::Drop("token"),
        }
    }
}

/// Returns whether a request belongs to GameSpy 2: an echo, or a query for whole sections, which has
/// no token (spec/gamespy2.md#2).
fn is_other_dialect(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, TYPE_ECHO, ..] => true,
        [_, _, TYPE_QUERY, _, _, _, _, sections @ ..] if sections.len() == 3 => {
            sections.iter().all(|&byte| byte == 0 || byte == 0xFF)
        }
        _ => false,
    }
}

/// Returns whether vanilla servers of this version use UTF-8, which they do since 1.21.11
/// (spec/minecraft-query.md#4.1). The first number with a dot counts, as in `Paper 1.21.11`.
fn has_utf8_queries(version: &str) -> bool {
    let mut words = version.split(|c: char| !c.is_ascii_digit() && c != '.');
    let Some(number) = words.find(|word| word.trim_matches('.').contains('.')) else {
        return false;
    };
    let mut parts = number
        .trim_matches('.')
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0_u32);
    [part(), part(), part()] >= [1, 21, 11]
}

/// Returns the name of the software without spaces after colons, because ": " begins the plugins
/// (spec/minecraft-query.md#4.3).
fn without_separator(software: &str) -> String {
    let mut name = String::new();
    for c in software.chars() {
        if c != ' ' || !name.ends_with(':') {
            name.push(c);
        }
    }
    name
}

/// Returns the texts of a full stat.
fn texts(status: &Status) -> impl Iterator<Item = &str> {
    let motd = status.motd.as_ref().or(status.name.as_ref());
    let short = [&status.mode, &status.map, &status.game, &status.version];
    let host = status
        .address
        .as_ref()
        .and_then(|address| address.host.as_deref());
    let rules = status
        .rules
        .iter()
        .flat_map(|rule| [&*rule.key, &*rule.value]);
    motd.map(|motd| motd.raw())
        .into_iter()
        .chain(short.into_iter().filter_map(|text| text.as_deref()))
        .chain(host)
        .chain(extra_texts(status, "software"))
        .chain(extra_texts(status, "plugins"))
        .chain(rules)
        .chain(status.players.list.iter().map(|player| player.name.raw()))
}

/// Returns the texts of an extra field.
fn extra_texts<'a>(status: &'a Status, key: &str) -> Vec<&'a str> {
    fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
        match value {
            Value::Str(text) => texts.push(text),
            Value::List(values) => values.iter().for_each(|value| collect(value, texts)),
            Value::Table(entries) => entries.iter().for_each(|(_, value)| collect(value, texts)),
            Value::Rows(rows) => texts.extend(rows.iter().flatten().map(|(_, text)| text)),
            _ => {}
        }
    }
    let mut texts = Vec::new();
    if let Some(value) = status.extra(key) {
        collect(value, &mut texts);
    }
    texts
}

/// Builds the replies.
struct Body<'a> {
    status: &'a Status,
    /// Whether texts are UTF-8 instead of ISO-8859-1.
    is_utf8: bool,
    /// Limit on the bytes after type and session id.
    limit: usize,
}

impl Body<'_> {
    /// Limit for MOTD and plugin string, in bytes. With these two, the other eight values and all
    /// constants fit any `limit`.
    fn long(&self) -> usize {
        self.limit / 4
    }

    /// Limit for each other value, in bytes.
    fn short(&self) -> usize {
        self.limit / 32
    }

    /// Appends a text and its NUL. Drops NULs inside, so that a text cannot imitate the fields
    /// after it. The text is cut first: no encoding is longer than UTF-8.
    fn text(&self, text: &str, out: &mut Vec<u8>) {
        let characters = text.chars().filter(|&c| c != '\0');
        if self.is_utf8 {
            let text: String = characters.collect();
            out.extend(text.as_bytes());
        } else {
            out.extend(characters.map(|c| Latin1::byte(c).unwrap_or(b'?')));
        }
        out.push(0);
    }

    fn motd(&self) -> &str {
        cut(
            self.status
                .motd
                .as_ref()
                .or(self.status.name.as_ref())
                .map_or("", |text| text.raw()),
            self.long(),
        )
    }

    fn mode(&self) -> &str {
        cut(self.status.mode.as_deref().unwrap_or("SMP"), self.short())
    }

    fn map(&self) -> &str {
        cut(self.status.map.as_deref().unwrap_or("world"), self.short())
    }

    fn game(&self) -> &str {
        cut(
            self.status.game.as_deref().unwrap_or("MINECRAFT"),
            self.short(),
        )
    }

    fn version(&self) -> &str {
        cut(self.status.version.as_deref().unwrap_or(""), self.short())
    }

    fn online(&self) -> i64 {
        self.status.players.count()
    }

    fn max(&self) -> i64 {
        self.status.players.max.unwrap_or(0)
    }

    fn port(&self) -> u16 {
        self.status
            .address
            .as_ref()
            .and_then(|address| address.port)
            .unwrap_or(super::INFO.port)
    }

    fn host(&self) -> &str {
        let host = self
            .status
            .address
            .as_ref()
            .and_then(|address| address.host.as_deref());
        cut(host.unwrap_or("127.0.0.1"), self.short())
    }

    /// spec/minecraft-query.md#3.2
    fn basic(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for value in [
            self.motd(),
            self.mode(),
            self.map(),
            &self.online().to_string(),
            &self.max().to_string(),
        ] {
            self.text(value, &mut out);
        }
        out.extend_from_slice(&self.port().to_le_bytes());
        self.text(self.host(), &mut out);
        out
    }

    /// spec/minecraft-query.md#3.3
    fn full(&self) -> Vec<u8> {
        let mut out = PAIRS_START.to_vec();
        let plugins = self.plugins();
        let pairs = [
            ("hostname", self.motd()),
            ("gametype", self.mode()),
            ("game_id", self.game()),
            ("version", self.version()),
            ("plugins", cut(&plugins, self.long())),
            ("map", self.map()),
            ("numplayers", &self.online().to_string()),
            ("maxplayers", &self.max().to_string()),
            ("hostport", &self.port().to_string()),
            ("hostip", self.host()),
        ];
        for (key, value) in pairs {
            self.text(key, &mut out);
            self.text(value, &mut out);
        }
        let names = self.status.players.list.iter();
        let names: usize = names.map(|player| player.name.raw().len() + 1).sum();
        // So that there is room for players.
        let end = PAIRS_END.len() + 1 + names.min(self.limit / 2);
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for rule in &self.status.rules {
            // A rule must not repeat a pair in either spelling or an earlier rule, nor end the
            // pairs with an empty key.
            let mut key = Vec::new();
            self.text(&rule.key, &mut key);
            let name = key.strip_suffix(&[0]).unwrap_or(&key);
            if name.is_empty() || Key::is_known(name) || sent.contains(&key) {
                continue;
            }
            let fits = Self::append_if(&mut out, self.limit - end, |out| {
                out.extend_from_slice(&key);
                self.text(&rule.value, out);
            });
            if !fits {
                break;
            }
            sent.push(key);
        }
        out.extend_from_slice(PAIRS_END);
        for player in &self.status.players.list {
            // An empty name would end the list, and one that looks like the start of the list would
            // be parsed as such.
            let name = player.name.raw();
            let left = || name.chars().filter(|&c| c != '\0');
            let breaks = left().next().is_none() || left().eq("\u{1}player_".chars());
            if !breaks && !Self::append_if(&mut out, self.limit - 1, |out| self.text(name, out)) {
                break;
            }
        }
        out.push(0);
        out
    }

    /// Runs `write`, and reverts its output if the result is longer than `limit`.
    fn append_if(out: &mut Vec<u8>, limit: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = out.len();
        write(out);
        let fits = out.len() <= limit;
        if !fits {
            out.truncate(before);
        }
        fits
    }

    /// `Software: name version; name version` (spec/minecraft-query.md#4.3).
    fn plugins(&self) -> String {
        let mut line = match self.status.extra("software") {
            Some(Value::Str(software)) => without_separator(software),
            _ => String::new(),
        };
        let mut is_first = true;
        let mut plugin = |parts: &mut dyn Iterator<Item = String>| {
            line.push_str(if mem::take(&mut is_first) { ": " } else { "; " });
            for (i, part) in parts.enumerate() {
                line.push_str(if i == 0 { "" } else { " " });
                line.push_str(&part.replace(';', ","));
            }
        };
        match self.status.extra("plugins") {
            Some(Value::Rows(plugins)) => plugins
                .iter()
                .for_each(|row| plugin(&mut row.map(|(_, part)| part.into()))),
            Some(Value::List(plugins)) => plugins.iter().for_each(|of| match of {
                Value::Table(parts) => plugin(&mut parts.iter().map(|(_, part)| part.to_string())),
                name => plugin(&mut iter::once(name.to_string())),
            }),
            _ => {}
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{SessionId, Stat};
    use super::*;
    use crate::{Player, Rule, Text};
    use alloc::format;

    const SESSION: SessionId = SessionId([1, 2, 3, 4]);
    const NOW: Epoch = Epoch(1000);

    fn client_address() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    fn status(players: usize) -> Status {
        let mut status = Status {
            motd: Some(Text::legacy("A \u{A7}aMinecraft Server")),
            ..Status::default()
        };
        status.players.max = Some(20);
        status.players.set_list(
            (0..players)
                .map(|i| Player::named(Text::legacy(format!("player_{i}"))))
                .collect(),
        );
        status
    }

    fn responder(status: &Status, config: &MinecraftQueryConfig) -> MinecraftQueryResponder {
        MinecraftQueryResponder::new(status, &Keys::new([7; 16]), config)
    }

    fn token(responder: &MinecraftQueryResponder, from: SocketAddr, epoch: Epoch) -> Token {
        let mut out = Vec::new();
        let verdict = responder.answer(from, epoch, &[0xFE, 0xFD, 9, 1, 2, 3, 4], &mut out);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert!(out.len() <= message::CHALLENGE_MAX);
        message::parse_challenge(&out, Some(SESSION), &mut Notes::default())
            .unwrap()
            .unwrap()
    }

    fn stat(
        responder: &MinecraftQueryResponder,
        from: SocketAddr,
        epoch: Epoch,
        token: Token,
    ) -> (Verdict, Vec<u8>) {
        let mut request = Vec::new();
        let mut out = Vec::new();
        Request::Stat {
            session: SESSION,
            token,
            is_full: true,
        }
        .write(&mut request);
        (responder.answer(from, epoch, &request, &mut out), out)
    }

    #[test]
    fn a_token_lives_two_epochs_at_one_address_and_port() {
        let responder = responder(&status(1), &MinecraftQueryConfig::default());
        let token = token(&responder, client_address(), NOW);
        let Token::Number(number) = token else {
            panic!()
        };
        assert!(number > 0);
        let ok = Verdict::Reply { is_verified: true };
        assert_eq!(stat(&responder, client_address(), NOW, token).0, ok);
        assert_eq!(stat(&responder, client_address(), Epoch(1001), token).0, ok);
        assert_eq!(
            stat(&responder, client_address(), Epoch(1002), token).0,
            Verdict::Drop("token")
        );
        assert_eq!(
            stat(&responder, client_address(), Epoch(999), token).0,
            Verdict::Drop("token"),
            "from the future"
        );
        assert_eq!(
            stat(&responder, client_address(), NOW, Token::Number(0)).0,
            Verdict::Drop("token")
        );
        let far = SocketAddr::new("192.0.2.8".parse().unwrap(), 50000);
        assert_eq!(stat(&responder, far, NOW, token).0, Verdict::Drop("token"));
    }

    #[test]
    fn a_token_may_be_bound_to_the_port() {
        let config = MinecraftQueryConfig {
            is_port_bound: true,
            ..MinecraftQueryConfig::default()
        };
        let responder = responder(&status(1), &config);
        let token = token(&responder, client_address(), NOW);
        let other_port = SocketAddr::new(client_address().ip(), 50001);
        assert_eq!(
            stat(&responder, other_port, NOW, token).0,
            Verdict::Drop("token")
        );
        let other_address = SocketAddr::new("192.0.2.8".parse().unwrap(), 50000);
        assert_eq!(
            stat(&responder, other_address, NOW, token).0,
            Verdict::Drop("token")
        );
    }

    #[test]
    fn only_the_length_decides_the_reply() {
        let responder = responder(&status(2), &MinecraftQueryConfig::default());
        let Token::Number(token) = token(&responder, client_address(), NOW) else {
            panic!()
        };
        let mut request = [&[0xFE, 0xFD, 0, 1, 2, 3, 4][..], &token.to_be_bytes()].concat();
        request.resize(2000, 0xFF);
        for length in 0..=64 {
            let mut out = Vec::new();
            let verdict = responder.answer(client_address(), NOW, &request[..length], &mut out);
            let mut notes = Notes::default();
            match length {
                0 | 1 => assert_eq!(verdict, Verdict::Pass),
                2..11 => assert_eq!(verdict, Verdict::Drop("malformed")),
                15 => assert!(matches!(
                    message::parse_stat(&out, None, &mut notes),
                    Ok(Stat::Full(_))
                )),
                _ => assert!(matches!(
                    message::parse_stat(&out, None, &mut notes),
                    Ok(Stat::Basic(_))
                )),
            }
            assert_eq!(
                verdict == Verdict::Reply { is_verified: true },
                length >= 11
            );
        }
        for length in 0..=32 {
            let mut out = Vec::new();
            let handshake = [&[0xFE, 0xFD, 9, 1, 2, 3, 4][..], &[0; 32]].concat();
            let verdict = responder.answer(client_address(), NOW, &handshake[..length], &mut out);
            assert_eq!(
                verdict == Verdict::Reply { is_verified: false },
                length >= 7
            );
        }
        let raknet = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0];
        assert_eq!(
            responder.answer(client_address(), NOW, &raknet, &mut Vec::new()),
            Verdict::Pass
        );
    }

    #[test]
    fn full_stat_is_vanilla_to_the_byte() {
        let mut status = status(0);
        status
            .players
            .set_list(alloc::vec![Player::named(Text::legacy("Notch"))]);
        status.version = Some("1.0.0".into());
        let responder = responder(&status, &MinecraftQueryConfig::default());
        let token = token(&responder, client_address(), NOW);
        let expected = b"\0\x01\x02\x03\x04splitnum\0\x80\0hostname\0A \xA7aMinecraft Server\0gametype\0SMP\0\
            game_id\0MINECRAFT\0version\x001.0.0\0plugins\0\0map\0world\0numplayers\x001\0maxplayers\x0020\0\
            hostport\x0025565\0hostip\x00127.0.0.1\0\0\x01player_\0\0Notch\0\0";
        assert_eq!(stat(&responder, client_address(), NOW, token).1, expected);
    }

    #[test]
    fn text_cannot_break_framing() {
        let mut status = status(0);
        status.motd = Some(Text::legacy("x\0gametype\0FAKE"));
        status.map = Some("a\0b".into());
        status.players.set_list(alloc::vec![
            Player::named(Text::legacy("\0")),
            Player::named(Text::legacy("a\0b"))
        ]);
        status.rules = alloc::vec![
            Rule {
                key: "map".into(),
                value: "fake".into()
            },
            Rule {
                key: "\0".into(),
                value: "ends".into()
            },
            Rule {
                key: "whitelist".into(),
                value: "o\0n".into()
            },
        ];
        let responder = responder(&status, &MinecraftQueryConfig::default());
        let token = token(&responder, client_address(), NOW);
        let mut notes = Notes::default();
        let reply = stat(&responder, client_address(), NOW, token).1;
        let Stat::Full(full) = message::parse_stat(&reply, Some(true), &mut notes).unwrap() else {
            panic!()
        };
        assert_eq!(notes.met().count(), 0);
        assert_eq!(full.players, [b"ab"]);
        let value = |key| {
            full.pairs
                .iter()
                .find(|(own, _)| *own == key)
                .map(|(_, value)| *value)
        };
        assert_eq!(value(message::Key::Hostname), Some(&b"xgametypeFAKE"[..]));
        assert_eq!(value(message::Key::Map), Some(&b"ab"[..]));
        assert_eq!(value(message::Key::Other(b"whitelist")), Some(&b"on"[..]));
        assert_eq!(full.pairs.len(), 11);
    }

    /// Returns the texts of a full reply to `status`, as bytes.
    fn full_texts(status: &Status, config: &MinecraftQueryConfig) -> Vec<Vec<u8>> {
        let responder = responder(status, config);
        let token = token(&responder, client_address(), NOW);
        let reply = stat(&responder, client_address(), NOW, token).1;
        let stat = message::parse_stat(&reply, Some(true), &mut Notes::default());
        let Ok(Stat::Full(full)) = stat else { panic!() };
        let pairs = full.pairs.iter().map(|(_, value)| value.to_vec());
        pairs
            .chain(full.players.iter().map(|name| name.to_vec()))
            .collect()
    }

    /// Clients that detect one encoding for all texts misread replies with mixed encodings.
    #[test]
    fn a_reply_has_one_encoding() {
        let auto = MinecraftQueryConfig::default();
        let bytes = |status: &Status, config| full_texts(status, config).concat();
        let mut status = status(0);
        status.motd = Some(Text::legacy("caf\u{E9}"));
        status
            .players
            .list
            .push(Player::named(Text::legacy("Zo\u{EB}")));
        status.version = Some("1.21.10".into());
        let latin1 = bytes(&status, &auto);
        assert!(latin1.windows(4).any(|window| window == b"caf\xE9"));
        assert!(latin1.windows(3).any(|window| window == b"Zo\xEB"));
        for version in ["1.21.11", "Paper 1.21.11-R0.1", "26.1"] {
            status.version = Some(version.into());
            let utf8 = String::from_utf8(bytes(&status, &auto)).unwrap();
            assert!(
                utf8.contains("caf\u{E9}") && utf8.contains("Zo\u{EB}"),
                "{version}"
            );
        }
        for version in ["", "1.9.4", "1.8 - 1.21.11", "25w41a", "1.21."] {
            status.version = Some(version.into());
            assert_eq!(full_texts(&status, &auto)[0], b"caf\xE9", "{version}");
        }
        // The status was polled from a server that uses UTF-8.
        status.is_utf8 = true;
        assert!(String::from_utf8(bytes(&status, &auto)).is_ok());
        // The option overrides both rules.
        let fixed = |encoding| MinecraftQueryConfig { encoding, ..auto };
        assert_eq!(full_texts(&status, &fixed(Encoding::Latin1))[0], b"caf\xE9");
        status.is_utf8 = false;
        assert_eq!(
            full_texts(&status, &fixed(Encoding::Utf8))[0],
            "caf\u{E9}".as_bytes()
        );
        // A single text that does not fit makes all texts UTF-8, in any position.
        for change in [
            (|status: &mut Status| {
                status
                    .players
                    .list
                    .push(Player::named(Text::legacy("\u{4E2D}")))
            }) as fn(&mut Status),
            |status| {
                status.rules.push(Rule {
                    key: "k".into(),
                    value: "\u{4E2D}".into(),
                })
            },
            |status| status.map = Some("\u{C3}\u{A9}".into()),
            |status| {
                status
                    .extra
                    .extend(super::super::plugins([("\u{4E2D}", "1")]))
            },
        ] {
            let mut status = status.clone();
            change(&mut status);
            assert!(String::from_utf8(bytes(&status, &auto)).is_ok());
        }
    }

    #[test]
    fn a_separator_in_the_name_of_the_software_is_no_separator() {
        use crate::model::Extra;
        let mut status = status(0);
        status
            .extra
            .push(Extra::new("software", "Paper:  a fork: of Spigot"));
        status
            .extra
            .extend(super::super::plugins([("WorldEdit", "7.3")]));
        let plugins = &full_texts(&status, &MinecraftQueryConfig::default())[4];
        assert_eq!(
            core::str::from_utf8(plugins),
            Ok("Paper:a fork:of Spigot: WorldEdit 7.3")
        );
    }

    #[test]
    fn every_encoding_reads_back() {
        let cases = [
            ("\u{A7}aplain", "\u{A7}aplain", Encoding::Auto),
            ("caf\u{E9}", "caf\u{E9}", Encoding::Auto),
            ("\u{C3}\u{A9}", "\u{C3}\u{A9}", Encoding::Auto),
            ("\u{4E2D}\u{6587}", "\u{4E2D}\u{6587}", Encoding::Auto),
            ("\u{A7}a\u{4E2D}", "\u{A7}a?", Encoding::Latin1),
            ("\u{A7}a\u{E9}", "\u{A7}a\u{E9}", Encoding::Utf8),
        ];
        for (sent, read, encoding) in cases {
            let status = Status {
                motd: Some(Text::legacy(sent)),
                ..Status::default()
            };
            let responder = responder(
                &status,
                &MinecraftQueryConfig {
                    encoding,
                    ..MinecraftQueryConfig::default()
                },
            );
            let token = token(&responder, client_address(), NOW);
            let reply = stat(&responder, client_address(), NOW, token).1;
            let Ok(Stat::Full(full)) =
                message::parse_stat(&reply, Some(true), &mut Notes::default())
            else {
                panic!()
            };
            assert_eq!(crate::wire::by_content(full.pairs[0].1).0, read);
        }
    }

    #[test]
    fn the_limit_cuts_whole_names_and_keeps_the_count() {
        let mut status = status(500);
        status.motd = Some(Text::legacy("\u{E9}".repeat(5000)));
        status.rules = (0..200)
            .map(|i| Rule {
                key: format!("rule{i}").into(),
                value: "v".repeat(50).into(),
            })
            .collect();
        for max_reply in [MaxReply::LEAST, 1400, 4096, MaxReply::LARGEST] {
            let responder = responder(
                &status,
                &MinecraftQueryConfig {
                    max_reply: MaxReply::new(max_reply),
                    ..MinecraftQueryConfig::default()
                },
            );
            let token = token(&responder, client_address(), NOW);
            let reply = stat(&responder, client_address(), NOW, token).1;
            assert!(reply.len() <= max_reply, "{} > {max_reply}", reply.len());
            let mut notes = Notes::default();
            let Ok(Stat::Full(full)) = message::parse_stat(&reply, Some(true), &mut notes) else {
                panic!()
            };
            assert_eq!(notes.met().count(), 0);
            assert!(full.pairs.contains(&(message::Key::NumPlayers, b"500")));
            assert!(
                full.players
                    .iter()
                    .enumerate()
                    .all(|(i, name)| *name == format!("player_{i}").as_bytes())
            );
            // Rules leave room for players.
            let names: usize = full.players.iter().map(|name| name.len() + 1).sum();
            let all = status.players.list.iter();
            let all: usize = all.map(|player| player.name.raw().len() + 1).sum();
            assert!(
                names + 16 > all.min(max_reply / 4),
                "{names} of {all}, {max_reply}"
            );
        }
    }

    #[test]
    fn options_are_checked() {
        let read = |options: Options| {
            MinecraftQueryConfig::read(&options).map_err(|error| error.to_string())
        };
        assert_eq!(
            read(Options::default()),
            Ok(MinecraftQueryConfig::default())
        );
        assert!(
            read(Options::default().with("encoding", "ebcdic"))
                .unwrap_err()
                .contains("latin-1")
        );
    }
}
