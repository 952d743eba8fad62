//! JSON with offsets, parsed in one pass into a flat list.
//!
//! Parsing makes one allocation: a list of the values with their offsets. Texts are decoded on
//! request, because most bytes of a status are an icon that many callers skip. An [`Item`] knows
//! its bytes, for errors and for `hailer decode`.
//!
//! [`Json::parse`] is stricter than many parsers (no comments, trailing commas, NaN or byte order
//! mark), with two exceptions that real servers need: texts may contain control characters, and a
//! lone half of a surrogate pair becomes U+FFFD. A text that is not UTF-8, which [`Item::is_utf8`]
//! shows, is read as Windows-1252. [`Json::parse_lenient`] accepts what the lenient parser of the
//! game Minecraft accepts.
//!
//! Limits: 128 levels, 100,000 values, 4 GiB of text.

use super::text::first_of_two;
use super::{Error, ErrorKind};
use crate::wire::codepage::{CodePage, utf8_or_western};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum depth of nested lists and objects.
pub const MAX_DEPTH: usize = 128;
/// Maximum number of values, keys included.
pub const MAX_VALUES: usize = 100_000;

/// Kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number,
    /// A text.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
}

/// A parsed text.
#[derive(Debug)]
pub struct Json<'a> {
    bytes: &'a [u8],
    /// Offset of the first byte of the text, and the text if all of it is valid UTF-8. Most texts
    /// are, so their values need no further check.
    valid: Option<(usize, &'a str)>,
    nodes: Vec<Node>,
    /// Offset of the first byte that only lenient parsers accept.
    lenient_at: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    /// Whether a text has escapes.
    is_escaped: bool,
    /// Whether a text has quotes.
    is_quoted: bool,
    /// Bytes of the value; of a text, those between the quotes.
    start: u32,
    end: u32,
    /// Index of the node after this value and all that it contains.
    next: u32,
}

/// A value of a parsed text.
#[derive(Clone, Copy, Debug)]
pub struct Item<'j, 'a> {
    json: &'j Json<'a>,
    index: usize,
    node: Node,
}

impl<'a> Json<'a> {
    /// Parses the value in this range of the bytes. White space may surround it.
    ///
    /// # Errors
    ///
    /// Names the offset of the first byte that is not JSON, or of the value that exceeds a limit.
    pub fn parse(bytes: &'a [u8], range: Range<usize>, field: &'static str) -> Result<Self, Error> {
        Self::parse_with(bytes, range, field, false)
    }

    /// Parses a value as [`parse`](Self::parse), and otherwise as the lenient reader of Gson does,
    /// the parser of Minecraft: with comments, a byte order mark, single quotes, texts without
    /// quotes, `NaN` and infinity, separators `;`, `=` and `=>`, and superfluous commas.
    /// [`lenient_at`](Self::lenient_at) shows whether that was necessary.
    ///
    /// # Errors
    ///
    /// As for [`parse`](Self::parse), whose error it returns if both fail.
    pub fn parse_lenient(
        bytes: &'a [u8],
        range: Range<usize>,
        field: &'static str,
    ) -> Result<Self, Error> {
        Self::parse_with(bytes, range.clone(), field, false).or_else(|error| {
            let mut json = Self::parse_with(bytes, range, field, true).map_err(|_| error)?;
            json.lenient_at = Some(error.at);
            Ok(json)
        })
    }

    /// Returns the offset of the first byte that only lenient parsers accept.
    pub fn lenient_at(&self) -> Option<usize> {
        self.lenient_at
    }

    fn parse_with(
        bytes: &'a [u8],
        range: Range<usize>,
        field: &'static str,
        is_lenient: bool,
    ) -> Result<Self, Error> {
        let bytes = bytes.get(..range.end).unwrap_or(bytes);
        let mut parser = Parser {
            bytes,
            at: range.start,
            field,
            is_lenient,
            nodes: Vec::with_capacity(range.len() / 12 + 8),
        };
        parser.document()?;
        let text = core::str::from_utf8(bytes.get(range.start..).unwrap_or_default());
        Ok(Self {
            bytes,
            valid: text.ok().map(|text| (range.start, text)),
            nodes: parser.nodes,
            lenient_at: None,
        })
    }

    /// Returns the outermost value.
    pub fn root(&self) -> Item<'_, 'a> {
        let node = self.nodes.first().copied().unwrap_or(Node {
            kind: Kind::Null,
            is_escaped: false,
            is_quoted: false,
            start: 0,
            end: 0,
            next: 1,
        });
        Item {
            json: self,
            index: 0,
            node,
        }
    }
}

impl<'j, 'a> Item<'j, 'a> {
    /// Returns the kind of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        self.node.kind
    }

    /// Returns the bytes of the value, with the quotes of a text.
    #[inline]
    pub fn range(self) -> Range<usize> {
        let quote = usize::from(self.node.is_quoted);
        (self.node.start as usize).saturating_sub(quote)..self.node.end as usize + quote
    }

    /// Returns the offset of the first byte.
    #[inline]
    pub fn at(self) -> usize {
        self.range().start
    }

    /// Returns the bytes of a number, or those between the quotes of a text.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.json
            .bytes
            .get(self.node.start as usize..self.node.end as usize)
            .unwrap_or_default()
    }

    /// Returns the text with its escapes replaced, if it is one. A text that is not UTF-8 is read as
    /// Windows-1252. Lone surrogates become U+FFFD.
    #[inline]
    pub fn text(self) -> Option<Cow<'a, str>> {
        (self.node.kind == Kind::Text).then(|| {
            if self.node.is_escaped {
                return Cow::Owned(unescaped(self.bytes(), self.is_utf8()));
            }
            match self.valid() {
                Some(text) => Cow::Borrowed(text),
                None => utf8_or_western(self.bytes()).0,
            }
        })
    }

    /// Returns whether the bytes of a text are valid UTF-8.
    #[inline]
    pub fn is_utf8(self) -> bool {
        self.json.valid.is_some() || core::str::from_utf8(self.bytes()).is_ok()
    }

    /// Returns the [bytes](Self::bytes) as text, if the whole text is valid UTF-8.
    #[inline]
    fn valid(self) -> Option<&'a str> {
        let (start, text) = self.json.valid?;
        let at = |offset: u32| (offset as usize).checked_sub(start);
        text.get(at(self.node.start)?..at(self.node.end)?)
    }

    /// Returns a number as it is written.
    pub fn number(self) -> Option<&'a str> {
        match self.node.kind {
            Kind::Number => self
                .valid()
                .or_else(|| core::str::from_utf8(self.bytes()).ok()),
            _ => None,
        }
    }

    /// Returns the elements of a list. Empty for other values.
    pub fn items(self) -> impl Iterator<Item = Item<'j, 'a>> {
        self.children(Kind::List)
    }

    /// Returns the keys and values of an object, in order. Empty for other values.
    pub fn entries(self) -> impl Iterator<Item = (Item<'j, 'a>, Item<'j, 'a>)> {
        let mut children = self.children(Kind::Object);
        core::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// Returns the value of the first member with this key, unless it is `null`.
    pub fn member(self, key: &str) -> Option<Self> {
        let mut entries = self.entries();
        let (_, value) = entries.find(|(name, _)| name.is_text(key))?;
        (value.kind() != Kind::Null).then_some(value)
    }

    /// Returns whether the value is this text.
    fn is_text(self, text: &str) -> bool {
        if self.node.is_escaped {
            self.text().is_some_and(|own| own == text)
        } else {
            self.node.kind == Kind::Text && self.bytes() == text.as_bytes()
        }
    }

    /// Returns a text, or another scalar as it is written. `None` for `null`, lists and objects.
    pub fn scalar(self) -> Option<Cow<'a, str>> {
        match self.node.kind {
            Kind::Text => self.text(),
            Kind::Number => self.number().map(Cow::Borrowed),
            Kind::Bool(true) => Some(Cow::Borrowed("true")),
            Kind::Bool(false) => Some(Cow::Borrowed("false")),
            Kind::Null | Kind::List | Kind::Object => None,
        }
    }

    /// Returns a whole number, also one in a text. Fractions are cut off.
    pub fn integer(self) -> Option<i64> {
        let text = match self.node.kind {
            Kind::Number => Cow::Borrowed(self.number()?),
            Kind::Text => self.text()?,
            _ => return None,
        };
        let text = text.trim();
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        let number = text.parse::<f64>().ok()?;
        let is_in_range = number > i64::MIN as f64 && number < i64::MAX as f64;
        is_in_range.then_some(number as i64)
    }

    /// Returns a number with a fraction, also one in a text. `None` if it is not finite.
    pub fn float(self) -> Option<f64> {
        let text = self.scalar()?;
        let number = text.trim().parse::<f64>().ok()?;
        number.is_finite().then_some(number)
    }

    /// Returns a boolean. Accepts texts, and the numbers 0 and 1.
    pub fn boolean(self) -> Option<bool> {
        match self.scalar()?.as_ref() {
            "true" | "True" | "1" => Some(true),
            "false" | "False" | "0" => Some(false),
            _ => None,
        }
    }

    fn children(self, kind: Kind) -> impl Iterator<Item = Item<'j, 'a>> {
        let end = if self.node.kind == kind {
            self.node.next as usize
        } else {
            0
        };
        let mut index = self.index + 1;
        core::iter::from_fn(move || {
            if index >= end {
                return None;
            }
            let node = *self.json.nodes.get(index)?;
            let item = Item {
                json: self.json,
                index,
                node,
            };
            index = node.next as usize;
            Some(item)
        })
    }
}

/// A list or object that is open.
#[derive(Clone, Copy)]
struct Open {
    node: usize,
    /// Its last byte. `None` outside of the outermost value.
    close: Option<u8>,
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    field: &'static str,
    is_lenient: bool,
    nodes: Vec<Node>,
}

/// Bytes that end a text without quotes.
const ENDS: &[u8] = b"/\\;#={}[]:, \t\x0C\r\n";

impl Parser<'_> {
    /// Parses without recursion, so that depth costs no stack.
    fn document(&mut self) -> Result<(), Error> {
        // The lists and objects around the current position, each with the node of the one around
        // it.
        let mut around: Vec<Open> = Vec::new();
        let mut innermost = Open {
            node: 0,
            close: None,
        };
        self.start();
        loop {
            // A value starts here, in an object its key.
            if innermost.close == Some(b'}') {
                self.key()?;
            }
            let start = self.at;
            let (kind, close) = match self.byte()? {
                b'{' => (Kind::Object, b'}'),
                b'[' => (Kind::List, b']'),
                byte => {
                    self.scalar(byte)?;
                    if !self.end_of_value(&mut innermost, &mut around)? {
                        continue;
                    }
                    return self.end();
                }
            };
            let depth = around.len() + usize::from(innermost.close.is_some());
            if depth >= MAX_DEPTH {
                return Err(self.too_many(start, MAX_DEPTH, "levels of nesting"));
            }
            if innermost.close.is_some() {
                around.push(innermost);
            }
            innermost = Open {
                node: self.nodes.len(),
                close: Some(close),
            };
            self.at += 1;
            self.push(kind, start, start + 1)?;
            self.space();
            self.commas(close);
            let is_empty = self.peek() == Some(close);
            if is_empty && self.end_of_value(&mut innermost, &mut around)? {
                return self.end();
            }
        }
    }

    /// Continues after a value or at the end of an empty list or object: closes what ends here.
    /// Returns whether the outermost value has ended. If not, another value follows.
    fn end_of_value(
        &mut self,
        innermost: &mut Open,
        around: &mut Vec<Open>,
    ) -> Result<bool, Error> {
        loop {
            let Some(close) = innermost.close else {
                return Ok(true);
            };
            self.space();
            let mut byte = self.byte()?;
            if byte == b',' || self.is_lenient && byte == b';' {
                self.at += 1;
                self.space();
                self.commas(close);
                if !self.is_lenient || self.peek() != Some(close) {
                    return Ok(false);
                }
                byte = close;
            }
            if byte != close {
                return Err(self.bad("a comma or the end of the list or object"));
            }
            self.at += 1;
            let next = self.nodes.len() as u32;
            if let Some(node) = self.nodes.get_mut(innermost.node) {
                node.end = self.at as u32;
                node.next = next;
            }
            *innermost = around.pop().unwrap_or(Open {
                node: 0,
                close: None,
            });
        }
    }

    /// Takes the start of the text: white space, and what lenient parsers skip before it.
    fn start(&mut self) {
        if self.is_lenient {
            self.take_if(b"\xEF\xBB\xBF");
            self.space();
            self.take_if(b")]}'\n");
        }
        self.space();
    }

    /// Takes superfluous commas of a list, if the parser is lenient.
    fn commas(&mut self, close: u8) {
        while self.is_lenient && close == b']' && matches!(self.peek(), Some(b',' | b';')) {
            self.at += 1;
            self.space();
        }
    }

    fn take_if(&mut self, bytes: &[u8]) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let is_next = rest.starts_with(bytes);
        if is_next {
            self.at += bytes.len();
        }
        is_next
    }

    /// Expects the end of the bytes, after white space.
    fn end(&mut self) -> Result<(), Error> {
        self.space();
        match self.bytes.len().saturating_sub(self.at) {
            0 => Ok(()),
            count => Err(self.error(ErrorKind::Leftover { count })),
        }
    }

    /// Parses a key. The cursor is at its start.
    fn key(&mut self) -> Result<(), Error> {
        match self.byte()? {
            b'"' => self.quoted(b'"')?,
            b'\'' if self.is_lenient => self.quoted(b'\'')?,
            _ if self.is_lenient => self.unquoted(true)?,
            _ => return Err(self.bad("a key in quotes")),
        }
        self.space();
        match self.byte()? {
            b':' => self.at += 1,
            b'=' if self.is_lenient => {
                self.at += 1;
                self.take_if(b">");
            }
            _ => return Err(self.bad("a colon")),
        }
        self.space();
        Ok(())
    }

    /// Parses a value that starts with `byte` and is no list or object.
    fn scalar(&mut self, byte: u8) -> Result<(), Error> {
        let start = self.at;
        let (word, kind) = match byte {
            b'"' => return self.quoted(b'"'),
            b'\'' if self.is_lenient => return self.quoted(b'\''),
            _ if self.is_lenient => return self.unquoted(false),
            b'-' | b'0'..=b'9' => {
                self.number()?;
                return self.push(Kind::Number, start, self.at);
            }
            b't' => (&b"true"[..], Kind::Bool(true)),
            b'f' => (&b"false"[..], Kind::Bool(false)),
            _ => (&b"null"[..], Kind::Null),
        };
        if !self
            .bytes
            .get(start..)
            .unwrap_or_default()
            .starts_with(word)
        {
            return Err(self.bad("a JSON value"));
        }
        self.at += word.len();
        self.push(kind, start, self.at)
    }

    fn number(&mut self) -> Result<(), Error> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        match count {
            0 => Err(self.bad("a digit")),
            count => {
                self.at += count;
                Ok(())
            }
        }
    }

    /// Parses what has no quotes, in lenient parsers: a word, a number or a text.
    fn unquoted(&mut self, is_key: bool) -> Result<(), Error> {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| ENDS.contains(byte));
        let length = length.unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default();
        if word.is_empty() {
            return Err(self.bad("a JSON value"));
        }
        let kind = match word {
            _ if is_key => Kind::Text,
            _ if word.eq_ignore_ascii_case(b"true") => Kind::Bool(true),
            _ if word.eq_ignore_ascii_case(b"false") => Kind::Bool(false),
            _ if word.eq_ignore_ascii_case(b"null") => Kind::Null,
            b"NaN" | b"Infinity" | b"-Infinity" => Kind::Number,
            _ if self.number().is_ok() && self.at == start + length => Kind::Number,
            _ => Kind::Text,
        };
        self.at = start + length;
        self.push(kind, start, self.at)
    }

    /// Parses a text. The cursor is at its first quote.
    fn quoted(&mut self, quote: u8) -> Result<(), Error> {
        let start = self.at + 1;
        let mut is_escaped = false;
        self.at = start;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(found) = first_of_two(quote, b'\\', rest) else {
                self.at = self.bytes.len();
                return Err(self.error(ErrorKind::Short { need: 1 }));
            };
            self.at += found;
            if rest.get(found) == Some(&quote) {
                self.push(Kind::Text, start, self.at)?;
                if let Some(node) = self.nodes.last_mut() {
                    node.is_escaped = is_escaped;
                    node.is_quoted = true;
                }
                self.at += 1;
                return Ok(());
            }
            is_escaped = true;
            match rest.get(found + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                Some(b'\'' | b'\n') if self.is_lenient => self.at += 2,
                Some(b'u') => match rest.get(found + 2..found + 6) {
                    Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => self.at += 6,
                    _ => return Err(self.bad("an escape of four hexadecimal digits")),
                },
                _ => return Err(self.bad("an escape")),
            }
        }
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) -> Result<(), Error> {
        if self.nodes.len() >= MAX_VALUES {
            return Err(self.too_many(start, MAX_VALUES, "values"));
        }
        self.nodes.push(Node {
            kind,
            is_escaped: false,
            is_quoted: false,
            start: start as u32,
            end: end as u32,
            next: self.nodes.len() as u32 + 1,
        });
        Ok(())
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        loop {
            while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
                self.at += 1;
            }
            if !self.is_lenient || !self.comment() {
                return;
            }
        }
    }

    /// Takes a comment. Returns `false` if there is none, or if its end is missing.
    fn comment(&mut self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = match rest {
            [b'#', ..] | [b'/', b'/', ..] => {
                let end = memchr::memchr(b'\n', rest);
                Some(end.unwrap_or(rest.len()))
            }
            [b'/', b'*', text @ ..] => memchr::memmem::find(text, b"*/").map(|end| end + 4),
            _ => None,
        };
        self.at += length.unwrap_or_default();
        length.is_some()
    }

    /// Returns the next byte without taking it.
    #[inline]
    fn byte(&self) -> Result<u8, Error> {
        self.peek()
            .ok_or_else(|| self.error(ErrorKind::Short { need: 1 }))
    }

    fn bad(&self, expected: &'static str) -> Error {
        self.error(ErrorKind::Bad(expected))
    }

    fn too_many(&self, at: usize, limit: usize, unit: &'static str) -> Error {
        Error {
            field: self.field,
            at,
            kind: ErrorKind::TooMany { limit, unit },
        }
    }

    fn error(&self, kind: ErrorKind) -> Error {
        Error {
            field: self.field,
            at: self.at,
            kind,
        }
    }
}

/// Replaces the escapes of a text. The parser has checked them.
fn unescaped(bytes: &[u8], is_utf8: bool) -> String {
    let decode = |bytes| match is_utf8 {
        true => String::from_utf8_lossy(bytes),
        false => Cow::Owned(CodePage::Western.decode(bytes).into()),
    };
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(found) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(found);
        out.push_str(&decode(plain));
        let (character, length) = match escape.get(1) {
            Some(b'n') => ('\n', 2),
            Some(b't') => ('\t', 2),
            Some(b'r') => ('\r', 2),
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{C}', 2),
            Some(b'u') => unicode(escape),
            Some(byte) => (char::from(*byte), 2),
            None => ('\\', 1),
        };
        out.push(character);
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(&decode(rest));
    out
}

/// Returns the character of an escape `\uXXXX`, or of a pair of them, and its length.
fn unicode(escape: &[u8]) -> (char, usize) {
    let unit = |at: usize| -> Option<u32> {
        let digits = escape.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(high) = unit(0) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    if let (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) = (high, unit(6)) {
        let pair = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return (
            char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER),
            12,
        );
    }
    (
        char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER),
        6,
    )
}

/// Appends a text with quotes and escapes.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(*b"\\n"),
            0..=0x1F => {
                let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend([b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;

    fn parse(text: &str) -> Result<Json<'_>, String> {
        Json::parse(text.as_bytes(), 0..text.len(), "JSON").map_err(|error| error.to_string())
    }

    /// Prints a value again, which shows that nothing was lost.
    fn print(item: Item<'_, '_>) -> String {
        match item.kind() {
            Kind::Null => "null".into(),
            Kind::Bool(value) => value.to_string(),
            Kind::Number => item.number().unwrap().into(),
            Kind::Text => format!("{:?}", item.text().unwrap()),
            Kind::List => format!(
                "[{}]",
                item.items().map(print).collect::<Vec<_>>().join(",")
            ),
            Kind::Object => {
                let entries = item
                    .entries()
                    .map(|(key, value)| format!("{}:{}", print(key), print(value)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }
        }
    }

    #[test]
    fn values_print_as_they_were_read() {
        for text in [
            "null",
            "true",
            "-0.5e+7",
            "0",
            r#""a""#,
            "[]",
            "{}",
            "[[],[[]],{}]",
            r#"{"a":{"b":[1,2,{"c":null}]},"d":"e","":[false]}"#,
        ] {
            assert_eq!(print(parse(text).unwrap().root()), text);
            let loose: String = text
                .chars()
                .flat_map(|c| match c {
                    ':' | ',' | '[' | '{' | ']' | '}' => alloc::vec![' ', c, '\n'],
                    c => alloc::vec![c],
                })
                .collect();
            assert_eq!(print(parse(&loose).unwrap().root()), text, "{loose}");
        }
    }

    #[test]
    fn lenient_scalars() {
        let text = br#"{"a":"7","b":7.9,"c":"x","d":true,"e":"1","f":null,"\u0067":[1]}"#;
        let json = Json::parse(text, 0..text.len(), "JSON").unwrap();
        let root = json.root();
        let integer = |key| root.member(key).and_then(Item::integer);
        assert_eq!(
            ["a", "b", "c", "d", "e", "f", "g"].map(integer),
            [Some(7), Some(7), None, None, Some(1), None, None]
        );
        let boolean = |key| root.member(key).and_then(Item::boolean);
        assert_eq!(["a", "d", "e"].map(boolean), [None, Some(true), Some(true)]);
        assert_eq!(root.member("b").and_then(Item::float), Some(7.9));
        assert!(root.member("g").is_some() && root.member("h").is_none());
        let mut out = Vec::new();
        write_text("a\"\\\n\u{E9}", &mut out);
        assert_eq!(out, "\"a\\\"\\\\\\n\u{E9}\"".as_bytes());
        let back = Json::parse(&out, 0..out.len(), "JSON").unwrap();
        assert_eq!(back.root().text().as_deref(), Some("a\"\\\n\u{E9}"));
    }

    #[test]
    fn escapes_become_characters() {
        for (text, expected) in [
            (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
            (r#""\u00a7aHi\u4e2d""#, "\u{A7}aHi\u{4E2D}"),
            (r#""\ud83d\ude00!""#, "\u{1F600}!"),
            (r#""\ud83d!""#, "\u{FFFD}!"),
            (r#""\ude00\ud83d\u0041""#, "\u{FFFD}\u{FFFD}A"),
            ("\"tab\tand\u{1}\"", "tab\tand\u{1}"),
        ] {
            assert_eq!(parse(text).unwrap().root().text().unwrap(), expected);
        }
        let broken = Json::parse(b"\"caf\xE9\\n\xE9\"", 0..9, "JSON").unwrap();
        assert_eq!(broken.root().text().unwrap(), "caf\u{E9}\n\u{E9}");
        assert!(!broken.root().is_utf8());
    }

    #[test]
    fn errors_name_the_offset() {
        for (text, error) in [
            ("", "JSON at offset 0: ends 1 byte too early"),
            ("{", "JSON at offset 1: ends 1 byte too early"),
            ("[1,", "JSON at offset 3: ends 1 byte too early"),
            ("[1,]", "JSON at offset 3: expected a JSON value"),
            ("{\"a\":1,}", "JSON at offset 7: expected a key in quotes"),
            ("{\"a\" 1}", "JSON at offset 5: expected a colon"),
            ("{a:1}", "JSON at offset 1: expected a key in quotes"),
            (
                "[1}",
                "JSON at offset 2: expected a comma or the end of the list or object",
            ),
            (
                "[1 2]",
                "JSON at offset 3: expected a comma or the end of the list or object",
            ),
            ("NaN", "JSON at offset 0: expected a JSON value"),
            ("-Infinity", "JSON at offset 1: expected a digit"),
            ("\u{FEFF}{}", "JSON at offset 0: expected a JSON value"),
            ("{}\u{FEFF}", "JSON at offset 2: 3 bytes left over"),
            ("1 1", "JSON at offset 2: 1 byte left over"),
            ("{}{", "JSON at offset 2: 1 byte left over"),
            ("\"a", "JSON at offset 2: ends 1 byte too early"),
            ("\"\\x\"", "JSON at offset 1: expected an escape"),
            (
                "\"\\u12\"",
                "JSON at offset 1: expected an escape of four hexadecimal digits",
            ),
            ("1.", "JSON at offset 2: expected a digit"),
            ("tru", "JSON at offset 0: expected a JSON value"),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text:?}");
        }
    }

    #[test]
    fn lenient_parsers_accept_more() {
        let lenient = |text: &str| {
            let json = Json::parse_lenient(text.as_bytes(), 0..text.len(), "JSON")?;
            Ok::<_, Error>((print(json.root()), json.lenient_at()))
        };
        for (text, expected, at) in [
            (r#"{"a":1}"#, r#"{"a":1}"#, None),
            ("[1,]", "[1]", Some(3)),
            ("[,1,,2;3]", "[1,2,3]", Some(1)),
            ("{\"a\":1,}", r#"{"a":1}"#, Some(7)),
            (
                "{'a':'b\\'c\"',d = e;f=>TRUE}",
                r#"{"a":"b'c\"","d":"e","f":true}"#,
                Some(1),
            ),
            (
                "[NaN,-Infinity,Infinity,007,1.5e3,nullify,NULL]",
                "[NaN,-Infinity,Infinity,\"007\",1.5e3,\"nullify\",null]",
                Some(1),
            ),
            ("\u{FEFF}{}", "{}", Some(0)),
            (")]}'\n[]", "[]", Some(0)),
            ("# one\n[/* two */1// three\n, 2]#", "[1,2]", Some(0)),
            ("{\"a\":\"b\\\nc\"}", r#"{"a":"b\nc"}"#, Some(7)),
        ] {
            assert_eq!(lenient(text), Ok((expected.into(), at)), "{text}");
        }
        for text in [
            "[1", "{a:1", "{a}", "[a b]", "/* []", "'a", "{\"a\":}", "[] []", "{,}", "",
        ] {
            let strict = Json::parse(text.as_bytes(), 0..text.len(), "JSON");
            assert_eq!(lenient(text).unwrap_err(), strict.unwrap_err(), "{text}");
        }
    }

    #[test]
    fn depth_and_size_have_limits() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(
            parse(&nested(MAX_DEPTH + 1)).unwrap_err(),
            "JSON at offset 128: more than 128 levels of nesting"
        );
        assert!(parse(&"[".repeat(2_000_000)).is_err());
        let many = |count| format!("[{}1]", "1,".repeat(count));
        assert!(parse(&many(MAX_VALUES - 2)).is_ok());
        assert_eq!(
            parse(&many(1_000_000)).unwrap_err(),
            "JSON at offset 199999: more than 100000 values"
        );
    }

    #[test]
    fn every_prefix_is_an_error() {
        let text = r#"{"a":[1.5,true,null,"\u0041\n"],"b":{"c":-2e3}}"#;
        for end in 0..text.len() {
            assert!(parse(&text[..end]).is_err(), "{}", &text[..end]);
        }
    }

    #[test]
    fn texts_are_written_with_escapes() {
        let mut out = Vec::new();
        let text = "\"\\\n\u{1}\u{1f}\u{A7}\u{1F600}";
        write_text(text, &mut out);
        assert_eq!(
            core::str::from_utf8(&out).unwrap(),
            "\"\\\"\\\\\\n\\u0001\\u001f\u{A7}\u{1F600}\""
        );
        let back = Json::parse(&out, 0..out.len(), "JSON").unwrap();
        assert_eq!(back.root().text().unwrap(), text);
    }
}
