//! Runs the binary with a clean environment. Each wait has a limit, and no process is left behind.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest run of a command in a test.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a command for the binary with a clean environment.
pub(crate) fn command<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hailer"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for name in [
        "HAILER_AUTH_TOKEN",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "FORCE_COLOR",
        "LINES",
    ] {
        command.env_remove(name);
    }
    // Keeps tests from finding control sockets of other tests, or of the user who runs them.
    command.env(
        "XDG_RUNTIME_DIR",
        concat!(env!("CARGO_TARGET_TMPDIR"), "/no-such-folder"),
    );
    command
        .env("COLUMNS", "100")
        .env("TERM", "dumb")
        .env("LC_ALL", "C");
    command
}

/// Output and exit status of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) out: String,
    pub(crate) err: String,
    status: ExitStatus,
}

impl Finished {
    /// Returns the exit code, or `None` if a signal ended the command.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Asserts the exit code. Panics with the whole output if it differs.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{}\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Asserts a usage error: exit code 2 and a single line on standard error that begins with
    /// `error:`.
    #[track_caller]
    pub(crate) fn fails_as_usage(self, expected: &str) {
        let output = self.ends_with(2);
        assert_eq!(output.out, "");
        assert!(
            output.err.starts_with("error: ") && output.err.ends_with('\n'),
            "{}",
            output.err
        );
        assert_eq!(output.err.lines().count(), 1, "{}", output.err);
        assert!(
            output.err.contains(expected),
            "{:?} lacks {expected:?}",
            output.err
        );
    }

    /// Asserts that standard output contains all of these texts.
    #[track_caller]
    pub(crate) fn shows<T: AsRef<str>>(&self, expected: &[T]) {
        contains_all(&self.out, expected);
    }

    /// Asserts that standard error contains all of these texts.
    #[track_caller]
    pub(crate) fn warns<T: AsRef<str>>(&self, expected: &[T]) {
        contains_all(&self.err, expected);
    }

    /// Parses each line of standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        self.out
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect()
    }
}

/// Asserts that a text contains all of these.
#[track_caller]
pub(crate) fn contains_all<T: AsRef<str>>(text: &str, expected: &[T]) {
    for expected in expected {
        let expected = expected.as_ref();
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
}

/// Runs a command to its end.
pub(crate) fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Finished {
    finish(command(args), None)
}

/// Runs a command to its end, with `input` on standard input.
pub(crate) fn run_with<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    input: &[u8],
) -> Finished {
    finish(command(args), Some(input.to_vec()))
}

/// Runs a prepared command to its end.
pub(crate) fn finish(mut command: Command, input: Option<Vec<u8>>) -> Finished {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    if let (Some(input), Some(mut stdin)) = (input, process.child.stdin.take()) {
        std::thread::spawn(move || stdin.write_all(&input));
    }
    finish_started(process)
}

/// Waits for a command with piped output to end.
pub(crate) fn finish_started(mut process: Process) -> Finished {
    let out = reader(process.child.stdout.take().unwrap());
    let err = reader(process.child.stderr.take().unwrap());
    let status = process.wait();
    Finished {
        out: out.join().unwrap(),
        err: err.join().unwrap(),
        status,
    }
}

fn reader(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8(bytes).expect("output is UTF-8")
    })
}

/// A running command. Killed when dropped.
pub(crate) struct Process {
    pub(crate) child: Child,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self {
            child: command.spawn().unwrap(),
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
    }

    /// Closes standard output and waits for the end. Returns the exit code and the text on standard
    /// error.
    pub(crate) fn ends_without_output(mut self) -> (Option<i32>, String) {
        drop(self.child.stdout.take());
        let status = self.wait();
        let mut output = String::new();
        let mut err = self.child.stderr.take().unwrap();
        err.read_to_string(&mut output).unwrap();
        (status.code(), output)
    }

    /// Waits for the command to end. Panics after `TIMEOUT`.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.wait_at_most(TIMEOUT)
    }

    /// Waits for the command to end. Panics after `timeout`.
    pub(crate) fn wait_at_most(&mut self, timeout: Duration) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < timeout, "the command does not end");
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `hailer serve`, `hailer farm` or `hailer world`.
pub(crate) struct Serve {
    process: Process,
    out: BufReader<ChildStdout>,
    err: Option<ChildStderr>,
    /// The lines that start with `listening on`.
    pub(crate) listening: Vec<String>,
}

impl Serve {
    /// Starts `hailer serve` with these arguments. It exits after 60 s at the latest.
    pub(crate) fn start<A: AsRef<OsStr>>(
        listeners: usize,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::start_for(Duration::from_secs(60), listeners, args)
    }

    /// Like `start`, with another time limit.
    pub(crate) fn start_for<A: AsRef<OsStr>>(
        time: Duration,
        listeners: usize,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::start_command("serve", time, listeners, args)
    }

    /// Starts `hailer farm`.
    pub(crate) fn farm<A: AsRef<OsStr>>(
        listeners: usize,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::start_command("farm", Duration::from_secs(60), listeners, args)
    }

    /// Starts a farm for a network. Returns it with the port of its protocol.
    pub(crate) fn minecraft_farm(network: &str) -> (Self, u16) {
        let port = "minecraft-query=0";
        let protocol = "minecraft-query";
        let farm = Self::farm(1, [network, "--protocol", protocol, "--port", port]);
        let port = crate::farm::port(&farm.listening[0]);
        (farm, port)
    }

    /// Starts `hailer world` on a free port.
    pub(crate) fn world(args: &[&str]) -> Self {
        let args = ["--listen", "127.0.0.1:0"].iter().chain(args);
        Self::start_command("world", Duration::from_secs(60), 1, args)
    }

    pub(crate) fn start_command<A: AsRef<OsStr>>(
        name: &str,
        time: Duration,
        listeners: usize,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut command = command([name, "--for", &format!("{}s", time.as_secs())]);
        command.args(args);
        let mut process = Process::start(&mut command);
        let mut serve = Self {
            out: BufReader::new(process.child.stdout.take().unwrap()),
            err: process.child.stderr.take(),
            listening: Vec::new(),
            process,
        };
        for _ in 0..listeners {
            let mut line = String::new();
            serve.out.read_line(&mut line).unwrap();
            if !line.starts_with("listening on ") {
                let mut output = String::new();
                serve.process.child.kill().unwrap();
                serve.err.unwrap().read_to_string(&mut output).unwrap();
                panic!("{line:?} {output}");
            }
            serve.listening.push(line.trim_end().to_owned());
        }
        serve
    }

    /// Starts `hailer serve` with all protocols on one free port.
    pub(crate) fn with(args: &[&str]) -> Self {
        Self::start(1, ["--listen", "127.0.0.1:0"].iter().chain(args))
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// Returns the first listening address.
    pub(crate) fn address(&self) -> String {
        address(&self.listening[0])
    }

    /// Returns the URL of a protocol at the first listening address.
    pub(crate) fn url(&self, protocol: &str) -> String {
        format!("{protocol}://{}", self.address())
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Sends a signal and waits for the process to end. Returns its exit code and the text on
    /// standard error.
    pub(crate) fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        self.process.signal(signal);
        let status = self.process.wait();
        let mut output = String::new();
        self.err
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        (status.code(), output)
    }
}

/// Returns the address in a `listening on` line.
pub(crate) fn address(line: &str) -> String {
    line.trim_start_matches("listening on ")
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

/// A file or folder of one test, removed when dropped.
pub(crate) struct Temporary(PathBuf);

/// Makes a file private: token files that other users can read cause a warning.
pub(crate) fn keep_private(path: &Path) {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, mode).unwrap();
    }
    #[cfg(not(unix))]
    let _ = path;
}

impl Temporary {
    /// Returns a unique path without creating it.
    pub(crate) fn path(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(
            Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join(format!("{}-{next}-{name}", std::process::id())),
        )
    }

    /// Creates a file with these bytes.
    pub(crate) fn file(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let file = Self::path(name);
        std::fs::write(&file.0, bytes).unwrap();
        keep_private(&file.0);
        file
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl AsRef<Path> for Temporary {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Panics at the first character that could control a terminal or reorder text. `colors` permits
/// ANSI color sequences.
#[track_caller]
pub(crate) fn assert_harmless(text: &str, colors: bool) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if colors && c == '\x1b' {
            // Only `ESC [`, digits and semicolons, `m` is permitted.
            let end = rest
                .find('m')
                .unwrap_or_else(|| panic!("an unfinished escape sequence in {text:?}"));
            let inner = rest[..end]
                .strip_prefix('[')
                .unwrap_or_else(|| panic!("ESC {:?}", &rest[..end]));
            assert!(
                inner.chars().all(|c| c.is_ascii_digit() || c == ';'),
                "ESC [{inner}m in {text:?}"
            );
            rest = &rest[end + 1..];
            continue;
        }
        let bidi = matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
        let breaks = matches!(c, '\u{2028}' | '\u{2029}');
        assert!(
            c == '\n' || !c.is_control() && !bidi && !breaks,
            "{c:?} in {text:?}"
        );
    }
}

/// Returns the text without ANSI colors.
pub(crate) fn without_colors(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + piece.split_once('m').map_or("", |(_, rest)| rest)
    })
}

/// Returns a generator (xorshift) of numbers below its argument, the same in each run.
pub(crate) fn random_below() -> impl FnMut(usize) -> usize {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below
    }
}
