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
//!
//! In: a notification, a form. Out: bodies of messages.
//!
//! May import: `crate::alert::notification`, `crate::alert::quiet`, `crate::alert::template`,
//! `crate::sample`, `hailer`.

mod text;

use self::text::{Context, title_and_text};
use super::notification::{AffectedServer, MAX_LISTED_SERVERS, Notification, NotificationKind};
use super::quiet::{at as zoned, read_zone};
use super::template::Placeholder;
use crate::sample::Millis;
use hailer::proto::model::printable;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write;

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
    use crate::alert::notification::{ConditionKind, MessageConfig};
    use crate::alert::template::Template;
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
