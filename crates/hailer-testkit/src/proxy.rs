//! A proxy in front of a database that stops passing bytes at a chosen moment, as a frozen process
//! or a cut network does.
//!
//! In: connections of a client. Out: forwarded bytes, until the chosen moment.
//!
//! May import: nothing of this workspace.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Forwards TCP connections to a Unix socket. Ends with the process.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    moment: Mutex<Moment>,
    changed: Condvar,
}

#[derive(Default)]
struct Moment {
    /// Messages of the client that still pass. `None`: all.
    left: Option<usize>,
    /// Whether the message after these passes too, and only its reply does not.
    passes_last: bool,
    /// Only messages that contain these bytes count.
    pattern: Vec<u8>,
    is_frozen: bool,
}

impl State {
    /// Returns whether a message of the client passes. Waits if the proxy is frozen.
    fn pass(&self, message: &[u8]) {
        let mut moment = self.moment.lock().unwrap();
        let counts = moment.pattern.is_empty()
            || message
                .windows(moment.pattern.len())
                .any(|part| part == moment.pattern);
        if let (Some(left), true, false) = (moment.left, counts, moment.is_frozen) {
            moment.left = left.checked_sub(1);
            if left == 0 {
                moment.is_frozen = true;
                self.changed.notify_all();
                if moment.passes_last {
                    return;
                }
            }
        }
        drop(moment);
        self.wait();
    }

    /// Waits while the proxy is frozen.
    fn wait(&self) {
        let moment = self.moment.lock().unwrap();
        drop(
            self.changed
                .wait_while(moment, |moment| moment.is_frozen)
                .unwrap(),
        );
    }
}

impl Proxy {
    /// Starts a proxy to a Unix socket.
    pub fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<State> = Arc::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                connect(client, &socket, &shared);
            }
        });
        Self { port, state }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Freezes at a message of a client, after `count` others. If `passes` is set, the message still
    /// arrives, and only the reply does not.
    pub fn freeze_at(&self, count: usize, passes: bool, pattern: &str) {
        let mut moment = self.state.moment.lock().unwrap();
        moment.left = Some(count);
        moment.passes_last = passes;
        moment.pattern = pattern.into();
    }

    /// Freezes immediately.
    pub fn freeze(&self) {
        self.state.moment.lock().unwrap().is_frozen = true;
    }

    /// Passes bytes again.
    pub fn thaw(&self) {
        *self.state.moment.lock().unwrap() = Moment::default();
        self.state.changed.notify_all();
    }

    pub fn is_frozen(&self) -> bool {
        self.state.moment.lock().unwrap().is_frozen
    }

    /// Waits until the proxy is frozen. Returns `false` if it is not within this time.
    pub fn wait_frozen(&self, within: Duration) -> bool {
        let moment = self.state.moment.lock().unwrap();
        let wait = self
            .state
            .changed
            .wait_timeout_while(moment, within, |moment| !moment.is_frozen);
        !wait.unwrap().1.timed_out()
    }
}

fn connect(client: TcpStream, socket: &Path, state: &Arc<State>) {
    let Ok(server) = UnixStream::connect(socket) else {
        return;
    };
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    let shared = state.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 20];
        while let Ok(count @ 1..) = from_client.read(&mut bytes) {
            shared.pass(&bytes[..count]);
            if to_server.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        shared.wait();
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client);
    let shared = state.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut bytes) {
            shared.wait();
            if to_client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        shared.wait();
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
