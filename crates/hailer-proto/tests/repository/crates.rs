//! Rules for the published crates: README, features, Rust version.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the workspace that is published.
struct Published {
    name: String,
    folder: PathBuf,
    rust_version: Version,
    features: BTreeMap<String, Vec<String>>,
}

/// Major, minor and patch version of Rust.
type Version = (u64, u64, u64);

fn version(text: &str) -> Version {
    let mut numbers = text
        .split('.')
        .map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// Returns Cargo's metadata of the workspace and its dependencies.
fn metadata() -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or("cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--all-features"]);
    cargo
        .args(["--locked", "--offline", "--manifest-path"])
        .arg(manifest);
    let output = cargo.output().expect("cargo runs");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the published crates.
fn published(metadata: &Value) -> Vec<Published> {
    let own = list(&metadata["packages"]).iter();
    let own = own.filter(|package| package["source"].is_null() && package["publish"].is_null());
    let crates = own.map(|package| {
        let features = package["features"].as_object().expect("features");
        let features = features.iter().map(|(name, parts)| {
            let parts = list(parts).iter().map(|part| text(part).into());
            (name.clone(), parts.collect())
        });
        Published {
            name: text(&package["name"]).into(),
            folder: Path::new(text(&package["manifest_path"]))
                .parent()
                .expect("a folder")
                .into(),
            rust_version: version(text(&package["rust_version"])),
            features: features.collect(),
        }
    });
    let crates: Vec<Published> = crates.collect();
    assert!(crates.len() >= 6, "{} crates", crates.len());
    crates
}

impl Published {
    /// Returns the features that are on by default, also through others.
    fn defaults(&self) -> BTreeSet<&str> {
        let mut known = BTreeSet::new();
        let mut queue = vec!["default"];
        while let Some(name) = queue.pop() {
            for part in self.features.get(name).into_iter().flatten() {
                if self.features.contains_key(part) && known.insert(part.as_str()) {
                    queue.push(part);
                }
            }
        }
        known
    }
}

/// Returns the mistakes in the table of features of a README: a row for each feature, which states
/// whether it is on by default.
fn wrong_features(
    readme: &str,
    features: &BTreeSet<&str>,
    defaults: &BTreeSet<&str>,
) -> Vec<String> {
    let table = readme
        .lines()
        .skip_while(|line| !line.starts_with("| feature | default |"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.split('|').skip(1).map(str::trim).collect())
        .collect();
    let mut wrong = Vec::new();
    for feature in features {
        let quoted = format!("`{feature}`");
        let row = rows
            .iter()
            .find(|row| row.first() == Some(&quoted.as_str()));
        let is_default = if defaults.contains(feature) {
            "yes"
        } else {
            ""
        };
        match row {
            None => wrong.push(format!("{feature}: no row")),
            Some(row) if row.get(1) != Some(&is_default) => {
                wrong.push(format!("{feature}: default is {is_default:?}"));
            }
            Some(_) => {}
        }
    }
    for row in rows {
        let name = row.first().copied().unwrap_or_default().trim_matches('`');
        if !name.is_empty() && !features.contains(name) {
            wrong.push(format!("{name}: no such feature"));
        }
    }
    wrong
}

#[test]
fn each_readme_lists_the_features_and_the_rust_version() {
    for own in published(&metadata()) {
        let readme = std::fs::read_to_string(own.folder.join("README.md"));
        let readme = readme.unwrap_or_else(|error| panic!("{}: {error}", own.name));
        assert!(
            readme.starts_with(&format!("# {}\n", own.name)),
            "{}",
            own.name
        );
        let mut features: BTreeSet<&str> = own.features.keys().map(String::as_str).collect();
        // Optional dependencies are features too, unless a feature names them.
        features.remove("default");
        let wrong = wrong_features(&readme, &features, &own.defaults());
        assert!(wrong.is_empty(), "README of {}: {wrong:#?}", own.name);
        let (major, minor, _) = own.rust_version;
        let sentence = format!("Rust {major}.{minor}");
        assert!(
            readme.contains(&sentence),
            "README of {}: {sentence}",
            own.name
        );
    }
}

#[test]
fn wrong_rows_of_features_are_found() {
    let readme = "| feature | default | adds |\n| --- | --- | --- |\n| `a` | yes | A |\n| `b` | | B |\n| `d` | | D |\n\n| `c` | | |";
    let features = BTreeSet::from(["a", "b", "c"]);
    let wrong = wrong_features(readme, &features, &BTreeSet::from(["b"]));
    assert_eq!(
        wrong,
        [
            "a: default is \"\"",
            "b: default is \"yes\"",
            "c: no row",
            "d: no such feature"
        ]
    );
}

/// The stated Rust version is at least that of every dependency, except those of tests.
#[test]
fn rust_versions_cover_the_dependencies() {
    let metadata = metadata();
    let packages: BTreeMap<&str, &Value> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), node))
        .collect();
    let mut newer = Vec::new();
    for own in published(&metadata) {
        let root = packages
            .iter()
            .find(|(_, package)| package["source"].is_null() && text(&package["name"]) == own.name);
        let mut queue = vec![*root.expect("the crate").0];
        let mut known = BTreeSet::new();
        while let Some(id) = queue.pop() {
            if !known.insert(id) {
                continue;
            }
            let package = packages[id];
            let needed = package["rust_version"].as_str().map(version);
            if needed.is_some_and(|needed| needed > own.rust_version) {
                newer.push(format!("{}: {id} needs {needed:?}", own.name));
            }
            for dependency in list(&nodes[id]["deps"]) {
                let mut kinds = list(&dependency["dep_kinds"]).iter();
                if kinds.any(|kind| text(&kind["kind"]) != "dev") {
                    queue.push(text(&dependency["pkg"]));
                }
            }
        }
        assert!(known.len() > 1, "{} has dependencies", own.name);
    }
    assert!(newer.is_empty(), "{newer:#?}");
}
