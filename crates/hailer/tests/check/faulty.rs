//! Servers with the known deviations of real software, written from the spec pages. Names and
//! numbers are invented.

use hailer::check::MemoryWire;
use hailer_testkit::statuses::Random;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How a server makes challenge tokens.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum TokenKind {
    /// A random number, positive and of 24 bits.
    Positive,
    /// A random number of 32 bits with a sign.
    Signed,
    /// A number that depends only on the address.
    OfAddress,
    /// As `OfAddress`, as four raw bytes.
    Raw,
    /// Four bytes that the client adds to the handshake, else 0.
    Echo,
}

/// Which stats get the full form, and which get nothing.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Lengths {
    /// 15 bytes: full; others from 11 on: basic.
    Vanilla,
    /// 15 bytes: full; 11: basic; others: nothing.
    Exact,
    /// 11 bytes: full; 15: basic; others: nothing.
    Swapped,
    /// 15 bytes: full; others: nothing.
    FullOnly,
    /// 19 bytes: full; others from 11 on: basic.
    Nineteen,
    /// 15 bytes with a padding of zeros: full; others: basic.
    ZeroPadding,
    /// All: full.
    Always,
}

/// A server of Minecraft Query.
pub(crate) struct Minecraft {
    pub(crate) name: &'static str,
    pub(crate) token: TokenKind,
    /// Whether a token is valid for its port only.
    pub(crate) is_bound_to_port: bool,
    /// Whether a token is valid for every address.
    pub(crate) is_for_everyone: bool,
    /// Whether tokens are checked at all.
    pub(crate) has_tokens: bool,
    /// How long a token is valid, if not forever.
    pub(crate) lifetime: Option<Duration>,
    /// Whether a handshake ends the older token of the same client.
    pub(crate) has_one_token: bool,
    pub(crate) lengths: Lengths,
    /// Shortest handshake with a reply.
    pub(crate) min_handshake: usize,
    /// Whether a stat is answered with the id of the last handshake.
    pub(crate) uses_last_id: bool,
    /// Whether ids are decoded as text.
    pub(crate) mangles_ids: bool,
    /// First bytes of a full stat.
    pub(crate) header: &'static [u8; 11],
    /// Bytes before the players.
    pub(crate) players_header: &'static [u8; 10],
    pub(crate) game_type_key: &'static str,
    pub(crate) version: &'static str,
    pub(crate) game_id: &'static str,
    pub(crate) map: &'static str,
    pub(crate) motd: &'static [u8],
    pub(crate) names: &'static [&'static [u8]],
    pub(crate) count: usize,
    /// How the basic stat has the port.
    pub(crate) port: fn(u16) -> Vec<u8>,
    pub(crate) has_engine_key: bool,
    pub(crate) has_doubled_nul: bool,
    tokens: HashMap<(IpAddr, u16), Vec<(i32, Duration)>>,
    ids: HashMap<SocketAddr, [u8; 4]>,
    random: Random,
}

impl Default for Minecraft {
    /// A server without deviations.
    fn default() -> Self {
        Self {
            name: "without deviations",
            token: TokenKind::Positive,
            is_bound_to_port: false,
            is_for_everyone: false,
            has_tokens: true,
            lifetime: Some(Duration::from_secs(30)),
            has_one_token: false,
            lengths: Lengths::Vanilla,
            min_handshake: 7,
            uses_last_id: false,
            mangles_ids: false,
            header: b"splitnum\0\x80\0",
            players_header: b"\x01player_\0\0",
            game_type_key: "gametype",
            version: "1.20.4",
            game_id: "MINECRAFT",
            map: "harbour",
            motd: b"Invented server",
            names: &[b"Ann", b"Ben"],
            count: 2,
            port: |port| port.to_le_bytes().into(),
            has_engine_key: false,
            has_doubled_nul: false,
            tokens: HashMap::new(),
            ids: HashMap::new(),
            random: Random(1),
        }
    }
}

impl Minecraft {
    fn key(&self, from: SocketAddr) -> (IpAddr, u16) {
        if self.is_for_everyone {
            return (IpAddr::from([0; 4]), 0);
        }
        let port = if self.is_bound_to_port {
            from.port()
        } else {
            0
        };
        (from.ip(), port)
    }

    fn new_token(&mut self, from: SocketAddr, added: i32) -> i32 {
        match self.token {
            TokenKind::Positive => (self.random.bits() % 16_777_215 + 1) as i32,
            TokenKind::Signed => self.random.bits() as i32 | i32::MIN,
            TokenKind::OfAddress | TokenKind::Raw => match from.ip() {
                // The sign of raw bytes means nothing.
                IpAddr::V4(ip) if self.token == TokenKind::Raw => {
                    u32::from(ip).wrapping_mul(0x9E37_79B9) as i32 | i32::MIN
                }
                IpAddr::V4(ip) => (u32::from(ip).wrapping_mul(0x9E37_79B9) >> 1) as i32,
                IpAddr::V6(_) => 77,
            },
            TokenKind::Echo => added,
        }
    }

    fn handshake(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        if bytes.len() < self.min_handshake {
            return None;
        }
        // Bytes of an older datagram, as in a buffer that is not cleared.
        let mut id = [0x41; 4];
        for (to, byte) in id.iter_mut().zip(bytes.get(3..).unwrap_or_default()) {
            *to = *byte;
        }
        let added = bytes.get(7..11).and_then(|added| added.try_into().ok());
        let token = self.new_token(from, added.map_or(0, i32::from_be_bytes));
        let key = self.key(from);
        let tokens = self.tokens.entry(key).or_default();
        if self.has_one_token {
            tokens.clear();
        }
        tokens.push((token, now));
        self.ids.insert(from, id);
        let mut reply = vec![9];
        if self.mangles_ids {
            reply.extend(String::from_utf8_lossy(&id).bytes());
        } else {
            reply.extend(id);
        }
        match self.token {
            TokenKind::Raw => reply.extend(token.to_be_bytes()),
            _ => reply.extend(token.to_string().bytes()),
        }
        reply.push(0);
        if self.has_doubled_nul {
            reply.push(0);
        }
        Some(reply)
    }

    fn is_valid(&self, now: Duration, from: SocketAddr, token: i32) -> bool {
        let tokens = self.tokens.get(&self.key(from));
        let is_fresh =
            |issued: Duration| self.lifetime.is_none_or(|longest| now - issued < longest);
        !self.has_tokens
            || tokens
                .into_iter()
                .flatten()
                .any(|(known, issued)| *known == token && is_fresh(*issued))
    }

    fn stat(&mut self, now: Duration, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let token = bytes.get(7..11)?;
        let token = i32::from_be_bytes(token.try_into().ok()?);
        if !self.is_valid(now, from, token) {
            return None;
        }
        let padding = &bytes[11..];
        let is_full = match (self.lengths, padding.len()) {
            (Lengths::Always, _) => true,
            (Lengths::Nineteen, length) => length == 8,
            (Lengths::ZeroPadding, _) => padding == [0; 4],
            (Lengths::Swapped, 0) => true,
            (Lengths::Swapped, 4) => false,
            (_, 4) => true,
            (Lengths::Vanilla, _) | (Lengths::Exact, 0) => false,
            (Lengths::Exact | Lengths::Swapped | Lengths::FullOnly, _) => return None,
        };
        let id = match self.ids.get(&from) {
            Some(last) if self.uses_last_id => *last,
            _ => bytes[3..7].try_into().ok()?,
        };
        let mut reply = vec![0];
        reply.extend(id);
        let port = 25_577_u16;
        if !is_full {
            for text in [
                self.motd,
                b"SMP",
                self.map.as_bytes(),
                self.count.to_string().as_bytes(),
                b"20",
            ] {
                reply.extend(text);
                reply.push(0);
            }
            reply.extend((self.port)(port));
            reply.extend(b"192.0.2.9\0");
            return Some(reply);
        }
        reply.extend(self.header);
        let count = self.count.to_string();
        let port = port.to_string();
        let mut pairs: Vec<(&str, &[u8])> = vec![
            ("hostname", self.motd),
            (self.game_type_key, b"SMP"),
            ("game_id", self.game_id.as_bytes()),
            ("version", self.version.as_bytes()),
            ("plugins", b""),
            ("map", self.map.as_bytes()),
            ("numplayers", count.as_bytes()),
            ("maxplayers", b"20"),
            ("hostport", port.as_bytes()),
            ("hostip", b"192.0.2.9"),
        ];
        if self.has_engine_key {
            pairs.push(("server_engine", b"Invented 1.0"));
        }
        for (key, value) in pairs {
            reply.extend(key.bytes());
            reply.push(0);
            reply.extend(value);
            reply.push(0);
        }
        reply.push(0);
        reply.extend(self.players_header);
        for name in self.names {
            reply.extend(*name);
            reply.push(0);
        }
        reply.push(0);
        Some(reply)
    }
}

impl Minecraft {
    pub(crate) fn wire(mut self) -> MemoryWire {
        MemoryWire::new(move |now, from, bytes| {
            let reply = match bytes {
                [0xFE, 0xFD, 9, ..] => self.handshake(now, from, bytes),
                [0xFE, 0xFD, 0, ..] => self.stat(now, from, bytes),
                _ => None,
            };
            reply.into_iter().collect()
        })
    }
}

/// The oldest vanilla servers.
fn vanilla() -> Minecraft {
    Minecraft {
        name: "vanilla up to 1.12",
        is_bound_to_port: true,
        has_one_token: true,
        min_handshake: 3,
        uses_last_id: true,
        mangles_ids: true,
        motd: b"\xA7aInvented",
        ..Minecraft::default()
    }
}

/// The common part of BungeeCord and Velocity.
fn proxy() -> Minecraft {
    Minecraft {
        token: TokenKind::Signed,
        lengths: Lengths::Exact,
        ..Minecraft::default()
    }
}

/// Servers for Bedrock clients, apart from their lengths of stats.
fn bedrock() -> Minecraft {
    Minecraft {
        name: "Nukkit 2015 to 2019",
        token: TokenKind::OfAddress,
        lifetime: None,
        game_id: "MINECRAFTPE",
        motd: "§aInvented".as_bytes(),
        has_engine_key: true,
        ..Minecraft::default()
    }
}

/// Pumpkin, apart from its lengths of stats.
fn pumpkin() -> Minecraft {
    Minecraft {
        is_bound_to_port: true,
        names: &[b"Ann", b"Ben", b"Cyd", b"Dan"],
        count: 7,
        ..Minecraft::default()
    }
}

/// Servers of Minecraft Query by name (spec/minecraft-query.md#8).
pub(crate) fn minecraft() -> Vec<Minecraft> {
    vec![
        Minecraft::default(),
        vanilla(),
        Minecraft {
            name: "vanilla from 1.13",
            lifetime: None,
            ..vanilla()
        },
        Minecraft {
            name: "BungeeCord",
            has_one_token: true,
            map: "BungeeCord_Proxy",
            motd: b"\xA7aInvented \xE9",
            version: "1.8.x, 1.20.x, 1.21.x",
            ..proxy()
        },
        Minecraft {
            name: "BungeeCord before 15 November 2016",
            is_for_everyone: true,
            map: "BungeeCord_Proxy",
            ..proxy()
        },
        Minecraft {
            name: "BungeeCord before 31 March 2014",
            is_for_everyone: true,
            map: "BungeeCord_Proxy",
            header: &[0; 11],
            ..proxy()
        },
        Minecraft {
            name: "Velocity",
            has_one_token: true,
            map: "Velocity",
            motd: b"Invented \xE9",
            version: "1.7.2-1.21.4",
            ..proxy()
        },
        Minecraft {
            name: "Velocity before October 2020",
            has_one_token: true,
            lengths: Lengths::Swapped,
            map: "Velocity",
            ..proxy()
        },
        Minecraft {
            name: "Glowstone",
            is_bound_to_port: true,
            token: TokenKind::Signed,
            motd: "§aInvented".as_bytes(),
            version: "1.12.2",
            ..Minecraft::default()
        },
        Minecraft {
            name: "Geyser 2020 to 2023",
            token: TokenKind::Signed,
            has_tokens: false,
            lengths: Lengths::Always,
            header: b"GeyserMC\0\x80\0",
            has_doubled_nul: true,
            ..Minecraft::default()
        },
        Minecraft {
            name: "PocketMine",
            lengths: Lengths::FullOnly,
            ..bedrock()
        },
        bedrock(),
        Minecraft {
            name: "Nukkit from 2019",
            token: TokenKind::Raw,
            lengths: Lengths::Nineteen,
            ..bedrock()
        },
        Minecraft {
            name: "Pumpkin 2024",
            lengths: Lengths::Always,
            ..pumpkin()
        },
        Minecraft {
            name: "Pumpkin from May 2026",
            lengths: Lengths::Exact,
            ..pumpkin()
        },
        Minecraft {
            name: "Minestom",
            is_bound_to_port: true,
            token: TokenKind::Signed,
            lengths: Lengths::Always,
            header: &[0; 11],
            players_header: &[0; 10],
            game_type_key: "game type",
            port: |port| port.to_be_bytes().into(),
            ..Minecraft::default()
        },
        Minecraft {
            name: "PyMine",
            is_bound_to_port: true,
            token: TokenKind::Echo,
            lifetime: None,
            lengths: Lengths::ZeroPadding,
            game_type_key: "game type",
            motd: b"Invented S\xE9rver",
            port: |port| [port.to_string().as_bytes(), &[0]].concat(),
            // The last name is not a player.
            names: &[b"Ann", b"Ben", b"Invented"],
            ..Minecraft::default()
        },
        Minecraft {
            name: "a port of two big-endian bytes",
            port: |port| port.to_be_bytes().into(),
            ..Minecraft::default()
        },
    ]
}

/// A server of OneQuery V2.
#[derive(Clone, Copy)]
pub(crate) struct OneQuery {
    pub(crate) name: &'static str,
    /// Shortest query with a reply.
    pub(crate) min_query: usize,
    pub(crate) has_negative_offsets: bool,
    pub(crate) drops_broken_tokens: bool,
    pub(crate) has_version_2: bool,
    /// Version 1 is on.
    pub(crate) has_version_1: bool,
    /// Whether a port of version 1 has four bytes.
    pub(crate) has_hyquery_layout: bool,
    /// Whether both endpoints are refused, with the server info.
    pub(crate) needs_token: bool,
    /// Whether only players are refused so, and version 1 has empty lists.
    pub(crate) hides_players: bool,
    /// Number of players in the server info.
    pub(crate) shown_players: u32,
    /// Length of the MOTD.
    pub(crate) motd: usize,
    /// Whether the name of a player does not fit a page.
    pub(crate) has_long_name: bool,
    pub(crate) is_little_endian: bool,
    pub(crate) checks_address: bool,
    pub(crate) echoes_id: bool,
}

impl Default for OneQuery {
    fn default() -> Self {
        Self {
            name: "without deviations",
            min_query: 41,
            has_negative_offsets: true,
            drops_broken_tokens: false,
            has_version_2: true,
            has_version_1: false,
            has_hyquery_layout: false,
            needs_token: false,
            hides_players: false,
            shown_players: PLAYERS,
            motd: 20,
            has_long_name: false,
            is_little_endian: false,
            checks_address: true,
            echoes_id: true,
        }
    }
}

const PLAYERS: u32 = 120;
const PER_PAGE: u32 = 50;
/// The player whose name may be too long for a page.
const LONG_NAME: u32 = 60;

impl OneQuery {
    fn token(&self, window: u32, from: SocketAddr) -> [u8; 32] {
        let mut token = [0; 32];
        token[..4].copy_from_slice(&window.to_be_bytes());
        let address = match (from.ip(), self.checks_address) {
            (IpAddr::V4(ip), true) => u32::from(ip),
            _ => 0,
        };
        let mut random = Random(u64::from(address) << 32 | u64::from(window));
        for chunk in token[8..].chunks_mut(8) {
            chunk.copy_from_slice(&random.bits().to_le_bytes());
        }
        token
    }

    fn text(out: &mut Vec<u8>, text: &[u8]) {
        out.extend((text.len() as u16).to_le_bytes());
        out.extend(text);
    }

    fn info(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Self::text(&mut out, b"Invented");
        Self::text(&mut out, &vec![b'm'; self.motd]);
        out.extend(self.shown_players.to_le_bytes());
        out.extend(200_u32.to_le_bytes());
        Self::text(&mut out, b"1.0");
        out.extend(3_u32.to_le_bytes());
        Self::text(&mut out, b"0A1B2C3D");
        out
    }

    fn uuid(&self, number: u32) -> [u8; 16] {
        let mut uuid = [0x55; 16];
        uuid[..4].copy_from_slice(&number.to_be_bytes());
        uuid[6] = 0x4A;
        uuid[8] = 0x9B;
        if self.is_little_endian {
            uuid[..8].reverse();
            uuid[8..].reverse();
        }
        uuid
    }

    fn page(&self, offset: u32) -> (u16, Vec<u8>) {
        let offset = offset.min(PLAYERS);
        let count = match offset {
            // The page ends before that player, and announces more players.
            ..=LONG_NAME if self.has_long_name => PER_PAGE.min(LONG_NAME - offset),
            _ => PER_PAGE.min(PLAYERS - offset),
        };
        let mut out = Vec::new();
        for number in [PLAYERS, count, offset] {
            out.extend(number.to_le_bytes());
        }
        for number in offset..offset + count {
            Self::text(&mut out, format!("Player{number}").as_bytes());
            out.extend(self.uuid(number));
        }
        (u16::from(offset + count < PLAYERS), out)
    }

    fn answer(&self, now: Duration, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let window = 60_000_000 + (now.as_secs() / 30) as u32;
        if bytes.starts_with(b"HYQUERY\0") && bytes.len() >= 9 && self.has_version_1 {
            return Some(self.version_1(bytes[8]));
        }
        if !bytes.starts_with(b"ONEQUERY") || bytes.len() < 9 || !self.has_version_2 {
            return None;
        }
        if bytes[8] == 0 {
            let token = self.token(window, from);
            return Some([&b"ONEREPLY\0"[..], &token, &[0; 7]].concat());
        }
        if bytes.len() < self.min_query {
            return None;
        }
        let token: [u8; 32] = bytes[9..41].try_into().ok()?;
        if !(window - 3..=window).any(|window| self.token(window, from) == token) {
            return None;
        }
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let id = number(41).unwrap_or(0);
        let has_token = bytes.get(45).is_some_and(|flags| flags & 1 == 1);
        let length = bytes.get(51..53).map_or(0, |bytes| {
            usize::from(bytes[0]) | usize::from(bytes[1]) << 8
        });
        if self.drops_broken_tokens && has_token && (length == 0 || bytes.len() < 53 + length) {
            return None;
        }
        let offset = number(47).unwrap_or(0);
        let (mut flags, mut kind, mut body) = (0, 1, self.info());
        let is_refused = self.needs_token || self.hides_players && bytes[8] == 2;
        if bytes[8] == 2 && !is_refused {
            let from = match offset as i32 {
                ..0 if !self.has_negative_offsets => return None,
                ..0 => 0,
                _ => offset,
            };
            kind = 2;
            (flags, body) = self.page(from);
        }
        if is_refused {
            flags = 2;
        }
        let mut reply = b"ONEREPLY\x01".to_vec();
        reply.extend(flags.to_le_bytes());
        reply.extend(if self.echoes_id { id } else { id & 0xFFFF }.to_le_bytes());
        reply.extend((body.len() as u16 + 4).to_le_bytes());
        reply.extend((kind as u16).to_le_bytes());
        reply.extend((body.len() as u16).to_le_bytes());
        reply.extend(body);
        Some(reply)
    }

    fn version_1(&self, kind: u8) -> Vec<u8> {
        let mut reply = b"HYREPLY\0".to_vec();
        reply.push(u8::from(kind == 1));
        Self::text(&mut reply, b"Invented");
        Self::text(&mut reply, b"MOTD");
        reply.extend(PLAYERS.to_le_bytes());
        reply.extend(200_u32.to_le_bytes());
        reply.extend(5520_u16.to_le_bytes());
        if self.has_hyquery_layout {
            reply.extend([0, 0]);
        }
        Self::text(&mut reply, b"1.0");
        if !self.has_hyquery_layout {
            reply.extend(3_u32.to_le_bytes());
            Self::text(&mut reply, b"0A1B2C3D");
        }
        if kind == 1 {
            let players = if self.hides_players { 0 } else { PLAYERS };
            reply.extend(players.to_le_bytes());
            for number in 0..players {
                Self::text(&mut reply, format!("Player{number}").as_bytes());
                reply.extend(self.uuid(number));
                if self.has_hyquery_layout {
                    reply.extend([0, 0]);
                }
            }
            reply.extend([0; 4]);
            if self.has_hyquery_layout {
                reply.extend([0; 4]);
            }
        }
        if !self.has_hyquery_layout && self.has_version_2 {
            reply.extend([1, 0, 1]);
        }
        reply
    }
}

impl OneQuery {
    pub(crate) fn wire(self) -> MemoryWire {
        MemoryWire::new(move |now, from, bytes| self.answer(now, from, bytes).into_iter().collect())
    }
}

/// Servers of OneQuery by name (spec/onequery.md).
pub(crate) fn onequery() -> Vec<OneQuery> {
    let reference = OneQuery {
        name: "OneQuery 2.0",
        has_negative_offsets: false,
        has_version_1: true,
        ..OneQuery::default()
    };
    let hyquery = OneQuery {
        name: "HyQuery 2.0 with public players",
        min_query: 51,
        drops_broken_tokens: true,
        has_version_1: true,
        has_hyquery_layout: true,
        ..OneQuery::default()
    };
    vec![
        OneQuery::default(),
        reference,
        OneQuery {
            name: "OneQuery 2.0 with a long MOTD",
            motd: 3_000,
            ..reference
        },
        OneQuery {
            name: "OneQuery 2.0 that has just joined a network",
            shown_players: 0,
            ..reference
        },
        OneQuery {
            name: "OneQuery 2.0 with permissions",
            needs_token: true,
            ..reference
        },
        OneQuery {
            name: "OneQuery 2.0 with a name of 1300 bytes",
            has_long_name: true,
            ..reference
        },
        OneQuery {
            name: "OneQuery 1.x",
            has_version_2: false,
            ..reference
        },
        hyquery,
        OneQuery {
            name: "HyQuery 2.0",
            hides_players: true,
            ..hyquery
        },
        OneQuery {
            name: "little-endian UUIDs, and tokens for every address",
            is_little_endian: true,
            checks_address: false,
            ..OneQuery::default()
        },
        OneQuery {
            name: "ids of 16 bits",
            echoes_id: false,
            ..OneQuery::default()
        },
    ]
}
