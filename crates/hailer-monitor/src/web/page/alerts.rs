//! Alerts: open incidents, rules, recent messages, and a form that sends a test message.
//!
//! The page needs no token, so it shows neither addresses nor errors of receivers. Sending a test
//! message does need the token.

use crate::alert::{self, ConditionKind, MessageState, NotificationKind};
use crate::history::HistoryError;
use crate::sample::unix_millis;
use crate::web::App;
use crate::web::api::Api;
use crate::web::page::row::Time;
use crate::web::page::{Frame, html};
use crate::web::show::{ShortText, cut, length};
use askama::Template;
use axum::body::Bytes;
use axum::extract::State as Of;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::cmp::Reverse;
use std::time::Duration;

/// Maximum number of messages shown.
const MAX_MESSAGES: u32 = 50;
/// Maximum number of open incidents shown; the others are counted.
const MAX_OPEN: usize = 200;
/// Maximum number of server names in one line; the others are counted.
const MAX_NAMES: usize = 3;
/// Maximum time to read the history.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the submitted form, in bytes.
pub(crate) const MAX_FORM_BYTES: usize = 4_096;

/// `/alerts`
pub(crate) async fn show(Of(app): Of<App>, headers: HeaderMap) -> Response {
    page(&app, &headers, StatusCode::OK, None).await
}

/// `POST /alerts/test`: a form with `to` (empty: all receivers) and `token`.
pub(crate) async fn test(Of(app): Of<App>, headers: HeaderMap, form: Bytes) -> Response {
    let mut to = None;
    let mut token = None;
    for (key, value) in form_urlencoded::parse(&form) {
        match &*key {
            "to" => to = Some(value.into_owned()).filter(|to| !to.is_empty()),
            "token" => token = Some(value.into_owned()),
            _ => {}
        }
    }
    let Some(api) = &app.api else {
        return page(&app, &headers, StatusCode::NOT_FOUND, None).await;
    };
    let token = token.unwrap_or_default();
    let (status, result) = match api.try_alerts(&headers, token.trim().as_bytes(), to).await {
        Ok(text) => (
            StatusCode::OK,
            TestResult {
                is_good: true,
                text,
            },
        ),
        Err(problem) => (
            problem.status(),
            TestResult {
                is_good: false,
                text: problem.detail().to_owned(),
            },
        ),
    };
    page(&app, &headers, status, Some(result)).await
}

#[derive(Template)]
#[template(path = "alerts.html")]
struct AlertsPage {
    frame: Frame,
    result: Option<TestResult>,
    problem: Option<&'static str>,
    /// Open incidents, the newest first.
    open: Vec<OpenView>,
    /// Number of open incidents not shown.
    more: usize,
    rules: Vec<Rule>,
    /// Name and kind of each receiver.
    receivers: Vec<(String, &'static str)>,
    messages: Vec<MessageView>,
    /// Whether a token is configured, which the test form needs.
    has_token: bool,
}

/// Result of a test message.
struct TestResult {
    is_good: bool,
    text: String,
}

struct OpenView {
    rule: String,
    /// `None`: the monitor itself, or a removed server.
    server: Option<String>,
    since: Time,
}

struct Rule {
    name: String,
    when: String,
    about: ShortText,
    to: String,
}

struct MessageView {
    at: Time,
    rule: String,
    kind: &'static str,
    about: ShortText,
    to: String,
    word: &'static str,
    state: &'static str,
}

async fn page(
    app: &App,
    headers: &HeaderMap,
    status: StatusCode,
    result: Option<TestResult>,
) -> Response {
    let now = unix_millis();
    let past: Result<Result<_, HistoryError>, _> =
        tokio::time::timeout(HISTORY_TIMEOUT, alert::stored(&app.history, MAX_MESSAGES)).await;
    let (past, problem) = match past {
        Ok(Ok(past)) => (past, None),
        _ => (
            Default::default(),
            Some("The history cannot be read at the moment."),
        ),
    };
    let (mut open, mut messages) = past;
    // The stored order is that of delivery, and held messages are delivered late.
    messages.sort_by_key(|message| Reverse(message.made));
    let more = open.len().saturating_sub(MAX_OPEN);
    open.sort_unstable_by_key(|open| Reverse(open.since));
    open.truncate(MAX_OPEN);
    let config = app.api.as_ref().and_then(|api| api.alerts());
    let open = open.into_iter().map(|open| OpenView {
        rule: if open.key.is_flapping {
            format!("{}: flapping", open.key.rule)
        } else {
            open.key.rule
        },
        server: open
            .key
            .server
            .and_then(|id| app.live.row(id))
            .map(|row| row.server.name.clone()),
        since: Time::of(open.since, now),
    });
    let page = AlertsPage {
        frame: Frame::new(app, headers, "/alerts".into()),
        result,
        problem,
        open: open.collect(),
        more,
        rules: config
            .map(|config| config.rules().iter().map(Rule::of).collect())
            .unwrap_or_default(),
        receivers: config
            .map(|config| {
                config
                    .receivers()
                    .map(|receiver| (receiver.name.clone(), receiver.word()))
                    .collect()
            })
            .unwrap_or_default(),
        messages: messages
            .into_iter()
            .map(|message| MessageView::of(message, now))
            .collect(),
        has_token: app.api.as_ref().is_some_and(Api::has_token),
    };
    html(status, &page)
}

impl Rule {
    fn of(rule: &alert::Rule) -> Self {
        let mut when = rule.condition.to_string();
        if rule.min_duration > 0 {
            when += &format!(" for {}", length(rule.min_duration));
        }
        let alert::ServerFilter {
            servers,
            groups,
            labels,
        } = &rule.filter;
        let mut about: Vec<String> = servers.clone();
        about.extend(groups.iter().map(|group| format!("group {group}")));
        about.extend(
            labels
                .iter()
                .map(|(label, value)| format!("{label} = {value}")),
        );
        let about = if about.is_empty() {
            "all servers".to_owned()
        } else {
            about.join(", ")
        };
        Self {
            name: rule.name.clone(),
            when,
            about: cut(&about, 120),
            to: rule.to.join(", "),
        }
    }
}

impl MessageView {
    fn of(message: alert::QueuedMessage, now: crate::sample::Millis) -> Self {
        let notification = &message.notification;
        let mut names: Vec<&str> = notification
            .items
            .iter()
            .map(|item| item.name.as_str())
            .collect();
        let more = notification.more as usize + names.len().saturating_sub(MAX_NAMES);
        names.truncate(MAX_NAMES);
        let mut about = names.join(", ");
        if more > 0 {
            about += &format!(" and {more} more");
        }
        let (word, state) = match message.state {
            MessageState::Waiting => (
                "unknown",
                if message.is_held {
                    "held until quiet hours end,"
                } else {
                    "being sent"
                },
            ),
            MessageState::Done => ("up", "delivered"),
            MessageState::GivenUp => ("down", "discarded"),
            MessageState::Merged => ("unknown", "merged into a later message"),
        };
        Self {
            at: Time::of(message.made, now),
            rule: match notification.condition {
                ConditionKind::Flapping => format!("{}: flapping", notification.rule),
                _ => notification.rule.clone(),
            },
            kind: match notification.kind {
                NotificationKind::Firing => "firing",
                NotificationKind::Repeated => "still firing",
                NotificationKind::Resolved => "resolved",
                NotificationKind::Test => "test",
            },
            about: cut(&about, 120),
            to: message.receiver,
            word,
            state,
        }
    }
}
