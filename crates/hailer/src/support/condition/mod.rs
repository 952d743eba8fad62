//! Conditions about the state of a server, such as `players = 0 and map = harbour`.
//!
//! ```text
//!   condition  = all { "or" all }
//!   all        = part { "and" part }
//!   part       = "not" part | "(" condition ")" | comparison | flag
//!   comparison = field operator value
//!   operator   = "=" | "!=" | "<" | "<=" | ">" | ">="
//!   flag       = "online" | "ready" | "password" | "anti_cheat"
//!   field      = flag | "players" | "max" | "bots" | "ping" | "name" | "motd" | "game" | "mode" | "map"
//!              | "version" | "rules." NAME | "extra." NAME
//!   value      = number | text | "yes" | "no" | "players" | "max" | "bots"
//! ```
//!
//! A text with spaces, parentheses or operators needs quotes, `'…'` or `"…"`; so does such a name of
//! a rule, as in `rules."a name"`. Upper and lower case make no difference, and `*` in a text matches
//! any characters. `ping` is in milliseconds, or has a unit: `0.5s`. `<` and its relatives compare
//! numbers, versions, and rules that are numbers.
//!
//! A field that the server does not report is unknown, and so is a condition that depends on it:
//! `not` of unknown is unknown, `or` is true if one part is, and `and` is false if one part is. An
//! unknown number of players is never 0.
//!
//! [`Wait`] decides when a program that waits for a condition queries again.
//!
//! In: a condition as text, an answer or an error. Out: true, false or unknown, with the values that
//! decided. Bounds: 1,000 bytes, 32 nested parts.
//!
//! May import: `crate::answer`, `crate::error`, `crate::support::catalog`, `crate::support::pattern`,
//! `hailer_proto`.

mod facts;
mod parse;
mod wait;

pub use facts::Facts;
pub use parse::ConditionError;
pub use wait::{Step, Wait};

use crate::support::pattern;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A parsed condition. Displays as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    root: Node,
}

/// A part of a condition.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Any(Vec<Node>),
    All(Vec<Node>),
    Not(Box<Node>),
    Compare(Field, Operator, Operand),
}

/// A property of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Online,
    Ready,
    Password,
    AntiCheat,
    Players,
    Max,
    Bots,
    Ping,
    Name,
    Motd,
    Game,
    Mode,
    Map,
    Version,
    /// A rule with this name.
    Rule(String),
    /// An extra with this key.
    Extra(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// Right side of a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Flag(bool),
    Number(f64),
    Text(String),
    Field(Field),
}

/// Whether a condition is true, and the values that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `None`: unknown.
    pub is_true: Option<bool>,
    /// The fields of the condition and their values, as a list for users: `players is 3, map is
    /// unknown`.
    pub reason: String,
}

impl Condition {
    /// Returns the condition `ready`: the server replies and does not report that it is starting.
    pub fn ready() -> Self {
        Self {
            text: "ready".into(),
            root: Node::Compare(Field::Ready, Operator::Equal, Operand::Flag(true)),
        }
    }

    /// Evaluates the condition.
    pub fn evaluate(&self, facts: &Facts<'_>) -> Verdict {
        let mut fields = Vec::new();
        self.root.collect_fields(&mut fields);
        let reasons: Vec<String> = fields.iter().map(|field| facts.describe(field)).collect();
        Verdict {
            is_true: self.root.evaluate(facts),
            reason: reasons.join(", "),
        }
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let root = parse::parse(text)?;
        Ok(Self {
            text: text.trim().into(),
            root,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Verdict {
    /// Returns `true`, `false` or `unknown`.
    pub fn word(&self) -> &'static str {
        match self.is_true {
            Some(true) => "true",
            Some(false) => "false",
            None => "unknown",
        }
    }
}

impl Node {
    /// Evaluates with three values: `None` is unknown.
    fn evaluate(&self, facts: &Facts<'_>) -> Option<bool> {
        match self {
            Self::Not(node) => node.evaluate(facts).map(|is_true| !is_true),
            Self::Any(nodes) => decide(nodes, facts, true),
            Self::All(nodes) => decide(nodes, facts, false),
            Self::Compare(field, operator, operand) => compare(facts, field, *operator, operand),
        }
    }

    /// Adds the fields that are not in the list yet.
    fn collect_fields<'a>(&'a self, fields: &mut Vec<&'a Field>) {
        let mut add = |field| {
            if !fields.contains(&field) {
                fields.push(field);
            }
        };
        match self {
            Self::Not(node) => node.collect_fields(fields),
            Self::Any(nodes) | Self::All(nodes) => {
                for node in nodes {
                    node.collect_fields(fields);
                }
            }
            Self::Compare(field, _, operand) => {
                add(field);
                if let Operand::Field(other) = operand {
                    add(other);
                }
            }
        }
    }
}

/// Returns `decisive` if one of the parts has this value, the opposite if all have that, or else
/// unknown.
fn decide(nodes: &[Node], facts: &Facts<'_>, decisive: bool) -> Option<bool> {
    let results: Vec<Option<bool>> = nodes.iter().map(|node| node.evaluate(facts)).collect();
    if results.contains(&Some(decisive)) {
        return Some(decisive);
    }
    (!results.contains(&None)).then_some(!decisive)
}

fn compare(
    facts: &Facts<'_>,
    field: &Field,
    operator: Operator,
    operand: &Operand,
) -> Option<bool> {
    match operand {
        Operand::Flag(expected) => {
            let is_same = facts.flag(field)? == *expected;
            Some(is_same == (operator == Operator::Equal))
        }
        Operand::Number(number) => {
            let order = facts.number(field)?.partial_cmp(number)?;
            Some(operator.accepts(order))
        }
        Operand::Field(other) => {
            let order = facts.number(field)?.partial_cmp(&facts.number(other)?)?;
            Some(operator.accepts(order))
        }
        Operand::Text(expected) => {
            if let (Some(is_set), Some(expected)) = (facts.flag(field), parse::flag(expected)) {
                return Some((is_set == expected) == (operator == Operator::Equal));
            }
            let text = facts.text(field)?;
            match operator {
                Operator::Equal | Operator::Unequal => {
                    let is_same = is_same_text(&text, expected);
                    Some(is_same == (operator == Operator::Equal))
                }
                _ if *field == Field::Version => {
                    let order = version_of(&text)?.cmp(&version_of(expected)?);
                    Some(operator.accepts(order))
                }
                _ => {
                    let order = number_of(&text)?.partial_cmp(&number_of(expected)?)?;
                    Some(operator.accepts(order))
                }
            }
        }
    }
}

impl Operator {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }

    /// Returns whether it compares the order of two values.
    fn is_order(self) -> bool {
        !matches!(self, Self::Equal | Self::Unequal)
    }
}

/// Returns whether a text of the server is the expected one: the same number, or the same letters,
/// where `*` matches any characters.
fn is_same_text(text: &str, expected: &str) -> bool {
    match (number_of(text), number_of(expected)) {
        (Some(text), Some(expected)) => text.partial_cmp(&expected) == Some(Ordering::Equal),
        _ => pattern::matches(&expected.trim().to_lowercase(), &text.trim().to_lowercase()),
    }
}

/// Parses a number without exponents or words, so that texts such as `inf` and `1e5` stay texts.
fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    is_number.then(|| text.parse().ok())?
}

/// Returns the numbers of the version in a text, without zeros at the end. `None` if the text has no
/// version, or several.
fn version_of(text: &str) -> Option<Vec<u64>> {
    let pieces = text
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .map(|piece| piece.trim_matches('.'))
        .filter(|piece| !piece.is_empty());
    let (dotted, plain): (Vec<&str>, Vec<&str>) = pieces.partition(|piece| piece.contains('.'));
    let (([version], _) | ([], [version])) = (&dotted[..], &plain[..]) else {
        return None;
    };
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    let mut numbers = numbers?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

#[cfg(test)]
mod tests;
