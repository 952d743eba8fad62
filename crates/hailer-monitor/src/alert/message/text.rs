//! Title and text of a message: templates, and the values of their placeholders.

use super::{Form, MAX_LINES, page_url};
use crate::alert::notification::{AffectedServer, ConditionKind, Notification, NotificationKind};
use crate::alert::quiet::{at as zoned, read_zone};
use crate::alert::template::{Part, Placeholder, Template};
use crate::sample::Millis;
use hailer::proto::wire::counted;
use jiff::tz::TimeZone;
use std::fmt::Write;
use std::time::Duration;

/// Source of the values of placeholders.
pub(super) struct Context<'a> {
    pub(super) notification: &'a Notification,
    pub(super) item: &'a AffectedServer,
    pub(super) zone: &'a TimeZone,
    pub(super) page: Option<&'a str>,
}

impl Context<'_> {
    pub(super) fn value(&self, placeholder: Placeholder) -> String {
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

/// Returns title and text, shortened to the limits of the format.
pub(super) fn title_and_text(
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
pub(super) fn shorten(text: &str, limit: usize) -> String {
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
        (Kind::Door, _) => texts("{server} is {state}", "{server}: {to}"),
        (Kind::Test, _) => texts(
            "Test alert from Hailer",
            "This is a test: alerts reach this receiver. No action is needed.",
        ),
    }
}
