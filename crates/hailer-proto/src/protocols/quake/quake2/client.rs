//! The client: requests the status and, if that has no number of players, the info
//! (spec/quake2.md#7).

use super::deviation::*;
use super::message::{Line, PROTOCOL, Reply, Request, Summary};
use crate::model::{Extra, Player, Status, Text};
use crate::protocol::{Ask, Depth, Exchange, Fault, Input, Step};
use crate::protocols::quake::infostring::{Infostring, decode};
use crate::protocols::quake::players::{Counts, add_count};
use crate::wire::Notes;
use alloc::{boxed::Box, vec::Vec};

/// Requests for the info without a reply, after which the exchange continues without it.
const TRIES: u8 = 2;

/// Queries one Quake 2 server.
#[derive(Debug)]
pub struct Quake2Exchange {
    has_players: bool,
    request: Request,
    stage: usize,
    /// Timeouts of this stage.
    silent: u8,
    /// The status, while the info is requested.
    status: Option<Box<Status>>,
}

impl Quake2Exchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask) -> Self {
        Self {
            has_players: ask.has_players,
            request: match ask.depth {
                Depth::Ping => Request::Ping,
                Depth::Basic => Request::Info(PROTOCOL),
                Depth::Full => Request::Status,
            },
            stage: 0,
            silent: 0,
            status: None,
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        self.request.write(out);
        Step::Send
    }

    fn next(&mut self, request: Request, out: &mut Vec<u8>) -> Step {
        self.request = request;
        self.stage += 1;
        self.silent = 0;
        self.send(out)
    }

    fn finish(&mut self) -> Step {
        match self.status.take() {
            Some(mut status) => {
                status.extra.push(Extra::new("unanswered", "info"));
                Step::Done(status)
            }
            None => Step::Wait,
        }
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if Reply::name_of(bytes).is_none() {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        match (self.request, reply) {
            (Request::Ping, Reply::Ping) => Step::Done(Box::default()),
            (Request::Status, Reply::Status(info, players)) => {
                self.receive_status(info, players, notes, out)
            }
            (Request::Info(_), Reply::Info(summary)) => Step::Done(complete(
                self.status.take().unwrap_or_default(),
                summary,
                notes,
            )),
            (Request::Info(_), Reply::WrongVersion) => match self.status.take() {
                // The status has everything except for a second count.
                Some(mut status) => {
                    status.deviations.push(&WRONG_VERSION);
                    Step::Done(status)
                }
                None => self.next(Request::Status, out),
            },
            (Request::Status | Request::Info(_), Reply::Print(_)) => Step::Bad(Fault::Misbehaved(
                "it replied with a text for people instead of its status",
            )),
            _ => Step::Wait,
        }
    }

    fn receive_status(
        &mut self,
        info: Infostring<'_>,
        players: Vec<Line<'_>>,
        mut notes: Notes,
        out: &mut Vec<u8>,
    ) -> Step {
        let has_count = info.number("clients").is_some();
        let protocol = info.number("protocol").unwrap_or(PROTOCOL);
        let mut status = status(info, players, self.has_players, &mut notes);
        status.deviations = notes.met().collect();
        if has_count || self.stage > 0 {
            return Step::Done(status);
        }
        self.status = Some(status);
        self.next(Request::Info(protocol), out)
    }
}

impl Exchange for Quake2Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => {
                self.silent = self.silent.saturating_add(1);
                // Servers for one player do not reply to requests for the info.
                if self.status.is_some() && self.silent >= TRIES {
                    self.finish()
                } else {
                    self.send(out)
                }
            }
            Input::Datagram(bytes) => self.receive(bytes, out),
            _ => self.finish(),
        }
    }

    fn stage(&self) -> usize {
        self.stage
    }
}

/// Adds name, map and counts of an info reply to a status.
fn complete(mut status: Box<Status>, summary: Summary<'_>, mut notes: Notes) -> Box<Status> {
    let filled = |bytes| Some(bytes).filter(|bytes: &&[u8]| !bytes.is_empty());
    let name = filled(summary.name).map(Text::western);
    status.name = status.name.or(name);
    status.map = status.map.or_else(|| filled(summary.map).map(decode));
    status.players.max = status.players.max.or(Some(summary.max));
    add_count(&mut status, summary.online, &MISSING_PLAYERS, &mut notes);
    status.add_deviations(notes.met());
    status
}

/// Converts a status reply (spec/quake2.md#8).
fn status(
    mut info: Infostring<'_>,
    players: Vec<Line<'_>>,
    has_players: bool,
    notes: &mut Notes,
) -> Box<Status> {
    let mut status = Box::<Status>::default();
    status.name = info.take_filled(&["hostname"]).map(Text::western);
    status.map = info.take_text(&["mapname"]);
    status.game = info.take_text(&["gamename", "game"]);
    status.version = info.take_text(&["version"]);
    status.players.max = info.take_number(&["maxclients"]);
    let password = info.take_text(&["needpass"]);
    status.has_password = password.map(|value| value != "0");
    let protocol = info.take_number(&["protocol"]);
    status
        .extra
        .extend(protocol.map(|protocol| Extra::new("protocol", protocol)));
    let counts = Counts::take(&mut info, players.len(), &MISSING_PLAYERS, notes);
    status.players.online = Some(counts.online);
    status.rules = info.rules(|bytes| info.decode(bytes));
    if has_players && !counts.is_withheld {
        let player = |line: Line<'_>| Player {
            score: line.score,
            latency_ms: line.ping.and_then(|ping| i32::try_from(ping).ok()),
            ..Player::named(Text::western(line.name))
        };
        let players = players.into_iter().map(player);
        status.players.set_list(players.collect());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(depth: Depth, replies: &[&str]) -> Step {
        let ask = Ask {
            depth,
            ..Ask::default()
        };
        let mut exchange = Quake2Exchange::new(&ask);
        let mut step = exchange.handle(Input::Start, &mut Vec::new());
        for reply in replies {
            let bytes = [&[0xFF; 4], reply.as_bytes()].concat();
            step = exchange.handle(Input::Datagram(&bytes), &mut Vec::new());
        }
        step
    }

    #[test]
    fn the_second_count_reveals_missing_players() {
        let status = "print\n\\hostname\\N\\maxclients\\8\n3 50 \"Al\"\n";
        let Step::Done(both) = replies(Depth::Full, &[status, "info\nN q2dm1  1/ 8\n"]) else {
            panic!()
        };
        assert_eq!((both.players.online, both.deviations.len()), (Some(1), 0));
        let Step::Done(both) = replies(Depth::Full, &[status, "info\nN q2dm1  3/ 8\n"]) else {
            panic!()
        };
        assert_eq!(
            (both.players.online, both.players.roster),
            (Some(3), crate::model::Roster::Partial)
        );
        assert_eq!(both.deviations, [&MISSING_PLAYERS]);
        let Step::Done(both) = replies(Depth::Full, &[status, "info\nN: wrong version\n"]) else {
            panic!()
        };
        assert_eq!(both.deviations, [&WRONG_VERSION]);
        // A copy of the status does not replace the info.
        assert_eq!(replies(Depth::Full, &[status, status]), Step::Wait);
        assert_eq!(replies(Depth::Basic, &[status]), Step::Wait);
        assert_eq!(
            replies(Depth::Basic, &["info\nN: wrong version\n"]),
            Step::Send
        );
        assert!(matches!(
            replies(Depth::Full, &["print\nBanned\n"]),
            Step::Bad(_)
        ));
        assert_eq!(replies(Depth::Ping, &["ack"]), Step::Done(Box::default()));
    }
}
