//! Decodes game sessions: recordings, captures, or bytes of a connection.
//!
//! Limit: at most 1,024 connections at the same time. When it is exceeded, all are finished.
//!
//! In: bytes of sessions. Out: lines of packets, as text or JSON.
//!
//! May import: `crate::args`, `crate::command::decode::capture`, `crate::command::decode::hex`,
//! `crate::command::decode::input`, `crate::command::decode::tcp`, `crate::command::secrets`,
//! `crate::exit`, `crate::packet_filter`, `crate::print`, `hailer`.

use super::capture::Segment;
use super::hex;
use super::input::{self, is_file};
use super::tcp::{Flow, Gap};
use crate::args::{Decode, Stream};
use crate::command::secrets::Secrets;
use crate::exit::{OrUsage, usage};
use crate::packet_filter::PacketFilter;
use crate::print::packet::{Form, PacketView, Summary};
use crate::print::stderr;
use hailer::minecraft::game::stream::{MAX_PACKET, ReadOutcome, read};
use hailer::minecraft::game::tap::{TapError, TapPacket};
use hailer::minecraft::game::{Build, PacketDirection, PacketError, TABLE, Tap};
use hailer::minecraft::{Recording, RecordingError};
use hailer::proto;
use hailer::proto::wire::counted;
use hailer::proto::wire::{Error, ErrorKind, Notes};
use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Default port of the game.
const GAME_PORT: u16 = 25_565;
/// Maximum number of concurrent connections. When it is exceeded, all are finished.
const MAX_CONNECTIONS: usize = 1_024;
/// Number of bytes after the start of encryption within which a failure means that the secret is
/// probably wrong.
const WRONG_SECRET_BYTES: u64 = 64;
/// Size of the read buffer, in bytes.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// Output of all sessions.
pub(super) struct Game<'a> {
    args: &'a Decode,
    filter: PacketFilter,
    form: Form,
    summary: Summary,
    secrets: Secrets,
    connections: HashMap<(SocketAddr, SocketAddr), Conversation>,
    /// Whether all input was valid.
    pub(super) is_sound: bool,
    /// Number of sessions.
    pub(super) sessions: u64,
}

/// Returns whether a file with these first bytes is a recorded session.
pub(super) fn is_recording(start: &[u8]) -> bool {
    Recording::<&[u8]>::is_one(start)
}

/// Place of a packet in the input, as shown to users.
#[derive(Clone, Copy, Default)]
struct PacketOrigin<'a> {
    text: &'a str,
    seconds: Option<f64>,
}

impl<'a> PacketOrigin<'a> {
    /// Returns the view of a packet at this place.
    fn packet(
        self,
        direction: PacketDirection,
        build: Build,
        offset: u64,
        bytes: &'a [u8],
    ) -> PacketView<'a> {
        PacketView {
            place: self.text,
            connection: None,
            time: self.seconds,
            direction,
            build,
            offset,
            bytes,
        }
    }
}

impl<'a> Game<'a> {
    pub(super) fn new(args: &'a Decode) -> anyhow::Result<Self> {
        let direction = args.direction.map(|direction| match direction {
            proto::Direction::Request => PacketDirection::ToServer,
            proto::Direction::Reply => PacketDirection::ToClient,
        });
        Ok(Self {
            args,
            filter: PacketFilter::new(&args.game.choice.only, &args.game.choice.hide, direction),
            form: Form {
                is_json: args.json,
                is_long: args.game.choice.long,
                has_hex: args.game.choice.hex,
            },
            summary: Summary::default(),
            secrets: args
                .game
                .secrets
                .as_deref()
                .map(Secrets::read)
                .transpose()?
                .unwrap_or_default(),
            connections: HashMap::new(),
            is_sound: true,
            sessions: 0,
        })
    }

    fn tap(&self) -> Tap {
        Tap::new(
            self.args.game.build,
            self.args
                .game
                .secret
                .as_ref()
                .map(|secret| secret.0.clone()),
        )
    }

    /// Decodes inputs that are bytes of game connections. Returns `None` without `--stream`.
    pub(super) fn streams(&mut self, out: &mut impl Write) -> Option<anyhow::Result<()>> {
        let stream = self.args.game.stream?;
        Some(self.raw(out, stream))
    }

    fn raw(&mut self, out: &mut impl Write, stream: Stream) -> anyhow::Result<()> {
        match (direction(stream), self.args.inputs.as_slice()) {
            (None, [to_server, to_client]) => {
                self.both(out, input::open(to_server)?, input::open(to_client)?)?
            }
            (None, _) => usage!(
                "--stream both takes two files: first the bytes to the server, then the bytes to the client"
            ),
            (Some(direction), []) => self.bytes(out, direction, std::io::stdin())?,
            (Some(direction), [path]) if path == "-" => {
                self.bytes(out, direction, std::io::stdin())?
            }
            (Some(direction), [path]) if is_file(path) => {
                self.bytes(out, direction, input::open(path)?)?
            }
            (Some(direction), words) => {
                let bytes = match hex::bytes(&words.join(" ")) {
                    Ok(bytes) if bytes.is_empty() => usage!("no bytes"),
                    Ok(bytes) => bytes,
                    Err(problem) => usage!(
                        "{}: neither one file nor hexadecimal: {problem}",
                        words.join(" ")
                    ),
                };
                self.form.is_long = true;
                self.bytes(out, direction, &bytes[..])?;
            }
        }
        self.conclude(out)?;
        Ok(out.flush()?)
    }

    /// Returns whether the user named the version of the game.
    pub(super) fn has_build(&self) -> bool {
        self.args.game.build.is_some()
    }

    /// Prints the packets of a recording. An invalid line does not affect the following ones.
    pub(super) fn recording(
        &mut self,
        out: &mut impl Write,
        name: &str,
        input: impl BufRead,
    ) -> anyhow::Result<()> {
        self.sessions += 1;
        let recording = Recording::open(input).or_usage_in(name)?;
        let build = self.args.game.build.unwrap_or(recording.build());
        let mut to_server = 0;
        let mut to_client = 0;
        for entry in recording {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error @ RecordingError::Line { .. }) => {
                    self.is_sound = false;
                    stderr!("\x1b[31m{name}:\x1b[0m {error}");
                    continue;
                }
                Err(error) => usage!("{name}: {error}"),
            };
            let seconds = entry.at.as_micros() as f64 / 1e6;
            let text = format!("{seconds:.6} s");
            let place = PacketOrigin {
                text: &text,
                seconds: Some(seconds),
            };
            let at = if entry.direction == PacketDirection::ToServer {
                &mut to_server
            } else {
                &mut to_client
            };
            let offset = *at;
            *at += entry.bytes.len() as u64;
            let broken = match read(
                &entry.bytes,
                entry.direction,
                build,
                MAX_PACKET,
                &mut Notes::discarding(),
            ) {
                ReadOutcome::Packet(packet, length) if length == entry.bytes.len() => {
                    let seen = TapPacket {
                        direction: entry.direction,
                        build,
                        packet,
                        bytes: entry.bytes,
                        offset,
                    };
                    self.packet(out, place, &seen)?;
                    continue;
                }
                ReadOutcome::Packet(packet, length) => {
                    let error = Error::bad("end of packet", length, "no more bytes");
                    PacketError {
                        packet: Some(packet.name()),
                        id: packet.id(),
                        error,
                        at: offset,
                    }
                }
                ReadOutcome::Need(_) => cut(&entry.bytes, entry.direction, build, offset),
                ReadOutcome::Invalid(broken) => PacketError {
                    at: offset,
                    ..broken
                },
            };
            self.is_sound = false;
            let shown = place.packet(entry.direction, build, offset, &entry.bytes);
            shown.broken(out, &broken, self.form)?;
        }
        Ok(())
    }

    /// Prints the packets in the bytes of one direction.
    fn bytes(
        &mut self,
        out: &mut impl Write,
        direction: PacketDirection,
        mut input: impl Read,
    ) -> anyhow::Result<()> {
        self.sessions += 1;
        let mut tap = self.tap();
        self.pour(out, &mut tap, direction, &mut input)?;
        self.end(out, "the stream", &mut tap)
    }

    /// Prints the packets of both directions of one connection, one direction after the other.
    fn both(
        &mut self,
        out: &mut impl Write,
        mut to_server: impl Read,
        mut to_client: impl Read,
    ) -> anyhow::Result<()> {
        self.sessions += 1;
        let mut tap = self.tap();
        self.pour(out, &mut tap, PacketDirection::ToServer, &mut to_server)?;
        self.pour(out, &mut tap, PacketDirection::ToClient, &mut to_client)?;
        self.end(out, "the stream", &mut tap)
    }

    fn pour(
        &mut self,
        out: &mut impl Write,
        tap: &mut Tap,
        direction: PacketDirection,
        input: &mut impl Read,
    ) -> anyhow::Result<()> {
        let mut chunk = vec![0; READ_BUFFER_BYTES];
        loop {
            let count = input.read(&mut chunk)?;
            if count == 0 {
                return Ok(());
            }
            tap.push(direction, &chunk[..count]);
            self.drain(out, PacketOrigin::default(), tap)?;
        }
    }

    /// Prints the packets that the tap has decoded.
    fn drain(
        &mut self,
        out: &mut impl Write,
        place: PacketOrigin<'_>,
        tap: &mut Tap,
    ) -> anyhow::Result<()> {
        loop {
            match tap.next() {
                Ok(Some(seen)) => self.packet(out, place, &seen)?,
                Ok(None) => return Ok(()),
                Err((direction, error)) => self.failed(out, place, tap, direction, &error)?,
            }
        }
    }

    fn packet(
        &mut self,
        out: &mut impl Write,
        place: PacketOrigin<'_>,
        seen: &TapPacket,
    ) -> anyhow::Result<()> {
        if !self.filter.shows(&seen.packet, seen.direction) {
            return Ok(());
        }
        self.summary.add(seen);
        if self.args.game.summary {
            return Ok(());
        }
        let shown = place.packet(seen.direction, seen.build, seen.offset, &seen.bytes);
        Ok(shown.packet(out, &seen.packet, self.form)?)
    }

    fn failed(
        &mut self,
        out: &mut impl Write,
        place: PacketOrigin<'_>,
        tap: &Tap,
        direction: PacketDirection,
        error: &TapError,
    ) -> anyhow::Result<()> {
        self.is_sound = false;
        let TapError::Packet(broken) = error else {
            stderr!("\x1b[31m{direction}:\x1b[0m {error}");
            self.hint_at_swapped_files(direction, tap.at(direction), tap.rest(direction));
            return Ok(());
        };
        let build = tap.likely();
        let bytes = tap.rest(direction);
        let shown = place.packet(direction, build, broken.at, bytes);
        shown.broken(out, broken, self.form)?;
        out.flush()?;
        stderr!("\x1b[31m{direction}:\x1b[0m {broken}; nothing after it can be read");
        match tap
            .encrypted_at(direction)
            .map(|at| broken.at.saturating_sub(at))
        {
            Some(after @ 0..WRONG_SECRET_BYTES) => {
                let after = counted(after, "byte");
                stderr!(
                    "\x1b[33mnote:\x1b[0m {after} after encryption began: the secret may be another connection's"
                );
            }
            None if self.args.game.build.is_some() && broken.at == 0 => {
                stderr!(
                    "\x1b[33mnote:\x1b[0m without --build, the build is learned from the handshake"
                );
            }
            None => self.hint_at_swapped_files(direction, broken.at, bytes),
            _ => {}
        }
        Ok(())
    }

    /// Prints a hint if a stream fails early at bytes that fit the other direction.
    fn hint_at_swapped_files(&self, direction: PacketDirection, offset: u64, bytes: &[u8]) {
        if self.args.game.stream.is_some()
            && offset < WRONG_SECRET_BYTES * 2
            && is_of_other_direction(bytes, direction)
        {
            stderr!(
                "\x1b[33mnote:\x1b[0m these bytes fit the other direction; --stream both takes first the file of \
                 bytes to the server, then the file of bytes to the client"
            );
        }
    }

    /// Finishes a connection: prints the remaining packets and any decoding failure.
    fn end(&mut self, out: &mut impl Write, name: &str, tap: &mut Tap) -> anyhow::Result<()> {
        tap.end();
        self.drain(out, PacketOrigin::default(), tap)?;
        out.flush()?;
        for direction in [PacketDirection::ToServer, PacketDirection::ToClient] {
            if let Some(sealed) = tap.sealed(direction).filter(|sealed| sealed.bytes > 0) {
                let bytes = counted(sealed.bytes, "byte");
                let offset = sealed.offset;
                stderr!(
                    "\x1b[33mnote:\x1b[0m {name}, {direction}: encrypted from offset {offset} on, {bytes}; --secret or \
                     --secrets lets them be read"
                );
            } else if let rest @ [_, ..] = tap.rest(direction)
                && !tap.is_closed(direction)
            {
                self.is_sound = false;
                let build = tap.likely();
                let offset = tap.at(direction);
                let shown = PacketOrigin::default().packet(direction, build, offset, rest);
                shown.broken(out, &cut(rest, direction, build, offset), self.form)?;
                out.flush()?;
                stderr!("\x1b[33mnote:\x1b[0m {name}, {direction}: ends in the middle of a packet");
            }
        }
        Ok(())
    }

    /// Handles a TCP segment of a capture.
    pub(super) fn segment(
        &mut self,
        out: &mut impl Write,
        segment: &Segment,
    ) -> anyhow::Result<()> {
        let from = segment.from;
        let to = segment.to;
        let ends = if from < to { (from, to) } else { (to, from) };
        let mut begun = self.connections.remove(&ends);
        if segment.syn
            && let Some(before) = begun.take_if(|before| !before.flow(from).syn(segment.seq))
        {
            self.finish(out, before)?;
        }
        if begun.is_none() && self.connections.len() >= MAX_CONNECTIONS {
            self.finish_all(out)?;
        }
        let mut conversation = begun.unwrap_or_else(|| {
            Conversation::new(segment, self.args.game.port.unwrap_or(GAME_PORT))
        });
        if segment.syn {
            conversation.flow(from).syn(segment.seq);
        }
        let shown = self.conversation(out, &mut conversation, segment);
        self.connections.insert(ends, conversation);
        shown
    }

    fn conversation(
        &mut self,
        out: &mut impl Write,
        conversation: &mut Conversation,
        segment: &Segment,
    ) -> anyhow::Result<()> {
        let direction = if segment.from == conversation.client {
            PacketDirection::ToServer
        } else {
            PacketDirection::ToClient
        };
        if let ConnectionKind::Other = conversation.kind {
            return Ok(());
        }
        let is_start = conversation.flow(segment.from).is_at_start();
        let mut due = Vec::new();
        let whole =
            conversation
                .flow(segment.from)
                .segment(segment.seq, &segment.payload, |bytes| {
                    due.extend_from_slice(bytes);
                });
        if !due.is_empty() {
            if let ConnectionKind::Unknown = conversation.kind {
                conversation.kind = self.kind(conversation, direction, is_start, &due);
            }
            if let ConnectionKind::Game(tap) = &mut conversation.kind {
                tap.push(direction, &due);
                let place = PacketOrigin {
                    text: &segment.place,
                    seconds: Some(segment.seconds),
                };
                self.drain(out, place, tap)?;
            }
        }
        if let (Err(missing), ConnectionKind::Game(_)) = (whole, &conversation.kind) {
            self.missing(&conversation.name(), direction, missing);
        }
        Ok(())
    }

    /// Detects a game connection by its port and first bytes.
    fn kind(
        &mut self,
        conversation: &Conversation,
        direction: PacketDirection,
        is_start: bool,
        bytes: &[u8],
    ) -> ConnectionKind {
        let begins = match bytes {
            _ if direction == PacketDirection::ToClient || !is_start => false,
            [0xFE, ..] | [0x02] | [0x02, 0 | 31..=39, ..] => true,
            _ => false,
        };
        let port = conversation.server.port();
        let is_ours = self.args.game.port.map_or(
            port == GAME_PORT || begins && conversation.is_whole,
            |only| port == only,
        );
        if !is_ours {
            return ConnectionKind::Other;
        }
        self.sessions += 1;
        if !conversation.is_whole && !begins && self.args.game.build.is_none() {
            self.is_sound = false;
            stderr!(
                "\x1b[33mnote:\x1b[0m {}: began before the capture, so the start of a packet is unknown; --build \
                 reads it as if a packet began here",
                conversation.name()
            );
            return ConnectionKind::Other;
        }
        let known = self
            .secrets
            .of(conversation.client, conversation.server, conversation.begun);
        let given = self
            .args
            .game
            .secret
            .as_ref()
            .map(|secret| secret.0.clone());
        let build = self.args.game.build.or(known.map(|(build, _)| build));
        ConnectionKind::Game(Box::new(Tap::new(
            build,
            given.or(known.map(|(_, secret)| secret.to_vec())),
        )))
    }

    fn missing(&mut self, name: &str, direction: PacketDirection, missing: Gap) {
        self.is_sound = false;
        let Gap { at, bytes } = missing;
        let bytes = counted(bytes, "byte");
        stderr!(
            "\x1b[33mnote:\x1b[0m {name}, {direction}: {bytes} missing at offset {at}; nothing after them can be read"
        );
    }

    fn finish(
        &mut self,
        out: &mut impl Write,
        mut conversation: Conversation,
    ) -> anyhow::Result<()> {
        let name = conversation.name();
        let ConnectionKind::Game(mut tap) = conversation.kind else {
            return Ok(());
        };
        self.end(out, &name, &mut tap)?;
        for (direction, flow) in [
            (PacketDirection::ToServer, &mut conversation.to_server),
            (PacketDirection::ToClient, &mut conversation.to_client),
        ] {
            if let Err(missing) = flow.end() {
                self.missing(&name, direction, missing);
            }
        }
        Ok(())
    }

    /// Finishes all connections at the end of a capture.
    pub(super) fn finish_all(&mut self, out: &mut impl Write) -> anyhow::Result<()> {
        let mut all: Vec<_> = std::mem::take(&mut self.connections)
            .into_values()
            .collect();
        all.sort_by_key(|conversation| (conversation.begun, conversation.client));
        all.into_iter()
            .try_for_each(|conversation| self.finish(out, conversation))
    }

    /// Prints the summary at the end of all input.
    pub(super) fn conclude(&mut self, out: &mut impl Write) -> anyhow::Result<()> {
        if self.args.game.summary && self.sessions > 0 {
            self.summary.show(out, self.args.json)?;
        }
        if self.filter.hidden > 0 {
            out.flush()?;
            stderr!(
                "\x1b[2m{} not shown\x1b[0m",
                counted(self.filter.hidden, "packet")
            );
        }
        Ok(())
    }
}

/// One TCP connection of a capture.
struct Conversation {
    client: SocketAddr,
    server: SocketAddr,
    /// Time of the first segment, since 1970.
    begun: Duration,
    /// Whether the capture contains the first bytes of the connection.
    is_whole: bool,
    to_server: Flow,
    to_client: Flow,
    kind: ConnectionKind,
}

/// The content of a TCP connection of a capture.
enum ConnectionKind {
    /// No bytes have arrived yet.
    Unknown,
    Game(Box<Tap>),
    Other,
}

impl Conversation {
    /// Starts a conversation with its first segment. A SYN comes from the client, and a SYN with
    /// ACK from the server. Otherwise the client is the side that does not use the game's port, or
    /// else the side with the higher port.
    fn new(segment: &Segment, port: u16) -> Self {
        let from = segment.from;
        let to = segment.to;
        let is_from_client = match (segment.syn, from.port() == port, to.port() == port) {
            (true, ..) => !segment.ack,
            (false, false, true) => true,
            (false, true, false) => false,
            _ => from.port() > to.port(),
        };
        let (client, server) = if is_from_client {
            (from, to)
        } else {
            (to, from)
        };
        Self {
            client,
            server,
            begun: segment.time,
            is_whole: segment.syn,
            to_server: Flow::default(),
            to_client: Flow::default(),
            kind: ConnectionKind::Unknown,
        }
    }

    fn flow(&mut self, from: SocketAddr) -> &mut Flow {
        if from == self.client {
            &mut self.to_server
        } else {
            &mut self.to_client
        }
    }

    fn name(&self) -> String {
        format!("{} > {}", self.client, self.server)
    }
}

/// Returns whether the bytes begin with a packet of the other direction, in any build.
fn is_of_other_direction(bytes: &[u8], direction: PacketDirection) -> bool {
    let other = match direction {
        PacketDirection::ToServer => PacketDirection::ToClient,
        PacketDirection::ToClient => PacketDirection::ToServer,
    };
    Build::DIALECTS.iter().any(|build| {
        let outcome = read(bytes, other, *build, MAX_PACKET, &mut Notes::discarding());
        matches!(outcome, ReadOutcome::Packet(..))
    })
}

/// Returns the error for a truncated packet.
fn cut(bytes: &[u8], direction: PacketDirection, build: Build, at: u64) -> PacketError {
    let id = bytes.first().copied().unwrap_or_default();
    let row = TABLE
        .iter()
        .find(|row| row.id == id && row.is_in(direction, build));
    let need = match read(
        bytes,
        direction,
        build,
        MAX_PACKET,
        &mut Notes::discarding(),
    ) {
        ReadOutcome::Need(need) => need,
        _ => 1,
    };
    let error = Error {
        field: "the rest",
        at: bytes.len(),
        kind: ErrorKind::Short { need },
    };
    PacketError {
        packet: row.map(|row| row.name),
        id,
        error,
        at,
    }
}

/// Returns the direction of a stream.
fn direction(stream: Stream) -> Option<PacketDirection> {
    match stream {
        Stream::ToServer => Some(PacketDirection::ToServer),
        Stream::ToClient => Some(PacketDirection::ToClient),
        Stream::Both => None,
    }
}
