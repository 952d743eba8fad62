//! HTTP listener of the pages and the API.
//!
//! ```text
//! accept ─► HttpLimits ─► router ─► response, while the client reads it
//! ```
//!
//! When a limit of connections is reached, an old one is closed: browsers reconnect automatically,
//! also event streams.
//!
//! May import: `crate::web`, `hailer`.

use crate::web::{App, router};
use axum::extract::ConnectInfo;
use hailer::support::listen::ConnectionLimits;
use hailer::support::listen::http::{self, HttpLimits};
use hyper::Request;
use hyper::body::Incoming;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tower::ServiceExt;

/// Default limits of the listener. 768 connections keep the process below the usual limit of 1,024
/// open files. Event streams last, so connections have no lifetime.
pub const LIMITS: HttpLimits = HttpLimits {
    connections: ConnectionLimits {
        total: 768,
        per_network: 256,
        first_byte: Duration::from_secs(10),
        idle: None,
        stalled: Duration::from_secs(60),
        lifetime: None,
    },
    head: Duration::from_secs(15),
    head_bytes: 16 << 10,
    has_keep_alive: true,
    shutdown: Duration::from_secs(2),
};

/// Serves connections until `until` completes; then ends event streams, lets running responses
/// finish, and returns.
pub async fn serve(
    listener: TcpListener,
    app: App,
    limits: HttpLimits,
    until: impl Future<Output = ()>,
) {
    let pages = router(app.clone());
    let respond = move |mut request: Request<Incoming>, peer: Option<SocketAddr>| {
        if let Some(peer) = peer {
            request.extensions_mut().insert(ConnectInfo(peer));
        }
        let response = pages.clone().oneshot(request.map(axum::body::Body::new));
        async {
            match response.await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    };
    let until = async {
        until.await;
        app.close();
    };
    http::serve(listener, limits, respond, until).await;
}
