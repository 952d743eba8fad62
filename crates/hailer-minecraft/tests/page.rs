//! Files generated from the packet table: parts of the spec page, and a JSON file.
//!
//! `BLESS=1 cargo test` writes them. Without it, a difference fails the test.

use hailer_minecraft::state::TRANSITIONS;
use hailer_minecraft::table::{PacketDirections, PacketInfo};
use hailer_minecraft::{Build, PacketDirection, TABLE};
use hailer_testkit::session::ids;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// Compares a file with its generated content, or writes it.
fn check(path: &str, expected: &str) {
    let stored = std::fs::read_to_string(file(path)).unwrap_or_default();
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        return std::fs::write(file(path), expected).unwrap();
    }
    let differs = stored
        .lines()
        .zip(expected.lines())
        .find(|(stored, expected)| stored != expected);
    assert!(
        stored == expected,
        "{path} differs from the table; BLESS=1 rewrites it. First difference: {differs:?}"
    );
}

fn directions(directions: PacketDirections) -> &'static str {
    match directions {
        PacketDirections::ToClient => "to client",
        PacketDirections::ToServer => "to server",
        PacketDirections::Both => "both",
    }
}

/// Returns the note on the builds of a field, with the names that the game uses, such as `12w16a`.
fn margin(builds: &str) -> String {
    let named = builds
        .trim_end_matches([' ', ','])
        .replace("V1_2_4", "1.2.4")
        .replace('W', "12w");
    if named == ".." {
        String::new()
    } else {
        format!("[{named}]")
    }
}

fn builds() -> String {
    let mut out = String::from("| protocol | builds | released |\n| --- | --- | --- |\n");
    for protocol in 29..=39 {
        let builds: Vec<Build> = Build::ALL
            .iter()
            .copied()
            .filter(|build| build.protocol() == protocol)
            .collect();
        let names: Vec<&str> = builds.iter().map(|build| build.name()).collect();
        let days: Vec<&str> = builds.iter().map(|build| build.released()).collect();
        writeln!(
            out,
            "| {protocol} | {} | {} |",
            names.join(", "),
            days.join(", ")
        )
        .unwrap();
    }
    out
}

fn counts() -> String {
    let mut out = String::from(
        "| from | protocol | ids | to client | to server | both |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for &build in Build::DIALECTS {
        let client = ids(PacketDirection::ToClient, build);
        let server = ids(PacketDirection::ToServer, build);
        let all = (&client | &server).len();
        let both = (&client & &server).len();
        let client = client.len();
        let server = server.len();
        writeln!(
            out,
            "| {build} | {} | {all} | {client} | {server} | {both} |",
            build.protocol()
        )
        .unwrap();
    }
    out
}

/// Lists rows and fields that a build adds to the previous one, and those that it removes.
fn changes() -> String {
    let mut out = String::from("| build | change |\n| --- | --- |\n");
    for pair in Build::DIALECTS.windows(2) {
        let &[before, build] = pair else {
            unreachable!()
        };
        let mut chat = Vec::new();
        for row in TABLE {
            let name = |sign| {
                format!(
                    "{sign}0x{:02X} {} {}",
                    row.id,
                    row.name,
                    directions(row.directions)
                )
            };
            match ((row.exists)(before), (row.exists)(build)) {
                (false, true) => chat.push(name('+')),
                (true, false) => chat.push(name('-')),
                (true, true) => {
                    let changed = |sign, here: Build, there: Build| {
                        let fields = row
                            .fields
                            .iter()
                            .filter(move |field| (field.exists)(here) && !(field.exists)(there));
                        fields
                            .map(|field| format!("{sign}{}", field.name))
                            .collect::<Vec<_>>()
                    };
                    let mut fields = changed('+', build, before);
                    fields.extend(changed('-', before, build));
                    if !fields.is_empty() {
                        chat.push(format!(
                            "0x{:02X} {}: {}",
                            row.id,
                            row.name,
                            fields.join(", ")
                        ));
                    }
                }
                (false, false) => {}
            }
        }
        let chat = if chat.is_empty() {
            "no field; see below".into()
        } else {
            chat.join("; ")
        };
        writeln!(out, "| {build} ({}) | {chat} |", build.protocol()).unwrap();
    }
    out
}

fn packets() -> String {
    let mut out =
        String::from("| id | packet | way | fields | what |\n| --- | --- | --- | --- | --- |\n");
    for PacketInfo {
        id,
        name,
        builds,
        fields,
        help,
        directions: row_ways,
        ..
    } in TABLE
    {
        let fields: Vec<String> = fields
            .iter()
            .map(|field| match margin(field.builds).as_str() {
                "" => format!("{}: `{}`", field.name, field.ty),
                margin => format!("{}: `{}` {margin}", field.name, field.ty),
            })
            .collect();
        let name = format!("{name} {}", margin(builds));
        let direction = directions(*row_ways);
        writeln!(
            out,
            "| {id:02X} | {} | {direction} | {} | {} |",
            name.trim_end(),
            fields.join(", "),
            help.trim()
        )
        .unwrap();
    }
    out
}

fn states() -> String {
    let mut out = String::from(
        "| in | packet | way | builds | then | |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for transition in TRANSITIONS {
        let from = transition
            .from
            .map_or("any".into(), |state| format!("{state:?}"));
        let to = transition
            .to
            .map_or("the same".into(), |state| format!("{state:?}"));
        let (first, last) = transition.builds;
        let builds = match (first == Build::V1_2_4, last == Build::LATEST) {
            (true, true) => "all".into(),
            (true, false) => format!("until {last}"),
            (false, true) => format!("from {first}"),
            (false, false) => format!("{first} to {last}"),
        };
        let encrypts = if transition.is_encrypted_after {
            "E"
        } else {
            ""
        };
        let direction = transition.direction;
        let id = transition.id;
        writeln!(
            out,
            "| {from} | {id:02X} | {direction} | {builds} | {to} | {encrypts} |"
        )
        .unwrap();
    }
    out
}

#[test]
fn the_spec_page_matches_the_table() {
    const PAGE: &str = "spec/minecraft-12w.md";
    let mut page = std::fs::read_to_string(file(PAGE)).unwrap();
    for (name, part) in [
        ("builds", builds()),
        ("counts", counts()),
        ("changes", changes()),
        ("packets", packets()),
        ("states", states()),
    ] {
        let marker = format!("<!-- generated: {name} -->\n");
        let (head, rest) = page
            .split_once(&marker)
            .unwrap_or_else(|| panic!("{PAGE} has no place for {name}"));
        let (_, tail) = rest
            .split_once("<!-- end -->")
            .expect("a generated part must have an end mark");
        page = format!("{head}{marker}\n{part}\n<!-- end -->{tail}");
    }
    check(PAGE, &page);
}

/// The table for programs in other languages.
#[test]
fn the_table_in_json() {
    let mut out = String::from("[\n");
    for (i, row) in TABLE.iter().enumerate() {
        let builds_of = |exists: fn(Build) -> bool| {
            let names = Build::DIALECTS
                .iter()
                .filter(|&&build| exists(build))
                .map(|build| format!("\"{build}\""));
            format!("[{}]", names.collect::<Vec<_>>().join(", "))
        };
        let fields: Vec<String> = row
            .fields
            .iter()
            .map(|field| {
                let builds = if field.builds.is_empty() {
                    String::new()
                } else {
                    format!(", \"builds\": {}", builds_of(field.exists))
                };
                format!(
                    "{{\"name\": \"{}\", \"type\": \"{}\"{builds}}}",
                    field.name, field.ty
                )
            })
            .collect();
        let id = row.id;
        let name = row.name;
        let direction = directions(row.directions);
        let builds = builds_of(row.exists);
        let comma = if i + 1 < TABLE.len() { "," } else { "" };
        writeln!(out, "{{\"id\": {id}, \"name\": \"{name}\", \"way\": \"{direction}\", \"builds\": {builds},\n  \"fields\": [{}]}}{comma}", fields.join(",\n    ")).unwrap();
    }
    out.push_str("]\n");
    check("golden/minecraft-12w.packets.json", &out);
}
