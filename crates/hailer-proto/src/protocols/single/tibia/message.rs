//! Bytes ⇄ messages. The only file that knows the layout (spec/tibia.md#2 and #3).
//!
//! The reply is a small part of XML: elements, attributes, texts, and the five named references and
//! numeric ones. Own entities, external references and sections of other kinds have no effect.
//!
//! Limits: replies of 16 KiB, 256 elements, 64 attributes of each.

use super::deviation::{BARE_AMPERSAND, LATIN1, NO_END};
use crate::protocol::Frame;
use crate::wire::xml::unescaped;
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use memchr::memmem;

/// The request for the status as text.
pub const REQUEST: &[u8] = b"\x06\0\xFF\xFFinfo";
/// End of the reply.
const END: &[u8] = b"</tsqp>";
/// Longest reply in bytes.
const MAX_BYTES: usize = 16 << 10;
/// Largest number of elements.
const MAX_ELEMENTS: usize = 256;
/// Largest number of attributes of an element.
const MAX_ATTRIBUTES: usize = 64;

/// Returns where the reply ends.
pub(super) fn frame(bytes: &[u8]) -> Result<Frame, Error> {
    if !bytes.is_empty() && !bytes.starts_with(b"<") {
        return Err(Error::bad("reply", 0, "XML"));
    }
    let found = memmem::find(bytes, END).map(|at| at + END.len());
    if found.unwrap_or(bytes.len()) > MAX_BYTES {
        return Err(Error::limit("reply", 0, MAX_BYTES));
    }
    let total = bytes.len() + 1;
    Ok(found.map_or(Frame::Incomplete { total }, Frame::Complete))
}

/// Returns whether bytes start like a reply.
pub(super) fn is_reply(bytes: &[u8]) -> bool {
    bytes.starts_with(b"<") && memmem::find(bytes, b"<tsqp").is_some()
}

/// An element of the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Name.
    pub name: String,
    /// Attributes.
    pub attributes: Vec<(String, String)>,
    /// Text inside of it, if it has no elements.
    pub text: String,
}

impl Element {
    /// Returns an attribute that is not empty.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(own, _)| own == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

/// Parses a reply: the elements inside of the root, in order.
///
/// # Errors
///
/// Names the field that is truncated or invalid, with its offset.
pub fn read(r: &mut Reader<'_, '_>) -> Result<Vec<Element>, Error> {
    let bytes = r.whole();
    if by_content(bytes).1 {
        r.notes().deviation(&LATIN1, 0);
    }
    let mut elements: Vec<Element> = Vec::new();
    let mut has_root = false;
    let mut has_end = false;
    while let Some(start) = memchr::memchr(b'<', r.rest()) {
        let at = r.at();
        let inner = r.take(start, "text")?;
        if let Some(element) = elements.last_mut().filter(|_| start > 0) {
            element.text.push_str(&decode(inner, at, r.notes()));
        }
        let at = r.at();
        let Some(length) = memchr::memchr(b'>', r.rest()) else {
            return Err(Error::short("element", at, 1));
        };
        let tag = r.take(length + 1, "element")?;
        let tag = tag.get(1..length).unwrap_or_default();
        match tag {
            [b'?' | b'!', ..] => {}
            b"/tsqp" => {
                has_end = true;
                break;
            }
            [b'/', ..] => {}
            _ if !has_root => {
                if !(tag == b"tsqp" || tag.starts_with(b"tsqp ")) {
                    return Err(Error::bad("root element", at, "tsqp"));
                }
                has_root = true;
            }
            _ if elements.len() >= MAX_ELEMENTS => {
                return Err(Error::limit("elements", at, MAX_ELEMENTS));
            }
            _ => {
                let element = read_element(tag, at + 1, r.notes())?;
                r.note(at, "element", || describe(&element));
                elements.push(element);
            }
        }
    }
    if !has_root {
        return Err(Error::bad("root element", bytes.len(), "tsqp"));
    }
    if !has_end {
        r.notes().deviation(&NO_END, bytes.len());
    }
    for element in &mut elements {
        let trimmed = element.text.trim();
        element.text = trimmed.into();
    }
    Ok(elements)
}

fn describe(element: &Element) -> String {
    let mut text = element.name.clone();
    for (name, value) in &element.attributes {
        text.push_str(&format!(" {name}={value:?}"));
    }
    text
}

/// Reads name and attributes of a start tag, without its angle brackets.
fn read_element(tag: &[u8], start: usize, notes: &mut Notes) -> Result<Element, Error> {
    let tag = tag.strip_suffix(b"/").unwrap_or(tag);
    let mut r = tag;
    let mut element = Element {
        name: decode(take_name(&mut r), start, notes),
        ..Element::default()
    };
    loop {
        r = r.trim_ascii_start();
        let at = start + tag.len() - r.len();
        if r.is_empty() {
            return Ok(element);
        }
        let name = take_name(&mut r);
        let rest = r.trim_ascii_start().strip_prefix(b"=");
        let rest = rest.map(<[u8]>::trim_ascii_start).unwrap_or_default();
        let value = rest.split_first().filter(|_| !name.is_empty());
        let Some((quote @ (b'"' | b'\''), rest)) = value else {
            return Err(Error::bad(
                "attribute",
                at,
                "a name, `=` and a value in quotes",
            ));
        };
        let Some(length) = memchr::memchr(*quote, rest) else {
            return Err(Error::bad("attribute", at, "a value with its second quote"));
        };
        let (value, rest) = rest.split_at(length);
        r = rest.get(1..).unwrap_or_default();
        if element.attributes.len() >= MAX_ATTRIBUTES {
            return Err(Error::limit("attributes", at, MAX_ATTRIBUTES));
        }
        let name = decode(name, at, notes);
        let value = decode(value, at, notes);
        element.attributes.push((name, value));
    }
}

/// Takes the bytes up to white space or `=`.
fn take_name<'a>(r: &mut &'a [u8]) -> &'a [u8] {
    let end = r
        .iter()
        .position(|byte| byte.is_ascii_whitespace() || *byte == b'=')
        .unwrap_or(r.len());
    let (name, rest) = r.split_at(end);
    *r = rest;
    name
}

/// Decodes a text with its references.
fn decode(bytes: &[u8], at: usize, notes: &mut Notes) -> String {
    let (text, has_bare_ampersand) = unescaped(bytes);
    if has_bare_ampersand {
        notes.deviation(&BARE_AMPERSAND, at);
    }
    text
}

/// Appends a text with references in place of the characters that need them.
pub fn escape(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match c {
            '&' => out.extend(b"&amp;"),
            '<' => out.extend(b"&lt;"),
            '>' => out.extend(b"&gt;"),
            '"' => out.extend(b"&quot;"),
            _ => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_bare_ampersands_decode() {
        let reply = b"<tsqp><motd a='&quot;&#233;&#x2605;' b=\"Tom & Eve &unknown; &#xD800;\">x &lt; y</motd></tsqp>";
        let mut notes = Notes::default();
        let elements = read(&mut Reader::new(reply, &mut notes)).unwrap();
        let motd = &elements[0];
        assert_eq!(motd.attribute("a"), Some("\"\u{E9}\u{2605}"));
        assert_eq!(motd.attribute("b"), Some("Tom & Eve &unknown; &#xD800;"));
        assert_eq!(motd.text, "x < y");
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["bare-ampersand"]);
    }

    #[test]
    fn escaped_texts_come_back() {
        let text = "a<b>&\"'c\u{E9}";
        let mut reply = Vec::from(*b"<tsqp><motd a=\"");
        escape(text, &mut reply);
        reply.extend(b"\">");
        escape(text, &mut reply);
        reply.extend(b"</motd></tsqp>");
        assert_eq!(frame(&reply), Ok(Frame::Complete(reply.len())));
        let mut notes = Notes::default();
        let elements = read(&mut Reader::new(&reply, &mut notes)).unwrap();
        assert_eq!(elements[0].attribute("a"), Some(text));
        assert_eq!(elements[0].text, text);
        assert_eq!(notes.met().count(), 0);
    }
}
