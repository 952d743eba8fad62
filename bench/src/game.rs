//! Queries that are measured: requests, replies, and addresses of the targets.

use crate::bare::{Peer, SLOT};
use anyhow::{Context, bail};
use clap::ValueEnum;
use hailer::proto::{
    Ask, Cookie, Destination, Epoch, Input, Keys, Options, Protocol, Step, Verdict,
};
use hailer::proto::{Depth, Player, Text, registry};
use hailer::respond::farm;
use hailer::sweep::Probe;
use hailer_udp::Outbox;
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Address of the first target. The others follow it.
const FIRST: u32 = u32::from_be_bytes([127, 0, 1, 0]);
/// Number of different replies of the server with prepared replies.
const VARIANTS: usize = 1_024;
/// Players of the A2S servers.
const A2S_PLAYERS: usize = 16;

/// Returns the address of a target.
pub(crate) fn ip(target: u32) -> u32 {
    FIRST + target
}

/// Returns the target with an address.
pub(crate) fn target(ip: u32) -> usize {
    ip.wrapping_sub(FIRST) as usize
}

/// Query of one to three round trips, or of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Game {
    /// Minecraft Query: handshake, full stat.
    Minecraft,
    /// OneQuery: challenge, basic.
    Onequery,
    /// UGP: server and players, then server and rules.
    Ugp,
    /// A2S: info with challenge.
    #[value(name = "a2s")]
    A2sInfo,
    /// A2S: info with challenge, then 16 players with the same challenge.
    A2sPlayers,
    /// GameSpy 2, on the QR2 layer: keys, then the tables of players and teams.
    #[value(name = "gamespy2")]
    Qr2,
    /// Quake 3: status with challenge, in one round trip.
    #[value(name = "quake3")]
    Quake3,
    /// SA-MP: information, then rules.
    Samp,
    /// Minecraft Status: handshake and status request.
    Slp,
}

impl Game {
    /// Returns the name in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Minecraft => "Minecraft full",
            Self::Onequery => "OneQuery basic",
            Self::Ugp => "UGP server+rules",
            Self::A2sInfo => "A2S info",
            Self::A2sPlayers => "A2S info and 16 players",
            Self::Qr2 => "GameSpy 2 keys and tables",
            Self::Quake3 => "Quake 3 status and info",
            Self::Samp => "SA-MP info and rules",
            Self::Slp => "Minecraft status",
        }
    }

    /// Returns the name in arguments.
    pub(crate) fn argument(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the protocol.
    pub(crate) fn protocol(self) -> &'static dyn Protocol {
        let id = match self {
            Self::Minecraft => "minecraft-query",
            Self::Onequery => "onequery",
            Self::Ugp => "ugp",
            Self::A2sInfo | Self::A2sPlayers => "a2s",
            Self::Qr2 => "gamespy2",
            Self::Quake3 => "quake3",
            Self::Samp => "samp",
            Self::Slp => "minecraft-status",
        };
        registry::find(id).expect("a protocol of the registry")
    }

    /// Returns the options of the query, for the sweep.
    pub(crate) fn ask(self) -> Ask {
        let mut ask = Ask::default();
        if matches!(self, Self::Onequery | Self::A2sInfo) {
            ask.depth = Depth::Basic;
        }
        ask.has_rules = self != Self::A2sPlayers;
        ask.has_players = self != Self::Samp;
        ask.has_ping = false;
        ask
    }

    /// Returns the number of requests for a query.
    fn steps(self) -> usize {
        match self {
            Self::Slp => 1,
            Self::A2sPlayers => 3,
            _ => 2,
        }
    }

    /// Returns the first datagram, as our own exchange sends it.
    pub(crate) fn opening(self) -> Vec<u8> {
        let mut out = Vec::new();
        let ask = Ask {
            to: Destination {
                host: Ipv4Addr::from_bits(FIRST).to_string().into(),
                ..Destination::default()
            },
            ..self.ask()
        };
        self.protocol()
            .exchange(&ask, Cookie(1))
            .handle(Input::Start, &mut out);
        out
    }

    /// Handles a reply in the bare client: checks its type in this step. Returns the length of the
    /// next request, 0 after the last reply, or `None` for other datagrams.
    #[inline]
    pub(crate) fn follow(
        self,
        step: u8,
        reply: &[u8],
        state: &mut u32,
        next: &mut [u8],
    ) -> Option<usize> {
        match (self, step) {
            (Self::Minecraft, 0) if reply.len() > 6 && reply[0] == 9 => {
                let text = &reply[5..reply.len() - 1];
                let (minus, digits) = if text[0] == b'-' {
                    (true, &text[1..])
                } else {
                    (false, text)
                };
                let number = digits.iter().fold(0_u32, |sum, digit| {
                    sum.wrapping_mul(10)
                        .wrapping_add(u32::from(digit.wrapping_sub(b'0')))
                });
                *state = if minus { number.wrapping_neg() } else { number };
                next[..3].copy_from_slice(b"\xFE\xFD\0");
                next[3..7].copy_from_slice(&reply[1..5]);
                next[7..11].copy_from_slice(&state.to_be_bytes());
                next[11..15].copy_from_slice(&[0; 4]);
                Some(15)
            }
            (Self::Minecraft, 1) if reply.len() > 16 && reply[0] == 0 => Some(0),
            (Self::Onequery, 0) if reply.len() == 48 && reply.starts_with(b"ONEREPLY\0") => {
                next[..9].copy_from_slice(b"ONEQUERY\x01");
                next[9..41].copy_from_slice(&reply[9..41]);
                next[41..51].copy_from_slice(&[7, 7, 7, 7, 0, 0, 0, 0, 0, 0]);
                Some(51)
            }
            (Self::Onequery, 1) if reply.len() > 17 && reply.starts_with(b"ONEREPLY\x01") => {
                Some(0)
            }
            (Self::Ugp, 0) if reply.len() > 9 && reply.starts_with(b"\xFF\xFFUGP\0\x01\x81") => {
                let request = b"\xFF\xFFUGP\0\x01\x01\x0D\x7F\x0F\x07";
                next[..request.len()].copy_from_slice(request);
                Some(request.len())
            }
            (Self::Ugp, 1) if reply.len() > 9 && reply.starts_with(b"\xFF\xFFUGP\0\x01\x81") => {
                Some(0)
            }
            (Self::A2sInfo | Self::A2sPlayers, 0)
                if reply.len() == 9 && reply.starts_with(b"\xFF\xFF\xFF\xFFA") =>
            {
                let challenge = &reply[5..9];
                *state =
                    u32::from_le_bytes([challenge[0], challenge[1], challenge[2], challenge[3]]);
                next[..25].copy_from_slice(A2S_INFO);
                next[25..29].copy_from_slice(challenge);
                Some(29)
            }
            (Self::A2sInfo, 1) if reply.len() > 20 && reply.starts_with(b"\xFF\xFF\xFF\xFFI") => {
                Some(0)
            }
            (Self::A2sPlayers, 1)
                if reply.len() > 20 && reply.starts_with(b"\xFF\xFF\xFF\xFFI") =>
            {
                next[..5].copy_from_slice(b"\xFF\xFF\xFF\xFFU");
                next[5..9].copy_from_slice(&state.to_le_bytes());
                Some(9)
            }
            (Self::A2sPlayers, 2)
                if reply.len() > 20 && reply.starts_with(b"\xFF\xFF\xFF\xFFD") =>
            {
                Some(0)
            }
            (Self::Qr2, 0) if reply.len() > 10 && reply[0] == 0 => {
                next[..3].copy_from_slice(b"\xFE\xFD\0");
                next[3..7].copy_from_slice(&reply[1..5]);
                next[7..10].copy_from_slice(b"\0\xFF\xFF");
                Some(10)
            }
            (Self::Qr2, 1) if reply.len() > 5 && reply[0] == 0 => Some(0),
            (Self::Quake3, 0) if reply.starts_with(b"\xFF\xFF\xFF\xFFstatusResponse\n") => {
                let request = b"\xFF\xFF\xFF\xFFgetinfo 0badcafe";
                next[..request.len()].copy_from_slice(request);
                Some(request.len())
            }
            (Self::Quake3, 1) if reply.starts_with(b"\xFF\xFF\xFF\xFFinfoResponse\n") => Some(0),
            (Self::Samp, 0) if reply.len() > 11 && reply[10] == b'i' => {
                next[..10].copy_from_slice(&reply[..10]);
                next[10] = b'r';
                Some(11)
            }
            (Self::Samp, 1) if reply.len() > 11 && reply[10] == b'r' => Some(0),
            _ => None,
        }
    }
}

/// Request for info without challenge.
const A2S_INFO: &[u8; 25] = b"\xFF\xFF\xFF\xFFTSource Engine Query\0";

/// Prepared replies: the bytes of a farm's servers, with a token that depends on source and server.
pub(crate) struct Canned {
    game: Game,
    replies: Vec<Vec<Vec<u8>>>,
    /// Quake 3: where the challenge is in each reply.
    challenges: Vec<[usize; 2]>,
    silent: u64,
    key: SipHasher13,
}

/// Key before the challenge in a Quake 3 status and info.
const QUAKE3_CHALLENGE: &[u8] = b"\\challenge\\";

/// Content of a request: the step, and the bytes that the reply repeats.
#[derive(Clone, Copy)]
pub(crate) struct RequestParts {
    step: u8,
    echo: [u8; 8],
}

impl Canned {
    /// Prepares the replies. `silent`: share of the addresses that never reply.
    pub(crate) fn new(game: Game, silent: f64) -> anyhow::Result<Self> {
        if matches!(game, Game::A2sInfo | Game::A2sPlayers) {
            return Self::a2s(game, silent);
        }
        let port = game.protocol().info().port;
        let mut config = farm::FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
        config.ports = vec![(game.protocol(), port)];
        let farm = farm::Farm::new(config)?;
        let mut farm_port = farm.port(0, port);
        // Servers that take another number of requests are skipped.
        let replies: Vec<_> = (0..32 * VARIANTS as u32)
            .filter_map(|target| talk(game, &mut farm_port, target))
            .take(VARIANTS)
            .collect();
        if replies.len() < VARIANTS {
            bail!(
                "too few servers that answer {} requests: {}",
                game.steps(),
                replies.len()
            );
        }
        Self::with_replies(game, replies, silent)
    }

    fn with_replies(game: Game, replies: Vec<Vec<Vec<u8>>>, silent: f64) -> anyhow::Result<Self> {
        let mut challenges = Vec::new();
        if game == Game::Quake3 {
            let place = |reply: &[u8]| {
                let mut windows = reply.windows(QUAKE3_CHALLENGE.len());
                let at = windows.position(|key| key == QUAKE3_CHALLENGE);
                anyhow::Ok(at.context("a challenge")? + QUAKE3_CHALLENGE.len())
            };
            for replies in &replies {
                challenges.push([place(&replies[0])?, place(&replies[1])?]);
            }
        }
        Ok(Self {
            game,
            replies,
            challenges,
            silent: (silent * 65_536.0) as u64,
            key: SipHasher13::new_with_keys(1, 2),
        })
    }

    /// Prepares servers with 16 players.
    fn a2s(game: Game, silent: f64) -> anyhow::Result<Self> {
        let from = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut replies = Vec::new();
        for seed in 0..VARIANTS as u64 {
            let mut status = game.protocol().sample(seed);
            let player = |i: usize| Player {
                score: Some(i as i64),
                time_s: Some(i as f32 * 60.5),
                ..Player::named(Text::unformatted(format!("player {seed:04} {i:02}")))
            };
            status.players.online = Some(A2S_PLAYERS as i64);
            status
                .players
                .set_list((0..A2S_PLAYERS).map(player).collect());
            let (keys, options) = (Keys::new([7; 16]), Options::default());
            let responder = game.protocol().responder(&status, &keys, &options)?;
            let answer = |request: &[u8]| {
                let mut out = Vec::new();
                match responder.answer(from, Epoch(1), request, &mut out) {
                    Verdict::Reply { .. } => Ok(out),
                    _ => bail!("a request was not answered"),
                }
            };
            let challenge = answer(A2S_INFO)?;
            let info = answer(&[A2S_INFO, &challenge[5..]].concat())?;
            let players = answer(&[b"\xFF\xFF\xFF\xFFU", &challenge[5..]].concat())?;
            replies.push(vec![challenge, info, players]);
        }
        Self::with_replies(game, replies, silent)
    }

    /// Returns whether an address never replies.
    #[inline]
    pub(crate) fn is_silent(&self, ip: u32) -> bool {
        Cookie(3).derive(u64::from(ip)) % 65_536 < self.silent
    }

    /// Returns the mean length of the reply to each step, in bytes.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        let steps = 0..self.replies[0].len();
        let sum = |step: usize| -> usize {
            let lengths = self.replies.iter().map(|replies| replies[step].len());
            lengths.sum()
        };
        steps.map(|step| sum(step) / VARIANTS).collect()
    }

    fn token(&self, from: Peer, to: u32) -> u64 {
        let mut hasher = self.key;
        hasher.write_u64(u64::from(from.ip) << 32 | u64::from(to));
        hasher.write_u16(from.port);
        hasher.finish()
    }

    /// Parses a request.
    #[inline]
    pub(crate) fn parse(&self, from: Peer, to: u32, request: &[u8]) -> Option<RequestParts> {
        let four = |at: usize| -> [u8; 4] { request[at..at + 4].try_into().unwrap_or_default() };
        let echo = |at: usize, length: usize| {
            let mut echo = [0; 8];
            echo[..length].copy_from_slice(&request[at..at + length]);
            echo
        };
        let (step, echo) = match (self.game, request.len()) {
            (Game::Minecraft, 7) if request[2] == 9 => (0, echo(3, 4)),
            (Game::Minecraft, 15)
                if four(7) == minecraft_token(self.token(from, to)).to_be_bytes() =>
            {
                (1, echo(3, 4))
            }
            (Game::Onequery, 9) => (0, [0; 8]),
            (Game::Onequery, 51) if request[9..17] == self.token(from, to).to_be_bytes() => {
                (1, echo(41, 4))
            }
            // The second request asks for the rules, with any other flags.
            (Game::Ugp, 10..) => (u8::from(request[8] & 0x08 > 0), [0; 8]),
            (Game::A2sInfo | Game::A2sPlayers, 25) => (0, [0; 8]),
            (Game::A2sInfo | Game::A2sPlayers, 29)
                if four(25) == (self.token(from, to) as u32).to_le_bytes() =>
            {
                (1, [0; 8])
            }
            (Game::A2sPlayers, 9)
                if request[4] == b'U' && four(5) == (self.token(from, to) as u32).to_le_bytes() =>
            {
                (2, [0; 8])
            }
            (Game::Qr2, 10) => (u8::from(request[7] == 0), echo(3, 4)),
            (Game::Quake3, 20) => (1, echo(12, 8)),
            (Game::Quake3, 22..) => (0, echo(14, 8)),
            (Game::Samp, 11) => (u8::from(request[10] == b'r'), echo(4, 6)),
            _ => return None,
        };
        Some(RequestParts { step, echo })
    }

    /// Writes the reply. Returns its length in bytes.
    #[inline]
    pub(crate) fn answer(
        &self,
        request_parts: RequestParts,
        from: Peer,
        to: u32,
        out: &mut [u8; SLOT],
    ) -> usize {
        let variant = Cookie(4).derive(u64::from(to)) as usize % VARIANTS;
        let reply = &self.replies[variant][usize::from(request_parts.step)];
        let mut length = reply.len();
        out[..length].copy_from_slice(reply);
        match (self.game, request_parts.step) {
            (Game::Minecraft, 0) => {
                out[1..5].copy_from_slice(&request_parts.echo[..4]);
                length = 5 + decimal(minecraft_token(self.token(from, to)), &mut out[5..]);
            }
            (Game::Minecraft, _) => out[1..5].copy_from_slice(&request_parts.echo[..4]),
            (Game::Onequery, 0) => out[9..17].copy_from_slice(&self.token(from, to).to_be_bytes()),
            (Game::Onequery, _) => out[11..15].copy_from_slice(&request_parts.echo[..4]),
            (Game::A2sInfo | Game::A2sPlayers, 0) => {
                let token = self.token(from, to) as u32;
                out[5..9].copy_from_slice(&token.to_le_bytes());
            }
            (Game::Qr2, _) => out[1..5].copy_from_slice(&request_parts.echo[..4]),
            (Game::Quake3, step) => {
                let at = self.challenges[variant][usize::from(step)];
                out[at..at + 8].copy_from_slice(&request_parts.echo);
            }
            (Game::Samp, _) => out[4..10].copy_from_slice(&request_parts.echo[..6]),
            (Game::Ugp | Game::A2sInfo | Game::A2sPlayers | Game::Slp, _) => {}
        }
        length
    }
}

/// Limits a token to the values of vanilla servers.
fn minecraft_token(token: u64) -> u32 {
    token as u32 >> 8
}

/// Writes the decimal digits and a NUL. Returns the number of bytes.
fn decimal(number: u32, out: &mut [u8]) -> usize {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for digit in out[..digits].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out[digits] = 0;
    digits + 1
}

/// Returns the replies of a farm's server, or `None` if their number is another.
fn talk(game: Game, farm_port: &mut farm::FarmPort<'_>, target: u32) -> Option<Vec<Vec<u8>>> {
    let us = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut exchange = game.protocol().exchange(&game.ask(), Cookie(1));
    let mut request = Vec::new();
    exchange.handle(Input::Start, &mut request);
    let mut replies = Vec::new();
    for i in 1..=game.steps() {
        let mut out = Outbox::new();
        let to = IpAddr::from(Ipv4Addr::from_bits(ip(target)));
        farm_port.receive(
            Duration::from_secs(1 << 30),
            us,
            Some(to),
            &request,
            &mut out,
        );
        let reply = out.pending().next()?.2.to_vec();
        request.clear();
        let step = exchange.handle(Input::Datagram(&reply), &mut request);
        let fits = reply.len() < SLOT;
        replies.push(reply);
        match step {
            Step::Send if i < game.steps() => {}
            Step::Done(_) if i == game.steps() && fits => {}
            _ => return None,
        }
    }
    Some(replies)
}

/// Returns how many targets of a farm reply.
pub(crate) fn alive(farm: &farm::Farm, game: Game, targets: u32, port: u16) -> anyhow::Result<u64> {
    let port = Some(port).filter(|port| *port > 0).context("a port")?;
    let lives = |target: &u32| {
        let address = SocketAddr::from((Ipv4Addr::from_bits(ip(*target)), port));
        farm.status(game.protocol(), address).is_some()
    };
    Ok((0..targets).filter(lives).count() as u64)
}

/// Returns the probe of one server, without a game or a name.
pub(crate) fn probe(index: u64, address: SocketAddr, protocol: &'static dyn Protocol) -> Probe {
    Probe {
        index,
        address,
        protocol,
        game: None,
        name: None,
        srv: None,
    }
}
