//! Whole pages, and what they have in common.

pub(crate) mod alerts;
mod answer;
pub(crate) mod events;
pub(crate) mod filter;
pub(crate) mod overview;
mod past;
pub(crate) mod row;
pub(crate) mod server;
pub(crate) mod totals;

use crate::web::api::Problem;
use crate::web::{App, files};
use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use std::sync::Arc;

/// How long a browser remembers whether somebody likes it dark, in seconds: a year.
const REMEMBERED: u32 = 365 * 86_400;
/// The longest address to go back to.
const LONGEST_BACK: usize = 1_024;

/// What is around the content of every page.
pub(crate) struct Frame {
    /// What the monitor is called.
    site: Arc<str>,
    theme: Theme,
    /// This page, to come back to.
    here: String,
    style: String,
    script: String,
    icon: String,
    /// What is wrong with the monitor itself, in HTML.
    notice: String,
    /// Whether programs are answered too.
    has_api: bool,
}

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// As the system has it.
    Auto,
    Light,
    Dark,
}

impl Theme {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Auto, "auto", "As the system"),
        (Self::Light, "light", "Light"),
        (Self::Dark, "dark", "Dark"),
    ];

    fn word(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(theme, ..)| *theme == self)
            .map_or("auto", |(_, word, _)| word)
    }

    fn of(asked: &HeaderMap) -> Self {
        let cookies = asked
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
    pub(crate) fn new(app: &App, asked: &HeaderMap, here: String) -> Self {
        Self {
            site: app.title.clone(),
            theme: Theme::of(asked),
            here,
            style: files::address("style.css"),
            script: files::address("page.js"),
            icon: files::address("icon.svg"),
            notice: notice(app),
            has_api: app.api.is_some(),
        }
    }

    /// The choices of the switch: word, what it means, whether it is chosen.
    fn themes(&self) -> [(&'static str, &'static str, bool); 3] {
        Theme::ALL.map(|(theme, word, meaning)| (word, meaning, theme == self.theme))
    }
}

/// A page, ready to be sent.
pub(crate) fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => {
            let mut answer = (status, Html(text)).into_response();
            answer
                .headers_mut()
                .insert(header::VARY, HeaderValue::from_static("cookie"));
            answer
        }
        // Templates fail only where a value of ours does.
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

/// A page that says what went wrong.
pub(crate) fn error(app: &App, asked: &HeaderMap, status: StatusCode, text: &str) -> Response {
    html(
        status,
        &Failed {
            frame: Frame::new(app, asked, "/".into()),
            status,
            text,
        },
    )
}

/// The same, of what programs are told in JSON.
pub(crate) fn problem(app: &App, asked: &HeaderMap, problem: &Problem) -> Response {
    let mut text = problem.detail().to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text.push('.');
    let mut answer = error(app, asked, problem.status(), &text);
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

/// What is wrong with the monitor itself, or the place where it would stand.
pub(crate) fn notice(app: &App) -> String {
    NoticeView {
        notice: (app.notice)(),
    }
    .render()
    .unwrap_or_default()
}

/// Whatever else was asked for.
pub(super) async fn not_found(State(app): State<App>, asked: HeaderMap) -> Response {
    error(
        &app,
        &asked,
        StatusCode::NOT_FOUND,
        "There is no such page.",
    )
}

/// A page that cannot be written to.
pub(super) async fn not_allowed(State(app): State<App>, asked: HeaderMap) -> Response {
    error(
        &app,
        &asked,
        StatusCode::METHOD_NOT_ALLOWED,
        "This page can only be looked at.",
    )
}

/// `/theme?to=WORD&back=PATH`: the switch of those without scripts.
pub(super) async fn theme(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    asked: HeaderMap,
) -> Response {
    let query = query.unwrap_or_default();
    let value = |key: &str| form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == key);
    let wanted =
        value("to").and_then(|(_, to)| Theme::ALL.into_iter().find(|(_, word, _)| *word == to));
    let Some((_, word, _)) = wanted else {
        return error(
            &app,
            &asked,
            StatusCode::BAD_REQUEST,
            "Choose auto, light or dark.",
        );
    };
    let back = value("back")
        .map(|(_, back)| back.into_owned())
        .filter(|back| is_ours(back));
    let mut answer = Redirect::to(back.as_deref().unwrap_or("/")).into_response();
    let cookie = format!("theme={word}; Path=/; Max-Age={REMEMBERED}; SameSite=Lax");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

/// Whether an address leads to a page of ours, and not to where somebody else would like.
fn is_ours(address: &str) -> bool {
    let is_path = address.starts_with('/') && !address.starts_with("//") && !address.contains('\\');
    is_path
        && address.len() <= LONGEST_BACK
        && address.bytes().all(|byte| byte.is_ascii_graphic())
        && {
            address
                .parse::<Uri>()
                .is_ok_and(|uri| uri.authority().is_none())
        }
}
