//! The listener on a real socket: limits of connections, header time and idle time.

use hailer_testkit::fleet;

use hailer::support::listen::ConnectionLimits;
use hailer::support::listen::http::HttpLimits;
use hailer_monitor::history::History;
use hailer_monitor::web::{App, serve};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const LONG: Duration = Duration::from_secs(20);
const LIMITS: HttpLimits = HttpLimits {
    connections: ConnectionLimits {
        total: 8,
        per_network: 8,
        first_byte: LONG,
        idle: None,
        stalled: Duration::from_millis(700),
        lifetime: None,
    },
    head: Duration::from_millis(400),
    shutdown: Duration::from_secs(5),
    ..hailer_monitor::web::LIMITS
};

struct Site {
    address: SocketAddr,
    app: App,
    end: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Site {
    async fn start(limits: HttpLimits) -> Self {
        let app = App::new(
            fleet::fleet(fleet::now()),
            History::open("sqlite::memory:").await.unwrap(),
        );
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, app.clone(), limits, async {
            drop(ended.await);
        }));
        Self {
            address,
            app,
            end,
            served,
        }
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self, path: &str) -> String {
        let stream = self
            .send(&format!(
                "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            ))
            .await;
        all(stream).await
    }

    /// Opens an event stream, and waits for its first comment.
    async fn listener(&self) -> TcpStream {
        let mut stream = self
            .send("GET /live/rows?ids=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        let received = until(&mut stream, "hello").await;
        assert!(received.contains("text/event-stream"), "{received}");
        stream
    }
}

/// Reads until the peer closes the connection.
async fn all(mut stream: TcpStream) -> String {
    let mut received = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut received))
        .await
        .expect("it never hangs up");
    String::from_utf8_lossy(&received).into_owned()
}

async fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut received = String::new();
    let mut bytes = [0; 4096];
    while !received.contains(wanted) {
        let count = timeout(LONG, stream.read(&mut bytes))
            .await
            .expect("in time")
            .unwrap();
        assert!(count > 0, "hung up after {received}");
        received.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    received
}

#[tokio::test]
async fn slow_request_heads_time_out() {
    let site = Site::start(LIMITS).await;
    let start = Instant::now();
    let mut slow = site.send("GET / HTTP/1.1\r\nhost: localhost\r\n").await;
    let mut drops = 0;
    let mut received = [0; 256];
    loop {
        // Send one header after another without an end.
        let _ = slow.write_all(format!("x-{drops}: y\r\n").as_bytes()).await;
        match timeout(Duration::from_millis(50), slow.read(&mut received)).await {
            Err(_) => drops += 1,
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(_)) => {}
        }
        assert!(start.elapsed() < LONG, "it is still there");
    }
    assert!(
        start.elapsed() >= LIMITS.head && drops > 2,
        "{:?}, {drops}",
        start.elapsed()
    );
    // The same for connections that send nothing, and for those that stay open after a response.
    assert_eq!(all(site.send("").await).await, "");
    let received = all(site
        .send("GET /static/icon.svg HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await)
    .await;
    assert!(received.starts_with("HTTP/1.1 200"), "{received}");
    // Clients that send nothing have less time than slow ones.
    let silent = Site::start(HttpLimits {
        connections: ConnectionLimits {
            first_byte: Duration::from_millis(100),
            ..LIMITS.connections
        },
        head: LONG,
        ..LIMITS
    })
    .await;
    let start = Instant::now();
    assert_eq!(all(silent.send("").await).await, "");
    assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    // The head must end before its maximum size is reached.
    let received = all(site
        .send(&format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(40_000)))
        .await)
    .await;
    assert!(
        received.is_empty() || received.starts_with("HTTP/1.1 431"),
        "{received}"
    );
}

#[tokio::test]
async fn new_connections_replace_the_oldest_when_full() {
    let site = Site::start(HttpLimits {
        head: LONG,
        ..LIMITS
    })
    .await;
    let mut idle = Vec::new();
    for _ in 0..3 * LIMITS.connections.total {
        idle.push(site.send("").await);
    }
    let page = site.get("/").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    // At most as many idle connections remain as the limit allows.
    let mut left = 0;
    for mut stream in idle {
        left += usize::from(
            timeout(Duration::from_millis(30), stream.read(&mut [0]))
                .await
                .is_err(),
        );
    }
    assert!(left < LIMITS.connections.total && left > 0, "{left}");
}

#[tokio::test]
async fn event_streams_have_their_own_limit() {
    let site = Site::start(HttpLimits {
        connections: ConnectionLimits {
            total: 700,
            ..LIMITS.connections
        },
        head: LONG,
        ..LIMITS
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..128 {
        open.push(site.listener().await);
    }
    let refused = site.get("/live/rows?ids=1").await;
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 60"),
        "{refused}"
    );
    assert!(
        site.get("/").await.starts_with("HTTP/1.1 200"),
        "the page itself is served"
    );
    drop(open.pop());
    let start = Instant::now();
    // A closed stream frees its slot after some time.
    loop {
        let mut again = site
            .send("GET /live/rows?ids=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await;
        if until(&mut again, "\r\n").await.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(start.elapsed() < LONG, "its place is lost");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn clients_that_do_not_read_are_disconnected() {
    let site = Site::start(LIMITS).await;
    // More responses than all buffers in between can hold.
    let mut deaf = site.send("").await;
    let ask = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let start = Instant::now();
    let asked = timeout(LONG, async {
        loop {
            deaf.write_all(ask.as_bytes()).await?;
            sleep(Duration::from_millis(20)).await;
        }
        #[allow(unreachable_code)]
        Ok::<_, std::io::Error>(())
    });
    assert!(asked.await.expect("it never hangs up").is_err());
    assert!(start.elapsed() >= LIMITS.connections.stalled);
}

#[tokio::test]
async fn shutdown_completes_running_responses() {
    let site = Site::start(HttpLimits {
        head: LONG,
        ..LIMITS
    })
    .await;
    let listener = site.listener().await;
    let idle = site.send("").await;
    let app = site.app.clone();
    let start = Instant::now();
    site.end.send(()).unwrap();
    site.served.await.unwrap();
    assert!(
        start.elapsed() < LIMITS.shutdown,
        "shutdown does not wait for idle clients: {:?}",
        start.elapsed()
    );
    assert_eq!(
        (all(listener).await.contains("rows"), all(idle).await),
        (false, String::new())
    );
    assert!(
        TcpStream::connect(site.address).await.is_err(),
        "no further connections are accepted"
    );
    drop(app);
}
