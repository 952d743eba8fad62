//! QUIC: the client repeats the connection id that the server chose.

use super::relay;
use hailer::respond::RelayVerification;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

const PLAYERS: u8 = 40;
const VICTIMS: u8 = 20;
/// Far more than an unverified source receives in the time.
const WORLD_BYTES: usize = 200_000;
const LIMIT: Duration = Duration::from_secs(20);

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from(&include_bytes!("certificate.der")[..])
}

/// Starts a game server: it sends a world in reply to each hello.
pub(super) fn game() -> SocketAddr {
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("key.der")[..]);
    let config = ServerConfig::with_single_cert(vec![certificate()], key.into()).unwrap();
    let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move {
                // Forged sources never complete a handshake.
                let Ok(connection) = incoming.await else {
                    return;
                };
                while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                    assert_eq!(receive.read_to_end(64).await.unwrap(), b"hello");
                    send.write_all(&vec![7; WORLD_BYTES]).await.unwrap();
                    send.finish().unwrap();
                }
            });
        }
    });
    address
}

pub(super) fn client(from: IpAddr) -> Endpoint {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let crypto = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let crypto = QuicClientConfig::try_from(crypto).unwrap();
    let mut endpoint = Endpoint::client((from, 0).into()).unwrap();
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
    endpoint
}

/// Joins and receives the world. Returns its length.
pub(super) async fn play(from: IpAddr, to: SocketAddr) -> usize {
    let endpoint = client(from);
    let connection = endpoint.connect(to, "localhost").unwrap().await.unwrap();
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(b"hello").await.unwrap();
    send.finish().unwrap();
    receive.read_to_end(WORLD_BYTES).await.unwrap().len()
}

/// Returns the first datagram of a client.
async fn first_datagram() -> Vec<u8> {
    let sink = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let endpoint = client(Ipv4Addr::LOCALHOST.into());
    let connecting = endpoint.connect(sink.local_addr().unwrap(), "localhost");
    let _connecting = connecting.unwrap();
    let mut buffer = [0; 2_048];
    let length = sink.recv(&mut buffer).await.unwrap();
    buffer[..length].to_vec()
}

/// Sends from forged sources until the end. Returns the bytes of each victim, sent and received, with
/// headers.
fn flood(to: SocketAddr, datagram: &[u8], is_over: &AtomicBool) -> Vec<(u64, u64)> {
    let victims = (1..=VICTIMS).map(|number| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 51, number, 7), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    });
    let victims: Vec<_> = victims.collect();
    let mut flows = vec![(0, 0); victims.len()];
    let mut buffer = [0; 2_048];
    let mut number = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        for (victim, flow) in victims.iter().zip(&mut flows) {
            number += 1;
            // Sometimes with other bytes, which no key decrypts.
            let mut datagram = datagram.to_vec();
            if number.is_multiple_of(3) {
                datagram[6..14].copy_from_slice(&number.to_be_bytes());
            }
            if victim.send_to(&datagram, to).is_ok() {
                flow.0 += datagram.len() as u64 + 28;
            }
            while let Ok(length) = victim.recv(&mut buffer) {
                flow.1 += length as u64 + 28;
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    flows
}

#[tokio::test(flavor = "multi_thread")]
async fn players_join_at_the_same_time_in_a_flood() {
    let pool = relay(game(), RelayVerification::Echo);
    let to = pool.addresses()[0];
    let initial = first_datagram().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let flood = {
        let is_over = is_over.clone();
        std::thread::spawn(move || flood(to, &initial, &is_over))
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    let players = (1..=PLAYERS).map(|number| {
        let from = Ipv4Addr::new(127, 100, number, 9).into();
        tokio::spawn(timeout(LIMIT, play(from, to)))
    });
    let players: Vec<_> = players.collect();
    for (number, player) in players.into_iter().enumerate() {
        let received = player.await.unwrap();
        let counts = &pool.counts()[0].counts;
        assert_eq!(
            received.ok(),
            Some(WORLD_BYTES),
            "player {number}: {counts:?}"
        );
    }
    is_over.store(true, Ordering::Relaxed);
    let flows = flood.join().unwrap();
    assert!(flows.iter().any(|(_, received)| *received > 0), "no reply");
    for (sent, received) in flows {
        assert!(received <= 3 * sent, "{received} for {sent}");
    }
    pool.stop();
}
