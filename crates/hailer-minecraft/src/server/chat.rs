//! Chat, commands, and tab completion.

use super::config::GameMode;
use super::player::Position;
use super::{ClientId, Server, ServerEvent};
use crate::table::{ChangeGameState, Chat, TabComplete, TimeUpdate};
use crate::types::is_legal_in_chat;

/// Maximum length of a line in UTF-16 units. Longer ones are kicked, as in vanilla
/// (spec/minecraft-12w.md#5.1).
const MAX_CHARS: usize = 100;
/// Maximum length of a packet's text, in UTF-16 units.
const PACKET: usize = 119;

/// Commands: name, arguments, purpose.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("/gamemode", "0|1", "survival or creative"),
    ("/help", "", "this list"),
    ("/list", "", "who is on"),
    ("/me", "TEXT", "say what you do"),
    ("/spawn", "", "back to where all began"),
    ("/time", "set N|day|night", "the time of day"),
    ("/tp", "X Y Z", "go there"),
];

impl Server {
    /// Handles a line of chat.
    pub(super) fn receive_chat(&mut self, id: ClientId, units: &[u16]) {
        let now = self.now;
        let rate = self.config.limits.chat;
        if units.len() > MAX_CHARS {
            return self.kick(id, "Chat message too long");
        }
        let text = String::from_utf16_lossy(units);
        if !text.chars().all(is_legal_in_chat) {
            return self.kick(id, "Illegal characters in chat");
        }
        let Some(player) = self.player_mut(id) else {
            return;
        };
        if !player.chat.take(1.0, rate, now) {
            return self.kick(id, "disconnect.spam");
        }
        let name = player.name.clone();
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        self.push_event(ServerEvent::Chat {
            name: name.clone(),
            text: text.into(),
        });
        if text.starts_with('/') {
            self.command(id, text)
        } else {
            self.broadcast(&format!("<{name}> {text}"))
        }
    }

    fn say(&mut self, id: ClientId, text: &str) {
        self.send(id, Chat { text: text.into() });
    }

    fn command(&mut self, id: ClientId, line: &str) {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let done = match (command, words.as_slice()) {
            ("/help", _) => {
                for (command, follows, purpose) in COMMANDS {
                    self.say(id, &format!("§7{command} {follows} §f{purpose}"));
                }
                true
            }
            ("/list", []) => {
                let names: Vec<&str> = self.players().collect();
                let count = names.len();
                let most = self.config.max_players;
                let names = names.join(", ");
                self.say(id, &format!("{count} of {most} are on:"));
                for line in lines(&names) {
                    self.say(id, line);
                }
                true
            }
            ("/me", [_, ..]) => {
                let name = self
                    .player(id)
                    .map(|player| player.name.clone())
                    .unwrap_or_default();
                self.broadcast(&format!("* {name} {rest}"));
                true
            }
            ("/spawn", []) => {
                let place = self.spawn_place();
                self.teleport(id, place);
                true
            }
            ("/time", ["set", time]) => self.set_time(id, time),
            ("/gamemode", [mode]) => self.set_mode(id, mode),
            ("/tp", [x, y, z]) => self.go(id, [x, y, z]),
            (command, _) if COMMANDS.iter().all(|(known, ..)| *known != command) => {
                return self.say(id, "§cUnknown command. /help shows those there are.");
            }
            _ => false,
        };
        if let Some((command, follows, _)) = COMMANDS
            .iter()
            .find(|(known, ..)| *known == command && !done)
        {
            self.say(id, &format!("§cIt is {command} {follows}"));
        }
    }

    fn set_time(&mut self, id: ClientId, time: &str) -> bool {
        let time = match time {
            "day" => Some(1000),
            "night" => Some(13_000),
            number => number
                .parse()
                .ok()
                .filter(|time| (0..24_000).contains(time)),
        };
        let Some(time) = time else { return false };
        self.time = time;
        self.send_to(TimeUpdate { time }, |_| true);
        self.say(id, &format!("It is {time} now."));
        true
    }

    fn set_mode(&mut self, id: ClientId, mode: &str) -> bool {
        let mode = match mode {
            "0" | "survival" => GameMode::Survival,
            "1" | "creative" => GameMode::Creative,
            _ => return false,
        };
        self.stop_digging(id);
        let Some(player) = self.player_mut(id) else {
            return true;
        };
        player.mode = mode;
        let abilities = player.abilities();
        self.send(
            id,
            ChangeGameState {
                reason: 3,
                value: mode.number(),
            },
        );
        self.send(id, abilities);
        true
    }

    fn go(&mut self, id: ClientId, place: [&str; 3]) -> bool {
        let [x, y, z] = place.map(|at| at.parse::<f64>().ok().filter(|at| at.abs() < 3e7));
        let (Some(x), Some(y), Some(z)) = (x, y, z) else {
            return false;
        };
        if !(0.0..=300.0).contains(&y) || self.player(id).is_none_or(|player| player.is_dead) {
            return false;
        }
        self.teleport(id, Position { x, y, z });
        true
    }

    /// Sends the completions of the last argument, separated by NUL (spec/minecraft-12w.md#5).
    pub(super) fn complete(&mut self, id: ClientId, text: &str) {
        let begun = text
            .rsplit(' ')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let commands = COMMANDS
            .iter()
            .map(|(command, ..)| *command)
            .filter(|_| text.starts_with('/'));
        let words = commands
            .filter(|_| !text.contains(' '))
            .chain(self.players());
        let mut found = String::new();
        for word in words.filter(|word| word.to_ascii_lowercase().starts_with(&begun)) {
            if found.len() + 1 + word.len() > PACKET {
                break;
            }
            if !found.is_empty() {
                found.push('\0');
            }
            found.push_str(word);
        }
        if !found.is_empty() {
            self.send(
                id,
                TabComplete {
                    text: found.as_str().into(),
                },
            );
        }
    }
}

/// Splits a text into packets, at spaces where possible.
fn lines(mut text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    while text.len() > PACKET {
        let end = text
            .get(..PACKET)
            .and_then(|start| start.rfind(' '))
            .unwrap_or(PACKET);
        let Some((line, rest)) = text.split_at_checked(end) else {
            break;
        };
        lines.push(line);
        text = rest.trim_start();
    }
    lines.push(text);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_at_spaces() {
        let names = vec!["abcdefghijklmnop"; 30].join(", ");
        let lines = lines(&names);
        assert!(
            lines
                .iter()
                .all(|line| line.len() <= PACKET && line.starts_with('a'))
        );
        assert_eq!(lines.join(" "), names);
    }
}
