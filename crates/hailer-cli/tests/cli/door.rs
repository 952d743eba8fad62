//! Doors of `hailer serve`: the real binary before a simulated game, which is another
//! `hailer serve`. The game reads its number of players from a file, and its kick shows that a join
//! arrived.

use crate::tool::{Process, Temporary, command, run};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longest wait for a state. Machines that run tests may be busy.
const WAIT: Duration = Duration::from_secs(30);
/// Text with which the game ends a join.
pub(crate) const ARRIVED: &str = "This is the game itself";

/// Returns a port that was free a moment ago, over TCP and UDP.
pub(crate) fn free_port() -> u16 {
    loop {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = stream.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A folder with a simulated game, and the door before it.
pub(crate) struct House {
    pub(crate) folder: Temporary,
    pub(crate) game: u16,
    pub(crate) port: u16,
    /// PATH of the door, if it is not that of the test.
    pub(crate) path_variable: Option<String>,
    door: Option<Process>,
    /// How often the door was opened.
    opened: usize,
    log: Arc<Mutex<Vec<String>>>,
}

impl House {
    /// Creates the game and the file of the door. `keys` are the keys of its table.
    pub(crate) fn new(keys: &str) -> Self {
        let folder = Temporary::path("door");
        std::fs::create_dir_all(&folder).unwrap();
        let house = Self {
            folder,
            game: free_port(),
            port: free_port(),
            path_variable: None,
            door: None,
            opened: 0,
            log: Arc::default(),
        };
        house.set_players(0);
        house.set_game("minecraft-status");
        // The game outlives the command that starts it, and the door.
        let binary = env!("CARGO_BIN_EXE_hailer");
        house.write(
            "start",
            &format!(
                "#!/bin/sh\ncd {}\necho start >> calls\n\
                 {binary} serve --config game.toml --control off </dev/null >game.out 2>&1 &\n\
                 echo $! > pid\n",
                house.path().display()
            ),
        );
        house.write(
            "stop",
            &format!(
                "#!/bin/sh\ncd {}\necho stop >> calls\nkill $(cat pid)\n",
                house.path().display()
            ),
        );
        house.configure(keys);
        house
    }

    fn path(&self) -> &Path {
        self.folder.as_ref()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    /// Chooses the protocol of the game.
    pub(crate) fn set_game(&self, protocol: &str) {
        let mut text = format!(
            "[[server]]\nlisten = \"{protocol}=127.0.0.1:{}\"\nsource.file = \"status.json\"\n",
            self.game
        );
        if protocol == "minecraft-status" {
            writeln!(
                text,
                "options.minecraft-status = {{ kick = \"{ARRIVED}\" }}"
            )
            .unwrap();
        }
        self.write("game.toml", &text);
    }

    /// Writes the whole file of the door.
    pub(crate) fn set_configuration(&self, text: &str) {
        self.write("door.toml", text);
    }

    /// Writes the file of the door.
    pub(crate) fn configure(&self, keys: &str) {
        let mut text = format!(
            "[[server]]\nlisten = \"minecraft-status=127.0.0.1:{}\"\n[server.door]\n\
             game = \"127.0.0.1:{}\"\nstate-file = \"door.json\"\n",
            self.port, self.game
        );
        for (key, script) in [("start", "start"), ("stop", "stop")] {
            let mut lines = keys.lines();
            if !lines.any(|line| line.starts_with(&format!("{key} ="))) {
                writeln!(text, "{key} = {{ command = [\"sh\", \"{script}\"] }}").unwrap();
            }
        }
        self.write("door.toml", &(text + keys));
    }

    /// Sets the number of players that the game reports.
    pub(crate) fn set_players(&self, online: u32) {
        let status = format!(
            "{{\"motd\":\"\u{A7}aThe real server\",\"version\":\"1.20.1\",\"extra\":{{\"protocol\":763}},\
             \"players\":{{\"online\":{online},\"max\":77}}}}"
        );
        let new = self.file("status.new");
        std::fs::write(&new, status).unwrap();
        std::fs::rename(new, self.file("status.json")).unwrap();
    }

    /// Starts the door, and collects its log.
    pub(crate) fn open(&mut self) {
        let mut command = command(["serve", "--config", "door.toml", "--control", "off"]);
        command.current_dir(self.path());
        if let Some(path) = &self.path_variable {
            command.env("PATH", path);
        }
        self.start(&mut command);
    }

    /// Starts the door with the control socket of its file.
    pub(crate) fn open_with_control(&mut self) {
        let mut command = command(["serve", "--config", "door.toml"]);
        command.current_dir(self.path());
        self.start(&mut command);
    }

    /// Runs the script that starts or stops the game.
    pub(crate) fn script(folder: &Path, name: &str) {
        let mut script = std::process::Command::new("sh");
        let status = script.arg(folder.join(name)).status().unwrap();
        assert!(status.success());
    }

    fn start(&mut self, command: &mut std::process::Command) {
        let mut door = Process::start(command);
        let log = self.log.clone();
        let lines = BufReader::new(door.child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                log.lock().unwrap().push(line);
            }
        });
        self.door = Some(door);
        // The door logs this line once for each start.
        self.wait_for("Ctrl-C stops", self.opened);
        self.opened += 1;
    }

    /// Kills the door. The game does not change.
    pub(crate) fn kill(&mut self) {
        let door = self.door.take().unwrap();
        door.signal("KILL");
        drop(door);
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Returns the status that the door shows.
    pub(crate) fn status(&self) -> Value {
        let target = format!("minecraft-status://127.0.0.1:{}", self.port);
        let shown = run(["query", "--json", "--timeout", "5s", &target]).ends_with(0);
        shown.json().swap_remove(0)["status"].take()
    }

    pub(crate) fn motd(&self) -> String {
        let status = self.status();
        status["motd"]["plain"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Joins as a client of 1.20.1. Returns the data that the server sent before it closed the
    /// connection.
    pub(crate) fn join(&self, name: &str) -> String {
        join(self.port, name)
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, mut is_done: impl FnMut() -> bool) {
        let end = Instant::now() + WAIT;
        while !is_done() {
            assert!(Instant::now() < end, "not {what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for a line of the log after `count` earlier ones like it.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str, count: usize) {
        self.wait(text, || self.log().matches(text).count() > count);
    }

    /// Returns how often a script ran.
    pub(crate) fn calls(&self, script: &str) -> usize {
        let calls = std::fs::read_to_string(self.file("calls")).unwrap_or_default();
        calls.lines().filter(|line| *line == script).count()
    }

    /// Sends a signal to the game, if it runs.
    pub(crate) fn signal_game(&self, signal: &str) {
        let Ok(pid) = std::fs::read_to_string(self.file("pid")) else {
            return;
        };
        let mut kill = std::process::Command::new("kill");
        kill.args(["-s", signal, pid.trim()]);
        let _ = kill.stderr(std::process::Stdio::null()).status();
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.door = None;
        self.signal_game("KILL");
    }
}

/// Joins as a client of 1.20.1. Returns the data that the server sent before it closed the
/// connection.
pub(crate) fn join(port: u16, name: &str) -> String {
    join_host(port, "localhost", name)
}

/// Joins as [`join`], at a host that the player typed.
pub(crate) fn join_host(port: u16, host: &str, name: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let mut login = vec![host.len() as u8 + 7, 0x00, 0xFB, 0x05, host.len() as u8];
    login.extend_from_slice(host.as_bytes());
    login.extend_from_slice(b"\x63\xDD\x02");
    let name = name.as_bytes();
    login.extend([name.len() as u8 + 2, 0, name.len() as u8]);
    login.extend_from_slice(name);
    stream.write_all(&login).unwrap();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    String::from_utf8_lossy(&received).into_owned()
}

/// Keys that start and stop the game.
pub(crate) const SCRIPTS: &str =
    "start = { command = [\"sh\", \"start\"] }\nstop = { command = [\"sh\", \"stop\"] }";

/// Keys for games that start and stop within a second.
const FAST: &str = "idle = \"1s\"\nmin-uptime = \"0s\"\nevery = \"300ms\"\nstarts-per-hour = { per-source = 3600, total = 3600 }\n";

#[test]
fn a_game_wakes_on_a_join_and_sleeps_when_it_is_empty() {
    let mut house = House::new(FAST);
    house.open();
    house.wait_for("asleep", 0);
    assert_eq!(house.motd(), "Asleep. Join to wake it up.");
    // Statuses, half connections and the start of a join wake nothing.
    for _ in 0..50 {
        house.motd();
    }
    for start in [
        &b"\x10\x00"[..],
        b"\x10\x00\xFB\x05\x09localhost\x63\xDD\x02",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", house.port)).unwrap();
        stream.write_all(start).unwrap();
    }
    assert_eq!(house.calls("start"), 0);

    // The join is held until the game runs, and arrives.
    let kick = house.join("Alice");
    assert!(kick.contains(ARRIVED), "{kick:?}: {}", house.log());
    assert_eq!(house.calls("start"), 1);
    house.set_players(3);
    house.wait("the status of the game", || {
        house.status()["players"]["online"] == 3
    });
    let status = house.status();
    assert_eq!(status["motd"]["plain"], "The real server");
    assert_eq!(status["version"], "1.20.1");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(
        house.calls("stop"),
        0,
        "a player is online: {}",
        house.log()
    );

    house.set_players(0);
    house.wait_for("asleep after", 0);
    assert_eq!(house.calls("stop"), 1);
    assert!(TcpStream::connect(("127.0.0.1", house.game)).is_err());
    let status = house.status();
    assert_eq!(
        status["motd"]["plain"],
        "The real server\nAsleep. Join to wake it up."
    );
    assert_eq!(
        (&status["version"], &status["players"]["max"]),
        (&"1.20.1".into(), &77.into())
    );
    assert_eq!(status["extra"]["protocol"], 763, "{status}");
    let log = house.log();
    let story = [
        "starting: \"Alice\" at 127.0.0.1:",
        "running after ",
        "stopping: no players for 1 s",
        "asleep after ",
    ];
    let places: Vec<_> = story.iter().map(|line| log.find(line)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{log}"
    );
}

#[test]
fn every_join_arrives_in_cycle_after_cycle() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let cycles = number("HAILER_DOOR_CYCLES", 4);
    let joins = number("HAILER_DOOR_JOINS", 20);
    let mut house = House::new(FAST);
    house.open();
    for cycle in 0..cycles {
        if cycle > 0 {
            house.wait_for("asleep after", cycle - 1);
        }
        let port = house.port;
        let join = |number| move || join(port, &format!("Player{number}"));
        let clients: Vec<_> = (0..joins)
            .map(|number| std::thread::spawn(join(number)))
            .collect();
        for client in clients {
            let kick = client.join().unwrap();
            assert!(kick.contains(ARRIVED), "{cycle}: {kick:?}: {}", house.log());
        }
    }
    assert_eq!(house.calls("start"), cycles);
}

#[test]
fn a_killed_door_finds_its_game_running_and_knows_its_past() {
    let mut house = House::new(FAST);
    house.open();
    assert!(house.join("Alice").contains(ARRIVED));
    house.set_players(1);
    house.wait("a player", || house.status()["players"]["online"] == 1);
    house.kill();
    assert!(
        join(house.game, "Bob").contains(ARRIVED),
        "the game runs on"
    );
    house.open();
    assert!(house.join("Carol").contains(ARRIVED));
    house.wait_for("running: another program started it", 0);
    assert_eq!(house.calls("start"), 1);
    house.set_players(0);
    house.wait_for("asleep after", 0);
    house.kill();
    // The version of the last running game, after a restart.
    house.open();
    assert_eq!(house.status()["version"], "1.20.1");
    assert!(house.motd().starts_with("The real server\n"));
}

#[test]
fn a_killed_game_is_a_crash() {
    let mut house = House::new(&FAST.replace("idle", "restart = \"on-crash\"\nidle"));
    house.open();
    assert!(house.join("Alice").contains(ARRIVED));
    house.set_players(1);
    house.wait("a player", || house.status()["players"]["online"] == 1);
    house.signal_game("KILL");
    house.wait_for("failed: the game ended by itself", 0);
    assert_eq!(house.motd(), "The real server\nNot running.");
    let kick = house.join("Bob");
    assert!(
        kick.contains("not running") || kick.contains(ARRIVED),
        "{kick:?}"
    );
    // The pause of 10 s is over.
    house.wait_for("the pause after the crash is over", 0);
    house.wait_for("running after", 1);
    assert!(house.join("Bob").contains(ARRIVED));
    assert_eq!(house.calls("start"), 2);
}

#[test]
fn a_failed_start_is_explained_and_a_reload_keeps_the_state() {
    let mut house = House::new(&format!(
        "{FAST}start = {{ command = [\"sh\", \"-c\", \"echo no disk >&2; exit 3\"] }}"
    ));
    house.open();
    house.wait_for("asleep", 0);
    let kick = house.join("Alice");
    assert!(
        kick.contains("not running. Try again in "),
        "{kick:?}: {}",
        house.log()
    );
    assert!(
        house.log().contains("the start failed: ") && house.log().contains("no disk"),
        "{}",
        house.log()
    );
    // Another way to start, without a restart of the door. Its pause continues.
    house.configure(FAST);
    house.door.as_ref().unwrap().signal("HUP");
    house.wait_for("configuration reloaded", 0);
    assert!(house.motd().contains("Not running"));
    house.wait("the pause to end", || house.join("Alice").contains(ARRIVED));
    assert_eq!(house.calls("start"), 1);
    // A reload while it runs changes nothing.
    house.set_players(1);
    house.wait("a player", || house.status()["players"]["online"] == 1);
    house.configure(&FAST.replace("idle = \"1s\"", "idle = \"2s\""));
    house.door.as_ref().unwrap().signal("HUP");
    house.wait_for("configuration reloaded", 1);
    assert_eq!(house.motd(), "The real server");
    house.set_players(0);
    house.wait_for("stopping: no players for 2 s", 0);
    house.wait_for("asleep after", 0);
}

#[test]
fn a_door_ends_with_its_process_only() {
    let mut house = House::new(FAST);
    house.open();
    assert!(house.join("Alice").contains(ARRIVED));
    house.set_players(1);
    house.door.as_ref().unwrap().signal("TERM");
    let status = house.door.take().unwrap().wait();
    assert_eq!(status.code(), Some(0));
    assert!(
        join(house.game, "Bob").contains(ARRIVED),
        "the game runs on"
    );
    assert_eq!(house.calls("stop"), 0);
}
