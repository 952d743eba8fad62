//! The keys `start` and `stop` of `[server.door]`.
//!
//! ```toml
//! start = { command = ["systemctl", "start", "mc"] }
//! start = { unit = "mc.service" }
//! start = { container = "mc", socket = "/var/run/docker.sock" }
//! start = { pterodactyl = "https://panel.example.com", server = "1a7ce997", token-file = "token" }
//! start = { url-file = "webhook-url" }
//! ```

use crate::config::HookAction;
use crate::config::action::{ActionKeys, is_http};
use crate::config::checker::Checker;
use crate::config::reader::{Parsed, Time};
use hailer::proto::Secret;
use serde::Deserialize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Default time for a start or a stop: systemd waits 90 s for a process that ends.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time for a start or a stop.
const MAX_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Socket of Docker.
const DOCKER_SOCKET: &str = "/var/run/docker.sock";
/// Maximum length of the name of a unit, a container or a server.
const MAX_NAME_BYTES: usize = 255;

/// How a game starts and stops.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControlConfig {
    pub(crate) start: BackEndConfig,
    /// `None`: the door never stops the game.
    pub(crate) stop: Option<BackEndConfig>,
}

/// One way to start and stop a game.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackEndConfig {
    pub(crate) kind: BackEndKind,
    /// Limit of one start or stop, 1 s to 1 h. It does not include the time until the game answers.
    pub(crate) timeout: Duration,
}

/// Program or API that starts and stops a game.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BackEndKind {
    /// A command or a webhook.
    Action(HookAction),
    /// A unit of systemd.
    Unit {
        name: String,
        /// Whether it belongs to the service manager of the user.
        is_user: bool,
    },
    /// A container of Docker or Podman.
    Container {
        /// Name or ID.
        name: String,
        /// Unix socket of the API.
        socket: PathBuf,
    },
    /// A server of Pterodactyl or Pelican, by its client API.
    Panel {
        /// Address of the panel, without a slash at the end.
        url: String,
        /// Identifier or UUID of the server.
        server: String,
        /// Key of the client API.
        token: Secret,
    },
}

/// A table `start` or `stop`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ControlInput {
    command: Option<Spanned<Vec<String>>>,
    url: Option<Spanned<String>>,
    url_file: Option<Spanned<PathBuf>>,
    unit: Option<Spanned<String>>,
    user: Option<Spanned<bool>>,
    container: Option<Spanned<String>>,
    socket: Option<Spanned<PathBuf>>,
    pterodactyl: Option<Spanned<String>>,
    server: Option<Spanned<String>>,
    token_file: Option<Spanned<PathBuf>>,
    timeout: Option<Spanned<Parsed<Time<1_000>>>>,
}

/// Returns how a game starts and stops, or `None` after a mistake. `table` is the path of the table
/// with both keys. Without `stop`, a unit, a container and a server of a panel are stopped as they
/// were started; a command and a webhook cannot be.
pub(crate) fn control(
    table: &str,
    start: &Spanned<ControlInput>,
    stop: Option<&Spanned<ControlInput>>,
    checker: &mut Checker<'_>,
) -> Option<ControlConfig> {
    let back_end = |key: &str, input: &Spanned<ControlInput>, checker: &mut Checker<'_>| {
        let table = format!("{table}.{key}");
        input.get_ref().back_end(&table, &input.span(), checker)
    };
    let started = back_end("start", start, checker);
    let stopped = stop.map(|stop| back_end("stop", stop, checker));
    let start = started?;
    let stop = match stopped {
        Some(stop) => Some(stop?),
        None => (!matches!(start.kind, BackEndKind::Action(_))).then(|| start.clone()),
    };
    Some(ControlConfig { start, stop })
}

impl ControlInput {
    fn back_end(
        &self,
        table: &str,
        span: &Range<usize>,
        checker: &mut Checker<'_>,
    ) -> Option<BackEndConfig> {
        let mistakes = checker.problems.len();
        let timeout = self.timeout(table, checker);
        let kind = self.kind(table, span, checker);
        (checker.problems.len() == mistakes).then_some(BackEndConfig {
            kind: kind?,
            timeout,
        })
    }

    fn timeout(&self, table: &str, checker: &mut Checker<'_>) -> Duration {
        let Some(timeout) = &self.timeout else {
            return DEFAULT_TIMEOUT;
        };
        let time = timeout.get_ref().0;
        if time > MAX_TIMEOUT {
            let text = format!("{table}.timeout: expected at most 1h");
            checker.wrong::<()>(&timeout.span(), text);
        }
        time
    }

    fn kind(
        &self,
        table: &str,
        span: &Range<usize>,
        checker: &mut Checker<'_>,
    ) -> Option<BackEndKind> {
        let is_action = self.command.is_some() || self.url.is_some() || self.url_file.is_some();
        let kinds = [
            is_action,
            self.unit.is_some(),
            self.container.is_some(),
            self.pterodactyl.is_some(),
        ];
        if kinds.iter().filter(|is_set| **is_set).count() != 1 {
            let text = format!(
                "{table}: exactly one is needed: command = [\"PROGRAM\", …], unit = \"NAME.service\", container = \"NAME\", pterodactyl = \"https://PANEL\", url = \"https://…\" or url-file = \"FILE\""
            );
            return checker.wrong(span, text);
        }
        self.check_companions(table, checker);
        if let Some(unit) = &self.unit {
            let is_user = self.user.as_ref().is_some_and(|user| *user.get_ref());
            return unit_name(table, unit, checker).map(|name| BackEndKind::Unit { name, is_user });
        }
        if let Some(container) = &self.container {
            return self.container(table, container, checker);
        }
        if let Some(panel) = &self.pterodactyl {
            return self.panel(table, panel, checker);
        }
        let keys = ActionKeys {
            command: self.command.as_ref(),
            url: self.url.as_ref(),
            url_file: self.url_file.as_ref(),
        };
        keys.action(table, span, checker).map(BackEndKind::Action)
    }

    /// Records a mistake for each key that belongs to another back end.
    fn check_companions(&self, table: &str, checker: &mut Checker<'_>) {
        let companions = [
            (
                "user",
                self.user.as_ref().map(Spanned::span),
                "unit",
                self.unit.is_some(),
            ),
            (
                "socket",
                self.socket.as_ref().map(Spanned::span),
                "container",
                self.container.is_some(),
            ),
            (
                "server",
                self.server.as_ref().map(Spanned::span),
                "pterodactyl",
                self.pterodactyl.is_some(),
            ),
            (
                "token-file",
                self.token_file.as_ref().map(Spanned::span),
                "pterodactyl",
                self.pterodactyl.is_some(),
            ),
        ];
        for (key, span, owner, has_owner) in companions {
            if let (Some(span), false) = (span, has_owner) {
                checker.wrong::<()>(&span, format!("{table}.{key}: only works with {owner}"));
            }
        }
    }

    fn container(
        &self,
        table: &str,
        container: &Spanned<String>,
        checker: &mut Checker<'_>,
    ) -> Option<BackEndKind> {
        if cfg!(not(unix)) {
            let text = format!("{table}.container: needs a Unix socket; write a command instead");
            return checker.wrong(&container.span(), text);
        }
        // Names that Docker permits: [a-zA-Z0-9][a-zA-Z0-9_.-]*
        let name = container.get_ref();
        if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) || !is_name(name, b"_.-")
        {
            let text = format!(
                "{table}.container: {name:?}: expected the name of a container: letters, digits, dots, hyphens and underscores"
            );
            return checker.wrong(&container.span(), text);
        }
        let socket = match &self.socket {
            Some(socket) => checker.folder.join(socket.get_ref()),
            None => DOCKER_SOCKET.into(),
        };
        Some(BackEndKind::Container {
            name: name.clone(),
            socket,
        })
    }

    fn panel(
        &self,
        table: &str,
        panel: &Spanned<String>,
        checker: &mut Checker<'_>,
    ) -> Option<BackEndKind> {
        let url = panel.get_ref().trim_end_matches('/');
        let has_more = url.contains(['?', '#', '@']) || url.ends_with("/api");
        if !is_http(url) || has_more {
            let text = format!(
                "{table}.pterodactyl: expected the address of the panel, such as \"https://panel.example.com\""
            );
            return checker.wrong(&panel.span(), text);
        }
        let (Some(server), Some(file)) = (&self.server, &self.token_file) else {
            let text = format!(
                "{table}.pterodactyl: needs server = \"ID\", as in the address of the server's page, and token-file = \"FILE\" with a key of the client API"
            );
            return checker.wrong(&panel.span(), text);
        };
        if !is_name(server.get_ref(), b"-") {
            let text = format!(
                "{table}.server: {:?}: expected the identifier of a server, such as \"1a7ce997\"",
                server.get_ref()
            );
            return checker.wrong(&server.span(), text);
        }
        let key = format!("{table}.token-file");
        let token = checker.token(&key, file, 1)?;
        if !token.reveal().bytes().all(|byte| byte.is_ascii_graphic()) {
            let text = format!("{key}: the token has characters that no key has");
            return checker.wrong(&file.span(), text);
        }
        Some(BackEndKind::Panel {
            url: url.to_owned(),
            server: server.get_ref().clone(),
            token,
        })
    }
}

/// Returns the name of a unit. Patterns and options are refused.
fn unit_name(table: &str, unit: &Spanned<String>, checker: &mut Checker<'_>) -> Option<String> {
    let name = unit.get_ref();
    if name.starts_with('-') || !is_name(name, b":-_.\\@") {
        let text =
            format!("{table}.unit: {name:?}: expected the name of a unit, such as \"mc.service\"");
        return checker.wrong(&unit.span(), text);
    }
    Some(name.clone())
}

/// Returns whether a name has letters, digits and the characters of `others` only.
fn is_name(name: &str, others: &[u8]) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::reader;
    use std::path::Path;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        start: Spanned<ControlInput>,
        stop: Option<Spanned<ControlInput>>,
    }

    /// Parses both keys. Returns the configuration, or the mistakes.
    fn parse(text: &str, folder: &Path) -> Result<ControlConfig, String> {
        let document = reader::read::<File>(text);
        let mut checker = Checker::new(folder, &document.lines, document.problems);
        let config = document
            .value
            .and_then(|file| control("server.door", &file.start, file.stop.as_ref(), &mut checker));
        let problems = checker.problems.iter();
        let problems: Vec<String> = problems.map(|problem| problem.text.clone()).collect();
        config
            .filter(|_| problems.is_empty())
            .ok_or(problems.join("\n"))
    }

    fn kind(text: &str) -> Result<BackEndKind, String> {
        parse(text, Path::new("/etc/hailer")).map(|config| config.start.kind)
    }

    #[test]
    fn back_ends_are_read() {
        let command = kind("start = { command = [\"./wake\", \"mc\"] }").unwrap();
        let words = ["/etc/hailer/./wake", "mc"].map(str::to_owned).into();
        assert_eq!(command, BackEndKind::Action(HookAction::Command(words)));
        let unit = kind("start = { unit = \"mc@survival.service\", user = true }").unwrap();
        let name = "mc@survival.service".to_owned();
        assert_eq!(
            unit,
            BackEndKind::Unit {
                name,
                is_user: true
            }
        );
        let webhook = kind("start = { url = \"https://example.com/wake\" }").unwrap();
        let action = HookAction::Webhook("https://example.com/wake".into());
        assert_eq!(webhook, BackEndKind::Action(action));
    }

    #[cfg(unix)]
    #[test]
    fn containers_have_a_socket() {
        for (text, socket) in [
            ("start = { container = \"mc\" }", "/var/run/docker.sock"),
            (
                "start = { container = \"mc\", socket = \"/run/podman/podman.sock\" }",
                "/run/podman/podman.sock",
            ),
        ] {
            let expected = BackEndKind::Container {
                name: "mc".to_owned(),
                socket: socket.into(),
            };
            assert_eq!(kind(text), Ok(expected));
        }
    }

    #[test]
    fn panels_need_a_server_and_a_token() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("hailer-panel-token-{}", std::process::id()));
        std::fs::write(&file, "ptlc_0123456789\n").unwrap();
        let text = format!(
            "start = {{ pterodactyl = \"https://panel.example.com/\", server = \"1a7ce997\", token-file = '{}', timeout = \"10s\" }}",
            file.display()
        );
        let config = parse(&text, &folder).unwrap();
        let expected = BackEndConfig {
            kind: BackEndKind::Panel {
                url: "https://panel.example.com".to_owned(),
                server: "1a7ce997".to_owned(),
                token: "ptlc_0123456789".into(),
            },
            timeout: Duration::from_secs(10),
        };
        assert_eq!(config.start, expected);
        assert_eq!(config.stop, Some(expected));
        std::fs::write(&file, "ptlc 01\r\n").unwrap();
        let problem = parse(&text, &folder).unwrap_err();
        assert!(problem.contains("characters that no key has") && !problem.contains("ptlc"));
        std::fs::remove_file(file).unwrap();
        let problem = kind("start = { pterodactyl = \"https://panel.example.com\" }").unwrap_err();
        assert!(problem.contains("needs server"), "{problem}");
    }

    #[test]
    fn only_some_back_ends_stop_without_a_key() {
        let folder = Path::new("/etc/hailer");
        let stop = |text: &str| parse(text, folder).unwrap().stop;
        assert_eq!(stop("start = { command = [\"wake\"] }"), None);
        assert!(stop("start = { unit = \"mc\" }").is_some());
        let both = "start = { unit = \"mc\" }\nstop = { command = [\"stop-mc\"] }";
        let words = vec!["stop-mc".to_owned()];
        let expected = BackEndKind::Action(HookAction::Command(words));
        assert_eq!(stop(both).unwrap().kind, expected);
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, problem) in [
            ("start = {}", "server.door.start: exactly one is needed"),
            (
                "start = { unit = \"mc\", container = \"mc\" }",
                "exactly one is needed",
            ),
            (
                "start = { unit = \"mc\", socket = \"/x\" }",
                "server.door.start.socket: only works with container",
            ),
            ("start = { unit = \"mc\", timeout = \"2h\" }", "at most 1h"),
            ("start = { command = [] }", "expected a program"),
            ("start = { command = [\"a\", \"\\u0000\"] }", "character 0"),
            (
                "start = { unit = \"mc\" }\nstop = { unit = \"-H\" }",
                "server.door.stop.unit: \"-H\"",
            ),
            ("start = { unit = \"*\" }", "name of a unit"),
            ("start = { unit = \"a b\" }", "name of a unit"),
            ("start = { unit = \"\" }", "name of a unit"),
            ("start = { url = \"mc.example.com\" }", "not a URL"),
            (
                "start = { pterodactyl = \"panel.example.com\" }",
                "address of the panel",
            ),
            (
                "start = { pterodactyl = \"https://a/api\" }",
                "address of the panel",
            ),
            (
                "start = { pterodactyl = \"https://a\", server = \"../x\", token-file = \"t\" }",
                "identifier of a server",
            ),
        ] {
            let found = kind(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
        if cfg!(unix) {
            for name in ["", "../x", "a/b", "a?t=0", ".a", "-a", "a\u{e9}", "a\\n"] {
                let found = kind(&format!("start = {{ container = \"{name}\" }}")).unwrap_err();
                assert!(found.contains("name of a container"), "{name}: {found}");
            }
        }
    }
}
