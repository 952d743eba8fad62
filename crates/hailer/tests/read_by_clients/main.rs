//! Third-party clients against our responders. On loopback only.
//!
//! For each responder with its default options, and for the option variants in `servers.rs`, a
//! server runs with each of several statuses. Each client reads all servers whose protocol it knows.
//! Every field that it returns (name, map, version, password, counts, names of players, number of
//! rules) has the configured value, or `differences.rs` lists the difference with its reason: a
//! limit of the protocol, a field that the client does not read, or a fault of the client. Entries
//! that are no longer found fail the test.
//!
//! The clients are node-gamedig (npm), opengsq, python-a2s, mcstatus and samp-query (PyPI), qstat
//! (Debian), the crate gamedig, and Hailer. `.ci/run` installs them; those that are missing are
//! skipped, unless `HAILER_NEEDS_NPM`, `HAILER_NEEDS_PYPI` and `HAILER_NEEDS_QSTAT` are set. To run:
//! `cargo test -p hailer --test read_by_clients`.
#![cfg(unix)]

use serde_json::{Value, json};
use std::collections::BTreeSet;

mod clients;
mod differences;
mod gamedig;
mod servers;

use differences::{DIFFERENCES, Found};
use servers::{Servers, fields, status};

#[test]
fn clients_read_what_is_configured() {
    let servers = Servers::start();
    let readings = clients::read_all(&servers);
    let hailer = |server: &str, status: &str, field: &str| {
        let mut own = readings.iter().filter(|reading| reading.client == "hailer");
        let reading = own.find(|reading| reading.server == server && reading.status == status);
        let value = reading.and_then(|reading| reading.fields.get(field));
        value.cloned().unwrap_or_default()
    };
    let mut used = vec![BTreeSet::new(); DIFFERENCES.len()];
    let mut unknown = Vec::new();
    for reading in &readings {
        let kind = reading.status;
        let server = servers.servers.iter();
        let server = server.clone().find(|server| server.name == reading.server);
        let configured = fields(&status(kind, server.expect("a server")));
        for (field, value) in &reading.fields {
            let expected = configured.get(field).unwrap_or(&Value::Null);
            let own = hailer(reading.server, kind, field);
            let is_limit = match reading.client {
                // Hailer reads an empty text as none. A field that the usual status lacks too is not in
                // the protocol.
                "hailer" if value.is_null() => {
                    let usual = hailer(reading.server, "usual", field);
                    usual == Value::Null || *expected == json!("") || *expected == json!([])
                }
                "hailer" => false,
                _ => value.is_null() || *value == own || own.is_null() && is_empty(value),
            };
            if is_limit || value == expected || expected.is_null() && is_empty(value) {
                continue;
            }
            let found = Found { reading, field };
            let known = DIFFERENCES.iter().zip(&mut used);
            let mut known =
                known.filter_map(|(difference, used)| Some((difference.words(&found)?, used)));
            match known.next() {
                Some((words, used)) => used.extend(words),
                None => unknown.push(format!(
                    "{} {} {kind} {field}: {} instead of {}",
                    reading.client,
                    reading.server,
                    short(value),
                    short(expected)
                )),
            }
        }
    }
    let clients: BTreeSet<_> = readings.iter().map(|reading| reading.client).collect();
    for (difference, used) in DIFFERENCES.iter().zip(&used) {
        let mut unused = difference.all_words();
        // Clients that are not installed.
        if difference.clients().any(|client| !clients.contains(client)) {
            continue;
        }
        unused.retain(|word| !used.contains(word));
        if !unused.is_empty() {
            let reason = difference.reason;
            unknown.push(format!(
                "{difference:?}: not found with {unused:?}; listed since {reason:?}"
            ));
        }
    }
    unknown.sort();
    assert!(
        unknown.is_empty(),
        "{}\n{}",
        unknown.join("\n"),
        unknown.len()
    );
}

/// Returns whether a client that does not know a value returns this.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        other => other.as_i64() == Some(0),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text
        .chars()
        .take(if value.is_array() { 60 } else { 400 })
        .collect();
    match value {
        Value::Array(list) => format!("{} names: {short}", list.len()),
        _ => short,
    }
}
