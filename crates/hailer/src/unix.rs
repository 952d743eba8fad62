//! Unix sockets that listen at a path, private from the first moment on, which replace what the dead left there and nothing
//! else.

use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections that wait to be accepted.
const WAITING: i32 = 16;

/// The file of a socket. Removed when dropped, if it is still the same.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and number.
    file: (u64, u64),
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Listens at a path, without blocking. Only those to whom `mode` gives the right to write may connect.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] if somebody answers there, [`ErrorKind::AlreadyExists`] if what is there is no socket, or what the
/// system says.
pub fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    // Of two that start at once and find the same dead file, one would remove the socket of the other.
    let _one_at_a_time = lock(path);
    match std::fs::symlink_metadata(path) {
        Ok(file) if !file.file_type().is_socket() => return Err(ErrorKind::AlreadyExists.into()),
        Ok(_) if is_alive(path)? => return Err(ErrorKind::AddrInUse.into()),
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = private(path, mode)?;
    Ok((
        listener,
        SocketFile {
            path: path.into(),
            file: identity(path)?,
        },
    ))
}

/// Waits for others that start in the same folder, but not for ever: a lock is no reason not to start.
fn lock(path: &Path) -> Option<File> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    for _ in 0..50 {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => return None,
        }
    }
    None
}

/// Whether somebody listens at a socket, also one who is too busy to take us.
fn is_alive(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(true),
    }
}

/// A socket that nobody else may open, not even for the moment between two system calls: on Linux its mode before it has
/// a name becomes that of its file. The second call is for the other systems.
fn private(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let nameless = File::from(OwnedFd::from(Socket::new(
        Domain::UNIX,
        Type::STREAM,
        None,
    )?));
    let _ = nameless.set_permissions(Permissions::from_mode(mode));
    let socket = Socket::from(OwnedFd::from(nameless));
    socket.bind(&SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(WAITING)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("hailer-unix-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    fn kind(path: &Path) -> ErrorKind {
        bind(path, 0o600).unwrap_err().kind()
    }

    #[test]
    fn dead_sockets_are_replaced_and_nothing_else() {
        let folder = folder("dead");
        let path = folder.join("s");
        let (first, bound) = bind(&path, 0o660).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert_eq!(kind(&path), ErrorKind::AddrInUse);
        // One that is too busy to take anybody is alive too, and nobody waits for it.
        let busy = std::iter::from_fn(|| {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
                .connect(&SockAddr::unix(&path).unwrap())
                .ok()
                .map(|()| socket)
        });
        let busy = busy.take(100).collect::<Vec<_>>();
        assert!(busy.len() < 100);
        assert_eq!(kind(&path), ErrorKind::AddrInUse);
        // Its process dies without a word: the file stays.
        drop(first);
        std::mem::forget(bound);
        let (second, bound) = bind(&path, 0o600).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // Somebody removes it and puts another in its place: that one is left alone.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop((second, bound));
        assert_eq!(kind(&path), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn of_many_that_start_at_once_one_gets_it() {
        let folder = folder("race");
        let path = folder.join("s");
        drop(UnixListener::bind(&path).unwrap());
        let started: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| bind(&path, 0o600))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(started.iter().filter(|bound| bound.is_ok()).count(), 1);
        drop(started);
        std::fs::remove_dir(folder).unwrap();
    }
}
