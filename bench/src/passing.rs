//! Datagrams per second through the relay: players, the relay and a game server on one machine.
//!
//! In: rounds and scale. Out: datagrams per second of CPU time of the relay.
//!
//! May import: `crate::host`, `crate::report`, `crate::respond`.

use crate::host;
use crate::report::{at_least, heading, median, range};
use crate::respond::Server;
use anyhow::{Context, ensure};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

/// Players, each with a session.
const PLAYERS: usize = 100;
/// Datagrams of a player in flight.
const WINDOW: usize = 4;
/// Length of all datagrams in bytes.
const LENGTH: usize = 100;
/// Timeout after which a player sends again.
const SILENCE: Duration = Duration::from_millis(100);
/// Datagrams per second that one core is to pass on.
const TARGET: f64 = 50_000.0;

/// A player, and when it last received something.
struct Player(UdpSocket, Instant);

impl Player {
    fn new(port: u16) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket, Instant::now() - SILENCE))
    }

    /// Receives all replies, and sends as many datagrams. Returns their number.
    fn play(&mut self, now: Instant) -> anyhow::Result<usize> {
        let mut buffer = [0; 2 * LENGTH];
        let mut received = 0;
        loop {
            match self.0.recv(&mut buffer) {
                Ok(length) => {
                    ensure!(length == LENGTH, "a reply of {length} bytes");
                    received += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let mut wanted = received;
        if received > 0 {
            self.1 = now;
        } else if now.saturating_duration_since(self.1) >= SILENCE {
            self.1 = now;
            wanted = WINDOW;
        }
        for _ in 0..wanted {
            // Without room in the send queue, the player sends again after its timeout.
            let _ = self.0.send(&[7; LENGTH]);
        }
        Ok(received)
    }
}

/// Measures the relay for `rounds` times 3 s, times the scale.
pub(crate) fn passing(rounds: usize, scale: f64) -> anyhow::Result<()> {
    heading("datagrams through the relay, both ways, for each second of its CPU time");
    let path = std::env::temp_dir().join(format!("hailer-bench-{}", std::process::id()));
    std::fs::write(&path, [8; LENGTH])?;
    let reply = path.to_str().context("a path in UTF-8")?;
    let game = Server::start(&["raw", "--reply", reply])?;
    let behind = format!("127.0.0.1:{}", game.port);
    let relay = Server::start(&["pool", "--relay", &behind]);
    std::fs::remove_file(&path)?;
    let relay = relay?;
    let players = (0..PLAYERS).map(|_| Player::new(relay.port));
    let mut players = players.collect::<anyhow::Result<Vec<_>>>()?;
    let time = Duration::from_secs_f64(3.0 * scale.max(0.05));
    let mut of_cpu = Vec::new();
    let mut of_wall = Vec::new();
    for round in 0..=rounds {
        let cpu = || host::cpu_of(relay.pid()).context("/proc/PID/stat");
        let before = cpu()?;
        let started = Instant::now();
        let mut received = 0;
        while started.elapsed() < time {
            let now = Instant::now();
            for player in &mut players {
                received += player.play(now)?;
            }
        }
        let used = cpu()? - before;
        let wall = started.elapsed().as_secs_f64();
        // Each reply is one datagram to the game, and one back. The first round opens the sessions.
        let passed = 2.0 * received as f64;
        ensure!(received > 0, "no reply through the relay");
        if round > 0 {
            of_cpu.push(passed / used.max(1e-3));
            of_wall.push(passed / wall);
        }
    }
    println!(
        "  {PLAYERS} players, {LENGTH} bytes: {:.0} datagrams/s, with players and game on the same cores",
        median(of_wall)
    );
    let rate = median(of_cpu.clone());
    at_least(
        "datagrams for each second of CPU, of 50,000",
        rate / TARGET,
        1.0,
        &range(of_cpu.iter().copied()),
    );
    println!("  {rate:.0} datagrams for each second of CPU");
    drop((relay, game));
    Ok(())
}
