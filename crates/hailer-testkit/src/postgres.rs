//! A PostgreSQL server for tests, on a Unix socket in a temporary folder. Stopped and deleted on
//! drop.
//!
//! In: nothing. Out: the URL of a running server.
//!
//! May import: `crate::folder`, `crate::proxy`.

use crate::folder::Folder;
use crate::proxy::Proxy;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    child: Option<Child>,
    programs: PathBuf,
    folder: Folder,
}

/// PostgreSQL refuses to run as root, so it then runs as `nobody`.
const NOBODY: &str = "65534";

impl Server {
    /// Creates and starts a server. Without PostgreSQL, prints that the test is skipped and returns
    /// `None`; panics instead if `HAILER_NEEDS_POSTGRES` is set.
    pub fn start(name: &str) -> Option<Self> {
        let Some(programs) = programs() else {
            let needed = std::env::var_os("HAILER_NEEDS_POSTGRES").is_some();
            assert!(
                !needed,
                "postgres and initdb are not installed; on Debian: apt-get install postgresql"
            );
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        let folder = Folder::new(&format!("postgres-{name}"));
        if is_root() {
            let owner = Command::new("chown")
                .args([NOBODY])
                .arg(folder.path())
                .status()
                .unwrap();
            assert!(owner.success());
        }
        let mut server = Self {
            child: None,
            programs,
            folder,
        };
        let made = server
            .command("initdb")
            .args([
                "--username=hailer",
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--no-locale",
                "--pgdata",
            ])
            .arg(server.data())
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        server.run();
        Some(server)
    }

    /// Starts the server, also after [`stop`](Self::stop).
    pub fn run(&mut self) {
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.folder.path());
        command.args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=40",
        ]);
        self.child = Some(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        // PostgreSQL writes this file when it is ready.
        let deadline = Instant::now() + Duration::from_secs(30);
        let ready = || {
            std::fs::read_to_string(self.data().join("postmaster.pid"))
                .is_ok_and(|pid| pid.contains("ready"))
        };
        while !ready() {
            assert!(Instant::now() < deadline, "postgres does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the server and closes its connections.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-QUIT", &pid]).status();
            let _ = child.wait();
        }
    }

    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates an empty database and returns its URL.
    pub fn database(&self, name: &str) -> String {
        let made = self
            .command("createdb")
            .arg("-h")
            .arg(self.folder.path())
            .args(["-U", "hailer", name])
            .status();
        assert!(made.unwrap().success());
        self.url_of(name)
    }

    /// Starts a proxy to the server. Returns it with the URL of a database through it.
    pub fn proxy(&self, name: &str) -> (Proxy, String) {
        let proxy = Proxy::start(self.folder.path().join(".s.PGSQL.5432"));
        let url = format!("postgres://hailer@127.0.0.1:{}/{name}", proxy.port());
        (proxy, url)
    }

    fn url_of(&self, name: &str) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://hailer@{folder}/{name}")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
                .arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns the folder of `postgres` and `initdb`. Debian has one for each version, outside of the
/// path.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = debian
        .map(|version| version.path().join("bin"))
        .chain(std::env::split_paths(&path))
        .collect();
    folders.sort_by_key(|folder| !folder.starts_with("/usr/lib/postgresql"));
    let has = |folder: &Path| folder.join("postgres").exists() && folder.join("initdb").exists();
    folders.into_iter().find(|folder| has(folder))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}
