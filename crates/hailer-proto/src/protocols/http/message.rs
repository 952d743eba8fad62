//! Bytes ⇄ requests and responses.

use crate::protocol::Frame;
use crate::wire::{Error, ErrorKind, Notes, Reader, by_content};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::{format, vec::Vec};
use core::ops::Range;

/// Longest start line and header fields, in bytes.
pub const MAX_HEAD: usize = 64 << 10;
/// Maximum number of header fields.
pub const MAX_HEADERS: usize = 100;
/// Longest body of a response, in bytes.
pub const MAX_BODY: usize = 1 << 20;

/// Starts a response.
const RESPONSE: &[u8] = b"HTTP/1.";
/// Header fields with a secret.
const SECRET_HEADERS: [&str; 3] = ["authorization", "x-api-key", "x-players-token"];
/// Parameters with a secret.
const SECRET_PARAMETERS: [&str; 3] = ["token", "code", "key"];

/// A header field.
type Header<'a> = (&'a [u8], &'a [u8]);

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method, such as `GET`.
    pub method: &'a str,
    /// Path with its parameters.
    pub path: &'a str,
    headers: Vec<Header<'a>>,
    /// Body.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns whether bytes start like a request: a method and a path.
    pub fn is_request(bytes: &[u8]) -> bool {
        let start = bytes.get(..bytes.len().min(16)).unwrap_or_default();
        let method = start.split(|byte| *byte == b' ').next().unwrap_or_default();
        let rest = start.get(method.len()..).unwrap_or_default();
        (3..=8).contains(&method.len())
            && method.iter().all(u8::is_ascii_uppercase)
            && rest.starts_with(b" /")
    }

    /// Parses a request with its whole body.
    ///
    /// # Errors
    ///
    /// Names the part that is missing, too long or invalid, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let expected = "a method, a path and HTTP/1.1";
        let line = line(&mut r, "request line")?;
        let text =
            core::str::from_utf8(line).map_err(|_| Error::bad("request line", 0, expected))?;
        let mut words = text.split(' ');
        let (Some(method), Some(path), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Error::bad("request line", 0, expected));
        };
        if !Self::is_request(bytes) {
            return Err(Error::bad("request line", 0, expected));
        }
        let at = method.len() + 1;
        r.notes().field(0..method.len(), "method", || method.into());
        let (file, parameters) = path.split_once('?').unwrap_or((path, ""));
        r.notes().field(at..at + file.len(), "path", || file.into());
        if !parameters.is_empty() {
            let range = at + file.len() + 1..at + path.len();
            r.notes().field(range, "parameters", || parameters.into());
            let mut pairs = parameters.split('&');
            let is_secret = |pair: &str| {
                let name = pair.split('=').next().unwrap_or_default();
                SECRET_PARAMETERS.contains(&name)
            };
            if pairs.any(is_secret) {
                r.notes().secret();
            }
        }
        let headers = headers(&mut r)?;
        let mut request = Self {
            method,
            path,
            headers,
            body: &[],
        };
        request.body = body(&mut r, request.header("content-length"))?.0;
        Ok(request)
    }

    /// Returns the value of a header field.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        find(&self.headers, name)
    }

    /// Returns the header fields, in order.
    pub fn headers(&self) -> &[(&'a [u8], &'a [u8])] {
        &self.headers
    }
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// Status, such as 200.
    pub status: u16,
    headers: Vec<Header<'a>>,
    /// All bytes of the response.
    pub whole: &'a [u8],
    /// Place of the body.
    pub body: Range<usize>,
}

impl<'a> Response<'a> {
    /// Returns whether bytes start like a response.
    pub fn is_response(bytes: &[u8]) -> bool {
        bytes.starts_with(RESPONSE)
    }

    /// Parses a response with its whole body.
    ///
    /// # Errors
    ///
    /// Names the part that is missing, too long or invalid, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let line = line(&mut r, "status line")?;
        let expected = "HTTP/1.1 and a status of three digits";
        let bad = Error::bad("status line", 0, expected);
        let rest = line.strip_prefix(RESPONSE).ok_or(bad)?;
        let digits = rest.get(2..5).ok_or(bad)?;
        let has_end = matches!(rest.get(5), None | Some(b' '));
        let text = core::str::from_utf8(digits).map_err(|_| bad)?;
        if !has_end || rest.get(1) != Some(&b' ') || !digits.iter().all(u8::is_ascii_digit) {
            return Err(bad);
        }
        let status = text.parse().map_err(|_| bad)?;
        let at = RESPONSE.len() + 2;
        r.notes().field(at..at + 3, "status", || text.into());
        let headers = headers(&mut r)?;
        for name in ["transfer-encoding", "content-encoding"] {
            let coding = find(&headers, name).unwrap_or(b"identity");
            if !coding.eq_ignore_ascii_case(b"identity") {
                let at = r.at();
                return Err(Error::bad("body", at, "a body without compression"));
            }
        }
        let (_, body) = body(&mut r, find(&headers, "content-length"))?;
        Ok(Self {
            status,
            headers,
            whole: bytes,
            body,
        })
    }

    /// Returns the value of a header field.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        find(&self.headers, name)
    }
}

/// Takes a line without its end.
fn line<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let rest = r.rest();
    let rest = rest.get(..rest.len().min(MAX_HEAD)).unwrap_or_default();
    let Some(length) = memchr::memchr(b'\n', rest) else {
        return Err(if rest.len() == MAX_HEAD {
            Error::limit(field, r.at(), MAX_HEAD)
        } else {
            Error::short(field, r.at(), 1)
        });
    };
    let line = r.take(length + 1, field)?;
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    Ok(line.strip_suffix(b"\r").unwrap_or(line))
}

/// Takes the header fields and the empty line behind them.
fn headers<'a>(r: &mut Reader<'a, '_>) -> Result<Vec<Header<'a>>, Error> {
    let mut headers = Vec::new();
    loop {
        let at = r.at();
        let line = line(r, "header field")?;
        if line.is_empty() {
            return Ok(headers);
        }
        if headers.len() >= MAX_HEADERS {
            return Err(Error::limit("header field", at, MAX_HEADERS));
        }
        if r.at() > MAX_HEAD {
            return Err(Error::limit("header field", at, MAX_HEAD));
        }
        let colon = memchr::memchr(b':', line).filter(|colon| *colon > 0);
        let (Some(name), Some(value)) = (
            colon.and_then(|colon| line.get(..colon)),
            colon.and_then(|colon| line.get(colon + 1..)),
        ) else {
            return Err(Error::bad("header field", at, "a name and a colon"));
        };
        let value = value.trim_ascii();
        r.notes().field(at..at + line.len(), "header", || {
            format!("{}: {}", by_content(name).0, by_content(value).0)
        });
        if SECRET_HEADERS.iter().any(|secret| is_name(name, secret)) {
            r.notes().secret();
        }
        headers.push((name, value));
    }
}

/// Takes the rest as a body, which must have the announced length.
fn body<'a>(
    r: &mut Reader<'a, '_>,
    length: Option<&[u8]>,
) -> Result<(&'a [u8], Range<usize>), Error> {
    let start = r.at();
    let announced = length.and_then(|digits| core::str::from_utf8(digits).ok()?.parse().ok());
    if length.is_some() && announced.is_none() {
        return Err(Error::bad("content-length", start, "a number"));
    }
    let body = r.take(announced.unwrap_or(r.remaining()), "body")?;
    r.end()?;
    Ok((body, start..start + body.len()))
}

fn is_name(name: &[u8], wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted.as_bytes())
}

fn find<'a>(headers: &[Header<'a>], wanted: &str) -> Option<&'a [u8]> {
    let header = headers.iter().find(|(name, _)| is_name(name, wanted));
    header.map(|(_, value)| *value)
}

/// Returns where the first response in the bytes of a connection ends. A response without a length
/// ends with the bytes.
///
/// # Errors
///
/// The bytes cannot start a response, or its head is too long.
pub fn response_end(bytes: &[u8]) -> Result<Frame, Error> {
    let more = Ok(Frame::Incomplete {
        total: bytes.len() + 1,
    });
    let start = bytes.get(..bytes.len().min(RESPONSE.len()));
    if !start.is_some_and(|start| RESPONSE.starts_with(start)) {
        return Err(Error::bad("status line", 0, "HTTP/1.1"));
    }
    let mut notes = Notes::discarding();
    let mut r = Reader::new(bytes, &mut notes);
    let head = line(&mut r, "status line").and_then(|_| headers(&mut r));
    let headers = match head {
        Ok(headers) => headers,
        Err(error) if matches!(error.kind, ErrorKind::Short { .. }) => return more,
        Err(error) => return Err(error),
    };
    let length = find(&headers, "content-length").unwrap_or_default();
    let length = core::str::from_utf8(length)
        .ok()
        .and_then(|digits| digits.parse::<usize>().ok());
    let total = match length {
        Some(length) if length > MAX_BODY => {
            return Err(Error::limit("body", r.at(), MAX_BODY));
        }
        Some(length) => r.at() + length,
        None => bytes.len(),
    };
    Ok(if total > bytes.len() {
        Frame::Incomplete { total }
    } else {
        Frame::Complete(total)
    })
}

/// Appends a `GET` request, or a `POST` request with a `body` in JSON. Names and values must not
/// contain line feeds, which [`encoded`] and base64 guarantee for texts of users.
pub fn write_request(
    host: &str,
    port: u16,
    path: &str,
    headers: &[(&str, String)],
    body: Option<&str>,
    out: &mut Vec<u8>,
) {
    let method = if body.is_some() { "POST" } else { "GET" };
    let host: String = host.chars().filter(|c| c.is_ascii_graphic()).collect();
    let zone = host.find('%').unwrap_or(host.len());
    let host = host.get(..zone).unwrap_or_default();
    let host = if host.contains(':') && !host.starts_with('[') {
        Cow::Owned(format!("[{host}]"))
    } else {
        Cow::Borrowed(host)
    };
    out.extend(format!("{method} {path} HTTP/1.1\r\nHost: {host}").bytes());
    if !matches!(port, 0 | 80 | 443) {
        out.extend(format!(":{port}").bytes());
    }
    out.extend(b"\r\nUser-Agent: Hailer\r\nAccept: ");
    let accept = headers.iter().find(|(name, _)| *name == "Accept");
    out.extend(accept.map_or("*/*", |(_, value)| value).bytes());
    for (name, value) in headers.iter().filter(|(name, _)| *name != "Accept") {
        out.extend(format!("\r\n{name}: {value}").bytes());
    }
    if let Some(body) = body {
        let length = body.len();
        let kind = "Content-Type: application/json";
        out.extend(format!("\r\n{kind}\r\nContent-Length: {length}").bytes());
    }
    out.extend(b"\r\nConnection: close\r\n\r\n");
    out.extend(body.unwrap_or_default().bytes());
}

/// Appends a response.
pub fn write_response(status: &str, kind: &str, body: &[u8], out: &mut Vec<u8>) {
    let length = body.len();
    out.extend(
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n")
            .bytes(),
    );
    out.extend(body);
}

/// Encodes a text for a path or a parameter.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_both_ways() {
        let mut out = Vec::new();
        let headers = [("Authorization", String::from("Basic eA=="))];
        let path = "/v1/api/info?token=x";
        write_request("::1", 8212, path, &headers, None, &mut out);
        let mut notes = Notes::explaining();
        let request = Request::read(&out, &mut notes).unwrap();
        assert_eq!(
            (request.method, request.path),
            ("GET", "/v1/api/info?token=x")
        );
        assert_eq!(request.header("host"), Some(&b"[::1]:8212"[..]));
        let secrets = notes
            .fields()
            .iter()
            .filter(|field| field.is_secret)
            .count();
        assert_eq!(secrets, 2, "{notes:?}");
        for end in 0..out.len() {
            assert!(Request::read(&out[..end], &mut Notes::default()).is_err());
        }
        let mut out = Vec::new();
        write_request("a", 1, "/b", &[], Some("{}"), &mut out);
        let request = Request::read(&out, &mut Notes::default()).unwrap();
        assert_eq!((request.method, request.body), ("POST", &b"{}"[..]));
        for other in [
            "get / HTTP/1.1\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
        ] {
            assert!(Request::read(other.as_bytes(), &mut Notes::default()).is_err());
        }
        assert_eq!(encoded("a b&\n\u{E9}"), "a%20b%26%0A%C3%A9");
    }

    #[test]
    fn responses_both_ways() {
        let mut out = Vec::new();
        write_response("200 OK", "application/json", b"{}", &mut out);
        let response = Response::read(&out, &mut Notes::default()).unwrap();
        assert_eq!((response.status, &out[response.body]), (200, &b"{}"[..]));
        for end in 0..out.len() {
            assert!(
                Response::read(&out[..end], &mut Notes::default()).is_err(),
                "{end}"
            );
            match response_end(&out[..end]) {
                Ok(Frame::Incomplete { total }) => assert!(total > end && total <= out.len()),
                other => panic!("{other:?} after {end}"),
            }
        }
        let whole = out.len();
        out.extend(b"HTTP");
        assert_eq!(response_end(&out), Ok(Frame::Complete(whole)));
        assert!(Response::read(&out, &mut Notes::default()).is_err());
        for (other, problem) in [
            ("HTTP/1.1 20\r\n\r\n", "status line"),
            ("HTTP/1.1 2000\r\n\r\n", "status line"),
            ("HTTP/1.1 200\r\nContent-Encoding: gzip\r\n\r\nx", "body"),
            ("HTTP/1.1 200\r\n: x\r\n\r\n", "header field"),
            (
                "HTTP/1.1 200\r\nContent-Length: x\r\n\r\n",
                "content-length",
            ),
        ] {
            let error = Response::read(other.as_bytes(), &mut Notes::default()).unwrap_err();
            assert_eq!(error.field, problem, "{other}");
        }
    }

    #[test]
    fn heads_are_bounded() {
        let many = alloc::vec![&b"a: b\r\n"[..]; MAX_HEADERS + 1].concat();
        let long = alloc::vec![b'a'; MAX_HEAD + 1];
        for tail in [&many[..], &long] {
            let bytes = [b"HTTP/1.1 200 OK\r\n", tail].concat();
            for error in [
                Response::read(&bytes, &mut Notes::default()).unwrap_err(),
                response_end(&bytes).unwrap_err(),
            ] {
                assert!(matches!(error.kind, ErrorKind::Limit { .. }), "{error}");
            }
        }
        assert!(response_end(b"SSH-2.0").is_err());
    }
}
