//! Starts and stops games.
//!
//! ```text
//!   ControlConfig ─► Control ─┬─► action      command or webhook
//!                             ├─► unit        systemctl
//!                             ├─► container   API of Docker or Podman, over its Unix socket
//!                             └─► panel       client API of Pterodactyl or Pelican
//! ```
//!
//! All errors are one line that names the fix where there is one. Each start and stop has a time
//! limit, `timeout` of the configuration.
//!
//! May import: `crate::command::serve`, `crate::command::serve::action`, `crate::config`,
//! `crate::http_client`, `hailer`.

#[cfg(unix)]
mod container;
mod panel;
mod unit;

use self::panel::PanelServer;
use super::super::action::{self, Facts};
use crate::config::HookAction;
use crate::config::door::control::{BackEndConfig, BackEndKind, ControlConfig};
use futures_util::future::BoxFuture;
use hailer::proto::protocol::JoinAttempt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Starts and stops one game.
pub(in crate::command::serve) trait Control: Send + Sync {
    /// Starts the game. It may take longer until the game answers.
    ///
    /// # Errors
    /// One line with the failure, and the fix.
    fn start<'a>(&'a self, facts: &'a WakeFacts) -> BoxFuture<'a, Result<(), String>>;

    /// Stops the game. It may take longer until the game has ended.
    ///
    /// # Errors
    /// One line with the failure, and the fix.
    fn stop(&self) -> BoxFuture<'_, Result<(), String>>;

    /// Returns whether the process of the game runs. `None`: unknown. Requests to panels count for
    /// their limits, so call it at most every 10 s.
    fn is_running(&self) -> BoxFuture<'_, Option<bool>>;

    /// Returns whether [`Control::stop`] can stop the game. Otherwise it always fails.
    fn can_stop(&self) -> bool;
}

/// Server of a door, in the facts for commands and webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::command::serve) struct DoorName {
    /// Number of the server, from 1.
    pub(in crate::command::serve) number: usize,
    /// Its name in the configuration.
    pub(in crate::command::serve) name: String,
}

/// Cause of a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::command::serve) enum WakeFacts {
    /// A client tries to join.
    Join {
        source: SocketAddr,
        attempt: JoinAttempt,
    },
    /// `hailer serve wake`.
    Request,
    /// The game ended by itself.
    Crash,
}

impl WakeFacts {
    /// Returns the cause for commands and webhooks.
    pub(in crate::command::serve) fn cause(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join",
            Self::Request => "request",
            Self::Crash => "crash",
        }
    }

    fn facts(&self, door: &DoorName) -> Facts {
        let facts = door.facts("wake").with("cause", self.cause());
        match self {
            Self::Join { source, attempt } => facts.with_join(*source, attempt),
            Self::Request | Self::Crash => facts,
        }
    }
}

impl DoorName {
    fn facts(&self, event: &str) -> Facts {
        Facts::new(event, self.number).with("name", &*self.name)
    }
}

/// Returns the control that the configuration describes.
pub(in crate::command::serve) fn control(
    config: &ControlConfig,
    door: DoorName,
) -> Arc<dyn Control> {
    Arc::new(ConfiguredControl {
        door,
        start: BackEnd::new(&config.start),
        stop: config.stop.as_ref().map(BackEnd::new),
    })
}

/// The start and the stop of a configuration, which may be of different kinds.
struct ConfiguredControl {
    door: DoorName,
    start: BackEnd,
    stop: Option<BackEnd>,
}

impl Control for ConfiguredControl {
    fn start<'a>(&'a self, facts: &'a WakeFacts) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.start.run(Change::Start, facts.facts(&self.door)))
    }

    fn stop(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            match &self.stop {
                Some(stop) => stop.run(Change::Stop, self.door.facts("sleep")).await,
                None => Err("the configuration has no way to stop the game; add stop".to_owned()),
            }
        })
    }

    fn is_running(&self) -> BoxFuture<'_, Option<bool>> {
        Box::pin(async {
            match self.start.is_running().await {
                None => self.stop.as_ref()?.is_running().await,
                known => known,
            }
        })
    }

    fn can_stop(&self) -> bool {
        self.stop.is_some()
    }
}

/// A start or a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Start,
    Stop,
}

impl Change {
    /// Returns `start` or `stop`, as in most interfaces.
    fn verb(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
        }
    }
}

/// One way to start and stop a game.
struct BackEnd {
    kind: BackEndKind,
    timeout: Duration,
    /// Program for units. Tests have their own.
    systemctl: String,
}

impl BackEnd {
    fn new(config: &BackEndConfig) -> Self {
        Self {
            kind: config.kind.clone(),
            timeout: config.timeout,
            systemctl: "systemctl".to_owned(),
        }
    }

    async fn run(&self, change: Change, facts: Facts) -> Result<(), String> {
        let timeout = self.timeout;
        match &self.kind {
            BackEndKind::Action(action) => {
                let action = action.clone();
                let is_command = matches!(action, HookAction::Command(_));
                let run = on_thread(move || action::run(&action, &facts, timeout)).await;
                run.map_err(|problem| {
                    if is_command && problem.contains("was killed after") {
                        let verb = change.verb();
                        format!("{problem}; the command for {verb} must end by itself, see timeout")
                    } else {
                        problem
                    }
                })
            }
            BackEndKind::Unit { name, is_user } => {
                let words = unit::change(&self.systemctl, name, *is_user, change);
                on_thread(move || action::output_of(&words, timeout).map(drop)).await
            }
            #[cfg(unix)]
            BackEndKind::Container { name, socket } => {
                container::change(name, socket, change, timeout).await
            }
            #[cfg(not(unix))]
            BackEndKind::Container { .. } => Err("containers need a Unix socket".to_owned()),
            BackEndKind::Panel { url, server, token } => {
                let server = PanelServer::new(url, server, token);
                on_thread(move || server.change(change, timeout)).await
            }
        }
    }

    /// Returns whether the game runs. Without an answer in time, `None`.
    async fn is_running(&self) -> Option<bool> {
        match &self.kind {
            BackEndKind::Action(_) => None,
            BackEndKind::Unit { name, is_user } => {
                let words = unit::show(&self.systemctl, name, *is_user);
                let output = on_thread(move || action::output_of(&words, CHECK_TIMEOUT)).await;
                unit::is_running(&output.ok()?)
            }
            #[cfg(unix)]
            BackEndKind::Container { name, socket } => {
                container::is_running(name, socket, CHECK_TIMEOUT).await
            }
            #[cfg(not(unix))]
            BackEndKind::Container { .. } => None,
            BackEndKind::Panel { url, server, token } => {
                let server = PanelServer::new(url, server, token);
                let check = move || Ok(server.is_running(CHECK_TIMEOUT));
                on_thread(check).await.ok().flatten()
            }
        }
    }
}

/// Time to find out whether a game runs.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs blocking work on a thread of the runtime.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::command::serve::action::tests::{attempt, shell, source, temporary};
    use std::os::unix::fs::PermissionsExt;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    fn new(start: BackEndKind, stop: Option<BackEndKind>, timeout: Duration) -> Arc<dyn Control> {
        let config = |kind| BackEndConfig { kind, timeout };
        let config = ControlConfig {
            start: config(start),
            stop: stop.map(config),
        };
        let name = "survival".to_owned();
        control(&config, DoorName { number: 2, name })
    }

    fn new_with_systemctl(
        program: &str,
        unit: &BackEndKind,
        timeout: Duration,
    ) -> ConfiguredControl {
        let back_end = || BackEnd {
            kind: unit.clone(),
            timeout,
            systemctl: program.to_owned(),
        };
        ConfiguredControl {
            door: DoorName {
                number: 1,
                name: "mc".to_owned(),
            },
            start: back_end(),
            stop: Some(back_end()),
        }
    }

    fn command(script: &str) -> BackEndKind {
        BackEndKind::Action(HookAction::Command(shell(script)))
    }

    #[test]
    fn commands_get_the_facts() {
        let path = temporary("control");
        let line = format!(
            "echo \"$HAILER_EVENT $HAILER_SERVER $HAILER_NAME <$HAILER_CAUSE> <$HAILER_PLAYER>\" >> {}",
            path.display()
        );
        let control = new(
            command(&line),
            Some(command(&line)),
            Duration::from_secs(10),
        );
        assert!(control.can_stop());
        run(async {
            let join = WakeFacts::Join {
                source: source(),
                attempt: attempt("Alice B."),
            };
            for facts in [&join, &WakeFacts::Request, &WakeFacts::Crash] {
                assert_eq!(control.start(facts).await, Ok(()));
            }
            assert_eq!(control.stop().await, Ok(()));
            assert_eq!(control.is_running().await, None);
        });
        let lines = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let expected = "\
            wake 2 survival <join> <Alice B.>\n\
            wake 2 survival <request> <>\n\
            wake 2 survival <crash> <>\n\
            sleep 2 survival <> <>\n";
        assert_eq!(lines, expected);
    }

    #[test]
    fn commands_that_do_not_end_are_killed() {
        let control = new(command("sleep 60"), None, Duration::from_millis(200));
        assert!(!control.can_stop());
        run(async {
            let error = control.start(&WakeFacts::Request).await.unwrap_err();
            assert!(error.contains("must end by itself"), "{error}");
            let error = control.stop().await.unwrap_err();
            assert!(error.contains("add stop"), "{error}");
        });
    }

    /// A script in the place of `systemctl`: keeps the state of a unit in a file.
    #[test]
    fn units_are_started_and_stopped_by_systemctl() {
        let folder = temporary("systemctl");
        std::fs::create_dir_all(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\ncd {}\necho \"$*\" >> calls\n\
            case \"$*\" in\n\
            *' start -- mc.service') echo active > state ;;\n\
            *' stop -- mc.service') echo inactive > state ;;\n\
            *' show -- mc.service') echo ActiveState=$(cat state); echo LoadState=loaded ;;\n\
            *) echo \"Failed to start other.service: Unit other.service not found.\" >&2; exit 5 ;;\n\
            esac\n",
            folder.display()
        );
        let program = folder.join("systemctl");
        std::fs::write(&program, script).unwrap();
        std::fs::write(folder.join("state"), "inactive").unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let unit = |name: &str, is_user| BackEndKind::Unit {
            name: name.to_owned(),
            is_user,
        };
        let timeout = Duration::from_secs(10);
        let path = program.to_str().unwrap();
        let control = new_with_systemctl(path, &unit("mc.service", true), timeout);
        run(async {
            assert_eq!(control.is_running().await, Some(false));
            assert_eq!(control.start(&WakeFacts::Request).await, Ok(()));
            assert_eq!(control.is_running().await, Some(true));
            assert_eq!(control.stop().await, Ok(()));
            assert_eq!(control.is_running().await, Some(false));
            let control = new_with_systemctl(path, &unit("other.service", false), timeout);
            let error = control.start(&WakeFacts::Request).await.unwrap_err();
            assert!(error.ends_with("Unit other.service not found."), "{error}");
            assert_eq!(control.is_running().await, None);
        });
        let calls = std::fs::read_to_string(folder.join("calls")).unwrap();
        let second = calls.lines().nth(1);
        assert_eq!(second, Some("--user --no-ask-password start -- mc.service"));
        assert!(calls.contains("\n--system --no-ask-password start -- other.service\n"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
