//! Differences between systems: signals, process groups, limits of open files.
//!
//! | facility | Unix | elsewhere |
//! | --- | --- | --- |
//! | end of a service | Ctrl-C, SIGTERM | Ctrl-C, Ctrl-Break, closing the window, shutdown |
//! | reload of the configuration | SIGHUP | none |
//! | limit of open files | raised as needed | none |
//! | commands that take too long | killed with their children | killed alone |
//!
//! In: signals. Out: signals to child processes.
//!
//! May import: nothing of this workspace.

use std::io;
use std::process::{Child, Command};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for Ctrl-C or another request to end.
#[cfg(unix)]
pub(crate) async fn interrupted() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Waits for Ctrl-C or another request to end.
#[cfg(windows)]
pub(crate) async fn interrupted() {
    use tokio::signal::windows::{ctrl_break, ctrl_close, ctrl_shutdown};
    let (Ok(mut stop), Ok(mut close), Ok(mut shutdown)) =
        (ctrl_break(), ctrl_close(), ctrl_shutdown())
    else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = stop.recv() => {}
        _ = close.recv() => {}
        _ = shutdown.recv() => {}
    }
}

/// Requests to read the configuration again: SIGHUP.
pub(crate) struct ReloadRequests {
    #[cfg(unix)]
    hangups: Signal,
}

impl ReloadRequests {
    /// Starts to listen. Without a listener, SIGHUP ends the process.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            hangups: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next request. `None`: there will be none.
    pub(crate) async fn next(&mut self) -> Option<()> {
        #[cfg(unix)]
        return self.hangups.recv().await;
        #[cfg(not(unix))]
        None
    }
}

/// Raises the limit of open files of this process to `needed`, as far as allowed. Returns the limit.
#[cfg(unix)]
pub(crate) fn raise_open_files(needed: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let files = |most: Option<u64>| most.unwrap_or(u64::MAX);
    if files(limit.current) < needed {
        // On failure, the old limit stays, which the caller sees.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(needed.min(files(limit.maximum))),
                maximum: limit.maximum,
            },
        );
    }
    files(getrlimit(Resource::Nofile).current)
}

/// Returns the limit of open files: this system has none.
#[cfg(not(unix))]
pub(crate) fn raise_open_files(_: u64) -> u64 {
    u64::MAX
}

/// Lets a command start a process group, so that it can be killed with its children.
#[cfg(unix)]
pub(crate) fn start_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// Has no effect on this system.
#[cfg(not(unix))]
pub(crate) fn start_group(_: &mut Command) {}

/// Kills a command that still runs, with its process group where there is one.
pub(crate) fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
    #[cfg(not(unix))]
    let _ = child.kill();
}
