//! Rules for the archives that are published: each is complete without the repository.

use crate::imports::{collect, without_tests};
use hailer_testkit::folder::Folder;
use hailer_testkit::golden::{blessing, check, root, settle};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// Files of the repository that a crate needs a copy of.
const COPIES: [(&str, &str); 1] = [(
    "schema/answer-v2.json",
    "crates/hailer-monitor/src/web/api/answer-v2.json",
)];
/// Files at the root that each archive has a copy of.
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// Keys of a manifest that all crates take from the workspace.
const SHARED: [&str; 6] = [
    "version",
    "edition",
    "license",
    "homepage",
    "documentation",
    "repository",
];

/// Returns the folders of the crates that are published.
fn published() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("crates")).expect("the folder of crates");
    let folders = entries.map(|entry| entry.expect("a crate").path());
    let mut folders: Vec<PathBuf> = folders
        .filter(|folder| !manifest(folder).contains("\npublish = false\n"))
        .collect();
    folders.sort();
    folders
}

fn manifest(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest")
}

/// An include, or a module with a path, names a file of its own crate. Tests are not compiled from
/// archives, so they may use files of the repository.
#[test]
fn code_includes_files_of_its_own_crate_only() {
    let mut complaints = Vec::new();
    for folder in published() {
        let mut files = Vec::new();
        collect(&folder.join("src"), &mut files);
        let mut of_tests = Vec::new();
        for file in &files {
            let text = std::fs::read_to_string(file).expect("a source");
            let module = match file.file_stem().and_then(|stem| stem.to_str()) {
                Some("mod" | "lib" | "main") => file.with_file_name(""),
                _ => file.with_extension(""),
            };
            let (_, names) = without_tests(&text);
            of_tests.extend(names.into_iter().map(|name| module.join(name)));
        }
        let is_test = |file: &PathBuf| {
            let module = file.with_extension("");
            of_tests.iter().any(|test| module.starts_with(test))
        };
        files.retain(|file| !is_test(file));
        // Examples are in the archive too.
        for more in ["examples", "build.rs"].map(|name| folder.join(name)) {
            if more.is_dir() {
                collect(&more, &mut files);
            } else if more.exists() {
                files.push(more);
            }
        }
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a source");
            let (code, _) = without_tests(&text);
            let inside = file.strip_prefix(&folder).expect("a file of the crate");
            for included in leaving(&code, inside) {
                let file = file.strip_prefix(root()).unwrap_or(&file).display();
                complaints.push(format!(
                    "{file} includes {included}, which the archive of its crate lacks: add a copy to `COPIES`"
                ));
            }
        }
    }
    settle(&complaints);
}

/// Returns the included files that are outside of the crate. `file` is the path of the code in its
/// crate.
fn leaving(code: &str, file: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (start, is_relative) in [
        ("include!(", true),
        ("include_str!(", true),
        ("include_bytes!(", true),
        ("#[path = ", true),
        ("env!(\"CARGO_MANIFEST_DIR\")", false),
    ] {
        for rest in code.split(start).skip(1) {
            let rest = rest.trim_start();
            let rest = rest.strip_prefix("concat!(").unwrap_or(rest);
            let rest = rest.trim_start_matches([',', ' ', '\n']);
            // Without a text in quotes, the path comes from elsewhere.
            let Some(path) = rest
                .strip_prefix('"')
                .and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            let folder = file.parent().filter(|_| is_relative);
            let full = folder
                .unwrap_or(Path::new(""))
                .join(path.trim_start_matches('/'));
            if !is_inside(&full) {
                found.push(path.to_owned());
            }
        }
    }
    found
}

/// Returns whether a relative path never leaves its start.
fn is_inside(path: &Path) -> bool {
    let mut depth = 0_i32;
    path.components().all(|component| {
        depth += match component {
            Component::Normal(_) => 1,
            Component::CurDir => 0,
            _ => -1,
        };
        depth >= 0
    })
}

#[test]
fn an_include_that_leaves_its_crate_is_found() {
    let code = concat!(
        "const A: &str = include_str!(\"../inside.txt\");\n",
        "const B: &[u8] = include_bytes!(concat!(\"../../b/\", $name));\n",
        "const C: &str = include_str!(\n    \"../../../c.txt\"\n);\n",
        "#[path = \"../../../d.rs\"]\nmod d;\n",
        "const E: &str = concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../e\");\n",
        "const F: &str = concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/f\");\n",
        "include!(concat!(env!(\"OUT_DIR\"), \"/g.rs\"));\n",
    );
    let found = leaving(code, Path::new("src/web/files.rs"));
    assert_eq!(found, ["../../../c.txt", "../../../d.rs", "/../e"]);
    let found = leaving(code, Path::new("src/lib.rs"));
    assert_eq!(found.len(), 4, "{found:?}");
}

/// Copies equal their originals, and each archive has both licenses, also those of other languages. `BLESS=1` copies them.
#[test]
fn copies_equal_their_originals() {
    let mut copies: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (original, copy) in COPIES {
        copies.push((root().join(original), root().join(copy)));
    }
    let bindings = std::fs::read_dir(root().join("bindings"));
    let bindings = bindings
        .into_iter()
        .flatten()
        .map(|entry| entry.expect("a folder").path());
    for folder in published()
        .into_iter()
        .chain(bindings.filter(|path| path.is_dir()))
    {
        copies.extend(LICENSES.map(|name| (root().join(name), folder.join(name))));
    }
    let mut complaints = Vec::new();
    for (original, copy) in copies {
        let text = std::fs::read(&original).expect("an original");
        if std::fs::read(&copy).is_ok_and(|found| found == text) {
            continue;
        }
        if blessing() {
            std::fs::write(&copy, text).expect("the copy can be written");
            continue;
        }
        complaints.push(format!(
            "{} differs from {}: run this test with BLESS=1",
            copy.display(),
            original.display()
        ));
    }
    settle(&complaints);
}

/// Addresses, versions and licenses of all published crates come from one place.
#[test]
fn published_crates_share_the_facts_of_the_workspace() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let mut complaints = Vec::new();
    for key in SHARED {
        if !workspace.contains(&format!("\n{key} = ")) {
            complaints.push(format!("Cargo.toml lacks {key} in [workspace.package]"));
        }
        for folder in published() {
            if !manifest(&folder).contains(&format!("\n{key}.workspace = true\n")) {
                complaints.push(format!("{} lacks {key}.workspace", folder.display()));
            }
        }
    }
    // Archives contain only files inside the folder.
    for folder in published() {
        for key in ["include", "exclude"] {
            if manifest(&folder).contains(&format!("\n{key} = ")) {
                complaints.push(format!("{}: {key} may remove a license", folder.display()));
            }
        }
    }
    settle(&complaints);
}

/// `hailer` has few dependencies by default. The golden file lists them, for one system.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_library_has_few_dependencies() {
    /// Maximum number of crates, with the library itself.
    const MAX_CRATES: usize = 100;
    let arguments = "tree -p hailer -e normal --prefix none --no-dedupe --locked";
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments.split(' ')).current_dir(root());
    let output = command.output().expect("cargo");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    let tree = String::from_utf8(output.stdout).expect("text");
    // Names and first versions: `getrandom v0.2.17 (…)`. The rest changes with each update.
    let crates = tree.lines().map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let version = words.next().unwrap_or_default();
        let parts: Vec<&str> = version.split('.').collect();
        let kept = if parts.first() == Some(&"v0") { 2 } else { 1 };
        format!("{name} {}", parts[..kept.min(parts.len())].join("."))
    });
    let crates: std::collections::BTreeSet<String> = crates.collect();
    let count = crates.len();
    assert!(count <= MAX_CRATES, "{count} crates");
    let list: Vec<String> = crates.into_iter().collect();
    let text = format!(
        "# {count} crates: cargo {arguments} | sort -u\n\n{}\n",
        list.join("\n")
    );
    settle(&Vec::from_iter(check("crates.txt", &text).err()));
}

/// `contrib/release` fails while an address is empty, and names it.
#[test]
fn a_release_needs_addresses() {
    let folder = Folder::new("release");
    let contrib = folder.path().join("contrib");
    std::fs::create_dir_all(&contrib).expect("a folder");
    let script = contrib.join("release");
    std::fs::copy(root().join("contrib/release"), &script).expect("the script");
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let run = |manifest: &str| {
        std::fs::write(folder.path().join("Cargo.toml"), manifest).expect("a manifest");
        let mut command = Command::new("bash");
        command.arg(&script).arg("addresses").stderr(Stdio::piped());
        command.output()
    };
    let with = |key: &str, manifest: &str, value: &str| {
        let lines = manifest.lines().map(|line| {
            if line.starts_with(&format!("{key} = ")) {
                format!("{key} = \"{value}\"")
            } else {
                line.into()
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let keys = ["homepage", "documentation", "repository"];
    let complete = keys.iter().fold(manifest, |manifest, key| {
        with(key, &manifest, "https://example.com/hailer")
    });
    let Ok(output) = run(&complete) else {
        eprintln!("skipped: bash is not installed");
        return;
    };
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    for key in keys {
        for value in ["", "example.com"] {
            let output = run(&with(key, &complete, value)).expect("bash");
            let problem = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{key}");
            assert!(problem.contains(key), "{key}: {problem}");
        }
    }
}
