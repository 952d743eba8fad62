//! The responder (spec/a2s.md#11). Every request needs a challenge, so an unverified source gets at
//! most [`CHALLENGE_REPLY`](super::message::CHALLENGE_REPLY) bytes.

use super::bzip2::crc32;
use super::client::{SERVER_TYPES, SHIP_MODES, SYSTEMS};
use super::message::{
    self, Challenge, ExtraData, Info, MAX_RULES, Player, Request, Ship, THE_SHIP,
};
use super::split::{MAX_PARTS, write_part};
use crate::model::{Codes, Extra, Status, Value, printable};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::{BIND_PORT, Epoch, Keys, owner};
use crate::wire::{Notes, cut};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use subtle::ConstantTimeEq;

/// Makes challenges differ from the tokens of other protocols with the same keys.
const PURPOSE: u8 = b'A';
/// Epochs in which a challenge is accepted: its own and the next two, so 60 to 90 s.
const GENERATIONS: u32 = 3;
/// Version of the protocol in info replies. Clients choose the layout of split replies by it.
const PROTOCOL: u8 = 17;
/// Longest reply in one datagram.
const MAX_SINGLE: usize = 1_200;
/// Payload of each part of a longer reply. With its header, a part is as long as a single datagram.
const PART_SIZE: u16 = MAX_SINGLE as u16 - 12;
/// Longest reply.
const MAX_REPLY: usize = PART_SIZE as usize * MAX_PARTS as usize;
/// Limits of Steam for texts, without NUL, in bytes.
const MAX_NAME: usize = 63;
const MAX_MAP: usize = 31;
const MAX_KEYWORDS: usize = 127;
/// Limit for the name of a player in bytes: 32 characters of up to four bytes.
const MAX_PLAYER_NAME: usize = 128;
/// Maximum number of a game: a game id has 24 bits for it.
const MAX_APP_ID: i64 = 0x00FF_FFFF;
/// Limit for the value of a rule in bytes.
const MAX_VALUE: usize = 1_024;

// A count of one byte is enough for the players, and Steam's limit leaves room for them.
const _: () = assert!(7 + 255 * (10 + MAX_PLAYER_NAME + 8) <= MAX_REPLY);

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "players",
        "Contents of the player list: \"names\" (default), \"anonymous\" for entries without names, or \"none\" \
               to send no list",
    ),
    Doc::new(
        "info-challenge",
        "Whether info needs a challenge: \"always\" (default), or \"never\" for clients from before 2020, which \
               sends up to 500 bytes for 25 to any address",
    ),
    BIND_PORT,
    Doc::new(
        "app-id",
        "Number of the game on Steam, such as 730; by default that of the status, or else 0. Some clients read no \
               long lists of rules or players from a server with the number 0, such as qstat",
    ),
];

/// Contents of the player list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disclosure {
    /// Names, scores and times.
    #[default]
    Names,
    /// Scores and times, with empty names.
    Anonymous,
    /// Nothing: requests for players get no reply.
    Nothing,
}

/// Configuration of the responder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct A2sConfig {
    /// Contents of the player list.
    pub players: Disclosure,
    /// Whether info needs a challenge.
    pub is_info_challenged: bool,
    /// Whether a challenge is valid only for the port that requested it, not just for the address.
    pub is_port_bound: bool,
    /// Number of the game on Steam; `None` for the extra `app-id` of the status, or 0 without one.
    pub app_id: Option<u32>,
}

impl Default for A2sConfig {
    fn default() -> Self {
        Self {
            players: Disclosure::default(),
            is_info_challenged: true,
            is_port_bound: false,
            app_id: None,
        }
    }
}

impl A2sConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown or has an unknown value.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let players = match options.word("players", &["names", "anonymous", "none"])? {
            Some("anonymous") => Disclosure::Anonymous,
            Some("none") => Disclosure::Nothing,
            _ => Disclosure::Names,
        };
        let challenge = options.word("info-challenge", &["always", "never"])?;
        let app_id = match options.value("app-id") {
            None => None,
            Some(Value::Int(id @ 0..=MAX_APP_ID)) => Some(*id as u32),
            Some(_) => {
                return Err(OptionError::new(
                    "app-id",
                    "must be a whole number of at most 16777215",
                ));
            }
        };
        Ok(Self {
            players,
            is_info_challenged: challenge != Some("never"),
            is_port_bound: options.bool("bind-port", false)?,
            app_id,
        })
    }
}

/// Responder for one server. All replies are encoded once.
#[derive(Debug)]
pub struct A2sResponder {
    keys: Keys,
    is_port_bound: bool,
    is_info_challenged: bool,
    info: Message,
    /// `None` if requests for players get no reply.
    players: Option<Message>,
    /// `None` if the source of the status has no rules, but may have some.
    rules: Option<Message>,
}

/// An encoded reply.
#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    /// Id of its parts. Equal messages have equal ids, so a client can join parts of repeated
    /// replies.
    id: u32,
}

impl Message {
    fn new(bytes: Vec<u8>) -> Self {
        let id = crc32(&bytes);
        Self { bytes, id }
    }

    /// Appends one of its datagrams. Returns `false` if there is none with this index.
    fn write(&self, index: usize, out: &mut Vec<u8>) -> bool {
        if self.bytes.len() > MAX_SINGLE {
            return write_part(&self.bytes, self.id, index, PART_SIZE, out);
        }
        if index == 0 {
            out.extend_from_slice(&self.bytes);
        }
        index == 0
    }
}

impl A2sResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, keys: &Keys, config: &A2sConfig) -> Self {
        let status = &*status.with_codes(Codes::None);
        let mut status = Cow::Borrowed(status);
        if let Some(id) = config.app_id {
            let extras = &mut status.to_mut().extra;
            extras.retain(|extra| extra.key != "app-id");
            extras.push(Extra::new("app-id", i64::from(id)));
        }
        let status = &*status;
        Self {
            keys: keys.clone(),
            is_port_bound: config.is_port_bound,
            is_info_challenged: config.is_info_challenged,
            info: Message::new(info(status)),
            players: match config.players {
                _ if !status.players.has_list() => None,
                Disclosure::Nothing => None,
                disclosure => Some(Message::new(players(status, disclosure))),
            },
            rules: (!status.lacks_rules()).then(|| Message::new(rules(status))),
        }
    }

    /// Returns the address of the client as challenges contain it.
    fn challenge_owner(&self, from: SocketAddr) -> SocketAddr {
        owner(from, self.is_port_bound)
    }

    fn accepts(&self, challenge: Option<Challenge>, from: SocketAddr, epoch: Epoch) -> bool {
        let Some(Challenge(sent)) = challenge else {
            return false;
        };
        let owner = self.challenge_owner(from);
        (0..GENERATIONS).any(|age| {
            let mut tags = self.keys.accepted(PURPOSE, owner, epoch.before(age));
            tags.any(|tag| from_tag(tag).0.ct_eq(&sent).into())
        })
    }

    /// Returns the reply to a request for data, and whether it needs a challenge.
    fn reply(&self, request: Request) -> Option<(&Message, Option<Challenge>, bool)> {
        match request {
            Request::Info(challenge) => Some((&self.info, challenge, self.is_info_challenged)),
            Request::Players(challenge) => Some((self.players.as_ref()?, challenge, true)),
            Request::Rules(challenge) => Some((self.rules.as_ref()?, challenge, true)),
            Request::Challenge | Request::Ping | Request::Word(_) => None,
        }
    }
}

/// Returns the challenge of a tag. Clients use 0 and FFFFFFFF to request one.
fn from_tag(tag: u128) -> Challenge {
    let bytes = tag.to_le_bytes();
    let (words, _) = bytes.as_chunks();
    let usable = words
        .iter()
        .find(|word| ![[0; 4], [0xFF; 4]].contains(word));
    Challenge(usable.copied().unwrap_or([1; 4]))
}

impl Responder for A2sResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let request = match Request::parse(bytes, &mut Notes::discarding()) {
            // Other games have words with the same first bytes.
            None | Some(Request::Word(_)) => return Verdict::Pass,
            Some(Request::Ping) => return Verdict::Drop("ping"),
            Some(request) => request,
        };
        match self.reply(request) {
            Some((message, challenge, needs_challenge)) => {
                let is_verified = self.accepts(challenge, from, epoch);
                if is_verified || !needs_challenge {
                    message.write(0, out);
                    return Verdict::Reply { is_verified };
                }
            }
            None if request != Request::Challenge => {
                return Verdict::Drop(match request {
                    Request::Rules(_) => "no list",
                    _ => "players are hidden",
                });
            }
            None => {}
        }
        let tag = self.keys.mint(PURPOSE, self.challenge_owner(from), epoch);
        message::write_challenge(from_tag(tag), out);
        Verdict::Reply { is_verified: false }
    }

    fn continuation(
        &self,
        request: &[u8],
        is_verified: bool,
        index: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let request = Request::parse(request, &mut Notes::discarding());
        let reply = request.and_then(|request| self.reply(request));
        // Otherwise the reply was a challenge.
        let reply = reply.filter(|(_, _, needs_challenge)| is_verified || !needs_challenge);
        reply.is_some_and(|(message, ..)| message.write(index, out))
    }
}

/// Returns the text without NUL, cut to `limit` bytes.
fn text(text: &str, limit: usize) -> String {
    let whole: String = text.chars().filter(|c| *c != '\0').collect();
    cut(&whole, limit).into()
}

fn optional(value: Option<&str>, limit: usize) -> String {
    text(value.unwrap_or_default(), limit)
}

fn text_extra(status: &Status, key: &str, limit: usize) -> Option<String> {
    match status.extra(key) {
        Some(Value::Str(value)) => Some(text(value, limit)),
        _ => None,
    }
}

fn int_extra(extras: &[Extra], key: &str) -> Option<i64> {
    let extra = extras.iter().find(|extra| extra.key == key)?;
    match extra.value {
        Value::Int(value) => Some(value),
        _ => None,
    }
}

/// Returns the letter that has the name in this extra.
fn letter(status: &Status, key: &str, names: &[(u8, &str)], default: u8) -> u8 {
    let name = text_extra(status, key, MAX_NAME);
    let known = names
        .iter()
        .find(|(_, known)| Some(*known) == name.as_deref());
    known.map_or(default, |(letter, _)| *letter)
}

/// Returns a number of one byte: counts above 255 are sent as 255.
fn byte(number: Option<i64>) -> u8 {
    number.unwrap_or_default().clamp(0, u8::MAX.into()) as u8
}

fn app_id(status: &Status) -> u32 {
    let id = int_extra(&status.extra, "app-id").unwrap_or_default();
    u32::try_from(id & MAX_APP_ID).unwrap_or_default()
}

/// Clients detect The Ship by the 16-bit app id.
fn is_ship(status: &Status) -> bool {
    app_id(status) & 0xFFFF == THE_SHIP
}

fn info(status: &Status) -> Vec<u8> {
    let name = status.title().unwrap_or_default();
    let name = String::from(cut(&printable(&name), MAX_NAME));
    let map = optional(status.map.as_deref(), MAX_MAP);
    let folder = text_extra(status, "folder", MAX_MAP).unwrap_or_default();
    let game = optional(status.game.as_deref(), MAX_NAME);
    let version = optional(status.version.as_deref(), MAX_NAME);
    let keywords = text_extra(status, "keywords", MAX_KEYWORDS);
    let tv_name = text_extra(status, "tv-name", MAX_NAME).unwrap_or_default();
    let tv_port = int_extra(&status.extra, "tv-port").and_then(|port| u16::try_from(port).ok());
    let number = |key| text_extra(status, key, MAX_NAME)?.parse::<u64>().ok();
    let app_id = app_id(status);
    let game_id = number("game-id").filter(|id| id & 0x00FF_FFFF == u64::from(app_id));
    let players = &status.players;
    let mut out = Vec::new();
    message::write_info(
        &Info {
            protocol: PROTOCOL,
            name: name.as_bytes(),
            map: map.as_bytes(),
            folder: folder.as_bytes(),
            game: game.as_bytes(),
            app_id: app_id as u16,
            players: byte(Some(players.count())),
            max: byte(players.max),
            bots: byte(players.bots),
            server_type: letter(status, "server-type", &SERVER_TYPES, b'd'),
            system: letter(status, "system", &SYSTEMS, b'l'),
            password: status.has_password.unwrap_or_default().into(),
            anti_cheat: status.has_anti_cheat.unwrap_or_default().into(),
            is_cut: false,
            ship: is_ship(status).then(|| ship(status)),
            version: version.as_bytes(),
            extra: Some(ExtraData {
                flags: 0,
                port: status.address.as_ref().and_then(|address| address.port),
                steam_id: number("steam-id"),
                tv: tv_port.map(|port| (port, tv_name.as_bytes())),
                keywords: keywords.as_deref().map(str::as_bytes),
                game_id: Some(game_id.unwrap_or(app_id.into())),
            }),
        },
        &mut out,
    );
    out
}

fn ship(status: &Status) -> Ship {
    let named = |mode: &str| SHIP_MODES.iter().position(|known| *known == mode);
    let mode = status.mode.as_deref().and_then(named);
    let mode = mode.map(|mode| mode as i64);
    let extra = |key| int_extra(&status.extra, key);
    Ship {
        mode: byte(extra("mode-number").or(mode)),
        witnesses: byte(extra("witnesses")),
        duration: byte(extra("duration")),
    }
}

fn players(status: &Status, disclosure: Disclosure) -> Vec<u8> {
    let list = status.players.list.get(..usize::from(u8::MAX));
    let list = list.unwrap_or(&status.players.list);
    let mut out = Vec::new();
    message::write_players_header(list.len() as u8, &mut out);
    let int = |number: i64| number.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    for player in list {
        let name = match disclosure {
            Disclosure::Names => text(&player.name.plain(), MAX_PLAYER_NAME),
            Disclosure::Anonymous | Disclosure::Nothing => String::new(),
        };
        let entry = Player {
            index: 0,
            name: name.as_bytes(),
            score: int(player.score.unwrap_or_default()),
            time_s: player
                .time_s
                .filter(|time| time.is_finite())
                .unwrap_or_default(),
        };
        message::write_player(entry, &mut out);
    }
    if is_ship(status) {
        for player in list {
            for key in ["deaths", "money"] {
                let number = int(int_extra(&player.extra, key).unwrap_or_default());
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
    out
}

fn rules(status: &Status) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut count = 0;
    for rule in status.rules.iter().take(MAX_RULES) {
        let start = entries.len();
        // Names of control characters mark binary chunks.
        let name = printable(&rule.key);
        let value = text(&rule.value, MAX_VALUE);
        message::write_rule(
            cut(&name, MAX_VALUE).as_bytes(),
            value.as_bytes(),
            &mut entries,
        );
        if entries.len() > MAX_REPLY - RULES_HEADER {
            entries.truncate(start);
            break;
        }
        count += 1;
    }
    let mut out = Vec::with_capacity(RULES_HEADER + entries.len());
    message::write_rules_header(count, &mut out);
    out.extend(entries);
    out
}

/// Length of a rules reply without rules.
const RULES_HEADER: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{self, Rule, Text};
    use crate::protocols::a2s::message::{CHALLENGE_REPLY, INFO_REQUEST, Reply, Word, parse_reply};
    use crate::protocols::a2s::split::{Assembled, Assembly, Layout};
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    const NOW: Epoch = Epoch(59_833_333);

    fn client() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    fn responder(status: &Status) -> A2sResponder {
        A2sResponder::new(status, &Keys::new([7; 16]), &A2sConfig::default())
    }

    fn with_option(status: &Status, key: &str, value: &str) -> A2sResponder {
        let options = Options::default().with(key, value);
        A2sResponder::new(
            status,
            &Keys::new([7; 16]),
            &A2sConfig::read(&options).unwrap(),
        )
    }

    fn bytes(request: Request) -> Vec<u8> {
        let mut out = Vec::new();
        request.write(&mut out);
        out
    }

    fn answer(responder: &A2sResponder, request: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        let verdict = responder.answer(client(), NOW, request, &mut out);
        (verdict, out)
    }

    /// Requests a challenge in this epoch.
    fn challenge(responder: &A2sResponder, epoch: Epoch) -> Challenge {
        let mut out = Vec::new();
        responder.answer(client(), epoch, &bytes(Request::Challenge), &mut out);
        match parse_reply(&out, true, None, &mut Notes::default()).unwrap() {
            Reply::Challenge(challenge) => challenge,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the reply to a request with a challenge, joined, and the number of datagrams.
    fn whole(
        responder: &A2sResponder,
        request: fn(Option<Challenge>) -> Request,
    ) -> (Vec<u8>, usize) {
        let request = bytes(request(Some(challenge(responder, NOW))));
        let (verdict, first) = answer(responder, &request);
        assert_eq!(verdict, Verdict::Reply { is_verified: true });
        let mut assembly = Assembly::default();
        let mut datagram = first;
        for count in 1.. {
            assert!(datagram.len() <= MAX_SINGLE, "{}", datagram.len());
            if !datagram.starts_with(crate::protocols::a2s::SPLIT) {
                assert!(!responder.continuation(&request, true, 1, &mut Vec::new()));
                return (datagram, count);
            }
            let joined = assembly.insert(&datagram, Layout::GoldSource, &mut Notes::default());
            datagram = Vec::new();
            let has_more = responder.continuation(&request, true, count, &mut datagram);
            match joined {
                Ok(Assembled::Complete(joined)) => {
                    assert!(!has_more && datagram.is_empty());
                    return (joined, count);
                }
                other => assert_eq!(other, Ok(Assembled::Incomplete)),
            }
            assert!(has_more);
        }
        unreachable!()
    }

    fn parse(bytes: &[u8]) -> Reply<'_> {
        let mut notes = Notes::default();
        let reply = parse_reply(bytes, true, None, &mut notes).unwrap();
        assert_eq!(notes.met().next(), None);
        reply
    }

    /// spec/a2s.md#11
    #[test]
    fn unverified_sources_get_only_a_challenge() {
        let responder = responder(&Status::default());
        let wrong = Some(Challenge([1, 2, 3, 4]));
        let mut requests = vec![
            bytes(Request::Info(None)),
            bytes(Request::Info(wrong)),
            bytes(Request::Players(Some(Challenge::REQUEST))),
            bytes(Request::Players(wrong)),
            bytes(Request::Players(None)),
            bytes(Request::Rules(Some(Challenge([0; 4])))),
            bytes(Request::Rules(wrong)),
            bytes(Request::Rules(None)),
            bytes(Request::Challenge),
        ];
        requests.push([requests[0].as_slice(), &[0; 1_175]].concat());
        for request in requests {
            let (verdict, reply) = answer(&responder, &request);
            assert_eq!(
                verdict,
                Verdict::Reply { is_verified: false },
                "{request:02x?}"
            );
            assert_eq!(reply.len(), CHALLENGE_REPLY);
        }
        let drop = Verdict::Drop("ping");
        assert_eq!(answer(&responder, &bytes(Request::Ping)).0, drop);
        let others: &[&[u8]] = &[
            b"",
            b"\xFF\xFF\xFF\xFF",
            b"\xFF\xFF\xFF\xFFT",
            b"\xFF\xFF\xFF\xFFTSource Engine Quer",
            b"\xFF\xFF\xFF\xFFgetstatus",
            b"\xFF\xFF\xFF\xFFq",
            b"\xFE\xFF\xFF\xFFU\xFF\xFF\xFF\xFF",
            &bytes(Request::Word(Word::Details)),
        ];
        for request in others {
            assert_eq!(
                answer(&responder, request).0,
                Verdict::Pass,
                "{request:02x?}"
            );
        }
    }

    #[test]
    fn challenges_are_bound_and_expire() {
        let responder = responder(&Status::default());
        let verdict = |from: &str, epoch: u32, challenge| {
            let request = bytes(Request::Info(Some(challenge)));
            let from = from.parse().unwrap();
            responder.answer(from, Epoch(epoch), &request, &mut Vec::new())
        };
        let known = challenge(&responder, NOW);
        let accepted = Verdict::Reply { is_verified: true };
        for age in 0..GENERATIONS {
            assert_eq!(verdict("192.0.2.7:50000", NOW.0 + age, known), accepted);
        }
        for (from, epoch) in [
            ("192.0.2.7:50000", NOW.0 + GENERATIONS),
            ("192.0.2.7:50000", NOW.0 - 1),
            ("192.0.2.8:50000", NOW.0),
        ] {
            assert_ne!(verdict(from, epoch, known), accepted, "{from} {epoch}");
        }
    }

    #[test]
    fn challenges_are_never_a_request_for_one() {
        let ones = u128::from(u32::MAX);
        assert_eq!(from_tag(ones), Challenge([1; 4]));
        assert_eq!(from_tag(5 << 32 | ones), Challenge([5, 0, 0, 0]));
        assert_eq!(from_tag(6 << 64), Challenge([6, 0, 0, 0]));
        assert_eq!(from_tag(9), Challenge([9, 0, 0, 0]));
    }

    #[test]
    fn app_id_comes_from_the_option_or_the_status() {
        let mut status = Status::default();
        status.extra.push(Extra::new("app-id", 440));
        for (option, expected) in [(None, 440), (Some(252_490), 252_490), (Some(0), 0)] {
            let mut options = Options::default();
            if let Some(id) = option {
                options = options.with("app-id", Value::Int(id));
            }
            let config = A2sConfig::read(&options).unwrap();
            let responder = A2sResponder::new(&status, &Keys::new([7; 16]), &config);
            let (reply, _) = whole(&responder, Request::Info);
            let Reply::Info(info) = parse(&reply) else {
                panic!()
            };
            assert_eq!(info.full_app_id(), expected);
        }
        for invalid in [Value::Int(1 << 24), Value::Int(-1), "730".into()] {
            let options = Options::default().with("app-id", invalid);
            let error = A2sConfig::read(&options).unwrap_err().to_string();
            assert_eq!(error, "app-id: must be a whole number of at most 16777215");
        }
    }

    #[test]
    fn info_is_cut_to_the_limits_of_steam() {
        let long = "\u{E9}".repeat(100);
        let mut status = Status {
            name: Some(Text::unformatted(format!("a\x01b\n{long}"))),
            map: Some(format!("m\0{long}").into()),
            ..Status::default()
        };
        status.extra.push(Extra::new("keywords", long.as_str()));
        status.extra.push(Extra::new("app-id", 252_490));
        status.players.online = Some(300);
        status.players.max = Some(-1);
        let (reply, _) = whole(&responder(&status), Request::Info);
        let Reply::Info(info) = parse(&reply) else {
            panic!()
        };
        assert_eq!(info.name, format!("ab {}", "\u{E9}".repeat(30)).as_bytes());
        assert_eq!(info.map, format!("m{}", "\u{E9}".repeat(15)).as_bytes());
        assert_eq!((info.players, info.max, info.app_id), (255, 0, 55_882));
        assert_eq!((info.server_type, info.system), (b'd', b'l'));
        assert_eq!(info.full_app_id(), 252_490);
        let keywords = info.extra.unwrap().keywords.unwrap();
        assert_eq!(keywords, "\u{E9}".repeat(63).as_bytes());
        assert_eq!(info.protocol, 17);
    }

    fn crowd(players: usize, name: &str) -> Status {
        let mut status = Status::default();
        let list = (0..players).map(|i| model::Player {
            score: Some(i as i64 - 100),
            time_s: Some(f32::NAN),
            ..model::Player::named(Text::unformatted(format!("{name}{i}")))
        });
        status.players.set_list(list.collect());
        status
    }

    #[test]
    fn lists_are_split() {
        for (players, listed, datagrams) in [
            (0, 0, 1),
            (92, 92, 1),
            (93, 93, 2),
            (255, 255, 3),
            (300, 255, 3),
        ] {
            let (reply, count) = whole(&responder(&crowd(players, "n")), Request::Players);
            let Reply::Players(list) = parse(&reply) else {
                panic!()
            };
            assert_eq!((list.list.len(), count), (listed, datagrams), "{players}");
            assert_eq!(usize::from(list.count), listed);
            assert!(list.list.iter().all(|player| player.time_s == 0.0));
            let scores = list.list.iter().map(|player| player.score);
            assert!(scores.eq((0..listed as i32).map(|i| i - 100)));
        }
        let (_, datagrams) = whole(&responder(&crowd(255, &"n".repeat(200))), Request::Players);
        assert_eq!(datagrams, 30);
    }

    #[test]
    fn rules_are_sent_whole() {
        let mut status = Status::default();
        let rule = |i: usize| Rule {
            key: format!("\x01rule_{i}\0").into(),
            value: format!("{}\0", "v".repeat(i)).into(),
        };
        status.rules = (0..1_200).map(rule).collect();
        let (reply, datagrams) = whole(&responder(&status), Request::Rules);
        let Reply::Rules(rules) = parse(&reply) else {
            panic!()
        };
        assert_eq!((rules.list.len(), datagrams), (266, 32));
        assert!(reply.len() <= MAX_REPLY && reply.len() > MAX_REPLY - 300);
        let (name, value) = rules.list[265];
        assert_eq!((name, value.len()), (b"rule_265".as_slice(), 265));
    }

    #[test]
    fn rules_fill_the_longest_reply() {
        // Rules of 1,000 bytes, and one that fills the rest or is a byte too long.
        let rule = |length: usize| Rule {
            key: "k".into(),
            value: "v".repeat(length - 3).into(),
        };
        let rest = (MAX_REPLY - RULES_HEADER) % 1_000;
        let whole_rules = (MAX_REPLY - RULES_HEADER) / 1_000;
        for (last, listed) in [(rest, whole_rules + 1), (rest + 1, whole_rules)] {
            let rules = (0..whole_rules).map(|_| rule(1_000));
            let status = Status {
                rules: rules.chain([rule(last)]).collect(),
                ..Status::default()
            };
            let (reply, _) = whole(&responder(&status), Request::Rules);
            let Reply::Rules(rules) = parse(&reply) else {
                panic!()
            };
            assert_eq!(rules.list.len(), listed);
        }
    }

    #[test]
    fn repeated_replies_have_the_same_id() {
        let responder = responder(&crowd(255, "n"));
        let request = bytes(Request::Players(Some(challenge(&responder, NOW))));
        let (_, first) = answer(&responder, &request);
        assert_eq!(answer(&responder, &request).1, first);
        let other =
            super::A2sResponder::new(&crowd(254, "n"), &Keys::new([7; 16]), &A2sConfig::default());
        assert_ne!(answer(&other, &request).1[4..8], first[4..8]);
    }

    #[test]
    fn options() {
        let defaults = A2sConfig::read(&Options::default()).unwrap();
        assert!(!defaults.is_port_bound && defaults.is_info_challenged);
        assert_eq!(defaults.players, Disclosure::Names);
        let status = crowd(2, "n");
        let anonymous = with_option(&status, "players", "anonymous");
        let (reply, _) = whole(&anonymous, Request::Players);
        let Reply::Players(list) = parse(&reply) else {
            panic!()
        };
        assert!(list.list.iter().all(|player| player.name.is_empty()));
        assert_eq!(list.list.len(), 2);
        for is_port_bound in [false, true] {
            let options = Options::default().with("bind-port", is_port_bound);
            let config = A2sConfig::read(&options).unwrap();
            let responder = A2sResponder::new(&status, &Keys::new([7; 16]), &config);
            let request = bytes(Request::Info(Some(challenge(&responder, NOW))));
            for (from, is_verified) in [("192.0.2.7:9", !is_port_bound), ("192.0.2.8:50000", false)]
            {
                let from = from.parse().unwrap();
                let verdict = responder.answer(from, NOW, &request, &mut Vec::new());
                assert_eq!(verdict, Verdict::Reply { is_verified });
            }
        }
        let hidden = with_option(&status, "players", "none");
        let request = bytes(Request::Players(Some(Challenge::REQUEST)));
        let verdict = answer(&hidden, &request).0;
        assert_eq!(verdict, Verdict::Drop("players are hidden"));
        let open = with_option(&status, "info-challenge", "never");
        let (verdict, reply) = answer(&open, &bytes(Request::Info(None)));
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert!(reply.len() > INFO_REQUEST);
        let with_challenge = bytes(Request::Info(Some(challenge(&open, NOW))));
        let (verdict, again) = answer(&open, &with_challenge);
        assert_eq!(
            (verdict, again),
            (Verdict::Reply { is_verified: true }, reply)
        );
        for (key, value) in [
            ("players", "all"),
            ("info-challenge", "sometimes"),
            ("port", "1"),
        ] {
            let options = Options::default().with(key, value);
            assert_eq!(A2sConfig::read(&options).unwrap_err().key, key);
        }
    }

    #[test]
    fn the_ship_gets_its_fields() {
        let mut status = crowd(2, "n");
        status.mode = Some("Duel".into());
        status.extra.push(Extra::new("app-id", 2_400));
        status.players.list[1].extra = vec![Extra::new("deaths", 3), Extra::new("money", -1)];
        let responder = responder(&status);
        let (info, _) = whole(&responder, Request::Info);
        let Reply::Info(info) = parse(&info) else {
            panic!()
        };
        let ship = Ship {
            mode: 2,
            witnesses: 0,
            duration: 0,
        };
        assert_eq!(info.ship, Some(ship));
        let (players, _) = whole(&responder, Request::Players);
        let reply = parse_reply(&players, true, Some(THE_SHIP), &mut Notes::default());
        let Ok(Reply::Players(list)) = reply else {
            panic!()
        };
        assert_eq!(list.ship, [(0, 0), (3, -1)]);
    }
}
