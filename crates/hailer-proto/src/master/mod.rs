//! Lists of master servers, which name the public servers of a game (spec/master.md).
//!
//! ```text
//!   request  ─► DatagramList::request            UDP: one or several requests
//!   reply    ─► DatagramList::receive ─► Entry   one entry for each server
//!   body     ─► BodyList::receive     ─► Entry   HTTP: pieces of a body, of any size
//! ```
//!
//! Parsing is incremental: nothing grows with the number of servers. A list is not verified, since
//! its servers did not ask to be in it.
//!
//! May import: `crate::wire`.

mod body;
mod datagram;

pub use body::{MAX_DEPTH, MAX_FRAME};

use crate::wire;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// A kind of master server.
pub struct Master {
    /// Word of the URL before `://`, or before `+https://`.
    pub id: &'static str,
    /// Name for people, such as in tables.
    pub title: &'static str,
    /// Id of the protocol that the listed servers speak.
    pub protocol: &'static str,
    /// Form of the URL.
    pub form: &'static str,
    /// Carrier of the list.
    pub transport: MasterTransport,
}

/// Transport of a list.
#[derive(Clone, Copy, Debug)]
pub enum MasterTransport {
    /// UDP, with a default port. The function builds the list for a path and a filter.
    Datagram(
        u16,
        fn(&ListQuery<'_>) -> Result<Box<dyn DatagramList>, String>,
    ),
    /// The body of an HTTP response.
    Http(fn() -> Box<dyn BodyList>),
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Master({})", self.id)
    }
}

/// All kinds of master servers.
pub static MASTERS: &[Master] = &[
    Master {
        id: "dpmaster",
        title: "dpmaster",
        protocol: "quake3",
        form: "dpmaster://HOST/GAME, dpmaster://HOST/NAME/PROTOCOL or dpmaster://HOST/PROTOCOL",
        transport: MasterTransport::Datagram(27_950, datagram::quake3),
    },
    Master {
        id: "quake2-master",
        title: "Quake 2 master",
        protocol: "quake2",
        form: "quake2-master://HOST",
        transport: MasterTransport::Datagram(27_900, datagram::quake2),
    },
    Master {
        id: "quakeworld-master",
        title: "QuakeWorld master",
        protocol: "quake1",
        form: "quakeworld-master://HOST or quakeworld-master://HOST/hexenworld",
        transport: MasterTransport::Datagram(27_000, datagram::quakeworld),
    },
    Master {
        id: "doom3-master",
        title: "Doom 3 master",
        protocol: "doom3",
        form: "doom3-master://HOST/VERSION or doom3-master://HOST/quake4/VERSION, such as 1.41",
        transport: MasterTransport::Datagram(27_650, datagram::doom3),
    },
    Master {
        id: "teeworlds-master",
        title: "Teeworlds 0.6 master",
        protocol: "teeworlds",
        form: "teeworlds-master://HOST",
        transport: MasterTransport::Datagram(8_300, datagram::teeworlds),
    },
    Master {
        id: "valve-master",
        title: "Valve master",
        protocol: "a2s",
        form: "valve-master://HOST, or with a filter valve-master://HOST?appid=440&empty=1",
        transport: MasterTransport::Datagram(27_011, datagram::valve),
    },
    Master {
        id: "teeworlds",
        title: "DDNet's list",
        protocol: "teeworlds",
        form: "teeworlds+https://HOST/PATH",
        transport: MasterTransport::Http(body::teeworlds),
    },
    Master {
        id: "fivem",
        title: "FiveM's list",
        protocol: "fivem",
        form: "fivem+https://HOST/PATH",
        transport: MasterTransport::Http(body::fivem),
    },
    Master {
        id: "luanti",
        title: "Luanti's list",
        protocol: "luanti",
        form: "luanti+https://HOST/PATH",
        transport: MasterTransport::Http(body::luanti),
    },
    Master {
        id: "beammp",
        title: "BeamMP's list",
        protocol: "beammp",
        form: "beammp+https://HOST/PATH",
        transport: MasterTransport::Http(body::beammp),
    },
    Master {
        id: "vintage-story",
        title: "Vintage Story's list",
        protocol: "vintage-story",
        form: "vintage-story+https://HOST/PATH",
        transport: MasterTransport::Http(body::vintage_story),
    },
    Master {
        id: "veloren",
        title: "Veloren's list",
        protocol: "veloren",
        form: "veloren+https://HOST/PATH",
        transport: MasterTransport::Http(body::veloren),
    },
];

/// Returns the kind with this id and this transport.
pub fn find(id: &str, is_http: bool) -> Option<&'static Master> {
    MASTERS.iter().find(|master| {
        master.id == id && matches!(master.transport, MasterTransport::Http(_)) == is_http
    })
}

/// Parameters of a request, as in the URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// Path without the first slash.
    pub path: &'a str,
    /// Text after the question mark.
    pub filter: &'a str,
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// An address and a port other than 0.
    Address(SocketAddr),
    /// A host name and a port other than 0. The name has only letters, digits, hyphens,
    /// underscores and dots, and at most 253 of them.
    Name(&'a str, u16),
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl<'a> Entry<'a> {
    /// Returns the entry of a host and a port, if both are valid.
    pub fn new(host: &'a str, port: u16) -> Option<Self> {
        let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if port == 0 {
            return None;
        }
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(host).parse::<IpAddr>() {
            return Some(Self::Address(SocketAddr::new(ip, port)));
        }
        let is_name = !host.is_empty() && host.len() <= 253 && host.bytes().all(is_part_of_name);
        is_name.then_some(Self::Name(host, port))
    }

    /// Parses `HOST:PORT`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        Self::new(host, port.parse().ok().filter(|_| is_number)?)
    }
}

/// Receives the entries of a list.
pub type Sink<'a> = &'a mut dyn FnMut(Entry<'_>);

/// One list over UDP.
pub trait DatagramList: Send {
    /// Appends the request to send: the first, the next after [`ListStep::Next`], or after a
    /// timeout the same again or another form of it.
    fn request(&mut self, out: &mut Vec<u8>);

    /// Handles a datagram of the master.
    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> ListStep;

    /// Ends a reply after which nothing has arrived for a while.
    fn settle(&mut self) -> ListStep;

    /// Returns the time to wait before the next request.
    fn pause(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// State of a list after a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStep {
    /// The datagram is not part of the list.
    Stray,
    /// The datagram is part of the reply. Others may follow.
    Part,
    /// As `Part`, and the datagram has an end mark. Earlier parts may arrive later.
    Last,
    /// The reply is complete: send the next request.
    Next,
    /// The list is complete.
    Done,
    /// The datagram is invalid. Entries before the fault were delivered.
    Bad(wire::Error),
}

/// One list over HTTP.
pub trait BodyList: Send {
    /// Handles the next bytes of the body.
    ///
    /// # Errors
    ///
    /// Names the offset in the body of the first invalid byte.
    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> Result<(), wire::Error>;

    /// Checks that the body is complete.
    ///
    /// # Errors
    ///
    /// The body ends too early.
    fn finish(&mut self) -> Result<(), wire::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn entries_are_addresses_or_plain_names() {
        for (text, shown) in [
            ("192.0.2.7:27960", Some("192.0.2.7:27960")),
            ("[2001:db8::7]:1", Some("[2001:db8::7]:1")),
            ("2001:db8::7:1", Some("[2001:db8::7]:1")),
            ("play.example.com:65535", Some("play.example.com:65535")),
            ("play.example.com:65536", None),
            ("play.example.com:0", None),
            ("play.example.com:+1", None),
            ("play.example.com", None),
            ("a b:1", None),
            ("a/b:1", None),
            ("ugp://a:1", None),
            (":1", None),
            ("[]:1", None),
        ] {
            let entry = Entry::parse(text).map(|entry| entry.to_string());
            assert_eq!(entry.as_deref(), shown, "{text}");
        }
        assert_eq!(Entry::new(&"a".repeat(254), 1), None);
    }

    #[test]
    fn ids_are_unique_for_each_transport() {
        for master in MASTERS {
            let is_http = matches!(master.transport, MasterTransport::Http(_));
            let found = find(master.id, is_http).unwrap();
            assert!(core::ptr::eq(found, master), "{}", master.id);
        }
    }
}
