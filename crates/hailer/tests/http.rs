//! Queries over HTTP against servers that hang, flood, redirect and lie. Every server is on
//! loopback and ends with its test.

use hailer::client::{ClientConfig, QueryLimits};
use hailer::proto::{Ask, Direction};
use hailer::{Answer, Client, Error};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ECO: &str =
    r#"{"Info":{"Description":"Test","OnlinePlayers":1,"OnlinePlayersNames":["Alice"]}}"#;

/// A server that runs a function for each connection, until it is dropped.
struct Server {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn new(serve: impl Fn(&str, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let serve = Arc::new(serve);
        let thread = {
            let is_over = is_over.clone();
            let connections = connections.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    connections.fetch_add(1, Ordering::Relaxed);
                    let serve = serve.clone();
                    std::thread::spawn(move || {
                        let mut stream = stream.unwrap();
                        let request = head(&mut stream);
                        serve(&request, stream);
                    });
                }
            })
        };
        Self {
            address,
            is_over,
            connections,
            thread: Some(thread),
        }
    }

    /// A server that sends these bytes and closes the connection.
    fn sending(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::new(move |_, mut stream| {
            let _ = stream.write_all(&bytes);
        })
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads a request up to its empty line.
fn head(stream: &mut TcpStream) -> String {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && bytes.len() < 65_536 {
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn client(timeout: Duration) -> Client {
    let mut config = ClientConfig::default();
    let mut limits = QueryLimits::default();
    limits.timeout = timeout;
    limits.retries = 0;
    limits.deadline = timeout * 3;
    config.limits = limits;
    config.has_datagrams = true;
    Client::new(config)
}

async fn query_in(protocol: &str, server: &Server) -> Result<Answer, Error> {
    let target = format!("{protocol}://{}", server.address);
    client(Duration::from_secs(5)).query(target.as_str()).await
}

async fn query(server: &Server) -> Result<Answer, Error> {
    query_in("eco", server).await
}

#[tokio::test]
async fn every_encoding_of_a_body_gives_the_same_answer() {
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{ECO}\r\n0\r\n\r\n",
        ECO.len()
    );
    let until_close = format!("HTTP/1.0 200 OK\r\n\r\n{ECO}");
    for bytes in [ok(ECO), chunked.into_bytes(), until_close.into_bytes()] {
        let server = Server::sending(bytes);
        let answer = query(&server).await.unwrap();
        assert_eq!(answer.status.title().as_deref(), Some("Test"));
        assert_eq!(answer.status.players.online, Some(1));
        assert_eq!((answer.transcript.sent, answer.transcript.received), (1, 1));
        let reply = answer.transcript.datagrams.last().unwrap();
        assert_eq!(reply.direction, Direction::Reply);
        assert!(reply.bytes.ends_with(ECO.as_bytes()));
    }
}

#[tokio::test]
async fn requests_have_no_fields_that_get_clients_blocked() {
    let server = Server::new(|request, mut stream| {
        let request = request.to_lowercase();
        let fields: Vec<&str> = request.lines().skip(1).collect();
        let names: Vec<&str> = fields
            .iter()
            .filter_map(|field| Some(field.split_once(':')?.0))
            .collect();
        let body = if names == ["host", "user-agent", "accept", "connection"] {
            ECO
        } else {
            "{}"
        };
        let _ = stream.write_all(&ok(body));
    });
    assert!(query(&server).await.is_ok());
}

#[tokio::test]
async fn endless_bodies_and_heads_are_cut_off() {
    let started = Instant::now();
    for (start, piece) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "x".repeat(4_096)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            format!("1000\r\n{}\r\n", "x".repeat(4_096)),
        ),
        ("HTTP/1.1 200 OK\r\n", format!("a: {}\r\n", "x".repeat(200))),
        ("HTTP/1.1 200 OK\r\nx: ", "x".repeat(4_096)),
        ("", "x".repeat(4_096)),
    ] {
        let server = Server::new(move |_, mut stream| {
            let mut sent = stream.write_all(start.as_bytes());
            // At most 64 MiB, if the client does not close the connection.
            for _ in 0..16_384 {
                if sent.is_err() {
                    return;
                }
                sent = stream.write_all(piece.as_bytes());
            }
        });
        let error = query(&server).await.unwrap_err();
        assert_eq!(error.kind(), "malformed", "{start:?}: {error}");
    }
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn endless_informational_responses_are_cut_off() {
    let informational = b"HTTP/1.1 100 Continue\r\n\r\n";
    let early = [&informational.repeat(16), &ok(ECO)[..]].concat();
    assert!(query(&Server::sending(early)).await.is_ok());
    // One at a time, and as many as fit.
    for count in [1, 1_000] {
        let server = Server::new(move |_, mut stream| {
            let bytes = informational.repeat(count);
            while stream.write_all(&bytes).is_ok() {}
        });
        let started = Instant::now();
        let error = query(&server).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("more than 16 informational"), "{text}");
        assert!(started.elapsed() < Duration::from_secs(2), "{started:?}");
    }
}

#[tokio::test]
async fn slow_servers_end_at_the_timeout() {
    let drip = Server::new(|_, mut stream| {
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
            .iter()
            .chain([b' '; 1_000].iter())
        {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let silent = Server::new(|_, _stream| std::thread::sleep(Duration::from_secs(2)));
    for server in [&drip, &silent] {
        let started = Instant::now();
        let target = format!("eco://{}", server.address);
        let client = client(Duration::from_millis(300));
        let error = client.query(target.as_str()).await.unwrap_err();
        assert_eq!(error.kind(), "silence", "{error}");
        assert!(started.elapsed() < Duration::from_secs(2), "{started:?}");
    }
}

#[tokio::test]
async fn redirects_stay_on_the_server_and_end() {
    let elsewhere = Server::sending(ok(ECO));
    let other = elsewhere.address;
    let server = Server::new(move |request, mut stream| {
        let location = match request.split(' ').nth(1) {
            Some("/frontpage") => "/moved",
            Some("/moved") => {
                let _ = stream.write_all(&ok(ECO));
                return;
            }
            _ => "/",
        };
        let head =
            format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
    });
    assert!(query(&server).await.is_ok());
    assert_eq!(server.connections(), 2);
    for (location, connections) in [
        ("/frontpage".to_owned(), 8),
        (format!("http://{other}/frontpage"), 2),
        (format!("//{other}/frontpage"), 2),
        ("https://example.invalid/".to_owned(), 2),
    ] {
        let head =
            format!("HTTP/1.1 301 Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        let server = Server::sending(head);
        let error = query(&server).await.unwrap_err();
        assert!(error.to_string().contains("redirects"), "{error}");
        assert_eq!(server.connections(), connections, "{location}: two files");
    }
    assert_eq!(elsewhere.connections(), 0, "no request leaves the server");
}

#[tokio::test]
async fn bodies_that_are_no_status_are_named() {
    let deep = "[".repeat(100_000);
    let many = format!("[{}0]", "0,".repeat(200_000));
    let nested = format!("{{\"Info\":{}1{}}}", "[".repeat(1_000), "]".repeat(1_000));
    let gzip =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1F\x8B\x08";
    for (bytes, problem) in [
        (ok(&deep), "JSON"),
        (ok(&many), "JSON"),
        (ok(&nested), "JSON"),
        (ok("<html>"), "a web page"),
        (ok(""), "JSON"),
        (ok("{}"), "Eco"),
        (gzip.to_vec(), "compression"),
        (b"SSH-2.0-OpenSSH\r\n".to_vec(), "not HTTP"),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "no such file",
        ),
        (
            b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "too many requests",
        ),
        (b"".to_vec(), "without a reply"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec(),
            "without a reply",
        ),
    ] {
        let server = Server::sending(bytes);
        let started = Instant::now();
        let error = query(&server).await.unwrap_err();
        assert!(error.to_string().contains(problem), "{problem}: {error}");
        assert!(started.elapsed() < Duration::from_secs(2), "{problem}");
        assert!(server.connections() <= 2);
    }
}

/// spec/nitrado.md#1
#[tokio::test]
async fn a_server_without_tls_is_queried_without() {
    for rejection in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        b"",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("nitrado://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut tls, _) = listener.accept().unwrap();
            let mut hello = [0; 2_048];
            assert!(tls.read(&mut hello).unwrap() > 5 && hello[0] == 0x16);
            tls.write_all(rejection).unwrap();
            drop(tls);
            let (mut plain, _) = listener.accept().unwrap();
            let request = head(&mut plain);
            let body = r#"{"Basic":{"Name":"Harbour","CurrentPlayers":1,"MaxPlayers":9}}"#;
            plain.write_all(&ok(body)).unwrap();
            request
        });
        let client = client(Duration::from_secs(5));
        let answer = client.query(target.as_str()).await.unwrap();
        assert_eq!(answer.status.title().as_deref(), Some("Harbour"));
        let request = server.join().unwrap();
        assert!(request.starts_with("GET /Nitrado/Query "), "{request}");
    }
}

#[tokio::test]
async fn a_closed_port_is_reported() {
    // No other test binds this address, so the port stays closed.
    let address = {
        let listener = TcpListener::bind("127.0.0.9:0").unwrap();
        listener.local_addr().unwrap()
    };
    let target = format!("eco://{address}");
    let error = client(Duration::from_secs(5)).query(target.as_str()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), "port-closed");
    assert!(error.to_string().contains("TCP port"), "{error}");
}

#[tokio::test]
async fn a_missing_part_leaves_a_partial_answer() {
    let server = Server::new(|request, mut stream| match request.split(' ').nth(1) {
        Some("/dynamic.json") => {
            let body = r#"{"clients":2,"gametype":"F","hostname":"Test","mapname":"M","sv_maxclients":"48"}"#;
            let _ = stream.write_all(&ok(body));
        }
        Some("/players.json") => std::thread::sleep(Duration::from_secs(2)),
        _ => {}
    });
    let target = format!("fivem-http://{}", server.address);
    let client = client(Duration::from_millis(500));
    let answer = client.query(target.as_str()).await.unwrap();
    assert_eq!(answer.status.players.online, Some(2));
    let unanswered = answer.status.extra("unanswered").unwrap();
    assert!(format!("{unanswered:?}").contains("players"));
}

#[tokio::test]
async fn passwords_are_sent_but_never_shown() {
    let server = Server::new(|request, mut stream| {
        // admin:hunter2
        let bytes = if request.contains("Basic YWRtaW46aHVudGVyMg==") {
            ok(r#"{"servername":"Test","version":"v1","currentplayernum":0}"#)
        } else {
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()
        };
        let _ = stream.write_all(&bytes);
    });
    let error = query_in("palworld", &server).await.unwrap_err();
    assert!(error.to_string().contains("password"), "{error}");
    assert_eq!(
        (error.kind().as_str(), server.connections()),
        ("refused", 1)
    );
    let mut config = ClientConfig::default();
    config.ask = Ask {
        auth_token: Some("hunter2".into()),
        ..Ask::default()
    };
    let target = format!("palworld://{}", server.address);
    let client = Client::new(config);
    let answer = client.query(target.as_str()).await.unwrap();
    assert_eq!(answer.status.title().as_deref(), Some("Test"));
    assert!(!format!("{answer:?} {:?}", client.config()).contains("hunter2"));
}

/// A remote service gets the target in the path; only the service is contacted.
#[tokio::test]
async fn remote_services_are_queried_in_place_of_the_target() {
    let server = Server::new(|request, mut stream| {
        let body = match request.split(' ').nth(1) {
            Some("/api/guilds/81384788765712384/widget.json")
                if request.contains("Host: discord.com\r\n") =>
            {
                r#"{"id":"81384788765712384","name":"Test","members":[],"presence_count":0}"#
            }
            // A name is looked up, because the list has addresses only.
            Some("/get-game-details/192.0.2.7:34197" | "/get-game-details/127.0.0.1:34198") => {
                r#"{"game_id":1,"name":"Test","host_address":"192.0.2.7:34197"}"#
            }
            _ => "{}",
        };
        let _ = stream.write_all(&ok(body));
    });
    let mut config = ClientConfig::default();
    config.service = Some(hailer::support::http::HttpServer {
        address: server.address,
        host: "localhost".into(),
        tls: hailer::proto::Tls::Off,
    });
    let client = Client::new(config);
    for target in [
        "discord://81384788765712384",
        "factorio://192.0.2.7",
        "factorio://localhost:34198",
    ] {
        let answer = client.query(target).await.unwrap();
        assert_eq!(answer.status.title().as_deref(), Some("Test"), "{target}");
        assert!(answer.status.extra("service").is_some());
    }
}

/// Starts a server with TLS that sends these bytes on every connection. `openssl` creates its
/// certificate, which signs itself. `None`, with a message, if it is not installed.
#[cfg(feature = "tls")]
async fn tls_server(bytes: Vec<u8>) -> Option<SocketAddr> {
    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = hailer_testkit::folder::Folder::new("http-tls");
    let made = std::process::Command::new("openssl")
        .current_dir(folder.path())
        .args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split(' '))
        .args("-addext basicConstraints=critical,CA:FALSE".split(' '))
        .args("-addext subjectAltName=IP:127.0.0.1".split(' '))
        .args("-keyout key.pem -out cert.pem".split(' '))
        .stderr(std::process::Stdio::null())
        .status();
    if !made.is_ok_and(|made| made.success()) {
        eprintln!("skipped: openssl is not installed");
        return None;
    }
    let certificate = CertificateDer::from_pem_file(folder.path().join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Ends with the runtime of the test.
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Clients that reject the certificate end the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
    });
    Some(address)
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn certificates_are_verified_unless_any_is_accepted() {
    use hailer::proto::Tls;
    let Some(server) = tls_server(ok(ECO)).await else {
        return;
    };
    let query = async |tls, address| {
        let mut config = ClientConfig::default();
        config.tls = tls;
        let target = format!("eco://{address}");
        Client::new(config).query(target.as_str()).await
    };
    let answer = query(Some(Tls::AnyCertificate), server).await.unwrap();
    assert_eq!(answer.status.title().as_deref(), Some("Test"));
    assert_eq!(
        answer.notes,
        ["The certificate of the server was not verified"]
    );
    // A server without TLS, which answers the start of a handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Unread bytes would reset the connection before the reply is read.
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4_096]).await;
            let reply = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, reply).await;
        }
    });
    for (tls, address, problem) in [
        (Some(Tls::Verified), server, "its certificate "),
        (Some(Tls::Verified), plain, "it does not speak TLS"),
        (Some(Tls::AnyCertificate), plain, "it does not speak TLS"),
        (None, server, "the port requires TLS"),
    ] {
        let error = query(tls, address).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{tls:?}: {error}");
    }
}

/// spec/minecraft-nethernet.md#4
#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_that_requires_tls_gets_it_after_a_plain_request() {
    const STATUS: &str = r#"{"name":"Harbour","protocol":2193,"version":"1.26.51","level":"World",
        "players":3,"maxPlayers":10,"gameType":0}"#;
    let Some(encrypted) = tls_server(ok(STATUS)).await else {
        return;
    };
    let plain = Server::sending(ok(STATUS));
    for address in [encrypted, plain.address] {
        let target = format!("minecraft-nethernet://{address}");
        let client = client(Duration::from_secs(5));
        let answer = client.query(target.as_str()).await.unwrap();
        assert_eq!(answer.status.title().as_deref(), Some("Harbour"));
        assert_eq!(answer.status.players.max, Some(10));
        assert!(answer.notes.is_empty(), "{:?}", answer.notes);
    }
    assert_eq!(plain.connections(), 1);
}

/// spec/minecraft-nethernet.md#4
#[tokio::test]
async fn a_bedrock_server_is_queried_over_nethernet_when_it_ignores_the_ping() {
    const STATUS: &str = r#"{"name":"Harbour","protocol":2193,"maxPlayers":10,"gameType":1}"#;
    let server = Server::sending(ok(STATUS));
    // Silent: the pings arrive, and nothing is sent back.
    let ping = std::net::UdpSocket::bind(server.address).unwrap();
    let target = format!("minecraft-bedrock://{}", server.address);
    let client = client(Duration::from_secs(1));
    let answers = client.detect(target.as_str()).await.unwrap();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].transcript.protocol.id, "minecraft-nethernet");
    assert_eq!(answers.best().status.mode.as_deref(), Some("Creative"));
    assert!(answers.best().notes.is_empty());
    let mut bytes = [0; 64];
    let (length, _) = ping.recv_from(&mut bytes).unwrap();
    assert_eq!((length, bytes[0]), (33, 1));
    // The same, with another service: both failures count.
    let other = Server::sending(ok("[]"));
    let ping = std::net::UdpSocket::bind(other.address).unwrap();
    let target = format!("minecraft-bedrock://{}", other.address);
    let error = client.query(target.as_str()).await.unwrap_err().to_string();
    assert!(error.contains("NetherNet"), "{error}");
    // A closed port: the failure is that of the ping alone.
    let address = ping.local_addr().unwrap();
    drop((ping, other));
    let target = format!("minecraft-bedrock://{address}");
    let error = client.query(target.as_str()).await.unwrap_err();
    assert!(matches!(error, Error::PortClosed { .. }), "{error}");
}

/// A web server on the port of a game is common, and its page is no riddle about JSON.
#[tokio::test]
async fn a_web_page_is_named_with_its_title() {
    for (body, expected) in [
        (
            "<!DOCTYPE html>\n<html><head><TITLE lang=en>Zürich &\n  harbour\x1b[2J</TITLE></head></html>",
            "sent a web page with the title \"Zürich & harbour",
        ),
        (
            "<html>hello</html>",
            "sent a web page in place of a reply of FiveM",
        ),
        ("  nothing", "reply: JSON at offset 2: "),
    ] {
        let server = Server::new(move |_, mut stream| {
            let _ = stream.write_all(&ok(body));
        });
        let error = query_in("fivem-http", &server).await.unwrap_err();
        assert_eq!(error.kind(), "malformed");
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
}
