//! Early end of a command that blocks, by a signal or the time limit.

use crate::exit::STOPPED;
use crate::print::stderr;
use crate::service::interrupted;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

/// Stop request that threads share, with its cause.
#[derive(Default)]
pub(crate) struct StopRequest(AtomicU8);

/// Cause of an early end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Ctrl-C or SIGTERM.
    Signal = 1,
    /// The time limit `--for`.
    Time = 2,
}

impl Cause {
    /// Describes the cause.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Signal => "stopped",
            Self::Time => "the time limit was reached",
        }
    }
}

impl StopRequest {
    /// Waits for signals and the time limit on a thread. A second signal ends the process
    /// immediately.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub(crate) fn watch(time: Option<Duration>) -> std::io::Result<Arc<Self>> {
        let stop = Arc::new(Self::default());
        let set = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // The handlers are installed when the future is first polled. An earlier signal would end
        // the process.
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                runtime.block_on(async {
                    let time = async {
                        match time {
                            Some(time) => tokio::time::sleep(time).await,
                            None => pending().await,
                        }
                    };
                    let mut signals = Box::pin(interrupted());
                    poll_fn(|context| {
                        let _ = signals.as_mut().poll(context);
                        Poll::Ready(())
                    })
                    .await;
                    let _ = ready.send(());
                    tokio::select! {
                        () = &mut signals => {
                            set.set(Cause::Signal);
                            stderr!("stopping; repeat to end immediately");
                            signals = Box::pin(interrupted());
                        }
                        () = time => set.set(Cause::Time),
                    }
                    signals.await;
                    std::process::exit(STOPPED.into());
                });
            })?;
        let _ = is_ready.recv();
        Ok(stop)
    }

    /// Returns the cause if a stop was requested.
    pub(crate) fn cause(&self) -> Option<Cause> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Cause::Signal),
            _ => Some(Cause::Time),
        }
    }

    /// Requests a stop. Only the first cause is stored.
    pub(crate) fn set(&self, cause: Cause) {
        let _ = self
            .0
            .compare_exchange(0, cause as u8, Ordering::Relaxed, Ordering::Relaxed);
    }
}
