//! The responder: the commands of guests, read-only (spec/teamspeak2.md#7).
//!
//! Limits: 10 commands of a connection, lines of 256 bytes, texts of 200 bytes, 512 players.

use super::message::{COMMANDS, GREETING};
use crate::model::{Codes, Status, Text, Value};
use crate::protocol::ConnectionStep;
use crate::protocols::teamspeak::command_lines::{
    Guest, MAX_COMMANDS, MAX_PLAYERS, Replies, channel, channel_name, channel_sizes, number,
    without_controls,
};
use crate::wire::Error;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Longest text in bytes.
const MAX_TEXT: usize = 200;

/// Prepared replies of one server.
pub(super) struct Server {
    info: Vec<u8>,
    players: Vec<u8>,
    channels: Vec<u8>,
}

impl Server {
    /// Encodes the replies for this status.
    pub(super) fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        Self {
            info: info(status),
            players: players(status),
            channels: channels(status),
        }
    }
}

/// Returns the start of a text without control characters and quotes.
fn line(text: &str) -> String {
    without_controls(&text.replace('"', ""), None, MAX_TEXT)
}

fn info(status: &Status) -> Vec<u8> {
    let plain = |text: Option<&Text>| line(&text.map(Text::plain).unwrap_or_default());
    let extra = |key: &str| match status.extra(key) {
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Str(text)) => line(text),
        _ => String::new(),
    };
    let max = status.players.max.unwrap_or(0).to_string();
    let has_password = status.has_password.unwrap_or(false);
    let mut out = Vec::new();
    for (key, value) in [
        ("name", plain(status.name.as_ref())),
        ("platform", extra("platform")),
        ("welcomemessage", plain(status.motd.as_ref())),
        ("password", u8::from(has_password).to_string()),
        ("maxusers", max),
        ("currentusers", status.players.count().to_string()),
        ("currentchannels", extra("channels")),
        ("uptime", extra("uptime")),
    ] {
        // Clients take a server without a name for a silent one.
        if !value.is_empty() || key == "name" {
            out.extend(format!("server_{key}={value}\r\n").bytes());
        }
    }
    out.extend(b"OK\r\n");
    out
}

fn players(status: &Status) -> Vec<u8> {
    // All columns of real servers: some clients read them by position. Guests see no addresses and
    // no login names.
    let columns = "p_id\tc_id\tps\tbs\tpr\tbr\tpl\tping\tlogintime\tidletime\tcprivs\tpprivs\tpflags\tip\tnick\t\
        loginname\r\n";
    let mut out = Vec::from(columns.as_bytes());
    for (index, player) in status.players.list.iter().take(MAX_PLAYERS).enumerate() {
        let extra = |key: &str, default: i64| number(player, key).unwrap_or(default);
        let row = format!(
            "{}\t{}\t0\t0\t0\t0\t0\t{}\t{}\t{}\t0\t0\t0\t\"0.0.0.0\"\t\"{}\"\t\"\"\r\n",
            extra("id", index as i64 + 1),
            channel(player),
            player.latency_ms.unwrap_or(0),
            extra("time", 0),
            extra("idle-time", 0),
            line(&player.name.plain()),
        );
        out.extend(row.bytes());
    }
    out.extend(b"OK\r\n");
    out
}

/// Returns the list of channels.
fn channels(status: &Status) -> Vec<u8> {
    let columns = "id\tcodec\tparent\torder\tmaxusers\tname\tflags\tpassword\ttopic\r\n";
    let mut out = Vec::from(columns.as_bytes());
    for (order, channel) in channel_sizes(status).into_keys().enumerate() {
        let name = channel_name(channel);
        let row = format!("{channel}\t0\t-1\t{order}\t-1\t\"{name}\"\t0\t0\t\"\"\r\n");
        out.extend(row.bytes());
    }
    out.extend(b"OK\r\n");
    out
}

impl Replies for Server {
    const COMMANDS: &'static [&'static [u8]] = &COMMANDS;
    const MAX_LINE: usize = 256;

    fn greet(out: &mut Vec<u8>) {
        out.extend_from_slice(GREETING);
        out.extend(b"\r\n");
    }

    fn run(
        &self,
        command: &[u8],
        at: usize,
        guest: &mut Guest,
        out: &mut Vec<u8>,
    ) -> Option<ConnectionStep> {
        if guest.commands >= MAX_COMMANDS {
            let error = Error::limit("commands", at, MAX_COMMANDS.into());
            return Some(ConnectionStep::Bad(error));
        }
        guest.commands += 1;
        // The port of a virtual server may follow, which is then not selected before.
        let word = command.split(|byte| *byte == b' ').next();
        match word.unwrap_or_default() {
            b"" => {}
            b"si" => out.extend_from_slice(&self.info),
            b"pl" => out.extend_from_slice(&self.players),
            b"quit" => {
                out.extend(b"OK\r\n");
                return Some(ConnectionStep::Close);
            }
            b"cl" => out.extend_from_slice(&self.channels),
            b"sel" if command != b"sel" => out.extend(b"OK\r\n"),
            _ => out.extend(b"ERROR, unknown command\r\n"),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Extra, Player};
    use crate::protocol::Options;
    use crate::protocols::teamspeak::command_lines::respond;
    use crate::token::Epoch;

    /// Returns the reply to commands of a server with one player.
    fn answer(commands: &[u8]) -> String {
        let mut player = Player::named(Text::unformatted("Al"));
        player.latency_ms = Some(23);
        player.extra.push(Extra::new("channel", 7_i64));
        let mut status = Status::default();
        status.players.set_list([player].into());
        let responder = respond(&Options::default(), Server::new(&status)).unwrap();
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut connection = responder.connection(from).unwrap();
        connection.open(&mut Vec::new());
        let mut out = Vec::new();
        connection.receive(Epoch(1), commands, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// As qstat sends them.
    #[test]
    fn commands_may_name_the_virtual_server() {
        for command in ["si", "pl", "cl"] {
            let named = answer(format!("{command} 8767\n").as_bytes());
            assert_eq!(named, answer(format!("{command}\n").as_bytes()));
            assert!(named.ends_with("OK\r\n"), "{named}");
        }
        assert_eq!(answer(b"sel 8767\n"), "OK\r\n");
        for command in ["sel", "six", "pl8767"] {
            let reply = answer(format!("{command}\n").as_bytes());
            assert_eq!(reply, "ERROR, unknown command\r\n");
        }
    }

    /// qstat reads them by position.
    #[test]
    fn players_have_all_columns_of_a_real_server() {
        let reply = answer(b"pl\n");
        let mut lines = reply.lines().map(|line| line.split('\t'));
        let (columns, player) = (lines.next().unwrap(), lines.next().unwrap());
        assert_eq!(columns.clone().count(), 16);
        let fields: Vec<_> = columns
            .zip(player)
            .filter(|(_, value)| *value != "0")
            .collect();
        let expected = [
            ("p_id", "1"),
            ("c_id", "7"),
            ("ping", "23"),
            ("ip", "\"0.0.0.0\""),
            ("nick", "\"Al\""),
            ("loginname", "\"\""),
        ];
        assert_eq!(fields, expected);
    }

    /// qstat waits for it.
    #[test]
    fn a_server_without_a_name_has_an_empty_one() {
        let reply = answer(b"si\n");
        assert!(
            reply.starts_with("server_name=\r\nserver_password=0\r\n"),
            "{reply}"
        );
    }

    /// Some clients wait for a list that is not empty.
    #[test]
    fn lists_the_channels_of_players_and_the_default_one() {
        let expected = "id\tcodec\tparent\torder\tmaxusers\tname\tflags\tpassword\ttopic\r\n\
            1\t0\t-1\t0\t-1\t\"Default Channel\"\t0\t0\t\"\"\r\n\
            7\t0\t-1\t1\t-1\t\"Channel 7\"\t0\t0\t\"\"\r\nOK\r\n";
        assert_eq!(answer(b"cl\n"), expected);
    }
}
