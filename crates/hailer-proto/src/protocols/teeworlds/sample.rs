//! Samples of Teeworlds servers.

use crate::model::{Extra, Status, Text};
use crate::sample::Server;

const CLANS: &[&str] = &["", "", "Otter", "North", "\u{2605}"];
const COUNTRIES: &[i64] = &[-1, 276, 643, 616, 76];

pub(super) fn status(seed: u64) -> Status {
    let mut server = Server::new(seed);
    let random = &mut server.random;
    let status = &mut server.status;
    status.name = Some(Text::unformatted(server.name.clone()));
    status.mode = Some(random.text(&["DM", "CTF", "TDM", "gores"]).into());
    status.version = Some(random.text(&["0.6.4", "0.6.4, 18.0", "0.6.5"]).into());
    status.has_password = Some(random.below(8) == 0);
    let mut spectators = 0;
    for player in &mut server.players {
        player.uuid = None;
        player.score = Some(random.below(60) as i64 - 5);
        let clan = random.pick(CLANS);
        if !clan.is_empty() {
            player.extra.push(Extra::new("clan", clan));
        }
        let country = random.pick(COUNTRIES);
        if country != -1 {
            player.extra.push(Extra::new("country", country));
        }
        if random.below(8) == 0 {
            player.extra.push(Extra::new("spectator", true));
            spectators += 1;
        }
    }
    let playing = server.players.len() as i64 - spectators;
    let crc = i64::from(random.next() as u32 | 1);
    let size = 4_096 + random.below(400_000) as i64;
    let mut status = server.finish();
    let max = status.players.max.unwrap_or_default();
    status.extra = [
        Extra::new("form", "0.6-extended"),
        Extra::new("playing", playing),
        Extra::new("max-playing", max),
        Extra::new("map-crc", crc),
        Extra::new("map-size", size),
    ]
    .into();
    status
}
