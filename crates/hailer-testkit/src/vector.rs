//! Test vectors: datagrams of real servers and clients, and how they must be parsed.
//!
//! A datagram, `vectors/<protocol>/<name>.txt`:
//!
//! ```text
//! # Its origin.
//! message: full stat reply          as on the spec page; `none`: not this protocol
//! direction: reply                  or request
//! deviations: missing-nul           optional: in the order found
//! error: short                      optional: the full text of the error
//! without-direction: ping           optional: the message that it is without a known direction
//!
//! 00 01 02 03 04  "splitnum\x00"    # hexadecimal pairs and quoted text, in any mixture
//! FF*16                             # a byte that occurs 16 times
//! ```
//!
//! A conversation, `vectors/<protocol>/conversations/<name>.txt`:
//!
//! ```text
//! cookie: 42                        optional, default 7
//! ask: full                         or basic, ping
//! players: no                       optional, like `auth-token: …`, `host: …` and `port: …`
//! same-as: NAME                     optional: the final status is that of this conversation
//!
//! > FE FD 09 01 02 03 04            what the exchange must send
//! >> FE FD 09                       the same, and it must send another datagram directly after it
//! reconnect 01 02                   what it must send on a new connection
//! < 09 01 02 03 04 "1\x00"          what it receives; lines that begin with a blank continue the bytes. On a
//!                                   stream this can be a part of a message, if `wait` follows
//! wait                              it must wait for a datagram
//! progress                          it must wait for the rest of the reply
//! timeout                           no datagram arrived
//! closed 01 02                      the server closed the connection after these bytes, or none
//! give up                           the deadline has passed
//! = bad TEXT                        the reply is invalid; the exchange may continue
//! = done                            the status is in golden/conversations; or `= fail TEXT`
//! ```
//!
//! A file may have several datagrams, or several conversations, each after a line `=== NAME`. The
//! name of the file then counts for nothing.
//!
//! In: files below `vectors/`. Out: datagrams and conversations.
//!
//! May import: `crate::golden`, `hailer_proto`.

use crate::golden;
use hailer_proto::{
    Ask, Cookie, Depth, Direction, Exchange, Frame, Input, Protocol, Step, Transport, registry,
};
use std::path::{Path, PathBuf};

/// A datagram and its expected explanation.
pub struct Vector {
    /// Id of the protocol and name of the datagram, as in `ugp/ping`.
    pub name: String,
    pub protocol: &'static dyn Protocol,
    /// Name of the message; `None`: the datagram does not belong to this protocol.
    pub message: Option<String>,
    pub direction: Direction,
    pub deviations: Vec<String>,
    pub error: Option<String>,
    /// Message that the bytes are if the direction is unknown, for messages that are the same in
    /// both directions.
    pub without_direction: Option<String>,
    pub bytes: Vec<u8>,
}

/// A scripted exchange, line by line.
pub struct Conversation {
    /// Id of the protocol and name of the conversation, as in `ugp/full`.
    pub name: String,
    pub protocol: &'static dyn Protocol,
    pub ask: Ask,
    pub cookie: Cookie,
    /// Name of the conversation that ends with the same status, instead of a golden file.
    pub same_as: Option<String>,
    /// Lines with their numbers in the file.
    pub lines: Vec<(usize, Line)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Sent(Vec<u8>),
    SentMore(Vec<u8>),
    Reconnect(Vec<u8>),
    Received(Vec<u8>),
    Closed(Vec<u8>),
    Progress,
    Timeout,
    GiveUp,
    Wait,
    Done,
    Bad(String),
    Fail(String),
}

/// Returns all vectors of a protocol, sorted by name.
pub fn vectors(protocol: &'static dyn Protocol) -> Vec<Vector> {
    let id = protocol.info().id;
    let sections = sections(&golden::root().join("vectors").join(id));
    let read = |section: &Section| read_vector(protocol, section);
    sections.iter().map(read).collect()
}

/// Returns all conversations of a protocol, sorted by name.
pub fn conversations(protocol: &'static dyn Protocol) -> Vec<Conversation> {
    let folder = golden::root().join("vectors").join(protocol.info().id);
    let sections = sections(&folder.join("conversations"));
    let read = |section: &Section| read_conversation(protocol, section);
    sections.iter().map(read).collect()
}

/// A datagram or a conversation in a file.
struct Section {
    /// Name without the protocol.
    name: String,
    /// Number of its first line in the file, from 0.
    first_line: usize,
    text: String,
}

/// Returns the sections of the files of a folder: those after lines `=== NAME`, or the whole file.
/// They are sorted like files with their names.
fn sections(folder: &Path) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for file in files(folder) {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let mut last = Section {
            name: stem(&file).into(),
            first_line: 0,
            text: String::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let Some(name) = line.strip_prefix("=== ") else {
                last.text.push_str(line);
                last.text.push('\n');
                continue;
            };
            let next = Section {
                name: name.trim().into(),
                first_line: number + 1,
                text: String::new(),
            };
            let done = std::mem::replace(&mut last, next);
            // Comments may precede the first section.
            let is_comment = |line: &str| line.starts_with('#') || line.trim().is_empty();
            if !done.text.lines().all(is_comment) {
                sections.push(done);
            }
        }
        sections.push(last);
    }
    sections.sort_by_key(|section| format!("{}.txt", section.name));
    for pair in sections.windows(2) {
        let [one, other] = pair else { continue };
        assert!(one.name != other.name, "two sections are {}", one.name);
    }
    sections
}

/// Returns all vectors of all protocols.
pub fn all_vectors() -> Vec<Vector> {
    registry::PROTOCOLS
        .iter()
        .flat_map(|&protocol| vectors(protocol))
        .collect()
}

/// Returns all conversations of all protocols.
pub fn all_conversations() -> Vec<Conversation> {
    registry::PROTOCOLS
        .iter()
        .flat_map(|&protocol| conversations(protocol))
        .collect()
}

/// Returns the text files of a folder, sorted; none if the folder does not exist. `house.rs` checks
/// that it does.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "txt"));
    files.sort();
    files
}

fn stem(file: &Path) -> &str {
    file.file_stem()
        .and_then(|stem| stem.to_str())
        .expect("a UTF-8 file name")
}

impl Conversation {
    /// Creates the exchange of this conversation.
    pub fn exchange(&self) -> Box<dyn Exchange> {
        self.protocol.exchange(&self.ask, self.cookie)
    }

    /// Returns the datagrams received, in order.
    pub fn received(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.lines.iter().filter_map(|(_, line)| match line {
            Line::Received(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// Runs the conversation and returns the last step. `edit` gets the index and the bytes of each
    /// datagram received, and returns its replacement, or `None` to stop there.
    pub fn play(&self, mut edit: impl FnMut(usize, &[u8]) -> Option<Vec<u8>>) -> Step {
        let mut exchange = self.exchange();
        let mut out = Vec::new();
        let mut step = exchange.handle(Input::Start, &mut out);
        let mut received = 0;
        let is_stream = self.protocol.info().transport == Transport::Stream;
        // Parts of a message, before and after the edit.
        let mut unread = Vec::new();
        let mut edited = Vec::new();
        for (_, line) in &self.lines {
            out.clear();
            match line {
                Line::Received(bytes) => {
                    let Some(new) = edit(received, bytes) else {
                        break;
                    };
                    received += 1;
                    unread.extend_from_slice(bytes);
                    edited.extend(new);
                    if is_stream && matches!(exchange.frame(&unread), Ok(Frame::Incomplete { .. }))
                    {
                        continue;
                    }
                    unread.clear();
                    let bytes = std::mem::take(&mut edited);
                    step = exchange.handle(Input::Datagram(&bytes), &mut out);
                }
                Line::SentMore(_) => step = exchange.handle(Input::Continue, &mut out),
                Line::Closed(rest) => step = exchange.handle(Input::Closed(rest), &mut out),
                Line::Timeout => step = exchange.handle(Input::Timeout, &mut out),
                Line::GiveUp => step = exchange.handle(Input::GiveUp, &mut out),
                _ => continue,
            }
            if matches!(step, Step::Done(_) | Step::Fail(_)) {
                break;
            }
        }
        step
    }
}

fn read_vector(protocol: &'static dyn Protocol, section: &Section) -> Vector {
    let name = &format!("{}/{}", protocol.info().id, section.name);
    let (headers, body) = split(name, section);
    let known = [
        "message",
        "direction",
        "deviations",
        "error",
        "without-direction",
    ];
    for (key, _) in &headers {
        assert!(
            known.contains(key),
            "vectors/{name}.txt: unknown header `{key}`; known are {}",
            known.join(", ")
        );
    }
    let header = |key: &str| match headers.iter().find(|(own, _)| *own == key) {
        Some((_, value)) => *value,
        None => panic!("vectors/{name}.txt: add a header `{key}: …`"),
    };
    let some = |key: &str| {
        let value = headers.iter().find(|(own, _)| *own == key);
        let value = value.map(|(_, value)| *value);
        value.filter(|value| *value != "none").map(String::from)
    };
    let message = Some(header("message"))
        .filter(|value| *value != "none")
        .map(String::from);
    let mut bytes = Vec::new();
    for (number, line) in body {
        append(line, &mut bytes)
            .unwrap_or_else(|problem| panic!("vectors/{name}.txt:{number}: {problem}"));
    }
    Vector {
        name: name.clone(),
        protocol,
        message,
        direction: match header("direction") {
            "request" => Direction::Request,
            "reply" => Direction::Reply,
            other => panic!("vectors/{name}.txt: direction `{other}` is neither request nor reply"),
        },
        deviations: some("deviations")
            .iter()
            .flat_map(|list| list.split(", "))
            .map(String::from)
            .collect(),
        error: some("error"),
        // `none` is a value here.
        without_direction: headers
            .iter()
            .find(|(own, _)| *own == "without-direction")
            .map(|(_, message)| (*message).into()),
        bytes,
    }
}

fn read_conversation(protocol: &'static dyn Protocol, section: &Section) -> Conversation {
    let name = &format!("{}/{}", protocol.info().id, section.name);
    let (headers, body) = split(name, section);
    let mut ask = Ask::default();
    let mut cookie = Cookie(7);
    let mut same_as = None;
    for (key, value) in headers {
        match (key, value) {
            ("cookie", number) => cookie = Cookie(number.parse().expect("a cookie")),
            ("ask", "full") => ask.depth = Depth::Full,
            ("ask", "basic") => ask.depth = Depth::Basic,
            ("ask", "ping") => ask.depth = Depth::Ping,
            ("players", "yes") => ask.has_players = true,
            ("players", "no") => ask.has_players = false,
            ("same-as", other) => {
                same_as = Some(format!("{}/{other}", protocol.info().id));
            }
            ("auth-token", token) => ask.auth_token = Some(token.into()),
            ("host", host) => ask.to.host = host.into(),
            ("port", port) => ask.to.port = port.parse().expect("a port"),
            ("game-port", port) => ask.to.game_port = port.parse().expect("a port"),
            _ => panic!("conversation {name}: cannot read the header `{key}: {value}`"),
        }
    }
    let mut lines: Vec<(usize, Line)> = Vec::new();
    for (number, text) in body {
        let bytes = |text: &str| {
            let mut bytes = Vec::new();
            append(text, &mut bytes)
                .unwrap_or_else(|problem| panic!("conversation {name}:{number}: {problem}"));
            bytes
        };
        let blank = text.trim().is_empty() || text.trim_start().starts_with('#');
        let line = match (text.split_at_checked(1), lines.last_mut()) {
            _ if blank => continue,
            (
                Some((" ", more)),
                Some((
                    _,
                    Line::Sent(sofar)
                    | Line::SentMore(sofar)
                    | Line::Reconnect(sofar)
                    | Line::Received(sofar)
                    | Line::Closed(sofar),
                )),
            ) => {
                sofar.extend(bytes(more));
                continue;
            }
            (Some((">", text)), _) => match text.strip_prefix('>') {
                Some(text) => Line::SentMore(bytes(text)),
                None => Line::Sent(bytes(text)),
            },
            (Some(("<", text)), _) => Line::Received(bytes(text)),
            _ => match text
                .trim_end()
                .split_once(' ')
                .unwrap_or((text.trim_end(), ""))
            {
                ("timeout", "") => Line::Timeout,
                ("progress", "") => Line::Progress,
                ("reconnect", text) => Line::Reconnect(bytes(text)),
                ("closed", text) => Line::Closed(bytes(text)),
                ("give", "up") => Line::GiveUp,
                ("wait", "") => Line::Wait,
                ("=", "done") => Line::Done,
                ("=", end) if end.starts_with("bad ") => Line::Bad(end[4..].into()),
                ("=", end) if end.starts_with("fail ") => Line::Fail(end[5..].into()),
                _ => panic!("conversation {name}:{number}: cannot read `{text}`"),
            },
        };
        lines.push((number, line));
    }
    Conversation {
        name: name.clone(),
        protocol,
        ask,
        cookie,
        same_as,
        lines,
    }
}

type Headers<'a> = Vec<(&'a str, &'a str)>;

/// Splits a section into headers, up to the first blank line, and the numbered lines after it.
fn split<'a>(name: &str, section: &'a Section) -> (Headers<'a>, Vec<(usize, &'a str)>) {
    let mut lines = (section.first_line + 1..)
        .zip(section.text.lines())
        .peekable();
    let mut headers = Vec::new();
    while let Some((number, line)) = lines.next_if(|(_, line)| !line.starts_with(['>', '<', '='])) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            if headers.is_empty() {
                continue;
            }
            break;
        }
        let Some((key, value)) = line.split_once(':') else {
            panic!("{name}:{number}: expected `key: value` or a blank line, found `{line}`");
        };
        headers.push((key.trim(), value.trim()));
    }
    (headers, lines.collect())
}

/// Appends the bytes of one line: pairs of hexadecimal digits, each perhaps with `*N` to repeat it,
/// quoted text, a comment.
///
/// # Errors
///
/// If the line has anything else: what is wrong with it.
pub fn append(line: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => {}
            '#' => break,
            '"' => quoted(&mut chars, bytes)?,
            first => {
                let second = chars.next().unwrap_or(' ');
                let digits = (first.to_digit(16), second.to_digit(16));
                let (Some(high), Some(low)) = digits else {
                    return Err(format!(
                        "`{first}{second}` is no pair of hexadecimal digits"
                    ));
                };
                let count = repetitions(&mut chars)?;
                bytes.extend(std::iter::repeat_n((high << 4 | low) as u8, count));
            }
        }
    }
    Ok(())
}

/// Parses `*N` after a byte: how often it occurs. Without it, once.
fn repetitions(chars: &mut std::str::Chars<'_>) -> Result<usize, String> {
    let Some(rest) = chars.as_str().strip_prefix('*') else {
        return Ok(1);
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = rest.split_at(end.unwrap_or(rest.len()));
    *chars = rest.chars();
    digits
        .parse()
        .map_err(|_| "a number of bytes follows an asterisk".into())
}

fn quoted(chars: &mut std::str::Chars<'_>, bytes: &mut Vec<u8>) -> Result<(), String> {
    loop {
        match chars.next().ok_or("a quote is not closed")? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or("a quote ends in a backslash")? {
                'n' => bytes.push(b'\n'),
                't' => bytes.push(b'\t'),
                c @ ('"' | '\\') => bytes.push(c as u8),
                'x' => {
                    let mut digit = || {
                        chars
                            .next()
                            .and_then(|c| c.to_digit(16))
                            .ok_or("\\x wants two digits")
                    };
                    let high = digit()?;
                    let low = digit()?;
                    bytes.push((high << 4 | low) as u8);
                }
                c => return Err(format!("unknown escape \\{c}")),
            },
            c => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
}
