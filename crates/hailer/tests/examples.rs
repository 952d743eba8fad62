//! The examples are programs: each is run as its first lines say.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Cargo builds the examples of a package before it runs its tests, into the folder next to theirs.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let folder: PathBuf = tests.ancestors().nth(2).unwrap().join("examples");
    Command::new(
        folder
            .join(name)
            .with_extension(std::env::consts::EXE_EXTENSION),
    )
}

/// Ended with the test, also when that panics.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ask_queries_the_server_of_answer() {
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
    for scheme in ["minecraft-query", "ugp", "onequery"] {
        let asked = example("ask")
            .arg(format!("{scheme}://{address}"))
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(asked.stdout).unwrap(),
            "My server: 1 of 10 players\n  Alice\n"
        );
    }
}

#[test]
fn a_protocol_in_one_file_works() {
    let output = example("add_a_protocol").output().unwrap();
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with("The first of its kind says: 3 of 8 players\n")
    );
}
