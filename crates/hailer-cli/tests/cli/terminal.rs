//! Runs full-screen commands, each in its own pseudoterminal.

use crate::tool::{Process, command};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// A command in a terminal of 110 columns and 30 lines.
pub(crate) struct Terminal {
    process: Process,
    /// Our end of the terminal, and the command's end for checking its settings.
    keys: std::fs::File,
    terminal: OwnedFd,
    drawn: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub(crate) fn start<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Self {
        Self::start_with(command(args))
    }

    /// Starts a prepared command in a terminal.
    pub(crate) fn start_with(mut command: Command) -> Self {
        let size = Winsize {
            ws_row: 30,
            ws_col: 110,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(&size, None).unwrap();
        let other = || Stdio::from(pair.slave.try_clone().unwrap());
        let process = Process::start(command.stdin(other()).stdout(other()).stderr(other()));
        let keys = std::fs::File::from(pair.master);
        let mut reader = keys.try_clone().unwrap();
        let (sender, drawn) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            keys,
            terminal: pair.slave,
            drawn,
            seen: String::new(),
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this text appears after the last match. The drawn text has no spaces, since the
    /// cursor jumps over them.
    #[track_caller]
    pub(crate) fn sees(&mut self, expected: &str) {
        self.reads(|seen| without_sequences(seen).contains(expected), expected);
    }

    /// Waits until these bytes, including escape sequences, appear after the last match. Panics if
    /// one of `never` appears.
    #[track_caller]
    pub(crate) fn writes(&mut self, expected: &str, never: &[&str]) {
        let has_none = |seen: &str| {
            never
                .iter()
                .for_each(|never| assert!(!seen.contains(never), "{never:?} in {seen:?}"));
        };
        self.reads(
            |seen| {
                has_none(seen);
                seen.contains(expected)
            },
            expected,
        );
    }

    #[track_caller]
    fn reads(&mut self, is_there: impl Fn(&str) -> bool, expected: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_there(&self.seen) {
            match self
                .drawn
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("no {expected:?} in {}", without_sequences(&self.seen)),
            }
        }
        self.seen.clear();
    }

    /// Ends the command by the `q` key (for `key`) or by a signal. Checks that the terminal has its
    /// original state.
    #[track_caller]
    pub(crate) fn ends_by(&mut self, signal: &str) {
        let echoes = |terminal: &OwnedFd| {
            tcgetattr(terminal)
                .unwrap()
                .local_flags
                .contains(LocalFlags::ECHO)
        };
        assert!(!echoes(&self.terminal), "keys must not be echoed");
        match signal {
            "key" => self.press("q"),
            signal => self.process.signal(signal),
        }
        assert_eq!(self.wait(), Some(0), "{signal}");
        // Checks that the command left the alternate screen and restored the cursor.
        self.reads(
            |seen| seen.contains("\x1b[?1049l") && seen.contains("\x1b[?25h"),
            "the normal screen",
        );
        assert!(echoes(&self.terminal));
    }

    /// Waits for the command to end. Returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.process.wait().code()
    }
}

/// Returns the text without escape sequences.
fn without_sequences(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + piece
            .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
            .get(1..)
            .unwrap_or("")
    })
}
