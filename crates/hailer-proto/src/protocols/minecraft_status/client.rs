//! The client: one exchange for the servers of all eras (spec/minecraft-status.md#8).
//!
//! ```text
//!   current form ──► status ──► ping, unless the caller wants none ──► pong: done
//!        │ kick                  │ no pong: done, with a deviation
//!        ▼
//!   1.6 form ──► FE 01 ──► FE ──► current form with another protocol number ──► failed
//! ```
//!
//! Each form has a separate connection, because a server that does not know a form reads its bytes
//! as something else. Only the 1.6 form can follow FE 01, which is its start: after a connection
//! that was closed without a kick, the second one is for servers of 1.4 and of 1.6. A host without a
//! protocol gets no third connection.

use super::deviation::*;
use super::message::{self, Handshake, Intent, LegacyForm, LegacyReply, Listing};
use super::reply::{self, Reply};
use crate::model::{Extra, Status, Text};
use crate::protocol::{Ask, Cookie, Depth, Excerpt, Exchange, Fault, Frame, Input, Step};
use crate::wire::{Deviation, Error, Notes, Reader};
use alloc::borrow::Cow;
use alloc::{boxed::Box, vec::Vec};
use compact_str::CompactString;

/// Default port of a Minecraft server.
pub const PORT: u16 = 25565;
/// Protocol number of clients that have none. Proxies then send their own number instead of
/// repeating the client's.
const NO_NUMBER: i32 = -1;
/// Number of 1.8, which most servers and all proxies know, for servers that reject -1.
const KNOWN_NUMBER: i32 = 47;

/// Timeouts of the first connection before another form is tried. Proxies and busy servers take up
/// to 3 s to reply.
const CURRENT_FORM_TIMEOUTS: u32 = 3;

const CLOSED: &str = "it closes connections without a reply; its status may be switched off, or it \
    does not serve this host name, expects a PROXY protocol header, or got too many connections";
const SILENT: &str = "it does not reply to a status request in time, and closes connections with \
    the requests of older versions";

/// A form of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// That of 1.7 and later.
    Modern,
    /// The same with a protocol number that more servers accept.
    ModernKnown,
    /// One of the forms before 1.7.
    Legacy(LegacyForm),
}

impl Form {
    fn bit(self) -> u8 {
        let place = AFTER_CLOSE.iter().position(|form| *form == self);
        place.map_or(0, |place| 1 << place)
    }
}

/// The forms in the order in which they are tried after a kick.
const AFTER_KICK: [Form; 5] = [
    Form::Modern,
    Form::Legacy(LegacyForm::Full),
    Form::Legacy(LegacyForm::Short),
    Form::Legacy(LegacyForm::Beta),
    Form::ModernKnown,
];
/// The same after a connection that was closed without a kick.
const AFTER_CLOSE: [Form; 5] = [
    Form::Modern,
    Form::Legacy(LegacyForm::Short),
    Form::Legacy(LegacyForm::Beta),
    Form::Legacy(LegacyForm::Full),
    Form::ModernKnown,
];
/// The same after silence: servers that ignore some protocol numbers are newer than 1.6.
const AFTER_SILENCE: [Form; 5] = [
    Form::Modern,
    Form::ModernKnown,
    Form::Legacy(LegacyForm::Full),
    Form::Legacy(LegacyForm::Short),
    Form::Legacy(LegacyForm::Beta),
];

/// Queries one Minecraft Status server.
#[derive(Debug)]
pub struct StatusExchange {
    depth: Depth,
    has_players: bool,
    has_ping: bool,
    host: CompactString,
    port: u16,
    payload: u64,
    form: Form,
    /// Forms that were tried: a bit for each place in [`AFTER_CLOSE`].
    tried: u8,
    stage: usize,
    /// The status, while the exchange waits for the pong.
    status: Option<Box<Status>>,
    /// Deviations of the connections before this one.
    deviations: Vec<&'static Deviation>,
    /// Text of a kick, to report it if no form gets a status.
    kick: Option<Excerpt>,
    /// Timeouts on this connection.
    timeouts: u32,
}

impl StatusExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let host = ask.to.host.strip_suffix('.').unwrap_or(&ask.to.host);
        Self {
            depth: ask.depth,
            has_players: ask.has_players,
            has_ping: ask.has_ping,
            host: message::cut_units(host, message::MAX_HOST_UNITS).into(),
            port: if ask.to.port == 0 { PORT } else { ask.to.port },
            payload: cookie.derive(0),
            form: Form::Modern,
            tried: 0,
            stage: 0,
            status: None,
            deviations: Vec::new(),
            kick: None,
            timeouts: 0,
        }
    }

    fn request(&mut self, form: Form, out: &mut Vec<u8>) {
        self.form = form;
        self.tried |= form.bit();
        let protocol = match form {
            Form::Modern => NO_NUMBER,
            Form::ModernKnown => KNOWN_NUMBER,
            Form::Legacy(form) => {
                return message::write_legacy_request(form, &self.host, self.port, out);
            }
        };
        let handshake = Handshake {
            protocol,
            host: Cow::Borrowed(&self.host),
            port: self.port,
            intent: Intent::Status,
        };
        handshake.write(out);
        message::write_status_request(out);
    }

    /// Tries the next form on a new connection. `None` if there is none.
    fn next(&mut self, order: [Form; 5], out: &mut Vec<u8>) -> Option<Step> {
        let form = order
            .into_iter()
            .find(|form| self.tried & form.bit() == 0)?;
        self.stage += 1;
        self.timeouts = 0;
        self.request(form, out);
        Some(Step::Reconnect)
    }

    /// Handles a timeout. The further forms get one each.
    fn silence(&mut self, out: &mut Vec<u8>) -> Step {
        if let Some(step) = self.without_pong() {
            return step;
        }
        self.timeouts += 1;
        if self.form == Form::Modern && self.timeouts < CURRENT_FORM_TIMEOUTS {
            return Step::Wait;
        }
        let full = Form::Legacy(LegacyForm::Full);
        if self.form == Form::Legacy(LegacyForm::Short) && self.tried & full.bit() == 0 {
            let mut request = Vec::new();
            self.request(full, &mut request);
            out.extend(request.into_iter().skip(message::SHORT_REQUEST_BYTES));
            return Step::Send;
        }
        self.next(AFTER_SILENCE, out).unwrap_or(Step::Wait)
    }

    /// Handles a connection that ended without a status.
    fn closed(&mut self, out: &mut Vec<u8>) -> Step {
        let is_slow = !self.deviations.contains(&&EMPTY_STATUS);
        let fault = match self.kick {
            Some(text) => Fault::Kicked(text),
            None => Fault::Refused {
                reason: if is_slow { SILENT } else { CLOSED },
                endpoints: &[],
            },
        };
        let order = match self.kick {
            Some(_) => AFTER_KICK,
            None => AFTER_CLOSE,
        };
        self.next(order, out).unwrap_or(Step::Fail(fault))
    }

    fn deviate(&mut self, deviation: &'static Deviation) {
        if !self.deviations.contains(&deviation) {
            self.deviations.push(deviation);
        }
    }

    fn done(&mut self, mut status: Box<Status>) -> Step {
        if self.form == Form::ModernKnown {
            self.deviate(&NUMBER_REFUSED);
        }
        if self.depth == Depth::Ping {
            *status = Status::default();
        }
        status.deviations = core::mem::take(&mut self.deviations);
        Step::Done(status)
    }

    /// Ends with the status that arrived before.
    fn without_pong(&mut self) -> Option<Step> {
        let status = self.status.take()?;
        self.deviate(&NO_PONG);
        Some(self.done(status))
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if let Some(reason) = message::foreign(bytes).filter(|_| self.status.is_none()) {
            return Step::Fail(Fault::Misbehaved(reason));
        }
        let mut notes = Notes::default();
        let mut r = Reader::new(bytes, &mut notes);
        if self.status.is_some() {
            return self.hear_pong(bytes);
        }
        let is_legacy = matches!(self.form, Form::Legacy(_));
        if is_legacy || bytes.starts_with(&[message::KICK, 0]) {
            let reply = match LegacyReply::read(&mut r) {
                Ok(reply) => reply,
                Err(error) => return Step::Bad(error.into()),
            };
            return match reply {
                LegacyReply::Listing(listing) => {
                    if !is_legacy {
                        self.deviate(&LEGACY_KICK);
                    }
                    for met in notes.met() {
                        self.deviate(met);
                    }
                    self.done(Box::new(legacy_status(listing)))
                }
                LegacyReply::Kick(text) => {
                    self.kick = Some(Excerpt::new(&Text::legacy(text).plain()));
                    self.closed(out)
                }
            };
        }
        // A zero byte between packets.
        if bytes == [0] {
            self.deviate(&TRAILING_BYTES);
            return Step::Wait;
        }
        match reply::read(&mut r, self.depth, self.has_players) {
            Err(error) => Step::Bad(error.into()),
            Ok(Reply::Disconnect(text)) => Step::Fail(Fault::Kicked(Excerpt::new(&text.plain()))),
            Ok(Reply::Status(status)) => {
                for met in notes.met() {
                    self.deviate(met);
                }
                if self.depth != Depth::Full || !self.has_ping {
                    return self.done(status);
                }
                self.status = Some(status);
                self.stage += 1;
                message::write_ping(self.payload, out);
                Step::Send
            }
        }
    }

    fn hear_pong(&mut self, bytes: &[u8]) -> Step {
        let mut notes = Notes::discarding();
        let mut r = Reader::new(bytes, &mut notes);
        if message::read_ping(&mut r) == Ok(self.payload) {
            return match self.status.take() {
                Some(status) => self.done(status),
                None => Step::Wait,
            };
        }
        self.deviate(&TRAILING_BYTES);
        match bytes {
            [0] => Step::Wait,
            _ => self.without_pong().unwrap_or(Step::Wait),
        }
    }

    /// Handles the end of a connection after an incomplete message.
    fn cut(&mut self, rest: &[u8], out: &mut Vec<u8>) -> Step {
        if let Some(step) = self.without_pong() {
            return step;
        }
        if !rest.is_empty() {
            // A packet that is shorter than its length may hold a whole status.
            let step = self.receive(rest, out);
            if step == Step::Send {
                out.clear();
                return self.without_pong().unwrap_or(Step::Wait);
            }
            return step;
        }
        if self.form == Form::Modern {
            self.deviate(&EMPTY_STATUS);
        }
        self.closed(out)
    }
}

impl Exchange for StatusExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                self.request(Form::Modern, out);
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::Closed(rest) => self.cut(rest, out),
            Input::Timeout => self.silence(out),
            Input::GiveUp => self.without_pong().unwrap_or(Step::Wait),
            Input::Continue => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.stage
    }

    fn is_usable_start(&self, bytes: &[u8]) -> bool {
        let is_modern = !matches!(self.form, Form::Legacy(_));
        self.status.is_none() && is_modern && message::has_whole_text(bytes)
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        if self.status.is_some() {
            // A bad pong must not lose the status.
            let is_pong = [9, 1].starts_with(bytes.get(..2).unwrap_or(bytes));
            return Ok(match bytes {
                [] => Frame::Incomplete { total: 1 },
                [0, ..] => Frame::Complete(1),
                _ if is_pong && bytes.len() < message::PING_BYTES => Frame::Incomplete {
                    total: message::PING_BYTES,
                },
                _ if is_pong => Frame::Complete(message::PING_BYTES),
                _ => Frame::Complete(bytes.len()),
            });
        }
        let length = match self.form {
            Form::Legacy(_) => message::legacy_length(bytes)?,
            _ => message::reply_length(bytes)?,
        };
        Ok(match length {
            Ok(length) => Frame::Complete(length),
            Err(total) => Frame::Incomplete { total },
        })
    }
}

fn legacy_status(listing: Listing) -> Status {
    let mut status = Status {
        motd: Some(Text::legacy(listing.motd)),
        version: listing
            .version
            .as_ref()
            .map(|version| Text::legacy(version.as_str()).into_short())
            .filter(|version| !version.is_empty()),
        ..Status::default()
    };
    status.players.online = listing.online;
    status.players.max = listing.max;
    let form = match listing.version {
        Some(_) => "1.4",
        None => "beta",
    };
    status.extra.push(Extra::new("legacy-form", form));
    let protocol = listing
        .protocol
        .map(|number| Extra::new("protocol", number));
    status.extra.extend(protocol);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_current_status_can_be_used_before_its_end() {
        let start = b"\x20\x00\x02{}";
        let begun = || {
            let mut exchange = StatusExchange::new(&Ask::default(), Cookie(1));
            exchange.handle(Input::Start, &mut Vec::new());
            exchange
        };
        let mut exchange = begun();
        assert!(exchange.is_usable_start(start));
        assert!(!exchange.is_usable_start(&start[..4]));
        let step = exchange.handle(Input::Datagram(b"\x04\x00\x02{}"), &mut Vec::new());
        assert_eq!(step, Step::Send, "a ping");
        assert!(!exchange.is_usable_start(start));
        let mut exchange = begun();
        let step = exchange.handle(Input::Closed(b""), &mut Vec::new());
        assert_eq!(step, Step::Reconnect, "an older form");
        assert!(!exchange.is_usable_start(start));
    }
}
