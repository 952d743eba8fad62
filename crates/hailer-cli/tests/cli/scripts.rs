//! The recipes of `docs/scripts.md`, as the page has them, with servers that are frozen, loading, empty
//! and full.

use crate::condition::{loading, with_players};
use crate::support::{Server, Stream, apart, closed, protocol};
use crate::tool::{Serve, Temporary, run};
use hailer::support::catalog;
use std::path::Path;
use std::process::Command;

/// Options that make queries short.
const SHORT: &str = "--retries 0 --timeout 300ms";

/// Returns the page.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripts.md");
    std::fs::read_to_string(path).unwrap()
}

/// Returns the only block of the page in this language that contains a text.
fn block(page: &str, language: &str, part: &str) -> String {
    let fence = format!("```{language}\n");
    let blocks = page
        .split(&fence)
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("```")?.0));
    let found: Vec<&str> = blocks.filter(|block| block.contains(part)).collect();
    assert_eq!(found.len(), 1, "{language}: {part}");
    found[0].to_owned()
}

/// Replaces texts that must occur.
fn replaced(block: &str, pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(block.to_owned(), |block, (from, to)| {
        assert!(block.contains(from), "{from}: {block}");
        block.replace(from, to)
    })
}

/// A folder with programs that write their arguments to a log.
struct Machine(Temporary);

impl Machine {
    fn new() -> Self {
        let folder = Temporary::path("machine");
        let root = Path::new(folder.text());
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hailer"), root.join("bin/hailer")).unwrap();
        for program in ["bin/systemctl", "update.sh", "backup.sh"] {
            let name = program.rsplit('/').next().unwrap();
            let log = root.join("log");
            let text = format!("#!/bin/sh\necho {name} \"$@\" >> {}\n", log.display());
            let path = root.join(program);
            std::fs::write(&path, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        }
        Self(folder)
    }

    /// Runs a block for at most this time. Returns its exit code, or 124 if it did not end, and the
    /// log.
    fn run(&self, block: &str, seconds: u32) -> (i32, Vec<String>) {
        let root = Path::new(self.0.text());
        let path = format!("{}:/usr/bin:/bin", root.join("bin").display());
        let output = Command::new("timeout")
            .args([&seconds.to_string(), "sh", "-c", block])
            .current_dir(root)
            .env("PATH", path)
            .output()
            .unwrap();
        let log = std::fs::read_to_string(root.join("log")).unwrap_or_default();
        let code = output.status.code().unwrap_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            panic!("{block}: {errors}")
        });
        (code, log.lines().map(str::to_owned).collect())
    }
}

/// Servers in four states, each with the target.
struct States {
    _servers: Vec<Server>,
    targets: [(&'static str, String); 4],
}

/// Starts a Rust server in each state. The loading one is a server of Satisfactory, which reports its state.
fn states() -> States {
    let of = |players| Server::of(&[protocol("a2s")], &with_players(players, 4));
    let servers = vec![Server::silent(), loading(), of(0), of(4)];
    let names = ["frozen", "loading", "empty", "full"];
    let target = |at: usize| {
        let game = if at == 1 { "satisfactory" } else { "rust" };
        (names[at], format!("{game}://{}", servers[at].address))
    };
    States {
        targets: [0, 1, 2, 3].map(target),
        _servers: servers,
    }
}

#[test]
fn only_an_empty_server_is_updated() {
    let block = block(&page(), "sh", "./update.sh");
    let states = states();
    std::thread::scope(|scope| {
        for (state, target) in &states.targets {
            let block = replaced(
                &block,
                &[
                    ("rust://192.0.2.7", target),
                    (
                        "--hold 5min",
                        &format!("--hold 300ms --every 100ms {SHORT}"),
                    ),
                    ("--for 2h", "--for 2s"),
                    ("--wait-ready 15min", "--wait-ready 5s --every 100ms"),
                ],
            );
            scope.spawn(move || {
                let (code, log) = Machine::new().run(&block, 20);
                if *state == "empty" {
                    let expected = [
                        "systemctl stop rust.service",
                        "update.sh",
                        "systemctl start rust.service",
                    ];
                    assert_eq!((code, log), (0, expected.map(str::to_owned).into()));
                } else {
                    assert_eq!((code, log), (3, Vec::new()), "{state}");
                }
            });
        }
    });
}

#[test]
fn a_backup_runs_only_on_an_empty_server() {
    let block = block(&page(), "sh", "./backup.sh");
    for (state, target) in &states().targets {
        let short = format!("{target} {SHORT}");
        let block = replaced(&block, &[("minecraft://192.0.2.7", &short)]);
        let (code, log) = Machine::new().run(&block, 20);
        let expected = if *state == "empty" { (0, 1) } else { (3, 0) };
        assert_eq!((code, log.len()), expected, "{state}: {log:?}");
    }
}

#[test]
fn the_watchdog_restarts_a_frozen_server_and_never_a_healthy_one() {
    let block = block(&page(), "sh", "while hailer");
    let states = states();
    // A name that cannot be looked up is no frozen server.
    let unknown = ("unknown", "rust://no-such-host.invalid".to_owned());
    std::thread::scope(|scope| {
        for (state, target) in states.targets.iter().chain([&unknown]) {
            let block = replaced(
                &block,
                &[
                    ("rust://127.0.0.1", target),
                    (
                        "--hold 3min",
                        &format!("--hold 400ms --every 100ms {SHORT}"),
                    ),
                    ("--wait-ready 20min", &format!("--wait-ready 200ms {SHORT}")),
                ],
            );
            scope.spawn(move || {
                let (code, log) = Machine::new().run(&block, 6);
                assert_eq!(code, 124, "{state}: it runs until it is stopped");
                let restarts = log.iter().filter(|line| line.contains("systemctl restart"));
                let restarts = restarts.count();
                assert_eq!(restarts > 0, *state == "frozen", "{state}: {log:?}");
            });
        }
    });
}

#[test]
fn health_checks_of_ten_games_tell_four_states() {
    let block = block(&page(), "dockerfile", "HEALTHCHECK");
    let commands: Vec<&str> = block
        .lines()
        .filter_map(|line| line.split_once(" CMD hailer "))
        .map(|(_, command)| command)
        .collect();
    assert_eq!((commands.len(), block.lines().count()), (10, 20));
    let mut protocols = Vec::new();
    for command in &commands {
        let id = command.split("://").next().unwrap();
        let game = catalog::game(id.rsplit(' ').next().unwrap()).unwrap();
        protocols.extend(["--protocol", game.protocols[0]]);
    }
    let serve = |players: &[&str]| {
        let first = ["--name", "House", "--max-players", "2"];
        let players = players.iter().flat_map(|name| ["--player", *name]);
        let args = first.into_iter().chain(protocols.clone()).chain(players);
        Serve::with(&args.collect::<Vec<&str>>())
    };
    let (empty, full) = (serve(&[]), serve(&["Alice", "Bob"]));
    // It receives and accepts, and never replies.
    let socket = apart();
    let frozen_stream = Stream::silent(socket.local_addr().unwrap());
    let frozen = Server::run(socket, |_, _, _| {});
    let loading = loading();
    std::thread::scope(|scope| {
        for command in &commands {
            // While other games load, their ports are closed.
            let starting = if command.contains("satisfactory://") {
                loading.address.to_string()
            } else {
                closed().to_string()
            };
            let states = [
                (empty.address(), 0),
                (full.address(), 0),
                (frozen_stream.address.to_string(), 3),
                (starting, 3),
            ];
            scope.spawn(move || {
                for (address, code) in states {
                    let command = command.replace("127.0.0.1", &address);
                    let words = command.split(' ').chain(SHORT.split(' '));
                    run(words).ends_with(code);
                }
            });
        }
    });
    drop(frozen);
}
