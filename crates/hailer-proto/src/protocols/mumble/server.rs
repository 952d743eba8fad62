//! The responder: counts in both forms (spec/mumble.md#7).

use super::message::{MAX_PATCH, OLD_REQUEST, Reply, Request, Version};
use crate::model::{Codes, Status, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::Notes;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Shortest request of the new form that gets a reply, in bytes: not below the old form, so that the
/// reply is at most 3 times as long.
pub(super) const MIN_REQUEST: usize = OLD_REQUEST;
/// Longest reply in bytes: type, timestamp, version, counts and bandwidth of the new form.
pub(super) const MAX_REPLY: usize = 1 + 11 + 8 + 4 + 4 + 6;
/// Version by default.
const VERSION: Version = [1, 5, 0];
/// Bandwidth of each user by default, as in new configurations, in bits per second.
const BANDWIDTH: u32 = 558_000;
/// Largest count that is sent.
const MAX_COUNT: i64 = 99_999;

pub(super) static OPTIONS: &[Doc] = &[Doc::new(
    "version",
    "Version of the server, as three numbers up to 255, default 1.5.0",
)];

/// Options of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MumbleConfig {
    /// Version of the server.
    pub version: Version,
}

impl Default for MumbleConfig {
    fn default() -> Self {
        Self { version: VERSION }
    }
}

impl MumbleConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let version = match options.value("version") {
            None => Some(VERSION),
            Some(Value::Str(text)) => parse(text),
            Some(_) => None,
        };
        let problem = "must be three numbers up to 255, such as \"1.5.0\"";
        let version = version.ok_or(OptionError::new("version", problem))?;
        Ok(Self { version })
    }
}

fn parse(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse::<u8>().ok());
    let mut next = || parts.next().flatten().map(u16::from);
    let version = [next()?, next()?, next()?];
    parts.next().is_none().then_some(version)
}

/// Responder of one server.
#[derive(Clone, Copy, Debug)]
pub struct MumbleResponder {
    reply: Reply,
}

impl MumbleResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, config: &MumbleConfig) -> Self {
        let status = &*status.with_codes(Codes::None);
        let count = |count: i64| count.clamp(0, MAX_COUNT) as u32;
        let users = count(status.players.count());
        let bandwidth = match status.extra("bandwidth") {
            Some(Value::Int(bandwidth)) => u32::try_from(*bandwidth).unwrap_or(BANDWIDTH),
            _ => BANDWIDTH,
        };
        Self {
            reply: Reply {
                version: Some(config.version.map(|part| part.min(MAX_PATCH))),
                users,
                max: Some(status.players.max.map_or(users, count)),
                bandwidth: Some(bandwidth),
                ..Reply::default()
            },
        }
    }
}

impl Responder for MumbleResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Pass,
            Ok(Request::New { .. }) if bytes.len() < MIN_REQUEST => Verdict::Drop("too short"),
            Ok(request) => {
                self.reply.write(request, out);
                Verdict::Reply { is_verified: false }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn answer(status: &Status, request: &[u8]) -> (Verdict, Vec<u8>) {
        let responder = MumbleResponder::new(status, &MumbleConfig::default());
        let mut out = Vec::new();
        let from = "192.0.2.7:50000".parse().unwrap();
        (responder.answer(from, Epoch(1), request, &mut out), out)
    }

    #[test]
    fn both_forms_are_answered() {
        let mut status = Status::default();
        status.players.online = Some(12);
        status.players.max = Some(250);
        let verdict = Verdict::Reply { is_verified: false };
        let old = b"\0\x01\x05\0hailer07\0\0\0\x0C\0\0\0\xFA\0\x08\x83\xB0";
        assert_eq!(
            answer(&status, b"\0\0\0\0hailer07"),
            (verdict, old.to_vec())
        );
        let request = b"\x01\x08\x81\x82\x83\x84\x85\x86\x87\x08\x10\x01";
        let new = b"\x01\x08\x81\x82\x83\x84\x85\x86\x87\x08\x18\x80\x80\x80\x80\xD0\x80\x40\x20\x0C\x28\xFA\x01\x30\xB0\x87\x22";
        assert_eq!(answer(&status, request), (verdict, new.to_vec()));
        let short = (Verdict::Drop("too short"), vec![]);
        assert_eq!(answer(&status, b"\x01\x10\x01"), short);
        for other in [
            &old[..],
            new,
            b"",
            b"\0\0\0\0hailer0",
            b"\0\0\0\x01hailer07",
            &request[..10],
        ] {
            assert_eq!(answer(&status, other), (Verdict::Pass, vec![]));
        }
    }

    #[test]
    fn replies_are_bounded() {
        let mut status = Status::default();
        status.players.online = Some(i64::MAX);
        status.players.max = Some(i64::MAX);
        status
            .extra
            .push(crate::Extra::new("bandwidth", i64::from(u32::MAX)));
        let mut request = Vec::new();
        Request::New {
            timestamp: u64::MAX,
        }
        .write(&mut request);
        let (_, reply) = answer(&status, &request);
        assert_eq!(reply.len(), MAX_REPLY);
    }

    #[test]
    fn options_are_checked() {
        let read = |version: &str| {
            let options = Options::default().with("version", version);
            MumbleConfig::read(&options).map_err(|error| error.to_string())
        };
        assert_eq!(read("1.3.4").unwrap().version, [1, 3, 4]);
        for bad in ["1.3", "1.3.4.5", "1.3.256", "x"] {
            assert!(read(bad).unwrap_err().contains("three numbers"), "{bad}");
        }
    }
}
