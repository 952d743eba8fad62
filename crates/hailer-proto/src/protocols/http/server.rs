//! The server side of a connection: a few files, encoded once.

use super::message::{MAX_HEAD, Request, write_response};
use crate::protocol::{Connection, ConnectionStep, Received, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{ErrorKind, Notes};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Maximum number of requests on one connection.
const MAX_REQUESTS: u8 = 16;
/// Longest request in bytes.
const MAX_REQUEST: usize = 8 << 10;

const _: () = assert!(MAX_REQUEST <= MAX_HEAD);

/// A file that is served.
#[derive(Clone, Debug)]
pub struct ServedFile {
    /// Path.
    pub path: &'static str,
    /// Body, in JSON.
    pub body: Vec<u8>,
}

/// Server role: serves only these files.
#[derive(Debug)]
pub(super) struct FilesResponder(pub(super) Arc<[ServedFile]>);

impl Responder for FilesResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(FileServer::new(self.0.clone())))
    }
}

/// Server side of one connection.
#[derive(Debug)]
pub struct FileServer {
    files: Arc<[ServedFile]>,
    requests: u8,
}

impl FileServer {
    /// Creates the server side of a connection that serves only these files.
    pub fn new(files: Arc<[ServedFile]>) -> Self {
        Self { files, requests: 0 }
    }
}

impl Connection for FileServer {
    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        let end = |step| Received { consumed: 0, step };
        if bytes.is_empty() {
            return end(ConnectionStep::Wait);
        }
        let length = bytes.len().min(START.len());
        if bytes.get(..length) != START.get(..length) {
            return end(match self.requests {
                0 => ConnectionStep::Pass,
                _ => ConnectionStep::Close,
            });
        }
        // A request without a body ends with its head.
        let head = memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4);
        let head = match head {
            Some(length) if length <= MAX_REQUEST => bytes.get(..length).unwrap_or_default(),
            None if bytes.len() <= MAX_REQUEST => return end(ConnectionStep::Wait),
            _ => {
                write_response("431 Request Header Fields Too Large", TEXT, b"", out);
                return end(ConnectionStep::Close);
            }
        };
        let mut notes = Notes::discarding();
        let request = match Request::read(head, &mut notes) {
            Ok(request) => request,
            Err(error) => {
                let is_body =
                    error.field == "body" && matches!(error.kind, ErrorKind::Short { .. });
                if is_body {
                    write_response("413 Content Too Large", TEXT, b"", out);
                    return end(ConnectionStep::Close);
                }
                return end(ConnectionStep::Bad(error));
            }
        };
        let path = request.path.split('?').next().unwrap_or_default();
        match self.files.iter().find(|file| file.path == path) {
            Some(file) => write_response("200 OK", JSON, &file.body, out),
            // Another protocol of the port may have it.
            None if self.requests == 0 => return end(ConnectionStep::Pass),
            None => write_not_found(out),
        }
        self.requests += 1;
        let wants_close = request.header("connection");
        let is_last = self.requests >= MAX_REQUESTS
            || wants_close.is_some_and(|value| value.eq_ignore_ascii_case(b"close"))
            || memchr::memmem::find(head, b" HTTP/1.0").is_some();
        Received {
            consumed: head.len(),
            step: if is_last {
                ConnectionStep::Close
            } else {
                ConnectionStep::Wait
            },
        }
    }
}

/// Appends the response to a request for a file that does not exist.
pub fn write_not_found(out: &mut Vec<u8>) {
    write_response("404 Not Found", TEXT, b"Not found\n", out);
}

/// Starts a request.
const START: &[u8] = b"GET /";
const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
