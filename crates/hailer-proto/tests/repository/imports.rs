//! The first lines of modules list their permitted imports. This test compares the lists with the
//! imports.
//!
//! A module states it for itself and all modules below it. Its line names modules of its crate,
//! each as far as it differs from the path of the module, and other crates of the workspace. The
//! root of a crate names only the latter, and `crate` stands for the items of a root.
//! Tests do not count. `BLESS=1` rewrites the lines: read the diff, because a new import is a
//! decision.

use hailer_testkit::golden;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const START: &str = "//! May import:";
/// Longest line of a comment, in characters.
const WIDTH: usize = 100;
/// Code that reads or writes files, sockets, databases, terminals or other processes.
const IO: [&str; 16] = [
    "tokio::net",
    "tokio::fs",
    "tokio::process",
    "std::fs",
    "std::process::Command",
    "std::os::unix::net",
    "std::io::stdin",
    "std::io::stdout",
    "io::stdin()",
    "io::stdout()",
    "UdpSocket",
    "TcpStream",
    "TcpListener",
    "sqlx::",
    "redis::",
    "hyper::",
];

/// A file of a crate.
struct Module {
    file: PathBuf,
    /// Path of the module without the crate; empty for its root.
    path: Vec<String>,
    text: String,
    /// Code without tests and comments.
    code: String,
}

/// The files of a crate.
struct Crate {
    modules: Vec<Module>,
    /// Paths of all modules that are files.
    paths: BTreeSet<Vec<String>>,
    /// Macros with a path at the root, and the modules that define them.
    macros: BTreeMap<String, Vec<String>>,
}

#[test]
fn modules_import_what_their_first_lines_allow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("bench/src")];
    for entry in std::fs::read_dir(root.join("crates")).expect("the folder of crates") {
        folders.push(entry.expect("a crate").path().join("src"));
    }
    folders.sort();
    let mut complaints = Vec::new();
    for folder in folders {
        let all = Crate::read(&folder);
        for module in &all.modules {
            let name = module.file.file_name().unwrap_or_default();
            let is_root = module.path.is_empty();
            let is_needed = is_root || name == "mod.rs" || module.has_io();
            let stated = stated(&module.text);
            if !is_needed && stated.is_none() {
                continue;
            }
            let place = module.file.strip_prefix(&root).unwrap_or(&module.file);
            let place = place.display();
            if is_needed && !module.says_what_passes() {
                complaints.push(format!(
                    "{place}: say in the first lines what comes in and goes out: `//! In: … Out: …`, \
                     or a diagram with `─►`"
                ));
            }
            let used = all.imports(module);
            if stated.as_ref() == Some(&used) {
                continue;
            }
            let line = line(&used);
            if golden::blessing() {
                let text = with_line(&module.text, &line);
                std::fs::write(&module.file, text).expect("a file of the repository");
                continue;
            }
            complaints.push(match stated {
                None => format!("{place}: add to the first lines:\n{line}"),
                Some(stated) => {
                    let new: Vec<&String> = used.difference(&stated).collect();
                    let unused: Vec<&String> = stated.difference(&used).collect();
                    format!(
                        "{place}: imports {new:?} although it may not, and no longer {unused:?}"
                    )
                }
            });
        }
    }
    golden::settle(&complaints);
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut files = Vec::new();
        collect(folder, &mut files);
        files.sort();
        let mut modules: Vec<Module> = Vec::new();
        let mut of_tests = BTreeSet::new();
        for file in files {
            let text = std::fs::read_to_string(&file).expect("a file of the repository");
            let path = module_path(file.strip_prefix(folder).unwrap_or(&file));
            let (code, tests) = without_tests(&text);
            for name in tests {
                of_tests.insert([path.clone(), vec![name]].concat());
            }
            modules.push(Module {
                file,
                path,
                text,
                code,
            });
        }
        let is_test =
            |path: &Vec<String>| (1..=path.len()).any(|end| of_tests.contains(&path[..end]));
        modules.retain(|module| !is_test(&module.path));
        let paths = modules.iter().map(|module| module.path.clone());
        let mut macros = BTreeMap::new();
        for module in &modules {
            for rest in module.code.split("#[macro_export]\nmacro_rules! ").skip(1) {
                let name = rest.split_whitespace().next().unwrap_or_default();
                macros.insert(name.to_owned(), module.path.clone());
            }
        }
        Self {
            paths: paths.collect(),
            macros,
            modules,
        }
    }

    /// Returns what a module and those below it import from elsewhere.
    fn imports(&self, module: &Module) -> BTreeSet<String> {
        let below = self.modules.iter();
        // A binary next to a library is a crate with one file, which imports the library.
        let below = below.filter(|other| {
            other.path.starts_with(&module.path)
                && (!module.path.is_empty() || other.is_binary() == module.is_binary())
        });
        let mut found = BTreeSet::new();
        for other in below {
            for path in paths(&other.code) {
                let is_own_crate = matches!(path[0].as_str(), "crate" | "super");
                if !is_own_crate {
                    found.insert(path[0].clone());
                } else if !module.path.is_empty() {
                    found.extend(self.outside(module, &other.path, &path));
                }
            }
        }
        found
    }

    /// Returns the part of a path that a module states, if it leads out of it. `from` is the module
    /// that has the path.
    fn outside(&self, module: &Module, from: &[String], path: &[String]) -> Option<String> {
        let ups = path.iter().take_while(|word| *word == "super").count();
        let (start, rest) = if ups == 0 {
            (&[][..], &path[1..])
        } else {
            (&from[..from.len().checked_sub(ups)?], &path[ups..])
        };
        // The rest of the path names an item.
        let mut full = start.to_vec();
        for word in rest {
            full.push(word.clone());
            if !self.paths.contains(&full) {
                full.pop();
                break;
            }
        }
        if let ([], [name, ..]) = (&full[..], rest)
            && let Some(path) = self.macros.get(name)
        {
            full.clone_from(path);
        }
        if full.starts_with(&module.path) {
            return None;
        }
        let pairs = full.iter().zip(&module.path);
        let common = pairs.take_while(|(one, other)| one == other).count();
        full.truncate(common + 1);
        full.insert(0, "crate".into());
        Some(full.join("::"))
    }
}

impl Module {
    fn docs(&self) -> String {
        let lines = self.text.lines();
        let docs = lines.take_while(|line| line.starts_with("//!"));
        docs.collect::<Vec<_>>().join("\n")
    }

    /// Whether it is the binary of a crate that has a library too.
    fn is_binary(&self) -> bool {
        let is_main = self.file.ends_with("main.rs") && self.file.with_file_name("lib.rs").exists();
        is_main || self.path.first().is_some_and(|folder| folder == "bin")
    }

    /// Whether the first lines state input and output, in a sentence or a diagram.
    fn says_what_passes(&self) -> bool {
        let docs = self.docs();
        let has_sentence = docs.contains("//! In: ") && docs.contains("Out: ");
        has_sentence || docs.contains("─►") || docs.contains("◄─")
    }

    fn has_io(&self) -> bool {
        IO.iter().any(|word| self.code.contains(word))
    }
}

pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// Returns the path of the module in a file, such as `sweep/engine.rs`.
fn module_path(file: &Path) -> Vec<String> {
    let file = file.with_extension("");
    let words = file.iter().map(|word| word.to_string_lossy().into_owned());
    let mut path: Vec<String> = words.collect();
    if matches!(
        path.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        path.pop();
    }
    path
}

/// Returns code without comments and without items of tests, and the names of modules of tests that
/// are files.
pub(crate) fn without_tests(text: &str) -> (String, Vec<String>) {
    let mut code = String::new();
    let mut tests = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") {
            continue;
        }
        if !trimmed.starts_with("#[cfg(test)]") && !trimmed.starts_with("#[cfg(all(test") {
            code.push_str(line);
            code.push('\n');
            continue;
        }
        let indent = &line[..line.len() - trimmed.len()];
        // Skips one item: up to its semicolon, or to the bracket that ends it.
        let mut is_first = true;
        for line in lines.by_ref() {
            let item = line.trim_start();
            if is_first && (item.starts_with("#[") || item.starts_with("//")) {
                continue;
            }
            if let Some(name) = item.strip_prefix("mod ").or(item.strip_prefix("pub mod ")) {
                tests.extend(name.strip_suffix(';').map(String::from));
            }
            let is_end = line.starts_with(indent)
                && (line[indent.len()..].starts_with('}') || is_first && item.ends_with("{}"));
            if is_end || item.ends_with(';') && (is_first || line == format!("{indent}}};")) {
                break;
            }
            is_first = false;
        }
    }
    (code, tests)
}

/// Returns all paths that start with `crate`, `super` or another crate of the workspace. The paths
/// in the brackets of a `use` are complete.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = code;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_start = matches!(word, "crate" | "super" | "hailer") || word.starts_with("hailer_");
        if is_start && before != ':' && rest[end..].starts_with("::") {
            let used = tree(rest, &[], &mut found);
            before = ' ';
            rest = &rest[used..];
        } else if end > 0 {
            before = ' ';
            rest = &rest[end..];
        } else {
            before = c;
            rest = &rest[c.len_utf8()..];
        }
    }
    found
}

/// Reads a path, with brackets as in `a::{b, c::d}`, and returns its length in bytes.
fn tree(text: &str, start: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = start.to_vec();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let end = end.unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].into());
            at += end;
            if text[at..].starts_with("::") {
                at += 2;
                continue;
            }
        } else if rest.starts_with('{') {
            at += 1;
            loop {
                let skipped = text[at..].find(|c: char| !c.is_whitespace() && c != ',');
                at += skipped.unwrap_or(text.len() - at);
                if at >= text.len() || text[at..].starts_with('}') {
                    return at + 1;
                }
                let length = tree(&text[at..], &path, found);
                let rest = &text[at + length..];
                // Renames, such as `a as b`.
                let end = rest.find([',', '}']).unwrap_or(rest.len());
                at += length + end;
                if length + end == 0 {
                    return at;
                }
            }
        }
        found.push(path);
        return at;
    }
}

/// Returns what a module states.
fn stated(text: &str) -> Option<BTreeSet<String>> {
    let (start, end) = place(text)?;
    let names = text[start..end].split('`').skip(1).step_by(2);
    Some(names.map(String::from).collect())
}

/// Returns the place of the statement in a file, without the last line break.
fn place(text: &str) -> Option<(usize, usize)> {
    let start = text.find(START)?;
    let end = text[start..].find(".\n")?;
    Some((start, start + end + 1))
}

/// Returns the statement, in lines of at most [`WIDTH`] characters.
fn line(names: &BTreeSet<String>) -> String {
    let mut lines = vec![START.to_owned()];
    let count = names.len();
    let quoted = names.iter().zip(1..).map(|(name, number)| {
        let end = if number == count { '.' } else { ',' };
        format!("`{name}`{end}")
    });
    let words: Vec<String> = if names.is_empty() {
        ["nothing", "of", "this", "workspace."]
            .map(String::from)
            .into()
    } else {
        quoted.collect()
    };
    for word in words {
        let last = lines.last_mut().expect("a line");
        if last.len() + 1 + word.len() > WIDTH {
            lines.push(format!("//! {word}"));
        } else {
            last.push(' ');
            last.push_str(&word);
        }
    }
    lines.join("\n")
}

/// Returns a file with this statement instead of the present one, or at the end of its first lines.
fn with_line(text: &str, line: &str) -> String {
    if let Some((start, end)) = place(text) {
        return [&text[..start], line, &text[end..]].concat();
    }
    let docs: usize = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with("//!"))
        .map(str::len)
        .sum();
    [&text[..docs], "//!\n", line, "\n", &text[docs..]].concat()
}

#[test]
fn imports_are_found() {
    let code = "
use crate::wire::{Error, notes::Notes};
use super::super::other::Thing;
use hailer_proto::{Status, games::{self, Game}};
#[cfg(test)]
use crate::only_in_tests::Thing;
// crate::comment::Thing
fn f() -> crate::model::Status {
    $crate::macros::name!()
}
#[cfg(test)]
mod tests {
    use crate::testing::Thing;
}
#[cfg(test)]
mod more_tests;
use std::collections::BTreeMap as crate_map;
";
    let (code, tests) = without_tests(code);
    assert_eq!(tests, ["more_tests"]);
    let found = paths(&code).into_iter().map(|path| path.join("::"));
    let found: Vec<String> = found.collect();
    assert_eq!(
        found,
        [
            "crate::wire::Error",
            "crate::wire::notes::Notes",
            "super::super::other::Thing",
            "hailer_proto::Status",
            "hailer_proto::games::self",
            "hailer_proto::games::Game",
            "crate::model::Status",
            "crate::macros::name",
        ]
    );
}

#[test]
fn statements_are_read_and_replaced() {
    let text = "//! A module.\n//!\n//! May import: `crate::a`,\n//! `hailer_proto`.\n\nuse x;\n";
    let names = ["crate::a", "hailer_proto"].map(String::from);
    assert_eq!(stated(text), Some(BTreeSet::from(names)));
    let other = line(&BTreeSet::from(["crate::b".to_owned()]));
    let expected = "//! A module.\n//!\n//! May import: `crate::b`.\n\nuse x;\n";
    assert_eq!(with_line(text, &other), expected);
    let without = "//! A module.\n\nuse x;\n";
    assert_eq!(with_line(without, &other), expected);
    let long: BTreeSet<String> = (10..40).map(|number| format!("crate::m{number}")).collect();
    let lines = line(&long);
    assert!(lines.lines().all(|line| line.len() <= WIDTH));
    assert_eq!(stated(&format!("{lines}\n")), Some(long));
    assert_eq!(
        stated(&format!("{}\n", line(&BTreeSet::new()))),
        Some(BTreeSet::new())
    );
}

/// Modules that import each other, with the reason.
const MUTUAL: [(&str, &str, &str); 3] = [
    (
        "crate::args",
        "crate::print",
        "the kind of icons is an argument, and the views of `join` have options of that command",
    ),
    (
        "crate::error",
        "crate::support",
        "the error of a query has that of its exchange, and reports have errors",
    ),
    (
        "crate::exit",
        "crate::print",
        "messages of a failed command are printed, and views shorten problems in the same way",
    ),
];

/// A folder, and a folder or file next to it, import each other in one direction only, unless a reason
/// is stated.
#[test]
fn folders_and_their_neighbors_import_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut complaints = Vec::new();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root).expect("the folder of crates") {
        let folder = entry.expect("a crate").path().join("src");
        let all = Crate::read(&folder);
        let modules = all.modules.iter();
        let modules = modules.filter(|module| !module.path.is_empty());
        let imports: BTreeMap<String, (bool, BTreeSet<String>)> = modules
            .map(|module| {
                let name = format!("crate::{}", module.path.join("::"));
                (name, (module.file.ends_with("mod.rs"), all.imports(module)))
            })
            .collect();
        for (one, (is_folder, used)) in &imports {
            for other in used {
                let back = imports.get(other);
                let is_mutual = back.is_some_and(|(is_other_folder, used)| {
                    (*is_folder || *is_other_folder) && used.contains(one)
                });
                if !is_mutual || one > other {
                    continue;
                }
                if MUTUAL.iter().any(|(a, b, _)| a == one && b == other) {
                    found.insert((one.clone(), other.clone()));
                } else {
                    complaints.push(format!("{}: {one} and {other}", folder.display()));
                }
            }
        }
    }
    for (one, other, _) in MUTUAL {
        if !found.contains(&(one.to_owned(), other.to_owned())) {
            complaints.push(format!(
                "MUTUAL: {one} and {other} do not import each other"
            ));
        }
    }
    golden::settle(&complaints);
}
