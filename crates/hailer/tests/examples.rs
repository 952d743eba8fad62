//! Runs each example as its first lines describe.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Returns the command of an example. Cargo builds a package's examples before it runs the tests,
/// in the directory next to theirs.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let folder: PathBuf = tests.ancestors().nth(2).unwrap().join("examples");
    Command::new(
        folder
            .join(name)
            .with_extension(std::env::consts::EXE_EXTENSION),
    )
}

/// A process that is killed when the test ends, even by a panic.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the example `answer`. Returns it with its address.
fn answering() -> (Running, String) {
    let mut server = Running(
        example("answer")
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().strip_prefix("answering on ").unwrap();
    (server, address.into())
}

#[test]
fn ask_queries_the_server_of_answer() {
    let (_server, address) = answering();
    for scheme in ["minecraft-query", "ugp", "onequery"] {
        let output = example("ask")
            .arg(format!("{scheme}://{address}"))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "My server: 1 of 10 players\n  Alice\n"
        );
    }
}

#[test]
fn sweep_example_queries_a_game_that_it_adds() {
    let (_server, address) = answering();
    let output = example("sweep")
        .arg(format!("harbour-wars://{address}"))
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("ugp {address}: My server\n1 of 1 probes answered\n")
    );
}

#[test]
fn custom_protocol_example_answers_queries() {
    let output = example("add_a_protocol").output().unwrap();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with("The first of its kind says: 3 of 8 players\n")
    );
}
