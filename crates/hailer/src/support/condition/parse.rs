//! Parser of conditions. Errors name the fix in one line.

use super::{Field, Node, Operand, Operator};
use crate::support::catalog;
use std::fmt;

/// Longest condition, in bytes.
const MAX_BYTES: usize = 1_000;
/// Deepest nesting of `not` and parentheses.
const MAX_DEPTH: usize = 32;
/// Words that join conditions.
const KEYWORDS: [&str; 3] = ["and", "or", "not"];
/// Symbols of other languages, and the word for them.
const FOREIGN: [(&str, &str); 6] = [
    ("&&", "and"),
    ("&", "and"),
    ("||", "or"),
    ("|", "or"),
    ("!", "not"),
    (",", "and"),
];

/// Mistake in a condition, with the fix. One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// The mistake and its fix, as a clause.
    pub message: String,
    /// Characters before the mistake.
    pub position: usize,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.position + 1, self.message)
    }
}

impl std::error::Error for ConditionError {}

/// A token and the offset of its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    kind: Kind,
    at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Open,
    Close,
    Operator(Operator),
    /// A word or a quoted text. Only words can be fields and keywords.
    Word {
        text: String,
        is_quoted: bool,
    },
    End,
}

/// How a field can be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Flag,
    Count,
    Time,
    Version,
    Text,
    /// A number, a text or a flag.
    Any,
}

impl Field {
    /// The fields with a fixed name.
    const NAMED: [(&'static str, Self); 14] = [
        ("players", Self::Players),
        ("online", Self::Online),
        ("ready", Self::Ready),
        ("map", Self::Map),
        ("name", Self::Name),
        ("version", Self::Version),
        ("password", Self::Password),
        ("bots", Self::Bots),
        ("max", Self::Max),
        ("ping", Self::Ping),
        ("motd", Self::Motd),
        ("game", Self::Game),
        ("mode", Self::Mode),
        ("anti_cheat", Self::AntiCheat),
    ];

    /// Names of the same fields in the output of the tool.
    const ALIASES: [(&'static str, Self); 6] = [
        ("players_online", Self::Players),
        ("players_max", Self::Max),
        ("maxplayers", Self::Max),
        ("latency", Self::Ping),
        ("latency_ms", Self::Ping),
        ("anticheat", Self::AntiCheat),
    ];

    /// Returns the name, as users write it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Rule(key) => format!("rules.{}", quoted(key)),
            Self::Extra(key) => format!("extra.{}", quoted(key)),
            named => {
                let mut known = Self::NAMED.iter().filter(|(_, field)| field == named);
                known
                    .next()
                    .map_or(String::new(), |(name, _)| (*name).into())
            }
        }
    }

    /// Returns the field with a name.
    fn find(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let mut named = Self::NAMED.iter().chain(&Self::ALIASES);
        if let Some((_, field)) = named.find(|(known, _)| *known == lower) {
            return Some(field.clone());
        }
        let (family, _) = lower.split_once('.')?;
        let key = name.get(family.len() + 1..).filter(|key| !key.is_empty())?;
        match family {
            "rules" | "rule" => Some(Self::Rule(key.into())),
            "extra" => Some(Self::Extra(key.into())),
            _ => None,
        }
    }

    fn kind(&self) -> Type {
        match self {
            Self::Online | Self::Ready | Self::Password | Self::AntiCheat => Type::Flag,
            Self::Players | Self::Max | Self::Bots => Type::Count,
            Self::Ping => Type::Time,
            Self::Version => Type::Version,
            Self::Name | Self::Motd | Self::Game | Self::Mode | Self::Map => Type::Text,
            Self::Rule(_) | Self::Extra(_) => Type::Any,
        }
    }
}

/// Quotes a text if it needs quotes.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains(|c: char| is_special(c) || c.is_whitespace());
    let mark = if text.contains('"') { '\'' } else { '"' };
    if is_plain {
        text.into()
    } else {
        format!("{mark}{text}{mark}")
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '(' | ')' | '=' | '!' | '<' | '>' | '\'' | '"')
}

/// Parses a condition.
pub(super) fn parse(text: &str) -> Result<Node, ConditionError> {
    if text.len() > MAX_BYTES {
        return Err(ConditionError {
            message: format!("a condition has at most {MAX_BYTES} bytes"),
            position: 0,
        });
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        next: 0,
    };
    let node = parser.any(0)?;
    match parser.peek().kind {
        Kind::End => Ok(node),
        Kind::Close => Err(parser.error("this parenthesis closes nothing; remove it")),
        _ => Err(parser.unexpected()),
    }
}

/// Returns a mistake at an offset.
fn mistake(text: &str, at: usize, message: impl Into<String>) -> ConditionError {
    let before = text.get(..at).unwrap_or(text);
    ConditionError {
        message: message.into(),
        position: before.chars().count(),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, ConditionError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            tokens.push(Token {
                kind: Kind::End,
                at,
            });
            return Ok(tokens);
        };
        let (kind, length) = match first {
            '(' => (Kind::Open, 1),
            ')' => (Kind::Close, 1),
            '=' | '!' | '<' | '>' => match operator(rest) {
                Some((operator, length)) => (Kind::Operator(operator), length),
                None => return Err(mistake(text, at, "write `not` instead of `!`")),
            },
            _ => {
                let is_quoted = matches!(first, '\'' | '"');
                let (word, length) = word(rest).map_err(|inside| {
                    mistake(text, at + inside, "this quotation mark has no second one")
                })?;
                (
                    Kind::Word {
                        text: word,
                        is_quoted,
                    },
                    length,
                )
            }
        };
        tokens.push(Token { kind, at });
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
}

/// Returns the operator at the start of a text, and its length.
fn operator(text: &str) -> Option<(Operator, usize)> {
    const OPERATORS: [(&str, Operator); 8] = [
        ("!=", Operator::Unequal),
        ("<>", Operator::Unequal),
        ("<=", Operator::AtMost),
        (">=", Operator::AtLeast),
        ("==", Operator::Equal),
        ("=", Operator::Equal),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let found = OPERATORS.iter().find(|(sign, _)| text.starts_with(sign))?;
    Some((found.1, found.0.len()))
}

/// Returns the word at the start of a text, with its quoted parts, and its length.
///
/// # Errors
/// The offset of a quotation mark without a second one.
fn word(text: &str) -> Result<(String, usize), usize> {
    let mut word = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if matches!(first, '\'' | '"') {
            let (inside, after) = rest[1..].split_once(first).ok_or(text.len() - rest.len())?;
            word.push_str(inside);
            rest = after;
        } else if first.is_whitespace() || is_special(first) {
            break;
        } else {
            word.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok((word, text.len() - rest.len()))
}

struct Parser<'a> {
    text: &'a str,
    /// The last one is [`Kind::End`].
    tokens: Vec<Token>,
    next: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[self.next.min(last)]
    }

    /// Returns whether the next token is this keyword.
    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(&self.peek().kind, Kind::Word { text, is_quoted: false } if text.eq_ignore_ascii_case(keyword))
    }

    /// Takes the next token if it is this keyword.
    fn takes(&mut self, keyword: &str) -> bool {
        let is_next = self.is_keyword(keyword);
        self.next += usize::from(is_next);
        is_next
    }

    fn error(&self, message: impl Into<String>) -> ConditionError {
        mistake(self.text, self.peek().at, message)
    }

    /// Explains a token after a complete part.
    fn unexpected(&self) -> ConditionError {
        match &self.peek().kind {
            Kind::Word { text, .. } => match foreign(text) {
                Some(word) => self.error(format!("write `{word}` instead of `{text}`")),
                None => self.error(format!(
                    "expected `and` or `or` before `{text}`; a text with spaces needs quotes"
                )),
            },
            _ => self.error("expected `and`, `or` or the end"),
        }
    }

    fn any(&mut self, depth: usize) -> Result<Node, ConditionError> {
        let mut nodes = vec![self.all(depth)?];
        while self.takes("or") {
            nodes.push(self.all(depth)?);
        }
        Ok(match nodes.len() {
            1 => nodes.swap_remove(0),
            _ => Node::Any(nodes),
        })
    }

    fn all(&mut self, depth: usize) -> Result<Node, ConditionError> {
        let mut nodes = vec![self.part(depth)?];
        while self.takes("and") {
            nodes.push(self.part(depth)?);
        }
        Ok(match nodes.len() {
            1 => nodes.swap_remove(0),
            _ => Node::All(nodes),
        })
    }

    fn part(&mut self, depth: usize) -> Result<Node, ConditionError> {
        if depth == MAX_DEPTH {
            return Err(self.error(format!("more than {MAX_DEPTH} nested parts")));
        }
        if self.takes("not") {
            return Ok(Node::Not(Box::new(self.part(depth + 1)?)));
        }
        if self.peek().kind != Kind::Open {
            return self.comparison();
        }
        let opening = self.peek().at;
        self.next += 1;
        let node = self.any(depth + 1)?;
        match self.peek().kind {
            Kind::Close => {
                self.next += 1;
                Ok(node)
            }
            Kind::End => Err(mistake(
                self.text,
                opening,
                "this parenthesis is never closed",
            )),
            _ => Err(self.unexpected()),
        }
    }

    fn comparison(&mut self) -> Result<Node, ConditionError> {
        let field = self.field()?;
        self.next += 1;
        let Kind::Operator(operator) = self.peek().kind else {
            if field.kind() == Type::Flag {
                let yes = Operand::Flag(true);
                return Ok(Node::Compare(field, Operator::Equal, yes));
            }
            let name = field.name();
            let example = match field.kind() {
                Type::Count => format!("{name} = 0"),
                Type::Time => format!("{name} < 100ms"),
                _ => format!("{name} = TEXT"),
            };
            return Err(self.error(format!("`{name}` needs a comparison, such as `{example}`")));
        };
        if operator.is_order() && matches!(field.kind(), Type::Flag | Type::Text) {
            let name = field.name();
            return Err(self.error(format!("`{name}` has no order; use = or !=")));
        }
        self.next += 1;
        let Kind::Word { text, is_quoted } = self.peek().kind.clone() else {
            return Err(self.error(format!("expected a value for `{}`", field.name())));
        };
        if !is_quoted && KEYWORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Err(self.error(format!(
                "expected a value for `{}` before `{text}`; put a text in quotes",
                field.name()
            )));
        }
        let operand = operand(&field, operator, &text).map_err(|message| self.error(message))?;
        self.next += 1;
        Ok(Node::Compare(field, operator, operand))
    }

    /// Returns the field that the next token names.
    fn field(&self) -> Result<Field, ConditionError> {
        let text = match &self.peek().kind {
            Kind::Word {
                text,
                is_quoted: false,
            } => text,
            Kind::Word { text, .. } => {
                return Err(self.error(format!(
                    "expected a field such as `players` or `map`, not the text \"{text}\""
                )));
            }
            Kind::End if self.next == 0 => {
                return Err(self.error("the condition is empty; write one such as `players = 0`"));
            }
            Kind::End => return Err(self.error("the condition ends too early")),
            _ => return Err(self.error("expected a field such as `players` or `map`")),
        };
        if let Some(field) = Field::find(text) {
            return Ok(field);
        }
        if KEYWORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Err(self.error(format!("a part is missing before `{text}`")));
        }
        if let Some(word) = foreign(text) {
            return Err(self.error(format!("write `{word}` instead of `{text}`")));
        }
        let known = Field::NAMED.iter().map(|(name, _)| *name);
        let message = match catalog::closest(text, known.clone().chain(["rules.NAME"])) {
            Some(close) => format!("unknown field `{text}`; did you mean `{close}`?"),
            None => {
                let known: Vec<&str> = known.collect();
                let known = known.join(", ");
                format!("unknown field `{text}`; known are {known}, rules.NAME and extra.NAME")
            }
        };
        Err(self.error(message))
    }
}

/// Returns the word for a symbol of another language.
fn foreign(text: &str) -> Option<&'static str> {
    let found = FOREIGN.iter().find(|(symbol, _)| *symbol == text);
    found.map(|(_, word)| *word)
}

/// Parses the right side of a comparison.
fn operand(field: &Field, operator: Operator, text: &str) -> Result<Operand, String> {
    let name = field.name();
    match field.kind() {
        Type::Flag => match flag(text) {
            Some(is_set) => Ok(Operand::Flag(is_set)),
            None => Err(format!("`{name}` is yes or no, not `{text}`")),
        },
        Type::Count => {
            if let Some(other) = Field::find(text).filter(|other| other.kind() == Type::Count) {
                return Ok(Operand::Field(other));
            }
            match text.parse::<u32>() {
                Ok(number) => Ok(Operand::Number(number.into())),
                Err(_) => Err(format!(
                    "`{name}` is compared with a whole number, `players`, `max` or `bots`, not with `{text}`"
                )),
            }
        }
        Type::Time => milliseconds(&text.to_ascii_lowercase())
            .map(Operand::Number)
            .ok_or_else(|| {
                format!("`{name}` is compared with a time such as 100ms or 0.5s, not with `{text}`")
            }),
        Type::Version if operator.is_order() && super::version_of(text).is_none() => Err(format!(
            "`{name}` is compared with a version such as 1.21.4, not with `{text}`"
        )),
        Type::Any if operator.is_order() && super::number_of(text).is_none() => Err(format!(
            "`{name}` has an order only for numbers, not for `{text}`"
        )),
        Type::Version | Type::Text | Type::Any => Ok(Operand::Text(text.into())),
    }
}

/// Parses yes or no.
pub(super) fn flag(text: &str) -> Option<bool> {
    match &*text.to_ascii_lowercase() {
        "yes" | "true" | "1" => Some(true),
        "no" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// Parses a time in milliseconds, or with a unit.
fn milliseconds(text: &str) -> Option<f64> {
    let (digits, factor) = if let Some(digits) = text.strip_suffix("ms") {
        (digits, 1.0)
    } else if let Some(digits) = text.strip_suffix('s') {
        (digits, 1_000.0)
    } else {
        (text, 1.0)
    };
    super::number_of(digits)
        .filter(|number| *number >= 0.0)
        .map(|number| number * factor)
}
