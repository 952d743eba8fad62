//! The client: handshake, then stat, with a resend for each stage (spec/minecraft-query.md#6.5).

use super::deviation::ODD_NUMBER;
use super::message::{self, Basic, Full, Key, Request, SessionId, Stat, Token};
use crate::model::{Address, Extra, Player, Roster, Rule, Status, Text};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Fault, Input, Step};
use crate::wire::{Notes, Utf8, by_content, decimal, filled};
use alloc::boxed::Box;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Number of stats without a reply after which the full stat is requested instead of the basic one.
/// PocketMine never replies to basic stats.
const BASIC_TRIES: u8 = 2;

/// Queries one Minecraft server.
#[derive(Debug)]
pub struct MinecraftQueryExchange {
    session: SessionId,
    depth: Depth,
    has_players: bool,
    state: State,
    /// Stats that timed out.
    unanswered: u8,
    /// Whether the last reply could not be parsed. The next repetition then does not count as a
    /// timeout.
    is_unreadable: bool,
    notes: Notes,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Waits for a challenge token. After a stat without a reply, `last` is the token of that stat.
    Handshake { last: Option<Token> },
    /// Waits for a stat. If `is_newer`, the token arrived after the stat was sent.
    Stat { token: Token, is_newer: bool },
}

impl MinecraftQueryExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            session: SessionId::safe(cookie.derive(0)),
            depth: ask.depth,
            has_players: ask.has_players,
            state: State::Handshake { last: None },
            unanswered: 0,
            is_unreadable: false,
            notes: Notes::default(),
        }
    }

    /// Returns whether to request a full stat: as configured, or because basic stats get no reply.
    fn is_full(&self) -> bool {
        self.depth == Depth::Full || self.unanswered >= BASIC_TRIES
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let session = self.session;
        match self.state {
            State::Handshake { .. } => Request::Handshake { session },
            State::Stat { token, .. } => Request::Stat {
                session,
                token,
                is_full: self.is_full(),
            },
        }
        .write(out);
        Step::Send
    }

    fn receive_challenge(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let token = match message::parse_challenge(bytes, Some(self.session), &mut notes) {
            Ok(Some(token)) => token,
            Ok(None) => return Step::Wait,
            Err(error) => return Step::Bad(error.into()),
        };
        match &mut self.state {
            State::Handshake { .. } => {
                self.notes = notes;
                if self.depth == Depth::Ping {
                    let deviations = self.notes.met().collect();
                    return Step::Done(Box::new(Status {
                        deviations,
                        ..Status::default()
                    }));
                }
                self.state = State::Stat {
                    token,
                    is_newer: false,
                };
                self.send(out)
            }
            // A late or stray challenge is not a reply to a stat, but its token is the newest one
            // of the server.
            State::Stat {
                token: newest,
                is_newer,
            } => {
                *newest = token;
                *is_newer = true;
                Step::Wait
            }
        }
    }

    fn receive_stat(&mut self, bytes: &[u8]) -> Step {
        // A stat that cannot be parsed must not change the notes of the handshake.
        let mut notes = self.notes.clone();
        let is_fallback = self.depth != Depth::Full && self.is_full();
        // In the fallback, a late reply to a basic stat is as good as the full one.
        let expected = (!is_fallback).then_some(self.is_full());
        match message::parse_stat(bytes, expected, &mut notes) {
            Ok(stat) => {
                let end = Utf8::end_of(bytes);
                let mut status = status(&stat, end, self.has_players, &mut notes);
                if is_fallback && matches!(stat, Stat::Full(_)) {
                    status.add_unanswered("basic");
                }
                Step::Done(status)
            }
            Err(error) => {
                self.is_unreadable = true;
                Step::Bad(Fault::Malformed(error))
            }
        }
    }

    /// Repeats a request (spec/minecraft-query.md#6.5). Some servers drop a token at any time, so a
    /// stat without a reply needs a new one. Others accept a token only a moment after they sent
    /// it, so the second stat is repeated unchanged.
    fn repeat(&mut self, out: &mut Vec<u8>) -> Step {
        if core::mem::take(&mut self.is_unreadable) {
            return self.send(out);
        }
        self.state = match self.state {
            State::Handshake { last: None } => State::Handshake { last: None },
            // The new handshake got no reply either. The previous token may still be valid.
            State::Handshake { last: Some(token) } => State::Stat {
                token,
                is_newer: false,
            },
            State::Stat { token, is_newer } => {
                self.unanswered = self.unanswered.saturating_add(1);
                if is_newer || self.unanswered.is_multiple_of(2) {
                    State::Stat {
                        token,
                        is_newer: false,
                    }
                } else {
                    State::Handshake { last: Some(token) }
                }
            }
        };
        self.send(out)
    }
}

impl Exchange for MinecraftQueryExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match (input, self.state) {
            (Input::Start, _) => self.send(out),
            (Input::Timeout, _) => self.repeat(out),
            (Input::Datagram(bytes), State::Stat { .. } | State::Handshake { last: Some(_) })
                if message::is_stat(bytes, self.session) =>
            {
                self.receive_stat(bytes)
            }
            (Input::Datagram(bytes), _) if message::is_challenge(bytes) => {
                self.receive_challenge(bytes, out)
            }
            // A stat is one datagram, so there is no partial result.
            (Input::Datagram(_) | Input::GiveUp | Input::Continue | Input::Closed(_), _) => {
                Step::Wait
            }
        }
    }

    fn stage(&self) -> usize {
        match self.state {
            State::Handshake { .. } => 0,
            State::Stat { .. } => 1,
        }
    }
}

fn motd<'a>(bytes: &'a [u8], utf8: Utf8<'a>) -> Text {
    if let Some(text) = utf8.ascii(bytes) {
        return Text::unformatted(text);
    }
    let (text, latin1) = utf8.decode(bytes);
    Text::legacy(text).from_single_byte(latin1)
}

fn status<'a>(stat: &Stat<'a>, utf8: Utf8<'a>, players: bool, notes: &mut Notes) -> Box<Status> {
    let mut status = Box::<Status>::default();
    match stat {
        Stat::Basic(basic) => basic_status(basic, &mut status),
        Stat::Full(full) => full_status(full, utf8, &mut status, notes),
    }
    status.is_utf8 = is_utf8(&status);
    if !players {
        status.players.list = Vec::new();
        status.players.roster = Roster::Absent;
    }
    status.deviations = notes.met().collect();
    status
}

/// Returns whether the MOTD or a name has characters outside ASCII, all of which arrived as UTF-8.
fn is_utf8(status: &Status) -> bool {
    let names = status.players.list.iter().map(|player| &player.name);
    let mut texts = status
        .motd
        .iter()
        .chain(names)
        .filter(|text| !text.raw().is_ascii())
        .peekable();
    texts.peek().is_some() && texts.all(|text| core::str::from_utf8(&text.bytes()).is_ok())
}

fn basic_status(basic: &Basic<'_>, status: &mut Status) {
    status.motd = Some(motd(basic.motd, Utf8::default()));
    status.mode = filled(basic.game_type);
    status.map = filled(basic.map);
    status.address = Some(Address {
        host: filled(basic.host),
        port: basic.port,
    });
    status.players.online = basic.online;
    status.players.max = basic.max;
}

fn full_status<'a>(full: &Full<'a>, utf8: Utf8<'a>, status: &mut Status, notes: &mut Notes) {
    let string = |bytes: &'a [u8]| CompactString::from(utf8.decode(bytes).0);
    let filled = |bytes: &'a [u8]| (!bytes.is_empty()).then(|| string(bytes));
    let mut address = Address::default();
    let mut seen = 0;
    for &(key, value) in &full.pairs {
        // The first value of a repeated key counts. The others are listed as rules.
        let again = seen & key.bit() != 0;
        seen |= key.bit();
        match key {
            Key::Hostname if again && address.host.is_none() => address.host = filled(value),
            Key::Other(name) => status.rules.push(Rule {
                key: string(name),
                value: string(value),
            }),
            known if again => status.rules.push(Rule {
                key: name(known),
                value: string(value),
            }),
            Key::Hostname => status.motd = Some(motd(value, utf8)),
            Key::GameType => status.mode = filled(value),
            Key::GameId => status.game = filled(value),
            Key::Version => status.version = filled(value),
            Key::Plugins => plugins(&utf8.decode(value).0, &mut status.extra),
            Key::Map => status.map = filled(value),
            Key::NumPlayers => status.players.online = number(value, notes),
            Key::MaxPlayers => status.players.max = number(value, notes),
            Key::HostPort => address.port = number(value, notes),
            Key::HostIp => address.host = filled(value),
        }
    }
    status.address = (address != Address::default()).then_some(address);
    status.players.set_list(
        full.players
            .iter()
            .map(|name| Player::named(motd(name, utf8)))
            .collect(),
    );
}

fn name(key: Key<'_>) -> CompactString {
    message::KEYS
        .iter()
        .find(|(_, known)| *known == key)
        .map(|(name, _)| by_content(name).0.into())
        .unwrap_or_default()
}

/// Parses a number of a field. Other text, or a number out of range, is a deviation and omitted.
fn number<T: TryFrom<i64>>(value: &[u8], notes: &mut Notes) -> Option<T> {
    let number = decimal(value).and_then(|number| number.try_into().ok());
    if number.is_none() {
        notes.deviation(&ODD_NUMBER, 0);
    }
    number
}

/// `Software: name version; name version` (spec/minecraft-query.md#4.3).
fn plugins(value: &str, extra: &mut Vec<Extra>) {
    let software = pieces(value, b':').next().unwrap_or_default();
    let (software, list) = match value.get(software.len() + 2..) {
        Some(list) => (software, list),
        None => (value.strip_suffix(':').unwrap_or(value), ""),
    };
    if !software.is_empty() {
        extra.push(Extra::new("software", software));
    }
    if !list.is_empty() {
        let plugins = pieces(list, b';').filter(|plugin| !plugin.is_empty());
        extra.extend(super::plugins(plugins.map(|plugin| {
            let blank = plugin.bytes().rposition(|byte| byte == b' ');
            let (name, version) = plugin.split_at(blank.unwrap_or(plugin.len()));
            (name, version.get(1..).unwrap_or_default())
        })));
    }
}

/// Splits the list at `mark` followed by a space. Searching for one byte is faster than for two.
fn pieces(list: &str, mark: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(list);
    core::iter::from_fn(move || {
        let list = rest?;
        let is_end = |at: &usize| list.as_bytes().get(at + 1) == Some(&b' ');
        let end = memchr::memchr_iter(mark, list.as_bytes()).find(is_end);
        rest = end.and_then(|end| list.get(end + 2..));
        list.get(..end.unwrap_or(list.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn start(ask: &Ask) -> (MinecraftQueryExchange, SessionId) {
        let mut exchange = MinecraftQueryExchange::new(ask, Cookie(1));
        let mut out = Vec::new();
        assert_eq!(exchange.handle(Input::Start, &mut out), Step::Send);
        let Ok(Request::Handshake { session }) = Request::read(&out, &mut Notes::default()) else {
            panic!("{out:?}");
        };
        assert!(
            session.0.iter().all(|byte| *byte < 0x10),
            "bytes that some servers would mangle: {session:?}"
        );
        (exchange, session)
    }

    fn receive(exchange: &mut MinecraftQueryExchange, bytes: &[u8]) -> (Step, Vec<u8>) {
        let mut out = Vec::new();
        (exchange.handle(Input::Datagram(bytes), &mut out), out)
    }

    fn challenge(session: SessionId, payload: &[u8]) -> Vec<u8> {
        [&[9], session.0.as_slice(), payload].concat()
    }

    fn wait(exchange: &mut MinecraftQueryExchange) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(exchange.handle(Input::Timeout, &mut out), Step::Send);
        out
    }

    #[test]
    fn two_stage_resend() {
        let (mut exchange, session) = start(&Ask::default());
        assert_eq!(wait(&mut exchange).len(), message::HANDSHAKE_LENGTH);
        let (step, stat) = receive(&mut exchange, &challenge(session, b"9513307\0"));
        assert_eq!(step, Step::Send);
        assert_eq!(
            stat.get(7..),
            Some(&[0x00, 0x91, 0x29, 0x5B, 0, 0, 0, 0][..])
        );
        let handshake = wait(&mut exchange);
        assert_eq!(handshake.len(), message::HANDSHAKE_LENGTH, "a new token");
        assert_eq!(
            wait(&mut exchange),
            stat,
            "the last token, without a new one"
        );
        assert_eq!(wait(&mut exchange), stat, "the second stat is repeated");
        assert_eq!(
            wait(&mut exchange),
            handshake,
            "the third needs a new token"
        );
    }

    #[test]
    fn a_late_challenge_renews_the_token_without_a_datagram() {
        let (mut exchange, session) = start(&Ask::default());
        receive(&mut exchange, &challenge(session, b"1\0"));
        assert_eq!(
            receive(&mut exchange, &challenge(session, b"-2\0")),
            (Step::Wait, Vec::new())
        );
        assert_eq!(
            wait(&mut exchange).get(7..11),
            Some(&[0xFF, 0xFF, 0xFF, 0xFE][..])
        );
    }

    #[test]
    fn tokens_in_every_known_form() {
        let cases: [(&[u8], &[u8], Option<&str>); 9] = [
            (b"0\0", &[0, 0, 0, 0], None),
            (b"-1\0", &[0xFF; 4], None),
            (b"2147483647\0", &[0x7F, 0xFF, 0xFF, 0xFF], None),
            (b"4294967295\0", &[0xFF; 4], None),
            (b"7", &[0, 0, 0, 7], Some("missing-nul")),
            (b"7\0\0", &[0, 0, 0, 7], Some("doubled-nul")),
            (b"7\0junk", &[0, 0, 0, 7], Some("trailing-bytes")),
            (b"1234\0", &[0, 0, 4, 0xD2], None),
            (
                &[0xDE, 0xAD, 0xBE, 0xEF, 0],
                &[0xDE, 0xAD, 0xBE, 0xEF],
                Some("raw-token"),
            ),
        ];
        for (payload, token, deviation) in cases {
            let (mut exchange, session) = start(&Ask::default());
            let (step, stat) = receive(&mut exchange, &challenge(session, payload));
            assert_eq!(step, Step::Send, "{payload:?}");
            assert_eq!(stat.get(7..11), Some(token), "{payload:?}");
            let length = if deviation == Some("raw-token") {
                19
            } else {
                15
            };
            assert_eq!(stat.len(), length, "{payload:?}");
            assert_eq!(
                exchange.notes.met().map(|met| met.name).next(),
                deviation,
                "{payload:?}"
            );
        }
    }

    #[test]
    fn replies_of_other_sessions_are_ignored() {
        let (mut exchange, session) = start(&Ask::default());
        let other = SessionId([0x0F; 4]);
        assert_ne!(other, session);
        assert_eq!(
            receive(&mut exchange, &challenge(other, b"1\0")).0,
            Step::Wait
        );
        assert_eq!(
            receive(&mut exchange, b"\0\x01\x02\x03\x04").0,
            Step::Wait,
            "a stat before the challenge"
        );
        assert_eq!(receive(&mut exchange, b"").0, Step::Wait);
        assert_eq!(receive(&mut exchange, b"garbage").0, Step::Wait);
        assert!(matches!(
            receive(&mut exchange, &challenge(session, b"")).0,
            Step::Bad(_)
        ));
    }

    #[test]
    fn a_mangled_session_id_still_leads_to_the_token() {
        for id in [&b"????"[..], "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}".as_bytes()] {
            let (mut exchange, _) = start(&Ask::default());
            let reply = [&[9], id, b"77\0"].concat();
            let (step, stat) = receive(&mut exchange, &reply);
            assert_eq!(step, Step::Send);
            assert_eq!(stat.get(7..11), Some(&[0, 0, 0, 77][..]));
        }
    }

    #[test]
    fn deviations_of_the_handshake_survive_an_unreadable_stat() {
        let (mut exchange, session) = start(&Ask::default());
        receive(&mut exchange, &challenge(session, b"7\0\0"));
        let header = [&[0], session.0.as_slice()].concat();
        assert!(matches!(receive(&mut exchange, &header).0, Step::Bad(_)));
        let basic = [&header, b"A\0SMP\0w\x001\x002\0\xDD\x63h\0".as_slice()].concat();
        let Step::Done(status) = receive(&mut exchange, &basic).0 else {
            panic!()
        };
        let met: Vec<_> = status.deviations.iter().map(|met| met.name).collect();
        assert_eq!(met, ["doubled-nul", "basic-for-full"]);
    }

    #[test]
    fn pieces_are_what_the_standard_library_finds() {
        for list in [
            "",
            "a",
            "a; b",
            "; ",
            ";; ",
            "a;b; c;",
            "; ;  ; x",
            "\u{E9}; \u{E9};",
        ] {
            assert!(pieces(list, b';').eq(list.split("; ")), "{list:?}");
        }
    }

    #[test]
    fn plugin_strings() {
        let read = |value: &str| {
            let mut extra = Vec::new();
            plugins(value, &mut extra);
            let status = Status {
                extra,
                ..Status::default()
            };
            let shown = |key| status.extra(key).map(ToString::to_string);
            (shown("software"), shown("plugins"))
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(read(""), (None, None));
        assert_eq!(
            read("Paper on Bukkit 1.21"),
            (some("Paper on Bukkit 1.21"), None)
        );
        assert_eq!(read("Velocity: "), (some("Velocity"), None));
        assert_eq!(
            read("CraftBukkit on Bukkit 1.2.5-R4.0: WorldEdit 5.3; Name With Blanks 1:0"),
            (
                some("CraftBukkit on Bukkit 1.2.5-R4.0"),
                some("name=WorldEdit version=5.3, name=Name With Blanks version=1:0")
            )
        );
    }
}
