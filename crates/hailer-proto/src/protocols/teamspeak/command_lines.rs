//! Shared code of the protocols: lines of commands, and a responder of them.

use crate::model::{Player, Status, Value, is_control};
use crate::protocol::{
    Ask, Connection, ConnectionStep, Direction, Explanation, Frame, Options, Received, Responder,
    ResponderResult, Step, Verdict,
};
use crate::token::Epoch;
use crate::wire::{Deviation, Error, Notes, Reader, by_content, cut};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use memchr::memchr;

/// Largest number of commands of a connection.
pub(super) const MAX_COMMANDS: u8 = 10;
/// Largest number of players in a list of a responder.
pub(super) const MAX_PLAYERS: usize = 512;
/// Channel of players without another one.
pub(super) const DEFAULT_CHANNEL: i64 = 1;

/// Returns where the first line ends.
///
/// # Errors
///
/// The line has more than `max_line` bytes.
pub(super) fn frame(bytes: &[u8], max_line: usize) -> Result<Frame, Error> {
    let end = memchr(b'\n', bytes);
    if end.unwrap_or(bytes.len()) > max_line {
        return Err(Error::limit("line", 0, max_line));
    }
    Ok(match end {
        Some(end) => Frame::Complete(end + 1),
        None => Frame::Incomplete {
            total: bytes.len() + 1,
        },
    })
}

/// Returns a line without its end.
pub(super) fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the error of a line without its end.
pub(super) fn unfinished(line: &[u8]) -> Error {
    Error::short("end of the line", line.len(), 1)
}

/// Returns the port for voice that an ask names. The queried port is none.
pub(super) fn voice_port(ask: &Ask) -> Option<u16> {
    Some(ask.to.game_port).filter(|port| *port != 0 && *port != ask.to.port)
}

/// Ends a query. `missing`: the deviation of a status without players.
pub(super) fn finish(
    mut status: Box<Status>,
    players: Option<Vec<Player>>,
    missing: Option<&'static Deviation>,
    notes: &mut Notes,
) -> Step {
    match (players, missing) {
        (Some(players), _) => status.players.set_list(players),
        (None, Some(missing)) => notes.deviation(missing, 0),
        (None, None) => {}
    }
    status.deviations = notes.met().collect();
    Step::Done(status)
}

/// Collects the notes of each line of a message, up to the first error. `None`: the bytes go in the
/// other direction.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    found: Explanation,
    notes: &mut Notes,
    mut explain_line: impl FnMut(&mut Reader<'_, '_>) -> Result<(), Error>,
) -> Option<Explanation> {
    if direction.is_some_and(|direction| direction != found.direction) {
        return None;
    }
    let mut r = Reader::new(bytes, notes);
    let mut error = None;
    let mut index = 0;
    while r.remaining() > 0 && error.is_none() {
        r.notes().group("lines", index);
        index += 1;
        error = explain_line(&mut r).err();
    }
    r.notes().ungroup();
    Some(Explanation { error, ..found })
}

/// Takes a line, whose end `frame` finds, and returns it without its end.
pub(super) fn take_line<'a>(
    r: &mut Reader<'a, '_>,
    frame: fn(&[u8]) -> Result<Frame, Error>,
) -> Result<&'a [u8], Error> {
    let at = r.at();
    let length = match frame(r.rest())? {
        Frame::Complete(length) => length,
        Frame::Incomplete { .. } => r.remaining(),
    };
    let line = trim(r.take(length, "line")?);
    r.note(at, "line", || format!("{:?}", by_content(line).0));
    Ok(line)
}

/// Replies of one server to the commands of guests.
pub(super) trait Replies: Send + Sync + 'static {
    /// First words of commands.
    const COMMANDS: &'static [&'static [u8]];
    /// Longest line of a client in bytes.
    const MAX_LINE: usize;

    /// Appends the first lines of a connection.
    fn greet(out: &mut Vec<u8>);

    /// Handles a command, which starts at this offset. Returns the step that ends the connection.
    fn run(
        &self,
        command: &[u8],
        at: usize,
        guest: &mut Guest,
        out: &mut Vec<u8>,
    ) -> Option<ConnectionStep>;
}

/// State of a connection.
#[derive(Debug, Default)]
pub(super) struct Guest {
    /// Whether the client has selected the virtual server.
    pub(super) has_server: bool,
    /// Commands so far.
    pub(super) commands: u8,
}

/// Responder of one server.
struct CommandResponder<R>(Arc<R>);

/// Returns a responder with these replies. It has no options.
pub(super) fn respond(options: &Options, replies: impl Replies) -> ResponderResult {
    options.check(&[])?;
    Ok(Arc::new(CommandResponder(Arc::new(replies))))
}

impl<R: Replies> Responder for CommandResponder<R> {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(CommandConnection {
            replies: Arc::clone(&self.0),
            has_greeted: false,
            guest: Guest::default(),
        }))
    }
}

struct CommandConnection<R> {
    replies: Arc<R>,
    has_greeted: bool,
    guest: Guest,
}

impl<R: Replies> Connection for CommandConnection<R> {
    fn open(&mut self, out: &mut Vec<u8>) -> ConnectionStep {
        self.has_greeted = true;
        R::greet(out);
        ConnectionStep::Wait
    }

    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        if !self.has_greeted {
            // The client did not wait for the greeting.
            if !starts_like(R::COMMANDS, bytes) {
                return Received {
                    consumed: 0,
                    step: ConnectionStep::Pass,
                };
            }
            self.open(out);
        }
        let mut consumed = 0;
        let step = loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let length = match frame(rest, R::MAX_LINE) {
                Ok(Frame::Complete(length)) => length,
                Ok(Frame::Incomplete { .. }) => break ConnectionStep::Wait,
                Err(_) => {
                    let error = Error::limit("line", consumed, R::MAX_LINE);
                    break ConnectionStep::Bad(error);
                }
            };
            let command = rest.get(..length).unwrap_or_default().trim_ascii();
            let at = consumed;
            consumed += length;
            if let Some(step) = self.replies.run(command, at, &mut self.guest, out) {
                break step;
            }
        };
        Received { consumed, step }
    }
}

/// Returns whether bytes start like one of these commands.
fn starts_like(commands: &[&[u8]], bytes: &[u8]) -> bool {
    let word = bytes.split(|byte| byte.is_ascii_whitespace()).next();
    let word = word.unwrap_or_default();
    let is_whole = word.len() < bytes.len();
    let is_like =
        |command: &&[u8]| command.starts_with(word) && (!is_whole || command.len() == word.len());
    !word.is_empty() && commands.iter().any(is_like)
}

/// Returns the start of a text without control characters, except one that is kept.
pub(super) fn without_controls(text: &str, kept: Option<char>, max_bytes: usize) -> String {
    let text = text.chars().filter(|c| Some(*c) == kept || !is_control(*c));
    let text: String = text.collect();
    cut(&text, max_bytes).into()
}

/// Returns a number of a player.
pub(super) fn number(player: &Player, key: &str) -> Option<i64> {
    let extra = player.extra.iter().find(|extra| extra.key == key)?;
    match extra.value {
        Value::Int(number) => Some(number),
        _ => None,
    }
}

/// Returns the number of a player's channel.
pub(super) fn channel(player: &Player) -> i64 {
    number(player, "channel").unwrap_or(DEFAULT_CHANNEL)
}

/// Returns the players of each channel: the default one, and those with players. A real server has
/// at least one.
pub(super) fn channel_sizes(status: &Status) -> BTreeMap<i64, u32> {
    let mut sizes = BTreeMap::from([(DEFAULT_CHANNEL, 0)]);
    for player in status.players.list.iter().take(MAX_PLAYERS) {
        *sizes.entry(channel(player)).or_default() += 1;
    }
    sizes
}

/// Returns the name of a channel. A status has none.
pub(super) fn channel_name(channel: i64) -> String {
    match channel {
        DEFAULT_CHANNEL => "Default Channel".into(),
        other => format!("Channel {other}"),
    }
}
