//! Checks that the lists in `vectors/master` are parsed as they state.
//!
//! ```text
//! # Its origin.
//! master: dpmaster               kind of master
//! path: Xonotic/3                path of the URL, or none
//! step: last                     or part, next, done, stray, or the error
//! entries: 192.0.2.1:26000, …    in the order found, or none
//!
//! FF FF "text"                   a datagram, or the body of a response
//! ```

use hailer_proto::master::{Entry, ListQuery, ListStep, MASTERS, Master, MasterTransport};
use hailer_testkit::golden;
use hailer_testkit::vector::{append, files};
use std::collections::BTreeMap;

struct Vector {
    name: String,
    master: &'static Master,
    path: String,
    step: String,
    entries: Vec<String>,
    bytes: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let paths = files(&golden::root().join("vectors/master"));
    paths
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(path).unwrap();
            let (head, body) = text.split_once("\n\n").unwrap();
            let mut header: BTreeMap<&str, &str> = BTreeMap::new();
            for line in head.lines().filter(|line| !line.starts_with('#')) {
                let (key, value) = line.split_once(": ").unwrap();
                header.insert(key, value);
            }
            let mut bytes = Vec::new();
            for line in body.lines() {
                append(line, &mut bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            let some = |key: &str| header[key].to_owned().replace("none", "");
            let entries = some("entries");
            let entries = entries.split(", ").filter(|entry| !entry.is_empty());
            let mut masters = MASTERS.iter();
            Vector {
                master: masters
                    .find(|master| master.id == header["master"])
                    .unwrap(),
                path: some("path"),
                step: some("step"),
                entries: entries.map(str::to_owned).collect(),
                name,
                bytes,
            }
        })
        .collect()
}

/// Parses bytes as a list. Returns its entries and how it ends.
fn parse(vector: &Vector, bytes: &[u8]) -> (Vec<String>, String) {
    let mut entries = Vec::new();
    let mut keep = |entry: Entry<'_>| entries.push(entry.to_string());
    let step = match vector.master.transport {
        MasterTransport::Datagram(_, open) => {
            let query = ListQuery {
                path: &vector.path,
                filter: "",
            };
            match open(&query).unwrap().receive(bytes, &mut keep) {
                ListStep::Bad(error) => error.to_string(),
                step => format!("{step:?}").to_lowercase(),
            }
        }
        MasterTransport::Http(open) => {
            let mut list = open();
            let received = list.receive(bytes, &mut keep);
            match received.and_then(|()| list.finish()) {
                Ok(()) => "done".to_owned(),
                Err(error) => error.to_string(),
            }
        }
    };
    (entries, step)
}

#[test]
fn lists_are_parsed_as_stated() {
    let vectors = vectors();
    for vector in &vectors {
        let (entries, step) = parse(vector, &vector.bytes);
        assert_eq!(entries, vector.entries, "{}", vector.name);
        assert_eq!(step, vector.step, "{}", vector.name);
    }
    for master in MASTERS {
        let has_vector = vectors
            .iter()
            .any(|vector| std::ptr::eq(vector.master, master) && !vector.entries.is_empty());
        assert!(has_vector, "{} has no vector with an entry", master.id);
    }
}

#[test]
fn a_cut_list_has_only_entries_of_the_whole_one() {
    for vector in vectors() {
        for end in 0..vector.bytes.len() {
            let (entries, _) = parse(&vector, &vector.bytes[..end]);
            assert!(
                vector.entries.starts_with(&entries),
                "{} at {end}: {entries:?}",
                vector.name
            );
        }
    }
}

#[test]
fn the_spec_page_names_every_kind() {
    let page = std::fs::read_to_string(golden::root().join("spec/master.md")).unwrap();
    for master in MASTERS {
        let word = master.title.split(' ').next().unwrap();
        let word = word.trim_end_matches("'s");
        assert!(page.contains(word), "{}", master.title);
    }
}

/// `BLESS=1` writes the corpus of the fuzz target: the index of the kind, the size of pieces, and
/// the bytes of the vector.
#[test]
fn the_fuzz_corpus_is_made_from_the_vectors() {
    let folder = golden::root().join("crates/hailer-proto/tests/__fuzz__/master/corpus");
    let mut complaints = Vec::new();
    for vector in vectors() {
        let mut masters = MASTERS.iter();
        let index = masters.position(|master| std::ptr::eq(master, vector.master));
        let entry = [&[index.unwrap() as u8, 7], vector.bytes.as_slice()].concat();
        let path = folder.join(&vector.name);
        if golden::blessing() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &entry).unwrap();
        }
        if std::fs::read(&path).ok() != Some(entry) {
            complaints.push(format!("{}: run this test with BLESS=1", path.display()));
        }
    }
    golden::settle(&complaints);
}
