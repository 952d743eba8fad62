//! Connections between `hailer serve` and its commands on the same machine: a Unix socket, or a named
//! pipe on Windows.
//!
//! On Unix, the file has mode 0600. The pipe rejects clients on other machines, and only its user and
//! administrators may write to it.
//!
//! In: a path. Out: a listener, connections.
//!
//! May import: `crate::files`, `crate::observe`, `hailer`.

#[cfg(not(windows))]
pub(crate) use self::unix::{Client, Listener, PlaceGuard, bind, connect, default_path};
#[cfg(windows)]
pub(crate) use self::windows::{Client, Listener, PlaceGuard, bind, connect, default_path};

/// The fix if the place cannot be used.
const HINT: &str = "--control PATH chooses another place";

#[cfg(not(windows))]
mod unix {
    use super::HINT;
    use crate::files::folder_of;
    use anyhow::{Context, anyhow};
    use hailer::support::unix;
    use std::io::{self, ErrorKind};
    use std::os::unix::fs::DirBuilderExt;
    use std::path::{Path, PathBuf};
    use tokio::net::{UnixListener, UnixStream};

    pub(crate) type Client = UnixStream;
    /// The file of the socket, removed on drop.
    pub(crate) type PlaceGuard = unix::SocketFile;

    pub(crate) struct Listener(UnixListener);

    impl Listener {
        pub(crate) async fn accept(&mut self) -> io::Result<UnixStream> {
            self.0.accept().await.map(|(stream, _)| stream)
        }
    }

    /// Returns `$XDG_RUNTIME_DIR/hailer/serve.sock`, or `/run/hailer/serve.sock`.
    pub(crate) fn default_path() -> PathBuf {
        path_in(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from))
    }

    /// Returns the path in a runtime folder. Relative folders are ignored, as the XDG specification
    /// requires.
    fn path_in(runtime_folder: Option<PathBuf>) -> PathBuf {
        runtime_folder
            .filter(|folder| folder.is_absolute())
            .unwrap_or_else(|| "/run".into())
            .join("hailer/serve.sock")
    }

    /// Listens at a path. Replaces the socket of a responder that has ended.
    ///
    /// # Errors
    /// Another responder listens there, the file is not a socket, or the system refuses.
    pub(crate) fn bind(path: &Path) -> anyhow::Result<(Listener, PlaceGuard)> {
        let shown = path.display();
        let folder = folder_of(path);
        match std::fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if !folder.is_dir() => {
                return Err(error).with_context(|| {
                    format!("cannot make the folder {} ({HINT})", folder.display())
                });
            }
            _ => {}
        }
        let (listener, bound) = unix::bind(path, 0o600).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow!("{shown} is there and no socket ({HINT})"),
            ErrorKind::AddrInUse => {
                anyhow!("another hailer serve already answers at {shown}; stop it, or else {HINT}")
            }
            _ => anyhow::Error::new(error).context(format!("cannot listen at {shown} ({HINT})")),
        })?;
        Ok((Listener(UnixListener::from_std(listener)?), bound))
    }

    pub(crate) async fn connect(path: &Path) -> io::Result<Client> {
        UnixStream::connect(path).await
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_default_path_is_absolute() {
            assert_eq!(
                path_in(Some("/run/user/7".into())),
                Path::new("/run/user/7/hailer/serve.sock")
            );
            for none in [None, Some("".into()), Some("run".into())] {
                assert_eq!(path_in(none), Path::new("/run/hailer/serve.sock"));
            }
        }
    }
}

#[cfg(windows)]
mod windows {
    use super::HINT;
    use anyhow::anyhow;
    use std::io::{self, ErrorKind};
    use std::path::{Path, PathBuf};
    use std::time::Duration;
    use tokio::net::windows::named_pipe::{
        ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions,
    };

    /// Error of the system if all instances of a pipe have a client.
    const PIPE_BUSY: i32 = 231;
    /// Pause before the next attempt to connect to a busy pipe.
    const RETRY_DELAY: Duration = Duration::from_millis(20);

    pub(crate) type Client = NamedPipeClient;

    /// The name of the pipe. The system removes the pipe with its last handle.
    #[derive(Debug)]
    pub(crate) struct PlaceGuard(PathBuf);

    impl PlaceGuard {
        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    pub(crate) struct Listener {
        path: PathBuf,
        /// Instance that waits for the next client. `None` after the system refused one.
        next: Option<NamedPipeServer>,
    }

    impl Listener {
        pub(crate) async fn accept(&mut self) -> io::Result<NamedPipeServer> {
            let server = match self.next.take() {
                Some(server) => server,
                None => open(&self.path, false)?,
            };
            server.connect().await?;
            // Clients that come before there is another instance try again.
            self.next = open(&self.path, false).ok();
            Ok(server)
        }
    }

    pub(crate) fn default_path() -> PathBuf {
        r"\\.\pipe\hailer-serve".into()
    }

    fn open(path: &Path, is_first: bool) -> io::Result<NamedPipeServer> {
        let mut options = ServerOptions::new();
        options
            .first_pipe_instance(is_first)
            .reject_remote_clients(true);
        options.create(path)
    }

    /// Listens at the name of a pipe.
    ///
    /// # Errors
    /// Another responder listens there, or the system refuses.
    pub(crate) fn bind(path: &Path) -> anyhow::Result<(Listener, PlaceGuard)> {
        let shown = path.display();
        let next = open(path, true).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                anyhow!("another hailer serve already answers at {shown}; stop it, or else {HINT}")
            }
            _ => anyhow::Error::new(error).context(format!(
                r"cannot listen at {shown}; a control pipe has a name such as \\.\pipe\NAME ({HINT})"
            )),
        })?;
        let path = path.to_owned();
        let listener = Listener {
            path: path.clone(),
            next: Some(next),
        };
        Ok((listener, PlaceGuard(path)))
    }

    pub(crate) async fn connect(path: &Path) -> io::Result<Client> {
        loop {
            match ClientOptions::new().open(path) {
                Err(error) if error.raw_os_error() == Some(PIPE_BUSY) => {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                end => return end,
            }
        }
    }
}
