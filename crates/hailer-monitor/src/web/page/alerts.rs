//! What is told to whom, what is so now, and a button to see whether it arrives.
//!
//! Everybody may look, so nothing stands here that a receiver's address or error would tell. Whoever sends a test knows the token.

use crate::alert::{self, MessageState, NotificationKind};
use crate::history::HistoryError;
use crate::web::App;
use crate::web::api::Api;
use crate::web::page::row::Time;
use crate::web::page::{Frame, html};
use crate::web::show::{Cut, cut, length};
use askama::Template;
use axum::body::Bytes;
use axum::extract::State as Of;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::cmp::Reverse;
use std::time::Duration;

/// Messages shown, and names of servers in one line.
const MESSAGES: u32 = 50;
const OPEN: usize = 200;
const NAMES: usize = 3;
/// For the history.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest form that is read.
pub(crate) const LONGEST_FORM: usize = 4_096;

/// `/alerts`
pub(crate) async fn show(Of(app): Of<App>, asked: HeaderMap) -> Response {
    page(&app, &asked, StatusCode::OK, None).await
}

/// `POST /alerts/test`: a form with `to`, nobody for all, and `token`.
pub(crate) async fn test(Of(app): Of<App>, asked: HeaderMap, form: Bytes) -> Response {
    let (mut to, mut token) = (None, None);
    for (key, value) in form_urlencoded::parse(&form) {
        match &*key {
            "to" => to = Some(value.into_owned()).filter(|to| !to.is_empty()),
            "token" => token = Some(value.into_owned()),
            _ => {}
        }
    }
    let Some(api) = &app.api else {
        return page(&app, &asked, StatusCode::NOT_FOUND, None).await;
    };
    let token = token.unwrap_or_default();
    let (status, came) = match api.try_alerts(&asked, token.trim().as_bytes(), to).await {
        Ok(text) => (
            StatusCode::OK,
            Came {
                is_good: true,
                text,
            },
        ),
        Err(problem) => (
            problem.status(),
            Came {
                is_good: false,
                text: problem.detail().to_owned(),
            },
        ),
    };
    page(&app, &asked, status, Some(came)).await
}

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    frame: Frame,
    came: Option<Came>,
    problem: Option<&'static str>,
    /// What is so now, the newest first, and how much more.
    open: Vec<Open>,
    more: usize,
    rules: Vec<Rule>,
    /// Names, and what each is.
    receivers: Vec<(String, &'static str)>,
    messages: Vec<Message>,
    /// Whether anybody may send a test.
    has_token: bool,
}

/// What came of a test.
struct Came {
    is_good: bool,
    text: String,
}

struct Open {
    rule: String,
    /// `None`: the monitor itself, or a server that is watched no more.
    server: Option<String>,
    since: Time,
}

struct Rule {
    name: String,
    when: String,
    about: Cut,
    to: String,
}

struct Message {
    at: Time,
    rule: String,
    kind: &'static str,
    about: Cut,
    to: String,
    word: &'static str,
    state: &'static str,
}

async fn page(app: &App, asked: &HeaderMap, status: StatusCode, came: Option<Came>) -> Response {
    let now = app.now();
    let past: Result<Result<_, HistoryError>, _> =
        tokio::time::timeout(PATIENCE, alert::past(&app.history, MESSAGES)).await;
    let (past, problem) = match past {
        Ok(Ok(past)) => (past, None),
        _ => (Default::default(), Some("The history cannot be read now.")),
    };
    let (mut open, messages) = past;
    let more = open.len().saturating_sub(OPEN);
    open.sort_unstable_by_key(|open| Reverse(open.since));
    open.truncate(OPEN);
    let plan = app.api.as_ref().and_then(|api| api.alerts());
    let open = open.into_iter().map(|open| Open {
        rule: open.rule,
        server: open
            .server
            .and_then(|id| app.live.row(id))
            .map(|row| row.server.name.clone()),
        since: Time::of(open.since, now),
    });
    let page = Alerts {
        frame: Frame::new(app, asked, "/alerts".into()),
        came,
        problem,
        open: open.collect(),
        more,
        rules: plan
            .map(|plan| plan.rules().iter().map(Rule::of).collect())
            .unwrap_or_default(),
        receivers: plan
            .map(|plan| {
                plan.receivers()
                    .map(|outlet| (outlet.name.clone(), outlet.word()))
                    .collect()
            })
            .unwrap_or_default(),
        messages: messages
            .into_iter()
            .map(|message| Message::of(message, now))
            .collect(),
        has_token: app.api.as_ref().is_some_and(Api::has_token),
    };
    html(status, &page)
}

impl Rule {
    fn of(rule: &alert::Rule) -> Self {
        let mut when = rule.condition.to_string();
        if rule.lasts > 0 {
            when += &format!(" for {}", length(rule.lasts));
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

impl Message {
    fn of(message: alert::QueuedMessage, now: crate::sample::Millis) -> Self {
        let notification = &message.notification;
        let mut names: Vec<&str> = notification
            .items
            .iter()
            .map(|item| item.name.as_str())
            .collect();
        let more = notification.more as usize + names.len().saturating_sub(NAMES);
        names.truncate(NAMES);
        let mut about = names.join(", ");
        if more > 0 {
            about += &format!(" and {more} more");
        }
        let (word, state) = match message.state {
            MessageState::Waiting => (
                "unknown",
                if message.is_held {
                    "waits for the end of quiet hours"
                } else {
                    "on its way"
                },
            ),
            MessageState::Done => ("up", "arrived"),
            MessageState::GivenUp => ("down", "given up"),
        };
        Self {
            at: Time::of(message.made, now),
            rule: notification.rule.clone(),
            kind: match notification.kind {
                NotificationKind::Firing => "is so",
                NotificationKind::Repeated => "is still so",
                NotificationKind::Resolved => "is over",
                NotificationKind::Test => "test",
            },
            about: cut(&about, 120),
            to: message.receiver,
            word,
            state,
        }
    }
}
