//! The key `who` of `[server.door]`: clients that may wake the game.
//!
//! ```toml
//! [server.door.who]
//! allow = ["Alice", "069a79f4-44e9-4726-a5be-fca90e38aaf5", "192.0.2.0/24"]
//! allow-files = ["/srv/mc/whitelist.json", "/srv/mc/ops.json"]
//! deny = ["198.51.100.0/24"]
//! deny-files = ["/srv/mc/banned-players.json", "/srv/mc/banned-ips.json"]
//! text = "&cYou are not on the list."
//! ```

use crate::config::checker::Checker;
use crate::config::reader::{FromText, Parsed};
use crate::files::folder_of;
use hailer::door::access::{AccessEntry, AccessSide};
use hailer::proto::model::colored;
use serde::Deserialize;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// Maximum number of files of a list.
const MAX_FILES: usize = 16;
/// Text for refused players.
const REFUSAL: &str = "&cThis server is asleep, and you may not wake it.";

/// Clients that may wake a game.
#[derive(Clone, Debug)]
pub(crate) struct AccessConfig {
    pub(crate) allow: AccessSide,
    pub(crate) deny: AccessSide,
    /// Text for refused players.
    pub(crate) text: String,
}

impl FromText for AccessEntry {
    type Value = Self;
    const EXPECTED: &'static str =
        "a player by name or UUID, or a network such as \"192.0.2.0/24\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
    }
}

/// The table `who`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AccessInput {
    allow: Vec<Parsed<AccessEntry>>,
    deny: Vec<Parsed<AccessEntry>>,
    allow_files: Vec<Spanned<PathBuf>>,
    deny_files: Vec<Spanned<PathBuf>>,
    text: Option<String>,
}

impl AccessInput {
    /// Returns the configuration, or `None` after a mistake. Files may be created later.
    pub(crate) fn config(
        &self,
        span: &Range<usize>,
        checker: &mut Checker<'_>,
    ) -> Option<AccessConfig> {
        let mistakes = checker.problems.len();
        let table = "server.door.who";
        let lists = [&self.allow, &self.deny];
        if lists.iter().all(|list| list.is_empty())
            && self.allow_files.is_empty()
            && self.deny_files.is_empty()
        {
            let text = format!(
                "{table}: no entries; write allow = [\"PLAYER\", …], allow-files, deny or deny-files, or remove it"
            );
            return checker.wrong(span, text);
        }
        let entries = |list: &[Parsed<AccessEntry>]| -> Vec<AccessEntry> {
            list.iter().map(|entry| entry.0.clone()).collect()
        };
        let allow = AccessSide {
            entries: entries(&self.allow),
            files: files(&format!("{table}.allow-files"), &self.allow_files, checker),
        };
        let deny = AccessSide {
            entries: entries(&self.deny),
            files: files(&format!("{table}.deny-files"), &self.deny_files, checker),
        };
        let text = colored(self.text.as_deref().unwrap_or(REFUSAL));
        (checker.problems.len() == mistakes).then_some(AccessConfig { allow, deny, text })
    }
}

fn files(key: &str, files: &[Spanned<PathBuf>], checker: &mut Checker<'_>) -> Vec<PathBuf> {
    if let Some(file) = files.get(MAX_FILES) {
        let text = format!("{key}: at most {MAX_FILES} files");
        checker.wrong::<()>(&file.span(), text);
    }
    let mut paths = Vec::new();
    for file in files {
        let path = checker.folder.join(file.get_ref());
        // The file may be created later. A missing folder is probably a typing error.
        let problem = if file.get_ref().as_os_str().is_empty() || path.is_dir() {
            "is a folder"
        } else if !folder_of(&path).is_dir() {
            "is in a folder that does not exist"
        } else {
            paths.push(path);
            continue;
        };
        let text = format!(
            "{key}: {} {problem}; expected a file of lines, or of JSON such as whitelist.json",
            path.display()
        );
        checker.wrong::<()>(&file.span(), text);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader;

    #[derive(Debug, Deserialize)]
    struct File {
        who: Spanned<AccessInput>,
    }

    fn parse(text: &str) -> Result<AccessConfig, String> {
        let document = reader::read::<File>(text);
        let folder = std::env::temp_dir();
        let mut checker = Checker::new(&folder, &document.lines, document.problems);
        let file = document.value;
        let config =
            file.and_then(|file| file.who.get_ref().config(&file.who.span(), &mut checker));
        let problems: Vec<_> = checker
            .problems
            .iter()
            .map(|problem| &*problem.text)
            .collect();
        let problems = problems.join("\n");
        config.filter(|_| problems.is_empty()).ok_or(problems)
    }

    #[test]
    fn players_networks_and_files_are_read() {
        let config = parse(
            "[who]\nallow = [\"Alice\", \"192.0.2.0/24\"]\nallow-files = [\"whitelist.json\"]\ntext = \"&cNo\"",
        )
        .unwrap();
        let entries = ["Alice", "192.0.2.0/24"].map(|entry| entry.parse().unwrap());
        assert_eq!(config.allow.entries, entries);
        assert_eq!(
            config.allow.files,
            [std::env::temp_dir().join("whitelist.json")]
        );
        assert_eq!(config.text, "\u{A7}cNo");
        assert!(config.deny.entries.is_empty() && config.deny.files.is_empty());
        let config = parse("who = { deny = [\"Eve\"] }").unwrap();
        assert!(config.text.contains("may not wake it"));
    }

    #[test]
    fn mistakes_are_explained() {
        let many = format!("who = {{ deny-files = [{}] }}", "\"a\", ".repeat(17));
        for (text, problem) in [
            ("who = {}", "server.door.who: no entries"),
            (
                "who = { allow = [\"10.0.0.1/8\"] }",
                "did you mean 10.0.0.0/8?",
            ),
            ("who = { allow = [\"\"] }", "the entry is empty"),
            ("who = { allow = [7] }", "expected a player by name or UUID"),
            ("who = { allow-files = [\"\"] }", "is a folder"),
            (
                "who = { allow-files = [\"/no/such/ops.json\"] }",
                "does not exist",
            ),
            (&many, "at most 16 files"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
