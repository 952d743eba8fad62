//! HTTP listener with limits on connections, header time and idle time.
//!
//! ```text
//! accept ─► ConnectionLimiter ─► head within `Bounds::head` ─► router ─► response, while the client reads it
//! at most `Bounds::connections`: the oldest is closed
//! ```
//!
//! HTTP/1.1 only; a proxy that terminates TLS can speak HTTP/2 to browsers. When the limit is
//! reached, the oldest connection is closed: browsers reconnect automatically, also event streams.

use crate::web::{App, router};
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hailer::source::ConnectionLimiter;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::ServiceExt;

/// Maximum size of a request head, in bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// Limits of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of connections. Beyond it, the oldest is closed.
    pub connections: usize,
    /// Time to send the head of a request, from the start of the connection or the end of the
    /// previous response.
    pub head: Duration,
    /// Time after which a client that does not read its response is disconnected.
    pub unread: Duration,
    /// Time for running responses to finish when the listener stops.
    pub last: Duration,
}

impl Default for Bounds {
    /// 768 connections, so that the process stays below the usual limit of 1,024 open files; 15 s
    /// for a head, 60 s for a stalled reader, 2 s to finish.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            connections: 768,
            head: seconds(15),
            unread: seconds(60),
            last: seconds(2),
        }
    }
}

/// Serves connections until `until` completes; then ends event streams, lets running responses
/// finish, and returns.
pub async fn serve(
    listener: TcpListener,
    app: App,
    bounds: Bounds,
    until: impl Future<Output = ()>,
) {
    let pages = router(app.clone());
    let mut visitors = ConnectionLimiter::new(bounds.connections);
    let closing = app.closing.clone();
    let converse =
        |stream, peer| converse(stream, peer, pages.clone(), closing.subscribe(), bounds);
    tokio::select! {
        _ = visitors.receive(&listener, converse) => {}
        () = until => {}
    }
    // Accept no further connections.
    drop(listener);
    app.close();
    let _ = timeout(bounds.last, visitors.leave()).await;
}

/// Serves one connection.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    pages: Router,
    mut closing: watch::Receiver<bool>,
    bounds: Bounds,
) {
    // Each write is a complete response or a small event, so do not wait for more data.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        pages
            .clone()
            .oneshot(request.map(axum::body::Body::new) as Request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream, bounds.unread)), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|is_closing| *is_closing) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A stream that fails when the peer does not read for too long.
struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write is blocked.
    clock: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Patient<S> {
    fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            clock: Box::pin(sleep(patience)),
            waits: false,
        }
    }

    fn watched<T>(
        &mut self,
        poll: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waits = false;
            return poll;
        }
        if !std::mem::replace(&mut self.waits, true) {
            self.clock.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.clock.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, room)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(poll, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watched(poll, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
