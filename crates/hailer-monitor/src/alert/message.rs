//! Messages put into words, in the form of each service. What servers say is hostile: it means nothing but itself anywhere.
//!
//! The form `json` is ours, and has its schema in `schema/alert-v1.json`:
//!
//! ```json
//! {"schema": "hailer/alert/1", "id": "KEY", "kind": "firing", "at": "2026-11-21T12:00:00Z", "title": "…", "text": "…", "url": "…",
//!  "alerts": [{"rule": "lobbies", "condition": "down", "kind": "firing", "at": "…", "priority": "default", "count": 1, "more": 0,
//!    "servers": [{"id": 7, "name": "lobby-1", "group": "eu", "target": "ugp://…", "state": "down", "since": "…", "error": "…"}]}]}
//! ```
//!
//! After quiet hours `kind` is `summary`, and there may be several alerts. What is not known is left out.

use super::engine::{AffectedServer, MAX_LISTED_SERVERS, Notification, NotificationKind};
use super::quiet::{at as zoned, read_zone};
use crate::sample::Millis;
use hailer::proto::model::{is_control, printable};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

/// Of a value, so many characters are shown.
const MAX_VALUE_CHARS: usize = 200;
/// After a night so many alerts are in the form `json`, and so many lines in the others.
const MAX_SUMMARIZED: usize = 50;
/// Our own form has at most so many bytes, and as a variable so many: one of a command may have 128 KiB on Linux.
const MAX_JSON_BYTES: usize = 256 << 10;
const MAX_VARIABLE_BYTES: usize = 96 << 10;

/// What a message is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Our own, for programs.
    Json,
    /// A webhook of Discord.
    Discord,
    /// An incoming webhook of Slack; Mattermost and Rocket.Chat take it too.
    Slack,
    /// A topic of ntfy.
    Ntfy,
    /// Variables for a command.
    Command,
}

/// A message that can be sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// Names and values: of HTTP, or of the environment of a command.
    pub headers: Vec<(String, String)>,
    /// For HTTP.
    pub body: Vec<u8>,
}

/// A text with `{placeholders}`; `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    /// The number of a placeholder.
    Value(usize),
}

/// Where values come from.
struct Context<'a> {
    notification: &'a Notification,
    item: &'a AffectedServer,
    zone: &'a TimeZone,
    page: Option<&'a str>,
}

type Value = fn(&Context<'_>) -> String;

/// Name, meaning and value of all placeholders.
const PLACEHOLDERS: &[(&str, &str, Value)] = &[
    ("server", "its name, or how many", |of| of.item.name.clone()),
    ("group", "its group", |of| of.item.group.clone()),
    ("target", "whom to ask, as it was typed", |of| {
        of.item.target.clone()
    }),
    ("state", "up, down, unknown or flapping", |of| {
        of.item.state.clone()
    }),
    ("players", "players on", |of| or_unknown(of.item.players)),
    ("max", "the most that fit", |of| or_unknown(of.item.max)),
    ("latency", "of the last answer, in milliseconds", |of| {
        of.item.latency.map_or_else(
            || "?".into(),
            |latency| format!("{:.1} ms", f64::from(latency) / 1e3),
        )
    }),
    ("uptime", "of the last day", |of| {
        of.item.uptime.map_or_else(
            || "?".into(),
            |share| format!("{:.2} %", f64::from(share) * 100.0),
        )
    }),
    ("since", "when it began", |of| of.time(of.item.since)),
    ("for", "for how long it has been so", |of| {
        span(of.item.until.unwrap_or(of.notification.at) - of.item.since)
    }),
    ("at", "when this message was made", |of| {
        of.time(of.notification.at)
    }),
    ("reason", "why there is no answer, in a word", |of| {
        of.item.reason.clone().unwrap_or_default()
    }),
    ("error", "why there is no answer, in a sentence", |of| {
        of.item.error.clone().unwrap_or_default()
    }),
    ("from", "what was before a change", |of| {
        of.item.from.clone().unwrap_or_else(|| "nothing".into())
    }),
    ("to", "what is after a change", |of| {
        of.item.to.clone().unwrap_or_else(|| "nothing".into())
    }),
    ("title", "what it calls itself", |of| {
        or_unknown(of.item.title.as_ref())
    }),
    ("motd", "its MOTD", |of| or_unknown(of.item.motd.as_ref())),
    ("version", "its version", |of| {
        or_unknown(of.item.version.as_ref())
    }),
    ("map", "its map", |of| or_unknown(of.item.map.as_ref())),
    ("rule", "the name of the alert", |of| {
        of.notification.rule.clone()
    }),
    ("condition", "what the alert watches for, in a word", |of| {
        of.notification.condition.clone()
    }),
    ("status", "firing, repeated, resolved or test", |of| {
        of.notification.kind.word().into()
    }),
    ("count", "about how many servers this message is", |of| {
        of.notification.count().to_string()
    }),
    (
        "url",
        "its page, if the plan says where the page is",
        |of| of.url().unwrap_or_default(),
    ),
];

/// All placeholders, each with what it stands for.
pub fn placeholders() -> impl Iterator<Item = (&'static str, &'static str)> {
    PLACEHOLDERS
        .iter()
        .map(|(name, meaning, _)| (*name, *meaning))
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        if source.chars().any(|c| c != '\n' && is_control(c)) {
            return Err("a template has no control characters but line breaks".into());
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => text.extend(chars.next()),
                '{' => {
                    let mut is_closed = false;
                    let open = chars.by_ref().take_while(|c| {
                        is_closed = *c == '}';
                        !is_closed
                    });
                    let name: String = open.collect();
                    if !is_closed {
                        return Err("a \"{\" without \"}\" in a template; a brace is {{".into());
                    }
                    let Some(number) = PLACEHOLDERS.iter().position(|(known, ..)| *known == name)
                    else {
                        let all: Vec<String> = PLACEHOLDERS
                            .iter()
                            .map(|(name, ..)| format!("{{{name}}}"))
                            .collect();
                        return Err(format!(
                            "\"{{{name}}}\" in a template stands for nothing; there are {}; a brace is {{{{",
                            all.join(", ")
                        ));
                    };
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Value(number));
                }
                '}' => return Err("a \"}\" without \"{\" in a template; a brace is }}".into()),
                c => text.push(c),
            }
        }
        parts.push(Part::Text(text));
        Ok(Self { source, parts })
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.source
    }
}

impl Template {
    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// A line about one server, or about several: then what they do not have in common is left out.
    fn fill(
        &self,
        notification: &Notification,
        items: &[AffectedServer],
        zone: &TimeZone,
        page: Option<&str>,
        form: Form,
    ) -> String {
        let mut line = String::new();
        for part in &self.parts {
            let number = match part {
                Part::Text(text) => {
                    line.push_str(text);
                    continue;
                }
                Part::Value(number) => *number,
            };
            let Some((name, _, value)) = PLACEHOLDERS.get(number) else {
                continue;
            };
            let mut values = items.iter().map(|item| {
                value(&Context {
                    notification,
                    item,
                    zone,
                    page,
                })
            });
            let first = values.next().unwrap_or_default();
            if values.all(|value| value == first) {
                // Templates are the plan's, values are anybody's.
                line.push_str(&form.escape(&first));
            } else if *name == "server" {
                let _ = write!(line, "{} servers", notification.count());
            } else {
                line.push('…');
            }
        }
        line
    }
}

impl Context<'_> {
    fn time(&self, at: Millis) -> String {
        zoned(at, self.zone)
            .strftime("%Y-%m-%d %H:%M %Z")
            .to_string()
    }

    fn url(&self) -> Option<String> {
        page_of(self.page, self.item)
    }
}

/// The page of a server, or the page of all.
fn page_of(page: Option<&str>, item: &AffectedServer) -> Option<String> {
    let page = page?.trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let is_server = item.id.is_some() && item.name.bytes().all(is_plain);
    Some(if is_server {
        format!("{page}/server/{}", item.name)
    } else {
        format!("{page}/")
    })
}

fn or_unknown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "?".into(), |value| value.to_string())
}

/// A time in two units at most.
fn span(millis: Millis) -> String {
    let seconds = (millis / 1_000).max(0) as u64;
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    humantime::format_duration(Duration::from_secs(seconds / unit * unit)).to_string()
}

impl NotificationKind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Repeated => "repeated",
            Self::Resolved => "resolved",
            Self::Test => "test",
        }
    }
}

impl Form {
    /// A value that means nothing but itself.
    fn escape(self, value: &str) -> String {
        // What is not shown is not read either.
        let value: String = value.chars().take(2 * MAX_VALUE_CHARS).collect();
        let value: String = printable(&value).chars().take(MAX_VALUE_CHARS).collect();
        let mut escape = String::with_capacity(value.len());
        match self {
            Self::Json | Self::Ntfy | Self::Command => escape = value,
            Self::Discord => {
                for c in value.chars() {
                    if c.is_ascii_punctuation()
                        && !matches!(
                            c,
                            '.' | ',' | '\'' | '"' | '/' | '?' | '%' | ';' | '=' | '$' | '&'
                        )
                    {
                        escape.push('\\');
                    }
                    escape.push(c);
                    if c == '@' {
                        escape.push(ZERO_WIDTH_SPACE);
                    }
                }
            }
            Self::Slack => {
                let mut chars = value.chars().peekable();
                while let Some(c) = chars.next() {
                    match c {
                        '&' => escape.push_str("&amp;"),
                        '<' => escape.push_str("&lt;"),
                        '>' => escape.push_str("&gt;"),
                        c => escape.push(c),
                    }
                    // Slack is told to leave mark-up alone; others that take its form are not asked.
                    let is_sign = matches!(c, '@' | '*' | '`' | '~' | '[' | ']' | '!' | '#' | '|');
                    // Of an address or a picture by its name, not of a time or a port.
                    let is_colon =
                        c == ':' && chars.peek().is_some_and(|next| !next.is_ascii_digit());
                    if is_sign || is_colon {
                        escape.push(ZERO_WIDTH_SPACE);
                    }
                }
            }
        }
        escape
    }

    /// The longest title and text, in bytes: what a service counts, characters or units of UTF-16, are never more.
    fn limits(self) -> (usize, usize) {
        match self {
            Self::Json | Self::Command => (1_000, 16_000),
            Self::Discord => (256, 4_000),
            Self::Slack => (500, 3_400),
            Self::Ntfy => (240, 4_000),
        }
    }
}

/// A space without width: it parts what would be a mention or mark-up.
const ZERO_WIDTH_SPACE: char = '\u{200B}';

/// Puts messages into words: one, or those of a night. `key` is what a receiver may tell doubles by; `page` is where the page is.
pub fn render(
    form: Form,
    notifications: &[Notification],
    key: &str,
    page: Option<&str>,
) -> Rendered {
    let (title, text) = words(form, notifications, page);
    let Some(newest) = notifications.last() else {
        return Rendered::default();
    };
    let kind = if notifications.len() > 1 {
        "summary"
    } else {
        newest.kind.word()
    };
    let is_bad = notifications.iter().any(|notification| {
        matches!(
            notification.kind,
            NotificationKind::Firing | NotificationKind::Repeated
        )
    });
    let priority = notifications
        .iter()
        .filter(|notification| notification.kind != NotificationKind::Resolved)
        .map(|notification| notification.words.priority)
        .max();
    let url = match notifications {
        [Notification { items, more: 0, .. }] if items.len() == 1 => page_of(page, &items[0]),
        _ => page_of(page, &AffectedServer::default()),
    };
    let json_type = || vec![("Content-Type".to_owned(), "application/json".to_owned())];
    match form {
        Form::Json => {
            let body = JsonMessage {
                title: &title,
                text: &text,
                kind,
                notifications,
                key,
                page,
                url: url.as_deref(),
            }
            .json(MAX_JSON_BYTES);
            Rendered {
                headers: json_type(),
                body: body.into_bytes(),
            }
        }
        Form::Discord => {
            let colour = match (is_bad, newest.kind) {
                (true, _) => 0xD9_3F_3F,
                (false, NotificationKind::Test) => 0x3F_7F_D9,
                (false, _) => 0x3F_A0_4F,
            };
            let mut embed = json!({"title": title, "description": text, "color": colour, "timestamp": utc(newest.at)});
            if let Some(url) = url {
                embed["url"] = url.into();
            }
            let body = json!({"embeds": [embed], "allowed_mentions": {"parse": []}});
            Rendered {
                headers: json_type(),
                body: body.to_string().into_bytes(),
            }
        }
        Form::Slack => {
            let mut all = format!("{title}\n{text}");
            if let Some(url) = url {
                let _ = write!(all, "\n{url}");
            }
            let body = json!({
                "text": all, "mrkdwn": false, "parse": "none", "link_names": 0, "unfurl_links": false, "unfurl_media": false,
            });
            Rendered {
                headers: json_type(),
                body: body.to_string().into_bytes(),
            }
        }
        Form::Ntfy => {
            let tag = match (notifications.len(), newest.kind) {
                (2.., _) => "sunrise",
                (_, NotificationKind::Firing | NotificationKind::Repeated) => "warning",
                (_, NotificationKind::Resolved) => "white_check_mark",
                (_, NotificationKind::Test) => "wrench",
            };
            let mut headers = vec![
                (
                    "Content-Type".to_owned(),
                    "text/plain; charset=utf-8".to_owned(),
                ),
                ("Title".to_owned(), title),
                (
                    "Priority".to_owned(),
                    (priority.unwrap_or_default() as u8 + 1).to_string(),
                ),
                ("Tags".to_owned(), tag.to_owned()),
            ];
            headers.extend(url.map(|url| ("Click".to_owned(), url)));
            Rendered {
                headers,
                body: text.into_bytes(),
            }
        }
        Form::Command => {
            let own = JsonMessage {
                title: &title,
                text: &text,
                kind,
                notifications,
                key,
                page,
                url: url.as_deref(),
            };
            let mut headers = vec![
                ("HAILER_KEY".to_owned(), key.to_owned()),
                ("HAILER_STATUS".to_owned(), kind.to_owned()),
                ("HAILER_MESSAGE_TITLE".to_owned(), title.clone()),
                ("HAILER_MESSAGE_TEXT".to_owned(), text.clone()),
                ("HAILER_JSON".to_owned(), own.json(MAX_VARIABLE_BYTES)),
            ];
            // What is about one server has a variable for each placeholder.
            if let [notification] = notifications
                && let [item] = &notification.items[..]
            {
                let zone = read_zone(&notification.zone).unwrap_or(TimeZone::UTC);
                let context = Context {
                    notification,
                    item,
                    zone: &zone,
                    page,
                };
                for (name, _, value) in PLACEHOLDERS.iter().filter(|(name, ..)| *name != "status") {
                    headers.push((
                        format!("HAILER_{}", name.to_uppercase()),
                        form.escape(&value(&context)),
                    ));
                }
            }
            Rendered {
                headers,
                body: Vec::new(),
            }
        }
    }
}

/// Title and text, as long as the form allows.
fn words(form: Form, notifications: &[Notification], page: Option<&str>) -> (String, String) {
    let (title_limit, text_limit) = form.limits();
    let mut title = String::new();
    let (mut text, mut lines) = (String::new(), 0);
    let mut more = 0;
    for notification in notifications {
        let zone = read_zone(&notification.zone).unwrap_or(TimeZone::UTC);
        let (title_template, line_template, prefix) = templates(notification);
        if notifications.len() == 1 {
            title = format!(
                "{prefix}{}",
                title_template.fill(notification, &notification.items, &zone, page, form)
            );
        }
        more += u64::from(notification.more);
        for item in &notification.items {
            // One that has no place ends the list.
            if lines == MAX_SUMMARIZED {
                more += 1;
                continue;
            }
            let mut line =
                line_template.fill(notification, std::slice::from_ref(item), &zone, page, form);
            if notifications.len() > 1 {
                line = format!("{} {line}", zoned(notification.at, &zone).strftime("%H:%M"));
            }
            let line = shorten(&line, text_limit / 2);
            // Room for the last line.
            if text.len() + line.len() + 40 > text_limit {
                (more, lines) = (more + 1, MAX_SUMMARIZED);
                continue;
            }
            if lines > 0 {
                text.push('\n');
            }
            text.push_str(&line);
            lines += 1;
        }
    }
    if notifications.len() > 1 {
        let of = |kinds: &[NotificationKind]| {
            notifications
                .iter()
                .filter(|notification| kinds.contains(&notification.kind))
                .count()
        };
        let (alerts, over) = (
            of(&[NotificationKind::Firing, NotificationKind::Repeated]),
            of(&[NotificationKind::Resolved]),
        );
        title = format!(
            "In quiet hours: {alerts} alert{}, {over} over",
            if alerts == 1 { "" } else { "s" }
        );
    }
    if more > 0 {
        let _ = write!(text, "\nand {more} more");
    }
    // A title is a line.
    (shorten(&printable(&title), title_limit), text)
}

/// At most so many bytes: whole characters, and no half of what stands for one.
fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = text[..end].trim_end_matches('\\');
    if let Some(begin) = short
        .rfind('&')
        .filter(|begin| short.len() - begin < 5 && !short[*begin..].contains(';'))
    {
        short = &short[..begin];
    }
    format!("{short}…")
}

/// The templates of a message, and what stands in front of its title.
fn templates(notification: &Notification) -> (Template, Template, &'static str) {
    let words = &notification.words;
    let is_over = notification.kind == NotificationKind::Resolved;
    let (one, many, line) = usual(&notification.condition, is_over);
    let usual = |source: &str| {
        Template::try_from(source.to_owned()).unwrap_or_else(|text| Template {
            parts: vec![Part::Text(text.clone())],
            source: text,
        })
    };
    let (title, text) = match is_over {
        true => (&words.resolved_title, &words.resolved_text),
        false => (&words.title, &words.text),
    };
    let mut prefix = if notification.kind == NotificationKind::Repeated {
        "Still: "
    } else {
        ""
    };
    let title = match (title, &words.title) {
        (Some(title), _) => title.clone(),
        (None, Some(title)) => {
            prefix = "Over: ";
            title.clone()
        }
        (None, None) => usual(if notification.count() == 1 { one } else { many }),
    };
    (title, text.clone().unwrap_or_else(|| usual(line)), prefix)
}

/// What is usually said: the title for one server and for several, and the line for each.
fn usual(condition: &str, is_over: bool) -> (&'static str, &'static str, &'static str) {
    match (condition, is_over) {
        ("down", false) => (
            "{server} is down",
            "{server} are down",
            "{server} is down since {since}: {error}",
        ),
        ("down", true) => (
            "{server} is up again",
            "{server} are up again",
            "{server} is up again after {for}",
        ),
        ("up", false) => (
            "{server} is up",
            "{server} are up",
            "{server} is up since {since}",
        ),
        ("up", true) => (
            "{server} is not up any more",
            "{server} are not up any more",
            "{server} is {state} after {for}",
        ),
        ("flapping", false) => (
            "{server} goes up and down",
            "{server} go up and down",
            "{server} goes up and down since {since}",
        ),
        ("flapping", true) => (
            "{server} is steady again",
            "{server} are steady again",
            "{server} is steady, and {state}",
        ),
        ("version", _) => (
            "{server} has another version",
            "{server} have another version",
            "{server}: version {from} → {to}",
        ),
        ("map", _) => (
            "{server} has another map",
            "{server} have another map",
            "{server}: map {from} → {to}",
        ),
        ("motd", _) => (
            "{server} has another MOTD",
            "{server} have another MOTD",
            "{server}: MOTD {from} → {to}",
        ),
        ("address", _) => (
            "{server} has another address",
            "{server} have another address",
            "{server}: {from} → {to}",
        ),
        ("players-below", false) => (
            "{server}: few players",
            "{server}: few players",
            "{server}: {players} of {max} players, few since {since}",
        ),
        ("players-below", true) => (
            "{server}: enough players again",
            "{server}: enough players again",
            "{server}: {players} of {max} players",
        ),
        ("players-above", false) => (
            "{server}: many players",
            "{server}: many players",
            "{server}: {players} of {max} players, many since {since}",
        ),
        ("players-above", true) => (
            "{server}: fewer players again",
            "{server}: fewer players again",
            "{server}: {players} of {max} players",
        ),
        ("latency-above", false) => (
            "{server} is slow",
            "{server} are slow",
            "{server} is slow since {since}: {latency}",
        ),
        ("latency-above", true) => (
            "{server} is fast again",
            "{server} are fast again",
            "{server} was slow for {for}",
        ),
        ("uptime-below", false) => (
            "{server} is down too often",
            "{server} are down too often",
            "{server} was up {uptime} of the last day",
        ),
        ("uptime-below", true) => (
            "{server} is up often enough again",
            "{server} are up often enough again",
            "{server} was up {uptime} of the last day",
        ),
        ("monitor-silent", false) => (
            "The monitor is silent",
            "The monitor is silent",
            "No server was asked since {since}: the monitor lives, and does nothing",
        ),
        ("monitor-silent", true) => (
            "The monitor is at work again",
            "The monitor is at work again",
            "No server was asked for {for}",
        ),
        ("test", _) => (
            "A test of Hailer's alerts",
            "A test of Hailer's alerts",
            "Alerts arrive here. Nothing is wrong: somebody asked for a test.",
        ),
        _ => (
            "{server}: {condition}",
            "{server}: {condition}",
            "{server}: {condition}, {status}",
        ),
    }
}

/// A time as programs like it.
fn utc(at: Millis) -> String {
    zoned(at, &TimeZone::UTC).timestamp().to_string()
}

#[derive(Serialize)]
struct JsonServer {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    name: String,
    group: String,
    target: String,
    state: String,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    players: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    motd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// Our own form.
struct JsonMessage<'a> {
    title: &'a str,
    text: &'a str,
    kind: &'a str,
    notifications: &'a [Notification],
    key: &'a str,
    page: Option<&'a str>,
    url: Option<&'a str>,
}

impl JsonMessage<'_> {
    /// With as many servers as there is room for.
    fn json(&self, limit: usize) -> String {
        let mut json = String::new();
        for listed in [MAX_LISTED_SERVERS, 5, 1, 0] {
            json = self.listing(listed).to_string();
            if json.len() <= limit {
                break;
            }
        }
        json
    }

    /// With at most so many servers of each alert.
    fn listing(&self, listed: usize) -> serde_json::Value {
        let alert = |notification: &Notification| {
            let servers: Vec<JsonServer> = notification
                .items
                .iter()
                .take(listed)
                .map(|item| JsonServer::new(item, self.page))
                .collect();
            json!({
                "rule": escape(&notification.rule), "condition": notification.condition, "kind": notification.kind.word(), "at": utc(notification.at),
                "priority": notification.words.priority, "count": notification.count(), "more": notification.count() - servers.len() as u64,
                "servers": servers,
            })
        };
        let alerts: Vec<_> = self
            .notifications
            .iter()
            .take(MAX_SUMMARIZED)
            .map(alert)
            .collect();
        let at = self
            .notifications
            .last()
            .map(|notification| utc(notification.at));
        let mut all = json!({
            "schema": "hailer/alert/1", "id": self.key, "kind": self.kind, "at": at, "title": self.title, "text": self.text, "alerts": alerts,
        });
        if let Some(url) = self.url {
            all["url"] = url.into();
        }
        all
    }
}

fn escape(text: &str) -> String {
    Form::Json.escape(text)
}

impl JsonServer {
    fn new(item: &AffectedServer, page: Option<&str>) -> Self {
        let short = |text: &Option<String>| text.as_deref().map(escape);
        Self {
            id: item.id.map(|id| id.0),
            name: escape(&item.name),
            group: escape(&item.group),
            target: escape(&item.target),
            state: item.state.clone(),
            since: utc(item.since),
            until: item.until.map(utc),
            players: item.players,
            max: item.max,
            latency_ms: item.latency.map(|latency| f64::from(latency) / 1e3),
            uptime: item.uptime,
            reason: short(&item.reason),
            error: short(&item.error),
            from: short(&item.from),
            to: short(&item.to),
            title: short(&item.title),
            motd: short(&item.motd),
            version: short(&item.version),
            map: short(&item.map),
            url: page_of(page, item),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::rule::MessageConfig;
    use crate::server::ServerId;

    /// All that somebody may try at once.
    const HOSTILE: &str = "\u{202E}@everyone <@1> <!channel> [x](http://evil.example) **b** `c` ~d~ |e| _f_ & \"q\"\r\nX: y\0\u{7}";

    fn item(name: &str) -> AffectedServer {
        AffectedServer {
            id: Some(ServerId(7)),
            name: name.into(),
            group: "eu".into(),
            target: "ugp://127.0.0.1".into(),
            state: "down".into(),
            since: 1_780_315_200_000,
            players: Some(3),
            max: Some(20),
            latency: Some(12_300),
            error: Some("no answer".into()),
            ..AffectedServer::default()
        }
    }

    fn notification(kind: NotificationKind, items: Vec<AffectedServer>) -> Notification {
        Notification {
            id: "f".into(),
            rule: "r".into(),
            condition: "down".into(),
            kind,
            at: 1_780_315_200_000 + 125 * 60_000,
            items,
            more: 0,
            to: Vec::new(),
            held_until: None,
            words: MessageConfig::default(),
            zone: "+02:00".into(),
        }
    }

    fn body(form: Form, notifications: &[Notification]) -> serde_json::Value {
        serde_json::from_slice(
            &render(form, notifications, "key", Some("https://status.example/")).body,
        )
        .unwrap()
    }

    #[test]
    fn templates_know_their_placeholders() {
        let template = |text: &str| Template::try_from(text.to_owned());
        let all: String = placeholders()
            .map(|(name, _)| format!("{{{name}}} "))
            .collect();
        let mut notification = notification(NotificationKind::Firing, vec![item("lobby")]);
        notification.words.text = Some(template(&format!("{{{{x}}}} {all}")).unwrap());
        let (_, text) = words(Form::Json, &[notification], None);
        assert!(
            text.starts_with(
                "{x} lobby eu ugp://127.0.0.1 down 3 20 12.3 ms ? 2026-06-01 14:00 +02 2h 5m "
            ),
            "{text}"
        );
        let error = template("{servr}").unwrap_err();
        assert!(
            error.contains("{servr}") && error.contains("{server}, {group}"),
            "{error}"
        );
        assert!(template("a\0b").is_err() && template("a\nb").is_ok());
        assert!(template("{server").is_err() && template("a } b").is_err());
    }

    #[test]
    fn one_server_or_many() {
        let (title, text) = words(
            Form::Json,
            &[notification(NotificationKind::Firing, vec![item("a")])],
            None,
        );
        assert_eq!(title, "a is down");
        assert_eq!(text, "a is down since 2026-06-01 14:00 +02: no answer");
        let mut many = notification(
            NotificationKind::Repeated,
            (0..20).map(|n| item(&format!("s{n}"))).collect(),
        );
        many.more = 80;
        let (title, text) = words(Form::Json, &[many], None);
        assert_eq!(title, "Still: 100 servers are down");
        assert!(
            text.ends_with("no answer\nand 80 more") && text.lines().count() == 21,
            "{text}"
        );
    }

    #[test]
    fn a_night_in_one_message() {
        let mut over = notification(NotificationKind::Resolved, vec![item("a")]);
        over.at += 60_000;
        let night = [
            notification(NotificationKind::Firing, vec![item("a")]),
            over,
        ];
        let (title, text) = words(Form::Json, &night, None);
        assert_eq!(title, "In quiet hours: 1 alert, 1 over");
        assert!(
            text.starts_with("16:05 a is down since") && text.contains("\n16:06 a is up again"),
            "{text}"
        );
        let json = body(Form::Json, &night);
        assert_eq!(
            (
                json["kind"].as_str(),
                json["alerts"].as_array().unwrap().len()
            ),
            (Some("summary"), 2)
        );
    }

    #[test]
    fn hostile_names_do_nothing() {
        let notifications = [notification(NotificationKind::Firing, vec![item(HOSTILE)])];
        for form in [
            Form::Json,
            Form::Discord,
            Form::Slack,
            Form::Ntfy,
            Form::Command,
        ] {
            let rendered = render(form, &notifications, "key", None);
            for (name, value) in &rendered.headers {
                assert!(
                    !value.contains(['\r', '\0', '\u{202E}', '\u{7}']),
                    "{form:?} {name}"
                );
                assert!(
                    name == "HAILER_MESSAGE_TEXT" || !value.contains('\n'),
                    "{form:?} {name}"
                );
            }
            let text = String::from_utf8(rendered.body).unwrap();
            assert!(
                !text.contains(['\r', '\0', '\u{202E}', '\u{7}']) && !text.contains("\\u0000"),
                "{form:?}"
            );
        }
        let discord = body(Form::Discord, &notifications);
        let title = discord["embeds"][0]["title"].as_str().unwrap();
        assert!(
            title.contains("\\@\u{200B}everyone \\<\\@\u{200B}1\\>")
                && title.contains("\\[x\\]\\(http\\://"),
            "{title}"
        );
        assert_eq!(discord["allowed_mentions"], json!({"parse": []}));
        let slack = body(Form::Slack, &notifications);
        let text = slack["text"].as_str().unwrap();
        assert!(
            !text.contains(['<', '>'])
                && text.contains("&lt;!\u{200B}channel&gt;")
                && text.contains(" &amp; "),
            "{text}"
        );
        assert!(
            !text.contains("@everyone") && !text.contains("**b**") && !text.contains("]("),
            "{text}"
        );
    }

    #[test]
    fn no_service_gets_more_than_it_takes() {
        let long = "&<_\u{1F980}".repeat(75);
        let mut notification = notification(
            NotificationKind::Firing,
            (0..20).map(|_| item(&long)).collect(),
        );
        notification.words.title =
            Some(Template::try_from("{server} {error} {target}".repeat(8)).unwrap());
        notification.words.text = Some(Template::try_from("{server} ".repeat(100)).unwrap());
        let notifications: Vec<Notification> = vec![notification; 60];
        let ntfy = render(Form::Ntfy, &notifications, "key", None);
        assert!(
            ntfy.body.len() <= 4_096 && ntfy.headers.iter().all(|(_, value)| value.len() <= 256)
        );
        for notifications in [&notifications[..1], &notifications] {
            let discord = body(Form::Discord, notifications);
            let length = |text: &serde_json::Value| text.as_str().unwrap().encode_utf16().count();
            assert!(length(&discord["embeds"][0]["title"]) <= 256);
            assert!(length(&discord["embeds"][0]["description"]) <= 4_096);
            let slack = body(Form::Slack, notifications);
            assert!(slack["text"].as_str().unwrap().len() <= 4_000);
            assert!(render(Form::Json, notifications, "key", None).body.len() < 512 << 10);
            // One variable of a command may have 128 KiB on Linux.
            let command = render(Form::Command, notifications, "key", None);
            let longest = command.headers.iter().map(|(_, value)| value.len()).max();
            assert!(longest < Some(128 << 10), "{longest:?}");
        }
    }

    #[test]
    fn own_words_and_what_comes_of_them_when_it_is_over() {
        let mut notification = notification(NotificationKind::Firing, vec![item("a")]);
        notification.words.title = Some(Template::try_from("{server} broke".to_owned()).unwrap());
        assert_eq!(
            words(Form::Json, std::slice::from_ref(&notification), None).0,
            "a broke"
        );
        notification.kind = NotificationKind::Resolved;
        assert_eq!(
            words(Form::Json, std::slice::from_ref(&notification), None).0,
            "Over: a broke"
        );
        notification.words.resolved_title =
            Some(Template::try_from("{server} is mended".to_owned()).unwrap());
        let ntfy = render(
            Form::Ntfy,
            &[notification],
            "key",
            Some("https://status.example"),
        );
        let of = |name: &str| {
            ntfy.headers
                .iter()
                .find(|(header, _)| header == name)
                .unwrap()
                .1
                .as_str()
        };
        assert_eq!(
            (of("Title"), of("Priority"), of("Tags")),
            ("a is mended", "3", "white_check_mark")
        );
        assert_eq!(of("Click"), "https://status.example/server/a");
    }
}
