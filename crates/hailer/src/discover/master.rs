//! Lists of master servers as sources of targets.
//!
//! ```text
//!   dpmaster://HOST[:PORT]/GAME       quake2-master://HOST      quakeworld-master://HOST
//!   doom3-master://HOST/VERSION       teeworlds-master://HOST   valve-master://HOST?appid=440
//!   teeworlds+https://HOST/PATH       fivem+https://HOST/PATH   luanti+https://HOST/PATH
//! ```
//!
//! The URL names host and path, because masters come and go. A list is not verified: its servers
//! did not ask to be queried, so callers query them slowly. Addresses that an [`AddressPolicy`] does
//! not allow are left out; callers apply the same policy to the addresses of names. Requests block:
//! use a separate thread in asynchronous programs.
//!
//! Limits, which [`MasterLimits`] changes: 2 s for a reply, two retries, 2 minutes for a list,
//! 200,000 servers, 64 MiB.
//!
//! In: a URL of a master server. Out: addresses and names of servers.
//!
//! May import: `crate::support`, `crate::target`, `hailer_proto`.

use crate::support::address::{AddressFault, AddressPolicy};
use crate::support::catalog;
use crate::target::{Host, Target};
use hailer_proto::master::{
    BodyList, DatagramList, Entry, ListQuery, ListStep, MASTERS, Master, MasterTransport, find,
};
use hailer_proto::wire::counted;
use std::fmt::{self, Write};
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Time without another datagram after which a reply with an end mark is complete. Datagrams of a
/// reply arrive together, but not always in order.
const SETTLE: Duration = Duration::from_millis(300);
/// Longest wait without a look at whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait of the receiving thread without a look at whether the list is complete.
const RECEIVE_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of addresses of a master's name that are tried.
const MAX_ADDRESSES: usize = 4;
/// Largest datagram, and size of pieces of a body, in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// URL of a master server's list.
#[derive(Clone, Debug)]
pub struct MasterUrl {
    text: String,
    master: &'static Master,
    /// Word before `://` of the listed servers: a game or a protocol.
    scheme: String,
    host: String,
    port: u16,
    path: String,
    filter: String,
    /// URL of the request, for HTTP.
    http: Option<String>,
}

/// Limits of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MasterLimits {
    /// Time to wait for a reply over UDP.
    pub timeout: Duration,
    /// Retries of a request over UDP.
    pub retries: u32,
    /// Time limit for the whole list.
    pub deadline: Duration,
    /// Maximum number of servers, duplicates included.
    pub max_servers: u64,
    /// Maximum number of bytes.
    pub max_bytes: u64,
}

impl Default for MasterLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            retries: 2,
            deadline: Duration::from_secs(120),
            max_servers: 200_000,
            max_bytes: 64 << 20,
        }
    }
}

/// Error of a master server or of its URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{master}: {problem}")]
pub struct MasterError {
    /// The URL.
    pub master: String,
    /// The problem.
    pub problem: String,
}

/// Receives the target of each server, and the policy for the addresses of its name.
pub type Found<'a> = &'a mut dyn FnMut(&str, &Arc<AddressPolicy>);

/// Result of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSummary {
    /// Servers delivered, duplicates included.
    pub servers: u64,
    /// Entries that were left out because the policy does not allow their addresses.
    pub refused: u64,
    /// The first of them.
    pub first_refused: Option<AddressFault>,
    /// Why servers may be missing, as a clause; `None` if the list is complete.
    pub incomplete: Option<String>,
}

impl MasterUrl {
    /// Returns whether a text is the URL of a master, and not of a target or a web page.
    pub fn is_master(text: &str) -> bool {
        kind_of(text).is_some()
    }

    /// Returns the URL of the HTTP request, or `None` if the list comes over UDP.
    pub fn http(&self) -> Option<&str> {
        self.http.as_deref()
    }

    /// Returns the policy with what the URL alone allows: the private network of a master whose host
    /// is an address.
    pub fn policy(&self, policy: AddressPolicy) -> AddressPolicy {
        match self.host.parse::<Target>().map(|place| place.host) {
            Ok(Host::Address(ip)) => policy.near(&[ip]),
            _ => policy,
        }
    }

    /// Requests the list over UDP, and calls `found` with the target of each server that `policy`
    /// allows, or that is on the same private network as the master. `is_stopped` is called at least
    /// ten times per second.
    ///
    /// # Errors
    /// The name of the master cannot be looked up, the master does not reply, or its reply is
    /// invalid. A list that ends early is no error: see [`ListSummary::incomplete`].
    pub fn fetch(
        &self,
        limits: &MasterLimits,
        policy: &AddressPolicy,
        is_stopped: &dyn Fn() -> bool,
        found: Found<'_>,
    ) -> Result<ListSummary, MasterError> {
        let MasterTransport::Datagram(_, open) = self.master.transport else {
            return Err(self.error("its list comes over HTTP"));
        };
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses = addresses.map_err(|error| self.error(error))?;
        let query = ListQuery {
            path: &self.path,
            filter: &self.filter,
        };
        let end = Instant::now() + limits.deadline;
        let mut problem = "its name has no address".to_owned();
        for address in addresses.take(MAX_ADDRESSES) {
            let list = open(&query).map_err(|problem| self.error(problem))?;
            let mut request = Request {
                list,
                limits,
                end,
                is_stopped,
                output: self.output(limits, policy.clone().near(&[address.ip()]), found),
                bytes: 0,
                fault: None,
            };
            match request.run(address) {
                Ok(incomplete) => return Ok(request.output.summary(incomplete)),
                Err(text) => problem = text,
            }
        }
        Err(self.error(problem))
    }

    /// Parses the body of an HTTP response, and calls `found` with the target of each server that
    /// `policy` allows.
    ///
    /// # Errors
    /// The body cannot be read, or is not such a list. A list that ends early is no error if it has
    /// any server: see [`ListSummary::incomplete`].
    pub fn read_body(
        &self,
        mut body: impl Read,
        limits: &MasterLimits,
        policy: AddressPolicy,
        is_stopped: &dyn Fn() -> bool,
        found: Found<'_>,
    ) -> Result<ListSummary, MasterError> {
        let MasterTransport::Http(open) = self.master.transport else {
            return Err(self.error("its list comes over UDP"));
        };
        let mut list = open();
        let mut output = self.output(limits, policy, found);
        let incomplete = read_list(&mut *list, &mut body, limits, is_stopped, &mut output);
        match incomplete {
            Some(problem) if output.entries() == 0 => Err(self.error(problem)),
            incomplete => Ok(output.summary(incomplete)),
        }
    }

    fn output<'a>(
        &'a self,
        limits: &MasterLimits,
        policy: AddressPolicy,
        found: Found<'a>,
    ) -> Output<'a> {
        Output {
            scheme: &self.scheme,
            max_servers: limits.max_servers,
            policy: Arc::new(policy),
            summary: ListSummary::default(),
            line: String::new(),
            found,
        }
    }

    fn error(&self, problem: impl fmt::Display) -> MasterError {
        MasterError {
            master: self.text.clone(),
            problem: problem.to_string(),
        }
    }
}

/// Returns the kind of master that a URL names, whether with TLS if over HTTP, and the rest.
fn kind_of(text: &str) -> Option<(&'static Master, Option<&'static str>, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    match scheme.split_once('+') {
        None => Some((find(&scheme, false)?, None, rest)),
        Some((id, "https")) => Some((find(id, true)?, Some("https"), rest)),
        Some((id, "http")) => Some((find(id, true)?, Some("http"), rest)),
        Some(_) => None,
    }
}

/// Names the form of the most similar kind of master, or else of all kinds.
fn unknown_kind(text: &str) -> String {
    let scheme = text.split(['+', ':']).next().unwrap_or_default();
    let ids = MASTERS.iter().map(|master| master.id);
    match catalog::closest(scheme, ids).and_then(|id| MASTERS.iter().find(|m| m.id == id)) {
        Some(master) => format!(
            "unknown kind of master server; did you mean {}",
            master.form
        ),
        None => {
            let forms: Vec<&str> = MASTERS.iter().map(|master| master.form).collect();
            format!(
                "unknown kind of master server; known are {}",
                forms.join(", ")
            )
        }
    }
}

impl FromStr for MasterUrl {
    type Err = MasterError;

    fn from_str(text: &str) -> Result<Self, MasterError> {
        let error = |problem: String| MasterError {
            master: text.chars().take(300).collect(),
            problem,
        };
        let Some((master, http, rest)) = kind_of(text) else {
            return Err(error(unknown_kind(text)));
        };
        let (place, filter) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let mut url = Self {
            text: text.to_owned(),
            master,
            scheme: master.protocol.to_owned(),
            host: authority.to_owned(),
            port: 0,
            path: path.trim_end_matches('/').to_owned(),
            filter: filter.to_owned(),
            http: http.map(|http| format!("{http}://{rest}")),
        };
        if authority.is_empty() {
            return Err(error(format!("no host; write {}", master.form)));
        }
        if let MasterTransport::Datagram(port, open) = master.transport {
            // A target has the same forms of hosts and ports.
            let place: Target = authority
                .parse()
                .map_err(|problem| error(format!("{problem}")))?;
            if place.protocol.is_some() {
                return Err(error(format!("expected {}", master.form)));
            }
            url.host = place.host.to_string().trim_matches(['[', ']']).to_owned();
            url.port = place.port.unwrap_or(port);
            let query = ListQuery {
                path: &url.path,
                filter: &url.filter,
            };
            open(&query).map_err(&error)?;
            // A game in the path is that of the listed servers.
            let first = url.path.split('/').next().unwrap_or_default();
            let game =
                catalog::game(first).filter(|game| game.protocols.contains(&master.protocol));
            if let Some(game) = game {
                url.scheme = game.id.to_owned();
            }
        }
        let sample = format!("{}://192.0.2.1:1", url.scheme);
        if sample.parse::<Target>().is_err() {
            return Err(error(format!(
                "servers of {} cannot be queried by this version",
                master.title
            )));
        }
        Ok(url)
    }
}

impl fmt::Display for MasterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Passes on entries as targets.
struct Output<'a> {
    scheme: &'a str,
    max_servers: u64,
    policy: Arc<AddressPolicy>,
    summary: ListSummary,
    line: String,
    found: Found<'a>,
}

impl Output<'_> {
    fn add(&mut self, entry: Entry<'_>) {
        if self.is_full() {
            return;
        }
        if let Entry::Address(address) = entry
            && let Err(fault) = self.policy.check(address.ip())
        {
            self.summary.refused += 1;
            self.summary.first_refused.get_or_insert(fault);
            return;
        }
        self.summary.servers += 1;
        self.line.clear();
        // Writing to a text cannot fail.
        let _ = write!(self.line, "{}://{entry}", self.scheme);
        (self.found)(&self.line, &self.policy);
    }

    fn entries(&self) -> u64 {
        self.summary.servers + self.summary.refused
    }

    fn is_full(&self) -> bool {
        self.entries() >= self.max_servers
    }

    fn summary(self, incomplete: Option<String>) -> ListSummary {
        ListSummary {
            incomplete,
            ..self.summary
        }
    }
}

/// Reads a list from a body. Returns why it is incomplete.
fn read_list(
    list: &mut dyn BodyList,
    body: &mut dyn Read,
    limits: &MasterLimits,
    is_stopped: &dyn Fn() -> bool,
    output: &mut Output<'_>,
) -> Option<String> {
    let end = Instant::now() + limits.deadline;
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut bytes = 0;
    loop {
        if let Some(problem) = limit(limits, bytes, end, is_stopped, output) {
            return Some(problem);
        }
        let length = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Some(error.to_string()),
        };
        bytes += length as u64;
        let mut sink = |entry: Entry<'_>| output.add(entry);
        if let Err(error) = list.receive(&buffer[..length], &mut sink) {
            return Some(format!("invalid list: {error}"));
        }
    }
    let error = list.finish().err()?;
    Some(format!("invalid list: {error}"))
}

/// Returns the limit that has been reached.
fn limit(
    limits: &MasterLimits,
    bytes: u64,
    end: Instant,
    is_stopped: &dyn Fn() -> bool,
    output: &Output<'_>,
) -> Option<String> {
    if output.is_full() {
        return Some(format!(
            "it has more than {}",
            counted(limits.max_servers, "server")
        ));
    }
    if bytes > limits.max_bytes {
        return Some(format!(
            "it has more than {}",
            counted(limits.max_bytes, "byte")
        ));
    }
    if Instant::now() >= end {
        let seconds = limits.deadline.as_secs_f64();
        return Some(format!("it takes longer than {seconds} s"));
    }
    is_stopped().then(|| "stopped".to_owned())
}

/// One list over UDP.
struct Request<'a> {
    list: Box<dyn DatagramList>,
    limits: &'a MasterLimits,
    end: Instant,
    is_stopped: &'a dyn Fn() -> bool,
    output: Output<'a>,
    bytes: u64,
    /// First invalid datagram.
    fault: Option<String>,
}

/// End of one reply.
enum ReplyEnd {
    /// Send the next request.
    Next,
    Done,
    /// Servers may be missing, for this reason.
    Incomplete(String),
}

impl Request<'_> {
    /// Requests the list from an address. Returns why it is incomplete. A thread receives, because
    /// a master sends the datagrams of a list without pauses, and the receive queue is short.
    fn run(&mut self, address: SocketAddr) -> Result<Option<String>, String> {
        let socket = connect(address).map_err(|error| format!("{address}: {error}"))?;
        let is_over = AtomicBool::new(false);
        let (sender, datagrams) = mpsc::channel();
        let max_bytes = self.limits.max_bytes;
        let result = std::thread::scope(|scope| {
            scope.spawn(|| receive(&socket, &sender, &is_over, max_bytes));
            let result = self.replies(&socket, &datagrams);
            is_over.store(true, Ordering::Relaxed);
            result
        });
        result.map_err(|error| format!("{address}: {error}"))
    }

    /// Sends all requests. Returns why the list is incomplete.
    fn replies(
        &mut self,
        socket: &UdpSocket,
        datagrams: &Receiver<io::Result<Vec<u8>>>,
    ) -> Result<Option<String>, String> {
        loop {
            match self.reply(socket, datagrams) {
                Ok(ReplyEnd::Next) => self.pause(),
                Ok(ReplyEnd::Done) => return self.end(self.fault.clone()),
                Ok(ReplyEnd::Incomplete(why)) => return self.end(Some(why)),
                Err(error) if self.output.entries() > 0 => return Ok(Some(error)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns why the list is incomplete, or that as an error if the list is empty.
    fn end(&self, incomplete: Option<String>) -> Result<Option<String>, String> {
        match incomplete {
            Some(why) if self.output.entries() == 0 => Err(why),
            incomplete => Ok(incomplete),
        }
    }

    /// Waits before the next request.
    fn pause(&self) {
        let resume = Instant::now() + self.list.pause();
        while Instant::now() < resume.min(self.end) && !(self.is_stopped)() {
            let left = resume.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(STOP_INTERVAL));
        }
    }

    /// Sends a request and receives its reply.
    fn reply(
        &mut self,
        socket: &UdpSocket,
        datagrams: &Receiver<io::Result<Vec<u8>>>,
    ) -> Result<ReplyEnd, String> {
        let mut tries = 0;
        let mut has_reply = false;
        let mut strays = 0_u64;
        let mut due = self.send(socket)?;
        loop {
            if let Some(why) = limit(
                self.limits,
                self.bytes,
                self.end,
                self.is_stopped,
                &self.output,
            ) {
                return Ok(ReplyEnd::Incomplete(why));
            }
            let now = Instant::now();
            if now >= due {
                if has_reply {
                    return Ok(match self.list.settle() {
                        ListStep::Next => ReplyEnd::Next,
                        _ => ReplyEnd::Done,
                    });
                }
                if tries >= self.limits.retries {
                    let requests = counted(tries + 1, "request");
                    return Err(match strays {
                        0 => format!("no reply to {requests}"),
                        _ => {
                            format!("no list in reply to {requests}, only other datagrams")
                        }
                    });
                }
                tries += 1;
                due = self.send(socket)?;
                continue;
            }
            let wait = (due - now).min(STOP_INTERVAL);
            let datagram = match datagrams.recv_timeout(wait) {
                Ok(Ok(datagram)) => datagram,
                Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                    return Err("nothing listens on this UDP port".to_owned());
                }
                Ok(Err(error)) => return Err(error.to_string()),
                Err(_) => continue,
            };
            self.bytes += datagram.len() as u64;
            let output = &mut self.output;
            let mut sink = |entry: Entry<'_>| output.add(entry);
            let step = self.list.receive(&datagram, &mut sink);
            match step {
                ListStep::Stray => {
                    strays += 1;
                    continue;
                }
                ListStep::Next => return Ok(ReplyEnd::Next),
                ListStep::Done => return Ok(ReplyEnd::Done),
                ListStep::Part => due = Instant::now() + self.limits.timeout,
                ListStep::Last => due = Instant::now() + SETTLE.min(self.limits.timeout),
                ListStep::Bad(error) => {
                    let text = || format!("invalid reply: {error}");
                    self.fault.get_or_insert_with(text);
                    due = Instant::now() + self.limits.timeout;
                }
            }
            has_reply = true;
        }
    }

    /// Sends the next request. Returns until when to wait for the reply.
    fn send(&mut self, socket: &UdpSocket) -> Result<Instant, String> {
        let mut request = Vec::new();
        self.list.request(&mut request);
        match socket.send(&request) {
            Ok(_) => {}
            // The error of an earlier datagram.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err("nothing listens on this UDP port".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(Instant::now() + self.limits.timeout)
    }
}

/// Passes on the datagrams of a socket, and its first error.
fn receive(
    socket: &UdpSocket,
    datagrams: &Sender<io::Result<Vec<u8>>>,
    is_over: &AtomicBool,
    max_bytes: u64,
) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut bytes = 0;
    while !is_over.load(Ordering::Relaxed) && bytes <= max_bytes {
        let received = socket
            .set_read_timeout(Some(RECEIVE_INTERVAL))
            .and_then(|()| socket.recv(&mut buffer));
        let result = match received {
            Ok(length) => {
                bytes += length as u64;
                Ok(buffer[..length].to_vec())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                _ => Err(error),
            },
        };
        let is_end = result.is_err();
        if datagrams.send(result).is_err() || is_end {
            return;
        }
    }
}

/// Returns a socket on a random port that receives only from this address.
fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread::JoinHandle;

    fn quick() -> MasterLimits {
        MasterLimits {
            timeout: Duration::from_millis(200),
            retries: 1,
            deadline: Duration::from_secs(5),
            ..MasterLimits::default()
        }
    }

    /// A master that replies to each request with these datagrams. Returns its address and, at the
    /// end, its requests.
    fn master(replies: Vec<Vec<&'static [u8]>>) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let address = socket.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut requests = Vec::new();
            let mut buffer = [0; 2_048];
            for datagrams in replies {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else {
                    break;
                };
                requests.push(buffer[..length].to_vec());
                for datagram in datagrams {
                    socket.send_to(datagram, from).unwrap();
                }
            }
            requests
        });
        (address, thread)
    }

    fn fetch(
        url: &str,
        limits: &MasterLimits,
    ) -> (Vec<String>, Result<Option<String>, MasterError>) {
        let mut targets = Vec::new();
        let mut found = |target: &str, _: &_| targets.push(target.to_owned());
        let url: MasterUrl = url.parse().unwrap();
        let any = AddressPolicy::new(true);
        let result = url.fetch(limits, &any, &|| false, &mut found);
        (targets, result.map(|summary| summary.incomplete))
    }

    const ONE: &[u8] = b"\xFF\xFF\xFF\xFFgetserversExtResponse\\\xC0\0\x02\x01\x65\x90";
    const TWO: &[u8] = b"\xFF\xFF\xFF\xFFgetserversExtResponse\\\xC0\0\x02\x5C\x5C\x2F\\EOT\0\0\0";

    #[test]
    fn a_list_of_several_datagrams_is_read_in_any_order() {
        for replies in [vec![ONE, TWO], vec![TWO, ONE]] {
            let (address, thread) = master(vec![replies]);
            let (mut targets, result) = fetch(&format!("dpmaster://{address}/xonotic"), &quick());
            targets.sort();
            assert_eq!(
                targets,
                ["xonotic://192.0.2.1:26000", "xonotic://192.0.2.92:23599"]
            );
            assert_eq!(result, Ok(None));
            let requests = thread.join().unwrap();
            assert!(requests[0].ends_with(b"Xonotic 3 ipv4 ipv6 empty full"));
        }
    }

    #[test]
    fn an_older_master_gets_the_older_request() {
        let reply: &[u8] = b"\xFF\xFF\xFF\xFFgetserversResponse\\\xC0\0\x02\x01\x6D\x38\\EOT\0\0\0";
        let (address, thread) = master(vec![vec![], vec![b"other", reply]]);
        let (targets, result) = fetch(&format!("dpmaster://{address}/Mine/3"), &quick());
        assert_eq!(targets, ["quake3://192.0.2.1:27960"]);
        assert_eq!(result, Ok(None));
        let requests = thread.join().unwrap();
        assert!(
            requests[1].ends_with(b"getservers Mine 3 empty full"),
            "{requests:?}"
        );
    }

    #[test]
    fn errors_and_incomplete_lists_name_the_cause() {
        let (address, thread) = master(vec![vec![], vec![]]);
        let url = format!("quake2-master://{address}");
        let (_, result) = fetch(&url, &quick());
        let error = result.unwrap_err().to_string();
        assert!(
            error.starts_with(&url) && error.contains("no reply to 2"),
            "{error}"
        );
        drop(thread.join());
        let (_, result) = fetch(&url, &quick());
        let error = result.unwrap_err().to_string();
        assert!(error.contains("nothing listens"), "{error}");

        let (address, thread) = master(vec![vec![b"other"], vec![]]);
        let (_, result) = fetch(&format!("quake2-master://{address}"), &quick());
        let error = result.unwrap_err().to_string();
        assert!(error.contains("only other datagrams"), "{error}");
        drop(thread.join());

        let cut: &[u8] = b"\xFF\xFF\xFF\xFFservers \xC0\0\x02\x01\x6D";
        let (address, thread) = master(vec![vec![cut]]);
        let (_, result) = fetch(&format!("quake2-master://{address}"), &quick());
        let error = result.unwrap_err().to_string();
        assert!(error.contains("invalid reply: server"), "{error}");
        thread.join().unwrap();

        let (address, thread) = master(vec![vec![ONE, TWO]]);
        let few = MasterLimits {
            max_servers: 1,
            ..quick()
        };
        let (targets, result) = fetch(&format!("dpmaster://{address}/xonotic"), &few);
        assert_eq!(targets.len(), 1);
        assert_eq!(result, Ok(Some("it has more than 1 server".into())));
        thread.join().unwrap();
    }

    #[test]
    fn pages_follow_each_other_until_the_end_or_a_stop() {
        let first: &[u8] = b"\xFF\xFF\xFF\xFFf\n\xC0\0\x02\x0A\x69\x87";
        let second: &[u8] = b"\xFF\xFF\xFF\xFFf\n\xC0\0\x02\x0B\x69\x87\0\0\0\0\0\0";
        let (address, thread) = master(vec![vec![first], vec![second]]);
        let (targets, result) = fetch(&format!("valve-master://{address}?appid=440"), &quick());
        assert_eq!(
            targets,
            ["a2s://192.0.2.10:27015", "a2s://192.0.2.11:27015"]
        );
        assert_eq!(result, Ok(None));
        let requests = thread.join().unwrap();
        assert_eq!(requests[1], b"1\xFF192.0.2.10:27015\0\\appid\\440\0");

        let (address, thread) = master(vec![vec![first]]);
        let calls = Cell::new(0);
        let is_stopped = || {
            calls.set(calls.get() + 1);
            calls.get() > 3
        };
        let url: MasterUrl = format!("valve-master://{address}").parse().unwrap();
        let any = AddressPolicy::new(true);
        let summary = url.fetch(&quick(), &any, &is_stopped, &mut |_, _| {});
        let summary = summary.unwrap();
        assert_eq!(summary.incomplete.as_deref(), Some("stopped"));
        thread.join().unwrap();
    }

    #[test]
    fn bodies_are_read_within_limits() {
        let url: MasterUrl = "teeworlds+https://lists.example.com/servers.json?a=b"
            .parse()
            .unwrap();
        assert_eq!(
            url.http(),
            Some("https://lists.example.com/servers.json?a=b")
        );
        let body = br#"{"servers":[{"addresses":["tw-0.6+udp://192.0.2.7:8303"]},
            {"addresses":["tw-0.7+udp://192.0.2.7:8304"]}]}"#;
        let read = |body: &[u8], limits: &MasterLimits| {
            let mut targets = Vec::new();
            let mut found = |target: &str, _: &_| targets.push(target.to_owned());
            let any = AddressPolicy::new(true);
            let result = url.read_body(body, limits, any, &|| false, &mut found);
            (targets, result)
        };
        let (targets, result) = read(body, &quick());
        assert_eq!(
            targets,
            ["teeworlds://192.0.2.7:8303", "teeworlds://192.0.2.7:8304"]
        );
        assert_eq!(result.unwrap().incomplete, None);
        let (_, result) = read(&body[..80], &quick());
        assert!(result.unwrap().incomplete.unwrap().contains("list"));
        let (_, result) = read(b"<html>", &quick());
        let error = result.unwrap_err().to_string();
        assert!(
            error.starts_with("teeworlds+https://") && error.contains("JSON"),
            "{error}"
        );
        let small = MasterLimits {
            max_bytes: 1 << 20,
            ..quick()
        };
        let mut endless = io::repeat(b' ');
        let any = AddressPolicy::new(true);
        let result = url.read_body(&mut endless, &small, any, &|| false, &mut |_, _| {});
        assert!(result.unwrap_err().to_string().contains("1048576 bytes"));
    }

    /// A master on this machine lists servers of this machine, and others may not.
    #[test]
    fn addresses_that_are_not_public_are_left_out() {
        let mut reply = b"\xFF\xFF\xFF\xFFservers ".to_vec();
        for ip in [[8, 8, 8, 8], [127, 0, 0, 9], [10, 0, 0, 1], [224, 0, 0, 1]] {
            reply.extend(ip.iter().chain(&[0x6D, 0x38]));
        }
        let (address, thread) = master(vec![vec![reply.leak()]]);
        let url: MasterUrl = format!("quake2-master://{address}").parse().unwrap();
        let mut targets = Vec::new();
        let mut found = |target: &str, policy: &Arc<AddressPolicy>| {
            targets.push(target.to_owned());
            assert!(policy.check([127, 0, 0, 1].into()).is_ok());
            assert!(policy.check([10, 0, 0, 1].into()).is_err());
        };
        let strict = AddressPolicy::default();
        let summary = url.fetch(&quick(), &strict, &|| false, &mut found);
        let summary = summary.unwrap();
        assert_eq!(
            targets,
            ["quake2://8.8.8.8:27960", "quake2://127.0.0.9:27960"]
        );
        assert_eq!((summary.servers, summary.refused), (2, 2));
        let first = summary.first_refused.unwrap().to_string();
        assert_eq!(first, "10.0.0.1 is a private address");
        thread.join().unwrap();

        let url: MasterUrl = "fivem+https://lists.example.com/servers".parse().unwrap();
        assert!(url.policy(strict.clone()).is_strict());
        for here in ["luanti+http://127.0.0.1:8080/list", "dpmaster://[::1]/68"] {
            let url: MasterUrl = here.parse().unwrap();
            assert!(!url.policy(strict.clone()).is_strict(), "{here}");
        }
        let url: MasterUrl = "teeworlds+https://lists.example.com/servers.json"
            .parse()
            .unwrap();
        let body = br#"{"servers":[{"addresses":["tw-0.6+udp://[::ffff:127.0.0.1]:8303"]}]}"#;
        let none = &mut |_: &str, _: &_| panic!("a loopback address is passed on");
        let summary = url.read_body(&body[..], &quick(), strict, &|| false, none);
        assert_eq!(summary.unwrap().refused, 1);
    }

    #[test]
    fn urls_are_checked_before_anything_is_sent() {
        for (text, problem) in [
            ("dpmaster://", "no host"),
            ("dpmaster:///xonotic", "no host"),
            ("dpmaster://master.example.com/", "one of"),
            ("dpmaster://a b/68", "a b"),
            ("quake2-master://master.example.com/x", "no path"),
            ("gopher://master.example.com", "known are dpmaster://"),
            (
                "quake2-master+https://master.example.com",
                "did you mean quake2-master://HOST",
            ),
        ] {
            let error = text.parse::<MasterUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        let url: MasterUrl = "DPMASTER://[2001:db8::1]/68".parse().unwrap();
        assert_eq!((url.host.as_str(), url.port), ("2001:db8::1", 27_950));
        assert_eq!(url.scheme, "quake3");
        assert!(!MasterUrl::is_master("https://example.com/list.txt"));
        assert!(!MasterUrl::is_master("quake3://example.com"));
        assert!(!MasterUrl::is_master("servers.txt"));
    }
}
