//! Pages through the router, without a socket: content, and escaping of texts of servers.

use hailer_testkit::fleet;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use hailer::proto::model::Icon;
use hailer_monitor::health::State;
use hailer_monitor::history::{Batch, History, PlayerSession};
use hailer_monitor::sample::{Event, EventKind, PollError};
use hailer_monitor::server::ServerId;
use hailer_monitor::state::{StateTable, Update};
use hailer_monitor::web::{App, POLICY, router};
use http_body_util::BodyExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tower::ServiceExt;

struct Site {
    live: Arc<StateTable>,
    app: App,
    router: Router,
}

struct Page {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Site {
    /// A site without history.
    async fn of(live: Arc<StateTable>) -> Self {
        Self::with(live, History::open("sqlite::memory:").await.unwrap())
    }

    fn with(live: Arc<StateTable>, history: History) -> Self {
        let app = App::new(live.clone(), history);
        Self {
            live,
            router: router(app.clone()),
            app,
        }
    }

    async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Page {
        let request = headers
            .iter()
            .fold(Request::get(path), |request, (name, value)| {
                request.header(*name, *value)
            });
        let answer = self
            .router
            .clone()
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let (head, body) = answer.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Page {
            status: head.status,
            headers: head.headers,
            text,
        }
    }

    async fn get(&self, path: &str) -> Page {
        self.ask(path, &[]).await
    }

    /// Returns the names in the list, in order.
    async fn names(&self, path: &str) -> Vec<String> {
        let page = self.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        let links = page.text.split(r#"<a href="/server/"#).skip(1);
        links
            .map(|link| link.split('"').next().unwrap().to_owned())
            .collect()
    }
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

#[tokio::test]
async fn lists_are_filtered_sorted_and_searched_by_url() {
    let site = Site::of(fleet::fleet(fleet::now())).await;
    assert_eq!(site.names("/").await.len(), site.live.len());
    assert_eq!(
        site.names("/?q=ARENA+minecraft&sort=name").await,
        ["arena-1", "arena-2", "arena-10"]
    );
    assert_eq!(
        site.names("/?q=arena&sort=-name").await,
        ["arena-10", "arena-2", "arena-1"]
    );
    assert_eq!(
        site.names("/?q=no+mercy").await,
        ["iron-keep"],
        "in the MOTD, ignoring colors"
    );
    assert_eq!(
        site.names("/?q=region").await.len(),
        0,
        "label keys are not searched"
    );
    assert_eq!(site.names("/?q=north&sort=name").await.len(), 8);
    assert_eq!(site.names("/?state=down").await, ["old-mill"]);
    assert_eq!(site.names("/?state=unknown").await, ["newcomer"]);
    assert_eq!(
        site.names("/?protocol=onequery&sort=name").await,
        ["grove", "orbis"]
    );
    assert_eq!(
        site.names("/?group=creative&sort=name").await,
        ["meadow", "skyline"]
    );
    assert_eq!(site.names("/?group=none-such").await.len(), 0);
    let by_state = site.names("/?sort=state").await;
    assert_eq!(
        (by_state[0].as_str(), by_state[1].as_str()),
        ("old-mill", "newcomer")
    );
    for sort in [
        "players", "-players", "latency", "-latency", "version", "-version",
    ] {
        let names = site.names(&format!("/?sort={sort}")).await;
        assert_eq!(names.len(), site.live.len());
        assert!(
            names[30..].contains(&"newcomer".to_owned()),
            "{sort}: unknown values come last"
        );
    }
    let text = site.get("/?q=arena&sort=name").await.text;
    assert!(
        text.contains(r#"aria-sort="ascending"><a href="/?q=arena&#38;sort=-name">"#),
        "{text}"
    );
}

#[tokio::test]
async fn long_lists_are_paged_and_fast() {
    let site = Site::of(fleet::crowd(10_000, fleet::now())).await;
    let mut all = Vec::new();
    for page in 1..=10 {
        all.extend(
            site.names(&format!("/?sort=-uptime&group=group+7&q=crowd&page={page}"))
                .await,
        );
        all.extend(
            site.names(&format!("/?sort=name&q=crowd-99&page={page}"))
                .await,
        );
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 250 + 111 - 2, "each once, and two are both");
    assert_eq!(site.names("/?sort=name&page=2").await[0], "crowd-101");
    assert_eq!(
        site.names("/?sort=name&page=777").await[99],
        "crowd-10000",
        "beyond the last page, the last page is shown"
    );
    let text = site.get("/?state=down&page=2").await.text;
    let span = "101–200 of 200 servers";
    assert!(
        text.contains(span)
            && text.contains(r#"<a class="button" href="/?state=down" rel="prev">"#),
        "{text}"
    );
    // Debug builds take about ten times as long.
    let mut times = Vec::new();
    for path in [
        "/",
        "/?q=crowd-77",
        "/?sort=uptime&page=50",
        "/?q=of+nothing+at+all",
        "/?group=group+7",
    ]
    .repeat(4)
    {
        let start = Instant::now();
        site.get(path).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    println!(
        "10,000 servers: median {:?}, slowest {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    let bound = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 50 });
    assert!(times[times.len() / 2] < bound, "{times:?}");
}

#[tokio::test]
async fn texts_of_servers_are_escaped() {
    let site = Site::with(
        fleet::fleet(fleet::now()),
        fleet::history(fleet::now()).await,
    );
    let word = "%22%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let paths = [
        "/".to_owned(),
        "/?q=hostile".to_owned(),
        "/server/hostile".to_owned(),
        "/server/hostile?range=7d".to_owned(),
        format!("/?q={word}&group={word}&protocol={word}&sort={word}&page={word}"),
        format!("/server/harbour?range={word}"),
        format!("/server/{word}"),
        format!("/theme?to=dark&back={word}"),
    ];
    for path in paths {
        let page = site.get(&path).await;
        let text = page.text.replace(r#"<script src="/static/"#, "");
        for tag in [
            "<script",
            "<img",
            "<b>Mallory",
            "\u{202E}",
            "javascript:",
            " style=",
            " onerror=document.title='",
        ] {
            assert!(!text.contains(tag), "{path}: {tag}");
        }
        assert_eq!(page.header("content-security-policy"), POLICY, "{path}");
    }
    let text = site.get("/server/hostile").await.text;
    assert!(text.contains("&#60;b&#62;Mallory&#60;/b&#62;gnp"), "{text}");
}

#[tokio::test]
async fn headers_and_errors() {
    let site = Site::of(fleet::fleet(fleet::now())).await;
    for (path, status) in [
        ("/", 200),
        ("/server/harbour", 200),
        ("/server/none", 404),
        ("/nowhere", 404),
        ("/static/../x", 404),
    ] {
        let page = site.get(path).await;
        assert_eq!(page.status, status, "{path}");
        assert_eq!(page.header("content-security-policy"), POLICY);
        assert_eq!(
            (
                page.header("x-content-type-options"),
                page.header("referrer-policy")
            ),
            ("nosniff", "same-origin")
        );
        assert_eq!(page.header("cache-control"), "no-store");
        assert!(
            page.text.contains("<title>") && page.text.contains("</html>"),
            "{path}"
        );
    }
    let request = Request::post("/").body(Body::from("x")).unwrap();
    let answer = site.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 405);
    let packed = site.ask("/", &[("accept-encoding", "gzip")]).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
}

#[tokio::test]
async fn static_files_are_cached() {
    let site = Site::of(Arc::default()).await;
    let text = site.get("/").await.text;
    assert!(text.contains("No servers yet"), "{text}");
    let style = text
        .split(r#"rel="stylesheet" href=""#)
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let file = site.get(&style).await;
    assert!(file.header("cache-control").contains("immutable") && file.text.contains("--ground"));
    let tag = file.header("etag").to_owned();
    let again = site
        .ask(&style, &[("if-none-match", &format!("\"other\", W/{tag}"))])
        .await;
    assert_eq!(
        (
            again.status.as_u16(),
            again.text.as_str(),
            again.header("etag")
        ),
        (304, "", tag.as_str())
    );
    let old = site.get("/static/style.css?v=0123").await;
    assert_eq!(
        (old.status.as_u16(), old.header("cache-control")),
        (200, "public, no-cache")
    );
    let script = site
        .get("/static/page.js")
        .await
        .text
        .replace("http://www.w3.org/2000/svg", "");
    assert!(
        !script.contains("http") && !file.text.contains("url("),
        "nothing is loaded from other sites"
    );
}

#[tokio::test]
async fn icons_come_from_our_own_origin() {
    /// A PNG file of one pixel.
    const PNG: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82";
    let site = Site::of(fleet::fleet(fleet::now())).await;
    let icon = Icon::from_png(PNG).unwrap();
    let id = site.live.icons().insert(icon).unwrap();
    let server = site.live.named("harbour").unwrap().server.id;
    let update = Update::of(vec![server]);
    site.live.change(update, |row| {
        let mut status = row.last_status.as_deref().cloned().unwrap_or_default();
        status.icon = Some(id);
        row.last_status = Some(Arc::new(status));
    });
    let path = format!("/icon/{id}.png");
    for page in ["/server/harbour", "/?q=harbour"] {
        let page = site.get(page).await;
        let image = format!(r#"<img class="icon" src="{path}""#);
        assert_eq!(page.text.matches(&image).count(), 1);
        assert!(
            page.header("content-security-policy")
                .contains("img-src 'self'")
        );
    }
    let file = site.get(&path).await;
    assert_eq!(file.status, 200);
    assert_eq!(file.header("content-type"), "image/png");
    assert_eq!(file.header("x-content-type-options"), "nosniff");
    assert!(file.header("content-security-policy").ends_with("sandbox"));
    assert!(file.header("cache-control").contains("immutable"));
    assert_eq!(file.text, String::from_utf8_lossy(PNG));
    let again = site
        .ask(&path, &[("if-none-match", file.header("etag"))])
        .await;
    assert_eq!(again.status, 304);
    let other = format!("/icon/{}.png", "0".repeat(32));
    for unknown in [&other, "/icon/..%2f..%2fetc.png", "/icon/x.png", "/icon/"] {
        assert_eq!(site.get(unknown).await.status, 404, "{unknown}");
    }
}

#[tokio::test]
async fn theme_is_stored_and_does_not_redirect_to_other_sites() {
    let site = Site::of(Arc::default()).await;
    let page = site.get("/theme?to=dark&back=%2F%3Fq%3Da%2Bb").await;
    assert_eq!(
        (page.status.as_u16(), page.header("location")),
        (303, "/?q=a+b")
    );
    assert!(page.header("set-cookie").starts_with("theme=dark; Path=/"));
    let back = [
        "https://example.com/",
        "//example.com",
        "/%5Cexample.com",
        "/\\example.com",
        "/a%0d%0aX:y",
        "x",
        "",
    ];
    for back in back {
        assert_eq!(
            site.get(&format!("/theme?to=light&back={back}"))
                .await
                .header("location"),
            "/",
            "{back}"
        );
    }
    assert_eq!(site.get("/theme?to=pink").await.status, 400);
    let dark = site.ask("/", &[("cookie", "a=b; theme=dark")]).await;
    assert!(dark.text.contains(r#"data-theme="dark""#));
    let odd = site.ask("/", &[("cookie", "theme=\"><x")]).await;
    assert!(odd.text.contains(r#"data-theme="auto""#));
}

#[tokio::test]
async fn servers_that_are_down_come_first_with_their_full_reason() {
    let site = Site::with(
        fleet::fleet(fleet::now()),
        fleet::history(fleet::now()).await,
    );
    let update = Update::of(vec![site.live.named("old-mill").unwrap().server.id]);
    let reason = format!("no answer within 3 s;{}", " the reason goes on".repeat(15));
    site.live.change(update, |row| {
        let error = PollError {
            kind: "silence".into(),
            message: reason.clone(),
        };
        row.error = Some(Arc::new(error));
    });
    assert_eq!(site.names("/").await[0], "old-mill");
    let text = site.get("/").await.text;
    let shown = format!("<span class=\"reason\">{reason}</span>");
    assert!(text.contains(&shown), "{text}");
    // Among the servers that are up, those with the most players come first.
    let up = site.names("/?state=up").await;
    assert_eq!(up, site.names("/?state=up&sort=players").await);
}

#[tokio::test]
async fn a_server_without_names_of_players_says_why() {
    let now = fleet::now();
    let site = Site::with(fleet::fleet(now), fleet::history(now).await);
    for (state, is_answered, players, why) in [
        (State::Down, false, None, "The server is down."),
        (State::Unknown, false, None, "The server has not answered."),
        (State::Up, true, Some(0), "No players are online."),
        (State::Up, true, Some(3), "The server lists no names."),
    ] {
        let update = Update::of(vec![site.live.named("harbour").unwrap().server.id]);
        site.live.change(update, |row| {
            row.state = state;
            row.last_status = None;
            let last = row.last_sample.as_mut().unwrap();
            last.is_answered = is_answered;
            last.players = players;
        });
        let page = site.get("/server/harbour").await.text;
        assert!(
            page.contains(&format!("<p class=\"quiet\">{why}</p>")),
            "{why}"
        );
    }
}

/// The history and the state table count the same outages in different units, and the table of the
/// first server has none of those in its history.
#[tokio::test]
async fn all_places_show_the_same_uptime_of_the_last_day() {
    let site = Site::with(
        fleet::fleet(fleet::now()),
        fleet::history(fleet::now()).await,
    );
    let list = site.get("/").await.text;
    for id in [1, 8, 21].map(ServerId) {
        let name = site.live.row(id).unwrap().server.name.clone();
        let page = site.get(&format!("/server/{name}")).await.text;
        let row = between(&list, &format!(r#"<tr id="s{}""#, id.0), "</tr>");
        let cell = between(row, r#"data-label="Uptime"><span class=""#, "</span>");
        let expected = cell.split_once('>').unwrap().1;
        assert!(expected.ends_with('%'), "{expected}");
        let figure = between(&page, "<dt>Uptime</dt><dd><bdi>", "<");
        let chart = between(&page, "<h2>Uptime</h2><span>", "<");
        let label = between(&page, r#"aria-label="Uptime, last 24 hours: "#, "\"");
        assert_eq!([figure, chart, label], [expected; 3], "{name}");
    }
}

/// Returns the text after `start` and before the next `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start}"));
    rest.split_once(end).unwrap().0
}

#[tokio::test]
async fn server_page_shows_history_and_last_answer() {
    let site = Site::with(
        fleet::fleet(fleet::now()),
        fleet::history(fleet::now()).await,
    );
    for (path, length) in [
        ("", "24 hours"),
        ("?range=7d", "7 days"),
        ("?range=30d", "30 days"),
        ("?range=1y", "1 year"),
    ] {
        let text = site.get(&format!("/server/harbour{path}")).await.text;
        let label = format!(r#"aria-label="Players, last {length}: mean "#);
        assert!(text.contains(&label), "{text}");
        assert!(
            text.matches("<title>").count() > 3 && text.contains(" players, max. "),
            "hover values"
        );
    }
    let text = site.get("/server/harbour").await.text;
    // Charts, events, sessions, rules and datagrams.
    for part in [
        "1.21.7 → 1.21.8",
        "Player_11",
        "Paper on Bukkit",
        "full stat reply",
        "session id",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let order = |text: &str, names: [&str; 2]| {
        names.map(|name| text.find(&format!("<bdi>{name}</bdi></th>")).unwrap())
    };
    let [first, second] = order(&text, ["Player_0", "Player_1"]);
    assert!(first < second, "who came last");
    let longest = site
        .get("/server/harbour?range=7d&sessions=played")
        .await
        .text;
    let [first, second] = order(&longest, ["Player_3", "Player_0"]);
    assert!(first < second, "who played longest");
    assert!(
        longest.contains(r#"<a href="/server/harbour?range=7d&#38;sessions=player#sessions">"#),
        "{longest}"
    );
    // One search filters all lists; players can be sorted by name.
    let some = site.get("/server/harbour?find=player_11").await.text;
    assert!(
        some.contains("Player_11") && !some.contains("Player_10") && !some.contains("<bdi>Ada0"),
        "{some}"
    );
    assert!(
        some.contains("No matching players.") && some.contains("No matching events."),
        "{some}"
    );
    assert!(
        some.contains(r#"<a href="/server/harbour?sessions=player&#38;find=player_11#sessions">"#),
        "{some}"
    );
    assert!(
        site.get("/server/harbour?find=1.21.7")
            .await
            .text
            .contains("1.21.7 → 1.21.8")
    );
    assert!(
        site.get("/server/harbour?find=paper")
            .await
            .text
            .contains("Paper on Bukkit")
    );
    let who = |text: &str| ["<bdi>Ada4<", "<bdi>Bo1<"].map(|name| text.find(name).unwrap());
    assert!(who(&text)[0] > who(&text)[1], "as the server has it");
    let named = site.get("/server/harbour?who=name").await.text;
    assert!(who(&named)[0] < who(&named)[1], "by name");
    let rules = site.get("/server/liberty").await.text;
    assert!(
        rules.contains("A committee") && rules.contains("Weather"),
        "{rules}"
    );
    let unknown = site.get("/server/newcomer").await.text;
    assert!(
        unknown.contains("No samples in this time range yet."),
        "{unknown}"
    );
    let down = site.get("/server/old-mill").await.text;
    assert!(down.contains("no answer within 3 s"), "{down}");

    let mut quiet = site.app.clone();
    quiet.has_player_names = false;
    let quiet = Site {
        router: router(quiet.clone()),
        app: quiet,
        live: site.live.clone(),
    };
    let text = quiet.get("/server/harbour").await.text;
    assert!(
        !text.contains("Player_11") && !text.contains("Ada0") && !text.contains("full stat reply"),
        "{text}"
    );
}

#[tokio::test]
async fn events_of_all_servers_can_be_searched() {
    let site = Site::with(
        fleet::fleet(fleet::now()),
        fleet::history(fleet::now()).await,
    );
    let all = site.get("/events").await.text;
    assert_eq!(all.matches("<li class=").count(), 16, "{all}");
    let some = site.get("/events?q=HARBOUR&kind=down").await.text;
    assert_eq!(some.matches("<li class=").count(), 1, "{some}");
    assert!(
        some.contains(r#"<a href="/server/harbour">"#) && some.contains("no answer within 3 s"),
        "{some}"
    );
    let place =
        |text: &str, what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(
        place(&all, "<b>Map") < place(&all, "<b>Down"),
        "the newest first"
    );
    let turned = site.get("/events?sort=time").await.text;
    assert!(place(&turned, "<b>Down") < place(&turned, "<b>Map"));
    let by_server = site.get("/events?sort=server").await.text;
    let last = by_server.rfind("/server/harbour").unwrap();
    assert!(
        last < place(&by_server, "/server/hostile") && last < place(&by_server, "/server/old-mill"),
        "{by_server}"
    );
    let hostile = site.get("/events?q=onerror").await.text;
    assert!(
        hostile.contains("&#60;img src=x") && !hostile.contains("<img"),
        "{hostile}"
    );
    let before = fleet::now() - 200 * 60_000;
    let old = site.get(&format!("/events?before={before}")).await.text;
    assert_eq!(old.matches("<li class=").count(), 10, "{old}");
    assert!(
        site.get("/events?kind=steady")
            .await
            .text
            .contains("No events")
    );
    site.live.remove(ServerId(1));
    assert!(site.get("/events").await.text.contains("removed server"));
}

/// The history of the fleet has no samples from 789 to 700 minutes ago.
#[tokio::test]
async fn times_without_monitor_are_gaps_in_lists_charts_and_sparklines() {
    let now = fleet::now();
    let history = fleet::history(now).await;
    let before = Event {
        server: ServerId(1),
        at: now - 1_000 * 60_000,
        kind: EventKind::Up,
    };
    let events = vec![before];
    let batch = Batch {
        events,
        ..Batch::default()
    };
    history.write(&batch).await.unwrap();
    for from in [now - 900 * 60_000, 0, i64::MIN] {
        let gaps = history.gaps(from, now, 60_000).await.unwrap();
        let lengths: Vec<i64> = gaps.iter().map(|gap| gap.to - gap.from).collect();
        assert_eq!(lengths, [91 * 60_000], "from {from}");
    }
    let longer = history.gaps(0, now, 2 * 3_600_000).await.unwrap();
    assert_eq!(longer, [], "each server is polled every 2 hours");
    let live = Arc::new(StateTable::default());
    let one = fleet::fleet(now).row(ServerId(1)).unwrap();
    live.set(one.server);
    history.load_day(&live, now).await.unwrap();
    let site = Site::with(live.clone(), history);
    let gap = r#"<li class="gap"><time"#;
    let text = "no samples until ";
    for path in [
        "/events",
        "/events?kind=gap",
        "/events?sort=time",
        "/server/harbour",
    ] {
        let page = site.get(path).await.text;
        assert_eq!(page.matches(gap).count(), 1, "{path}: {page}");
        let item = between(&page, gap, "</li>");
        assert!(
            item.contains("<b>Not monitored</b>") && item.contains(text),
            "{path}: {item}"
        );
        assert!(
            item.contains("(1\u{202F}h 31\u{202F}min)"),
            "{path}: {item}"
        );
        assert!(!item.contains("removed server"), "{path}: {item}");
        let place = |what: &str| page.find(what).unwrap();
        if path == "/events" || path == "/server/harbour" {
            let outage = place(r#"<li class="down">"#);
            let first = page.rfind(r#"<li class="up">"#).unwrap();
            assert!(outage < place(gap) && place(gap) < first, "{path}");
        } else if path == "/events?sort=time" {
            assert!(place(r#"<li class="up">"#) < place(gap), "{path}");
            assert!(place(gap) < place(r#"<li class="down">"#), "{path}");
        }
    }
    for path in [
        "/events?kind=up",
        "/events?q=harbour",
        "/server/harbour?find=map",
    ] {
        assert!(!site.get(path).await.text.contains(gap), "{path}");
    }

    // Charts of five minutes: no line, column or text for at least 17 of the 91 minutes' buckets.
    let page = site.get("/server/harbour?range=24h").await.text;
    let charts: Vec<&str> = page.split(r#"<svg class="chart "#).skip(1).collect();
    assert_eq!(charts.len(), 3, "players, latency and uptime");
    for chart in charts {
        let hits = between(chart, r#"<g class="hits">"#, "</g>");
        let buckets: Vec<u32> = hits
            .split("<path d=\"M")
            .skip(1)
            .map(|hit| hit.split(' ').next().unwrap().parse().unwrap())
            .collect();
        let missing: Vec<u32> = buckets
            .windows(2)
            .map(|pair| pair[1] - pair[0] - 1)
            .filter(|missing| *missing > 0)
            .collect();
        assert!(
            matches!(missing[..], [17 | 18]),
            "one gap of 17 or 18 buckets: {missing:?}"
        );
        let edge = buckets.windows(2).find(|pair| pair[1] - pair[0] > 1);
        let after = edge.unwrap()[1];
        let (class, begin) = match chart.starts_with("share") {
            true => ("there", format!("M{after} ")),
            false => ("mean", format!("M{after}.5 ")),
        };
        let line = between(chart, &format!(r#"<path class="{class}" d=""#), "\"");
        assert!(
            line.contains(&begin),
            "a new line begins at {after}: {line}"
        );
    }
    // The sparkline has half-hour buckets. At least two have no samples.
    let list = site.get("/").await.text;
    let spark = between(&list, r#"<svg class="spark""#, "</svg>");
    let players = live.row(ServerId(1)).unwrap().day.players(now);
    let uptimes = live.row(ServerId(1)).unwrap().day.uptimes(now);
    let empty = uptimes.iter().filter(|uptime| uptime.is_none()).count();
    assert!((2..=3).contains(&empty), "{uptimes:?}");
    let line = between(spark, r#"<path class="mean" d=""#, "\"");
    let segments = players
        .split(Option::is_none)
        .filter(|part| !part.is_empty())
        .count();
    assert_eq!(line.matches('M').count(), segments, "{line}");
    assert!(segments >= 2, "{line}");
}

#[tokio::test]
async fn events_keep_their_order_across_pages() {
    let now = fleet::now();
    let history = History::open("sqlite::memory:").await.unwrap();
    // Three servers in turn; every second event is `down`, and three events have the same time
    // wherever a page may end.
    let event = |i: i64| Event {
        server: ServerId(i % 3 + 1),
        at: now - 1_000_000 + i / 3 * 1_000,
        kind: if i % 2 == 0 {
            EventKind::Down {
                reason: format!("reason {i}"),
            }
        } else {
            EventKind::Up
        },
    };
    let events: Vec<Event> = (0..350).map(event).collect();
    let sessions = (0..350_i64).map(|i| PlayerSession {
        server: ServerId(1),
        player: format!("Guest_{i}"),
        first: now - 900_000_000 + i * 1_000,
        last: now - 900_000_000 + i * 1_000 + (350 - i) * 60_000,
    });
    let sessions = sessions.collect();
    history
        .write(&Batch {
            events,
            sessions,
            ..Batch::default()
        })
        .await
        .unwrap();
    let site = Site::with(fleet::fleet(now), history);
    for (sort, key) in [
        ("", None),
        ("time", None),
        ("server", Some("<a href=\"/server/")),
        ("kind", Some("<b>")),
    ] {
        let mut address = format!("/events?sort={sort}&q=");
        let mut all = Vec::new();
        let mut pages = 0;
        loop {
            let text = site.get(&address).await.text;
            all.extend(
                text.split("<li class=")
                    .skip(1)
                    .map(|item| item.split("</li>").next().unwrap().to_owned()),
            );
            pages += 1;
            let Some((before, _)) = text.split_once("\" rel=\"next\">") else {
                break;
            };
            address = before
                .rsplit("href=\"")
                .next()
                .unwrap()
                .replace("&#38;", "&");
        }
        assert!(
            (3..=4).contains(&pages) && all.len() == 350,
            "{sort}: {pages} pages, {} events",
            all.len()
        );
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 350, "each once");
        let part = |item: &String, mark: &str| {
            item.split(mark)
                .nth(1)
                .unwrap()
                .split(['"', '<'])
                .next()
                .unwrap()
                .to_owned()
        };
        let times: Vec<String> = all.iter().map(|item| part(item, "datetime=\"")).collect();
        match key {
            None if sort.is_empty() => assert!(times.is_sorted_by(|a, b| a >= b)),
            None => assert!(times.is_sorted()),
            Some(key) => {
                let groups: Vec<String> = all.iter().map(|item| part(item, key)).collect();
                let changes = groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
                assert_eq!(
                    changes + 1,
                    groups.iter().collect::<HashSet<_>>().len(),
                    "{sort}: each stands together"
                );
            }
        }
    }
    // A search or a different order covers all rows, not only those of the first page.
    let usual = site.get("/server/harbour").await.text;
    assert!(
        usual.contains("Guest_349<") && !usual.contains("Guest_0<") && !usual.contains("reason 0<"),
        "{usual}"
    );
    let found = site.get("/server/harbour?find=Guest_0").await.text;
    assert!(found.contains("Guest_0<"), "{found}");
    assert!(
        site.get("/server/harbour?find=reason+0")
            .await
            .text
            .contains("reason 0<")
    );
    let longest = site.get("/server/harbour?sessions=played").await.text;
    let place = |name: &str| {
        longest
            .find(name)
            .unwrap_or_else(|| panic!("{name}: {longest}"))
    };
    assert!(
        place("Guest_0<") < place("Guest_1<") && !longest.contains("Guest_349<"),
        "{longest}"
    );
}

#[tokio::test]
async fn every_page_shows_problems_of_the_monitor() {
    let mut app = Site::of(Arc::default()).await.app;
    app.notice = Arc::new(|| Some("The disk is <full>.".into()));
    let site = Site {
        live: app.live.clone(),
        router: router(app.clone()),
        app,
    };
    for path in ["/", "/events", "/nowhere"] {
        let text = site.get(path).await.text;
        assert!(
            text.contains(r#"<p class="problem">The disk is &#60;full&#62;."#),
            "{text}"
        );
    }
    // An open page is notified when the problem ends.
    let wrong = Arc::new(AtomicBool::new(true));
    let mut app = Site::of(fleet::fleet(fleet::now())).await.app;
    let output = wrong.clone();
    app.notice = Arc::new(move || {
        output
            .load(Ordering::Relaxed)
            .then(|| "It is behind.".into())
    });
    let site = Site {
        live: app.live.clone(),
        router: router(app.clone()),
        app,
    };
    let request = Request::get("/live/rows?ids=3")
        .body(Body::empty())
        .unwrap();
    let mut body = site
        .router
        .clone()
        .oneshot(request)
        .await
        .unwrap()
        .into_body();
    wrong.store(false, Ordering::Relaxed);
    let mut received = String::new();
    while !received.contains("event: rows") {
        site.live.change(Update::of(vec![ServerId(3)]), |_| {});
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame())
            .await
            .expect("something comes")
            .unwrap();
        received.push_str(&String::from_utf8_lossy(
            &frame.unwrap().into_data().unwrap(),
        ));
    }
    assert!(
        received.contains(r#"<div id=\"notice\" role=\"status\"></div>"#),
        "{received}"
    );
    // Without the history, the rest of the page works.
    let live = fleet::fleet(fleet::now());
    let site = Site::of(live).await;
    site.app.history.close().await;
    let page = site.get("/server/harbour").await;
    assert!(
        page.status == 200
            && page
                .text
                .contains("The history cannot be read at the moment"),
        "{}",
        page.text
    );
    assert!(page.text.contains("full stat reply"));
}

#[tokio::test]
async fn event_streams_send_shown_rows_once_per_second() {
    let site = Site::of(fleet::fleet(fleet::now())).await;
    let request = Request::get("/live/rows?ids=3,x,4,")
        .body(Body::empty())
        .unwrap();
    let answer = site.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame())
            .await
            .expect("something comes");
        frame.map(|frame| String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    assert!(next().await.unwrap().contains("retry: 3000"));
    let change = |id, players| {
        site.live.change(Update::of(vec![ServerId(id)]), |row| {
            row.last_sample.as_mut().unwrap().players = Some(players);
            row.state = State::Up;
        });
    };
    change(1, 11);
    change(3, 33);
    let news = next().await.unwrap();
    assert!(news.starts_with("event: rows\ndata: {"), "{news}");
    assert!(
        news.contains("<b>33</b>") && !news.contains("<b>11</b>"),
        "{news}"
    );
    assert!(news.contains(r#"id=\"totals\""#), "{news}");
    change(4, 41);
    change(4, 42);
    let news = next().await.unwrap();
    assert!(
        news.contains("<b>42</b>") && !news.contains("<b>41</b>"),
        "{news}"
    );
    // Clients that miss updates receive the current state.
    for round in 0..600 {
        change(if round % 2 == 0 { 1 } else { 3 }, round);
    }
    let news = next().await.unwrap();
    assert!(
        news.contains("<b>599</b>") && news.contains("<b>42</b>"),
        "{news}"
    );
    site.live.change(
        Update {
            has_list_changed: true,
            ..Update::default()
        },
        |_| {},
    );
    assert!(next().await.unwrap().starts_with("event: list"));
    site.app.close();
    assert_eq!(next().await, None, "the monitor can stop");
}

#[tokio::test]
async fn event_page_is_notified_of_new_and_recent_events() {
    let site = Site::of(fleet::fleet(fleet::now())).await;
    let receive = async |since: i64| {
        let request = Request::get(format!("/live/events?since={since}"))
            .body(Body::empty())
            .unwrap();
        site.router
            .clone()
            .oneshot(request)
            .await
            .unwrap()
            .into_body()
    };
    let next = async |body: &mut Body| {
        let frame = tokio::time::timeout(Duration::from_secs(3), body.frame())
            .await
            .ok()?;
        Some(String::from_utf8(frame?.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    let at = fleet::now();
    let mut open = receive(at).await;
    assert!(next(&mut open).await.unwrap().contains("retry: 3000"));
    site.live.change(Update::of(vec![ServerId(3)]), |_| {});
    assert_eq!(next(&mut open).await, None, "a sample is not an event");
    let event = Event {
        server: ServerId(3),
        at,
        kind: EventKind::Up,
    };
    site.live.change(
        Update {
            events: vec![event],
            ..Update::default()
        },
        |_| {},
    );
    assert!(next(&mut open).await.unwrap().starts_with("event: changed"));
    for (since, is_new) in [(at, true), (at + 3_600_000, false)] {
        let mut body = receive(since).await;
        next(&mut body).await.unwrap();
        assert_eq!(next(&mut body).await.is_some(), is_new);
    }
}
