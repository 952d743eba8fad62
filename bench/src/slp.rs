//! Status pings of Minecraft over TCP: a bare loop of system calls that the sweep is compared with,
//! and the server of both.

use crate::figures::Figures;
use crate::game::{Game, ip};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use hailer::Status;
use hailer::proto::Icon;
use hailer::proto::testing::memory::Server as MemoryServer;
use hailer::proto::{Epoch, Keys, Options};
use hailer::proto::{Player, Text};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, connect,
    connect_unspec, getsockname, listen, recv, send, socket_with, sockopt,
};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Players in the sample of a reply.
const PLAYERS: usize = 8;
/// Bytes of an icon, so that a reply has about 1 KiB.
const ICON_BYTES: usize = 160;
/// Different replies of the server.
const VARIANTS: u64 = 256;
/// Listening sockets of the server on one port. Each has a queue of connections, which the system
/// limits to 4,096.
const LISTENERS: u64 = 8;
/// First token of the listeners. Lower ones are connections.
const FIRST_LISTENER: u64 = 1 << 32;
/// Events of one call.
const MAX_EVENTS: usize = 512;
/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Timeout of a target of the bare loop. There are no retries.
const TIMEOUT: Duration = Duration::from_secs(1);
/// As for datagrams: much longer than a connection takes, and too short for a queue to overflow.
const NAP: Duration = Duration::from_micros(50);

/// How the client closes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Close {
    /// With RST, and the socket is reused.
    Reset,
    /// With FIN, and each connection has a new socket.
    Fin,
}

/// Returns the replies of the server to the request of a client.
pub(crate) fn replies(request: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let protocol = Game::Slp.protocol();
    let from = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut replies = Vec::new();
    for seed in 0..VARIANTS {
        let responder =
            protocol.responder(&status(seed), &Keys::new([7; 16]), &Options::default())?;
        let mut server = MemoryServer::new(&*responder, from, Epoch(1));
        replies.push(server.request(request).pop().context("a reply")?);
    }
    Ok(replies)
}

fn status(seed: u64) -> Status {
    let mut status = Game::Slp.protocol().sample(seed);
    let player = |i: usize| Player {
        uuid: Some([i as u8 + 1; 16]),
        ..Player::named(Text::unformatted(format!("player_{seed}_{i}")))
    };
    status.players.online = Some(PLAYERS as i64);
    status
        .players
        .set_sample((0..PLAYERS).map(player).collect());
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.resize(ICON_BYTES, seed as u8);
    status.icon = Icon::from_png(&png).ok();
    status
}

/// Returns how many bytes a reply has, once its length is known. `None` if it is no status.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    let mut length = 0_usize;
    let mut at = 0;
    loop {
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7F) << (7 * at);
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if at == 3 {
            return None;
        }
    }
    (bytes.get(at) == Some(&0)).then_some(at + length)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Connecting,
    Sent,
}

/// A socket of the bare loop.
struct Slot {
    socket: Option<OwnedFd>,
    state: State,
    target: u32,
    received: usize,
    length: usize,
}

/// Options of the bare loop.
pub(crate) struct BareConfig {
    pub(crate) close: Close,
    pub(crate) targets: u32,
    pub(crate) window: u32,
    /// Port of each target.
    pub(crate) port: u16,
    /// Port of the targets that do not reply, and which ones they are.
    pub(crate) dead: Option<(u16, f64)>,
}

/// The bare loop: one event queue, a fixed window of non-blocking sockets, one write and one read
/// for each target. Replies are checked by length and packet id, but not decoded.
struct BareLoop<'a> {
    config: &'a BareConfig,
    request: Vec<u8>,
    queue: OwnedFd,
    slots: Vec<Slot>,
    idle: Vec<u32>,
    buffer: Vec<u8>,
    /// When each connection times out, its slot and its target.
    timeouts: VecDeque<(Instant, u32, u32)>,
    /// First target that was not started.
    next: u32,
    in_flight: u32,
    completed: u64,
    silent: u64,
}

pub(crate) fn bare_loop(config: &BareConfig) -> anyhow::Result<Figures> {
    let mut run = BareLoop {
        config,
        request: Game::Slp.opening(),
        queue: epoll::create(CreateFlags::CLOEXEC)?,
        slots: Vec::new(),
        idle: Vec::new(),
        buffer: vec![0; READ_BYTES],
        timeouts: VecDeque::new(),
        next: 0,
        in_flight: 0,
        completed: 0,
        silent: 0,
    };
    let mut events = [empty_event(); MAX_EVENTS];
    while run.next < config.targets || run.in_flight > 0 {
        while run.next < config.targets && run.in_flight < config.window {
            run.start()?;
        }
        let count = wait(&run.queue, &mut events, 1_000_000)?;
        for event in &events[..count] {
            run.handle(event)?;
        }
        run.time_out(count > 0)?;
    }
    Ok(Figures {
        completed: run.completed,
        note: format!("{} silent, {} sockets", run.silent, run.slots.len()),
        ..Figures::default()
    })
}

impl BareLoop<'_> {
    /// Connects to the next target.
    fn start(&mut self) -> anyhow::Result<()> {
        let place = match self.idle.pop() {
            Some(place) => place,
            None => {
                self.slots.push(Slot {
                    socket: None,
                    state: State::Idle,
                    target: 0,
                    received: 0,
                    length: 0,
                });
                self.slots.len() as u32 - 1
            }
        };
        let slot = &mut self.slots[place as usize];
        let socket = match &mut slot.socket {
            Some(socket) => socket,
            none => {
                let socket = new_socket()?;
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                let data = EventData::new_u64(place.into());
                epoll::add(&self.queue, &socket, data, flags)?;
                none.insert(socket)
            }
        };
        let port = match self.config.dead {
            Some((port, share)) if is_dead(self.next, share) => port,
            _ => self.config.port,
        };
        let address = SocketAddrV4::new(Ipv4Addr::from_bits(ip(self.next)), port);
        match connect(&*socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error).context("cannot connect"),
        }
        slot.state = State::Connecting;
        slot.target = self.next;
        slot.received = 0;
        slot.length = 0;
        let due = Instant::now() + TIMEOUT;
        self.timeouts.push_back((due, place, self.next));
        self.next += 1;
        self.in_flight += 1;
        Ok(())
    }

    fn handle(&mut self, event: &Event) -> anyhow::Result<()> {
        let place = event.data.u64() as u32;
        let slot = &mut self.slots[place as usize];
        let Some(socket) = &slot.socket else {
            return Ok(());
        };
        let flags = event.flags;
        if slot.state == State::Connecting && flags.contains(EventFlags::OUT) {
            slot.state = State::Sent;
            let sent = send(socket, &self.request, SendFlags::NOSIGNAL)?;
            ensure!(sent == self.request.len(), "a request was not sent whole");
        }
        if slot.state != State::Sent || !flags.contains(EventFlags::IN) {
            return Ok(());
        }
        let (count, _) = match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if slot.received == 0 {
            slot.length = reply_length(&self.buffer[..count]).context("not a status")?;
        }
        slot.received += count;
        if slot.received >= slot.length {
            self.completed += 1;
            self.end(place)?;
        }
        Ok(())
    }

    /// Ends connections without a reply, oldest first.
    fn time_out(&mut self, has_events: bool) -> anyhow::Result<()> {
        while let Some((due, place, target)) = self.timeouts.front().copied() {
            let slot = &self.slots[place as usize];
            if slot.state != State::Idle && slot.target == target {
                if has_events || Instant::now() < due {
                    return Ok(());
                }
                self.silent += 1;
                self.end(place)?;
            }
            self.timeouts.pop_front();
        }
        Ok(())
    }

    fn end(&mut self, place: u32) -> anyhow::Result<()> {
        self.in_flight -= 1;
        self.idle.push(place);
        let slot = &mut self.slots[place as usize];
        slot.state = State::Idle;
        match (&slot.socket, self.config.close) {
            (Some(socket), Close::Reset) => connect_unspec(socket)?,
            _ => slot.socket = None,
        }
        Ok(())
    }
}

/// Waits for events, at most this long. Returns their number.
fn wait(queue: &OwnedFd, events: &mut [Event], nanoseconds: i64) -> anyhow::Result<usize> {
    let time = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    };
    match epoll::wait(queue, events, Some(&time)) {
        Ok(count) => Ok(count),
        Err(Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn new_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

fn empty_event() -> Event {
    Event {
        flags: EventFlags::empty(),
        data: EventData::new_u64(0),
    }
}

/// Returns whether a target never replies.
pub(crate) fn is_dead(target: u32, share: f64) -> bool {
    let hash = hailer::proto::Cookie(3).derive(u64::from(ip(target)));
    hash % 65_536 < (share * 65_536.0) as u64
}

/// A port that drops every packet that would open a connection: its queue is full, and nothing
/// accepts from it.
struct DeadPort {
    port: u16,
    _listener: OwnedFd,
    _queued: Vec<OwnedFd>,
}

impl DeadPort {
    fn open() -> anyhow::Result<Self> {
        let listener = new_socket()?;
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
        listen(&listener, 0)?;
        let port = port_of(&listener)?;
        let mut queued = Vec::new();
        for _ in 0..4 {
            let socket = new_socket()?;
            // In progress for those that no longer fit.
            let _ = connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
            queued.push(socket);
        }
        Ok(Self {
            port,
            _listener: listener,
            _queued: queued,
        })
    }
}

fn port_of(socket: &OwnedFd) -> anyhow::Result<u16> {
    let address = SocketAddr::try_from(getsockname(socket)?)?;
    Ok(address.port())
}

/// A connection of the server.
struct Client {
    socket: OwnedFd,
    number: u64,
    has_status: bool,
}

/// Serves until `stop` is true. Prints the port, the number of targets that reply, and the port of
/// the others.
pub(crate) fn serve(
    targets: u32,
    dead: f64,
    delay: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let replies = replies(&Game::Slp.opening())?;
    let length: usize = replies.iter().map(Vec::len).sum();
    eprintln!("replies of {} bytes on average", length / replies.len());
    let queue = epoll::create(CreateFlags::CLOEXEC)?;
    let (listeners, port) = listeners(&queue)?;
    let dead_port = DeadPort::open()?;
    let alive = (0..targets)
        .filter(|target| !is_dead(*target, dead))
        .count();
    println!("{port} {alive} {}", dead_port.port);
    let mut server = Server {
        queue,
        listeners,
        replies,
        delay,
        clients: Vec::new(),
        free: Vec::new(),
        delayed: VecDeque::new(),
        accepted: 0,
        unsent: 0,
        buffer: [0; 2_048],
    };
    let mut events = [empty_event(); MAX_EVENTS];
    while !stop.load(Ordering::Relaxed) {
        let ready = wait(&server.queue, &mut events, 0)?;
        for event in &events[..ready] {
            match event.data.u64().checked_sub(FIRST_LISTENER) {
                Some(listener) => server.accept(listener as usize)?,
                None => server.receive(event),
            }
        }
        let released = server.release();
        if ready == 0 && released == 0 {
            std::thread::sleep(NAP);
        }
    }
    println!("{}", server.unsent);
    Ok(())
}

/// Opens the listeners on one port.
fn listeners(queue: &OwnedFd) -> anyhow::Result<(Vec<OwnedFd>, u16)> {
    let mut listeners = Vec::new();
    let mut port = 0;
    for number in 0..LISTENERS {
        let listener = new_socket()?;
        sockopt::set_socket_reuseport(&listener, true)?;
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
        listen(&listener, 4_096)?;
        port = port_of(&listener)?;
        let token = EventData::new_u64(FIRST_LISTENER + number);
        epoll::add(queue, &listener, token, EventFlags::IN)?;
        listeners.push(listener);
    }
    Ok((listeners, port))
}

struct Server {
    queue: OwnedFd,
    listeners: Vec<OwnedFd>,
    replies: Vec<Vec<u8>>,
    delay: Duration,
    clients: Vec<Option<Client>>,
    free: Vec<usize>,
    /// Replies that wait: when they are due, place and number of the client.
    delayed: VecDeque<(Instant, usize, u64)>,
    accepted: u64,
    unsent: u64,
    buffer: [u8; 2_048],
}

impl Server {
    fn accept(&mut self, listener: usize) -> anyhow::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Ok(socket) = accept_with(&self.listeners[listener], flags) {
            self.accepted += 1;
            let place = self.free.pop().unwrap_or_else(|| {
                self.clients.push(None);
                self.clients.len() - 1
            });
            let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
            let data = EventData::new_u64(place as u64);
            epoll::add(&self.queue, &socket, data, flags)?;
            self.clients[place] = Some(Client {
                socket,
                number: self.accepted,
                has_status: false,
            });
        }
        Ok(())
    }

    fn receive(&mut self, event: &Event) {
        let place = event.data.u64() as usize;
        let Some(client) = &mut self.clients[place] else {
            return;
        };
        let is_end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let flags = event.flags;
        let received = if flags.intersects(is_end) {
            0
        } else {
            recv(&client.socket, &mut self.buffer[..], RecvFlags::empty())
                .map_or(0, |(received, _)| received)
        };
        let request = &self.buffer[..received];
        if received == 0 {
            self.clients[place] = None;
            self.free.push(place);
        } else if client.has_status && request.starts_with(&[9, 1]) {
            self.unsent += u64::from(send(&client.socket, request, SendFlags::NOSIGNAL).is_err());
        } else if !client.has_status && request.ends_with(&[1, 0]) {
            client.has_status = true;
            let number = client.number;
            if self.delay.is_zero() {
                self.send_reply(place, number);
            } else {
                let due = Instant::now() + self.delay;
                self.delayed.push_back((due, place, number));
            }
        }
    }

    /// Sends the replies that are due. Returns their number.
    fn release(&mut self) -> usize {
        if self.delayed.is_empty() {
            return 0;
        }
        let now = Instant::now();
        let mut released = 0;
        while let Some((_, place, number)) = self.delayed.pop_front_if(|(due, ..)| *due <= now) {
            released += 1;
            self.send_reply(place, number);
        }
        released
    }

    /// Sends the reply to a client, if it is still connected.
    fn send_reply(&mut self, place: usize, number: u64) {
        if let Some(client) = &self.clients[place]
            && client.number == number
        {
            let reply = &self.replies[(number % VARIANTS) as usize];
            self.unsent += u64::from(send(&client.socket, reply, SendFlags::NOSIGNAL).is_err());
        }
    }
}
