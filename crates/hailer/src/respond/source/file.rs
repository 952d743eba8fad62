//! Reads a status from a JSON file that another program writes, in the format of [`json`].
//!
//! The system reports changes in the folder of the file, so that a rename over the file is noticed.
//! The file is also read every few seconds, since network file systems report no changes of other
//! machines. The status is as old as the file: writing the same content again confirms it.
//!
//! In: a path, events of the file system. Out: statuses and problems.
//!
//! May import: `crate::respond::source`, `crate::respond::source::json`.

use super::json::{self, MAX_BYTES};
use super::{ProblemLog, SourceEvent, TimedStatus, kept, now};
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Shortest time between checks of the file. The folder may change often.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time for a writer to finish before a problem is reported.
const SETTLE: Duration = Duration::from_millis(250);
/// Shortest time between log lines about a bad file, in the long run.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Status file that is read whenever it changes.
#[derive(Clone, Debug)]
pub struct File {
    /// Path of the file.
    pub path: PathBuf,
    /// Interval between checks, in addition to the events of the system.
    pub interval: Duration,
}

/// Metadata that identifies a version of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

/// Result of a check.
enum CheckResult {
    Status(FileVersion, TimedStatus),
    /// No usable status, and the version of the file if it exists.
    Problem(Option<FileVersion>, String),
}

impl File {
    /// Creates a source that checks the file every 2 s.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            interval: Duration::from_secs(2),
        }
    }

    /// Reads until the receiver is dropped. Invalid content is ignored. Problems are reported to
    /// `say` with file and line, as log lines at most once per 10 s on average.
    pub async fn run(
        self,
        statuses: watch::Sender<Option<TimedStatus>>,
        mut report: impl FnMut(SourceEvent) + Send,
    ) {
        let (wake, mut woken) = mpsc::channel(1);
        // Without a watcher, or if the folder is removed, the regular checks continue.
        let _watcher = watch(&self.path, wake);
        let mut problems = ProblemLog::new(LOG_INTERVAL, 5);
        let mut known: Option<Option<FileVersion>> = None;
        loop {
            let mut read = self.check(known).await;
            if let Some(CheckResult::Problem(..)) = read {
                sleep(SETTLE).await;
                read = self.check(known).await;
            }
            match read {
                Some(CheckResult::Status(version, timed)) => {
                    known = version.is_settled().then_some(Some(version));
                    problems
                        .recovered(format!("{}: valid again", self.path.display()))
                        .map(&mut report);
                    statuses.send_replace(Some(timed));
                }
                Some(CheckResult::Problem(version, problem)) => {
                    let problem = format!("{}:{problem}{}", self.path.display(), kept(&statuses));
                    let event = problems.event(problem, now());
                    // A suppressed problem is reported at the next check.
                    if let SourceEvent::Failed(_) = event {
                        known = Some(version);
                    }
                    report(event);
                }
                None => {}
            }
            tokio::select! {
                Some(()) = woken.recv() => sleep(MIN_CHECK_INTERVAL).await,
                () = sleep(self.interval) => {}
                () = statuses.closed() => return,
            }
        }
    }

    /// Reads the file if its version differs from the known one. Runs outside the runtime, because
    /// network file systems can be slow.
    async fn check(&self, known: Option<Option<FileVersion>>) -> Option<CheckResult> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            let seen = std::fs::metadata(&path)
                .ok()
                .map(|metadata| FileVersion::of(&metadata));
            (known != Some(seen)).then(|| read(&path))
        });
        read.await.ok().flatten()
    }
}

impl FileVersion {
    fn of(metadata: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Self {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            inode,
        }
    }

    /// Returns whether any later change would change the version. File systems have coarse clocks,
    /// so a recently changed file is read again at the next check.
    fn is_settled(&self) -> bool {
        self.modified
            .and_then(|modified| modified.elapsed().ok())
            .is_none_or(|age| age > SETTLE)
    }
}

fn read(path: &Path) -> CheckResult {
    let mut version = None;
    match try_read(path, &mut version) {
        Ok((version, timed)) => CheckResult::Status(version, timed),
        Err(problem) => CheckResult::Problem(version, problem),
    }
}

/// Reads at most `MAX_BYTES`. Rejects content that changes during the read.
fn try_read(
    path: &Path,
    version: &mut Option<FileVersion>,
) -> Result<(FileVersion, TimedStatus), String> {
    let in_words = |error: std::io::Error| format!(" {error}");
    // Check this before opening the file: opening a pipe can block forever.
    if !std::fs::metadata(path).map_err(in_words)?.is_file() {
        return Err(" not a regular file".into());
    }
    let mut file = std::fs::File::open(path).map_err(in_words)?;
    let metadata = file.metadata().map_err(in_words)?;
    let before = FileVersion::of(&metadata);
    *version = Some(before);
    let mut bytes = Vec::new();
    file.by_ref()
        .take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(in_words)?;
    if FileVersion::of(&file.metadata().map_err(in_words)?) != before {
        // The version does not match the content: read again at the next look.
        *version = None;
        return Err(" changed while it was read".into());
    }
    let status = json::status(&bytes).map_err(|error| error.to_string())?;
    Ok((
        before,
        TimedStatus {
            status: Arc::new(status),
            since: moment(before.modified),
        },
    ))
}

/// Converts a wall clock time to the monotonic clock. Unknown and future times become now.
fn moment(modified: Option<SystemTime>) -> Instant {
    let mut age = modified
        .and_then(|modified| modified.elapsed().ok())
        .unwrap_or_default();
    let now = Instant::now();
    // On some systems the clock starts at boot, and a file may be older.
    loop {
        match now.checked_sub(age) {
            Some(moment) => return moment,
            None => age /= 2,
        }
    }
}

fn watch(path: &Path, wake: mpsc::Sender<()>) -> Option<impl Watcher> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let on_change = move |event: notify::Result<notify::Event>| {
        // Reading causes events too.
        let is_news = |kind| {
            !matches!(
                kind,
                EventKind::Access(
                    AccessKind::Open(_) | AccessKind::Read | AccessKind::Close(AccessMode::Read)
                )
            )
        };
        if event.is_ok_and(|event| is_news(event.kind)) {
            let _ = wake.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(on_change).ok()?;
    watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
    Some(watcher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("hailer-file-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Both ways to notice a change: events only, and looks only (through a link to another
    /// folder).
    #[tokio::test]
    async fn accepts_complete_files_only() {
        let folder = folder("whole");
        let path = folder.0.join("status.json");
        let elsewhere = folder.0.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        for (path, target, interval) in [
            (path.clone(), path.clone(), Duration::from_secs(3_600)),
            #[cfg(unix)]
            (
                folder.0.join("link.json"),
                elsewhere.join("real.json"),
                Duration::from_millis(50),
            ),
        ] {
            #[cfg(unix)]
            if path != target {
                std::os::unix::fs::symlink(&target, &path).unwrap();
            }
            let (sender, mut statuses) = super::super::statuses();
            let events = Arc::new(Mutex::new(Vec::new()));
            let on_change = events.clone();
            let file = File {
                interval,
                ..File::new(&path)
            };
            let task = tokio::spawn(file.run(sender, move |word| {
                if let SourceEvent::Failed(line) | SourceEvent::Recovered(Some(line)) = word {
                    on_change.lock().unwrap().push(line);
                }
            }));
            let replace = |text: &str| {
                let new = target.with_extension("new");
                std::fs::write(&new, text).unwrap();
                std::fs::rename(new, &target).unwrap();
            };
            let mut map_is = async |map: &str| {
                let is = |timed: &Option<TimedStatus>| {
                    timed.as_ref().and_then(|timed| timed.status.map.as_deref()) == Some(map)
                };
                tokio::time::timeout(Duration::from_secs(10), statuses.wait_for(is))
                    .await
                    .unwrap()
                    .unwrap();
            };
            // The watcher starts with the task.
            sleep(Duration::from_millis(400)).await;
            replace(r#"{"map": "one"}"#);
            map_is("one").await;
            // Half written for longer than the time to settle, then complete.
            std::fs::write(&target, "{\"map\":\n \"tw").unwrap();
            sleep(Duration::from_millis(700)).await;
            map_is("one").await;
            std::fs::write(&target, "{\"map\":\n \"two\"}").unwrap();
            map_is("two").await;
            std::fs::remove_file(&target).unwrap();
            sleep(Duration::from_millis(700)).await;
            map_is("two").await;
            replace(r#"{"map": "three"}"#);
            map_is("three").await;
            let events = events.lock().unwrap().join("\n");
            let expected = format!(
                "{}:2: EOF while parsing a string; the last status stays in use",
                path.display()
            );
            assert!(events.contains(&expected), "{events}");
            assert!(
                events.ends_with("valid again") && events.lines().count() <= 6,
                "{events}"
            );
            task.abort();
        }
    }

    #[test]
    fn the_status_is_as_old_as_the_file() {
        let folder = folder("old");
        let path = folder.0.join("status.json");
        std::fs::write(&path, "{}").unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(300))
            .unwrap();
        let CheckResult::Status(_, timed) = read(&path) else {
            panic!()
        };
        let age = timed.age(Instant::now()).as_secs();
        assert!((299..400).contains(&age), "{age}");
        // From the future, and from before everything.
        assert!(moment(Some(SystemTime::now() + Duration::from_secs(300))) <= Instant::now());
        assert!(moment(Some(SystemTime::UNIX_EPOCH)) < Instant::now());
    }
}
