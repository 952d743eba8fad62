//! Lists over UDP.

use super::{DatagramList, Entry, ListQuery, ListStep, Sink};
use crate::wire::Error;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

/// Longest part of a URL that is sent, in bytes.
const MAX_TEXT: usize = 128;

/// Games that masters of Quake 3 list: id in Hailer, name for dpmaster or an empty text for masters
/// without names, and numbers of the game's protocol (spec/master.md#2.3).
static QUAKE3_GAMES: &[(&str, &str, &[u32])] = &[
    ("cod", "", &[6, 5]),
    ("cod2", "", &[118]),
    ("cod4", "", &[6]),
    ("et", "et", &[84]),
    ("etlegacy", "et", &[84]),
    ("jk2", "", &[16, 15]),
    ("jka", "", &[26, 25]),
    ("nexuiz", "Nexuiz", &[3]),
    ("openarena", "Quake3Arena", &[71]),
    ("q3", "Quake3Arena", &[68, 71]),
    ("rtcw", "wolfmp", &[60]),
    ("sof2", "", &[2004, 2003, 2002]),
    ("stvef", "", &[24]),
    ("tremulous", "", &[69]),
    ("unvanquished", "unv", &[86]),
    ("urt", "", &[68, 70]),
    ("warfork", "Warsow", &[22]),
    ("warsow", "Warsow", &[22]),
    ("wop", "WorldofPadman", &[71]),
    ("xonotic", "Xonotic", &[3]),
];

/// Checks a text of a URL that becomes part of a request.
fn word(text: &str) -> Result<&str, String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte);
    if !text.is_empty() && text.len() <= MAX_TEXT && text.bytes().all(is_good) {
        Ok(text)
    } else {
        Err(format!(
            "{text:?}: expected 1 to {MAX_TEXT} letters, digits, hyphens, underscores and dots"
        ))
    }
}

/// Refuses parts of a URL that have no meaning.
fn no_more(query: &ListQuery<'_>) -> Result<(), String> {
    if query.path.is_empty() && query.filter.is_empty() {
        Ok(())
    } else {
        Err("this kind of master has no path and no filter".to_owned())
    }
}

/// Passes on an entry with a port.
fn deliver(ip: impl Into<IpAddr>, port: u16, found: Sink<'_>) {
    let ip = ip.into().to_canonical();
    if port > 0 && !ip.is_unspecified() {
        found(Entry::Address(SocketAddr::new(ip, port)));
    }
}

fn short(field: &'static str, at: usize, need: usize) -> ListStep {
    ListStep::Bad(Error::short(field, at, need))
}

/// A list whose reply is a head and entries of one size, over one or several datagrams.
struct Plain {
    request: Vec<u8>,
    head: &'static [u8],
    size: usize,
    entry: fn(&[u8], Sink<'_>),
}

impl DatagramList for Plain {
    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.request);
    }

    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> ListStep {
        let Some(rest) = bytes.strip_prefix(self.head) else {
            return ListStep::Stray;
        };
        let entries = rest.chunks_exact(self.size);
        let left = entries.remainder();
        for entry in entries {
            (self.entry)(entry, found);
        }
        // One more byte, a NUL or a line feed, ends some lists.
        match left {
            [] | [0 | b'\n'] => ListStep::Part,
            _ => short("server", bytes.len() - left.len(), self.size - left.len()),
        }
    }

    fn settle(&mut self) -> ListStep {
        ListStep::Done
    }
}

/// Delivers four bytes of an address and a big-endian port.
fn four(entry: &[u8], found: Sink<'_>) {
    if let [a, b, c, d, high, low] = *entry {
        let port = u16::from_be_bytes([high, low]);
        deliver(Ipv4Addr::new(a, b, c, d), port, found);
    }
}

/// Delivers four bytes of an address and a little-endian port.
fn four_little(entry: &[u8], found: Sink<'_>) {
    if let [a, b, c, d, low, high] = *entry {
        four(&[a, b, c, d, high, low], found);
    }
}

/// Delivers 16 bytes of an address and a big-endian port. IPv4 addresses are mapped.
fn sixteen(entry: &[u8], found: Sink<'_>) {
    if let Some((ip, &[high, low])) = entry.split_first_chunk::<16>() {
        let port = u16::from_be_bytes([high, low]);
        deliver(Ipv6Addr::from(*ip), port, found);
    }
}

/// Returns the list of a Quake 2 master (spec/master.md#3).
pub(super) fn quake2(query: &ListQuery<'_>) -> Result<Box<dyn DatagramList>, String> {
    no_more(query)?;
    Ok(Box::new(Plain {
        request: b"query\n".to_vec(),
        head: b"\xFF\xFF\xFF\xFFservers ",
        size: 6,
        entry: four,
    }))
}

/// Returns the list of a QuakeWorld or HexenWorld master (spec/master.md#4).
pub(super) fn quakeworld(query: &ListQuery<'_>) -> Result<Box<dyn DatagramList>, String> {
    let (request, head): (&[u8], &[u8]) = match query.path {
        "" | "quakeworld" => (b"c\n\0", b"\xFF\xFF\xFF\xFFd\n"),
        "hexenworld" => (b"\xFFc\0", b"\xFF\xFF\xFF\xFF\xFFd\n"),
        other => return Err(format!("{other:?}: expected hexenworld, or nothing")),
    };
    Ok(Box::new(Plain {
        request: request.to_vec(),
        head,
        size: 6,
        entry: four,
    }))
}

/// Returns the list of a master of Doom 3 or Quake 4 (spec/master.md#5).
pub(super) fn doom3(query: &ListQuery<'_>) -> Result<Box<dyn DatagramList>, String> {
    let (game, version) = query.path.split_once('/').unwrap_or(("", query.path));
    let numbers = version.split_once('.').and_then(|(major, minor)| {
        let major: u16 = major.parse().ok()?;
        let minor: u16 = minor.parse().ok()?;
        Some(u32::from(major) << 16 | u32::from(minor))
    });
    let Some(version) = numbers else {
        return Err(format!(
            "{version:?}: expected the version of the game's protocol, such as 1.41"
        ));
    };
    let names = match game {
        // The name of the mod.
        "" | "doom3" => 1,
        // Also the names of the player and of the clan.
        "quake4" => 3,
        other => return Err(format!("{other:?}: expected doom3 or quake4")),
    };
    let mut request = b"\xFF\xFFgetServers\0".to_vec();
    request.extend_from_slice(&version.to_le_bytes());
    // Empty names, and no filter.
    request.resize(request.len() + names + 1, 0);
    Ok(Box::new(Plain {
        request,
        head: b"\xFF\xFFservers\0",
        size: 6,
        entry: four_little,
    }))
}

/// Returns the list of a master of Teeworlds 0.6 (spec/master.md#6).
pub(super) fn teeworlds(query: &ListQuery<'_>) -> Result<Box<dyn DatagramList>, String> {
    no_more(query)?;
    Ok(Box::new(Plain {
        request: [&[0xFF; 10][..], b"req2"].concat(),
        head: b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFlis2",
        size: 18,
        entry: sixteen,
    }))
}

/// List of a master of Quake 3, or of dpmaster.
struct Quake3 {
    /// Name of the game, for dpmaster.
    name: Option<String>,
    /// Numbers of the game's protocol, of which the first is requested.
    protocols: Vec<u32>,
    /// Words after the number.
    filter: String,
    /// Requests in this protocol without a reply.
    tries: u32,
}

/// Returns the list of a master of Quake 3 (spec/master.md#2).
pub(super) fn quake3(query: &ListQuery<'_>) -> Result<Box<dyn DatagramList>, String> {
    let number = |text: &str| {
        text.parse::<u32>()
            .map_err(|_| format!("{text:?}: expected the number of the game's protocol"))
    };
    let row = QUAKE3_GAMES.iter().find(|(id, ..)| *id == query.path);
    let (name, protocols) = match (row, query.path.split_once('/')) {
        (Some((_, name, protocols)), _) => ((*name).to_owned(), protocols.to_vec()),
        (None, Some((name, protocol))) => (word(name)?.to_owned(), Vec::from([number(protocol)?])),
        (None, None) if query.path.starts_with(|c: char| c.is_ascii_digit()) => {
            (String::new(), Vec::from([number(query.path)?]))
        }
        (None, None) => {
            let ids: Vec<&str> = QUAKE3_GAMES.iter().map(|(id, ..)| *id).collect();
            return Err(format!(
                "{:?}: expected NAME/PROTOCOL such as Xonotic/3, a protocol such as 68, or one of {}",
                query.path,
                ids.join(", ")
            ));
        }
    };
    let mut filter = String::new();
    for text in query.filter.split('&').filter(|text| !text.is_empty()) {
        filter.push(' ');
        filter.push_str(word(text)?);
    }
    if filter.len() > MAX_TEXT {
        return Err(format!("the filter is longer than {MAX_TEXT} bytes"));
    }
    Ok(Box::new(Quake3 {
        name: Some(name).filter(|name| !name.is_empty()),
        protocols,
        filter,
        tries: 0,
    }))
}

impl DatagramList for Quake3 {
    fn request(&mut self, out: &mut Vec<u8>) {
        let protocol = self.protocols.first().map_or(0, |number| *number);
        out.extend_from_slice(b"\xFF\xFF\xFF\xFF");
        let text = match &self.name {
            // Older masters know only the request without IPv6.
            Some(name) if self.tries.is_multiple_of(2) => {
                let filter = self.filter_or(" empty full");
                format!("getserversExt {name} {protocol} ipv4 ipv6{filter}")
            }
            Some(name) => format!(
                "getservers {name} {protocol}{}",
                self.filter_or(" empty full")
            ),
            // Masters of id Software reply only if the words are in this order.
            None => format!("getservers {protocol}{}", self.filter_or(" full empty")),
        };
        out.extend_from_slice(text.as_bytes());
        self.tries += 1;
    }

    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> ListStep {
        let heads: [&[u8]; 2] = [
            b"\xFF\xFF\xFF\xFFgetserversExtResponse",
            b"\xFF\xFF\xFF\xFFgetserversResponse",
        ];
        let Some(mut rest) = heads.iter().find_map(|head| bytes.strip_prefix(*head)) else {
            return ListStep::Stray;
        };
        // Addresses may contain separators, so the bytes are counted.
        while let Some((separator, after)) = rest.split_first() {
            let at = bytes.len() - rest.len();
            let size = match separator {
                b'\\' if after.starts_with(b"EOT") || after.starts_with(b"EOF") => {
                    // 69.79.84 is also the start of an address, but then has a port.
                    let tail = after.get(3..).unwrap_or_default();
                    if tail.iter().take(3).all(|byte| *byte == 0) {
                        return ListStep::Last;
                    }
                    6
                }
                b'\\' => 6,
                b'/' => 18,
                // Some masters end the text with a NUL or a line feed.
                b'\0' | b'\n' | b' ' if after.is_empty() => return ListStep::Part,
                _ => return ListStep::Bad(Error::bad("separator", at, "a backslash or a slash")),
            };
            let Some((entry, next)) = after.split_at_checked(size) else {
                // A separator alone ends some lists.
                return match after {
                    [] => ListStep::Part,
                    _ => short("server", at + 1, size - after.len()),
                };
            };
            if size == 6 {
                four(entry, found);
            } else {
                sixteen(entry, found);
            }
            rest = next;
        }
        ListStep::Part
    }

    fn settle(&mut self) -> ListStep {
        self.tries = 0;
        if self.protocols.len() > 1 {
            self.protocols.remove(0);
            ListStep::Next
        } else {
            ListStep::Done
        }
    }
}

impl Quake3 {
    fn filter_or<'a>(&'a self, default: &'a str) -> &'a str {
        if self.filter.is_empty() {
            default
        } else {
            &self.filter
        }
    }
}

/// List of Valve's master, page by page.
struct Valve {
    region: u8,
    filter: String,
    /// Last address of the last page.
    last: SocketAddr,
    /// Pages received.
    pages: u32,
}

/// Most pages of a list: half a million servers.
const MAX_PAGES: u32 = 2_200;
/// Start of a list, and its end.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Returns the list of Valve's master (spec/master.md#7).
pub(super) fn valve(query: &ListQuery<'_>) -> Result<Box<dyn DatagramList>, String> {
    let mut region = 0xFF;
    if !query.path.is_empty() {
        region = query.path.parse().map_err(|_| {
            format!(
                "{:?}: expected the number of a region, or nothing",
                query.path
            )
        })?;
    }
    let mut filter = String::new();
    for pair in query.filter.split('&').filter(|pair| !pair.is_empty()) {
        let is_good = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("{pair:?}: expected KEY=VALUE, such as appid=440"));
        };
        if !pair.bytes().all(is_good) || key.is_empty() {
            return Err(format!(
                "{pair:?}: expected KEY=VALUE in ASCII without backslashes"
            ));
        }
        filter.push_str(&format!("\\{key}\\{value}"));
    }
    if filter.len() > 2 * MAX_TEXT {
        return Err(format!("the filter is longer than {} bytes", 2 * MAX_TEXT));
    }
    Ok(Box::new(Valve {
        region,
        filter,
        last: NOWHERE,
        pages: 0,
    }))
}

impl DatagramList for Valve {
    fn request(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'1', self.region]);
        out.extend_from_slice(self.last.to_string().as_bytes());
        out.push(0);
        out.extend_from_slice(self.filter.as_bytes());
        out.push(0);
    }

    fn receive(&mut self, bytes: &[u8], found: Sink<'_>) -> ListStep {
        let Some(rest) = bytes.strip_prefix(b"\xFF\xFF\xFF\xFFf\n") else {
            return ListStep::Stray;
        };
        let entries = rest.chunks_exact(6);
        let left = entries.remainder();
        let mut last = None;
        for entry in entries {
            if let [a, b, c, d, high, low] = *entry {
                let ip = Ipv4Addr::new(a, b, c, d);
                last = Some(SocketAddr::from((ip, u16::from_be_bytes([high, low]))));
                four(entry, found);
            }
        }
        if !left.is_empty() {
            return short("server", bytes.len() - left.len(), 6 - left.len());
        }
        match last {
            Some(NOWHERE) => ListStep::Done,
            // A page that repeats the last address would never end.
            Some(last) if last != self.last && self.pages < MAX_PAGES => {
                self.last = last;
                self.pages += 1;
                ListStep::Next
            }
            Some(_) if self.pages >= MAX_PAGES => ListStep::Done,
            _ => ListStep::Stray,
        }
    }

    fn settle(&mut self) -> ListStep {
        ListStep::Done
    }

    fn pause(&self) -> Duration {
        // Masters allow about 30 requests per minute.
        Duration::from_secs(2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MASTERS, MasterTransport};
    use super::*;

    fn open(id: &str, path: &str, filter: &str) -> Result<Box<dyn DatagramList>, String> {
        let open = MASTERS.iter().find_map(|master| match master.transport {
            MasterTransport::Datagram(_, open) if master.id == id => Some(open),
            _ => None,
        });
        open.unwrap()(&ListQuery { path, filter })
    }

    fn request(id: &str, path: &str, filter: &str) -> Vec<u8> {
        let mut out = Vec::new();
        open(id, path, filter).unwrap().request(&mut out);
        out
    }

    #[test]
    fn requests_have_the_form_of_each_master() {
        let cases: [(&str, &str, &str, &[u8]); 12] = [
            (
                "dpmaster",
                "68",
                "",
                b"\xFF\xFF\xFF\xFFgetservers 68 full empty",
            ),
            (
                "dpmaster",
                "xonotic",
                "",
                b"\xFF\xFF\xFF\xFFgetserversExt Xonotic 3 ipv4 ipv6 empty full",
            ),
            (
                "dpmaster",
                "Mine/7",
                "full&gametype=ctf",
                b"\xFF\xFF\xFF\xFFgetserversExt Mine 7 ipv4 ipv6 full gametype=ctf",
            ),
            (
                "dpmaster",
                "jka",
                "",
                b"\xFF\xFF\xFF\xFFgetservers 26 full empty",
            ),
            ("quake2-master", "", "", b"query\n"),
            ("quakeworld-master", "", "", b"c\n\0"),
            ("quakeworld-master", "hexenworld", "", b"\xFFc\0"),
            (
                "doom3-master",
                "1.41",
                "",
                b"\xFF\xFFgetServers\0\x29\0\x01\0\0\0",
            ),
            (
                "doom3-master",
                "quake4/1.1",
                "",
                b"\xFF\xFFgetServers\0\x01\0\x01\0\0\0\0\0",
            ),
            (
                "teeworlds-master",
                "",
                "",
                b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFreq2",
            ),
            ("valve-master", "", "", b"1\xFF0.0.0.0:0\0\0"),
            (
                "valve-master",
                "3",
                "appid=440&empty=1",
                b"1\x030.0.0.0:0\0\\appid\\440\\empty\\1\0",
            ),
        ];
        for (id, path, filter, bytes) in cases {
            assert_eq!(request(id, path, filter), bytes, "{id} {path} {filter}");
        }
    }

    #[test]
    fn mistakes_in_paths_and_filters_are_described() {
        for (id, path, filter, problem) in [
            ("dpmaster", "", "", "one of cod,"),
            ("dpmaster", "unknown", "", "NAME/PROTOCOL"),
            ("dpmaster", "a b/3", "", "letters"),
            ("dpmaster", "Xonotic/x", "", "number"),
            ("dpmaster", "68", "a%20b", "letters"),
            ("quake2-master", "x", "", "no path"),
            ("quakeworld-master", "x", "", "hexenworld"),
            ("doom3-master", "", "", "version"),
            ("doom3-master", "prey/1.4", "", "quake4"),
            ("teeworlds-master", "", "x", "no filter"),
            ("valve-master", "x", "", "region"),
            ("valve-master", "", "appid", "KEY=VALUE"),
            ("valve-master", "", "a=b\\c", "backslashes"),
        ] {
            let error = open(id, path, filter).err().unwrap_or_default();
            assert!(error.contains(problem), "{id} {path:?} {filter:?}: {error}");
        }
        let long = "a".repeat(MAX_TEXT + 1);
        assert!(open("dpmaster", &format!("{long}/3"), "").is_err());
    }

    #[test]
    fn a_game_with_several_protocols_has_several_requests() {
        let mut list = open("dpmaster", "q3", "").unwrap();
        let mut sent = Vec::new();
        for _ in 0..3 {
            let mut out = Vec::new();
            list.request(&mut out);
            sent.push(String::from_utf8_lossy(&out[4..]).into_owned());
        }
        // After a timeout, the older form.
        assert!(
            sent[0].starts_with("getserversExt Quake3Arena 68"),
            "{sent:?}"
        );
        assert!(sent[1].starts_with("getservers Quake3Arena 68"), "{sent:?}");
        assert_eq!(sent[2], sent[0]);
        assert_eq!(list.settle(), ListStep::Next);
        let mut out = Vec::new();
        list.request(&mut out);
        assert!(out[4..].starts_with(b"getserversExt Quake3Arena 71"));
        assert_eq!(list.settle(), ListStep::Done);
    }

    #[test]
    fn pages_continue_at_the_last_address() {
        let mut list = open("valve-master", "", "").unwrap();
        let mut found = Vec::new();
        let mut page = b"\xFF\xFF\xFF\xFFf\n\xC0\0\x02\x0A\x69\x87".to_vec();
        let mut receive = |bytes: &[u8]| {
            let mut keep = |entry: Entry<'_>| found.push(entry.to_string());
            list.receive(bytes, &mut keep)
        };
        assert_eq!(receive(&page), ListStep::Next);
        // The same page again does not lead to another request.
        assert_eq!(receive(&page), ListStep::Stray);
        page.extend_from_slice(&[0; 6]);
        assert_eq!(receive(&page), ListStep::Done);
        let mut out = Vec::new();
        list.request(&mut out);
        assert_eq!(out, b"1\xFF192.0.2.10:27015\0\0");
        assert_eq!(found, ["192.0.2.10:27015"; 3]);
    }
}
