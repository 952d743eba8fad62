//! Observation of a running responder.
//!
//! ```text
//!   responder ─► Snapshot ─┬─► control   Unix socket or named pipe, JSON ─► hailer serve status, hailer top
//!                snapshot  └─► metrics   http://127.0.0.1:PORT/metrics ─► Prometheus
//! ```
//!
//! These modules only use [`Snapshot`], which a callback returns on demand.
//!
//! May import: `crate::files`, `hailer`.

mod channel;
pub(crate) mod control;
mod metrics;
pub(crate) mod snapshot;

use anyhow::{Context, bail};
use channel::PlaceGuard;
use futures_util::future::BoxFuture;
use snapshot::Snapshot;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::AbortHandle;

/// Maximum number of clients, of control socket and metrics each.
const MAX_CLIENTS: usize = 16;

/// Callback that returns a snapshot. It is called on the runtime of the observer, at most ten times
/// per second for each client, and should be fast.
type TakeSnapshot = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// Order to a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorOrder {
    /// Start the game.
    Wake,
    /// Stop the game.
    Sleep,
}

/// Callback that gives an order to the door of this name. It returns a description of the effect,
/// or the reason why there is none.
pub(crate) type Steer =
    Arc<dyn Fn(DoorOrder, String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Data of the control socket.
#[derive(Clone)]
struct Served {
    take_snapshot: TakeSnapshot,
    steer: Steer,
}

/// Configuration of the observer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObserverConfig {
    /// Loopback address of `/metrics`; port 0 lets the system choose one. `None`: no metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// The control socket.
    pub(crate) control: Control,
}

/// Location of the control socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Control {
    /// At [`control::default_path`]. If that fails, as for a second responder of the same user,
    /// there is no socket, and [`Observer::note`] returns the reason.
    #[default]
    Default,
    /// At this path. A failure is an error.
    At(PathBuf),
    /// No control socket.
    Off,
}

impl Control {
    /// Returns the location that the flag or key names: a path, or `off`.
    pub(crate) fn at(path: PathBuf) -> Self {
        if path.as_os_str() == "off" {
            Self::Off
        } else {
            Self::At(path)
        }
    }
}

/// Serves control socket and metrics until dropped. Dropping it removes the socket file.
pub(crate) struct Observer {
    metrics: Option<SocketAddr>,
    control: Option<PlaceGuard>,
    note: Option<String>,
    tasks: Vec<AbortHandle>,
}

/// Starts the observer, within a tokio runtime with I/O and timers.
///
/// # Errors
/// An address or a path cannot be used. The error contains the correction.
pub(crate) fn start(
    config: &ObserverConfig,
    snapshot: impl Fn() -> Snapshot + Send + Sync + 'static,
    steer: Steer,
) -> anyhow::Result<Observer> {
    let take_snapshot: TakeSnapshot = Arc::new(snapshot);
    let mut observer = Observer {
        metrics: None,
        control: None,
        note: None,
        tasks: Vec::new(),
    };
    if let Some(address) = config.metrics {
        let listener = listen(address)?;
        observer.metrics = Some(listener.local_addr()?);
        observer
            .tasks
            .push(tokio::spawn(metrics::serve(listener, take_snapshot.clone())).abort_handle());
    }
    let (path, wanted) = match &config.control {
        Control::Off => return Ok(observer),
        Control::At(path) => (path.clone(), true),
        Control::Default => (control::default_path(), false),
    };
    match channel::bind(&path) {
        Ok((listener, bound)) => {
            observer.control = Some(bound);
            let served = Served {
                take_snapshot,
                steer,
            };
            let task = tokio::spawn(control::serve(listener, served));
            observer.tasks.push(task.abort_handle());
        }
        Err(error) if wanted => return Err(error),
        Err(error) => observer.note = Some(format!("no control socket: {error:#}")),
    }
    Ok(observer)
}

impl Observer {
    /// Returns the address of the metrics.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Returns the path of the control socket.
    pub(crate) fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(PlaceGuard::path)
    }

    /// Returns the reason why there is no control socket at the default path.
    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Parses an address for the metrics.
///
/// # Errors
/// The text is no loopback address with a port.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    let address = address.filter(|address| address.ip().is_loopback());
    address.ok_or_else(|| {
        "expected a loopback address and a port, such as 127.0.0.1:9570 or [::1]:9570".into()
    })
}

fn listen(address: SocketAddr) -> anyhow::Result<tokio::net::TcpListener> {
    if !address.ip().is_loopback() {
        bail!(
            "metrics at {address}: only loopback addresses are allowed, such as 127.0.0.1:9570; expose them through a proxy with authentication"
        );
    }
    let listener = std::net::TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address} for metrics (--metrics ADDRESS:PORT chooses another)")
    })?;
    listener.set_nonblocking(true)?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::simulated::responder as simulated;

    #[cfg(unix)]
    #[test]
    fn both_ways_show_the_same_and_end_together() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let folder = control::tests::folder("both");
            let path = folder.join("serve.sock");
            let config = ObserverConfig {
                metrics: Some("127.0.0.1:0".parse().unwrap()),
                control: Control::At(path.clone()),
            };
            let steer: Steer = Arc::new(|_, _| Box::pin(async { Err(String::new()) }));
            let observer = start(&config, || simulated::snapshot(3.0), steer.clone()).unwrap();
            assert_eq!((observer.control(), observer.note()), (Some(&*path), None));
            let address = observer.metrics().unwrap();
            let output = control::Client::connect(&path)
                .await
                .unwrap()
                .status()
                .await
                .unwrap();
            assert_eq!(output, simulated::snapshot(3.0));
            let Err(error) = start(&config, Snapshot::default, steer) else {
                panic!("two on one path")
            };
            let error = format!("{error:#}");
            assert!(
                error.contains("already answers at") && error.contains("--control"),
                "{error}"
            );
            drop(observer);
            assert!(!path.exists());
            // Tasks end when the runtime polls them.
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            assert!(std::net::TcpStream::connect(address).is_err());
            std::fs::remove_dir(folder).unwrap();
        });
    }

    #[test]
    fn metrics_are_for_this_machine() {
        assert_eq!(loopback("[::1]:9"), Ok("[::1]:9".parse().unwrap()));
        for wrong in [
            "0.0.0.0:9570",
            "192.0.2.7:9570",
            "localhost:9",
            "9570",
            "127.0.0.1",
        ] {
            assert!(loopback(wrong).is_err(), "{wrong}");
        }
        let error = listen("192.0.2.7:9570".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("only loopback"));
    }
}
