//! Templates of alert messages: text with placeholders such as `{server}`.
//!
//! A template of a rule has at most 1,000 bytes ([`MAX_TEMPLATE_BYTES`]).

use hailer::proto::model::is_control;
use serde::{Deserialize, Serialize};

/// Maximum length of a template in the configuration, in bytes.
pub(super) const MAX_TEMPLATE_BYTES: usize = 1_000;

/// Text with `{placeholders}`. `{{` and `}}` produce braces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Value(Placeholder),
}

macro_rules! placeholders {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// A value that a template can name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Placeholder {
            $(#[doc = $meaning] $variant,)*
        }

        impl Placeholder {
            /// All placeholders, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name as written between the braces.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns the meaning of the placeholder, as one phrase.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }
        }
    };
}

placeholders! {
    Server "server" "name of the server, or the number of servers",
    Group "group" "group of the server",
    Target "target" "address as configured",
    State "state" "up, down, unknown or flapping; removed, renamed or unwatched if that ended the incident",
    Players "players" "number of players online",
    Max "max" "player limit",
    Latency "latency" "latency of the last answer, in milliseconds",
    Uptime "uptime" "uptime of the last day, in percent",
    Since "since" "when the condition became true",
    Until "until" "when the condition ended, or empty",
    For "for" "how long the condition has been true",
    Changes "changes" "number and times of the last changes between up and down, of a server that is flapping",
    At "at" "when the message was created",
    Reason "reason" "why the last poll failed, as a keyword",
    Error "error" "why the last poll failed, as a sentence",
    From "from" "value before a change",
    To "to" "value after a change",
    Title "title" "name that the server reports",
    Motd "motd" "MOTD without formatting",
    Version "version" "version that the server reports",
    Map "map" "map that the server reports",
    Bots "bots" "number of bots that the server reports",
    Password "password" "whether players need a password to join: yes or no",
    Incident "incident" "id of the incident, the same in all its messages",
    Rule "rule" "name of the alert",
    Condition "condition" "condition of the alert, as a keyword",
    Status "status" "firing, repeated, resolved or test",
    Count "count" "number of servers in the message",
    Url "url" "page of the server, if `page` is configured",
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        if source.chars().any(|c| c != '\n' && is_control(c)) {
            return Err("a template must not contain control characters except line breaks".into());
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => text.extend(chars.next()),
                '{' => {
                    let mut is_closed = false;
                    let name: String = chars
                        .by_ref()
                        .take_while(|c| {
                            is_closed = *c == '}';
                            !is_closed
                        })
                        .collect();
                    if !is_closed {
                        return Err(
                            "a template has \"{\" without \"}\"; write {{ for a brace".into()
                        );
                    }
                    let known = Placeholder::ALL.iter().find(|known| known.name() == name);
                    let Some(placeholder) = known else {
                        return Err(unknown_placeholder(&name));
                    };
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Value(*placeholder));
                }
                '}' => {
                    return Err("a template has \"}\" without \"{\"; write }} for a brace".into());
                }
                c => text.push(c),
            }
        }
        parts.push(Part::Text(text));
        Ok(Self { source, parts })
    }
}

fn unknown_placeholder(name: &str) -> String {
    let all: Vec<String> = Placeholder::ALL
        .iter()
        .map(|known| format!("{{{}}}", known.name()))
        .collect();
    format!(
        "unknown placeholder \"{{{name}}}\" in a template; use one of {}, or {{{{ for a brace",
        all.join(", ")
    )
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.source
    }
}

impl Template {
    /// Text of the template as configured.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Parses a template of the program itself; an invalid one becomes plain text.
    pub(super) fn built_in(source: &str) -> Self {
        Self::try_from(source.to_owned()).unwrap_or_else(|text| Self {
            parts: vec![Part::Text(text.clone())],
            source: text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unknown_placeholders_and_unbalanced_braces() {
        let template = |text: &str| Template::try_from(text.to_owned());
        let error = template("{servr}").unwrap_err();
        assert!(
            error.contains("{servr}") && error.contains("{server}, {group}"),
            "{error}"
        );
        assert!(template("a\0b").is_err() && template("a\nb").is_ok());
        assert!(template("{server").is_err() && template("a } b").is_err());
        assert_eq!(
            template("{{{server}}}").unwrap().parts(),
            [
                Part::Text("{".into()),
                Part::Value(Placeholder::Server),
                Part::Text("}".into())
            ]
        );
    }
}
