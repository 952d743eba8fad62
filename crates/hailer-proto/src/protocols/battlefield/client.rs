//! The client: up to three commands in one write, replies in any order (spec/battlefield.md#6).

use super::deviation::*;
use super::message::{self, FROM_SERVER, Packet, SEQUENCE};
use super::reply;
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Fault, Frame, Input, Step};
use crate::wire::{Error, Notes, Reader};
use alloc::{boxed::Box, string::ToString, vec::Vec};

/// A command of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Version,
    Info,
    Players,
}

impl Command {
    fn words(self) -> &'static [&'static [u8]] {
        match self {
            Self::Version => &[b"version"],
            Self::Info => &[b"serverInfo"],
            Self::Players => &[b"listPlayers", b"all"],
        }
    }
}

/// Client side of one query.
#[derive(Debug)]
pub struct BattlefieldExchange {
    depth: Depth,
    /// Sequence number of the first command.
    first: u32,
    commands: &'static [Command],
    /// Commands without a reply.
    waiting: Vec<Command>,
    has_info: bool,
    status: Box<Status>,
    players: Option<Vec<crate::model::Player>>,
    notes: Notes,
}

impl BattlefieldExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        let commands: &[Command] = match (ask.depth, ask.has_players) {
            (Depth::Ping, _) => &[Command::Version],
            (Depth::Full, true) => &[Command::Version, Command::Info, Command::Players],
            _ => &[Command::Version, Command::Info],
        };
        Self {
            depth: ask.depth,
            first: cookie.derive(0) as u32 & SEQUENCE,
            commands,
            waiting: commands.into(),
            has_info: false,
            status: Box::default(),
            players: None,
            notes: Notes::default(),
        }
    }

    fn sequence(&self, index: usize) -> u32 {
        self.first.wrapping_add(index as u32) & SEQUENCE
    }

    fn receive(&mut self, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        let packet = match Packet::read(&mut Reader::new(bytes, &mut notes)) {
            Ok(packet) => packet,
            Err(error) => return Step::Bad(error.into()),
        };
        if packet.header & FROM_SERVER != 0 {
            self.notes.deviation(&EVENT, 0);
            return Step::Wait;
        }
        let number = packet.header & SEQUENCE;
        let index = (0..self.commands.len()).find(|index| self.sequence(*index) == number);
        let command = index.and_then(|index| self.commands.get(index).copied());
        let command = command.filter(|command| self.waiting.contains(command));
        let Some(command) = command.filter(|_| packet.header & message::REPLY != 0) else {
            self.notes.deviation(&STRAY_REPLY, 0);
            return Step::Wait;
        };
        self.waiting.retain(|waiting| *waiting != command);
        let is_ok = packet.words.first() == Some(&reply::OK);
        match command {
            // Any reply shows that the server is up.
            Command::Version if self.depth == Depth::Ping => {}
            Command::Version => {
                if !reply::read_version(&packet.words, &mut self.status) {
                    self.notes.deviation(&NO_VERSION, 0);
                }
            }
            Command::Info if !is_ok => {
                return Step::Fail(Fault::Refused {
                    reason: "it refuses to send its server information",
                    endpoints: &[],
                });
            }
            Command::Info => {
                self.has_info = true;
                reply::read_info(&packet.words, &mut self.status, &mut self.notes);
            }
            Command::Players if !is_ok => self.notes.deviation(&NO_LIST, 0),
            Command::Players => match reply::read_players(&packet.words, &mut self.notes) {
                Ok(players) => self.players = Some(players),
                // The rest of the status is complete without the list.
                Err(error) => {
                    self.notes.deviation(&ODD_LIST, 0);
                    let error = error.to_string();
                    self.status.extra.push(Extra::new("list-error", error));
                }
            },
        }
        if self.waiting.is_empty() {
            self.finish()
        } else {
            Step::Progress
        }
    }

    /// Ends with the parts that are there, if the most important one is.
    fn finish(&mut self) -> Step {
        if !self.has_info && self.depth != Depth::Ping || self.waiting == self.commands {
            return Step::Wait;
        }
        for command in &self.waiting {
            match command {
                Command::Version => self.notes.deviation(&NO_VERSION, 0),
                Command::Players => self.notes.deviation(&NO_LIST, 0),
                Command::Info => {}
            }
        }
        let mut status = core::mem::take(&mut self.status);
        if let Some(players) = self.players.take() {
            status.players.set_list(players);
        }
        status.deviations = self.notes.met().collect();
        if status.deviations.contains(&&ODD_LIST) {
            status.players.mark_unreadable();
        }
        Step::Done(status)
    }
}

impl Exchange for BattlefieldExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => {
                for (index, command) in self.commands.iter().enumerate() {
                    let words = command.words().iter().copied();
                    message::write_packet(self.sequence(index), words, out);
                }
                Step::Send
            }
            Input::Datagram(bytes) => self.receive(bytes),
            Input::Timeout | Input::Closed(_) | Input::GiveUp => self.finish(),
            Input::Continue => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }

    fn frame(&self, bytes: &[u8]) -> Result<Frame, Error> {
        Ok(match message::packet_length(bytes)? {
            Some(size) if bytes.len() >= size => Frame::Complete(size),
            Some(total) => Frame::Incomplete { total },
            None => Frame::Incomplete { total: 8 },
        })
    }
}
