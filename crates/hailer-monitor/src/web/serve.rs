//! The listener: whoever comes is let in, and nobody keeps a place for nothing.
//!
//! ```text
//!   accept ─► ConnectionLimiter ─► head within `Bounds::head` ─► router ─► answer, as long as somebody reads it
//!             at most `Bounds::connections`: who came first makes room
//! ```
//!
//! HTTP/1.1 only: what stands in front and ends TLS speaks HTTP/2 to browsers. A browser that lost its place comes again by itself,
//! also for rows that change, so a place is taken from whoever has had it for longest.

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

/// Bytes of the head of a request.
const LONGEST_HEAD: usize = 16 << 10;

/// What visitors may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at the same time. One more, and whoever has been there for longest goes.
    pub connections: usize,
    /// For the head of a request, from the start of a connection or from the end of the answer before.
    pub head: Duration,
    /// Somebody who reads nothing of an answer for so long is gone.
    pub unread: Duration,
    /// For answers that are under way when it ends.
    pub last: Duration,
}

impl Default for Bounds {
    /// 768 connections, so that with all else no more than the 1,024 files are open that most systems allow; 15 s for a head,
    /// 60 s for a reader, 2 s at the end.
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

/// Answers all who come to a listener, until `until`; then ends what would go on, lets answers come to their end, and returns.
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
    // Nobody else comes in.
    drop(listener);
    app.close();
    let _ = timeout(bounds.last, visitors.leave()).await;
}

/// One connection.
async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    pages: Router,
    mut closing: watch::Receiver<bool>,
    bounds: Bounds,
) {
    // Answers are written whole, and rows that change are small.
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

/// A stream that fails when what was written is not read for long.
struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while something waits to be taken.
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
