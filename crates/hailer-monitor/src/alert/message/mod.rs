//! Formats notifications for each kind of receiver.
//!
//! Texts of servers are untrusted: [`Form::escape`] removes control characters and disables mentions
//! and markup of the receiving service.
//!
//! | part | limit |
//! | --- | --- |
//! | a value in a template | 200 characters |
//! | servers listed in one message | 50 lines, then "and N more" |
//! | title and text | limit of the service, see [`Form::limits`] |
//! | JSON body | 256 KiB; 96 KiB as a variable of a command, of which Linux accepts 128 KiB |
//!
//! The form `json` is described by `schema/alert-v2.json`:
//!
//! ```json
//! {"schema": "hailer/alert/2", "id": "KEY", "kind": "firing", "time": "2026-11-21T12:00:00Z",
//!  "title": "…", "text": "…", "url": "…",
//!  "alerts": [{"rule": "lobbies", "condition": "down", "kind": "firing", "time": "…",
//!    "priority": "default", "count": 1, "more": 0,
//!    "servers": [{"id": 7, "name": "lobby-1", "group": "eu", "target": "ugp://…",
//!      "state": "down", "since": "…", "error": "…"}]}]}
//! ```
//!
//! The summary after quiet hours has the kind `summary` and can contain several alerts. Unknown
//! values are omitted.

use super::notification::{
    AffectedServer, ConditionKind, MAX_LISTED_SERVERS, Notification, NotificationKind,
};
use super::quiet::{at as zoned, read_zone};
use super::template::{Part, Placeholder, Template};
use crate::sample::Millis;
use hailer::proto::model::printable;
use hailer::proto::wire::counted;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// Maximum length of a value in a message, in characters.
const MAX_VALUE_CHARS: usize = 200;
/// Maximum number of lines in a text, and of alerts in the JSON of a summary.
const MAX_LINES: usize = 50;
/// Maximum size of a JSON body, in bytes.
const MAX_JSON_BYTES: usize = 256 << 10;
/// Maximum size of the same JSON in an environment variable, in bytes.
const MAX_VARIABLE_BYTES: usize = 96 << 10;
/// Zero-width space: inserted after characters that would start a mention or markup.
const ZERO_WIDTH_SPACE: char = '\u{200B}';

/// Format of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// JSON as in `schema/alert-v2.json`.
    Json,
    /// Discord webhook.
    Discord,
    /// Slack incoming webhook; Mattermost and Rocket.Chat accept it too.
    Slack,
    /// ntfy topic.
    Ntfy,
    /// Environment variables of a command.
    Command,
}

/// A message ready to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    /// HTTP headers, or environment variables of a command.
    pub headers: Vec<(String, String)>,
    /// HTTP body; empty for a command.
    pub body: Vec<u8>,
}

/// Source of the values of placeholders.
struct Context<'a> {
    notification: &'a Notification,
    item: &'a AffectedServer,
    zone: &'a TimeZone,
    page: Option<&'a str>,
}

impl Context<'_> {
    fn value(&self, placeholder: Placeholder) -> String {
        let notification = self.notification;
        let item = self.item;
        match placeholder {
            Placeholder::Server => item.name.clone(),
            Placeholder::Group => item.group.clone(),
            Placeholder::Target => item.target.clone(),
            Placeholder::State => item.state.clone(),
            Placeholder::Players => or_unknown(item.players),
            Placeholder::Max => or_unknown(item.max),
            Placeholder::Latency => or_unknown(
                item.latency
                    .map(|latency| format!("{:.1} ms", f64::from(latency) / 1e3)),
            ),
            Placeholder::Uptime => or_unknown(
                item.uptime
                    .map(|share| format!("{:.2} %", f64::from(share) * 100.0)),
            ),
            Placeholder::Since => self.time(item.since),
            Placeholder::Until => item.until.map(|until| self.time(until)).unwrap_or_default(),
            Placeholder::Incident => item.incident.clone(),
            Placeholder::For => duration(item.until.unwrap_or(notification.at) - item.since),
            Placeholder::Changes => self.changes(),
            Placeholder::At => self.time(notification.at),
            Placeholder::Reason => item.reason.clone().unwrap_or_default(),
            Placeholder::Error => item.error.clone().unwrap_or_default(),
            Placeholder::From => item.from.clone().unwrap_or_else(|| "none".into()),
            Placeholder::To => item.to.clone().unwrap_or_else(|| "none".into()),
            Placeholder::Title => or_unknown(item.title.as_ref()),
            Placeholder::Motd => or_unknown(item.motd.as_ref()),
            Placeholder::Version => or_unknown(item.version.as_ref()),
            Placeholder::Map => or_unknown(item.map.as_ref()),
            Placeholder::Bots => or_unknown(item.bots),
            Placeholder::Password => or_unknown(
                item.has_password
                    .map(|is_needed| if is_needed { "yes" } else { "no" }),
            ),
            Placeholder::Rule => notification.rule.clone(),
            Placeholder::Condition => notification.condition.word().into(),
            Placeholder::Status => notification.kind.word().into(),
            Placeholder::Count => notification.count().to_string(),
            Placeholder::Url => page_url(self.page, item).unwrap_or_default(),
        }
    }

    fn changes(&self) -> String {
        let changes = &self.item.changes;
        if changes.is_empty() {
            return String::new();
        }
        let time = |at: &Millis| zoned(*at, self.zone).strftime("%H:%M:%S").to_string();
        let times: Vec<String> = changes.iter().map(time).collect();
        format!("{} times, at {}", changes.len(), times.join(", "))
    }

    fn time(&self, at: Millis) -> String {
        zoned(at, self.zone)
            .strftime("%Y-%m-%d %H:%M %Z")
            .to_string()
    }
}

/// Fills a template for one or more servers. A value that differs between servers becomes `…`, and
/// `{server}` becomes the number of servers.
fn fill(
    template: &Template,
    notification: &Notification,
    items: &[AffectedServer],
    zone: &TimeZone,
    page: Option<&str>,
    form: Form,
) -> String {
    let mut line = String::new();
    for part in template.parts() {
        let placeholder = match part {
            Part::Text(text) => {
                line.push_str(text);
                continue;
            }
            Part::Value(placeholder) => *placeholder,
        };
        let mut values = items.iter().map(|item| {
            let context = Context {
                notification,
                item,
                zone,
                page,
            };
            context.value(placeholder)
        });
        let first = values.next().unwrap_or_default();
        if values.all(|value| value == first) {
            // The template is trusted, the value is not.
            line.push_str(&form.escape(&first));
        } else if placeholder == Placeholder::Server {
            line.push_str(&counted(notification.count(), "server"));
        } else {
            line.push('…');
        }
    }
    line
}

/// Returns the URL of the server's page, or of the overview for the monitor itself.
fn page_url(page: Option<&str>, item: &AffectedServer) -> Option<String> {
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

/// Formats a duration with at most two units.
fn duration(millis: Millis) -> String {
    let seconds = (millis / 1_000).max(0) as u64;
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    humantime::format_duration(Duration::from_secs(seconds / unit * unit)).to_string()
}

impl Form {
    /// Escapes an untrusted value for this format.
    fn escape(self, value: &str) -> String {
        // Bound the work before looking at each character.
        let value: String = value.chars().take(2 * MAX_VALUE_CHARS).collect();
        let value: String = printable(&value).chars().take(MAX_VALUE_CHARS).collect();
        let mut escaped = String::with_capacity(value.len());
        match self {
            Self::Json | Self::Ntfy | Self::Command => escaped = value,
            Self::Discord => {
                for c in value.chars() {
                    let is_plain = matches!(
                        c,
                        '.' | ',' | '\'' | '"' | '/' | '?' | '%' | ';' | '=' | '$' | '&'
                    );
                    if c.is_ascii_punctuation() && !is_plain {
                        escaped.push('\\');
                    }
                    escaped.push(c);
                    if c == '@' {
                        escaped.push(ZERO_WIDTH_SPACE);
                    }
                }
            }
            Self::Slack => {
                let mut chars = value.chars().peekable();
                while let Some(c) = chars.next() {
                    match c {
                        '&' => escaped.push_str("&amp;"),
                        '<' => escaped.push_str("&lt;"),
                        '>' => escaped.push_str("&gt;"),
                        c => escaped.push(c),
                    }
                    // Slack honors `mrkdwn: false`; compatible services may not.
                    let is_markup =
                        matches!(c, '@' | '*' | '`' | '~' | '[' | ']' | '!' | '#' | '|');
                    // The colon of a URL or an emoji, not of a time or a port.
                    let is_colon =
                        c == ':' && chars.peek().is_some_and(|next| !next.is_ascii_digit());
                    if is_markup || is_colon {
                        escaped.push(ZERO_WIDTH_SPACE);
                    }
                }
            }
        }
        escaped
    }

    /// Returns the maximum length of title and text, in bytes. Services count characters or UTF-16
    /// units, which are never more.
    fn limits(self) -> (usize, usize) {
        match self {
            Self::Json | Self::Command => (1_000, 16_000),
            Self::Discord => (256, 4_000),
            Self::Slack => (500, 3_400),
            Self::Ntfy => (240, 4_000),
        }
    }
}

/// Formats one notification, or those of quiet hours as one summary.
///
/// `key` identifies the message for receivers that drop duplicates. `page` is the URL of the web
/// pages, for links.
pub fn render(
    form: Form,
    notifications: &[Notification],
    key: &str,
    page: Option<&str>,
) -> Rendered {
    let (title, text) = title_and_text(form, notifications, page);
    let Some(newest) = notifications.last() else {
        return Rendered::default();
    };
    let kind = if notifications.len() > 1 {
        "summary"
    } else {
        newest.kind.word()
    };
    let url = match notifications {
        [Notification { items, more: 0, .. }] if items.len() == 1 => page_url(page, &items[0]),
        _ => page_url(page, &AffectedServer::default()),
    };
    let message = MessageParts {
        title,
        text,
        kind,
        notifications,
        newest,
        key,
        page,
        url,
    };
    match form {
        Form::Json => Rendered::json(message.json(MAX_JSON_BYTES)),
        Form::Discord => Rendered::json(message.discord()),
        Form::Slack => Rendered::json(message.slack()),
        Form::Ntfy => message.ntfy(),
        Form::Command => message.command(),
    }
}

impl Rendered {
    fn json(body: String) -> Self {
        Self {
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: body.into_bytes(),
        }
    }
}

/// Returns title and text, shortened to the limits of the format.
fn title_and_text(
    form: Form,
    notifications: &[Notification],
    page: Option<&str>,
) -> (String, String) {
    let (title_limit, text_limit) = form.limits();
    let mut title = String::new();
    let mut text = String::new();
    let mut lines = 0;
    let mut more = 0;
    for notification in notifications {
        let zone = read_zone(&notification.zone).unwrap_or(TimeZone::UTC);
        let (title_template, line_template, prefix) = templates(notification);
        if notifications.len() == 1 {
            title = format!(
                "{prefix}{}",
                fill(
                    &title_template,
                    notification,
                    &notification.items,
                    &zone,
                    page,
                    form
                )
            );
        }
        more += u64::from(notification.more);
        for item in &notification.items {
            if lines == MAX_LINES {
                more += 1;
                continue;
            }
            let has_template = notification.message.resolved_text.is_some();
            let special = match departure(item) {
                None if item.is_late && !has_template => Some(late_texts(notification.condition)),
                texts => texts,
            };
            let special = special.map(|texts| Template::built_in(texts.line));
            let mut line = fill(
                special.as_ref().unwrap_or(&line_template),
                notification,
                std::slice::from_ref(item),
                &zone,
                page,
                form,
            );
            if notifications.len() > 1 {
                line = format!("{} {line}", zoned(notification.at, &zone).strftime("%H:%M"));
            }
            let line = shorten(&line, text_limit / 2);
            // Keep room for "and N more". The first line that does not fit ends the list.
            if text.len() + line.len() + 40 > text_limit {
                more += 1;
                lines = MAX_LINES;
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
        title = summary_title(notifications);
    }
    if more > 0 {
        let _ = write!(text, "\nand {more} more");
    }
    // The values in it are printable, apart from the spaces of no width that `Form::escape` inserts.
    (shorten(&title.replace('\n', " "), title_limit), text)
}

fn summary_title(notifications: &[Notification]) -> String {
    let mut alerts = 0;
    let mut resolved = 0;
    for notification in notifications {
        match notification.kind {
            NotificationKind::Firing | NotificationKind::Repeated => alerts += 1,
            NotificationKind::Resolved => resolved += 1,
            NotificationKind::Test => {}
        }
    }
    let alerts = counted(alerts, "alert");
    format!("During quiet hours: {alerts}, {resolved} resolved")
}

/// Shortens a text to at most `limit` bytes, without splitting a character or an escape sequence.
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

/// Returns the templates of title and line, and the prefix of the title.
fn templates(notification: &Notification) -> (Template, Template, &'static str) {
    let message = &notification.message;
    let is_resolved = notification.kind == NotificationKind::Resolved;
    let default = default_texts(notification.condition, is_resolved);
    let mut prefix = if notification.kind == NotificationKind::Repeated {
        "Reminder: "
    } else {
        ""
    };
    let (title, line) = if is_resolved {
        (&message.resolved_title, &message.resolved_text)
    } else {
        (&message.title, &message.text)
    };
    let title = match (title, &message.title) {
        // Templates are about the condition, which did not end.
        _ if notification
            .items
            .iter()
            .all(|item| departure(item).is_some()) =>
        {
            let first = notification.items.first().and_then(departure);
            Template::built_in(match first {
                Some(texts) if notification.count() == 1 => texts.title,
                _ => "Alerts of {server} ended",
            })
        }
        _ if message.resolved_title.is_none()
            && notification.items.iter().all(|item| item.is_late) =>
        {
            let texts = late_texts(notification.condition);
            Template::built_in(match notification.count() {
                1 => texts.title,
                _ => texts.title_of_several,
            })
        }
        (Some(title), _) => title.clone(),
        (None, Some(title)) => {
            prefix = "Resolved: ";
            title.clone()
        }
        (None, None) if notification.count() == 1 => Template::built_in(default.title),
        (None, None) => Template::built_in(default.title_of_several),
    };
    let line = line
        .clone()
        .unwrap_or_else(|| Template::built_in(default.line));
    (title, line, prefix)
}

/// Returns the texts about a server whose incident ended although the condition did not.
fn departure(item: &AffectedServer) -> Option<DefaultTexts> {
    let texts = DefaultTexts::new;
    Some(match item.state.as_str() {
        "removed" => texts(
            "{server} is no longer monitored",
            "{server} is no longer monitored; the alert \"{rule}\" has ended",
        ),
        "renamed" => texts(
            "{server} was renamed",
            "{server} is now called {to}; the alert \"{rule}\" has ended under the old name",
        ),
        "unwatched" => texts(
            "{server} was changed",
            "{server} is no longer watched by the alert \"{rule}\", which has ended",
        ),
        _ => return None,
    })
}

/// Returns the texts about an incident that ended before the message about its begin was delivered.
fn late_texts(condition: ConditionKind) -> DefaultTexts {
    match condition {
        ConditionKind::Down => DefaultTexts::new(
            "{server} was down",
            "{server} was down from {since} to {until}",
        )
        .of_several("{server} were down"),
        _ => DefaultTexts::new(
            "{server}: alert \"{rule}\" is over",
            "{server}: alert \"{rule}\" from {since} to {until}",
        ),
    }
}

/// Default templates of a condition.
struct DefaultTexts {
    /// Title about one server.
    title: &'static str,
    /// Title about several servers; `{server}` is their number.
    title_of_several: &'static str,
    /// Line for each server.
    line: &'static str,
}

impl DefaultTexts {
    fn new(title: &'static str, line: &'static str) -> Self {
        Self {
            title,
            title_of_several: title,
            line,
        }
    }

    fn of_several(self, title_of_several: &'static str) -> Self {
        Self {
            title_of_several,
            ..self
        }
    }
}

fn default_texts(condition: ConditionKind, is_resolved: bool) -> DefaultTexts {
    use ConditionKind as Kind;
    let texts = DefaultTexts::new;
    match (condition, is_resolved) {
        (Kind::Down, false) => texts(
            "{server} is down",
            "{server} has been down since {since}: {error}",
        )
        .of_several("{server} are down"),
        (Kind::Down, true) => texts("{server} is up again", "{server} is up again after {for}")
            .of_several("{server} are up again"),
        (Kind::Up, false) => texts("{server} is up", "{server} has been up since {since}")
            .of_several("{server} are up"),
        (Kind::Up, true) => texts(
            "{server} is no longer up",
            "{server} is {state}; it was up for {for}",
        )
        .of_several("{server} are no longer up"),
        (Kind::Flapping, false) => texts(
            "{server} is flapping",
            "{server} is flapping: it changed between up and down {changes}",
        )
        .of_several("{server} are flapping"),
        (Kind::Flapping, true) => texts(
            "{server} is no longer flapping",
            "{server} is no longer flapping: it is {state}",
        )
        .of_several("{server} are no longer flapping"),
        (Kind::Version, _) => texts(
            "{server}: version changed",
            "{server}: version {from} → {to}",
        ),
        (Kind::Map, _) => texts("{server}: map changed", "{server}: map {from} → {to}"),
        (Kind::Motd, _) => texts("{server}: MOTD changed", "{server}: MOTD {from} → {to}"),
        (Kind::Address, _) => texts(
            "{server}: address changed",
            "{server}: address {from} → {to}",
        ),
        (Kind::PlayersBelow, false) => texts(
            "{server}: low player count",
            "{server} has {players} of {max} players; below the limit since {since}",
        ),
        (Kind::PlayersAbove, false) => texts(
            "{server}: high player count",
            "{server} has {players} of {max} players; above the limit since {since}",
        ),
        (Kind::PlayersBelow | Kind::PlayersAbove, true) => texts(
            "{server}: player count is normal again",
            "{server} has {players} of {max} players",
        ),
        (Kind::LatencyAbove, false) => texts(
            "{server}: high latency",
            "{server} has a latency of {latency}; above the limit since {since}",
        ),
        (Kind::LatencyAbove, true) => texts(
            "{server}: latency is normal again",
            "{server} has a latency of {latency}; it was above the limit for {for}",
        ),
        (Kind::UptimeBelow, false) => texts(
            "{server}: low uptime",
            "{server} was up for {uptime} of the last day",
        ),
        (Kind::UptimeBelow, true) => texts(
            "{server}: uptime is normal again",
            "{server} was up for {uptime} of the last day",
        ),
        (Kind::MonitorSilent, false) => texts(
            "The monitor takes no samples",
            "The monitor is running but has taken no samples since {since}",
        ),
        (Kind::MonitorSilent, true) => texts(
            "The monitor takes samples again",
            "The monitor took no samples for {for}",
        ),
        (Kind::Test, _) => texts(
            "Test alert from Hailer",
            "This is a test: alerts reach this receiver. No action is needed.",
        ),
    }
}

/// Formats a time as RFC 3339, UTC.
fn utc(at: Millis) -> String {
    zoned(at, &TimeZone::UTC).timestamp().to_string()
}

/// Parts that all formats share.
struct MessageParts<'a> {
    title: String,
    text: String,
    kind: &'static str,
    notifications: &'a [Notification],
    newest: &'a Notification,
    key: &'a str,
    page: Option<&'a str>,
    url: Option<String>,
}

impl MessageParts<'_> {
    fn has_open_incidents(&self) -> bool {
        self.notifications.iter().any(|notification| {
            matches!(
                notification.kind,
                NotificationKind::Firing | NotificationKind::Repeated
            )
        })
    }

    fn discord(&self) -> String {
        let color = if self.has_open_incidents() {
            0xD9_3F_3F
        } else if self.newest.kind == NotificationKind::Test {
            0x3F_7F_D9
        } else {
            0x3F_A0_4F
        };
        let mut embed = json!({
            "title": self.title,
            "description": self.text,
            "color": color,
            "timestamp": utc(self.newest.at),
        });
        if let Some(url) = &self.url {
            embed["url"] = url.as_str().into();
        }
        json!({"embeds": [embed], "allowed_mentions": {"parse": []}}).to_string()
    }

    fn slack(&self) -> String {
        let mut all = format!("{}\n{}", self.title, self.text);
        if let Some(url) = &self.url {
            let _ = write!(all, "\n{url}");
        }
        let body = json!({
            "text": all,
            "mrkdwn": false,
            "parse": "none",
            "link_names": 0,
            "unfurl_links": false,
            "unfurl_media": false,
        });
        body.to_string()
    }

    fn ntfy(self) -> Rendered {
        let tag = match (self.notifications.len(), self.newest.kind) {
            (2.., _) => "sunrise",
            (_, NotificationKind::Firing | NotificationKind::Repeated) => "warning",
            (_, NotificationKind::Resolved) => "white_check_mark",
            (_, NotificationKind::Test) => "wrench",
        };
        let priority = self
            .notifications
            .iter()
            .filter(|notification| notification.kind != NotificationKind::Resolved)
            .map(|notification| notification.message.priority)
            .max()
            .unwrap_or_default();
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            header("Content-Type", "text/plain; charset=utf-8"),
            header("Title", &self.title),
            header("Priority", &(priority as u8 + 1).to_string()),
            header("Tags", tag),
        ];
        headers.extend(self.url.map(|url| ("Click".to_owned(), url)));
        Rendered {
            headers,
            body: self.text.into_bytes(),
        }
    }

    fn command(&self) -> Rendered {
        let mut headers = vec![
            ("HAILER_KEY".to_owned(), self.key.to_owned()),
            ("HAILER_STATUS".to_owned(), self.kind.to_owned()),
            ("HAILER_MESSAGE_TITLE".to_owned(), self.title.clone()),
            ("HAILER_MESSAGE_TEXT".to_owned(), self.text.clone()),
            ("HAILER_JSON".to_owned(), self.json(MAX_VARIABLE_BYTES)),
        ];
        // A message about one server has a variable for each placeholder.
        if let [notification] = self.notifications
            && let [item] = &notification.items[..]
        {
            let zone = read_zone(&notification.zone).unwrap_or(TimeZone::UTC);
            let context = Context {
                notification,
                item,
                zone: &zone,
                page: self.page,
            };
            for placeholder in Placeholder::ALL {
                // HAILER_STATUS is set above.
                if *placeholder != Placeholder::Status {
                    headers.push((
                        format!("HAILER_{}", placeholder.name().to_uppercase()),
                        Form::Command.escape(&context.value(*placeholder)),
                    ));
                }
            }
        }
        Rendered {
            headers,
            body: Vec::new(),
        }
    }

    /// Returns the JSON form with as many servers as fit into `limit` bytes.
    fn json(&self, limit: usize) -> String {
        let mut json = String::new();
        for listed in [MAX_LISTED_SERVERS, 5, 1, 0] {
            json = self.json_with(listed).to_string();
            if json.len() <= limit {
                break;
            }
        }
        json
    }

    /// Returns the JSON form with at most `listed` servers for each alert.
    fn json_with(&self, listed: usize) -> serde_json::Value {
        let mut alerts = Vec::new();
        for notification in self.notifications.iter().take(MAX_LINES) {
            let servers: Vec<Value> = notification
                .items
                .iter()
                .take(listed)
                .map(|item| json_server(item, self.page))
                .collect();
            alerts.push(json!({
                "rule": plain(&notification.rule),
                "condition": notification.condition,
                "kind": notification.kind.word(),
                "time": utc(notification.at),
                "priority": notification.message.priority,
                "count": notification.count(),
                "more": notification.count() - servers.len() as u64,
                "servers": servers,
            }));
        }
        let mut all = json!({
            "schema": "hailer/alert/2",
            "id": self.key,
            "kind": self.kind,
            "time": utc(self.newest.at),
            "title": self.title,
            "text": self.text,
            "alerts": alerts,
        });
        if let Some(url) = &self.url {
            all["url"] = url.as_str().into();
        }
        all
    }
}

fn plain(text: &str) -> String {
    Form::Json.escape(text)
}

/// Members of [`AffectedServer`] with other names in `schema/alert-v2.json`.
const JSON_NAMES: [(&str, &str); 4] = [
    ("players", "players_online"),
    ("max", "players_max"),
    ("latency", "latency_ms"),
    ("uptime", "uptime_share"),
];

/// Returns a server as `schema/alert-v2.json` describes it: the stored members without absent values,
/// with plain texts and with times as text.
fn json_server(item: &AffectedServer, page: Option<&str>) -> Value {
    let mut all = json!(item);
    all["since"] = utc(item.since).into();
    all["until"] = item.until.map(utc).into();
    all["changes"] = item.changes.iter().copied().map(utc).collect();
    all["latency"] = item.latency.map(|latency| f64::from(latency) / 1e3).into();
    all["url"] = page_url(page, item).into();
    all["is_late"] = Value::Null;
    for optional in ["incident", "changes"] {
        if all[optional] == "" || all[optional] == json!([]) {
            all[optional] = Value::Null;
        }
    }
    let name = |key: String| {
        let other = JSON_NAMES.iter().find(|(stored, _)| *stored == key);
        other.map_or(key, |(_, name)| (*name).to_owned())
    };
    let members = all.as_object_mut().map(std::mem::take).unwrap_or_default();
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    members
        .map(|(key, value)| match value {
            Value::String(text) if key != "url" => (name(key), plain(&text).into()),
            value => (name(key), value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::notification::MessageConfig;
    use crate::server::ServerId;

    /// Markup, mentions and control characters of all services.
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
            condition: ConditionKind::Down,
            kind,
            at: 1_780_315_200_000 + 125 * 60_000,
            items,
            more: 0,
            to: Vec::new(),
            held_until: None,
            message: MessageConfig::default(),
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
    fn every_placeholder_has_a_value() {
        let all: String = Placeholder::ALL
            .iter()
            .map(|placeholder| format!("{{{}}} ", placeholder.name()))
            .collect();
        let mut notification = notification(NotificationKind::Firing, vec![item("lobby")]);
        notification.message.text = Some(Template::try_from(format!("{{{{x}}}} {all}")).unwrap());
        let (_, text) = title_and_text(Form::Json, &[notification], None);
        assert!(
            text.starts_with(
                "{x} lobby eu ugp://127.0.0.1 down 3 20 12.3 ms ? 2026-06-01 14:00 +02  2h 5m "
            ),
            "{text}"
        );
    }

    #[test]
    fn titles_name_one_server_or_count_several() {
        let (title, text) = title_and_text(
            Form::Json,
            &[notification(NotificationKind::Firing, vec![item("a")])],
            None,
        );
        assert_eq!(title, "a is down");
        assert_eq!(
            text,
            "a has been down since 2026-06-01 14:00 +02: no answer"
        );
        let mut many = notification(
            NotificationKind::Repeated,
            (0..20).map(|n| item(&format!("s{n}"))).collect(),
        );
        many.more = 80;
        let (title, text) = title_and_text(Form::Json, &[many], None);
        assert_eq!(title, "Reminder: 100 servers are down");
        assert!(
            text.ends_with("no answer\nand 80 more") && text.lines().count() == 21,
            "{text}"
        );
    }

    #[test]
    fn quiet_hours_end_with_one_summary() {
        let mut over = notification(NotificationKind::Resolved, vec![item("a")]);
        over.at += 60_000;
        let night = [
            notification(NotificationKind::Firing, vec![item("a")]),
            over,
        ];
        let (title, text) = title_and_text(Form::Json, &night, None);
        assert_eq!(title, "During quiet hours: 1 alert, 1 resolved");
        assert!(
            text.starts_with("16:05 a has been down since")
                && text.contains("\n16:06 a is up again"),
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
    fn untrusted_names_are_escaped() {
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
    fn messages_stay_within_the_limits_of_each_service() {
        let long = "&<_\u{1F980}".repeat(75);
        let mut notification = notification(
            NotificationKind::Firing,
            (0..20).map(|_| item(&long)).collect(),
        );
        notification.message.title =
            Some(Template::try_from("{server} {error} {target}".repeat(8)).unwrap());
        notification.message.text = Some(Template::try_from("{server} ".repeat(100)).unwrap());
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
            // Linux accepts 128 KiB per environment variable.
            let command = render(Form::Command, notifications, "key", None);
            let longest = command.headers.iter().map(|(_, value)| value.len()).max();
            assert!(longest < Some(128 << 10), "{longest:?}");
        }
    }

    #[test]
    fn configured_titles_are_prefixed_when_resolved() {
        let mut notification = notification(NotificationKind::Firing, vec![item("a")]);
        notification.message.title = Some(Template::try_from("{server} broke".to_owned()).unwrap());
        assert_eq!(
            title_and_text(Form::Json, std::slice::from_ref(&notification), None).0,
            "a broke"
        );
        notification.kind = NotificationKind::Resolved;
        assert_eq!(
            title_and_text(Form::Json, std::slice::from_ref(&notification), None).0,
            "Resolved: a broke"
        );
        notification.message.resolved_title =
            Some(Template::try_from("{server} is fixed".to_owned()).unwrap());
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
            ("a is fixed", "3", "white_check_mark")
        );
        assert_eq!(of("Click"), "https://status.example/server/a");
    }

    #[test]
    fn a_late_begin_is_part_of_the_end() {
        let mut ended = notification(NotificationKind::Resolved, vec![item("lobby")]);
        ended.items[0].is_late = true;
        ended.items[0].until = Some(ended.items[0].since + 600_000);
        assert_eq!(
            title_and_text(Form::Json, &[ended], None),
            (
                "lobby was down".to_owned(),
                "lobby was down from 2026-06-01 14:00 +02 to 2026-06-01 14:10 +02".to_owned()
            )
        );
    }

    #[test]
    fn an_end_without_the_condition_names_its_reason() {
        let mut ended = notification(NotificationKind::Resolved, vec![item("lobby")]);
        ended.message.resolved_text = Some(Template::built_in("{server} is back"));
        ended.items[0].state = "removed".into();
        let texts =
            |ended: &Notification| title_and_text(Form::Json, std::slice::from_ref(ended), None);
        assert_eq!(
            texts(&ended),
            (
                "lobby is no longer monitored".to_owned(),
                "lobby is no longer monitored; the alert \"r\" has ended".to_owned()
            )
        );
        ended.items.push(item("old"));
        ended.items[1].state = "renamed".into();
        ended.items[1].to = Some("new".into());
        let (title, text) = texts(&ended);
        assert_eq!(title, "Alerts of 2 servers ended");
        assert!(text.contains("\nold is now called new; "), "{text}");
    }

    #[test]
    fn default_texts_are_sentences_about_the_server() {
        let mut moved = notification(NotificationKind::Firing, vec![item("lobby")]);
        moved.condition = ConditionKind::Motd;
        moved.items[0].from = Some("Old".into());
        assert_eq!(
            title_and_text(Form::Json, std::slice::from_ref(&moved), None),
            (
                "lobby: MOTD changed".to_owned(),
                "lobby: MOTD Old → none".to_owned()
            )
        );
        let mut silent = notification(NotificationKind::Firing, vec![item("the monitor")]);
        silent.condition = ConditionKind::MonitorSilent;
        assert_eq!(
            title_and_text(Form::Json, &[silent], None).1,
            "The monitor is running but has taken no samples since 2026-06-01 14:00 +02"
        );
        let test = [Notification::test("ops", 0)];
        assert_eq!(
            title_and_text(Form::Json, &test, None).0,
            "Test alert from Hailer"
        );
    }
}
