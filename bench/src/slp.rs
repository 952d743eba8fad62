//! Status pings of Minecraft over TCP: a bare loop of system calls that the sweep is compared with,
//! and the server of both.

use crate::client::Figures;
use crate::game::{Game, ip};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use hailer::proto::Icon;
use hailer::proto::memory::Server as MemoryServer;
use hailer::proto::{Epoch, Keys, Options};
use hailer::{Player, Status, Text};
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

/// Runs the bare loop: one event queue, a fixed window of non-blocking sockets, one write and one
/// read for each target. Replies are checked by length and packet id, but not decoded.
pub(crate) fn bare_loop(config: &BareConfig) -> anyhow::Result<Figures> {
    let request = Game::Slp.opening();
    let queue = epoll::create(CreateFlags::CLOEXEC)?;
    let mut slots: Vec<Slot> = Vec::new();
    let mut idle: Vec<u32> = Vec::new();
    let mut events = [empty_event(); MAX_EVENTS];
    let mut buffer = vec![0; READ_BYTES];
    let mut timeouts: VecDeque<(Instant, u32, u32)> = VecDeque::new();
    let mut next = 0;
    let mut in_flight = 0;
    let mut completed = 0_u64;
    let mut silent = 0_u64;
    while next < config.targets || in_flight > 0 {
        while next < config.targets && in_flight < config.window {
            let place = match idle.pop() {
                Some(place) => place,
                None => {
                    slots.push(Slot {
                        socket: None,
                        state: State::Idle,
                        target: 0,
                        received: 0,
                        length: 0,
                    });
                    slots.len() as u32 - 1
                }
            };
            let slot = &mut slots[place as usize];
            if slot.socket.is_none() {
                let socket = new_socket()?;
                let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                epoll::add(&queue, &socket, EventData::new_u64(place.into()), flags)?;
                slot.socket = Some(socket);
            }
            let Some(socket) = &slot.socket else {
                continue;
            };
            let port = config
                .dead
                .filter(|(_, share)| is_dead(next, *share))
                .map_or(config.port, |(port, _)| port);
            let address = SocketAddrV4::new(Ipv4Addr::from_bits(ip(next)), port);
            match connect(socket, &address) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(error) => return Err(error).context("cannot connect"),
            }
            (slot.state, slot.target) = (State::Connecting, next);
            (slot.received, slot.length) = (0, 0);
            timeouts.push_back((Instant::now() + TIMEOUT, place, next));
            next += 1;
            in_flight += 1;
        }
        let wait = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        let count = match epoll::wait(&queue, &mut events[..], Some(&wait)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            let place = event.data.u64() as u32;
            let slot = &mut slots[place as usize];
            let Some(socket) = &slot.socket else {
                continue;
            };
            let flags = event.flags;
            if slot.state == State::Connecting && flags.contains(EventFlags::OUT) {
                slot.state = State::Sent;
                let sent = send(socket, &request, SendFlags::NOSIGNAL)?;
                ensure!(sent == request.len(), "a request was not sent whole");
            }
            if slot.state != State::Sent || !flags.contains(EventFlags::IN) {
                continue;
            }
            let (count, _) = match recv(socket, &mut buffer[..], RecvFlags::empty()) {
                Ok(received) => received,
                Err(Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            if slot.received == 0 {
                slot.length = reply_length(&buffer[..count]).context("not a status")?;
            }
            slot.received += count;
            if slot.received < slot.length {
                continue;
            }
            completed += 1;
            in_flight -= 1;
            release(slot, config.close)?;
            idle.push(place);
        }
        while let Some((due, place, target)) = timeouts.front().copied() {
            let slot = &mut slots[place as usize];
            let is_open = slot.state != State::Idle && slot.target == target;
            if is_open {
                if count > 0 || Instant::now() < due {
                    break;
                }
                silent += 1;
                in_flight -= 1;
                release(slot, config.close)?;
                idle.push(place);
            }
            timeouts.pop_front();
        }
    }
    Ok(Figures {
        completed,
        note: format!("{silent} silent, {} sockets", slots.len()),
        ..Figures::default()
    })
}

/// Ends a connection.
fn release(slot: &mut Slot, close: Close) -> anyhow::Result<()> {
    slot.state = State::Idle;
    match (&slot.socket, close) {
        (Some(socket), Close::Reset) => connect_unspec(socket)?,
        _ => slot.socket = None,
    }
    Ok(())
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
    let mut listeners: Vec<OwnedFd> = Vec::new();
    let mut port = 0;
    for number in 0..LISTENERS {
        let listener = new_socket()?;
        sockopt::set_socket_reuseport(&listener, true)?;
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?;
        listen(&listener, 4_096)?;
        port = port_of(&listener)?;
        let token = EventData::new_u64(FIRST_LISTENER + number);
        epoll::add(&queue, &listener, token, EventFlags::IN)?;
        listeners.push(listener);
    }
    let dead_port = DeadPort::open()?;
    let alive = (0..targets)
        .filter(|target| !is_dead(*target, dead))
        .count();
    println!("{port} {alive} {}", dead_port.port);
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut delayed: VecDeque<(Instant, usize, u64)> = VecDeque::new();
    let mut events = [empty_event(); MAX_EVENTS];
    let mut count = 0_u64;
    let mut unsent = 0_u64;
    let mut buffer = [0; 2_048];
    while !stop.load(Ordering::Relaxed) {
        let poll = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let ready = match epoll::wait(&queue, &mut events[..], Some(&poll)) {
            Ok(ready) => ready,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..ready] {
            let token = event.data.u64();
            if let Some(listener) = token.checked_sub(FIRST_LISTENER) {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                while let Ok(socket) = accept_with(&listeners[listener as usize], flags) {
                    count += 1;
                    let place = free.pop().unwrap_or_else(|| {
                        clients.push(None);
                        clients.len() - 1
                    });
                    let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
                    epoll::add(&queue, &socket, EventData::new_u64(place as u64), flags)?;
                    clients[place] = Some(Client {
                        socket,
                        number: count,
                        has_status: false,
                    });
                }
                continue;
            }
            let place = token as usize;
            let Some(client) = &mut clients[place] else {
                continue;
            };
            let flags = event.flags;
            let is_end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            let received = if flags.intersects(is_end) {
                0
            } else {
                recv(&client.socket, &mut buffer[..], RecvFlags::empty())
                    .map_or(0, |(received, _)| received)
            };
            let request = &buffer[..received];
            if received == 0 {
                clients[place] = None;
                free.push(place);
            } else if client.has_status && request.starts_with(&[9, 1]) {
                unsent += u64::from(send(&client.socket, request, SendFlags::NOSIGNAL).is_err());
            } else if !client.has_status && request.ends_with(&[1, 0]) {
                client.has_status = true;
                if delay.is_zero() {
                    let reply = &replies[(client.number % VARIANTS) as usize];
                    unsent += u64::from(send(&client.socket, reply, SendFlags::NOSIGNAL).is_err());
                } else {
                    delayed.push_back((Instant::now() + delay, place, client.number));
                }
            }
        }
        let mut released = 0;
        if !delayed.is_empty() {
            let now = Instant::now();
            while let Some((_, place, number)) = delayed.pop_front_if(|(due, ..)| *due <= now) {
                released += 1;
                if let Some(client) = &clients[place]
                    && client.number == number
                {
                    let reply = &replies[(number % VARIANTS) as usize];
                    unsent += u64::from(send(&client.socket, reply, SendFlags::NOSIGNAL).is_err());
                }
            }
        }
        if ready == 0 && released == 0 {
            std::thread::sleep(NAP);
        }
    }
    println!("{unsent}");
    Ok(())
}
