//! Lists over HTTP: JSON, and the frames of FiveM.

use super::{BodyList, Entry, Sink};
use crate::wire::Error;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum depth of nested lists and objects in JSON.
pub const MAX_DEPTH: usize = 64;
/// Longest text that is kept, in bytes. Keys and values that are longer mean nothing here.
const MAX_TEXT: usize = 320;
/// Longest frame of FiveM's list, in bytes.
pub const MAX_FRAME: usize = 1 << 20;

/// Place of the addresses in a JSON document.
struct Shape {
    /// Number of lists and objects around a value.
    depth: usize,
    /// Key of the texts with the host, or with host and port. The value is a text, or a list of
    /// texts one level deeper.
    host: &'static str,
    /// Key of the port in the same object; empty if the text has it.
    port: &'static str,
    /// Prefixes of which a text must have one; empty for none.
    prefixes: &'static [&'static str],
}

/// Returns DDNet's list of Teeworlds servers (spec/master.md#8).
pub(super) fn teeworlds() -> Box<dyn BodyList> {
    JsonList::new(&Shape {
        depth: 3,
        host: "addresses",
        port: "",
        prefixes: &["tw-0.6+udp://", "tw-0.7+udp://"],
    })
}

/// Returns the list of Luanti servers (spec/master.md#8).
pub(super) fn luanti() -> Box<dyn BodyList> {
    JsonList::new(&Shape {
        depth: 3,
        host: "address",
        port: "port",
        prefixes: &[],
    })
}

/// Returns the list of BeamMP servers (spec/master.md#8).
pub(super) fn beammp() -> Box<dyn BodyList> {
    JsonList::new(&Shape {
        depth: 2,
        host: "ip",
        port: "port",
        prefixes: &[],
    })
}

/// Returns the list of Vintage Story servers (spec/master.md#8).
pub(super) fn vintage_story() -> Box<dyn BodyList> {
    JsonList::new(&Shape {
        depth: 3,
        host: "serverIP",
        port: "",
        prefixes: &[],
    })
}

/// Returns the list of Veloren servers, without those that have no query (spec/master.md#8).
pub(super) fn veloren() -> Box<dyn BodyList> {
    JsonList::new(&Shape {
        depth: 3,
        host: "address",
        port: "query_port",
        prefixes: &[],
    })
}

/// Returns the list of FiveM servers (spec/master.md#9).
pub(super) fn fivem() -> Box<dyn BodyList> {
    Box::new(Frames {
        at: 0,
        buffer: Vec::new(),
    })
}

/// Parses JSON byte by byte, and finds the addresses in it.
struct JsonList {
    shape: &'static Shape,
    /// Offset of the next byte.
    at: usize,
    state: State,
    /// Open lists and objects; whether each is an object.
    open: Vec<bool>,
    /// Text or number that is being read, as far as it is kept.
    text: Vec<u8>,
    is_too_long: bool,
    /// Key of the last value of the object at the depth of the shape.
    key: Key,
    host: String,
    port: Option<u16>,
}

/// Meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Host,
    Port,
    Other,
}

/// Expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value.
    Value,
    /// A value, or the end of the list.
    FirstValue,
    /// A key.
    Key,
    /// A key, or the end of the object.
    FirstKey,
    Colon,
    /// A comma, or the end of a list or object.
    Comma,
    /// More of a text.
    Text {
        is_key: bool,
        is_escaped: bool,
    },
    /// More of a number or word.
    Word,
    /// White space.
    End,
}

impl JsonList {
    #[expect(clippy::new_ret_no_self)]
    fn new(shape: &'static Shape) -> Box<dyn BodyList> {
        Box::new(Self {
            shape,
            at: 0,
            state: State::Value,
            open: Vec::new(),
            text: Vec::new(),
            is_too_long: false,
            key: Key::Other,
            host: String::new(),
            port: None,
        })
    }

    fn bad(&self, expected: &'static str) -> Error {
        Error::bad("list", self.at, expected)
    }

    fn byte(&mut self, byte: u8, found: Sink<'_>) -> Result<(), Error> {
        match self.state {
            State::Text { is_key, is_escaped } => {
                self.text_byte(byte, is_key, is_escaped, found);
                return Ok(());
            }
            State::Word => {
                if byte.is_ascii_alphanumeric() || b"+-.".contains(&byte) {
                    self.keep(byte);
                    return Ok(());
                }
                self.word()?;
            }
            _ => {}
        }
        match (self.state, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => {}
            (State::FirstValue, b']') | (State::FirstKey, b'}') => self.close(byte, found)?,
            (State::Value | State::FirstValue, _) => self.value(byte)?,
            (State::Key | State::FirstKey, b'"') => self.start_text(true),
            (State::Key | State::FirstKey, _) => return Err(self.bad("a key in quotes")),
            (State::Colon, b':') => self.state = State::Value,
            (State::Colon, _) => return Err(self.bad("a colon")),
            (State::Comma, b',') => {
                self.state = match self.open.last() {
                    Some(true) => State::Key,
                    _ => State::Value,
                };
            }
            (State::Comma, b']' | b'}') => self.close(byte, found)?,
            (State::Comma, _) => return Err(self.bad("a comma or a closing bracket")),
            _ => return Err(self.bad("the end of the list")),
        }
        Ok(())
    }

    /// Starts a value.
    fn value(&mut self, byte: u8) -> Result<(), Error> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(Error::limit("list", self.at, MAX_DEPTH));
                }
                let is_object = byte == b'{';
                self.open.push(is_object);
                if is_object && self.open.len() == self.shape.depth {
                    self.host.clear();
                    self.port = None;
                    self.key = Key::Other;
                }
                self.state = if is_object {
                    State::FirstKey
                } else {
                    State::FirstValue
                };
            }
            b'"' => self.start_text(false),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                self.text.clear();
                self.is_too_long = false;
                self.keep(byte);
                self.state = State::Word;
            }
            _ => return Err(self.bad("a JSON value")),
        }
        Ok(())
    }

    /// Ends a list or an object.
    fn close(&mut self, byte: u8, found: Sink<'_>) -> Result<(), Error> {
        let is_object = byte == b'}';
        if self.open.pop() != Some(is_object) {
            return Err(self.bad("the other closing bracket"));
        }
        let is_entry = is_object && self.open.len() + 1 == self.shape.depth;
        let port = self
            .port
            .filter(|_| is_entry && !self.shape.port.is_empty());
        if let Some(entry) = port.and_then(|port| Entry::new(&self.host, port)) {
            found(entry);
        }
        self.state = if self.open.is_empty() {
            State::End
        } else {
            State::Comma
        };
        Ok(())
    }

    fn start_text(&mut self, is_key: bool) {
        self.text.clear();
        self.is_too_long = false;
        self.state = State::Text {
            is_key,
            is_escaped: false,
        };
    }

    fn text_byte(&mut self, byte: u8, is_key: bool, is_escaped: bool, found: Sink<'_>) {
        let mut escapes_next = false;
        match byte {
            // Addresses have no other escapes than this one, which PHP writes.
            b'/' if is_escaped => self.keep(byte),
            _ if is_escaped => self.is_too_long = true,
            b'\\' => escapes_next = true,
            b'"' => return self.end_text(is_key, found),
            _ => self.keep(byte),
        }
        self.state = State::Text {
            is_key,
            is_escaped: escapes_next,
        };
    }

    fn end_text(&mut self, is_key: bool, found: Sink<'_>) {
        self.state = match (is_key, self.open.is_empty()) {
            (true, _) => State::Colon,
            (false, true) => State::End,
            (false, false) => State::Comma,
        };
        let text = match core::str::from_utf8(&self.text) {
            Ok(text) if !self.is_too_long => text,
            _ => "",
        };
        let depth = self.open.len();
        if is_key {
            if depth == self.shape.depth {
                self.key = if text == self.shape.host {
                    Key::Host
                } else if text == self.shape.port && !text.is_empty() {
                    Key::Port
                } else {
                    Key::Other
                };
            }
            return;
        }
        let is_listed = depth == self.shape.depth + 1 && self.open.last() == Some(&false);
        if depth != self.shape.depth && !is_listed {
            return;
        }
        match self.key {
            Key::Host if self.shape.port.is_empty() => {
                let prefixes = self.shape.prefixes;
                let text = if prefixes.is_empty() {
                    Some(text)
                } else {
                    prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))
                };
                if let Some(entry) = text.and_then(Entry::parse) {
                    found(entry);
                }
            }
            Key::Host => {
                self.host.clear();
                self.host.push_str(text);
            }
            Key::Port => self.port = text.parse().ok(),
            Key::Other => {}
        }
    }

    /// Ends a number or a word.
    fn word(&mut self) -> Result<(), Error> {
        let text = core::str::from_utf8(&self.text).unwrap_or_default();
        let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
        if !is_number && !matches!(text, "true" | "false" | "null") {
            return Err(self.bad("a JSON value before this byte"));
        }
        if self.open.len() == self.shape.depth && self.key == Key::Port {
            self.port = text.parse().ok();
        }
        self.state = if self.open.is_empty() {
            State::End
        } else {
            State::Comma
        };
        Ok(())
    }

    fn keep(&mut self, byte: u8) {
        if self.text.len() < MAX_TEXT {
            self.text.push(byte);
        } else {
            self.is_too_long = true;
        }
    }
}

impl BodyList for JsonList {
    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> Result<(), Error> {
        for byte in bytes {
            self.byte(*byte, found)?;
            self.at += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.state == State::Word {
            self.word()?;
        }
        if self.state == State::End {
            return Ok(());
        }
        Err(Error::short("list", self.at, 1))
    }
}

/// FiveM's list: frames of a length and a protobuf message, one for each server.
struct Frames {
    /// Offset of the first byte of the buffer.
    at: usize,
    buffer: Vec<u8>,
}

/// Number of the field with the data of a server.
const DATA: u64 = 2;
/// Number of the field of the data with an address.
const ADDRESS: u64 = 18;

impl BodyList for Frames {
    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        let mut read = 0;
        while let Some((length, rest)) = self
            .buffer
            .get(read..)
            .and_then(|rest| rest.split_first_chunk::<4>())
        {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MAX_FRAME {
                return Err(Error::limit("length of a frame", self.at + read, MAX_FRAME));
            }
            let Some(frame) = rest.get(..length) else {
                break;
            };
            let start = self.at + read + 4;
            server(frame, start, found)?;
            read += 4 + length;
        }
        self.buffer.drain(..read);
        self.at += read;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        Err(Error::short("frame", self.at + self.buffer.len(), 1))
    }
}

/// Delivers the first address of a server. `start` is the offset of the message in the body.
fn server(message: &[u8], start: usize, found: Sink<'_>) -> Result<(), Error> {
    let mut fields = Fields {
        bytes: message,
        at: 0,
        start,
    };
    while let Some(field) = fields.next()? {
        if field.number != DATA {
            continue;
        }
        let mut inner = Fields {
            bytes: field.bytes,
            at: 0,
            start: field.start,
        };
        while let Some(field) = inner.next()? {
            if field.number != ADDRESS {
                continue;
            }
            // Some servers have the URL of a proxy instead.
            if let Some(entry) = core::str::from_utf8(field.bytes)
                .ok()
                .and_then(Entry::parse)
            {
                found(entry);
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A field of a protobuf message that has a length.
struct Field<'a> {
    number: u64,
    bytes: &'a [u8],
    /// Offset of the bytes in the body.
    start: usize,
}

/// Fields of a protobuf message.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the message in the body.
    start: usize,
}

impl<'a> Fields<'a> {
    /// Returns the next field that has a length. Other fields are skipped.
    fn next(&mut self) -> Result<Option<Field<'a>>, Error> {
        while self.at < self.bytes.len() {
            let at = self.at;
            let tag = self.number()?;
            let skipped = match tag & 7 {
                0 => {
                    self.number()?;
                    0
                }
                1 => 8,
                2 => {
                    let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                    let start = self.start + self.at;
                    return Ok(Some(Field {
                        number: tag >> 3,
                        bytes: self.take(length)?,
                        start,
                    }));
                }
                5 => 4,
                _ => return Err(Error::bad("tag", self.start + at, "a type of protobuf")),
            };
            self.take(skipped)?;
        }
        Ok(None)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..length) else {
            return Err(Error::short(
                "field",
                self.start + self.at,
                length - rest.len(),
            ));
        };
        self.at += length;
        Ok(taken)
    }

    /// Reads a number of 7 bits in each byte.
    fn number(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Error::bad(
            "number",
            self.start + self.at,
            "at most 10 bytes",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Passes a body in pieces of this size, and returns the entries and the error.
    fn read(
        open: fn() -> Box<dyn BodyList>,
        body: &[u8],
        piece: usize,
    ) -> (Vec<String>, Option<Error>) {
        let mut list = open();
        let mut entries = Vec::new();
        let mut keep = |entry: Entry<'_>| entries.push(entry.to_string());
        let mut result = Ok(());
        for bytes in body.chunks(piece) {
            result = result.and_then(|()| list.receive(bytes, &mut keep));
        }
        let result = result.and_then(|()| list.finish());
        (entries, result.err())
    }

    const LUANTI: &[u8] = br#" {"total": {"address": "no"}, "list": [
        {"address": "play.example.com", "port": 30000, "clients_list": ["Al", {"address": "x"}], "n": -1.5e3},
        {"port": "30001", "x": [{"port": 1}], "address": "192.0.2.7"},
        {"address": "no-port.example.com"}, {"port": 1}, {},
        {"address": "a b", "port": 1}, {"address": "zero.example.com", "port": 0},
        {"address": "2001:db8::7", "port": 30000, "ok": true, "none": null}
    ]} "#;

    const DDNET: &[u8] = br#"{"servers":[
        {"addresses":["tw-0.6+udp://192.0.2.7:8303","tw-0.7+udp:\/\/[2001:db8::7]:8304","other://192.0.2.9:1"],
         "info":{"name":"\"tw-0.6+udp://192.0.2.8:1","clients":[{"addresses":["tw-0.6+udp://192.0.2.8:2"]}]}},
        {"addresses":[],"location":"eu"}]}"#;

    #[test]
    fn addresses_are_found_at_their_place_only() {
        for piece in [1, 2, 7, 4_096] {
            let (found, error) = read(luanti, LUANTI, piece);
            assert_eq!(error, None);
            let expected = [
                "play.example.com:30000",
                "192.0.2.7:30001",
                "[2001:db8::7]:30000",
            ];
            assert_eq!(found, expected, "{piece}");
            let (found, error) = read(teeworlds, DDNET, piece);
            assert_eq!(error, None);
            assert_eq!(found, ["192.0.2.7:8303", "[2001:db8::7]:8304"], "{piece}");
        }
        let list = br#"[{"ip":"192.0.2.7","port":"30814","modlist":"a;b"},{"ip":"192.0.2.8","port":30814}]"#;
        let (found, error) = read(beammp, list, 5);
        assert_eq!((found.len(), error), (2, None));
        let list = br#"{"status":"ok","data":[{"serverName":"x","serverIP":"192.0.2.7:42420"}]}"#;
        assert_eq!(read(vintage_story, list, 3).0, ["192.0.2.7:42420"]);
        let list = br#"{"servers":[{"address":"a.example.com","port":14004,"query_port":14006},
            {"address":"b.example.com","port":14004,"query_port":null},{"address":"c.example.com"}]}"#;
        assert_eq!(read(veloren, list, 3).0, ["a.example.com:14006"]);
    }

    #[test]
    fn a_cut_list_is_an_error_at_every_byte() {
        let whole = LUANTI.trim_ascii_end().len();
        for end in 0..whole {
            let (found, error) = read(luanti, &LUANTI[..end], 64);
            assert!(error.is_some(), "{end}");
            assert!(found.len() <= 3);
        }
    }

    #[test]
    fn other_documents_are_refused_at_their_first_bad_byte() {
        for (body, at) in [
            ("<html>", 0),
            ("{]", 1),
            ("{\"a\" 1}", 5),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("{} x", 3),
            ("[tru]", 4),
            ("[1e999]", 6),
            ("[\"a\"}", 4),
            ("{,}", 1),
        ] {
            let (_, error) = read(luanti, body.as_bytes(), 3);
            assert_eq!(error.map(|error| error.at), Some(at), "{body}");
        }
        let deep = "[".repeat(MAX_DEPTH + 1);
        let (_, error) = read(luanti, deep.as_bytes(), 4);
        assert_eq!(error.map(|error| error.at), Some(MAX_DEPTH));
        for scalar in ["1", "\"text\"", "null", " true "] {
            assert_eq!(
                read(luanti, scalar.as_bytes(), 1),
                (Vec::new(), None),
                "{scalar}"
            );
        }
    }

    #[test]
    fn long_texts_take_no_memory_and_are_no_addresses() {
        let long = "a".repeat(100_000);
        let body =
            alloc::format!(r#"{{"list":[{{"address":"{long}","port":1,"{long}":"{long}"}}]}}"#);
        let mut list = luanti();
        let mut count = 0;
        let mut keep = |_: Entry<'_>| count += 1;
        list.receive(body.as_bytes(), &mut keep).unwrap();
        list.finish().unwrap();
        assert_eq!(count, 0);
    }

    /// Returns a field with a length.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let tag = u64::from(number) << 3 | 2;
        let mut out = Vec::new();
        for mut value in [tag, bytes.len() as u64] {
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
        }
        out.extend_from_slice(bytes);
        out
    }

    fn frame(addresses: &[&str]) -> Vec<u8> {
        // A number and a fixed number, which are skipped.
        let mut data = Vec::from([0x08, 0x96, 0x01, 0x1D, 1, 2, 3, 4]);
        data.extend(field(4, b"A name"));
        for address in addresses {
            data.extend(field(18, address.as_bytes()));
        }
        let message = [field(1, b"abc123"), field(2, &data)].concat();
        let mut frame = (message.len() as u32).to_le_bytes().to_vec();
        frame.extend(message);
        frame
    }

    #[test]
    fn frames_have_one_address_for_each_server() {
        let body = [
            frame(&["192.0.2.7:30120", "192.0.2.8:30120"]),
            frame(&["https://proxy.example.com/"]),
            frame(&["https://proxy.example.com/", "play.example.com:30121"]),
            frame(&[]),
        ]
        .concat();
        for piece in [1, 3, 1_000] {
            let (found, error) = read(fivem, &body, piece);
            assert_eq!(error, None);
            assert_eq!(found, ["192.0.2.7:30120", "play.example.com:30121"]);
        }
        let first = frame(&["192.0.2.7:30120", "192.0.2.8:30120"]).len();
        for end in 1..first {
            let (_, error) = read(fivem, &body[..end], 1_000);
            assert!(error.is_some(), "{end}");
        }
    }

    #[test]
    fn invalid_frames_are_refused() {
        let (_, error) = read(fivem, b"<htm", 4);
        assert_eq!(error.map(|error| error.at), Some(0));
        // A field that is longer than its message.
        let (_, error) = read(fivem, &[3, 0, 0, 0, 0x12, 9, 0], 7);
        assert_eq!(error.map(|error| error.at), Some(6));
        // A type that protobuf does not have, and a number without an end.
        let (_, error) = read(fivem, &[1, 0, 0, 0, 0x0F], 5);
        assert_eq!(error.map(|error| error.at), Some(4));
        let endless = [&[11, 0, 0, 0][..], &[0x80; 11]].concat();
        assert!(read(fivem, &endless, 20).1.is_some());
    }
}
