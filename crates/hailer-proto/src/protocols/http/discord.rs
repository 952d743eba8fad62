//! Discord: the widget of a guild. HTTPS to the service, not to a server of the owner.
//!
//! ```text
//!   client                                   discord.com
//!     GET /api/guilds/ID/widget.json   ─►
//!          ◄─  JSON: name, members, channels
//! ```
//!
//! The target is the id of the guild: `discord://ID`. The owner enables the widget (spec/discord.md#1).

use crate::model::{Extra, Player, Status, Value};
use crate::protocol::{Ask, Doc, Fault, Info, Tls};
use crate::protocols::http::{Body, File, HttpFiles, Members, encoded};
use crate::wire::Notes;
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// The protocol (spec/discord.md#2).
pub static PROTOCOL: HttpFiles = HttpFiles {
    info: &Info {
        id: "discord",
        title: "Discord",
        port: 443,
        service: Some(HOST),
        fields: &[
            Doc::new("guild", "Id of the guild"),
            Doc::new("invite", "Address of an invitation"),
            Doc::new("channels", "Names of the public voice channels"),
            Doc::new("service", "The remote service that reports the status"),
        ],
        player_fields: &[
            Doc::new("status", "`online`, `idle` or `dnd`"),
            Doc::new("game", "Activity of the member"),
        ],
        ..Info::HTTP
    },
    files: &[File::new(
        "widget",
        "request for the widget",
        "/api/guilds/{}/widget.json",
    )],
    denied: "the widget of this guild is off: the owner enables it in the settings of the server",
    tls: Tls::Verified,
    path,
    refusal,
    is_body,
    read,
    ..HttpFiles::PLAIN
};

/// Host of the service.
const HOST: &str = "discord.com";
/// Maximum number of members and channels that are kept. The service sends at most 100 members.
const MAX_ENTRIES: usize = 1_024;

fn path(ask: &Ask, file: &File) -> Cow<'static, str> {
    file.path.replace("{}", &encoded(&ask.to.host)).into()
}

fn refusal(status: u16, _: &Body<'_>) -> Option<Fault> {
    (status == 404).then_some(Fault::Refused {
        reason: "there is no guild with this id; a target is discord://ID",
        endpoints: &[],
    })
}

fn is_body(_: &File, body: &Body<'_>) -> bool {
    body.has_member(&["presence_count"])
}

fn read(
    file: &File,
    body: &Body<'_>,
    ask: &Ask,
    status: &mut Status,
    _: &mut Notes,
) -> Result<(), Fault> {
    let root = body.members(is_body(file, body), "the widget of a guild")?;
    status.name = root.unformatted("name");
    status.players.online = root.integer("presence_count");
    if ask.has_players {
        let members = root.items("members").take(MAX_ENTRIES).map(member);
        status.players.set_list(members.collect());
    }
    status.add_extra("guild", root.value("id"));
    status.add_extra("invite", root.value("instant_invite"));
    let channels = root.items("channels").take(MAX_ENTRIES);
    let channels: Vec<Value> = channels.filter_map(|one| one.value("name")).collect();
    let channels = (!channels.is_empty()).then_some(Value::List(channels));
    status.add_extra("channels", channels);
    status.add_extra("service", Some(HOST));
    Ok(())
}

fn member(item: Members<'_, '_>) -> Player {
    let mut player = Player::named(item.unformatted("username").unwrap_or_default());
    let game = item.object("game").and_then(|game| game.value("name"));
    for (key, value) in [("status", item.value("status")), ("game", game)] {
        let extra = value.map(|value| Extra::new(key, value));
        player.extra.extend(extra);
    }
    player
}
