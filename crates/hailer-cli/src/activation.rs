//! Service managers: inherited sockets, and notifications of readiness.
//!
//! The sockets are those of systemd's socket activation (`LISTEN_FDS`), as in
//! contrib/systemd/hailer-serve.socket. A service without the right to open low ports inherits
//! them, and datagrams wait in their queues during a restart.
//!
//! In: environment variables of the service manager. Out: bound sockets; notifications of
//! readiness.
//!
//! May import: nothing of this workspace.

use std::net::{SocketAddr, UdpSocket};

/// Maximum number of inherited sockets.
#[cfg(unix)]
const MAX_SOCKETS: usize = 1024;

/// Returns the inherited UDP sockets with their addresses, in the order of the unit; none without a
/// service manager.
///
/// Call it once, at the start of the process, before other files are opened: the caller owns the
/// sockets. They may be in blocking mode, and have only the options of the unit.
///
/// # Errors
/// An inherited socket is not a UDP socket. The error names the line of the unit.
#[cfg(unix)]
pub(crate) fn activated_sockets() -> anyhow::Result<Vec<(SocketAddr, UdpSocket)>> {
    // The crate accepts a missing process id. The variables may then be meant for a parent process.
    let is_for_us =
        std::env::var("LISTEN_PID").is_ok_and(|pid| pid.parse() == Ok(std::process::id()));
    let count: usize = std::env::var("LISTEN_FDS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    if !is_for_us || count == 0 {
        return Ok(Vec::new());
    }
    if count > MAX_SOCKETS {
        anyhow::bail!("LISTEN_FDS={count}: at most {MAX_SOCKETS} sockets can be handed over");
    }
    let mut handed = listenfd::ListenFd::from_env();
    let sockets = (0..handed.len()).map(|i| {
        let socket = handed.take_udp_socket(i).and_then(|socket| {
            let socket = socket.ok_or(std::io::ErrorKind::NotFound)?;
            Ok((socket.local_addr()?, socket))
        });
        let wrong = |error| {
            let nth = i + 1;
            anyhow::anyhow!("socket {nth} handed over by the service manager: {error}; use ListenDatagram=ADDRESS:PORT")
        };
        socket.map_err(wrong)
    });
    sockets.collect()
}

/// Reports readiness to the service manager, at the start and after a reload. Without one, nothing
/// happens.
#[cfg(unix)]
pub(crate) fn ready(status: &str) {
    use sd_notify::NotifyState;
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the service stops.
#[cfg(unix)]
pub(crate) fn stopping() {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
}

/// Returns no sockets: no service manager of this system hands them over.
#[cfg(not(unix))]
pub(crate) fn activated_sockets() -> anyhow::Result<Vec<(SocketAddr, UdpSocket)>> {
    Ok(Vec::new())
}

/// Has no effect on this system.
#[cfg(not(unix))]
pub(crate) fn ready(_: &str) {}

/// Has no effect on this system.
#[cfg(not(unix))]
pub(crate) fn stopping() {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    const CHILD: &str = "HAILER_TEST_ACTIVATED";

    /// Runs this test in a child process with these descriptors as 3 and 4 and these variables;
    /// returns its output.
    fn child(three: OwnedFd, four: OwnedFd, settings: &str) -> String {
        // The shell renumbers the descriptors and keeps its process id through `exec`.
        let script = format!(r#"exec 3<&0 4<&1 0</dev/null 1>&2; {settings} exec "$0" "$@""#);
        let this = std::env::current_exe().unwrap();
        let mut received = tempfile();
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .arg(this)
            .args([
                "--exact",
                "activation::tests::sockets_are_handed_over",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .stdin(Stdio::from(three))
            .stdout(Stdio::from(four))
            .stderr(received.try_clone().unwrap())
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
        let mut text = String::new();
        received.rewind().unwrap();
        received.read_to_string(&mut text).unwrap();
        text
    }

    fn tempfile() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("hailer-activated-{}", std::process::id()));
        let file = std::fs::File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn sockets_are_handed_over() {
        if std::env::var_os(CHILD).is_some() {
            match activated_sockets() {
                Ok(sockets) => {
                    for (address, socket) in &sockets {
                        let mut buffer = [0; 16];
                        let (length, from) = socket.recv_from(&mut buffer).unwrap();
                        socket.send_to(&buffer[..length], from).unwrap();
                        println!("child has {address}.");
                    }
                    println!("child has {} in all.", sockets.len());
                    ready("answering");
                    stopping();
                }
                Err(error) => println!("child fails: {error}"),
            }
            return;
        }
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let two = UdpSocket::bind("127.0.0.1:0").unwrap();
        let a = one.local_addr().unwrap();
        let b = two.local_addr().unwrap();
        // Datagrams that arrive before the child starts stay in the queue.
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        client.send_to(b"early", a).unwrap();
        client.send_to(b"early", b).unwrap();
        let pass = |socket: &UdpSocket| OwnedFd::from(socket.try_clone().unwrap());
        let path = std::env::temp_dir().join(format!("hailer-notify-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        let settings = format!(
            "LISTEN_FDS=2 LISTEN_PID=$$ NOTIFY_SOCKET='{}'",
            path.display()
        );
        let received = child(pass(&one), pass(&two), &settings);
        std::fs::remove_file(path).unwrap();
        manager.set_nonblocking(true).unwrap();
        for expected in ["READY=1\nSTATUS=answering\n", "STOPPING=1\n"] {
            let mut buffer = [0; 64];
            let length = manager.recv(&mut buffer).unwrap();
            assert_eq!(
                std::str::from_utf8(&buffer[..length]).unwrap().trim_end(),
                expected.trim_end()
            );
        }
        assert!(
            received.contains(&format!("child has {a}."))
                && received.contains(&format!("child has {b}.")),
            "{received}"
        );
        for _ in 0..2 {
            assert_eq!(client.recv(&mut [0; 16]).unwrap(), 5);
        }
        for not_ours in [
            "LISTEN_FDS=2",
            "LISTEN_FDS=2 LISTEN_PID=1",
            "LISTEN_PID=$$",
            "LISTEN_FDS=x LISTEN_PID=$$",
        ] {
            let received = child(pass(&one), pass(&two), not_ours);
            assert!(
                received.contains("child has 0 in all."),
                "{not_ours}: {received}"
            );
        }
        let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let received = child(stream.into(), pass(&two), "LISTEN_FDS=1 LISTEN_PID=$$");
        assert!(
            received.contains("child fails: socket 1 ") && received.contains("ListenDatagram="),
            "{received}"
        );
        let received = child(pass(&one), pass(&two), "LISTEN_FDS=999999999 LISTEN_PID=$$");
        assert!(
            received.contains("child fails: LISTEN_FDS=999999999"),
            "{received}"
        );
    }
}
