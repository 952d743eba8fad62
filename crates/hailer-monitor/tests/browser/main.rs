//! Pages in a real browser: Chromium from the system, headless. Without Chromium, the test prints a
//! message and passes, unless `HAILER_NEEDS_CHROMIUM=1`. Screenshots are in the temporary folder of
//! the build.

mod driver;
use hailer_testkit::fleet;

use driver::Browser;
use futures_util::future::BoxFuture;
use hailer_monitor::alert::{self, CheckedConfig};
use hailer_monitor::history::{Batch, History};
use hailer_monitor::sample::{Event, EventKind};
use hailer_monitor::server::ServerId;
use hailer_monitor::state::{StateTable, Update};
use hailer_monitor::test_alert::{TestAlert, TestAlertError};
use hailer_monitor::web::api::{Api, ApiBackend, ApiConfig, Token};
use hailer_monitor::web::{App, LIMITS, serve};
use std::sync::Arc;

/// The pages of a fleet on a free port.
struct Site {
    runtime: tokio::runtime::Runtime,
    live: Arc<StateTable>,
    history: History,
    address: String,
}

impl Site {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let now = fleet::now();
        let live = fleet::fleet(now);
        let history = runtime.block_on(fleet::history(now));
        let mut app = App::new(live.clone(), history.clone());
        let alerts: Option<Arc<dyn TestAlert>> = Some(Arc::new(Alerts(alerts())));
        let parts = ApiBackend {
            live: live.clone(),
            history: history.clone(),
            watchlist: None,
            alerts,
            health: Arc::new(Default::default),
        };
        let config = ApiConfig {
            token: Some(Token::new(TOKEN).unwrap()),
            ..ApiConfig::default()
        };
        app.api = Some(Api::new(parts, config));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))
            .unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(serve(listener, app, LIMITS, std::future::pending()));
        Self {
            runtime,
            live,
            history,
            address,
        }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }
}

const TOKEN: &str = "a-token-for-tests-only";

/// One receiver that accepts messages, and one that does not.
fn alerts() -> CheckedConfig {
    let plan = "
        [[receiver]]
        name = 'ops'
        command = ['true']
        [[receiver]]
        name = 'deaf'
        command = ['false']
        [[alert]]
        name = 'lobbies & more'
        when = 'down'
        for = '5m'
        servers = ['lobby-*']
        to = ['ops', 'deaf']";
    toml::from_str::<alert::AlertConfig>(plan)
        .unwrap()
        .check(std::path::Path::new("."))
        .unwrap()
}

struct Alerts(CheckedConfig);

impl TestAlert for Alerts {
    fn config(&self) -> &CheckedConfig {
        &self.0
    }

    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>> {
        Box::pin(async move {
            let to = to.unwrap_or_else(|| "ops".into());
            self.0.test(&to).map_err(TestAlertError::Failed)?;
            Ok(format!("sent to {to}"))
        })
    }
}

#[test]
fn pages_work_in_chromium() {
    let Some(mut browser) = Browser::start() else {
        assert_ne!(
            std::env::var("HAILER_NEEDS_CHROMIUM").as_deref(),
            Ok("1"),
            "Chromium is missing: apt install chromium"
        );
        println!("skipped: there is no chromium here (apt install chromium)");
        return;
    };
    let site = Site::start();
    for (name, part) in PARTS {
        println!("{name}");
        part(&mut browser, &site);
        let complaints = std::mem::take(&mut browser.complaints);
        assert!(
            complaints.is_empty(),
            "{name}: the browser complained: {complaints:#?}"
        );
    }
}

type Part = fn(&mut Browser, &Site);

const PARTS: &[(&str, Part)] = &[
    ("overview", overview),
    ("search", search),
    ("detail", detail),
    ("live update", live_update),
    ("alerts", try_alerts),
    ("phone", phone),
    ("no script", no_script),
    ("keyboard", keyboard),
    ("hostile names", hostile),
    ("light and dark", light_and_dark),
];

fn overview(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.prefer("light");
    browser.open(&site.at("/"));
    assert_eq!(
        browser.eval("document.querySelectorAll('#rows > tr').length"),
        site.live.len()
    );
    assert_eq!(
        browser.text("document.querySelector('tr.down .word').textContent"),
        "down"
    );
    assert!(
        browser
            .text("getComputedStyle(document.querySelector('.servers')).borderTopLeftRadius")
            .ends_with("px")
    );
    browser.wait("document.querySelector('#link').textContent === 'live'");
    // Colors of the game arrive as classes, which the style sheet defines.
    browser.open(&site.at("/?q=market"));
    assert_eq!(
        browser.text("document.querySelector('#rows .motd .mu').textContent"),
        "open all night"
    );
    let color = "getComputedStyle(document.querySelector('#rows .motd .c3')).color";
    let plain = "getComputedStyle(document.querySelector('#rows .motd')).color";
    assert_eq!(browser.eval(&format!("{color} !== {plain}")), true);
    browser.open(&site.at("/"));
    browser.picture("overview-light", false);
    browser.prefer("dark");
    browser.picture("overview-dark", false);
}

fn search(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.open(&site.at("/"));
    browser.keys(&["/", "a", "r", "e", "n", "a"]);
    browser.wait(
        "location.search === '?q=arena' && document.querySelectorAll('#rows > tr').length === 3",
    );
    assert_eq!(
        browser.text("document.activeElement.id"),
        "q",
        "the search field keeps the focus"
    );
    browser.eval("document.querySelector('th.name a').click()");
    browser.wait("location.search === '?q=arena&sort=name' && document.readyState === 'complete'");
    let names = "[...document.querySelectorAll('#rows th.name > a')].map((name) => name.textContent).join()";
    assert_eq!(browser.text(names), "arena-1,arena-2,arena-10");
    assert_eq!(
        browser.text("document.querySelector('th.name').ariaSort"),
        "ascending"
    );
    browser.eval("const s = document.querySelector('select[name=state]'); s.value = 'down'; s.dispatchEvent(new Event('input', {bubbles: true}))");
    browser.wait("document.querySelector('.empty h2')?.textContent === 'No matching servers'");
}

fn detail(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.prefer("dark");
    browser.open(&site.at("/"));
    browser.eval("document.querySelector('#rows a[href=\"/server/harbour\"]').click()");
    browser.wait("location.pathname === '/server/harbour' && document.readyState === 'complete'");
    assert_eq!(
        browser.text("document.querySelector('.screen .c6').textContent"),
        "Harbour"
    );
    let fields = browser.text("document.querySelector('#answer').textContent");
    assert!(
        fields.contains("full stat reply") && fields.contains("session id"),
        "{fields}"
    );
    // The arrow keys move the cross in all charts, as the mouse does.
    browser.eval("document.querySelector('svg.chart').focus()");
    browser.keys(&["ArrowLeft", "ArrowLeft"]);
    browser
        .wait("[...document.querySelectorAll('.tip')].filter((tip) => !tip.hidden).length === 3");
    assert!(
        browser
            .text("document.querySelector('.tip').textContent")
            .contains("players")
    );
    // Typing filters all lists; only they change.
    browser.eval("window.isSame = true");
    browser.keys(&["Escape", "/", "P", "l", "a", "y", "e", "r", "_", "7"]);
    browser.wait("document.querySelectorAll('#sessions tbody tr').length === 1");
    browser.wait("document.querySelector('#who .quiet')?.textContent === 'No matching players.'");
    assert_eq!(
        browser.eval("window.isSame && location.search === '?find=Player_7'"),
        true
    );
    browser.keys(&["Escape"]);
    browser.wait(
        "document.querySelectorAll('#sessions tbody tr').length === 12 && location.search === ''",
    );
    browser.eval("document.querySelector('svg.chart').focus()");
    browser.keys(&["ArrowLeft", "ArrowLeft"]);
    browser.wait("document.querySelector('.tip:not([hidden])')");
    browser.picture("server-dark", true);
    browser.keys(&["Escape"]);
    browser.wait("!document.querySelector('.tip:not([hidden])')");
    // The value under the mouse, another one further right, and none outside of the chart.
    let tip = "document.querySelector('svg.chart').parentElement.querySelector('.tip')";
    browser.point("document.querySelector('svg.chart')", 0.4, 0.5);
    browser.wait(&format!("!{tip}.hidden"));
    let before = browser.text(&format!("{tip}.textContent"));
    browser.point("document.querySelector('svg.chart')", 0.7, 0.5);
    browser.wait(&format!(
        "!{tip}.hidden && {tip}.textContent !== {before:?}"
    ));
    assert!(before.contains("players"), "{before}");
    browser.picture("server-mouse", false);
    browser.point("document.querySelector('h1')", 0.1, 0.1);
    browser.wait(&format!("{tip}.hidden"));
    browser.prefer("light");
    browser.picture("server-light", true);
    for range in ["7d", "1y"] {
        browser.open(&site.at(&format!("/server/harbour?range={range}")));
        browser.picture(&format!("server-{range}"), false);
    }
    browser.open(&site.at("/events"));
    browser.picture("events", false);
    browser.open(&site.at("/?state=down"));
    browser.picture("down", false);
}

fn live_update(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.open(&site.at("/?q=meadow"));
    browser.wait("document.querySelector('#link').textContent === 'live'");
    browser.eval("document.querySelector('#s3 a').focus(); window.isSame = true");
    change(site, 3, 97);
    browser.wait("document.querySelector('#s3 .players b').textContent === '97'");
    assert_eq!(browser.eval("window.isSame"), true, "it is the same page");
    let motion = "getComputedStyle(document.querySelector('#s3 .players')).animationName";
    browser.eval("document.querySelector('#s3 .players').classList.add('fresh')");
    assert_eq!(browser.text(motion), "fresh");
    browser.calm();
    assert_eq!(browser.text(motion), "none");
    assert_eq!(
        browser.text("document.activeElement.textContent"),
        "meadow",
        "the focus does not move"
    );
    browser.open(&site.at("/server/meadow"));
    browser.wait("document.querySelector('#link').textContent === 'live'");
    change(site, 3, 98);
    browser.wait("document.querySelector('.figures dd').textContent.startsWith('98')");
    site.live
        .set(fleet::server(ServerId(900), "brand-new", "", "ugp"));
    browser.open(&site.at("/"));
    browser.wait("document.querySelector('#link').textContent === 'live'");
    site.live.remove(ServerId(900));
    site.live.change(
        Update {
            has_list_changed: true,
            ..Update::default()
        },
        |_| {},
    );
    browser.wait("!document.querySelector('#s900')");
    browser.open(&site.at("/events?q=meadow"));
    browser.wait("document.querySelector('#link').textContent === 'live'");
    assert_eq!(
        browser.eval("document.querySelectorAll('.events li').length"),
        0
    );
    browser.eval("document.querySelector('#q').focus(); window.isSame = true");
    let event = Event {
        server: ServerId(3),
        at: fleet::now(),
        kind: EventKind::Down {
            reason: "cut off".into(),
        },
    };
    let batch = Batch {
        events: vec![event.clone()],
        ..Batch::default()
    };
    site.runtime.block_on(site.history.write(&batch)).unwrap();
    site.live.change(
        Update {
            events: vec![event],
            ..Update::default()
        },
        |_| {},
    );
    browser.wait("document.querySelector('.events li')?.textContent.includes('cut off')");
    assert_eq!(
        browser.eval("window.isSame && document.activeElement.id === 'q'"),
        true,
        "typing is not interrupted"
    );
    // New events do not belong on this page.
    browser.eval("const sort = document.querySelector('select[name=sort]'); sort.value = 'time'; sort.dispatchEvent(new Event('input', { bubbles: true }))");
    browser.wait("document.querySelector('#link').hidden");
}

fn try_alerts(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.prefer("light");
    browser.open(&site.at("/"));
    browser.click("document.querySelector('.places a[href=\"/alerts\"]')");
    browser.wait("document.title.startsWith('Alerts') && document.readyState === 'complete'");
    let rule = browser.text("document.querySelector('#rules tbody tr').textContent");
    assert!(
        rule.contains("lobbies & more") && rule.contains("lobby-*") && rule.contains("ops, deaf"),
        "{rule}"
    );
    let mut send = |to: &str, token: &str| {
        browser.open(&site.at("/alerts"));
        browser.eval(&format!(
            "document.querySelector('.try select').value = {to:?}"
        ));
        browser.eval("document.querySelector('.try input[type=password]').focus()");
        browser.keys(
            &token
                .chars()
                .map(String::from)
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        );
        browser.click("document.querySelector('.try button')");
        browser.wait("document.querySelector('#result') && document.readyState === 'complete'");
        browser.picture(&format!("alerts-{to}"), false);
        browser.text("document.querySelector('#result').className + ': ' + document.querySelector('#result').textContent")
    };
    assert_eq!(send("ops", TOKEN), "result: sent to ops");
    assert!(send("deaf", TOKEN).starts_with("problem: "));
    assert_eq!(send("ops", "a-guess"), "problem: wrong token");
    // The browser reports rejected requests as errors.
    browser.complaints.retain(|complaint| {
        !["401", "502"]
            .iter()
            .any(|status| complaint.contains(status))
    });
}

fn change(site: &Site, id: i64, players: u32) {
    site.live.change(Update::of(vec![ServerId(id)]), |row| {
        let last = row.last_sample.as_mut().unwrap();
        last.players = Some(players);
        last.at = fleet::now();
    });
}

fn phone(browser: &mut Browser, site: &Site) {
    browser.page(360, 740, true);
    browser.prefer("light");
    for (name, path) in [
        ("phone-overview", "/"),
        ("phone-alerts", "/alerts"),
        ("phone-server", "/server/harbour"),
        ("phone-long", "/server/long"),
    ] {
        browser.open(&site.at(path));
        let width = browser.eval("document.documentElement.scrollWidth");
        assert_eq!(
            width,
            360,
            "{path} scrolls sideways: {}",
            browser.text(WIDE)
        );
        browser.picture(name, false);
    }
    browser.open(&site.at("/nowhere"));
    assert_eq!(
        browser.text("document.querySelector('.error .code').textContent"),
        "404"
    );
    assert_eq!(browser.eval("document.documentElement.scrollWidth"), 360);
    // The 404 is expected.
    browser
        .complaints
        .retain(|complaint| !complaint.contains("404"));
}

/// Returns the widest elements.
const WIDE: &str =
    "[...document.querySelectorAll('*')].filter((one) => one.getBoundingClientRect().right > 361)
    .slice(0, 5).map((one) => one.outerHTML.slice(0, 80)).join(' | ')";

fn no_script(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.without_scripts();
    browser.open(&site.at("/"));
    assert_eq!(
        browser.eval("document.documentElement.classList.contains('js')"),
        false
    );
    browser.eval("document.querySelector('#q').value = 'node'; document.querySelector('.choices .button').click()");
    browser.wait("location.search.includes('q=node') && document.readyState === 'complete'");
    assert_eq!(
        browser.eval("document.querySelectorAll('#rows > tr').length"),
        18
    );
    browser.eval("document.querySelector('.theme button[value=dark]').click()");
    browser.wait(
        "document.documentElement.dataset.theme === 'dark' && document.readyState === 'complete'",
    );
    assert!(
        browser.text("location.search").contains("q=node"),
        "back on the previous page"
    );
    browser.open(&site.at("/server/harbour?range=7d"));
    assert_eq!(
        browser.text("document.documentElement.dataset.theme"),
        "dark",
        "remembered"
    );
    assert_eq!(
        browser.text("document.querySelector('.ranges [aria-current]').textContent"),
        "7 days"
    );
    browser.eval("document.querySelector('#q').value = 'Player_3'; document.querySelector('#filter .button').click()");
    browser.wait(
        "location.search === '?range=7d&find=Player_3' && document.readyState === 'complete'",
    );
    assert_eq!(
        browser.eval("document.querySelectorAll('#sessions tbody tr').length"),
        1
    );
    assert!(
        browser
            .eval("document.querySelectorAll('.hits title').length")
            .as_u64()
            .unwrap()
            > 20,
        "values of charts"
    );
}

fn keyboard(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.open(&site.at("/"));
    browser.keys(&["Tab"]);
    assert_eq!(browser.text("document.activeElement.className"), "skip");
    let visible = "document.activeElement.getBoundingClientRect().top >= 0";
    browser.wait(visible);
    browser.keys(&["Enter"]);
    browser.wait("document.activeElement.id === 'main'");
    browser.keys(&["Tab"]);
    let ring = browser.text("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(ring, "solid", "the focus is seen");
    browser.keys(&["/"]);
    assert_eq!(browser.text("document.activeElement.id"), "q");
}

fn hostile(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    for path in [
        "/?q=hostile",
        "/server/hostile",
        "/?q=%3Cscript%3Edocument.title%3D%27owned%27%3C/script%3E",
    ] {
        browser.open(&site.at(path));
        browser.wait("document.querySelector('#link').textContent === 'live'");
        assert_ne!(browser.text("document.title"), "owned");
        assert_eq!(
            browser.eval("document.querySelectorAll('main img, main script, main b b').length"),
            0,
            "{path}"
        );
    }
    browser.open(&site.at("/?q=hostile"));
    change(site, 21, 77);
    browser.wait("document.querySelector('#s21 .players b').textContent === '77'");
    assert_eq!(
        browser.eval("document.querySelectorAll('main img, main script').length"),
        0,
        "also after an update"
    );
    assert!(
        browser
            .text("document.querySelector('#s21 .motd').textContent")
            .starts_with(fleet::HOSTILE)
    );
    browser.open(&site.at("/server/hostile"));
    assert!(
        browser
            .text("document.querySelector('.who').textContent")
            .contains("<b>Mallory</b>gnp")
    );
    browser.picture("hostile", true);
}

fn light_and_dark(browser: &mut Browser, site: &Site) {
    browser.page(1360, 1000, false);
    browser.prefer("light");
    browser.open(&site.at("/"));
    let ground = "getComputedStyle(document.documentElement).backgroundColor";
    let light = browser.text(ground);
    browser.eval("document.querySelector('.theme button[value=dark]').click()");
    let dark = browser.text(ground);
    assert_ne!(light, dark);
    browser.open(&site.at("/server/market"));
    assert_eq!(browser.text(ground), dark, "remembered");
    browser.prefer("dark");
    browser.eval("document.querySelector('.theme button[value=light]').click()");
    assert_eq!(browser.text(ground), light);
}
