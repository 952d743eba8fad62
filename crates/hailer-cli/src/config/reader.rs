//! Reads TOML into serde types, and reports every error with its line and key.
//!
//! serde stops at the first error. [`read`] records it, removes the invalid value from the document
//! and tries again, up to [`MAX_PROBLEMS`] times. Types describe their values with `expecting`, and
//! one function formats all errors:
//!
//! ```text
//!   monitor.toml:7: server.interval: expected a time in quotes such as "5s", not an integer
//!   monitor.toml:9: server: unknown key `lables`; did you mean `labels`?
//! ```
//!
//! Errors never contain values of the wrong type, which may be misplaced secrets.

use crate::values::MAX_TIME;
use hailer::proto::Charset;
use hailer::support::catalog::closest;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de::value::MapAccessDeserializer, de::value::SeqAccessDeserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum number of errors reported for one file.
pub(crate) const MAX_PROBLEMS: usize = 20;

/// A mistake in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Line number, from 1. 0 for values from the command line.
    pub(crate) line: usize,
    /// The key and the correction, in one line.
    pub(crate) text: String,
}

/// Byte offsets of the line starts, without the first.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    /// Returns the line of a byte offset, from 1.
    pub(crate) fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset) + 1
    }
}

/// Result of reading a file.
pub(crate) struct Document<T> {
    /// `None` if the file has no usable content.
    pub(crate) value: Option<T>,
    /// Errors of syntax, types and keys, at most [`MAX_PROBLEMS`].
    pub(crate) problems: Vec<Problem>,
    /// Offsets of the `[[…]]` headers whose tables contained an invalid value.
    pub(crate) broken: BTreeSet<usize>,
    pub(crate) lines: Lines,
}

/// Reads a whole file.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Document<T> {
    let mut document = Document {
        value: None,
        problems: Vec::new(),
        broken: BTreeSet::new(),
        lines: Lines::new(text),
    };
    // Most files have no mistakes: build the syntax tree only for the others.
    let mut attempt = match toml::de::Deserializer::parse(text).and_then(T::deserialize) {
        Ok(value) => {
            document.value = Some(value);
            return document;
        }
        Err(error) => Err(error),
    };
    let (mut root, errors) = DeTable::parse_recoverable(text);
    // After a syntax error, further errors would be unreliable.
    if let Some(error) = errors.first() {
        let line = document.lines.at(error.span().map_or(0, |span| span.start));
        let text = error.message().replace('\n', "; ");
        document.problems.push(Problem { line, text });
        return document;
    }
    let mut removed = BTreeSet::new();
    let mut incomplete = BTreeSet::new();
    loop {
        let error = match attempt {
            Ok(value) => {
                document.value = Some(value);
                return document;
            }
            Err(error) => error,
        };
        let span = error.span().unwrap_or(0..0);
        let Some(place) = remove(&mut root, &span) else {
            document.note(span.start, &[], &error);
            return document;
        };
        // Skip errors that only result from the removal of a value above.
        let is_consequence = match missing(error.message()) {
            Some(key) => removed.contains(&(span.start, key.to_owned())),
            None => place.is_value && incomplete.contains(&span.start),
        };
        if !is_consequence {
            document.note(span.start, &place.path, &error);
        }
        if let Some(key) = place.path.last() {
            removed.insert((place.table, key.clone()));
        }
        incomplete.extend(place.around);
        document.broken.extend(place.block);
        if document.problems.len() >= MAX_PROBLEMS {
            return document;
        }
        attempt = T::deserialize(toml::de::Deserializer::from(root.clone()));
    }
}

impl<T> Document<T> {
    fn note(&mut self, offset: usize, path: &[String], error: &toml::de::Error) {
        let line = self.lines.at(offset);
        let text = worded(path, error.message());
        self.problems.push(Problem { line, text });
    }
}

/// Location of a removed value.
#[derive(Default)]
struct ValueLocation {
    path: Vec<String>,
    /// Whether a value was invalid. Otherwise the key was.
    is_value: bool,
    /// Offset of the table that contained it.
    table: usize,
    /// Offsets of all enclosing tables and lists.
    around: Vec<usize>,
    /// Offset of the header of the enclosing `[[…]]` table.
    block: Option<usize>,
}

/// Removes the innermost value or key with this span.
fn remove(root: &mut Spanned<DeTable<'_>>, span: &Range<usize>) -> Option<ValueLocation> {
    let table = root.span().start;
    remove_from_table(root.as_mut(), table, span)
}

fn remove_from_table(
    table: &mut DeTable<'_>,
    own: usize,
    span: &Range<usize>,
) -> Option<ValueLocation> {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let inner = remove_from_value(value, span);
        if let Some(mut place) = inner {
            place.path.insert(0, key.get_ref().to_string());
            place.around.push(own);
            return Some(place);
        }
        if key.span() == *span || value.span() == *span {
            found = Some((key.clone(), value.span() == *span));
            break;
        }
    }
    let (key, is_value) = found?;
    table.remove(&key);
    Some(ValueLocation {
        path: vec![key.into_inner().into_owned()],
        is_value,
        table: own,
        around: vec![own],
        block: None,
    })
}

fn remove_from_value<'i>(
    value: &mut Spanned<DeValue<'i>>,
    span: &Range<usize>,
) -> Option<ValueLocation> {
    let own = value.span().start;
    match value.as_mut() {
        DeValue::Table(table) => remove_from_table(table, own, span),
        DeValue::Array(array) => {
            for at in 0..array.len() {
                let item = array.get_mut(at)?;
                if let Some(mut place) = remove_from_value(item, span) {
                    place.around.push(own);
                    place.block = Some(item.span().start);
                    return Some(place);
                }
                if item.span() == *span {
                    let kept = array.iter().enumerate().filter(|(i, _)| *i != at);
                    *array = kept.map(|(_, item)| item.clone()).collect();
                    return Some(ValueLocation {
                        path: Vec::new(),
                        is_value: true,
                        table: own,
                        around: vec![own],
                        block: Some(span.start),
                    });
                }
            }
            None
        }
        _ => None,
    }
}

/// Returns the key in "missing field `key`".
fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// How serde begins the description of a value, and the term for users.
const KINDS: [(&str, &str); 6] = [
    ("string", "a text"),
    ("integer", "an integer"),
    ("floating point", "a decimal number"),
    ("boolean", "true or false"),
    ("sequence", "a list"),
    ("map", "a table"),
];

/// Rewrites an error of serde for users.
fn worded(path: &[String], message: &str) -> String {
    let message = message.replace('\n', "; ");
    let at = |path: &[String]| match path {
        [] => String::new(),
        path => format!("{}: ", path.join(".")),
    };
    if let Some(key) = missing(&message) {
        return format!("{}missing key `{key}`", at(path));
    }
    if let Some((key, known)) = unknown(&message, "unknown field `") {
        let fix = meant(key, &known, "no key belongs here");
        let table = &path[..path.len().saturating_sub(1)];
        return format!("{}unknown key `{key}`; {fix}", at(table));
    }
    if let Some((word, known)) = unknown(&message, "unknown variant `") {
        return format!(
            "{}unknown value {word:?}; {}",
            at(path),
            meant(word, &known, "")
        );
    }
    let invalid = message
        .strip_prefix("invalid type: ")
        .or(message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = invalid.and_then(|rest| rest.rsplit_once(", expected ")) {
        let kind = KINDS.iter().find(|(kind, _)| found.starts_with(kind));
        let kind = kind.filter(|_| message.starts_with("invalid type: "));
        let kind = kind.map_or(String::new(), |(_, name)| format!(", not {name}"));
        let expected = match expected {
            "a string" => "a text in quotes",
            "a boolean" => "true or false",
            "a sequence" => "a list",
            "a map" => "a table",
            other if other.starts_with("struct ") => "a table",
            other => other,
        };
        return format!("{}expected {expected}{kind}", at(path));
    }
    format!("{}{message}", at(path))
}

/// Parses "unknown field `a`, expected `b` or `c`". Returns the unknown word and the known ones.
fn unknown<'a>(message: &'a str, prefix: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (word, rest) = message
        .strip_prefix(prefix)?
        .rsplit_once("`, ")
        .map_or_else(
            || Some((message.strip_prefix(prefix)?.strip_suffix('`')?, "")),
            |_| message.strip_prefix(prefix)?.split_once("`, "),
        )?;
    Some((word, rest.split('`').skip(1).step_by(2).collect()))
}

fn meant(word: &str, known: &[&str], none: &str) -> String {
    match closest(word, known.iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None if known.is_empty() => none.into(),
        None => format!("known are {}", known.join(", ")),
    }
}

/// A form of values that are written as text.
pub(crate) trait FromText {
    /// The parsed value.
    type Value;
    /// Expected form, for errors: "a time in quotes such as \"5s\"".
    const EXPECTED: &'static str;

    /// Whether errors quote the text.
    const IS_QUOTED: bool = true;

    /// Parses the text. `None` is an error that names the expected form.
    fn parse(text: &str) -> Option<Self::Value>;

    /// Parses the text, for forms with separate errors.
    fn from_text(text: &str) -> Result<Self::Value, String> {
        Self::parse(text).ok_or_else(|| match Self::IS_QUOTED {
            true => format!("{text:?}: expected {}", Self::EXPECTED),
            false => format!("expected {}", Self::EXPECTED),
        })
    }
}

impl FromText for Charset {
    type Value = Self;
    const EXPECTED: &'static str = "a character set such as \"GBK\" or \"windows-1251\"";

    fn parse(text: &str) -> Option<Self> {
        Self::find(text)
    }

    fn from_text(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| format!("{text:?}: {}", Self::EXPECTED))
    }
}

impl FromText for SocketAddr {
    type Value = Self;
    const EXPECTED: &'static str = "an \"ADDRESS:PORT\" such as \"127.0.0.1:8080\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A value of a form.
pub(crate) struct Parsed<F: FromText>(pub(crate) F::Value);

impl<F: FromText<Value: Clone>> Clone for Parsed<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Never writes the value, which may be a secret.
impl<F: FromText> fmt::Debug for Parsed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(F::EXPECTED)
    }
}

impl<'de, F: FromText> Deserialize<'de> for Parsed<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<F>(PhantomData<F>);
        impl<F: FromText> Visitor<'_> for Text<F> {
            type Value = Parsed<F>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(F::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Parsed<F>, E> {
                F::from_text(text).map(Parsed).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text(PhantomData))
    }
}

/// A duration of at least `MIN_MS` milliseconds and at most 366 days.
pub(crate) enum Time<const MIN_MS: u64> {}

impl<const MIN_MS: u64> FromText for Time<MIN_MS> {
    type Value = Duration;
    const EXPECTED: &'static str = "a time in quotes such as \"5s\", \"500ms\" or \"1min\"";

    fn parse(text: &str) -> Option<Duration> {
        humantime::parse_duration(text).ok()
    }

    fn from_text(text: &str) -> Result<Duration, String> {
        let min = Duration::from_millis(MIN_MS);
        match Self::parse(text) {
            Some(time) if time >= min && time <= MAX_TIME => Ok(time),
            Some(_) => Err(format!(
                "{text}: expected at least {} and at most a year",
                humantime::format_duration(min)
            )),
            None => Err(format!("expected {}", Self::EXPECTED)),
        }
    }
}

/// An integer from `MIN` to `MAX`, as a `T` that holds all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct IntegerBetween<T, const MIN: i64, const MAX: i64>(pub(crate) T);

impl<'de, T: TryFrom<i64>, const MIN: i64, const MAX: i64> Deserialize<'de>
    for IntegerBetween<T, MIN, MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<T, const MIN: i64, const MAX: i64>(PhantomData<T>);
        impl<T: TryFrom<i64>, const MIN: i64, const MAX: i64> Visitor<'_> for Number<T, MIN, MAX> {
            type Value = IntegerBetween<T, MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                match T::try_from(number) {
                    Ok(value) if (MIN..=MAX).contains(&number) => Ok(IntegerBetween(value)),
                    _ => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }
        }
        deserializer.deserialize_i64(Number(PhantomData))
    }
}

/// Tables with `[[…]]` headers.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<T>(pub(crate) Vec<Spanned<T>>);

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Blocks<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlocksVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for BlocksVisitor<T> {
            type Value = Blocks<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("blocks whose header is in two brackets, such as [[server]]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Blocks<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Blocks)
            }
        }
        deserializer.deserialize_seq(BlocksVisitor(PhantomData))
    }
}

/// One value or a list of values.
#[derive(Clone, Debug)]
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<Spanned<T>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // `Spanned` must come first: the position is lost once the kind of value is determined.
        let value = Spanned::<Either<T>>::deserialize(deserializer)?;
        let span = value.span();
        Ok(Self(match value.into_inner() {
            Either::One(one) => vec![Spanned::new(span, one)],
            Either::Many(many) => many,
        }))
    }
}

enum Either<T> {
    One(T),
    Many(Vec<Spanned<T>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Either<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EitherVisitor<T> {
            type Value = Either<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text in quotes, or a list of such texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Either<T>, E> {
                T::deserialize(de::IntoDeserializer::into_deserializer(text)).map(Either::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Either<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(Either::Many)
            }
        }
        deserializer.deserialize_any(EitherVisitor(PhantomData))
    }
}

/// A table, or a string as the short form of a table.
#[derive(Clone, Debug)]
pub(crate) struct TextOr<T>(pub(crate) T);

/// Short form of a table.
pub(crate) trait FromShort: Sized {
    /// Expected form, for errors.
    const EXPECTED: &'static str;

    fn from_short(text: &str) -> Result<Self, String>;
}

impl<'de, T: Deserialize<'de> + FromShort> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + FromShort> Visitor<'de> for TextOrVisitor<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOr<T>, E> {
                T::from_short(text).map(TextOr).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(TextOr)
            }
        }
        deserializer.deserialize_any(TextOrVisitor(PhantomData))
    }
}

/// A string, or a number or boolean as text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TextOrNumber(pub(crate) String);

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumberVisitor;
        impl Visitor<'_> for TextOrNumberVisitor {
            type Value = TextOrNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a flag")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(text.into()))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(flag.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumberVisitor)
    }
}

/// A table that keeps the order of its keys.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<V>(pub(crate) Vec<(Spanned<String>, Spanned<V>)>);

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<Spanned<String>, Spanned<V>>::deserialize(deserializer)?;
        let mut entries: Vec<_> = map.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        Ok(Self(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    struct Root {
        server: Blocks<Server>,
        engine: Option<Engine>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Server {
        name: String,
        #[serde(default)]
        listen: OneOrMany<Spanned<Parsed<Time<1>>>>,
        poll: Option<TextOr<Poll>>,
        mode: Option<Mode>,
        #[serde(default)]
        rules: Ordered<TextOrNumber>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Poll {
        target: String,
        every: Option<Parsed<Time<1000>>>,
    }

    impl FromShort for Poll {
        const EXPECTED: &'static str = "a target";

        fn from_short(text: &str) -> Result<Self, String> {
            let target = text.to_owned();
            let every = None;
            Ok(Self { target, every })
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Mode {
        Serve,
        Silent,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Engine {
        workers: IntegerBetween<u32, 0, 1024>,
    }

    fn problems(text: &str) -> Vec<String> {
        let mut problems = read::<Root>(text).problems;
        problems.sort();
        let line = |problem: &Problem| format!("{}: {}", problem.line, problem.text);
        problems.iter().map(line).collect()
    }

    #[test]
    fn reports_every_mistake_with_line_and_key() {
        let text = "[engine]\nworkers = 9999\n[[server]]\nnam = 1\n[[server]]\nname = \"a\"\n\
            mode = \"slent\"\nrules = { a = true, b = [1] }\npoll.every = \"1ms\"\n[[server]]\n\
            name = 5\nlisten = [\"1s\",\n 3]\npoll = 7\n[[server]]\nname = \"sound\"\npoll = \"x\"\n";
        assert_eq!(
            problems(text),
            [
                "2: engine.workers: expected a whole number from 0 to 1024",
                "3: server: missing key `name`",
                "4: server: unknown key `nam`; did you mean `name`?",
                "7: server.mode: unknown value \"slent\"; did you mean `silent`?",
                "8: server.rules.b: expected a text, a number or a flag, not a list",
                "9: server.poll.every: 1ms: expected at least 1s and at most a year",
                "9: server.poll: missing key `target`",
                "11: server.name: expected a text in quotes, not an integer",
                "13: server.listen: expected a time in quotes such as \"5s\", \"500ms\" or \"1min\", not an integer",
                "14: server.poll: expected a target, not an integer",
            ]
        );
        let document = read::<Root>(text);
        let names: Vec<_> = document
            .value
            .iter()
            .flat_map(|root| &root.server.0)
            .collect();
        assert_eq!(names.len(), 2, "usable blocks remain");
        let broken = document.broken.iter().map(|at| document.lines.at(*at));
        assert_eq!(broken.collect::<Vec<_>>(), [3, 5, 10]);
    }

    #[test]
    fn reports_syntax_and_shape() {
        assert_eq!(problems(""), [""; 0]);
        assert!(problems("\n[[server]")[0].starts_with("2: "));
        assert_eq!(
            problems("server = 1"),
            [
                "1: server: expected blocks whose header is in two brackets, such as [[server]], not an integer"
            ]
        );
        assert_eq!(
            problems("x = 1"),
            ["1: unknown key `x`; known are server, engine"]
        );
        assert_eq!(
            problems("[engine]\nworkers = \"s3cret\""),
            ["2: engine.workers: expected a whole number from 0 to 1024, not a text"],
            "values are not repeated"
        );
    }

    #[test]
    fn the_number_of_problems_is_bounded() {
        let text = "[[server]]\nnam = 1\n".repeat(1_000);
        assert_eq!(problems(&text).len(), MAX_PROBLEMS);
    }

    #[test]
    fn suggests_only_similar_words() {
        let known = ["listen", "status", "stale-after"];
        assert_eq!(closest("lisen", known.into_iter()), Some("listen"));
        assert_eq!(
            closest("Stale_After", known.into_iter()),
            Some("stale-after")
        );
        assert_eq!(closest("port", known.into_iter()), None);
    }
}
