//! A real Redis for one test, on a free port of loopback. Stopped on drop.
//!
//! In: options. Out: the URL of a running server.
//!
//! May import: nothing of this workspace.

use ::redis::{Commands, Connection, RedisResult, Value};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
    options: Vec<String>,
}

/// Returns whether Redis is installed. Panics if it is required and missing.
pub fn is_installed() -> bool {
    let found = Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    let needed = std::env::var_os("HAILER_NEEDS_REDIS").is_some();
    assert!(
        found || !needed,
        "redis-server is not installed; on Debian: apt-get install redis-server"
    );
    if !found {
        eprintln!("skipped: redis-server is not installed");
    }
    found
}

pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Server {
    /// Reserves a free port without starting Redis.
    pub fn absent(options: &[&str]) -> Self {
        let port = free_port();
        let folder =
            std::env::temp_dir().join(format!("hailer-redis-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self {
            child: None,
            port,
            folder,
            options: options.iter().map(|option| (*option).into()).collect(),
        }
    }

    pub fn start() -> Self {
        let mut server = Self::absent(&[]);
        server.run();
        server
    }

    /// Starts Redis with an empty database.
    pub fn run(&mut self) {
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &self.port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command
            .arg("--dir")
            .arg(&self.folder)
            .args(&self.options)
            .stdout(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Freezes Redis: it neither replies nor refuses, like a network that drops everything.
    pub fn freeze(&self, frozen: bool) {
        let signal = if frozen { "-STOP" } else { "-CONT" };
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn raw(&self) -> Raw {
        Raw::connect(&self.url())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Plain commands, to inspect the keys and to write them as the reference implementation does.
pub struct Raw(pub Connection);

pub const PREFIX: &str = "onequery:network:{default}:";

impl Raw {
    pub fn connect(url: &str) -> Self {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match ::redis::Client::open(url).unwrap().get_connection() {
                Ok(connection) => return Self(connection),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs a command. Arguments are separated by blanks; `@` stands for the prefix, `~` for a
    /// blank.
    pub fn run<T: ::redis::FromRedisValue>(&mut self, command: &str) -> T {
        self.attempt(command)
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub fn attempt<T: ::redis::FromRedisValue>(&mut self, command: &str) -> RedisResult<T> {
        let mut words = command
            .split(' ')
            .map(|word| word.replace('@', PREFIX).replace('~', " "));
        let mut cmd = ::redis::cmd(&words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        cmd.query(&mut self.0)
    }

    /// Returns the JSON of all events.
    pub fn events(&mut self) -> Vec<serde_json::Value> {
        let entries: Vec<(String, Vec<String>)> = self.run("XRANGE @events - +");
        let data = entries.into_iter().map(|(_, fields)| {
            assert_eq!((fields.len(), &*fields[0]), (2, "data"));
            fields[1].clone()
        });
        data.filter_map(|data| serde_json::from_str(&data).ok())
            .collect()
    }

    /// Writes what the reference implementation writes at its start and with each heartbeat.
    pub fn register(&mut self, id: &str, players: usize) {
        let now = now();
        self.run::<Value>(&format!(
            "HSET @server:{id} serverName Server~{id} playerCount {players} maxPlayers 40 port 5521 lastHeartbeat {now}"
        ));
        self.run::<Value>(&format!("EXPIRE @server:{id} 90"));
        self.run::<Value>(&format!("SADD @servers {id}"));
        self.event(&format!(
            r#"{{"serverName":"Server {id}","type":"server_online","serverId":"{id}"}}"#
        ));
    }

    pub fn event(&mut self, data: &str) {
        let key = format!("{PREFIX}events");
        ::redis::cmd("XADD")
            .arg(key)
            .arg("*")
            .arg("data")
            .arg(data)
            .query::<Value>(&mut self.0)
            .unwrap();
    }

    /// Writes an entry of a players hash without changes to its JSON.
    pub fn entry(&mut self, id: &str, uuid: &str, json: &str) {
        let _: Value = self
            .0
            .hset(format!("{PREFIX}server:{id}:players"), uuid, json)
            .unwrap();
    }
}

pub fn now() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis()
}
