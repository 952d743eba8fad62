//! Runs each example as its first lines describe.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// Starts an example that answers at its first argument. Returns it with its address.
fn answering(name: &str, address: &str) -> (Running, String) {
    let mut server = Running(
        example(name)
            .arg(address)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().strip_prefix("answering on ").unwrap();
    (server, address.trim_matches(['[', ']']).into())
}

/// Runs an example to its end and returns what it printed.
fn output(name: &str, arguments: &[&str]) -> String {
    let output = example(name).args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn query_prints_the_players_of_answer() {
    let (_server, address) = answering("answer", "127.0.0.1:0");
    for scheme in ["minecraft-query", "ugp", "onequery"] {
        let target = format!("{scheme}://{address}");
        assert_eq!(
            output("query", &[&target]),
            "My server: 1 players\n  Alice\n"
        );
    }
}

#[test]
fn short_examples_query_the_server_of_serve() {
    let (_server, address) = answering("serve", "127.0.0.1:0");
    let ugp = format!("ugp://{address}");
    // The status is published after the address was printed.
    let deadline = Instant::now() + Duration::from_secs(30);
    while !output("query", &[&ugp]).starts_with("My server") {
        assert!(Instant::now() < deadline, "no status");
    }
    let expected = format!("{ugp}: 1 players\n");
    for name in ["many", "blocking"] {
        assert_eq!(output(name, &[&ugp]), expected, "{name}");
    }
    assert_eq!(
        output("sweep", &[&ugp]),
        format!("{address}: 1 players\n1 of 1 probes answered\n")
    );
    let game = format!("harbour-wars://{address}");
    assert_eq!(output("own_game", &[&game]), "1 players\n");
}

#[test]
fn own_protocol_example_reads_a_reply() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = format!("who://{}", socket.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let mut request = [0; 16];
        let (length, from) = socket.recv_from(&mut request).unwrap();
        assert_eq!(&request[..length], b"WHO?");
        socket.send_to(b"HERE\x03", from).unwrap();
    });
    assert_eq!(output("own_protocol", &[&target]), "3 players\n");
    answer.join().unwrap();
}

#[test]
fn custom_protocol_example_answers_queries() {
    assert!(
        output("add_a_protocol", &[]).starts_with("The first of its kind says: 3 of 8 players\n")
    );
}

/// The programs of the guide and of the front page.
const PROGRAMS: [&str; 7] = [
    "query",
    "many",
    "sweep",
    "serve",
    "own_game",
    "own_protocol",
    "blocking",
];

/// Returns the code blocks of a text with this info string.
fn blocks(text: &str, info: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == format!("```{info}")) {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

#[test]
fn guide_and_front_page_have_the_short_examples() {
    let read = |path: &str| {
        let folder = env!("CARGO_MANIFEST_DIR");
        std::fs::read_to_string(format!("{folder}/{path}")).unwrap()
    };
    let programs = PROGRAMS.map(|name| {
        let text = read(&format!("examples/{name}.rs"));
        let code: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("//!"))
            .collect();
        let count = code.iter().filter(|line| !line.is_empty()).count();
        assert!(count <= 15, "{name}: {count} lines");
        code.join("\n").trim().to_owned()
    });
    assert_eq!(blocks(&read("../../docs/library.md"), "rust"), programs);
    let page = read("src/lib.rs");
    let page = page.lines().map_while(|line| line.strip_prefix("//!"));
    let page: Vec<&str> = page
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    assert_eq!(blocks(&page.join("\n"), "no_run"), programs);
}
