//! HTTP/1.1 within the limits of a listener.
//!
//! Used for pushed statuses, the metrics of `hailer serve` and the pages of `hailer monitor`. A
//! proxy that terminates TLS can speak HTTP/2 to browsers.
//!
//! In: connections of a listener. Out: requests for a service, responses.
//!
//! May import: `crate::support::listen`.

use super::{ConnectionLimiter, ConnectionLimits, LimitedStream, Listener};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Limits of an HTTP listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Limits of connections.
    pub connections: ConnectionLimits,
    /// Time to send the head of a request, from the start of the connection or the end of the
    /// previous response.
    pub head: Duration,
    /// Maximum size of the head of a request in bytes, at least 8,192.
    pub head_bytes: usize,
    /// Whether a connection can send several requests.
    pub has_keep_alive: bool,
    /// Time for running responses to finish when the listener stops.
    pub shutdown: Duration,
}

/// Serves requests until `until` completes; then stops to accept, lets running responses finish,
/// and returns. `respond` receives each request with the address of its client, `None` for Unix
/// sockets.
pub async fn serve<L, R, F, B>(
    listener: L,
    limits: HttpLimits,
    respond: R,
    until: impl Future<Output = ()>,
) where
    L: Listener,
    R: Fn(Request<Incoming>, Option<SocketAddr>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (stop, stopped) = watch::channel(false);
    let mut limiter = ConnectionLimiter::new(limits.connections);
    let converse = |stream: LimitedStream<L::Stream>, peer| {
        let respond = respond.clone();
        let service = service_fn(move |request| {
            let response = respond(request, peer);
            async { Ok::<_, Infallible>(response.await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(limits.head_bytes)
            .keep_alive(limits.has_keep_alive)
            .serve_connection(TokioIo::new(stream), service);
        let mut stopped = stopped.clone();
        async move {
            let mut connection = pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {
                    connection.as_mut().graceful_shutdown();
                }
            }
            let _ = connection.await;
        }
    };
    tokio::select! {
        _ = limiter.serve(&listener, converse) => {}
        () = until => {}
    }
    // Accept no further connections.
    drop(listener);
    stop.send_replace(true);
    let _ = timeout(limits.shutdown, limiter.closed()).await;
}
