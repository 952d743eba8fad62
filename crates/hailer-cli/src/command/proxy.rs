//! `hailer proxy`: a proxy between game clients and a server that prints and records packets.
//!
//! In: connections of clients and the server. Out: forwarded bytes; packets as text or JSON.
//!
//! May import: `crate::args`, `crate::command::secrets`, `crate::exit`, `crate::files`,
//! `crate::packet_filter`, `crate::print`, `crate::service`, `hailer`.

use super::secrets;
use crate::args::Proxy as Args;
use crate::exit::{Exit, usage};
use crate::files::{create_private, folder_of};
use crate::packet_filter::PacketFilter;
use crate::print::packet::{Form, PacketView};
use crate::print::stderr;
use crate::service::interrupted;
use anyhow::Context;
use hailer::Target;
use hailer::client::Host;
use hailer::minecraft::Recorder;
use hailer::minecraft::bridge::{BridgeError, ForwardedPacket};
use hailer::minecraft::game::{Build, ClientHello, PacketDirection, PacketError, PeerError};
use hailer::minecraft::proxy::{Proxy, ProxyConfig, ProxyEvent, ProxyObserver, SessionEnd};
use hailer::proto::wire::counted;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// Default port of the server.
const PORT: u16 = 25_565;
/// Maximum number of packets stored until the build is known and the recording can begin. Usually
/// two suffice, but keep-alives may add more.
const MAX_HELD: usize = 64;

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    let (host, port) = server(&args.to)?;
    let records = args.record.as_deref().map(Records::new).transpose()?;
    let secrets = args.secrets.as_deref().map(secrets::append).transpose()?;
    let config = ProxyConfig {
        host: host.clone(),
        port,
        build: args.build,
        max_connections: args.max_connections.into(),
    };
    let proxy = Arc::new(Proxy::new(config)?);
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!("cannot listen on {} (--listen ADDRESS:PORT chooses another; port 0 takes any free one)", args.listen)
    })?;
    let address = listener.local_addr()?;
    if host
        .parse()
        .is_ok_and(|host: IpAddr| SocketAddr::new(host, port) == address)
    {
        usage!(
            "--to {}: this is the proxy itself; use another --listen address",
            args.to
        );
    }
    let mut out = crate::print::stdout();
    if !args.json {
        writeln!(out, "listening on {address} for {}", args.to)?;
        out.flush()?;
    } else {
        stderr!("listening on {address} for {}", args.to);
    }
    if !address.ip().is_loopback() {
        stderr!(
            "\x1b[33mnote:\x1b[0m other machines can connect to {address}, and play under any name"
        );
    }
    stderr!("\x1b[2mCtrl-C stops.\x1b[0m");

    let filter = PacketFilter::new(&args.choice.only, &args.choice.hide, args.direction);
    let filter = if args.all {
        filter
    } else {
        filter.without_movements()
    };
    let form = Form {
        is_json: args.json,
        is_long: args.choice.long,
        has_hex: args.choice.hex,
    };
    let stop = Arc::new(Notify::new());
    let state = OutputState {
        filter,
        form,
        records,
        secrets,
        build: args.build,
        ..OutputState::default()
    };
    let screen = Arc::new(ProxyOutput {
        state: Mutex::new(state),
        stop: Arc::clone(&stop),
    });
    let over = async {
        match args.r#for {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let until = async {
        tokio::select! {
            () = interrupted() => {}
            () = over => {}
            () = stop.notified() => {}
        }
    };
    proxy.serve(&listener, Arc::clone(&screen), until).await;
    let mut state = screen.lock();
    state.finish();
    match state.failed.take() {
        Some(error) => Err(error.into()),
        None if state.unsound > 0 => Ok(Exit::Partial),
        None => Ok(Exit::Success),
    }
}

/// Parses host and port of `--to`.
fn server(text: &str) -> anyhow::Result<(String, u16)> {
    let target: Target = match text.parse() {
        Ok(target) => target,
        Err(error) => usage!("--to {error}"),
    };
    if target.protocol.is_some() {
        usage!("--to {text}: write only HOST or HOST:PORT, without a protocol");
    }
    let host = match target.host {
        Host::Name(name) => name,
        Host::Address(address) => address.to_string(),
    };
    Ok((host, target.port.unwrap_or(PORT)))
}

/// Output shared by all connections.
struct ProxyOutput {
    state: Mutex<OutputState>,
    /// Notified if the output is closed or a file cannot be written.
    stop: Arc<Notify>,
}

#[derive(Default)]
struct OutputState {
    filter: PacketFilter,
    form: Form,
    records: Option<Records>,
    secrets: Option<File>,
    /// Value of `--build`.
    build: Option<Build>,
    sessions: HashMap<u64, SessionRecorder>,
    connections: u64,
    packets: u64,
    unsound: u64,
    failed: Option<io::Error>,
}

/// Recording of one connection.
#[derive(Default)]
struct SessionRecorder {
    recorder: Option<Recorder<BufWriter<File>>>,
    /// Packets that arrived before the build was known.
    held: Vec<(Duration, PacketDirection, Vec<u8>)>,
}

impl ProxyOutput {
    fn lock(&self) -> std::sync::MutexGuard<'_, OutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProxyObserver for ProxyOutput {
    fn event(&self, connection: u64, client: SocketAddr, at: Duration, event: ProxyEvent<'_>) {
        let mut state = self.lock();
        if state.failed.is_none()
            && let Err(error) = state.event(connection, client, at, event)
        {
            state.failed = Some(error);
            self.stop.notify_one();
        }
    }
}

impl OutputState {
    fn event(
        &mut self,
        connection: u64,
        client: SocketAddr,
        at: Duration,
        event: ProxyEvent<'_>,
    ) -> io::Result<()> {
        match event {
            ProxyEvent::Opened => {
                self.connections += 1;
                stderr!("\x1b[2m#{connection} {client} connected\x1b[0m");
            }
            ProxyEvent::Packet(passed) => self.packet(connection, at, passed)?,
            ProxyEvent::Secret(secret) => {
                if let Some(file) = &mut self.secrets {
                    secrets::write(file, SystemTime::now(), &secret)?;
                }
            }
            ProxyEvent::Closed(end) => self.closed(connection, client, at, end)?,
        }
        Ok(())
    }

    fn packet(
        &mut self,
        connection: u64,
        at: Duration,
        passed: &ForwardedPacket,
    ) -> io::Result<()> {
        self.packets += 1;
        if let Some(records) = &mut self.records {
            self.sessions
                .entry(connection)
                .or_default()
                .record(records, at, passed)?;
        }
        if !self.filter.shows(&passed.packet, passed.direction) {
            return Ok(());
        }
        let ForwardedPacket {
            direction,
            build,
            ref packet,
            ref bytes,
            offset,
            ..
        } = *passed;
        self.show(connection, at, |place, time| {
            let shown = PacketView {
                place,
                connection: Some(connection),
                time,
                direction,
                build,
                offset,
                bytes,
            };
            shown.packet(&mut crate::print::stdout(), packet, self.form)
        })
    }

    fn show(
        &self,
        connection: u64,
        at: Duration,
        show: impl FnOnce(&str, Option<f64>) -> io::Result<()>,
    ) -> io::Result<()> {
        // Microseconds, as in recordings.
        let seconds = at.as_micros() as f64 / 1e6;
        let place = if self.form.is_json {
            String::new()
        } else {
            format!("#{connection} {seconds:.6} s")
        };
        show(&place, Some(seconds))
    }

    fn closed(
        &mut self,
        connection: u64,
        client: SocketAddr,
        at: Duration,
        end: &SessionEnd,
    ) -> io::Result<()> {
        if let Some(session) = self.sessions.remove(&connection) {
            self.finish_session(session)?;
        }
        if end.is_sound() {
            stderr!("\x1b[2m#{connection} {client}: {end}\x1b[0m");
            return Ok(());
        }
        self.unsound += 1;
        if let SessionEnd::BridgeError(BridgeError::Peer {
            direction,
            build,
            error,
            offset,
            bytes,
        }) = end
        {
            if self.build.is_none()
                && let Some(older) = ClientHello::Number(build.protocol())
                    .builds()
                    .find(|older| older < build)
            {
                let number = build.protocol();
                stderr!(
                    "\x1b[33mnote:\x1b[0m read as {build}; {older} has the same protocol number {number}: if the client is {older}, add --build {older}"
                );
            }
            let broken = match error {
                PeerError::Packet(broken) => *broken,
                // The packet is valid, but not allowed at this point.
                PeerError::Unexpected(unexpected) => PacketError {
                    packet: Some(unexpected.packet),
                    id: bytes.first().copied().unwrap_or_default(),
                    error: hailer::proto::wire::Error::bad(
                        "id",
                        0,
                        "a packet that has its place here",
                    ),
                    at: *offset,
                },
            };
            self.show(connection, at, |place, time| {
                let shown = PacketView {
                    place,
                    connection: Some(connection),
                    time,
                    direction: *direction,
                    build: *build,
                    offset: *offset,
                    bytes,
                };
                shown.broken(&mut crate::print::stdout(), &broken, self.form)
            })?;
        }
        stderr!("\x1b[31m#{connection} {client}:\x1b[0m {end}");
        Ok(())
    }

    fn finish_session(&mut self, mut session: SessionRecorder) -> io::Result<()> {
        match &mut self.records {
            // The connection ended before the build was known. Both builds can represent these
            // packets.
            Some(records) if !session.held.is_empty() => session.begin(records, Build::V1_2_5)?,
            _ => {}
        }
        session
            .recorder
            .map_or(Ok(()), |mut recorder| recorder.flush())
    }

    fn finish(&mut self) {
        for (_, session) in std::mem::take(&mut self.sessions) {
            if let Err(error) = self.finish_session(session) {
                self.failed.get_or_insert(error);
            }
        }
        let hidden = match self.filter.hidden {
            0 => String::new(),
            hidden => format!(
                ", {hidden} of them not shown (--all shows movements, --only and --hide choose)"
            ),
        };
        let packets = counted(self.packets, "packet");
        let connections = counted(self.connections, "connection");
        stderr!("{packets} of {connections}{hidden}");
    }
}

impl SessionRecorder {
    fn record(
        &mut self,
        records: &mut Records,
        at: Duration,
        passed: &ForwardedPacket,
    ) -> io::Result<()> {
        if self.recorder.is_none() {
            if !passed.is_build_certain && self.held.len() < MAX_HELD {
                self.held.push((at, passed.direction, passed.bytes.clone()));
                return Ok(());
            }
            self.begin(records, passed.build)?;
        }
        match &mut self.recorder {
            Some(recorder) => recorder.packet(at, passed.direction, &passed.bytes),
            None => Ok(()),
        }
    }

    fn begin(&mut self, records: &mut Records, build: Build) -> io::Result<()> {
        let mut recorder = Recorder::start(BufWriter::new(records.create()?), build)?;
        for (at, direction, bytes) in self.held.drain(..) {
            recorder.packet(at, direction, &bytes)?;
        }
        self.recorder = Some(recorder);
        Ok(())
    }
}

/// Names of the recordings. No existing file is used.
struct Records {
    folder: PathBuf,
    stem: String,
    extension: String,
    /// Number of the next file. The first file with a chosen name has none.
    next: u32,
}

impl Records {
    /// Determines the names of the recordings. In a folder, they are `session-1.hlr` and so on. For
    /// a file, they are `name.hlr`, `name-2.hlr` and so on.
    fn new(path: &Path) -> anyhow::Result<Self> {
        let part =
            |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        if path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/') {
            std::fs::create_dir_all(path)
                .with_context(|| format!("--record {}", path.display()))?;
            return Ok(Self {
                folder: path.into(),
                stem: "session".into(),
                extension: "hlr".into(),
                next: 1,
            });
        }
        if path.exists() {
            usage!(
                "--record {}: exists; remove it, or name another file or a folder",
                path.display()
            );
        }
        let Some(stem) = part(path.file_stem()) else {
            usage!("--record {}: no name of a file", path.display())
        };
        let extension = part(path.extension()).unwrap_or_else(|| "hlr".into());
        let folder = folder_of(path);
        if !folder.is_dir() {
            usage!(
                "--record {}: there is no folder {}",
                path.display(),
                folder.display()
            );
        }
        Ok(Self {
            folder: folder.into(),
            stem,
            extension,
            next: 0,
        })
    }

    /// Creates a file that only its owner can read, since chat is private.
    fn create(&mut self) -> io::Result<File> {
        loop {
            let number = match self.next {
                0 => String::new(),
                number => format!("-{number}"),
            };
            self.next = if self.next == 0 { 2 } else { self.next + 1 };
            let path = self
                .folder
                .join(format!("{}{number}.{}", self.stem, self.extension));
            match create_private(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    return file.map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_or_without_a_port() {
        let output = |text: &str| server(text).map_err(|error| error.to_string());
        assert_eq!(
            output("play.example.com"),
            Ok(("play.example.com".into(), 25_565))
        );
        assert_eq!(output("[::1]:7"), Ok(("::1".into(), 7)));
        assert!(
            output("ugp://host")
                .unwrap_err()
                .contains("write only HOST or HOST:PORT")
        );
        assert!(output("host:0").unwrap_err().starts_with("--to "));
    }

    #[test]
    fn recordings_never_take_the_place_of_others() {
        let folder = std::env::temp_dir().join(format!("hailer-records-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("session-2.hlr"), "mine").unwrap();
        let mut records = Records::new(&folder).unwrap();
        for _ in 0..3 {
            records.create().unwrap();
        }
        let mut records = Records::new(&folder.join("one.hlr")).unwrap();
        records.create().unwrap();
        records.create().unwrap();
        assert!(
            Records::new(&folder.join("one.hlr"))
                .is_err_and(|error| error.to_string().contains("exists"))
        );
        assert!(Records::new(&folder.join("no/one.hlr")).is_err());
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mine = std::fs::read(folder.join("session-2.hlr")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            names,
            [
                "one-2.hlr",
                "one.hlr",
                "session-1.hlr",
                "session-2.hlr",
                "session-3.hlr",
                "session-4.hlr"
            ]
        );
        assert_eq!(mine, b"mine");
    }
}
