//! Texts that servers send in several rules (spec/a2s.md#6.2).

use super::message::decode;
use crate::model::{Extra, Value};
use alloc::vec::Vec;

/// Stem whose text describes the server.
const DESCRIPTION: &[u8] = b"description";

/// How the name of a rule numbers the parts of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Numbering {
    /// `description_00` or `description_0`; the number of parts is unknown. Other names of this form
    /// are those of independent rules.
    Suffix,
    /// `stem:1/2`, from 1.
    OneOf(u16),
    /// `stem:0-2`, from 0.
    ZeroOf(u16),
}

impl Numbering {
    /// Returns whether no part is missing or repeated.
    fn is_complete(self, parts: &[Part<'_>]) -> bool {
        let (first, total) = match self {
            // One such name is likely a usual rule.
            Self::Suffix if parts.len() < 2 => return false,
            Self::Suffix => (0, parts.len()),
            Self::OneOf(total) => (1, total.into()),
            Self::ZeroOf(total) => (0, total.into()),
        };
        let numbers = parts.iter().map(|part| usize::from(part.number));
        numbers.eq(first..first + total)
    }
}

/// A part of a text. The order of the fields is that of sorting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part<'a> {
    stem: &'a [u8],
    numbering: Numbering,
    number: u16,
    value: &'a [u8],
}

impl<'a> Part<'a> {
    /// Parses the name of a rule. `None` if it does not number a part.
    fn new(name: &'a [u8], value: &'a [u8]) -> Option<Self> {
        let part = |stem: &'a [u8], numbering, number| {
            (!stem.is_empty()).then_some(Self {
                stem,
                numbering,
                number,
                value,
            })
        };
        if let Some((stem, digits)) = split_at_last(name, b'_')
            && stem == DESCRIPTION
            && let Some(number) = number(digits)
        {
            return part(stem, Numbering::Suffix, number);
        }
        let (stem, numbers) = split_at_last(name, b':')?;
        let mark = numbers.iter().position(|byte| !byte.is_ascii_digit())?;
        let (index, total) = numbers.split_at(mark);
        let (mark, total) = total.split_first()?;
        let numbering = match mark {
            b'/' => Numbering::OneOf,
            b'-' => Numbering::ZeroOf,
            _ => return None,
        };
        part(stem, numbering(number(total)?), number(index)?)
    }
}

/// Splits a name around the last of a byte.
fn split_at_last(name: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = name.iter().rposition(|own| *own == byte)?;
    Some((name.get(..at)?, name.get(at + 1..)?))
}

fn number(digits: &[u8]) -> Option<u16> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(digits).ok()?;
    text.parse().ok().filter(|_| is_number)
}

/// Adds the texts of which all parts arrived.
pub(super) fn describe<'a>(
    rules: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    extras: &mut Vec<Extra>,
) {
    let mut parts: Vec<Part<'_>> = rules
        .filter_map(|(name, value)| Part::new(name, value))
        .collect();
    parts.sort_unstable();
    let mut texts = Vec::new();
    for group in parts.chunk_by(|a, b| (a.stem, a.numbering) == (b.stem, b.numbering)) {
        let Some(first) = group.first() else {
            continue;
        };
        if !first.numbering.is_complete(group) {
            continue;
        }
        let values: Vec<&[u8]> = group.iter().map(|part| part.value).collect();
        let value = Value::from(&*decode(&values.concat()).0);
        let is_described = extras.iter().any(|extra| extra.key == "description");
        if first.stem == DESCRIPTION && !is_described {
            extras.push(Extra::new("description", value));
        } else {
            texts.push((decode(first.stem).0.into(), value));
        }
    }
    if !texts.is_empty() {
        extras.push(Extra::new("joined-rules", Value::Table(texts)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn joined(rules: &[(&str, &str)]) -> Vec<String> {
        let mut extras = Vec::new();
        let rules = rules
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        describe(rules, &mut extras);
        let extra = |extra: &Extra| format!("{}={}", extra.key, extra.value);
        extras.iter().map(extra).collect()
    }

    #[test]
    fn texts_are_joined_in_the_order_of_their_numbers() {
        assert_eq!(
            joined(&[("description_01", "b"), ("x", "y"), ("description_00", "a")]),
            ["description=ab"]
        );
        assert_eq!(
            joined(&[
                ("mods:2/2", "d"),
                ("mods:1/2", "c"),
                ("description:1/1", "e")
            ]),
            ["description=e", "joined-rules=mods=cd"]
        );
        assert_eq!(
            joined(&[("modNames:1-2", "d"), ("modNames:0-2", "c")]),
            ["joined-rules=modNames=cd"]
        );
        assert_eq!(
            joined(&[("description_1", "b"), ("description_0", "a")]),
            ["description=ab"]
        );
        let many: Vec<String> = (1..=12).map(|i| format!("a:{i}/12")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "x")).collect();
        assert_eq!(joined(&many), ["joined-rules=a=xxxxxxxxxxxx"]);
    }

    #[test]
    fn other_names_and_incomplete_texts_are_left_alone() {
        for rules in [
            &[("description_00", "a")][..],
            &[("description_00", ""), ("description_02", "")],
            &[("description_01", ""), ("description_02", "")],
            &[("description_00", ""), ("description_00", "")],
            &[("a_00", ""), ("a_01", "")],
            &[("description_", ""), ("description_x", "")],
            &[("description_0x", ""), ("description_01", "")],
            &[("a:1/2", "")],
            &[("a:0/1", "")],
            &[("a:1-2", ""), ("a:2-2", "")],
            &[("a:1/2", ""), ("a:1/2", ""), ("a:2/2", "")],
            &[("a:1/2", ""), ("a:2/3", "")],
            &[("a:/1", ""), ("a:1/", ""), ("a:+1/1", ""), ("a:1:1", "")],
            &[("a:0/0", ""), ("a:0-0", ""), (":1/1", "")],
            &[("a:1/70000", "")],
        ] {
            assert_eq!(joined(rules), [""; 0], "{rules:?}");
        }
    }

    #[test]
    fn parts_can_end_inside_a_character() {
        let mut extras = Vec::new();
        let rules: [(&[u8], &[u8]); 2] = [(b"a:1/2", b"caf\xC3"), (b"a:2/2", b"\xA9")];
        describe(rules.into_iter(), &mut extras);
        assert_eq!(
            extras.first().unwrap().value,
            Value::Table([("a".into(), "caf\u{E9}".into())].into())
        );
    }

    #[test]
    fn a_description_that_is_known_stays() {
        let mut extras = Vec::from([Extra::new("description", "known")]);
        let rules: [(&[u8], &[u8]); 1] = [(b"description:1/1", b"other")];
        describe(rules.into_iter(), &mut extras);
        assert_eq!(extras[0], Extra::new("description", "known"));
        assert_eq!(extras.len(), 2);
    }
}
