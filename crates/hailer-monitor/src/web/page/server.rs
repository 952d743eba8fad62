//! Page of one server: state, history and last answer.

use crate::health;
use crate::sample::{Millis, millis, unix_millis};
use crate::state::find::SearchTerms;
use crate::state::{LastStatus, ServerRow};
use crate::web::App;
use crate::web::api::Api;
use crate::web::motd::{Piece, pieces};
use crate::web::page::answer::{Datagram, Details, PlayerTable, explain};
use crate::web::page::past::{HistoryQuery, HistoryView, Order, PlayerOrder, Range};
use crate::web::page::row::{StateView, Time, group_link};
use crate::web::page::{self, Frame, html};
use crate::web::show::{self, ShortText};
use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use hailer::proto::Protocol;
use hailer::proto::wire::counted;
use hailer::support::catalog;

/// Maximum length of a MOTD, in characters.
const MAX_MOTD_CHARS: usize = 1_000;

/// `/server/{name}?range=24h`
pub(crate) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(row) = app.named(&name).await else {
        return page::error(
            &app,
            &headers,
            StatusCode::NOT_FOUND,
            "There is no server with this name.",
        );
    };
    let wanted = HistoryQuery::read(query.as_deref().unwrap_or_default());
    let now = unix_millis();
    let on = row
        .last_status
        .as_deref()
        .map(|status| &*status.players)
        .unwrap_or_default();
    let past = HistoryView::of(&app, row.server.id, on, &wanted, now).await;
    html(
        StatusCode::OK,
        &ServerPage::of(&app, &headers, &row, wanted, past, now),
    )
}

#[derive(Template)]
#[template(path = "server.html")]
struct ServerPage {
    frame: Frame,
    /// Time of the last sample, in Unix milliseconds.
    at: Millis,
    name: String,
    state: StateView,
    title: Option<ShortText>,
    /// URL of the icon.
    icon: Option<String>,
    motd: Vec<Piece>,
    target: ShortText,
    group: Option<(ShortText, String)>,
    labels: Vec<(ShortText, ShortText)>,
    figures: Vec<Figure>,
    ranges: Vec<(&'static str, String, bool)>,
    /// Orders of sessions: player, start, duration.
    orders: [(String, bool); 3],
    past: HistoryView,
    has_player_names: bool,
    /// Why there are no names of players.
    nobody: &'static str,
    details: Details,
    /// Parameters of the page.
    wanted: HistoryQuery,
    player_columns: Vec<PlayerColumn>,
    badge: Option<String>,
    widget: Option<String>,
    /// Time of the last answer.
    status_at: Option<Time>,
    datagrams: Vec<Datagram>,
}

/// Heading of a column of the players.
struct PlayerColumn {
    title: &'static str,
    help: &'static str,
    /// URL that changes the order of players.
    address: String,
    /// Value of `aria-sort`.
    sort: &'static str,
}

/// A label and a value.
struct Figure {
    name: &'static str,
    value: ShortText,
    note: String,
}

impl ServerPage {
    fn of(
        app: &App,
        headers: &HeaderMap,
        row: &ServerRow,
        wanted: HistoryQuery,
        past: HistoryView,
        now: Millis,
    ) -> Self {
        let server = &*row.server;
        let status = row.last_status.as_deref();
        let spoken_protocol = catalog::protocol(row.protocol());
        let mut details = status
            .map(|status| Details::of(status, spoken_protocol))
            .unwrap_or_default();
        let mut datagrams = status
            .map(|status| explain(status, spoken_protocol))
            .unwrap_or_default();
        if !app.has_player_names {
            details.players = PlayerTable::default();
            datagrams.clear();
        }
        details.keep(&SearchTerms::of(&wanted.find));
        details.players.sort(wanted.who);
        let here = |wanted: &HistoryQuery| format!("/server/{}{}", server.name, wanted.query());
        let (has_badges, has_widgets) = app.api.as_ref().map_or((false, false), Api::for_sites);
        // A second click restores the order of the server.
        let player_order = |order: PlayerOrder| {
            let who = if wanted.who == order {
                PlayerOrder::Server
            } else {
                order
            };
            let wanted = wanted.clone();
            format!("{}#who", here(&HistoryQuery { who, ..wanted }))
        };
        let mut player_columns = vec![PlayerColumn {
            title: "Player",
            help: "Name shown in the game",
            address: player_order(PlayerOrder::Name),
            sort: details.players.direction(PlayerOrder::Name, wanted.who),
        }];
        player_columns.extend(details.players.columns.iter().map(|member| {
            let order = PlayerOrder::Member(member.key);
            PlayerColumn {
                title: member.title,
                help: member.help,
                address: player_order(order),
                sort: details.players.direction(order, wanted.who),
            }
        }));
        Self {
            frame: Frame::new(app, headers, here(&wanted)),
            at: row.last_sample.map_or(0, |last| last.at),
            name: server.name.clone(),
            state: StateView::of(row, now),
            title: status
                .and_then(|status| status.title.as_deref())
                .map(|title| show::cut(title, 120)),
            icon: status
                .and_then(|status| status.icon)
                .map(|icon| icon.path()),
            motd: status
                .and_then(|status| status.motd.as_ref())
                .map(|motd| pieces(motd, MAX_MOTD_CHARS))
                .unwrap_or_default(),
            target: show::cut(&server.target, 100),
            group: group_link(&server.group, 40),
            labels: server
                .labels
                .iter()
                .map(|(key, value)| (show::cut(key, 40), show::cut(value, 60)))
                .collect(),
            figures: figures(row, &details, spoken_protocol, now),
            ranges: Range::ALL
                .into_iter()
                .filter(|range| range.is_cheap(app))
                .map(|range| {
                    (
                        range,
                        here(&HistoryQuery {
                            range: Some(range),
                            ..wanted.clone()
                        }),
                    )
                })
                .map(|(range, address)| (range.text(), address, range == past.range))
                .collect(),
            orders: Order::ALL.map(|order| {
                (
                    format!(
                        "{}#sessions",
                        here(&HistoryQuery {
                            order,
                            ..wanted.clone()
                        })
                    ),
                    order == wanted.order,
                )
            }),
            past,
            has_player_names: app.has_player_names,
            nobody: nobody(row),
            details,
            player_columns,
            wanted,
            badge: has_badges.then(|| format!("/badge/{}.svg", server.name)),
            widget: has_widgets.then(|| format!("/widget/{}", server.name)),
            status_at: status_at(row).map(|at| Time::of(at, now)),
            datagrams,
        }
    }
}

/// Returns why there are no names of players.
fn nobody(row: &ServerRow) -> &'static str {
    let last = row.last_answer();
    match (row.state, last) {
        (health::State::Down, _) => "The server is down.",
        (_, None) => "The server has not answered.",
        (_, Some(last)) if last.players == Some(0) => "No players are online.",
        _ => "The server lists no names.",
    }
}

/// Returns the time of the last answer. After a restart, the samples are newer than the stored
/// status.
fn status_at(row: &ServerRow) -> Option<Millis> {
    let status = row.last_status.as_ref().map_or(0, |status| status.at);
    let sample = row.last_answer();
    let at = status.max(sample.map_or(0, |sample| sample.at));
    (at > 0).then_some(at)
}

fn figures(
    row: &ServerRow,
    details: &Details,
    spoken_protocol: Option<&dyn Protocol>,
    now: Millis,
) -> Vec<Figure> {
    let last = row.last_answer();
    let status = row.last_status.as_deref();
    let count = |number: Option<u32>| number.map(|number| show::count(number.into()));
    let max = count(last.and_then(|last| last.max)).map(|max| format!("of {max}"));
    let bots = status.and_then(|status| status.bots);
    let bots = bots.filter(|bots| *bots > 0);
    let bots = bots.map(|bots| show::counted(bots.into(), "bot"));
    let limits: Vec<String> = max.into_iter().chain(bots).collect();
    let resent = last.filter(|last| last.resent > 0);
    let resent = resent.map(|last| {
        let sent = counted(last.sent, "datagram");
        format!("{} of {sent} repeated", last.resent)
    });
    let own_address = details.own_address.as_ref();
    let own_address = own_address.map(|address| format!("reported: {address}"));
    let text = |of: fn(&LastStatus) -> Option<String>| (status.and_then(of), None);
    let players = count(last.and_then(|last| last.players));
    let latency = last.and_then(|last| last.latency).map(show::latency);
    let uptime = row.day.uptime(now);
    let uptime = uptime.map(|share| show::percent(share.into()));
    let mode = details.mode.as_ref().map(|mode| mode.text.clone());
    let protocol = spoken_protocol.map(|protocol| protocol.info().title.to_owned());
    let interval = row.server.interval;
    let interval = interval.map(|interval| show::length(millis(interval)));
    let address = status.and_then(|status| status.address);
    let address = address.map(|address| address.to_string());
    let all = [
        ("Players", (players, Some(limits.join(", ")))),
        ("Latency", (latency, resent)),
        ("Uptime", (uptime, Some("last 24 hours".into()))),
        (
            "Version",
            text(|status| status.version.clone().map(Into::into)),
        ),
        ("Map", text(|status| status.map.clone().map(Into::into))),
        ("Mode", (mode, None)),
        ("Game", text(|status| status.game.clone().map(Into::into))),
        ("Protocol", (protocol, None)),
        ("Interval", (interval, None)),
        ("Address", (address, own_address)),
    ];
    let figure = |(name, (value, note)): (_, (Option<String>, Option<String>))| {
        let value = value.filter(|value| !value.trim().is_empty())?;
        Some(Figure {
            name,
            value: show::cut(&value, 60),
            note: note.unwrap_or_default(),
        })
    };
    all.into_iter().filter_map(figure).collect()
}
