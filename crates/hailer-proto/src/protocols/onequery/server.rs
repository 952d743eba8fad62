//! The OneQuery responder: sends the same bytes as the reference, without disclosing protected
//! fields (spec/onequery.md#11).

use super::auth::{AuthTokens, Endpoints};
use super::message::{
    self, ENTRY, Endpoint, Flags, MAX_PLAUSIBLE_PLAYERS, MAX_REPLY, PAGE_HEADER, Query,
    REPLY_HEADER, Request, ServerInfo, TLV_HEADER, Token,
};
use super::v1;
use crate::model::{Codes, Player, Status, Text, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::{BIND_PORT, Epoch, Keys, owner};
use crate::wire::{Notes, cut};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Makes tokens differ from those of other protocols with the same keys.
const PURPOSE: u8 = b'O';
/// Epochs in which a token is accepted: its own and the next three, so 90 to 120 s.
const GENERATIONS: u32 = 4;
/// Limit for the entries of one page, in bytes. The same as in the reference, so that lists have
/// the same pages.
const PAGE_BUDGET: usize = 1_317;
/// Limit for each text except the MOTD, in bytes. One entry always fits a page, and the MOTD always
/// has room.
const MAX_TEXT: usize = 255;
/// Longest reply of version 1 in bytes. It is sent to unverified sources.
const MAX_V1_REPLY: usize = 256;
/// Limit for each text of version 1 except the MOTD, in bytes.
const MAX_V1_TEXT: usize = 48;

// Pages never exceed the length that the protocol allows.
const _: () = assert!(
    REPLY_HEADER + TLV_HEADER + PAGE_HEADER + PAGE_BUDGET <= MAX_REPLY
        && ENTRY + MAX_TEXT <= PAGE_BUDGET
);

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "public",
        "Endpoints that need no auth token, default [\"basic\", \"players\"]",
    ),
    Doc::new(
        "tokens",
        "Table from auth token, or \"sha256:\" and its digest in hexadecimal, to the endpoints that it opens; \
               all others stay closed",
    ),
    Doc::new(
        "network",
        "Whether counts and players cover a whole network; by default, `network` of the status decides",
    ),
    Doc::new(
        "announce-address",
        "Whether to tell the status' address, default false; needs a host there",
    ),
    BIND_PORT,
    Doc::new(
        "v1",
        "Whether to answer version 1 too, default false: always basic, which must be public; at most 256 bytes \
               for 9 from any address, verified or not",
    ),
];

/// Configuration of the responder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OneQueryConfig {
    /// Endpoints that need no auth token.
    pub public: Endpoints,
    /// Auth tokens and the endpoints that they permit in addition.
    pub tokens: AuthTokens,
    /// Whether counts and players cover a whole network of servers. `None`: use the extra `network`
    /// of the status.
    pub is_network: Option<bool>,
    /// Whether to send the address of the status, if it has a host.
    pub has_address: bool,
    /// Whether a challenge token is valid only for the port that requested it, not just for the address.
    pub is_port_bound: bool,
    /// Reply version 1 too, if basic is public.
    pub has_v1: bool,
}

impl Default for OneQueryConfig {
    fn default() -> Self {
        let public = Endpoints::ALL;
        let tokens = AuthTokens::default();
        Self {
            public,
            tokens,
            is_network: None,
            has_address: false,
            is_port_bound: false,
            has_v1: false,
        }
    }
}

impl OneQueryConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let wrong = |key: &str| {
            let key = key.into();
            move |problem| OptionError { key, problem }
        };
        let mut config = Self {
            is_network: options
                .value("network")
                .map(|_| options.bool("network", false))
                .transpose()?,
            has_address: options.bool("announce-address", false)?,
            is_port_bound: options.bool("bind-port", false)?,
            has_v1: options.bool("v1", false)?,
            ..Self::default()
        };
        if let Some(value) = options.value("public") {
            config.public = Endpoints::read(value).map_err(wrong("public"))?;
        }
        if let Some(value) = options.value("tokens") {
            config.tokens = AuthTokens::read(value).map_err(wrong("tokens"))?;
        }
        if config.has_v1 && !config.public.has_basic {
            return Err(OptionError::new(
                "v1",
                "version 1 knows no auth tokens; remove it or make \"basic\" public",
            ));
        }
        Ok(config)
    }
}

/// Responder for one Hytale server. Everything is encoded once; answering copies a slice after a
/// header.
#[derive(Debug)]
pub struct OneQueryResponder {
    keys: Keys,
    is_port_bound: bool,
    public: Endpoints,
    tokens: AuthTokens,
    is_network: bool,
    /// Flags and payload of the basic reply.
    basic: (Flags, Vec<u8>),
    players: Entries,
    /// Whether `players` is the list of the server, not just the lack of one.
    has_list: bool,
    /// The reply of version 1, if version 1 is enabled.
    v1: Option<Vec<u8>>,
}

impl OneQueryResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, keys: &Keys, config: &OneQueryConfig) -> Self {
        let status = &*status.with_codes(Codes::None);
        let OneQueryConfig {
            public,
            ref tokens,
            is_network,
            has_address,
            is_port_bound,
            has_v1,
        } = *config;
        let is_network = is_network.unwrap_or(status.extra("network") == Some(&Value::Bool(true)));
        let status = &without_formatting(status);
        let info = info(status, has_address, MAX_TEXT);
        let flags = Flags::default()
            .with(Flags::NETWORK, is_network)
            .with(Flags::ADDRESS, info.address.is_some());
        Self {
            keys: keys.clone(),
            is_port_bound,
            public,
            tokens: tokens.clone(),
            is_network,
            basic: (
                flags,
                with_motd(&info, MAX_REPLY - REPLY_HEADER, message::write_info),
            ),
            players: Entries::new(&status.players.list),
            has_list: status.players.has_list(),
            v1: (has_v1 && public.has_basic).then(|| version_1(status, is_network)),
        }
    }

    /// An epoch and its tag; the other bytes are zero.
    fn token(epoch: Epoch, tag: u128) -> [u8; 32] {
        let mut token = [0; 32];
        token[..4].copy_from_slice(&epoch.0.to_be_bytes());
        token[8..24].copy_from_slice(&tag.to_be_bytes());
        token
    }

    /// Returns the epoch and the tag of a token, if its other bytes are zero.
    fn token_parts(token: &[u8; 32]) -> Option<(Epoch, u128)> {
        let (epoch, rest) = token.split_first_chunk()?;
        let (zeros, rest) = rest.split_first_chunk::<4>()?;
        let (tag, rest) = rest.split_first_chunk()?;
        let is_padded = *zeros == [0; 4] && *rest == [0; 8];
        let epoch = Epoch(u32::from_be_bytes(*epoch));
        is_padded.then_some((epoch, u128::from_be_bytes(*tag)))
    }

    /// Returns the address of the client as challenge tokens contain it.
    fn token_owner(&self, from: SocketAddr) -> SocketAddr {
        owner(from, self.is_port_bound)
    }

    fn accepts(&self, Token(token): Token, from: SocketAddr, epoch: Epoch) -> bool {
        let Some((minted, sent)) = Self::token_parts(&token) else {
            return false;
        };
        let age = epoch.0.wrapping_sub(minted.0);
        let mut tags = self.keys.accepted(PURPOSE, self.token_owner(from), minted);
        age < GENERATIONS && tags.any(|tag| tag.ct_eq(&sent).into())
    }

    fn allows(&self, query: &Query<'_>) -> bool {
        if query.endpoint == Endpoint::Players && !self.has_list {
            return false;
        }
        let opened = |token| self.tokens.permit(token, query.endpoint);
        self.public.contains(query.endpoint) || query.auth_token.is_some_and(opened)
    }

    fn answer_query(&self, query: &Query<'_>, out: &mut Vec<u8>) {
        match query.endpoint {
            Endpoint::Basic => {
                let (flags, payload) = &self.basic;
                message::write_reply_header(*flags, query.id, payload.len(), out);
                out.extend_from_slice(payload);
            }
            Endpoint::Players => {
                let offset = usize::try_from(query.offset)
                    .unwrap_or(0)
                    .min(self.players.total());
                let (count, entries) = self.players.page(offset);
                let more = offset + count < self.players.total();
                let flags = Flags::default()
                    .with(Flags::NETWORK, self.is_network)
                    .with(Flags::MORE, more);
                message::write_reply_header(
                    flags,
                    query.id,
                    TLV_HEADER + PAGE_HEADER + entries.len(),
                    out,
                );
                message::write_page_header(self.players.total(), count, offset, entries.len(), out);
                out.extend_from_slice(entries);
            }
        }
    }
}

impl Responder for OneQueryResponder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if bytes.starts_with(v1::REQUEST_MAGIC) && bytes.len() >= v1::REQUEST {
            let Some(reply) = &self.v1 else {
                return Verdict::Drop("v1 is off");
            };
            out.extend_from_slice(reply);
            return Verdict::Reply { is_verified: false };
        }
        let is_hyquery = bytes.starts_with(message::HYQUERY_REQUEST_MAGIC);
        let is_known = is_hyquery || bytes.starts_with(message::REQUEST_MAGIC);
        if !is_known || bytes.len() < message::CHALLENGE_REQUEST {
            return Verdict::Pass;
        }
        let start = out.len();
        let verdict = self.answer_v2(from, epoch, bytes, out);
        // The magic of the reply follows that of the request. The rest is the same.
        if is_hyquery && let Some(magic) = out.get_mut(start..start + message::MAGIC) {
            magic.copy_from_slice(message::HYQUERY_REPLY_MAGIC);
        }
        verdict
    }
}

impl OneQueryResponder {
    /// Answers a request of version 2, with the magic of OneQuery.
    fn answer_v2(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Verdict {
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Drop("malformed"),
            Ok(Request::Challenge) => {
                let token = Self::token(
                    epoch,
                    self.keys.mint(PURPOSE, self.token_owner(from), epoch),
                );
                message::write_challenge(Token(token), out);
                Verdict::Reply { is_verified: false }
            }
            Ok(Request::Query(query)) if self.accepts(query.token, from, epoch) => {
                let allowed = self.allows(&query);
                if allowed {
                    self.answer_query(&query, out)
                } else {
                    message::write_reply_header(Flags::REFUSED, query.id, 0, out)
                }
                // A client with a wrong auth token may be guessing: charge the reply to the budget
                // for unverified sources.
                Verdict::Reply {
                    is_verified: allowed || query.auth_token.is_none(),
                }
            }
            Ok(Request::Query(_)) => Verdict::Drop("token"),
        }
    }
}

/// This protocol has no known formatting, so formatting codes and control characters are removed.
fn without_formatting(status: &Status) -> Status {
    let plain = |text: &Text| Text::unformatted(text.plain());
    let mut status = status.clone();
    status.name = status.name.as_ref().map(plain);
    status.motd = status.motd.as_ref().map(plain);
    for player in &mut status.players.list {
        player.name = plain(&player.name);
    }
    status
}

/// Returns a UUID (version 8, RFC 9562) made from the name, for a player without one. Clients
/// identify players by UUID, so it must be the same on every page and after every change. Players
/// with equal names are numbered.
fn stand_in(name: &str, number: usize) -> [u8; 16] {
    let mut uuid = [0; 16];
    let digest = Sha256::new()
        .chain_update(number.to_be_bytes())
        .chain_update(name)
        .finalize();
    for (to, from) in uuid.iter_mut().zip(digest) {
        *to = from;
    }
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid
}

/// The encoded list of players, in an order that is the same for all pages.
#[derive(Debug)]
struct Entries {
    bytes: Vec<u8>,
    /// Start of each entry, and the end of the last one.
    starts: Vec<usize>,
}

impl Entries {
    /// Sorted by UUID, then by name.
    fn new(players: &[Player]) -> Self {
        let mut namesakes = BTreeMap::new();
        let mut sorted: Vec<_> = players
            .iter()
            .map(|player| {
                let name = cut(player.name.raw(), MAX_TEXT);
                let number = namesakes.entry(name).or_insert(0);
                *number += 1;
                (player.uuid.unwrap_or_else(|| stand_in(name, *number)), name)
            })
            .collect();
        sorted.sort_unstable();
        let mut bytes = Vec::new();
        let mut starts = alloc::vec![0];
        for (uuid, name) in sorted {
            message::write_entry(name.as_bytes(), &uuid, &mut bytes);
            starts.push(bytes.len());
        }
        Self { bytes, starts }
    }

    fn total(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns as many entries from an offset on as fit a page.
    fn page(&self, offset: usize) -> (usize, &[u8]) {
        let starts = self.starts.get(offset..).unwrap_or_default();
        let start = starts.first().copied().unwrap_or(self.bytes.len());
        let count = starts
            .partition_point(|end| end - start <= PAGE_BUDGET)
            .saturating_sub(1);
        let end = starts.get(count).copied().unwrap_or(start);
        (count, self.bytes.get(start..end).unwrap_or_default())
    }
}

/// Returns the status as server info, with texts cut to `limit` bytes, except the MOTD.
fn info(status: &Status, has_address: bool, limit: usize) -> ServerInfo<'_> {
    let short = |text| cut(text, limit).as_bytes();
    let number = |number: i64| number.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    let count = |count: i64| count.clamp(0, MAX_PLAUSIBLE_PLAYERS.into()) as i32;
    let players = &status.players;
    let host = status
        .address
        .as_ref()
        .and_then(|address| address.host.as_deref());
    ServerInfo {
        name: short(status.name.as_ref().map_or("", |name| name.raw())),
        motd: status
            .motd
            .as_ref()
            .map_or("", |motd| motd.raw())
            .as_bytes(),
        online: count(players.count()),
        max: count(players.max.unwrap_or(0)),
        version: short(status.version.as_deref().unwrap_or("unknown")),
        protocol_version: match status.extra("protocol-version") {
            Some(Value::Int(version)) => number(*version),
            _ => 0,
        },
        protocol_hash: match status.extra("protocol-hash") {
            Some(Value::Str(hash)) => short(hash),
            _ => b"",
        },
        address: host
            .filter(|host| has_address && !host.trim().is_empty())
            .map(|host| (short(host), port(status))),
    }
}

fn port(status: &Status) -> u16 {
    status
        .address
        .as_ref()
        .and_then(|address| address.port)
        .unwrap_or(super::INFO.port)
}

fn version_1(status: &Status, network: bool) -> Vec<u8> {
    let info = info(status, false, MAX_V1_TEXT);
    with_motd(&info, MAX_V1_REPLY, |info, out| {
        v1::write_basic(info, port(status), network, out);
    })
}

/// Writes server info. The MOTD is cut to the remaining room.
fn with_motd(
    info: &ServerInfo<'_>,
    limit: usize,
    write: impl Fn(&ServerInfo<'_>, &mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::new();
    write(
        &ServerInfo {
            motd: b"",
            ..info.clone()
        },
        &mut out,
    );
    let room = limit.saturating_sub(out.len());
    out.clear();
    let motd = cut(core::str::from_utf8(info.motd).unwrap_or_default(), room).as_bytes();
    write(
        &ServerInfo {
            motd,
            ..info.clone()
        },
        &mut out,
    );
    out
}

#[cfg(test)]
mod tests {
    use super::super::message::{Page, Reply};
    use super::*;
    use crate::{Address, Extra, Text};
    use alloc::format;
    use alloc::string::{String, ToString};

    const NOW: Epoch = Epoch(1000);
    const VERIFIED: Verdict = Verdict::Reply { is_verified: true };

    fn client_address() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    fn status(players: usize) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Name")),
            motd: Some(Text::unformatted("Hi")),
            version: Some("1.0".into()),
            address: Some(Address {
                host: Some("play.example".into()),
                port: Some(5521),
            }),
            extra: [
                Extra::new("protocol-version", 3),
                Extra::new("protocol-hash", "0A1B2C3D"),
            ]
            .into(),
            ..Status::default()
        };
        status.players.max = Some(50);
        let player = |i: usize| Player {
            name: Text::unformatted(format!("player_{i}")),
            uuid: Some((i as u128).to_be_bytes()),
            ..Player::default()
        };
        status.players.set_list((1..=players).map(player).collect());
        status
    }

    fn responder(status: &Status, options: &Options) -> OneQueryResponder {
        OneQueryResponder::new(
            status,
            &Keys::new([7; 16]),
            &OneQueryConfig::read(options).unwrap(),
        )
    }

    fn list(names: &[&str]) -> Value {
        Value::List(names.iter().map(|name| Value::from(*name)).collect())
    }

    fn receive(responder: &OneQueryResponder, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        (
            responder.answer(client_address(), NOW, bytes, &mut out),
            out,
        )
    }

    fn token(responder: &OneQueryResponder, from: SocketAddr, epoch: Epoch) -> Token {
        let mut out = Vec::new();
        assert_eq!(
            responder.answer(from, epoch, b"ONEQUERY\0", &mut out),
            Verdict::Reply { is_verified: false }
        );
        assert_eq!((out.len(), &out[41..]), (48, &[0; 7][..]));
        message::parse_challenge(&out, &mut Notes::default()).unwrap()
    }

    fn query(responder: &OneQueryResponder, endpoint: Endpoint) -> Query<'static> {
        Query {
            endpoint,
            token: token(responder, client_address(), NOW),
            id: 0xFFFF_FFFE,
            offset: 0,
            auth_token: None,
        }
    }

    fn ask(responder: &OneQueryResponder, query: Query<'_>) -> Vec<u8> {
        let mut request = Vec::new();
        Request::Query(query).write(&mut request);
        let (verdict, reply) = receive(responder, &request);
        let guessing = query.auth_token.is_some() && read(&reply).flags.has(Flags::REFUSED);
        assert_eq!(
            verdict,
            Verdict::Reply {
                is_verified: !guessing
            }
        );
        assert!(reply.len() <= MAX_REPLY, "{}", reply.len());
        reply
    }

    fn read(reply: &[u8]) -> Reply<'_> {
        let mut notes = Notes::default();
        let answer = message::parse_reply(reply, &mut notes).unwrap();
        assert_eq!(notes.met().count(), 0);
        assert_eq!(answer.id, 0xFFFF_FFFE);
        answer
    }

    fn page(responder: &OneQueryResponder, offset: i32) -> (Flags, usize, u32, Vec<String>) {
        let reply = ask(
            responder,
            Query {
                offset,
                ..query(responder, Endpoint::Players)
            },
        );
        let Reply {
            flags,
            page:
                Some(Page {
                    total,
                    offset,
                    players,
                }),
            ..
        } = read(&reply)
        else {
            panic!()
        };
        let names = players
            .iter()
            .map(|(name, _)| String::from_utf8(name.to_vec()).unwrap())
            .collect();
        (flags, total as usize, offset, names)
    }

    /// spec/onequery.md#5, row by row: magic and challenge.
    #[test]
    fn foreign_datagrams_pass_and_challenges_are_answered() {
        let responder = responder(&status(1), &Options::default());
        for foreign in [
            &b""[..],
            b"ONEQUERY",
            b"onequery\0",
            b"ONEREPLY\0",
            b"HYQUERY2",
            b"HYQUERY\0",
            b"\xFE\xFD\x09",
        ] {
            assert_eq!(
                receive(&responder, foreign),
                (Verdict::Pass, Vec::new()),
                "{foreign:?}"
            );
        }
        for length in [9, 10, 41, 2000] {
            let mut request = b"ONEQUERY\0".to_vec();
            request.resize(length, 0xFF);
            let (verdict, reply) = receive(&responder, &request);
            assert_eq!(
                (verdict, reply.len()),
                (Verdict::Reply { is_verified: false }, 48)
            );
        }
    }

    /// spec/onequery.md#1.2: a token is valid under both magics, and replies differ only in theirs.
    #[test]
    fn hyquery_requests_get_hyquery_replies() {
        let responder = responder(&status(3), &Options::default());
        for endpoint in [Endpoint::Basic, Endpoint::Players] {
            let mut request = Vec::new();
            Request::Query(query(&responder, endpoint)).write(&mut request);
            let (verdict, own) = receive(&responder, &request);
            request[..8].copy_from_slice(b"HYQUERY2");
            let (other_verdict, reply) = receive(&responder, &request);
            assert_eq!((verdict, other_verdict), (VERIFIED, VERIFIED));
            assert!(reply.starts_with(b"HYREPLY2"));
            assert_eq!(reply[8..], own[8..]);
        }
        let (verdict, reply) = receive(&responder, b"HYQUERY2\0");
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert!(reply.starts_with(b"HYREPLY2\0") && reply.len() == 48);
        let (verdict, reply) = receive(&responder, b"HYQUERY2\x01");
        assert_eq!((verdict, reply.len()), (Verdict::Drop("malformed"), 0));
    }

    /// spec/onequery.md#5, row by row: lengths.
    #[test]
    fn a_query_of_every_length() {
        let responder = responder(&status(3), &Options::default());
        for endpoint in [Endpoint::Basic, Endpoint::Players] {
            let mut request = Vec::new();
            Request::Query(Query {
                offset: 1,
                ..query(&responder, endpoint)
            })
            .write(&mut request);
            request.resize(300, 0xFF);
            for length in 9..request.len() {
                let (verdict, reply) = receive(&responder, &request[..length]);
                if length < 41 {
                    assert_eq!((verdict, reply.len()), (Verdict::Drop("malformed"), 0));
                    continue;
                }
                assert_eq!(verdict, VERIFIED);
                let id = if length < 45 { 0 } else { 0xFFFF_FFFE };
                let answer = message::parse_reply(&reply, &mut Notes::default()).unwrap();
                assert_eq!(answer.id, id, "{length}");
                assert_eq!(answer.info.is_some(), endpoint == Endpoint::Basic);
                let offset = answer.page.map(|page| page.offset);
                assert_eq!(
                    offset,
                    (endpoint == Endpoint::Players).then_some(u32::from(length >= 51)),
                    "{length}"
                );
            }
        }
    }

    /// spec/onequery.md#5, row by row: flags, types, offsets.
    #[test]
    fn flags_types_and_offsets() {
        let responder = responder(
            &status(100),
            &Options::default().with("tokens", Value::Table(Vec::new())),
        );
        let mut request = Vec::new();
        Request::Query(query(&responder, Endpoint::Basic)).write(&mut request);
        let (_, basic) = receive(&responder, &request);
        assert!(read(&basic).info.is_some());
        request[46] = 0xFF;
        assert_eq!(
            receive(&responder, &request).1,
            basic,
            "unknown flags are ignored"
        );
        request[47] = 50;
        assert_eq!(
            receive(&responder, &request).1,
            basic,
            "basic ignores the offset"
        );
        for kind in 3..=255 {
            request[8] = kind;
            assert_eq!(
                receive(&responder, &request).1,
                basic,
                "type {kind} is basic"
            );
            let mut forged = request.clone();
            forged[40] ^= 1;
            assert_eq!(
                receive(&responder, &forged),
                (Verdict::Drop("token"), Vec::new())
            );
        }
        let whole = page(&responder, 0);
        for negative in [-1, i32::MIN] {
            assert_eq!(
                page(&responder, negative),
                whole,
                "below zero counts as zero"
            );
        }
        for past in [100, 101, i32::MAX] {
            assert_eq!(page(&responder, past), (Flags(0), 100, 100, Vec::new()));
            let reply = ask(
                &responder,
                Query {
                    offset: past,
                    ..query(&responder, Endpoint::Players)
                },
            );
            assert_eq!(reply.len(), 33);
        }
        for offset in 0..100 {
            let (flags, total, start, names) = page(&responder, offset);
            assert_eq!((total, start), (100, offset as u32));
            assert_eq!(
                names[0],
                format!("player_{}", offset + 1),
                "any offset starts a page"
            );
            assert_eq!(
                flags.has(Flags::MORE),
                (offset as usize) + names.len() < 100
            );
        }
    }

    /// spec/onequery.md#4
    #[test]
    fn a_token_is_valid_for_four_epochs_at_one_address() {
        let responder = responder(&status(1), &Options::default());
        let minted = token(&responder, client_address(), NOW);
        assert_eq!(minted.0[..8], [0, 0, 3, 0xE8, 0, 0, 0, 0]);
        let verdict = |from, epoch, token| {
            let mut request = Vec::new();
            let query = Query {
                endpoint: Endpoint::Basic,
                token,
                id: 1,
                offset: 0,
                auth_token: None,
            };
            Request::Query(query).write(&mut request);
            responder.answer(from, epoch, &request, &mut Vec::new())
        };
        let dropped = Verdict::Drop("token");
        for age in 0..8 {
            let expected = if age < 4 { VERIFIED } else { dropped };
            assert_eq!(
                verdict(client_address(), Epoch(1000 + age), minted),
                expected,
                "{age} epochs later"
            );
        }
        assert_eq!(
            verdict(client_address(), Epoch(999), minted),
            dropped,
            "from the future"
        );
        for other in ["192.0.2.8:50000", "[2001:db8::1]:50000"] {
            assert_eq!(
                verdict(other.parse().unwrap(), NOW, minted),
                dropped,
                "{other}"
            );
        }
        for same in ["192.0.2.7:50001", "[::ffff:192.0.2.7]:50000"] {
            assert_eq!(
                verdict(same.parse().unwrap(), NOW, minted),
                VERIFIED,
                "{same}"
            );
        }
        for bit in 0..256 {
            let mut forged = minted;
            forged.0[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                verdict(client_address(), NOW, forged),
                dropped,
                "bit {bit} changed"
            );
        }
        assert_eq!(verdict(client_address(), NOW, Token([0; 32])), dropped);
    }

    #[test]
    fn a_token_outlives_one_rotation() {
        let first = Keys::new([1; 16]);
        let second = first.rotate([2; 16]);
        let with =
            |keys: &Keys| OneQueryResponder::new(&status(1), keys, &OneQueryConfig::default());
        let old = Query {
            token: token(&with(&first), client_address(), NOW),
            ..query(&with(&second), Endpoint::Basic)
        };
        assert!(read(&ask(&with(&second), old)).info.is_some());
        let mut request = Vec::new();
        Request::Query(old).write(&mut request);
        assert_eq!(
            receive(&with(&second.rotate([3; 16])), &request).0,
            Verdict::Drop("token")
        );
    }

    /// spec/onequery.md#3.2, row by row.
    #[test]
    fn flags_of_each_reply() {
        let base = || Options::default().with("tokens", Value::Table(Vec::new()));
        let flags = |options: Options, endpoint| {
            let responder = responder(&status(100), &options);
            let reply = ask(&responder, query(&responder, endpoint));
            read(&reply).flags.0
        };
        assert_eq!(flags(base(), Endpoint::Basic), 0);
        assert_eq!(
            flags(base().with("announce-address", true), Endpoint::Basic),
            0x20
        );
        assert_eq!(flags(base().with("network", true), Endpoint::Basic), 0x10);
        let both = base().with("network", true).with("announce-address", true);
        assert_eq!(flags(both.clone(), Endpoint::Basic), 0x30);
        assert_eq!(flags(base(), Endpoint::Players), 0x01);
        assert_eq!(flags(both.clone(), Endpoint::Players), 0x11);
        // Without the option, the status decides.
        let mut aggregated = status(1);
        aggregated.extra.push(Extra::new("network", true));
        for (options, bits) in [(base(), 0x10), (base().with("network", false), 0)] {
            let responder = responder(&aggregated, &options);
            assert_eq!(
                read(&ask(&responder, query(&responder, Endpoint::Basic)))
                    .flags
                    .0,
                bits
            );
        }
        for endpoint in [Endpoint::Basic, Endpoint::Players] {
            let responder = responder(&status(100), &both.clone().with("public", list(&[])));
            let reply = ask(&responder, query(&responder, endpoint));
            assert_eq!(
                (reply.len(), read(&reply).flags),
                (17, Flags::REFUSED),
                "a refusal discloses nothing"
            );
        }
        let mut nowhere = status(1);
        for host in [None, Some(" ".into())] {
            nowhere.address = Some(Address {
                host,
                port: Some(1),
            });
            let responder = responder(&nowhere, &base().with("announce-address", true));
            assert_eq!(
                read(&ask(&responder, query(&responder, Endpoint::Basic)))
                    .flags
                    .0,
                0
            );
        }
    }

    #[test]
    fn server_info_as_the_status_has_it() {
        let responder = responder(
            &status(2),
            &Options::default().with("announce-address", true),
        );
        let reply = ask(&responder, query(&responder, Endpoint::Basic));
        let expected = ServerInfo {
            name: b"Name",
            motd: b"Hi",
            online: 2,
            max: 50,
            version: b"1.0",
            protocol_version: 3,
            protocol_hash: b"0A1B2C3D",
            address: Some((b"play.example", 5521)),
        };
        assert_eq!(read(&reply).info, Some(expected));
    }

    /// spec/onequery.md#6
    #[test]
    fn auth_tokens_open_what_is_not_public() {
        // SHA-256 of "secret".
        let hash = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let tokens = Value::Table(alloc::vec![
            ("plain".into(), list(&["players"])),
            (hash.into(), list(&["basic", "players"])),
            ("nothing".into(), list(&[])),
        ]);
        let with = |public: &[&str]| {
            responder(
                &status(1),
                &Options::default()
                    .with("public", list(public))
                    .with("tokens", tokens.clone()),
            )
        };
        let refused = |responder: &OneQueryResponder, endpoint, auth_token| {
            let reply = ask(
                responder,
                Query {
                    auth_token,
                    ..query(responder, endpoint)
                },
            );
            read(&reply).flags.has(Flags::REFUSED)
        };
        let shut = with(&[]);
        let half = with(&["basic"]);
        let cases: [(Option<&[u8]>, bool, bool); 6] = [
            (None, true, true),
            (Some(b"plain"), true, false),
            (Some(b"secret"), false, false),
            (Some(b"nothing"), true, true),
            (Some(b"unknown"), true, true),
            (Some(hash.as_bytes()), true, true),
        ];
        for (token, basic, players) in cases {
            assert_eq!(refused(&shut, Endpoint::Basic, token), basic);
            assert_eq!(refused(&shut, Endpoint::Players, token), players);
            // A public endpoint needs no token, and a wrong one does not matter.
            assert!(!refused(&half, Endpoint::Basic, token));
            assert_eq!(refused(&half, Endpoint::Players, token), players);
        }
        // An unknown type counts as a request for basic, and needs access to it.
        let mut request = Vec::new();
        Request::Query(Query {
            auth_token: Some(b"plain"),
            ..query(&shut, Endpoint::Basic)
        })
        .write(&mut request);
        request[8] = 9;
        assert!(read(&receive(&shut, &request).1).flags.has(Flags::REFUSED));
        let logged = format!("{shut:?}");
        assert!(
            !logged.contains("plain") && !logged.contains("2bb80d"),
            "{logged}"
        );
    }

    #[test]
    fn options_are_checked() {
        let problem = |options: Options| OneQueryConfig::read(&options).unwrap_err().to_string();
        assert!(problem(Options::default().with("host", "x")).contains("known are public, tokens"));
        assert!(
            problem(Options::default().with("public", "basic"))
                .starts_with("public: must be a list")
        );
        assert!(
            problem(Options::default().with("public", list(&["rcon"])))
                .contains("\"basic\", \"players\"")
        );
        assert!(
            problem(Options::default().with("tokens", list(&[])))
                .starts_with("tokens: must be a table")
        );
        assert!(problem(Options::default().with("network", 1)).contains("true or false"));
        assert!(
            problem(
                Options::default()
                    .with("v1", true)
                    .with("public", list(&[]))
            )
            .contains("make \"basic\" public")
        );
        assert_eq!(
            OneQueryConfig::read(&Options::default()).unwrap().public,
            Endpoints::ALL
        );
    }

    /// spec/onequery.md#7.1
    #[test]
    fn no_reply_is_longer_than_1400_bytes() {
        let long = "\u{E9}\u{1F600}".repeat(2000);
        let mut reported = status(3);
        reported.name = Some(Text::unformatted(long.clone()));
        reported.motd = Some(Text::unformatted(long.clone()));
        reported.version = Some(long.as_str().into());
        reported.address = Some(Address {
            host: Some(long.as_str().into()),
            port: None,
        });
        reported.extra = [Extra::new("protocol-hash", long.clone())].into();
        reported.players.online = Some(i64::MAX);
        reported.players.max = Some(i64::MIN);
        reported
            .players
            .list
            .iter_mut()
            .for_each(|player| player.name = Text::unformatted(long.clone()));
        let responder = responder(
            &reported,
            &Options::default()
                .with("announce-address", true)
                .with("v1", true),
        );
        let reply = ask(&responder, query(&responder, Endpoint::Basic));
        let info = read(&reply).info.unwrap();
        assert!(
            reply.len() > MAX_REPLY - 4,
            "the MOTD gets all that is left"
        );
        assert_eq!((info.online, info.max), (MAX_PLAUSIBLE_PLAYERS, 0));
        let host = info.address.unwrap().0;
        for text in [info.name, info.motd, info.version, info.protocol_hash, host] {
            assert!(long.starts_with(core::str::from_utf8(text).unwrap()) && text.len() > 200);
        }
        let (flags, total, _, names) = page(&responder, 0);
        assert_eq!((flags, total, names.len()), (Flags(0), 3, 3));
        assert!(
            names
                .iter()
                .all(|name| name.len() == 254 && long.starts_with(name))
        );
        let (_, reply) = receive(&responder, b"HYQUERY\0\x01");
        assert!((MAX_V1_REPLY - 4..=MAX_V1_REPLY).contains(&reply.len()));
        assert!(v1::read_reply(&reply, &mut Notes::default()).is_ok());
    }

    /// spec/onequery.md#7.2
    #[test]
    fn pages_are_full_and_follow_each_other() {
        for length in [0, 1, 5, 16, 254, 255, 1299, 1300, 5000] {
            let mut reported = status(250);
            reported
                .players
                .list
                .iter_mut()
                .for_each(|player| player.name = Text::unformatted("n".repeat(length)));
            let responder = responder(&reported, &Options::default());
            let entry = ENTRY + length.min(MAX_TEXT);
            let mut offset = 0;
            loop {
                let (flags, total, start, names) = page(&responder, offset as i32);
                assert_eq!((total, start as usize), (250, offset));
                assert_eq!(
                    names.len(),
                    (PAGE_BUDGET / entry).min(250 - offset),
                    "as many as fit"
                );
                offset += names.len();
                if !flags.has(Flags::MORE) {
                    break;
                }
            }
            assert_eq!(offset, 250);
        }
    }

    #[test]
    fn order_is_by_uuid_then_name() {
        let player = |name: &str, uuid| Player {
            name: Text::unformatted(name),
            uuid,
            ..Player::default()
        };
        let mut reported = status(0);
        reported.players.set_list(
            [
                player("z", None),
                player("b", Some([2; 16])),
                player("a", None),
                player("c", Some([1; 16])),
            ]
            .into(),
        );
        let listed = |reported: &Status| page(&responder(reported, &Options::default()), 0).3;
        let first = listed(&reported);
        // Players without a UUID are sorted by the one made from their name, for any input
        // order.
        assert_eq!(first, ["c", "b", "z", "a"]);
        reported.players.list.reverse();
        assert_eq!(listed(&reported), first);
        assert_ne!(stand_in("a", 1), stand_in("z", 1));
        assert_ne!(stand_in("a", 1), stand_in("a", 2));
    }

    #[test]
    fn formatting_codes_of_other_games_are_left_out() {
        let mut reported = status(0);
        reported.motd = Some(Text::legacy("\u{A7}aGreen\x1b"));
        let basic = &responder(&reported, &Options::default()).basic.1;
        let found = |needle: &[u8]| basic.windows(needle.len()).any(|window| window == needle);
        assert!(found(b"\x05\0Green") && !found("\u{A7}".as_bytes()));
    }

    #[test]
    fn an_empty_server_has_an_empty_page() {
        assert_eq!(
            page(&responder(&status(0), &Options::default()), 0),
            (Flags(0), 0, 0, Vec::new())
        );
    }

    /// spec/onequery.md#8
    #[test]
    fn version_1_is_off_until_asked_for() {
        let off = responder(&status(3), &Options::default());
        assert_eq!(
            receive(&off, b"HYQUERY\0\0"),
            (Verdict::Drop("v1 is off"), Vec::new())
        );
        let on = responder(
            &status(3),
            &Options::default().with("v1", true).with("network", true),
        );
        let expected =
            b"HYREPLY\0\0\x04\0Name\x02\0Hi\x03\0\0\0\x32\0\0\0\x91\x15\x03\x001.0\x03\0\0\0\x08\x000A1B2C3D\
            \x03\0\x01";
        for request in [&b"HYQUERY\0\0"[..], b"HYQUERY\0\x01", b"HYQUERY\0\xFFjunk"] {
            let (verdict, reply) = receive(&on, request);
            assert_eq!(verdict, Verdict::Reply { is_verified: false });
            assert_eq!(reply, expected, "always basic");
        }
        assert_eq!(receive(&on, b"HYQUERY\0").0, Verdict::Pass);
        let plain = responder(&status(3), &Options::default().with("v1", true));
        assert_eq!(
            receive(&plain, b"HYQUERY\0\0").1[expected.len() - 3..],
            [1, 0, 1]
        );
    }

    #[test]
    fn answering_allocates_only_the_reply() {
        let responder = responder(&status(100), &Options::default());
        let mut request = Vec::new();
        Request::Query(query(&responder, Endpoint::Players)).write(&mut request);
        let mut out = Vec::with_capacity(MAX_REPLY);
        let place = out.as_ptr();
        assert_eq!(
            responder.answer(client_address(), NOW, &request, &mut out),
            VERIFIED
        );
        assert_eq!(out.as_ptr(), place);
    }
}
