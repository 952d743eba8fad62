//! HTML pages, and their common frame.
//!
//! In: state, history and parameters of requests. Out: HTML.
//!
//! May import: `crate::alert`, `crate::health`, `crate::history`, `crate::sample`, `crate::server`,
//! `crate::state`, `crate::uptime`, `crate::web`, `crate::web::api`, `crate::web::chart`,
//! `crate::web::motd`, `crate::web::show`, `crate::web::tagged`, `hailer`.

pub(crate) mod alerts;
mod answer;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod overview;
mod past;
pub(crate) mod row;
pub(crate) mod server;
pub(crate) mod total_tiles;

use crate::web::App;
use crate::web::api::Problem;
use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use std::sync::Arc;

/// Lifetime of the theme cookie, in seconds: one year.
const THEME_COOKIE_SECONDS: u32 = 365 * 86_400;
/// Maximum length of the URL to return to, in bytes.
const MAX_BACK_BYTES: usize = 1_024;

/// Common parts of all pages.
pub(crate) struct Frame {
    /// Title of the site.
    site: Arc<str>,
    theme: Theme,
    /// URL of this page, to return to after changing the theme.
    here: String,
    style: String,
    script: String,
    icon: String,
    /// Problem of the monitor, as HTML.
    notice: String,
    /// Whether the API is available.
    has_api: bool,
}

/// Color theme of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// Theme of the system.
    Auto,
    Light,
    Dark,
}

impl Theme {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Auto, "auto", "System theme"),
        (Self::Light, "light", "Light"),
        (Self::Dark, "dark", "Dark"),
    ];

    fn word(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(theme, ..)| *theme == self)
            .map_or("auto", |(_, word, _)| word)
    }

    fn of(headers: &HeaderMap) -> Self {
        let cookies = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let word = pairs
            .find(|(name, _)| *name == "theme")
            .map_or("auto", |(_, word)| word);
        Self::ALL
            .iter()
            .find(|(_, known, _)| *known == word)
            .map_or(Self::Auto, |(theme, ..)| *theme)
    }
}

impl Frame {
    pub(crate) fn new(app: &App, headers: &HeaderMap, here: String) -> Self {
        Self {
            site: app.title.clone(),
            theme: Theme::of(headers),
            here,
            style: files::address("style.css"),
            script: files::address("page.js"),
            icon: files::address("icon.svg"),
            notice: notice(app),
            has_api: app.api.is_some(),
        }
    }

    /// Returns keyword, label and whether it is chosen, for each theme.
    fn themes(&self) -> [(&'static str, &'static str, bool); 3] {
        Theme::ALL.map(|(theme, word, meaning)| (word, meaning, theme == self.theme))
    }
}

/// Renders a page.
pub(crate) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => {
            let mut answer = (status, Html(text)).into_response();
            answer
                .headers_mut()
                .insert(header::VARY, HeaderValue::from_static("cookie"));
            answer
        }
        // Fails only on an error in a template.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct Failed<'a> {
    frame: Frame,
    status: StatusCode,
    text: &'a str,
}

/// Returns an error page.
pub(crate) fn error(app: &App, headers: &HeaderMap, status: StatusCode, text: &str) -> Response {
    html(
        status,
        &Failed {
            frame: Frame::new(app, headers, "/".into()),
            status,
            text,
        },
    )
}

/// Returns an error page with the text of an API error.
pub(crate) fn problem(app: &App, headers: &HeaderMap, problem: &Problem) -> Response {
    let mut text = problem.detail().to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text.push('.');
    let mut answer = error(app, headers, problem.status(), &text);
    if let Some(seconds) = problem.retry_after() {
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

#[derive(Template)]
#[template(path = "notice.html")]
struct NoticeView {
    notice: Option<String>,
}

/// Returns the notice as HTML: a problem of the monitor, or an empty element.
pub(crate) fn notice(app: &App) -> String {
    NoticeView {
        notice: (app.notice)(),
    }
    .render()
    .unwrap_or_default()
}

/// Fallback for unknown URLs.
pub(super) async fn not_found(State(app): State<App>, headers: HeaderMap) -> Response {
    error(
        &app,
        &headers,
        StatusCode::NOT_FOUND,
        "There is no page at this address.",
    )
}

/// Fallback for other methods than GET.
pub(super) async fn not_allowed(State(app): State<App>, headers: HeaderMap) -> Response {
    error(
        &app,
        &headers,
        StatusCode::METHOD_NOT_ALLOWED,
        "This page accepts only GET requests.",
    )
}

/// `/theme?to=WORD&back=PATH`: sets the theme without a script.
pub(super) async fn theme(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let query = query.unwrap_or_default();
    let value = |key: &str| form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == key);
    let wanted =
        value("to").and_then(|(_, to)| Theme::ALL.into_iter().find(|(_, word, _)| *word == to));
    let Some((_, word, _)) = wanted else {
        return error(
            &app,
            &headers,
            StatusCode::BAD_REQUEST,
            "The theme must be auto, light or dark.",
        );
    };
    let back = value("back")
        .map(|(_, back)| back.into_owned())
        .filter(|back| is_local_path(back));
    let mut answer = Redirect::to(back.as_deref().unwrap_or("/")).into_response();
    let cookie = format!("theme={word}; Path=/; Max-Age={THEME_COOKIE_SECONDS}; SameSite=Lax");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

/// Whether a URL is a path on this site, to prevent open redirects.
fn is_local_path(address: &str) -> bool {
    let is_path = address.starts_with('/') && !address.starts_with("//") && !address.contains('\\');
    is_path
        && address.len() <= MAX_BACK_BYTES
        && address.bytes().all(|byte| byte.is_ascii_graphic())
        && {
            address
                .parse::<Uri>()
                .is_ok_and(|uri| uri.authority().is_none())
        }
}
