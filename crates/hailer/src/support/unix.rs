//! Listening Unix sockets that are private from the start, and that replace only stale sockets.
//!
//! In: a path. Out: a listener.
//!
//! May import: nothing of this workspace.

use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of connections waiting to be accepted.
const WAITING: i32 = 16;

/// File of a Unix socket. Removed on drop, unless it was replaced.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl SocketFile {
    /// Returns the path.
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

/// Listens at a path, without blocking. Only users with write permission by `mode` can connect.
///
/// # Errors
/// [`ErrorKind::AddrInUse`] if another process listens there, [`ErrorKind::AlreadyExists`] if the
/// file is not a socket, or the error of the system.
pub fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    // Without the lock, two processes could find the same stale socket, and one could remove the
    // new socket of the other.
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

/// Locks the folder. Waits up to 500 ms for other processes.
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

/// Returns whether a process listens at a socket, even if it is too busy to accept.
fn is_alive(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        _ => Ok(true),
    }
}

/// Creates a socket that other users can never open. On Linux the mode of the socket becomes that
/// of its file; other systems need the second call.
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
    fn replaces_stale_sockets_only() {
        let folder = folder("dead");
        let path = folder.join("s");
        let (first, bound) = bind(&path, 0o660).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
        assert_eq!(kind(&path), ErrorKind::AddrInUse);
        // A busy listener counts as alive, without waiting for it.
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
        // Like a process that was killed: the file remains.
        drop(first);
        std::mem::forget(bound);
        let (second, bound) = bind(&path, 0o600).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        // A replaced file is not removed.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop((second, bound));
        assert_eq!(kind(&path), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn of_several_processes_one_listens() {
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
