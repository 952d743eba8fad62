//! Exchanges that read one file after the other.

use super::message::{Request, Response, write_request};
use super::server::FilesResponder;
use super::{Members, ServedFile};
use crate::model::{Extra, Status};
use crate::protocol::{
    Ask, Cookie, DatagramContext, Depth, Direction, Exchange, Explanation, Fault, Info, Input,
    OptionError, Options, Protocol, ResponderResult, Route, Secret, Step, Tls,
};
use crate::sample;
use crate::token::Keys;
use crate::wire::json::{Item, Json, Kind};
use crate::wire::{Error, Notes, counted};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::{boxed::Box, format, vec::Vec};
use core::cell::OnceCell;
use core::fmt;
use core::ops::Range;

/// Member of a body with a secret.
const SECRET_MEMBER: &str = "authenticationToken";
/// Maximum depth of values that explanations list.
const MAX_LISTED_DEPTH: usize = 4;

/// A file of a protocol.
#[derive(Debug)]
pub struct File {
    /// Name of the response; the request is named "request for" it.
    pub name: &'static str,
    /// Name of the request.
    pub request: &'static str,
    /// Path without parameters.
    pub path: &'static str,
    /// Whether it is requested only if nothing before it was readable.
    pub is_fallback: bool,
}

impl File {
    /// Creates a file that is always requested.
    pub const fn new(name: &'static str, request: &'static str, path: &'static str) -> Self {
        Self {
            name,
            request,
            path,
            is_fallback: false,
        }
    }

    /// Requests the file only if nothing before it was readable.
    #[must_use]
    pub const fn fallback(self) -> Self {
        Self {
            is_fallback: true,
            ..self
        }
    }
}

/// A protocol that reads files over HTTP: one or several requests with a response each.
#[derive(Clone, Copy)]
pub struct HttpFiles {
    /// Static facts. With a [service](Info::service), requests go to it.
    pub info: &'static Info,
    /// All files, in the order of the requests.
    pub files: &'static [File],
    /// Adds the content of a file to a status. Fails if the body is not that of this file.
    pub read: ReadFile,
    /// Returns whether a body is that of this file, for bytes without a request.
    pub is_body: fn(&File, &Body<'_>) -> bool,
    /// Returns whether the body of a file that was read shows a server of this protocol, even if all
    /// other files are missing.
    pub is_enough: fn(&File, &Body<'_>) -> bool,
    /// Returns whether a query requests this file.
    pub wants: fn(&Ask, &File) -> bool,
    /// Returns the path of a file with its parameters.
    pub path: fn(&Ask, &File) -> Cow<'static, str>,
    /// Returns further header fields.
    pub headers: fn(&Ask) -> Vec<(&'static str, String)>,
    /// Returns the body of a request in JSON, which makes it a `POST` request.
    pub body: fn(&File) -> Option<&'static str>,
    /// Returns the auth token for the following requests, if a body has one.
    pub token: fn(&File, &Body<'_>) -> Option<Secret>,
    /// Explains a response with another HTTP status than 200, if the protocol gives it a meaning.
    pub refusal: fn(u16, &Body<'_>) -> Option<Fault>,
    /// Explains status 401 and 403, as a clause about the server.
    pub denied: &'static str,
    /// Encryption of the connections.
    pub tls: Tls,
    /// The files of the server role for a status.
    pub server: Option<fn(&Status) -> Vec<ServedFile>>,
    /// As [`Protocol::sample`].
    pub sample: fn(u64) -> Status,
}

impl fmt::Debug for HttpFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFiles")
            .field("id", &self.info.id)
            .finish_non_exhaustive()
    }
}

/// Adds the content of a file to a status.
///
/// # Errors
///
/// The body is not that of this file.
pub type ReadFile = fn(&File, &Body<'_>, &Ask, &mut Status, &mut Notes) -> Result<(), Fault>;

impl HttpFiles {
    /// A protocol whose files are always requested, unchanged, without encryption and without a
    /// server role.
    pub const PLAIN: Self = Self {
        info: &Info::HTTP,
        files: &[],
        read: |_, _, _, _, _| Ok(()),
        is_body: |_, _| false,
        is_enough: |_, _| true,
        wants: |_, _| true,
        path: |_, file| Cow::Borrowed(file.path),
        headers: |_| Vec::new(),
        body: |_| None,
        token: |_, _| None,
        refusal: |_, _| None,
        denied: "it denies access",
        tls: Tls::Off,
        server: None,
        sample: sample::status,
    };

    /// Returns the meaning of an HTTP status other than 200.
    fn refused(&self, status: u16, body: &Body<'_>) -> Fault {
        if let Some(fault) = (self.refusal)(status, body) {
            return fault;
        }
        let endpoints = &[];
        if matches!(status, 401 | 403) {
            let reason = self.denied;
            return Fault::Refused { reason, endpoints };
        }
        let known = REFUSED.iter().find(|(known, _)| *known == status);
        match known {
            Some((_, reason)) => Fault::Refused { reason, endpoints },
            None => Fault::Misbehaved("an HTTP status that the protocol does not use"),
        }
    }

    /// Returns the file that a request names by its path and, if it has one, by its body.
    fn requested(&self, bytes: &[u8]) -> Option<&'static File> {
        let has_body =
            |file: &File| (self.body)(file).is_none_or(|body| bytes.ends_with(body.as_bytes()));
        let line = bytes.split(|byte| *byte == b'\n').next()?;
        let path = line.split(|byte| *byte == b' ').nth(1)?;
        let path = path.split(|byte| *byte == b'?').next()?;
        let is_requested = |file: &&File| {
            // The paths of services contain the target between two parts.
            has_body(file)
                && match file.path.split_once("{}") {
                    Some((start, end)) => {
                        path.starts_with(start.as_bytes()) && path.ends_with(end.as_bytes())
                    }
                    None => path == file.path.as_bytes(),
                }
        };
        self.files.iter().find(is_requested)
    }
}

impl Protocol for HttpFiles {
    fn info(&self) -> &'static Info {
        self.info
    }

    fn exchange(&self, ask: &Ask, _: Cookie) -> Box<dyn Exchange> {
        Box::new(FilesExchange::new(*self, ask))
    }

    fn responder(&self, status: &Status, _: &Keys, options: &Options) -> ResponderResult {
        let Some(server) = self.server else {
            return Err(OptionError::no_responder(self.info));
        };
        options.check(self.info.options)?;
        Ok(Arc::new(FilesResponder(server(status).into())))
    }

    fn sample(&self, seed: u64) -> Status {
        (self.sample)(seed)
    }

    fn explain(
        &self,
        bytes: &[u8],
        seen: DatagramContext<'_>,
        notes: &mut Notes,
    ) -> Option<Explanation> {
        let direction = if Request::is_request(bytes) {
            Direction::Request
        } else if Response::is_response(bytes) {
            Direction::Reply
        } else {
            return None;
        };
        if seen.direction().is_some_and(|known| known != direction) {
            return None;
        }
        match direction {
            Direction::Request => {
                let file = self.requested(bytes)?;
                Some(Explanation::certain(
                    file.request,
                    direction,
                    Request::read(bytes, notes).err(),
                ))
            }
            Direction::Reply => {
                let mut explanation = Explanation::guess("response", direction, None);
                let response = match Response::read(bytes, notes) {
                    Ok(response) => response,
                    Err(error) => {
                        explanation.error = Some(error);
                        return Some(explanation);
                    }
                };
                let body = Body::new(bytes, response.body.clone());
                note_body(&body, notes);
                if response.status != 200 {
                    explanation.message = "refusal";
                    return Some(explanation);
                }
                let by_request = seen.request().and_then(|request| self.requested(request));
                let by_body = || self.files.iter().find(|file| (self.is_body)(file, &body));
                let Some(file) = by_request.or_else(by_body) else {
                    explanation.error = body.json().err();
                    explanation.error?;
                    return Some(explanation);
                };
                explanation.message = file.name;
                explanation.is_certain = true;
                let mut status = Status::default();
                let read = (self.read)(file, &body, &Ask::default(), &mut status, notes);
                if let Err(Fault::Malformed(error)) = read {
                    explanation.error = Some(error);
                }
                Some(explanation)
            }
        }
    }
}

/// Body of a response.
#[derive(Debug)]
pub struct Body<'a> {
    /// All bytes of the response.
    whole: &'a [u8],
    range: Range<usize>,
    /// The body as JSON, parsed at the first use.
    json: OnceCell<Result<Json<'a>, Error>>,
}

impl<'a> Body<'a> {
    fn new(whole: &'a [u8], range: Range<usize>) -> Self {
        Self {
            whole,
            range,
            json: OnceCell::new(),
        }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.whole.get(self.range.clone()).unwrap_or_default()
    }

    /// Returns all bytes of the response, for offsets.
    pub fn whole(&self) -> &'a [u8] {
        self.whole
    }

    /// Returns the place of the body in the response.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Parses the body as JSON. A byte order mark before it is ignored.
    ///
    /// # Errors
    ///
    /// As [`Json::parse`].
    pub fn json(&self) -> Result<&Json<'a>, Error> {
        let parse = || {
            let mark = "\u{FEFF}".as_bytes();
            let start = if self.bytes().starts_with(mark) {
                self.range.start + mark.len()
            } else {
                self.range.start
            };
            Json::parse(self.whole, start..self.range.end, "JSON")
        };
        self.json
            .get_or_init(parse)
            .as_ref()
            .map_err(|error| *error)
    }

    /// Returns the outermost value as JSON, if `is_expected`.
    ///
    /// # Errors
    ///
    /// As [`Json::parse`], or names what is `expected`.
    pub fn members(
        &self,
        is_expected: bool,
        expected: &'static str,
    ) -> Result<Members<'_, 'a>, Error> {
        let root = self.json()?.root();
        if is_expected {
            Ok(Members(root))
        } else {
            Err(Error::bad("JSON", root.at(), expected))
        }
    }

    /// Returns whether the body is an object with one of these members.
    pub fn has_member(&self, keys: &[&str]) -> bool {
        let root = self.json().map(Json::root);
        root.is_ok_and(|root| keys.iter().any(|key| root.member(key).is_some()))
    }
}

/// HTTP statuses that end the query, and their meanings.
pub const REFUSED: [(u16, &str); 8] = [
    (301, "it redirects to another address"),
    (302, "it redirects to another address"),
    (307, "it redirects to another address"),
    (308, "it redirects to another address"),
    (
        404,
        "it has no such file: the port belongs to another service",
    ),
    (
        429,
        "it got too many requests from this address; wait a minute",
    ),
    (500, "it reports an internal error"),
    (503, "it is overloaded or starting"),
];

/// Queries one server, file by file. Files that are missing or unreadable are named in the extra
/// `unanswered`, unless all of them are.
struct FilesExchange {
    protocol: HttpFiles,
    ask: Ask,
    /// Index of the last requested file.
    place: usize,
    status: Box<Status>,
    /// Whether a file was read that is enough for a status.
    is_useful: bool,
    /// The first problem.
    fault: Option<Fault>,
    unanswered: Vec<&'static str>,
    /// Whether one of these responses does not parse.
    is_unreadable: bool,
}

impl FilesExchange {
    fn new(protocol: HttpFiles, ask: &Ask) -> Self {
        Self {
            protocol,
            ask: ask.clone(),
            place: 0,
            status: Box::default(),
            is_useful: false,
            fault: None,
            unanswered: Vec::new(),
            is_unreadable: false,
        }
    }

    fn file(&self) -> Option<&'static File> {
        self.protocol.files.get(self.place)
    }

    /// Requests the file at `place`, or the next one that is wanted. Ends if there is none.
    fn request(&mut self, out: &mut Vec<u8>) -> Step {
        while let Some(file) = self.file() {
            if (self.protocol.wants)(&self.ask, file) && !(file.is_fallback && self.is_useful) {
                let path = (self.protocol.path)(&self.ask, file);
                let address = self
                    .ask
                    .to
                    .address
                    .map(|address| format!("{}", address.ip()));
                let (host, port) = match (self.protocol.info.service, &*self.ask.to.host, &address)
                {
                    (Some(service), ..) => (service, 0),
                    (None, "", Some(address)) => (&**address, self.ask.to.port),
                    (None, "", None) => ("localhost", self.ask.to.port),
                    (None, host, _) => (host, self.ask.to.port),
                };
                let headers = (self.protocol.headers)(&self.ask);
                write_request(host, port, &path, &headers, (self.protocol.body)(file), out);
                return Step::Send;
            }
            self.place += 1;
        }
        self.finish()
    }

    fn next(&mut self, out: &mut Vec<u8>) -> Step {
        self.place += 1;
        self.request(out)
    }

    /// Continues without the current file.
    fn skip(&mut self, fault: Option<Fault>, out: &mut Vec<u8>) -> Step {
        self.fault = self.fault.or(fault);
        self.is_unreadable |= matches!(fault, Some(Fault::Malformed(_)));
        self.unanswered.extend(self.file().map(|file| file.name));
        self.next(out)
    }

    fn finish(&mut self) -> Step {
        if !self.is_useful {
            return match self.fault {
                Some(fault @ Fault::Refused { .. }) => Step::Fail(fault),
                Some(fault) => Step::Bad(fault),
                None => Step::Wait,
            };
        }
        let mut status = core::mem::take(&mut self.status);
        if self.ask.depth == Depth::Ping {
            let deviations = core::mem::take(&mut status.deviations);
            *status = Status {
                deviations,
                ..Status::default()
            };
        } else if !self.unanswered.is_empty() {
            let names = self.unanswered.join(", ");
            status.extra.push(Extra::new("unanswered", names));
            if self.is_unreadable {
                status.mark_unreadable();
            }
        }
        self.is_useful = false;
        Step::Done(status)
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(file) = self.file() else {
            return Step::Wait;
        };
        let mut notes = Notes::default();
        let response = match Response::read(bytes, &mut notes) {
            Ok(response) => response,
            Err(error) => return self.skip(Some(error.into()), out),
        };
        let body = Body::new(bytes, response.body.clone());
        if response.status != 200 {
            let fault = self.protocol.refused(response.status, &body);
            // Further files would be refused as well, and count against a limit.
            let is_final = matches!(response.status, 401 | 403 | 429);
            if is_final && !self.is_useful {
                return Step::Fail(fault);
            }
            return self.skip(Some(fault), out);
        }
        match (self.protocol.read)(file, &body, &self.ask, &mut self.status, &mut notes) {
            Ok(()) => {
                let token = (self.protocol.token)(file, &body);
                self.ask.auth_token = token.or(self.ask.auth_token.take());
                self.is_useful |= (self.protocol.is_enough)(file, &body);
                if file.is_fallback {
                    self.unanswered.clear();
                    self.is_unreadable = false;
                }
                self.status.add_deviations(notes.met());
                if self.ask.depth == Depth::Ping && self.is_useful {
                    return self.finish();
                }
                self.next(out)
            }
            Err(fault @ Fault::Refused { .. }) if !self.is_useful => Step::Fail(fault),
            Err(fault) => self.skip(Some(fault), out),
        }
    }
}

impl Exchange for FilesExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.request(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::Closed(_) => self.skip(None, out),
            Input::Timeout | Input::Continue => Step::Wait,
            Input::GiveUp if self.is_useful => {
                self.unanswered.extend(self.file().map(|file| file.name));
                self.finish()
            }
            Input::GiveUp => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.place
    }

    fn route(&self) -> Route {
        Route {
            tls: self.protocol.tls,
            ..Route::default()
        }
    }

    fn frame(&self, bytes: &[u8]) -> Result<crate::protocol::Frame, Error> {
        super::message::response_end(bytes)
    }
}

/// Notes the values of a body in JSON, or its length.
fn note_body(body: &Body<'_>, notes: &mut Notes) {
    match body.json() {
        Ok(json) => note_values(json.root(), "value", 0, notes),
        Err(_) if body.bytes().is_empty() => {}
        Err(_) => notes.field(body.range.clone(), "body", || {
            counted(body.bytes().len(), "byte")
        }),
    }
}

fn note_values(item: Item<'_, '_>, name: &'static str, depth: usize, notes: &mut Notes) {
    match item.kind() {
        Kind::Object | Kind::List if depth >= MAX_LISTED_DEPTH => {
            notes.field(item.range(), name, || counted(item.range().len(), "byte"));
        }
        Kind::Object => {
            for (key, value) in item.entries() {
                let whole = key.range().start..value.range().end;
                match value.kind() {
                    Kind::Object | Kind::List => {
                        notes.field(whole, "member", || {
                            let size = counted(value.range().len(), "byte");
                            format!("{}, {size}", key.text().unwrap_or_default())
                        });
                        note_values(value, "value", depth + 1, notes);
                    }
                    _ => {
                        notes.field(whole, "member", || {
                            let name = key.text().unwrap_or_default();
                            format!("{name}: {}", shown(value))
                        });
                        if key.bytes() == SECRET_MEMBER.as_bytes() {
                            notes.secret();
                        }
                    }
                }
            }
        }
        Kind::List => {
            for element in item.items() {
                note_values(element, "element", depth + 1, notes);
            }
        }
        _ => notes.field(item.range(), name, || shown(item)),
    }
}

/// Returns a scalar as it is written, without the rest of a long text.
fn shown(item: Item<'_, '_>) -> String {
    const LONGEST: usize = 80;
    match item.text() {
        Some(text) => {
            let start = crate::wire::cut(&text, LONGEST);
            let more = if start.len() < text.len() { "…" } else { "" };
            format!("{start:?}{more}")
        }
        None => item.scalar().unwrap_or(Cow::Borrowed("null")).into_owned(),
    }
}

/// Reads a body in JSON as the file at a place, for tests.
#[cfg(test)]
pub(crate) fn status_of(
    protocol: &HttpFiles,
    place: usize,
    body: &str,
) -> Result<(Status, Vec<&'static str>), Fault> {
    let mut status = Status::default();
    let mut notes = Notes::default();
    let body = Body::new(body.as_bytes(), 0..body.len());
    let file = &protocol.files[place];
    (protocol.read)(file, &body, &Ask::default(), &mut status, &mut notes)?;
    Ok((status, notes.met().map(|met| met.name).collect()))
}
