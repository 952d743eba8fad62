//! Minecraft Bedrock over NetherNet: the status of servers that accept players over WebRTC and do not
//! answer the Bedrock ping. HTTP.
//!
//! ```text
//!   client               server
//!     GET /v1/join  ─►
//!          ◄─  JSON: name, version, level, counts, game type
//! ```
//!
//! The file is public. The port number is that of `minecraft-bedrock` over UDP.

use super::{Body, File, HttpFiles, ServedFile};
use crate::model::{Codes, Extra, Status, Text, Value, without_controls};
use crate::protocol::{Ask, Doc, Fault, Info, Tls};
use crate::sample::{Server, motd};
use crate::wire::{Notes, cut, json};
use alloc::string::{String, ToString};
use alloc::{format, vec, vec::Vec};

/// The protocol.
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "minecraft-nethernet",
        title: "Minecraft Bedrock over NetherNet",
        port: 19_132,
        instead_of: Some("minecraft-bedrock"),
        fields: &[
            Doc::new("protocol", "Number of the game's protocol"),
            Doc::new("level-name", "Name of the world"),
        ],
        has_responder: true,
        codes: |_| Codes::Bedrock,
        ..Info::HTTP
    },
    files: &[File::new("status", "request for the status", PATH)],
    is_body: |_, body| body.has_member(&["protocol"]) && body.has_member(&["maxPlayers"]),
    read,
    tls: Tls::PlainFirst,
    server: Some(|status| {
        vec![ServedFile {
            path: PATH,
            body: body_of(status),
        }]
    }),
    sample,
    ..HttpFiles::PLAIN
};

/// Path of the file.
const PATH: &str = "/v1/join";
/// Names of the game types, as in the Bedrock ping.
const GAME_TYPES: [&str; 3] = ["Survival", "Creative", "Adventure"];
/// Longest text in bytes that the responder sends.
const MAX_TEXT: usize = 1_024;

/// Reads the file (spec/minecraft-nethernet.md#3).
fn read(
    file: &File,
    body: &Body<'_>,
    _: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let expected = "an object with the status of a Bedrock server";
    let root = body.members((PROTOCOL.is_body)(file, body), expected)?;
    status.name = root.text("name").map(Text::bedrock);
    status.version = root.short("version");
    status.players.online = root.integer("players");
    status.players.max = root.integer("maxPlayers");
    status.mode = root.integer("gameType").map(|number| {
        let place = usize::try_from(number).ok();
        let name = place.and_then(|place| GAME_TYPES.get(place));
        name.map_or_else(|| number.to_string().into(), |name| (*name).into())
    });
    status.add_extra("protocol", root.integer("protocol"));
    status.add_extra("level-name", root.value("level"));
    Ok(())
}

/// Writes the file, its members in the order of the server (spec/minecraft-nethernet.md#6).
fn body_of(status: &Status) -> Vec<u8> {
    let status = &*status.with_codes(Codes::Bedrock);
    let title = status.name.as_ref().or(status.motd.as_ref());
    let name = title.map(|name| without_controls(&name.with_legacy_colors()));
    let level = match status.extra("level-name") {
        Some(Value::Str(level)) => without_controls(level),
        _ => String::new(),
    };
    let protocol = match status.extra("protocol") {
        Some(Value::Int(protocol)) => *protocol,
        _ => 0,
    };
    let mode = status.mode.as_deref().unwrap_or_default();
    let mut names = GAME_TYPES.iter();
    let game_type = names.position(|name| mode.eq_ignore_ascii_case(name));
    let online = status.players.count().max(0);
    let max = status.players.max.unwrap_or(0);
    let mut out = Vec::new();
    for (key, text) in [
        ("{\"name\":", &*name.unwrap_or_default()),
        (
            ",\"version\":",
            status.version.as_deref().unwrap_or_default(),
        ),
        (",\"level\":", &level),
    ] {
        out.extend(key.bytes());
        json::write_text(cut(text, MAX_TEXT), &mut out);
        if key.starts_with('{') {
            out.extend(format!(",\"protocol\":{protocol}").bytes());
        }
    }
    out.extend(format!(",\"players\":{online},\"maxPlayers\":{max}").bytes());
    out.extend(format!(",\"gameType\":{}}}", game_type.unwrap_or(0)).bytes());
    out
}

fn sample(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let name = motd(random, &server.name).with_legacy_colors().into_owned();
    let name = Text::bedrock(name.lines().next().unwrap_or_default());
    let (protocol, version) = random.pick(&[(2_193, "1.26.51"), (2_200, "1.27.0")]);
    let mode = random.text(&GAME_TYPES);
    let level = random.text(&["Bedrock level", "Skyblock", "My World"]);
    let mut status = server.counts();
    status.name = Some(name);
    status.version = Some(version.into());
    status.mode = Some(mode.into());
    status.extra = [
        Extra::new("protocol", i64::from(protocol)),
        Extra::new("level-name", level),
    ]
    .into();
    status
}
