//! Arguments of the commands that speak the Minecraft game protocol.

use crate::log::LogArgs;
use crate::packet_filter::PacketNames;
use crate::values;
use clap::{Args, ValueHint};
use hailer::minecraft::game::server::{Encryption, GameMode, WorldKind};
use hailer::minecraft::game::{self, Build};
use hailer::proto::minecraft_status;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const JOIN: &str = "\
Lines that are typed or piped in are sent as chat messages, one per second; /quit or Ctrl-C leaves.
The end of the input does not end the game. Characters that the game's font lacks are sent as
question marks.

Servers do not report their version. A server with another version than --build refuses the
connection, and the error suggests a build. Only servers that do not check accounts can be joined.

Examples:
  hailer join play.example.com --for 30s --map map.png
  hailer join 192.0.2.7:25566 --build 12w24a --name Bot --say hello --json";

pub(super) const WORLD: &str = "\
Accounts are not checked: every client that can reach the address can join under any name.

Examples:
  hailer world
  hailer world --build 12w30c --world flat --listen 127.0.0.1:25570";

pub(super) const PROXY: &str = "\
Connect the game to the address of --listen instead of the server. Encryption ends at the proxy, on
both sides, so it works only with servers that do not check accounts.

Examples:
  hailer proxy --to 192.0.2.7:25565
  hailer proxy --to 192.0.2.7 --only Chat --direction to-server
  hailer proxy --to 192.0.2.7 --record sessions/ --json | jq .packet";

#[derive(Args)]
pub(crate) struct World {
    /// Address to listen on: ADDRESS or ADDRESS:PORT; may be given several times [default: 127.0.0.1:25565]
    #[arg(long, short, value_name = "ADDRESS", value_parser = game_address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Build to serve, such as 12w30c, or a protocol number from 29 to 39 [default: 1.3.2]
    #[arg(long, value_name = "BUILD")]
    pub(crate) build: Option<Build>,
    /// Accept only this build; by default, 1.2.5 is accepted too
    #[arg(long)]
    pub(crate) only_build: bool,
    /// Message of the day, one line without colors
    #[arg(long)]
    pub(crate) motd: Option<String>,
    /// Maximum number of players, 1 to 255 [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=255))]
    pub(crate) max_players: Option<u16>,
    /// Shape of the world [default: hilly]
    #[arg(long, value_name = "flat|hilly", value_parser = world)]
    pub(crate) world: Option<WorldKind>,
    /// Seed of the world: the same seed makes the same hills [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) world_seed: Option<u64>,
    /// Game mode of new players [default: creative]
    #[arg(long, value_name = "survival|creative", value_parser = game_mode)]
    pub(crate) game_mode: Option<GameMode>,
    /// Columns that players receive in each direction, 3 to 15 [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=15))]
    pub(crate) view_distance: Option<u8>,
    /// Whether connections are encrypted where the build supports it; "required" excludes 1.2.5 [default: offered]
    #[arg(long, value_name = "required|offered|off", value_parser = encryption)]
    pub(crate) encryption: Option<Encryption>,
    /// Stop after this time
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

// Input that belongs to the game, and how it is shown.
#[derive(Args)]
#[command(next_help_heading = "Game sessions")]
pub(crate) struct DecodeGame {
    /// Read raw game bytes of this direction; `both` takes two files: first to the server, then to the client
    #[arg(
        long,
        value_enum,
        value_name = "DIRECTION",
        conflicts_with = "protocol"
    )]
    pub(crate) stream: Option<Stream>,
    /// Version of the game, such as 1.3.2 or 12w27a [default: from the handshake of the session]
    #[arg(long, value_name = "BUILD")]
    pub(crate) build: Option<Build>,
    /// Secret of encrypted sessions, in hexadecimal: 16 bytes, or 32 for 12w19a
    #[arg(long, value_parser = secret, value_name = "HEX", conflicts_with = "secrets")]
    pub(crate) secret: Option<Secret>,
    /// File of secrets of encrypted sessions, written by --secrets of `hailer join` and `hailer proxy`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) secrets: Option<PathBuf>,
    /// Port of the game in captures [default: 25565, and connections that begin like the game]
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,
    /// Show only the number of packets of each name
    #[arg(long)]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) choice: PacketSelection,
}

// Selection and format of game packets.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Game sessions")]
pub(crate) struct PacketSelection {
    /// Show only these packets, such as Chat,0x33
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) only: Vec<PacketNames>,
    /// Do not show these packets
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) hide: Vec<PacketNames>,
    /// Show each field of packets
    #[arg(long, visible_alias = "fields")]
    pub(crate) long: bool,
    /// Show the bytes of packets
    #[arg(long)]
    pub(crate) hex: bool,
}

/// Directions of the raw game bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stream {
    ToServer,
    ToClient,
    Both,
}

/// Secret from the command line. It has no `Debug`, so that no message can contain it.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

#[derive(Args)]
pub(crate) struct Proxy {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, short, default_value = "127.0.0.1:25566", value_parser = values::listen_address, value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// Server to forward to: host, host:port or [v6]:port
    #[arg(long, short, value_name = "HOST:PORT", value_hint = ValueHint::Hostname)]
    pub(crate) to: String,
    /// Version, if the protocol number has two: 12w18a or 12w19a, 12w27a or 12w30a [default: the newer]
    #[arg(long, value_name = "BUILD")]
    pub(crate) build: Option<Build>,
    /// Record connections to this folder, or to this file; further connections get files next to it
    #[arg(long, value_name = "FOLDER|FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) record: Option<PathBuf>,
    /// Append the secrets of both sides to a file; `hailer decode` uses it to decrypt captures
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) secrets: Option<PathBuf>,
    /// Show only packets of this direction
    #[arg(long, value_parser = packet_direction, value_name = "to-server|to-client")]
    pub(crate) direction: Option<game::PacketDirection>,
    /// Show movement packets too; most packets are of this kind
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one line of JSON for each packet, as in schema/packet-v2.json
    #[arg(long)]
    pub(crate) json: bool,
    /// Maximum number of clients at the same time, 1 to 1024
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) max_connections: u16,
    /// Stop after this time
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
    #[command(flatten)]
    pub(crate) choice: PacketSelection,
}

#[derive(Args)]
pub(crate) struct Join {
    /// Server to join: host, host:port or [v6]:port
    #[arg(value_hint = ValueHint::Hostname)]
    pub(crate) target: String,
    /// Build to use, such as 12w30c, or its protocol number, 29 to 39
    #[arg(long, short, default_value_t = Build::LATEST, value_name = "BUILD")]
    pub(crate) build: Build,
    /// Name of the player, 1 to 16 characters
    #[arg(long, short, default_value = "Hailer", value_parser = player, value_name = "NAME")]
    pub(crate) name: String,
    /// Leave this long after joining
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
    /// Text to send in chat after joining; may be given several times. /walk X Z, /look YAW PITCH, /follow NAME and
    /// /stop move the player, /quit leaves. Texts of more than 100 characters are sent as several lines, one per second
    #[arg(long, value_name = "TEXT")]
    pub(crate) say: Vec<String>,
    /// Do not respawn after death
    #[arg(long)]
    pub(crate) no_respawn: bool,
    /// At the end, draw a map of the loaded part of the world into a PNG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) map: Option<PathBuf>,
    /// At the end, draw the map on the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) ascii: bool,
    /// Write all packets, decrypted, to a new file for `hailer decode`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// Append the secret of the connection to a file; `hailer decode` uses it to decrypt captures
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) secrets: Option<PathBuf>,
    /// Print one line of JSON for each event, and one for the summary, as in schema/join-v2.json
    #[arg(long)]
    pub(crate) json: bool,
    /// Longest time to wait for the connection, and then for the login
    #[arg(long, default_value = "10s", value_parser = values::duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Name server for host names [default: the system's]
    #[arg(long, value_parser = values::name_server, value_name = "ADDRESS:PORT")]
    pub(crate) name_server: Option<SocketAddr>,
}

/// Parses an address; the default port is that of the game.
fn game_address(text: &str) -> Result<SocketAddr, String> {
    let ip = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = ip
        .parse::<IpAddr>()
        .map(|ip| (ip, minecraft_status::PORT).into());
    text.parse().or(with_port).map_err(|_| {
        values::wrong_port(text).unwrap_or_else(|| "expected ADDRESS or ADDRESS:PORT".into())
    })
}

fn world(text: &str) -> Result<WorldKind, String> {
    match text {
        "flat" => Ok(WorldKind::Flat),
        "hilly" => Ok(WorldKind::Hilly),
        _ => Err("expected flat or hilly".into()),
    }
}

fn game_mode(text: &str) -> Result<GameMode, String> {
    match text {
        "survival" => Ok(GameMode::Survival),
        "creative" => Ok(GameMode::Creative),
        _ => Err("expected survival or creative".into()),
    }
}

fn encryption(text: &str) -> Result<Encryption, String> {
    match text {
        "required" => Ok(Encryption::Required),
        "offered" => Ok(Encryption::Offered),
        "off" => Ok(Encryption::Off),
        _ => Err("expected required, offered or off".into()),
    }
}

/// Parses a player name that the game accepts.
fn player(name: &str) -> Result<String, String> {
    let is_forbidden =
        |c: &char| c.is_control() || c.is_whitespace() || ['\u{A7}', ';', ':'].contains(c);
    if let Some(c) = name.chars().find(is_forbidden) {
        return Err(format!(
            "the character {c:?} is not allowed in a player name"
        ));
    }
    match name.encode_utf16().count() {
        0 => Err("expected a player name of 1 to 16 characters".into()),
        1..=16 => Ok(name.into()),
        count => Err(format!("{count} characters; at most 16 are allowed")),
    }
}

fn packet_direction(text: &str) -> Result<game::PacketDirection, String> {
    match text {
        "to-server" => Ok(game::PacketDirection::ToServer),
        "to-client" => Ok(game::PacketDirection::ToClient),
        _ => Err("expected to-server or to-client".into()),
    }
}

fn secret(text: &str) -> Result<Secret, String> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16)
            .ok()
            .filter(|_| pair.len() == 2)
    };
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    let bytes = bytes.filter(|bytes| [16, 32].contains(&bytes.len()));
    bytes
        .map(Secret)
        .ok_or_else(|| "expected 16 bytes in hexadecimal, or 32 for 12w19a".into())
}
