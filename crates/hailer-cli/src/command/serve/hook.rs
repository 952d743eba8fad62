//! Hook on join attempts: a command or a webhook, for owners of servers that sleep.
//!
//! Every client can cause a run, with any host and any name that a player can have. The limits:
//!
//! | limit | value |
//! | --- | --- |
//! | runs of a server | one at a time, and one per `every`; other attempts are counted only |
//! | time of a run | 30 s; then the command is killed with its children |

use super::action::{self, Facts};
use crate::config::HookConfig;
use hailer::proto::protocol::JoinAttempt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time of a run.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of the name of a player.
const MAX_NAME_BYTES: usize = 16;

/// Runs the action of one server.
pub(super) struct JoinHook {
    /// Number of the server, from 1.
    server: usize,
    /// Its name, if it has one.
    name: Option<String>,
    config: HookConfig,
    last_run: Mutex<Option<Instant>>,
    is_running: Arc<AtomicBool>,
}

impl JoinHook {
    pub(super) fn new(server: usize, name: Option<String>, config: HookConfig) -> Self {
        Self {
            server,
            name,
            config,
            last_run: Mutex::default(),
            is_running: Arc::default(),
        }
    }

    /// Starts the action on its own thread, unless a limit forbids it. Returns immediately.
    pub(super) fn record(&self, source: SocketAddr, attempt: &JoinAttempt) {
        if !is_player_name(&attempt.name) || !self.is_due(Instant::now()) {
            return;
        }
        let mut facts = Facts::new("join-attempt", self.server).with_join(source, attempt);
        if let Some(name) = &self.name {
            facts = facts.with("name", &**name);
        }
        info!(
            "server {}: {:?} at {source} tries to join; running on-join",
            self.server, attempt.name
        );
        let action = self.config.action.clone();
        let server = self.server;
        let is_running = self.is_running.clone();
        let run = move || {
            if let Err(problem) = action::run(&action, &facts, TIMEOUT) {
                warn!("server {server}: on-join: {problem}");
            }
            is_running.store(false, Ordering::Release);
        };
        let thread = std::thread::Builder::new()
            .name("on-join".into())
            .spawn(run);
        if let Err(error) = thread {
            warn!("server {server}: on-join: {error}");
            self.is_running.store(false, Ordering::Release);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = last_run.is_some_and(|last| now < last + self.config.every);
        if is_early || self.is_running.swap(true, Ordering::AcqRel) {
            return false;
        }
        *last_run = Some(now);
        true
    }
}

/// Returns whether a player can have this name: at most 16 letters, digits and underscores, and
/// before them the dot or star that Floodgate adds to names of Bedrock players.
fn is_player_name(name: &str) -> bool {
    let bare = name.strip_prefix(['.', '*']).unwrap_or(name);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= MAX_NAME_BYTES && !bare.is_empty() && bare.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::serve::action::tests::{attempt, shell, source, temporary, until};
    use crate::config::HookAction;

    #[test]
    fn a_command_runs_at_most_once_per_interval() {
        let path = temporary("runs");
        let _ = std::fs::remove_file(&path);
        let script = format!(
            "echo \"$HAILER_EVENT $HAILER_SERVER $HAILER_NAME $HAILER_SOURCE <$HAILER_PLAYER> $HAILER_HOST $HAILER_PORT $HAILER_PROTOCOL\" >> {}",
            path.display()
        );
        let every = Duration::from_millis(700);
        let action = HookAction::Command(shell(&script));
        let hook = JoinHook::new(3, Some("survival".to_owned()), HookConfig { action, every });
        let lines = || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for _ in 0..50 {
            hook.record(source(), &attempt("$(id)\n\x1b[31m; Eve"));
            hook.record(source(), &attempt(".Eve_42"));
        }
        until(|| lines().len() == 1 && !hook.is_running.load(Ordering::Acquire));
        let line = "join-attempt 3 survival 192.0.2.7:50000 <.Eve_42> play.example.com 25565 772";
        assert_eq!(lines(), [line]);
        std::thread::sleep(every);
        hook.record(source(), &attempt("Bob"));
        until(|| lines().len() == 2);
        assert!(lines()[1].contains("<Bob>"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_names_that_players_can_have_are_accepted() {
        for name in ["Alice", "_", "0123456789abcdef", ".Bob", "*Bob_2"] {
            assert!(is_player_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "0123456789abcdefg",
            ".123456789abcdefg",
            "a b",
            "../x",
            "-rf",
            "$HOME",
            "a\n",
            "Zo\u{EB}",
            "Al\u{200B}ice",
            "a;b",
            "\0",
        ] {
            assert!(!is_player_name(name), "{name:?}");
        }
    }

    #[test]
    fn one_run_at_a_time() {
        let config = HookConfig {
            action: HookAction::Command(shell("sleep 1")),
            every: Duration::ZERO,
        };
        let hook = JoinHook::new(1, None, config);
        let now = Instant::now();
        assert!(hook.is_due(now));
        assert!(!hook.is_due(now + Duration::from_secs(60)));
        hook.is_running.store(false, Ordering::Release);
        assert!(hook.is_due(now + Duration::from_secs(61)));
    }
}
