//! Tiles with the totals of all servers.

use crate::state::totals::Totals;
use crate::web::chart::{Svg, sparkline};
use crate::web::show;
use askama::Template;

/// Totals as shown on the page.
#[derive(Template)]
#[template(path = "totals.html")]
pub(crate) struct TotalsView {
    servers: String,
    up: String,
    up_share: String,
    down: Option<String>,
    unknown: Option<String>,
    flapping: Option<String>,
    players: String,
    max: Option<String>,
    day: Svg,
}

impl TotalsView {
    pub(crate) fn of(totals: &Totals) -> Self {
        let some = |count: u64| (count > 0).then(|| show::count(count));
        let all = &totals.all;
        Self {
            servers: show::count(all.servers),
            up: show::count(all.up),
            up_share: show::share(all.up, all.servers),
            down: some(all.down),
            unknown: some(all.unknown),
            flapping: some(all.flapping),
            players: show::count(all.players_online),
            max: some(totals.players_max),
            day: sparkline(&totals.day, None),
        }
    }
}
