//! Lists of players and networks that may wake a game.
//!
//! ```text
//!   keys ─────────────────────────────┐
//!   files ─► reread, if they changed ─┴─► rules ─► Access::admits(source, attempt)
//! ```
//!
//! A list has names of players, their UUIDs, and networks such as `192.0.2.0/24`. A client is
//! admitted if no list of `deny` has it, and if a list of `allow` has it or there is none. **Names
//! and UUIDs are sent by the client and not verified with an account.** Clients without a name, as
//! in most protocols over UDP, match networks only.
//!
//! A file is a text with an entry in each line, or JSON as Minecraft writes it: `whitelist.json`,
//! `ops.json`, `banned-players.json` and `banned-ips.json`. A file that becomes invalid keeps its
//! last entries.
//!
//! Limits: [`MAX_FILE_BYTES`], [`MAX_ENTRIES`] per file, [`MAX_ENTRY_BYTES`].
//!
//! In: entries, files, joins. Out: decisions, problems of files.
//!
//! May import: `crate::support`, `hailer_proto`.

use crate::support::address_range::{AddressRange, AddressRangeError};
use arc_swap::ArcSwap;
use hailer_proto::protocol::JoinAttempt;
use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Maximum size of a file.
pub const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of entries of a file.
pub const MAX_ENTRIES: usize = 20_000;
/// Maximum length of an entry.
pub const MAX_ENTRY_BYTES: usize = 255;

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessEntry {
    /// Name of a player, in lower case.
    Name(String),
    /// UUID of a player.
    Uuid([u8; 16]),
    /// A network, or one address.
    Network(AddressRange),
}

impl FromStr for AccessEntry {
    type Err = String;

    /// Parses `192.0.2.0/24`, `192.0.2.7`, a UUID with or without hyphens, or else a name.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("the entry is empty; write a player or a network".to_owned());
        }
        if text.len() > MAX_ENTRY_BYTES || text.contains(char::is_control) {
            return Err(format!(
                "expected a player or a network in one line of at most {MAX_ENTRY_BYTES} bytes"
            ));
        }
        match text.parse() {
            Ok(range) => return Ok(Self::Network(range)),
            Err(error @ AddressRangeError::Bits(_)) => return Err(format!("{text}: {error}")),
            // No name has a slash: it is a typing error.
            Err(error) if text.contains('/') => return Err(format!("{text:?}: {error}")),
            Err(_) => {}
        }
        Ok(match uuid(text) {
            Some(uuid) => Self::Uuid(uuid),
            None => Self::Name(text.to_lowercase()),
        })
    }
}

/// Parses 32 hexadecimal digits, or the form with hyphens.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let hyphens = [8, 13, 18, 23];
    let digits: String = match bytes.len() {
        32 => text.to_owned(),
        36 if hyphens.iter().all(|at| bytes[*at] == b'-') => text.replace('-', ""),
        _ => return None,
    };
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
    number.map(u128::to_be_bytes)
}

/// Players and networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AccessList {
    names: HashSet<String>,
    uuids: HashSet<[u8; 16]>,
    networks: Vec<AddressRange>,
}

impl AccessList {
    fn new(entries: impl IntoIterator<Item = AccessEntry>) -> Self {
        let mut list = Self::default();
        for entry in entries {
            list.insert(entry);
        }
        list
    }

    fn insert(&mut self, entry: AccessEntry) {
        match entry {
            AccessEntry::Name(name) => drop(self.names.insert(name)),
            AccessEntry::Uuid(uuid) => drop(self.uuids.insert(uuid)),
            AccessEntry::Network(range) => self.networks.push(range),
        }
    }

    fn contains(&self, source: IpAddr, name: &str, uuid: Option<&[u8; 16]>) -> bool {
        (!name.is_empty() && self.names.contains(name))
            || uuid.is_some_and(|uuid| self.uuids.contains(uuid))
            || self.networks.iter().any(|range| range.contains(source))
    }

    /// Reads the content of a file. A file of JSON has the suffix `.json`.
    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let is_json = path.extension().is_some_and(|suffix| suffix == "json");
        if is_json {
            Self::parse_json(text)
        } else {
            Self::parse_lines(text)
        }
    }

    /// Reads lines. Comments begin with `#`.
    fn parse_lines(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                return Err(format!(
                    "more than {MAX_ENTRIES} entries; write networks, or split it"
                ));
            }
            let entry = line
                .parse()
                .map_err(|problem| format!("line {}: {problem}", i + 1))?;
            entries.push(entry);
        }
        Ok(Self::new(entries))
    }

    /// Reads a list of texts, or of objects with `uuid` and `name`, or `ip`. If a player has both
    /// a UUID and a name, each of them is enough: clients of old versions send no UUID.
    fn parse_json(text: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "expected a list such as [{\"uuid\": \"…\", \"name\": \"Alice\"}] or [\"Alice\"]";
        let items: Vec<serde_json::Value> =
            serde_json::from_str(text).map_err(|error| format!("{error}; {EXPECTED}"))?;
        if items.len() > MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} entries"));
        }
        let mut list = Self::default();
        for item in &items {
            let texts = match item {
                serde_json::Value::String(text) => vec![&**text],
                item => ["uuid", "name", "ip"]
                    .iter()
                    .filter_map(|key| item.get(key)?.as_str())
                    .collect(),
            };
            if texts.is_empty() {
                return Err(EXPECTED.to_owned());
            }
            for text in texts {
                list.insert(text.parse()?);
            }
        }
        Ok(list)
    }
}

/// Lists of one side, `allow` or `deny`.
#[derive(Clone, Debug, Default)]
pub struct AccessSide {
    /// Entries of the configuration.
    pub entries: Vec<AccessEntry>,
    /// Files with further entries.
    pub files: Vec<PathBuf>,
}

impl AccessSide {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.files.is_empty()
    }
}

/// Rules by which the threads of sockets decide.
#[derive(Debug, Default)]
struct Rules {
    /// `None`: all clients that are not denied.
    allow: Option<Vec<AccessList>>,
    deny: Vec<AccessList>,
}

/// A file and the entries of its last read.
#[derive(Debug)]
struct ListFile {
    path: PathBuf,
    /// Size, time of change and identity when it was read last. `None`: not yet.
    seen: Option<FileVersion>,
    list: AccessList,
    /// Problem that was reported.
    problem: Option<String>,
}

/// Properties that change when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Number of the file on its disk, where there is one.
    number: u64,
}

impl FileVersion {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let number = 0;
        Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            number,
        }
    }
}

impl ListFile {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            seen: None,
            list: AccessList::default(),
            problem: None,
        }
    }

    /// Reads the file if it changed. Returns whether the list changed.
    fn reread(&mut self) -> Result<bool, String> {
        let version = std::fs::metadata(&self.path)
            .map(|metadata| FileVersion::of(&metadata))
            .map_err(|error| error.to_string())?;
        if self.seen == Some(version) {
            return Ok(false);
        }
        let text = read(&self.path).map_err(|error| error.to_string())?;
        let list = AccessList::parse(&self.path, &text)?;
        // An invalid file is read again each time: it may be half written.
        self.seen = Some(version);
        let has_changed = self.list != list;
        self.list = list;
        Ok(has_changed)
    }
}

/// Reads a text of at most [`MAX_FILE_BYTES`].
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let limit = MAX_FILE_BYTES >> 20;
        return Err(io::Error::other(format!("larger than {limit} MiB")));
    }
    Ok(text)
}

/// Decides which clients may wake a game.
#[derive(Debug)]
pub struct Access {
    allow: AccessSide,
    deny: AccessSide,
    rules: ArcSwap<Rules>,
    /// The files of `allow`, then those of `deny`. Locked by [`reread`](Self::reread) only.
    files: Mutex<Vec<ListFile>>,
}

impl Access {
    /// Creates the decision. Call [`reread`](Self::reread) before the first use: until then, the
    /// files are empty.
    pub fn new(allow: AccessSide, deny: AccessSide) -> Self {
        let paths = allow.files.iter().chain(&deny.files);
        let files = paths.map(|path| ListFile::new(path)).collect();
        let access = Self {
            allow,
            deny,
            rules: ArcSwap::default(),
            files: Mutex::new(files),
        };
        access.publish(&access.lock());
        access
    }

    /// Returns whether a client may wake the game. Takes no lock.
    pub fn admits(&self, source: IpAddr, attempt: &JoinAttempt) -> bool {
        let rules = self.rules.load();
        let name = attempt.name.trim().to_lowercase();
        let uuid = attempt.uuid.as_ref();
        let has = |list: &AccessList| list.contains(source, &name, uuid);
        let is_allowed = rules
            .allow
            .as_ref()
            .is_none_or(|allow| allow.iter().any(has));
        is_allowed && !rules.deny.iter().any(has)
    }

    /// Returns whether any file may change.
    pub fn has_files(&self) -> bool {
        !(self.allow.files.is_empty() && self.deny.files.is_empty())
    }

    /// Reads the files that changed, and returns new problems, each in one line. Call it every few
    /// seconds. It blocks on the file system.
    pub fn reread(&self) -> Vec<String> {
        let mut files = self.lock();
        let mut problems = Vec::new();
        let mut has_changed = false;
        for file in files.iter_mut() {
            match file.reread() {
                Ok(is_new) => {
                    has_changed |= is_new;
                    file.problem = None;
                }
                Err(problem) => {
                    if file.problem.as_ref() != Some(&problem) {
                        let keeping = match file.seen {
                            Some(_) => "keeping its last entries",
                            None => "it has no entries until it can be read",
                        };
                        let path = file.path.display();
                        problems.push(format!("{path}: {problem}; {keeping}"));
                    }
                    file.problem = Some(problem);
                }
            }
        }
        if has_changed {
            self.publish(&files);
        }
        problems
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<ListFile>> {
        // A panicked reader leaves complete lists.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, files: &[ListFile]) {
        let (allow, deny) = files.split_at(self.allow.files.len());
        let lists = |side: &AccessSide, files: &[ListFile]| {
            let own = AccessList::new(side.entries.iter().cloned());
            let files = files.iter().map(|file| file.list.clone());
            std::iter::once(own).chain(files).collect::<Vec<_>>()
        };
        let rules = Rules {
            allow: (!self.allow.is_empty()).then(|| lists(&self.allow, allow)),
            deny: lists(&self.deny, deny),
        };
        self.rules.store(std::sync::Arc::new(rules));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "069a79f4-44e9-4726-a5be-fca90e38aaf5";

    fn side(entries: &[&str], files: &[&Path]) -> AccessSide {
        AccessSide {
            entries: entries.iter().map(|entry| entry.parse().unwrap()).collect(),
            files: files.iter().map(|path| path.to_path_buf()).collect(),
        }
    }

    fn is_admitted(access: &Access, name: &str, uuid: Option<&str>, source: &str) -> bool {
        let attempt = JoinAttempt {
            name: name.into(),
            uuid: uuid.map(|text| super::uuid(text).unwrap()),
            ..JoinAttempt::default()
        };
        access.admits(source.parse().unwrap(), &attempt)
    }

    #[test]
    fn entries_are_players_or_networks() {
        let parse = |text: &str| text.parse::<AccessEntry>();
        assert_eq!(parse(" Alice "), Ok(AccessEntry::Name("alice".to_owned())));
        assert_eq!(parse(".Bob 2"), Ok(AccessEntry::Name(".bob 2".to_owned())));
        let uuid = AccessEntry::Uuid(super::uuid(UUID).unwrap());
        assert_eq!(parse(UUID), Ok(uuid.clone()));
        assert_eq!(parse(&UUID.replace('-', "").to_uppercase()), Ok(uuid));
        let network = AccessEntry::Network("192.0.2.0/24".parse().unwrap());
        assert_eq!(parse("192.0.2.0/24"), Ok(network));
        assert!(matches!(parse("2001:db8::7"), Ok(AccessEntry::Network(_))));
        // No UUID: hyphens elsewhere.
        let odd = UUID.replacen("-4", "4-", 1);
        assert_eq!(parse(&odd), Ok(AccessEntry::Name(odd.clone())));
        for (text, problem) in [
            ("", "empty"),
            ("192.0.2.7/24", "did you mean 192.0.2.0/24?"),
            ("192.0.2.0/33", "expected an address or a range"),
            ("a/b", "expected an address or a range"),
            ("a\nb", "one line"),
            (&"x".repeat(256), "at most 255 bytes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn denied_clients_are_refused_even_if_they_are_allowed() {
        let everybody = Access::new(side(&[], &[]), side(&["Eve", "198.51.100.0/24"], &[]));
        assert!(is_admitted(&everybody, "Alice", None, "192.0.2.7"));
        assert!(is_admitted(&everybody, "", None, "192.0.2.7"));
        assert!(!is_admitted(&everybody, "eVE", None, "192.0.2.7"));
        assert!(!is_admitted(&everybody, "Alice", None, "198.51.100.9"));
        assert!(!is_admitted(
            &everybody,
            "Alice",
            None,
            "::ffff:198.51.100.9"
        ));

        let some = Access::new(
            side(&["Alice", UUID, "10.0.0.0/8"], &[]),
            side(&["10.0.0.9"], &[]),
        );
        assert!(is_admitted(&some, "alice", None, "192.0.2.7"));
        assert!(is_admitted(&some, "Renamed", Some(UUID), "192.0.2.7"));
        assert!(is_admitted(&some, "", None, "10.1.2.3"));
        assert!(!is_admitted(&some, "Bob", None, "192.0.2.7"));
        assert!(!is_admitted(&some, "", None, "192.0.2.7"));
        assert!(!is_admitted(&some, "Alice", None, "10.0.0.9"));
    }

    #[test]
    fn files_of_minecraft_are_read() {
        let list = |text: &str| AccessList::parse(Path::new("x.json"), text);
        let whitelist = format!("[{{\"uuid\": \"{UUID}\", \"name\": \"Alice\"}}]");
        let alice = list(&whitelist).unwrap();
        let ops = format!(
            "[{{\"uuid\": \"{UUID}\", \"name\": \"Alice\", \"level\": 4, \"bypassesPlayerLimit\": false}}]"
        );
        assert_eq!(list(&ops).as_ref(), Ok(&alice));
        let source = "192.0.2.7".parse().unwrap();
        assert!(alice.contains(source, "alice", None));
        assert!(alice.contains(source, "", super::uuid(UUID).as_ref()));
        let banned = "[{\"ip\": \"192.0.2.7\", \"created\": \"2026-01-01\", \"source\": \"x\", \"expires\": \"forever\"}]";
        assert!(list(banned).unwrap().contains(source, "", None));
        assert!(!list("[]").unwrap().contains(source, "alice", None));
        for text in ["", "{}", "[1]", "[{}]", "[{\"uuid\": 7}]", "[\"a\\u0000\"]"] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_lines_have_comments() {
        let list = |text: &str| AccessList::parse(Path::new("players"), text);
        let found = list("# players\r\nAlice # the owner\r\n\r\n 10.0.0.0/8\n").unwrap();
        let expected = ["Alice", "10.0.0.0/8"].map(|entry| entry.parse().unwrap());
        assert_eq!(found, AccessList::new(expected));
        let error = list("Alice\n10.0.0.1/8\n").unwrap_err();
        assert!(error.starts_with("line 2: 10.0.0.1/8"), "{error}");
        let many = "a\n".repeat(MAX_ENTRIES + 1);
        assert!(list(&many).unwrap_err().contains("more than 20000 entries"));
    }

    #[test]
    fn files_are_read_again_when_they_change() {
        let folder = std::env::temp_dir().join(format!("hailer-access-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("whitelist.json");
        let _ = std::fs::remove_file(&path);
        let access = Access::new(side(&[], &[&path]), side(&[], &[]));
        let admits = |name: &str| is_admitted(&access, name, None, "192.0.2.7");

        // A missing file admits no client, and is reported once.
        let problems = access.reread();
        assert!(
            problems[0].contains("no entries until it can be read"),
            "{problems:?}"
        );
        assert_eq!(access.reread(), [""; 0]);
        assert!(!admits("Alice"));

        std::fs::write(&path, "[{\"name\": \"Alice\"}]").unwrap();
        assert_eq!(access.reread(), [""; 0]);
        assert!(admits("Alice") && !admits("Bob"));

        // Half written: the last entries stay.
        std::fs::write(&path, "[{\"name\": \"Alice\"},").unwrap();
        let problems = access.reread();
        assert!(
            problems[0].contains("keeping its last entries"),
            "{problems:?}"
        );
        assert!(admits("Alice"));
        std::fs::write(&path, "[\"Bob\"]").unwrap();
        assert_eq!(access.reread(), [""; 0]);
        assert!(admits("Bob") && !admits("Alice"));

        std::fs::write(&path, vec![b' '; MAX_FILE_BYTES as usize + 1]).unwrap();
        assert!(access.reread()[0].contains("larger than 4 MiB"));
        std::fs::remove_file(&path).unwrap();
        assert!(access.reread()[0].contains("keeping its last entries"));
        assert!(admits("Bob"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
