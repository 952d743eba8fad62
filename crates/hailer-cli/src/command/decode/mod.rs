//! `hailer decode`: explains datagrams and game sessions, from hexadecimal, captures or recordings.
//!
//! Limit: the last requests of at most 65,536 conversations are stored.
//!
//! In: arguments, captures, recordings. Out: explanations as text or JSON.
//!
//! May import: `crate::args`, `crate::command::secrets`, `crate::exit`, `crate::packet_filter`,
//! `crate::print`, `hailer`.

mod capture;
#[cfg_attr(not(feature = "game"), path = "no_game.rs")]
mod game;
mod hex;
mod input;
#[cfg(feature = "game")]
mod tcp;

use crate::args::Decode;
use crate::exit::{Exit, OrUsage, as_known, usage};
use crate::print::{datagram, json, stderr};
use capture::PacketPayload;
use game::Game;
use hailer::proto::registry;
use hailer::proto::wire::Notes;
use hailer::proto::wire::counted;
use hailer::proto::{DatagramContext, Direction, Explanation, Info};
use input::{Ends, InputDatagram, is_file};
use std::collections::HashMap;
use std::io::{BufReader, IsTerminal, Read, Write};
use std::path::Path;

/// Maximum number of conversations in memory. When it is exceeded, all are dropped.
const MAX_CONVERSATIONS: usize = 65_536;

pub(crate) fn run(args: &Decode) -> anyhow::Result<Exit> {
    let game = Game::new(args)?;
    let mut session = DecodeSession {
        args,
        out: crate::print::stdout(),
        is_sound: true,
        skipped: 0,
        requests: HashMap::new(),
        game,
    };
    let shown = match session.game.streams(&mut session.out) {
        Some(shown) => shown,
        None => inputs(args, &mut session),
    };
    let is_sound = session.is_sound && session.game.is_sound;
    as_known(
        shown,
        if is_sound {
            Exit::Success
        } else {
            Exit::Partial
        },
    )
}

fn inputs(args: &Decode, session: &mut DecodeSession<'_, impl Write>) -> anyhow::Result<()> {
    if args.inputs.is_empty() {
        session.standard_input()?;
    }
    // Join hexadecimal arguments to one datagram, so that spaces need no quotes.
    let mut words = String::new();
    for input in &args.inputs {
        if input == "-" {
            session.hex(&std::mem::take(&mut words))?;
            session.standard_input()?;
            continue;
        }
        let path = Path::new(input);
        if is_file(input) {
            session.hex(&std::mem::take(&mut words))?;
            session.stream(input, input::open(input)?)?;
            continue;
        }
        match hex::bytes(input) {
            Ok(bytes) if bytes.is_empty() => usage!("{input:?}: no bytes in it"),
            Ok(_) => words.extend([input, " "]),
            Err(_) if path.is_dir() => usage!("{input}: this is a folder; give a file"),
            Err(_) if input.contains(['.', '/']) => usage!("{input}: no such file"),
            Err(problem) => usage!("{input}: neither a file nor hexadecimal: {problem}"),
        }
    }
    session.hex(&words)?;
    session.game.conclude(&mut session.out)?;
    if session.skipped > 0 {
        let skipped = counted(session.skipped, "datagram");
        stderr!("\x1b[2m{skipped} of unknown protocols not shown; --all shows them\x1b[0m");
    }
    Ok(session.out.flush()?)
}

struct DecodeSession<'a, W: Write> {
    args: &'a Decode,
    out: W,
    is_sound: bool,
    skipped: u64,
    /// The last request of each conversation, since some deviations of a reply only show in
    /// comparison with it. Hexadecimal input has no addresses and counts as one conversation.
    requests: HashMap<Option<Ends>, Vec<u8>>,
    game: Game<'a>,
}

impl<W: Write> DecodeSession<'_, W> {
    fn standard_input(&mut self) -> anyhow::Result<()> {
        if std::io::stdin().is_terminal() {
            stderr!("Reading hexadecimal from the terminal, one datagram per line; Ctrl-D ends.");
        }
        self.stream("standard input", std::io::stdin())
    }

    /// Reads a capture, a recording, or lines of hexadecimal.
    fn stream(&mut self, name: &str, stream: impl Read + Send) -> anyhow::Result<()> {
        let mut stream = BufReader::new(stream);
        let start = capture::start(&mut stream).or_usage_in(name)?;
        let is_capture = capture::is_capture(&start);
        let is_recording = game::is_recording(&start);
        let stream = std::io::Cursor::new(start).chain(stream);
        if is_capture {
            return self.capture(name, stream);
        }
        if is_recording {
            return self.game.recording(&mut self.out, name, stream);
        }
        if self.game.has_build() {
            usage!(
                "{name}: not a recording and not a capture; for raw game bytes, add --stream to-server or --stream to-client"
            );
        }
        let text = std::io::read_to_string(stream)
            .or_usage_in(format_args!("{name}: neither a capture file nor text"))?;
        match hex::lines(&text) {
            Ok(found) if found.is_empty() => usage!("{name}: no bytes in it"),
            Ok(found) => found
                .into_iter()
                .try_for_each(|found| self.show(&found, false)),
            Err(problem) => usage!("{name}: {problem}"),
        }
    }

    fn capture(&mut self, name: &str, stream: impl Read + Send) -> anyhow::Result<()> {
        let mut datagrams = 0_u64;
        let sessions = self.game.sessions;
        let packets = capture::packets(name, stream, |carried| match carried {
            PacketPayload::Datagram(found) => {
                datagrams += 1;
                self.show(&found, true)
            }
            PacketPayload::Segment(segment) => self.game.segment(&mut self.out, &segment),
        })?;
        self.game.finish_all(&mut self.out)?;
        if datagrams == 0 && self.game.sessions == sessions {
            stderr!(
                "\x1b[33mnote:\x1b[0m {name}: no UDP datagram and no game session in {}; queries over TCP and HTTP are not decoded",
                counted(packets, "packet")
            );
        }
        Ok(())
    }

    fn hex(&mut self, words: &str) -> anyhow::Result<()> {
        if self.game.has_build() && !words.is_empty() {
            usage!(
                "the direction of these bytes is unknown; add --stream to-server or --stream to-client"
            );
        }
        match hex::bytes(words) {
            Ok(bytes) if bytes.is_empty() => Ok(()),
            Ok(bytes) => self.show(
                &InputDatagram {
                    place: String::new(),
                    ends: None,
                    bytes,
                },
                false,
            ),
            Err(problem) => usage!("{problem}"),
        }
    }

    fn show(
        &mut self,
        InputDatagram { place, ends, bytes }: &InputDatagram,
        is_from_capture: bool,
    ) -> anyhow::Result<()> {
        let (found, notes) = self.explain_in_turn(bytes, *ends);
        // A capture contains unrelated traffic. A datagram that only resembles a protocol and has
        // an error is probably unrelated.
        let certain = found
            .is_some_and(|(_, explanation)| explanation.is_certain || explanation.error.is_none());
        if is_from_capture && !certain && !self.args.all && self.args.protocol.is_none() {
            self.skipped += 1;
            return Ok(());
        }
        self.is_sound &= found.is_some_and(|(_, explanation)| explanation.error.is_none());
        if self.args.json {
            let mut json = datagram::json(found, &notes, bytes);
            if !place.is_empty() {
                json["place"] = place.trim().into();
            }
            writeln!(self.out, "{}", json::line(&json)?)?;
        } else {
            datagram::heading(
                &mut self.out,
                place,
                self.args.direction,
                found,
                bytes.len(),
            )?;
            let error = found.and_then(|(_, explanation)| explanation.error);
            datagram::body(&mut self.out, bytes, error, &notes, usize::MAX)?;
        }
        Ok(())
    }

    /// Explains a datagram. A reply is compared with the last request; a request is stored.
    fn explain_in_turn(
        &mut self,
        bytes: &[u8],
        ends: Option<Ends>,
    ) -> (Option<(&'static Info, Explanation)>, Notes) {
        let seen = self
            .args
            .direction
            .map_or(DatagramContext::Unknown, DatagramContext::from);
        let mut explained = self.explain(bytes, seen);
        let opposite = ends.map(|(from, to)| (to, from));
        if let Some(request) = self.requests.get(&opposite)
            && (ends.is_some()
                || explained
                    .0
                    .is_some_and(|(_, explanation)| explanation.direction == Direction::Reply))
            && let as_reply @ (Some(_), _) = self.explain(bytes, DatagramContext::ReplyTo(request))
        {
            explained = as_reply;
        }
        if explained
            .0
            .is_some_and(|(_, explanation)| explanation.direction == Direction::Request)
        {
            if self.requests.len() >= MAX_CONVERSATIONS {
                self.requests.clear();
            }
            self.requests.insert(ends, bytes.to_vec());
        }
        explained
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
    ) -> (Option<(&'static Info, Explanation)>, Notes) {
        match self.args.protocol {
            Some(protocol) => {
                let (found, notes) = registry::explain_as(protocol, bytes, seen);
                (found.map(|found| (protocol.info(), found)), notes)
            }
            None => match registry::explain(bytes, seen) {
                Some((protocol, found, notes)) => (Some((protocol.info(), found)), notes),
                None => (None, Notes::default()),
            },
        }
    }
}
