//! FiveM and RedM: the files that each server offers over HTTP. HTTP.
//!
//! ```text
//!   client                     server
//!     GET /dynamic.json  ─►
//!          ◄─  JSON: name, map, counts
//!     GET /players.json  ─►
//!          ◄─  JSON: the players
//!     GET /info.json     ─►
//!          ◄─  JSON: version, resources, variables, icon
//! ```
//!
//! The files are public. The same port number answers `quake3` over UDP.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::protocols::http`, `crate::sample`,
//! `crate::wire`.

mod server;

use crate::model::{Carets, Extra, Icon, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Depth, Doc, Fault, Info};
use crate::protocols::http::{Body, File, HttpFiles, Members};
use crate::sample::Server;
use crate::wire::json::Kind;
use crate::wire::{Notes, deviations};
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

deviations! {
    MAX_AS_NUMBER "max-as-number" "the number of slots is a number instead of a text";
}

/// The protocol (spec/fivem-http.md#3).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "fivem-http",
        title: "FiveM (HTTP)",
        port: 30120,
        fields: &[
            Doc::new("info-version", "Number that changes with the info"),
            Doc::new(
                "anonymised",
                "Whether all players have the same name, which replaces the real ones",
            ),
            Doc::new("resources", "Names of the resources"),
            Doc::new(
                "steam-ticket",
                "Whether players need Steam, as the server writes it",
            ),
            Doc::new(
                "enhanced-host-support",
                "Whether the server supports the newer form of game sessions",
            ),
            Doc::new("unanswered", "Files without a usable response, by name"),
        ],
        player_fields: &[Doc::new("id", "Number of the player on the server")],
        deviations: ALL,
        has_responder: true,
        ..Info::HTTP
    },
    files: &[
        File::new(DYNAMIC, "request for the counts", "/dynamic.json"),
        File::new(PLAYERS, "request for the players", "/players.json"),
        File::new(INFO, "request for the info", "/info.json"),
    ],
    wants,
    is_body,
    is_enough,
    read,
    server: Some(server::files),
    sample: sample_status,
    ..HttpFiles::PLAIN
};

/// Maximum number of players, resources and variables that are kept.
const MAX_ENTRIES: usize = 4_096;
const DYNAMIC: &str = "dynamic";
const PLAYERS: &str = "players";
const INFO: &str = "info";

fn wants(ask: &Ask, file: &File) -> bool {
    match file.name {
        PLAYERS => ask.depth == Depth::Full && ask.has_players,
        INFO => ask.depth == Depth::Full,
        _ => true,
    }
}

fn is_body(file: &File, body: &Body<'_>) -> bool {
    match file.name {
        DYNAMIC => body.has_member(&["sv_maxclients", "gametype", "mapname"]),
        INFO => body.has_member(&["resources", "vars"]),
        _ => body.json().is_ok_and(|json| {
            let root = json.root();
            // Lists of other services have members such as a name too.
            root.kind() == Kind::List && root.items().all(|item| is_player(&Members(item)))
        }),
    }
}

fn is_enough(file: &File, body: &Body<'_>) -> bool {
    let is_empty = |body: &Body<'_>| {
        let json = body.json();
        json.is_ok_and(|json| json.root().items().next().is_none())
    };
    file.name != PLAYERS || !is_empty(body)
}

fn read(
    file: &File,
    body: &Body<'_>,
    _: &Ask,
    status: &mut Status,
    notes: &mut Notes,
) -> Result<(), Fault> {
    let expected = "a file of a FiveM server";
    let root = body.members(is_body(file, body), expected)?;
    match file.name {
        DYNAMIC => read_counts(root, status, notes),
        PLAYERS => {
            let players = root.0.items().take(MAX_ENTRIES).map(Members);
            let players: Vec<Player> = players.map(player).collect();
            if has_one_name(&players) {
                status.extra.push(Extra::new("anonymised", true));
            }
            // The counts come first, if the server has them. Some hosts empty the list.
            if status.players.online.is_none() && !players.is_empty() {
                status.players.online = i64::try_from(players.len()).ok();
            }
            status.players.set_list(players);
        }
        _ => read_info(root, status),
    }
    Ok(())
}

fn colored(text: Cow<'_, str>) -> Text {
    Text::carets(text, Carets::Alphanumeric)
}

fn read_counts(root: Members<'_, '_>, status: &mut Status, notes: &mut Notes) {
    status.name = root.text("hostname").map(colored);
    status.mode = root.short("gametype");
    status.map = root.short("mapname");
    status.players.online = root.integer("clients");
    if let Some(max) = root.item("sv_maxclients") {
        if max.kind() == Kind::Number {
            notes.deviation(&MAX_AS_NUMBER, max.at());
        }
        status.players.max = max.integer();
    }
    status.add_extra("info-version", root.value("iv"));
}

/// Returns whether an entry of a list has a member of players besides name and id.
fn is_player(item: &Members<'_, '_>) -> bool {
    let members = ["ping", "endpoint", "identifiers"];
    members.iter().any(|key| item.item(key).is_some())
}

fn player(item: Members<'_, '_>) -> Player {
    let name = item.text("name").unwrap_or_default();
    let mut player = Player::named(colored(name));
    // Players who have gone have the ping -1.
    player.latency_ms = item.latency("ping").filter(|ping| *ping >= 0);
    let id = item.integer("id").map(|id| Extra::new("id", id));
    player.extra.extend(id);
    player
}

/// Returns whether several players have the same name, which replaces the real ones.
fn has_one_name(players: &[Player]) -> bool {
    let first = players.first().map(|player| player.name.raw());
    players.len() > 1
        && players
            .iter()
            .all(|player| Some(player.name.raw()) == first)
}

fn read_info(root: Members<'_, '_>, status: &mut Status) {
    status.version = root.short("server");
    if let Some(vars) = root.object("vars") {
        status.rules = vars.rules(MAX_ENTRIES);
    }
    status.rules.retain(|rule| match &*rule.key {
        "gamename" => {
            status.game = Some(rule.value.clone());
            false
        }
        "sv_projectDesc" => {
            status.motd = Some(colored(Cow::Borrowed(&rule.value)));
            false
        }
        _ => true,
    });
    // The counts have both too, unless their file is missing.
    let rule = |key: &str| status.rules.iter().find(|rule| rule.key == key);
    if status.name.is_none() {
        let name = rule("sv_projectName").map(|rule| colored(Cow::Borrowed(&rule.value)));
        status.name = name;
    }
    if status.players.max.is_none() {
        let max = rule("sv_maxClients").and_then(|rule| rule.value.parse().ok());
        status.players.max = max;
    }
    let icon = root.text("icon");
    let icon = icon.map(|icon| format!("data:image/png;base64,{icon}"));
    status.icon = icon.and_then(|icon| Icon::from_data_uri(&icon).ok());
    status.add_extra("resources", root.list("resources", MAX_ENTRIES));
    for (key, name) in [
        ("requestSteamTicket", "steam-ticket"),
        ("enhancedHostSupport", "enhanced-host-support"),
    ] {
        let boolean = root.boolean(key).map(Value::Bool);
        status.add_extra(name, boolean.or_else(|| root.value(key)));
    }
}

fn sample_status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let name = server.name.clone();
    for (id, player) in (1i64..).zip(&mut server.players) {
        player.uuid = None;
        player.latency_ms = Some(server.random.below(200) as i32);
        player.extra = [Extra::new("id", id)].into();
    }
    let is_anonymous = server.players.len() > 1
        && server
            .players
            .iter()
            .all(|player| Some(&player.name) == server.players.first().map(|first| &first.name));
    server.status.name = Some(Text::unformatted(name));
    server.status.mode = Some("Freeroam".into());
    server.status.map = Some("San Andreas".into());
    server.status.game = Some("gta5".into());
    server.status.version = Some("FXServer-master v1.0.0.12345 linux".into());
    server.status.rules = [Rule {
        key: "onesync_enabled".into(),
        value: "true".into(),
    }]
    .into();
    let mut status = server.finish();
    status.extra.push(Extra::new("info-version", "1804289383"));
    if is_anonymous {
        status.extra.push(Extra::new("anonymised", true));
    }
    status
}
