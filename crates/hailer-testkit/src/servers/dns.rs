//! A DNS server with a few names, so that no test queries a real one.

use super::{Server, loopback};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

const CNAME: u16 = 5;
const SRV: u16 = 33;

/// A record of a name, or how the server fails.
#[derive(Clone)]
pub enum Record {
    Address(IpAddr),
    Service {
        host: &'static str,
        port: u16,
    },
    /// Another name, whose records follow in the same reply.
    Alias(&'static str),
    /// The server reports a failure.
    Failure,
    /// The server does not reply.
    Silence,
}

/// A DNS server on loopback.
pub struct Dns {
    server: Server,
    queries: Arc<Mutex<Vec<String>>>,
}

impl Dns {
    /// Starts a server with these names. All others do not exist.
    pub fn with(zone: &[(&'static str, Record)]) -> Self {
        Self::start(Arc::new(Mutex::new(zone.to_vec())), 60)
    }

    /// Starts a server whose zone may change. Records have a TTL of 0, so that they are not cached.
    pub fn changing(zone: Arc<Mutex<Vec<(&'static str, Record)>>>) -> Self {
        Self::start(zone, 0)
    }

    fn start(zone: Arc<Mutex<Vec<(&'static str, Record)>>>, seconds: u8) -> Self {
        let queries = Arc::new(Mutex::new(Vec::new()));
        let log = queries.clone();
        let server = Server::run(loopback(), move |socket, bytes, from| {
            let Some((name, kind, end)) = question(bytes) else {
                return;
            };
            log.lock().unwrap().push(format!("{kind} {name}"));
            if let Some(reply) = reply(bytes, end, (&name, kind), &zone.lock().unwrap(), seconds) {
                let _ = socket.send_to(&reply, from);
            }
        });
        Self { server, queries }
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Returns whether an SRV record was queried.
    pub fn was_asked_for_services(&self) -> bool {
        self.queries
            .lock()
            .unwrap()
            .iter()
            .any(|queries| queries.starts_with(&format!("{SRV} ")))
    }

    /// Returns all queries received: `1 name` for IPv4 addresses, `28 name` for IPv6 addresses, `33
    /// name` for SRV records.
    pub fn queries(&self) -> Vec<String> {
        self.queries.lock().unwrap().clone()
    }
}

/// Returns the name, type and end of the only question.
fn question(bytes: &[u8]) -> Option<(String, u16, usize)> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(bytes.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = bytes.get(at..at + 2)?;
    Some((
        labels.join("."),
        u16::from_be_bytes([kind[0], kind[1]]),
        at + 4,
    ))
}

fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').filter(|label| !label.is_empty());
    let labels = labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

fn reply(
    query: &[u8],
    end: usize,
    (name, kind): (&str, u16),
    zone: &[(&'static str, Record)],
    seconds: u8,
) -> Option<Vec<u8>> {
    let known: Vec<&Record> = zone
        .iter()
        .filter(|(known, _)| *known == name)
        .map(|(_, record)| record)
        .collect();
    let mut code = if known.is_empty() { 3 } else { 0 };
    let mut answers = Vec::new();
    let alias = known.iter().find_map(|record| match record {
        Record::Alias(alias) => Some(*alias),
        _ => None,
    });
    let of_alias = zone.iter().filter(|(name, _)| Some(*name) == alias);
    let of_alias = of_alias.map(|(name, record)| (encoded(name), record));
    // A pointer to the name in the question.
    let of_name = known.into_iter().map(|record| (vec![0xC0, 12], record));
    for (mut answer, record) in of_name.chain(of_alias) {
        let mut kind = kind;
        let data = match record {
            Record::Silence => return None,
            Record::Failure => {
                code = 2;
                continue;
            }
            Record::Alias(alias) => {
                kind = CNAME;
                encoded(alias)
            }
            Record::Address(IpAddr::V4(ip)) if kind == 1 => ip.octets().to_vec(),
            Record::Address(IpAddr::V6(ip)) if kind == 28 => ip.octets().to_vec(),
            Record::Service { host, port } if kind == SRV => {
                // Priority and weight 0.
                let mut data = vec![0, 0, 0, 0];
                data.extend(port.to_be_bytes());
                data.extend(encoded(host));
                data
            }
            _ => continue,
        };
        answer.extend(kind.to_be_bytes());
        // Class IN, and the TTL in seconds.
        answer.extend([0, 1, 0, 0, 0, seconds]);
        answer.extend((data.len() as u16).to_be_bytes());
        answer.extend(data);
        answers.push(answer);
    }
    let mut reply = query.get(..2)?.to_vec();
    reply.extend([0x81, 0x80 | code, 0, 1, 0, answers.len() as u8, 0, 0, 0, 0]);
    reply.extend(query.get(12..end)?);
    reply.extend(answers.concat());
    Some(reply)
}
