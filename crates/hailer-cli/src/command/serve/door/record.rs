//! The state file of a door: the status of the last running game, and the counts of the door.
//!
//! In: the state of a door, or the file. Out: the file, or its content. A door works without the
//! file.
//!
//! May import: `crate::config`, `crate::files`, `hailer`.

use crate::config::door::table::StateFile;
use crate::files::{append_suffix, folder_of};
use hailer::Status;
use hailer::door::machine::DoorRecord;
use hailer::respond::source::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum length of the name of a door in the name of its file.
const MAX_NAME_CHARS: usize = 60;

/// Content of the state file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) record: DoorRecord,
    /// The last status of the running game, without players.
    pub(super) status: Option<Status>,
}

#[derive(Serialize, Deserialize)]
struct File<S> {
    starts: u64,
    failed_starts: u64,
    crashes: u64,
    idle_stops: u64,
    held_joins: u64,
    asleep_s: f64,
    last_start_s: Option<f64>,
    status: Option<S>,
}

/// Returns the path of the file, if there is a place for it.
pub(super) fn path(file: &StateFile, name: &str) -> Option<PathBuf> {
    match file {
        StateFile::Off => None,
        StateFile::At(path) => Some(path.clone()),
        StateFile::Default => {
            let folder = |variable: &str, rest: &str| {
                let folder = PathBuf::from(env::var_os(variable)?);
                folder.is_absolute().then(|| folder.join(rest))
            };
            // systemd, and then the folders of users.
            let folder = folder("STATE_DIRECTORY", "")
                .or_else(|| folder("XDG_STATE_HOME", "hailer"))
                .or_else(|| folder("HOME", ".local/state/hailer"))?;
            Some(folder.join(format!("door-{}.json", file_name(name))))
        }
    }
}

/// Returns a name of a door as a part of a file's name.
fn file_name(name: &str) -> String {
    let part = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '-' || c == '.' => c,
        _ => '_',
    };
    name.chars().map(part).take(MAX_NAME_CHARS).collect()
}

/// Reads a file. A missing one is empty.
///
/// # Errors
/// One line about a file that cannot be read.
pub(super) fn read(path: &Path) -> Result<Kept, String> {
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let bytes = match std::fs::read(path) {
        Ok(bytes) if bytes.len() <= json::MAX_BYTES => bytes,
        Ok(_) => return Err(wrong("too long".into())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let file: File<Value> =
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let status = match &file.status {
        None => None,
        Some(status) => {
            let status = json::status(status.to_string().as_bytes());
            Some(status.map_err(|error| wrong(error.to_string()))?)
        }
    };
    let record = DoorRecord {
        starts: file.starts,
        failed_starts: file.failed_starts,
        crashes: file.crashes,
        idle_stops: file.idle_stops,
        held_joins: file.held_joins,
        asleep: time(file.asleep_s),
        last_start: file.last_start_s.map(time),
    };
    Ok(Kept { record, status })
}

/// Writes a file. Its folder is created.
///
/// # Errors
/// One line about the file that cannot be written. The old file stays.
pub(super) fn write(path: &Path, kept: &Kept) -> Result<(), String> {
    let record = &kept.record;
    let file = File {
        starts: record.starts,
        failed_starts: record.failed_starts,
        crashes: record.crashes,
        idle_stops: record.idle_stops,
        held_joins: record.held_joins,
        asleep_s: record.asleep.as_secs_f64(),
        last_start_s: record.last_start.map(|time| time.as_secs_f64()),
        status: kept.status.as_ref(),
    };
    let write = || {
        let bytes = serde_json::to_vec(&file)?;
        std::fs::create_dir_all(folder_of(path))?;
        let new = append_suffix(path, "new");
        let mut out = std::fs::File::create(&new)?;
        out.write_all(&bytes)?;
        std::fs::rename(&new, path)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::proto::Text;
    use hailer::proto::model::Extra;

    #[test]
    fn written_records_can_be_read() {
        let folder = env::temp_dir().join(format!("hailer-door-record-{}", std::process::id()));
        let path = folder.join("a/door.json");
        assert_eq!(read(&path), Ok(Kept::default()));
        let mut status = Status {
            motd: Some(Text::legacy("\u{A7}aHello")),
            version: Some("1.21.8".into()),
            extra: vec![Extra::new("protocol", 772)],
            ..Status::default()
        };
        status.players.online = Some(0);
        status.players.max = Some(20);
        status.players.set_list(Vec::new());
        let record = DoorRecord {
            starts: 3,
            asleep: Duration::from_millis(90_500),
            last_start: Some(Duration::from_secs(42)),
            ..DoorRecord::default()
        };
        let kept = Kept {
            record,
            status: Some(status),
        };
        write(&path, &kept).unwrap();
        assert_eq!(read(&path), Ok(kept.clone()));
        std::fs::write(&path, "{}").unwrap();
        assert!(read(&path).unwrap_err().contains("door.json"));
        // A folder in its place.
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(write(&path, &kept).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_of_doors_are_no_paths() {
        assert_eq!(file_name("../a b:25565"), ".._a_b_25565");
    }
}
