//! Queries for programs without an async runtime.
//!
//! [`query`] is one call. A [`Client`] keeps its configuration and its runtime, which has no separate
//! thread: it runs on the threads that call it.
//!
//! ```no_run
//! let answer = hailer::blocking::query("play.example.com")?;
//! println!("{}", answer.status.title().unwrap_or_default());
//! # Ok::<(), hailer::Error>(())
//! ```
//!
//! Sweeps and responders block anyway: they are [`sweep`](crate::sweep) and
//! [`respond`](crate::respond).
//!
//! In: targets. Out: answers.
//!
//! May import: `crate::answer`, `crate::client`, `crate::error`, `crate::target`.

use crate::answer::Answer;
use crate::client::{self, Answers};
use crate::error::Error;
use crate::target::Target;
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Receiver};

/// Queries a server with the default configuration and returns its best answer, as
/// [`hailer::Client::query`](crate::Client::query) does.
///
/// # Errors
/// As of [`hailer::Client::query`](crate::Client::query).
///
/// # Panics
/// As of [`Client::query`]. Also if the process has no file descriptors left for a runtime, which
/// [`Client::new`] returns as an error.
pub fn query<T>(target: T) -> Result<Answer, Error>
where
    T: TryInto<Target>,
    Error: From<T::Error>,
{
    let client = Client::new(client::Client::default());
    client
        .expect("file descriptors for a runtime")
        .query(target)
}

/// Queries servers, and blocks the calling thread meanwhile. Can be shared by threads.
///
/// ```no_run
/// use hailer::blocking::Client;
///
/// let client = Client::new(hailer::Client::builder().retries(1).build())?;
/// for (target, result) in client.query_many(["play.example.com", "ugp://192.0.2.7"], 100) {
///     match result {
///         Ok(answers) => println!("{target}: {} players", answers.best().status.players.count()),
///         Err(error) => println!("{target}: {error}"),
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    client: Arc<client::Client>,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Creates a client that queries as this one does. For the default configuration, pass
    /// `hailer::Client::default()`.
    ///
    /// # Errors
    /// The system has no file descriptors left.
    pub fn new(client: client::Client) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            client: Arc::new(client),
            runtime: Arc::new(runtime),
        })
    }

    /// Queries a server as [`hailer::Client::query`](crate::Client::query) does.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// A task of an async runtime calls it: there, await
    /// [`hailer::Client`](crate::Client) instead.
    pub fn query<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.wait(self.client.query(target))
    }

    /// Queries a server as [`hailer::Client::detect`](crate::Client::detect) does.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As of [`Client::query`].
    pub fn detect<T>(&self, target: T) -> Result<Answers, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.wait(self.client.detect(target))
    }

    /// Queries a server as [`hailer::Client::query_all`](crate::Client::query_all) does.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As of [`Client::query`].
    pub fn query_all<T>(&self, target: T) -> Result<Answers, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.wait(self.client.query_all(target))
    }

    /// Measures the latency of a server as [`hailer::Client::ping`](crate::Client::ping) does.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As of [`Client::query`].
    pub fn ping<T>(&self, target: T) -> Result<Answer, Error>
    where
        T: TryInto<Target>,
        Error: From<T::Error>,
    {
        self.wait(self.client.ping(target))
    }

    /// Queries many servers, `concurrency` at a time, as
    /// [`hailer::Client::query_many`](crate::Client::query_many) does. A thread of its own runs the
    /// queries, so that they continue while the caller handles a result. They end when the iterator is
    /// dropped.
    ///
    /// # Panics
    /// The system refuses a thread.
    pub fn query_many<I, T>(&self, targets: I, concurrency: usize) -> Results<T>
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
        T: TryInto<Target> + Clone + Send + 'static,
        T::Error: Send,
        Error: From<T::Error>,
    {
        let targets = targets.into_iter();
        let Self { client, runtime } = self.clone();
        let (sender, receiver) = mpsc::channel(concurrency.max(1));
        let thread = std::thread::Builder::new().name("query-many".into());
        let started = thread.spawn(move || {
            runtime.block_on(async move {
                let mut results = client.query_many(targets, concurrency);
                loop {
                    let next = tokio::select! {
                        biased;
                        () = sender.closed() => break,
                        next = results.next() => next,
                    };
                    let Some(result) = next else { break };
                    if sender.send(result).await.is_err() {
                        break;
                    }
                }
            });
        });
        started.expect("a thread for the queries");
        Results(receiver)
    }

    fn wait<F: Future>(&self, query: F) -> F::Output {
        self.runtime.block_on(query)
    }
}

/// Results of [`Client::query_many`] as they arrive, each with its target.
#[derive(Debug)]
pub struct Results<T>(Receiver<(T, Result<Answers, Error>)>);

impl<T> Iterator for Results<T> {
    type Item = (T, Result<Answers, Error>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.blocking_recv()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn errors_arrive_without_a_runtime_of_the_caller() {
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let target = format!("ugp://{address}");
        assert_eq!(query(&target).unwrap_err().kind(), "port-closed");
        assert_eq!(query("a b").unwrap_err().kind(), "target");
        let client = Client::new(client::Client::default()).unwrap();
        let targets = vec![target.clone(), "a b".into(), target];
        let mut kinds: Vec<_> = client
            .query_many(targets, 2)
            .map(|(_, result)| result.unwrap_err().kind().as_str())
            .collect();
        kinds.sort_unstable();
        assert_eq!(kinds, ["port-closed", "port-closed", "target"]);
    }

    #[test]
    fn dropped_results_end_the_queries() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        let target = format!("ugp://{}", silent.local_addr().unwrap());
        let client = Client::new(client::Client::default()).unwrap();
        let mut results = client.query_many(vec!["a b".to_owned(), target], 1);
        assert!(results.next().is_some());
        drop(results);
        let started = std::time::Instant::now();
        while Arc::strong_count(&client.runtime) > 1 {
            assert!(started.elapsed().as_secs() < 30, "the thread still runs");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
