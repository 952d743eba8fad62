//! XML with offsets, one event after the other.
//!
//! Reads elements, attributes and texts, with the five predefined entities and numbers of
//! characters. Comments and processing instructions are skipped. Document types are refused, so
//! there are no other entities. Names and nesting are not checked beyond the depth.
//!
//! Limits: 16 levels, 64 attributes of an element, 20,000 events.

use super::{Error, ErrorKind, by_content};
use alloc::string::String;
use alloc::vec::Vec;
use memchr::memmem::find;

/// Maximum depth of elements.
const MAX_DEPTH: usize = 16;
/// Maximum number of attributes of an element.
const MAX_ATTRIBUTES: usize = 64;
/// Maximum number of events.
const MAX_EVENTS: usize = 20_000;

/// A part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Start of an element. An empty one has an end too.
    Start(Element<'a>),
    /// Text that is not only white space, without white space at its ends.
    Text(String),
    /// End of the innermost element.
    End,
}

/// Start of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Offset of its bracket.
    pub at: usize,
    attributes: Vec<(&'a [u8], &'a [u8])>,
}

impl Element<'_> {
    /// Returns the value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<String> {
        let mut attributes = self.attributes.iter();
        let (_, value) = attributes.find(|(known, _)| *known == name.as_bytes())?;
        Some(unescaped(value).0)
    }

    /// Returns the value of an attribute that is a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.trim().parse().ok()
    }
}

/// A reader of a document.
#[derive(Debug)]
pub struct Xml<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
    depth: usize,
    events: usize,
    /// Whether the last start was that of an empty element.
    is_empty: bool,
}

impl<'a> Xml<'a> {
    /// Creates a reader of the document in this range.
    pub fn new(bytes: &'a [u8], range: core::ops::Range<usize>) -> Self {
        Self {
            bytes,
            at: range.start,
            end: range.end.min(bytes.len()),
            depth: 0,
            events: 0,
            is_empty: false,
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error {
            field: "XML",
            at: self.at,
            kind,
        }
    }

    /// Skips to the byte after `mark`.
    fn skip(&mut self, mark: &[u8]) -> Result<&'a [u8], Error> {
        let rest = self.rest();
        let Some(found) = find(rest, mark) else {
            self.at = self.end;
            return Err(self.error(ErrorKind::Short { need: mark.len() }));
        };
        self.at += found + mark.len();
        Ok(rest.get(..found).unwrap_or_default())
    }

    /// Returns the next event, or `None` at the end of the document.
    ///
    /// # Errors
    ///
    /// Names the offset of the part that is truncated, invalid or over a limit.
    pub fn next_event(&mut self) -> Result<Option<Event<'a>>, Error> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            return Err(self.error(ErrorKind::Limit { limit: MAX_EVENTS }));
        }
        if self.is_empty {
            self.is_empty = false;
            self.depth = self.depth.saturating_sub(1);
            return Ok(Some(Event::End));
        }
        loop {
            let rest = self.rest();
            let Some(length) = memchr::memchr(b'<', rest) else {
                return if self.depth > 0 {
                    self.at = self.end;
                    Err(self.error(ErrorKind::Short { need: 1 }))
                } else {
                    Ok(None)
                };
            };
            let text = rest.get(..length).unwrap_or_default().trim_ascii();
            if !text.is_empty() && self.depth > 0 {
                self.at += length;
                return Ok(Some(Event::Text(unescaped(text).0)));
            }
            self.at += length;
            let rest = self.rest();
            match rest {
                [b'<', b'?', ..] => drop(self.skip(b"?>")?),
                [b'<', b'!', b'-', b'-', ..] => drop(self.skip(b"-->")?),
                _ if rest.starts_with(b"<![CDATA[") && self.depth > 0 => {
                    self.at += 9;
                    let text = self.skip(b"]]>")?.trim_ascii();
                    return Ok(Some(Event::Text(by_content(text).0.into_owned())));
                }
                [b'<', b'!', ..] => {
                    return Err(self.error(ErrorKind::Bad("no document type")));
                }
                [b'<', b'/', ..] => {
                    self.skip(b">")?;
                    if self.depth == 0 {
                        return Err(self.error(ErrorKind::Bad("an element that ends here")));
                    }
                    self.depth -= 1;
                    return Ok(Some(Event::End));
                }
                _ => return self.element().map(Some),
            }
        }
    }

    /// Reads the start of an element. The cursor is at its bracket.
    fn element(&mut self) -> Result<Event<'a>, Error> {
        let at = self.at;
        if self.depth >= MAX_DEPTH {
            return Err(self.error(ErrorKind::Limit { limit: MAX_DEPTH }));
        }
        self.at += 1;
        let name = self.name()?;
        let mut attributes = Vec::new();
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_ascii_start().len();
            match self.rest() {
                [b'>', ..] => {
                    self.at += 1;
                    break;
                }
                [b'/', b'>', ..] => {
                    self.at += 2;
                    self.is_empty = true;
                    break;
                }
                [] => return Err(self.error(ErrorKind::Short { need: 1 })),
                _ => {}
            }
            if attributes.len() >= MAX_ATTRIBUTES {
                let limit = MAX_ATTRIBUTES;
                return Err(self.error(ErrorKind::Limit { limit }));
            }
            let key = self.name()?;
            let quote = match self.rest() {
                [b'=', quote @ (b'"' | b'\''), ..] => *quote,
                [] | [b'='] => return Err(self.error(ErrorKind::Short { need: 1 })),
                _ => return Err(self.error(ErrorKind::Bad("a value in quotes"))),
            };
            self.at += 2;
            let value = self.skip(&[quote])?;
            attributes.push((key, value));
        }
        self.depth += 1;
        Ok(Event::Start(Element {
            name,
            at,
            attributes,
        }))
    }

    fn name(&mut self) -> Result<&'a [u8], Error> {
        let rest = self.rest();
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"=/>\"'<".contains(byte);
        let Some(length) = rest.iter().position(is_end) else {
            self.at = self.end;
            return Err(self.error(ErrorKind::Short { need: 1 }));
        };
        if length == 0 {
            return Err(self.error(ErrorKind::Bad("a name")));
        }
        self.at += length;
        Ok(rest.get(..length).unwrap_or_default())
    }
}

/// Replaces entities. Unknown ones stay unchanged. Returns also whether there are such.
pub fn unescaped(bytes: &[u8]) -> (String, bool) {
    let (text, _) = by_content(bytes);
    let mut out = String::with_capacity(text.len());
    let mut has_unknown = false;
    let mut rest = &*text;
    while let Some((before, entity)) = rest.split_once('&') {
        out.push_str(before);
        let (name, after) = entity.split_once(';').unwrap_or(("", entity));
        let number = name.strip_prefix('#');
        let number = number.and_then(|digits| match digits.strip_prefix('x') {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        });
        let c = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number.and_then(char::from_u32),
        };
        match c {
            Some(c) => {
                out.push(c);
                rest = after;
            }
            None => {
                has_unknown = true;
                out.push('&');
                rest = entity;
            }
        }
    }
    out.push_str(rest);
    (out, has_unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn events(text: &str) -> Result<Vec<String>, Error> {
        let mut xml = Xml::new(text.as_bytes(), 0..text.len());
        let mut all = Vec::new();
        while let Some(event) = xml.next_event()? {
            all.push(match event {
                Event::Start(element) => {
                    let name = by_content(element.name).0.into_owned();
                    let value = element.attribute("a").unwrap_or_default();
                    format!("<{name} {value}")
                }
                Event::Text(text) => text,
                Event::End => "/".into(),
            });
        }
        Ok(all)
    }

    #[test]
    fn events_in_order() {
        let text = "\u{FEFF}<?xml version=\"1.0\"?><!-- <x> --><r a='1 &amp; 2'>\n <e/>t &lt;&#65;&#x42; &y;<![CDATA[<c>]]></r>\n";
        assert_eq!(
            events(text).unwrap(),
            ["<r 1 & 2", "<e ", "/", "t <AB &y;", "<c>", "/"]
        );
        for end in text.find("<r").unwrap() + 1..text.trim_end().len() {
            if text.is_char_boundary(end) {
                assert!(events(&text[..end]).is_err(), "{end}");
            }
        }
    }

    #[test]
    fn hostile_documents_are_refused() {
        let deep = "<a>".repeat(MAX_DEPTH + 1);
        let wide = format!("<a {}/>", "b='1' ".repeat(MAX_ATTRIBUTES + 1));
        let long = format!("<a>{}</a>", "<b/>".repeat(MAX_EVENTS));
        for bad in [
            "<!DOCTYPE a [<!ENTITY b \"x\">]><a/>",
            "</a>",
            "<a b>",
            "<a b=c>",
            "< a>",
            &deep,
            &wide,
            &long,
        ] {
            assert!(events(bad).is_err(), "{bad}");
        }
    }
}
