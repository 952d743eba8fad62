//! The game server on loopback sockets.

use hailer::minecraft::game::server::{GameServerConfig, ServerEvent, WorldKind};
use hailer::minecraft::{GameServer, GameServerError};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(10);
/// The first packet of 1.2.5 (0x02) with the name "A", and its second (0x01) with protocol 29 and
/// that name.
const OLD_HELLO: &[u8] = b"\x02\0\x01\0A";
const OLD_LOGIN: &[u8] = b"\x01\0\0\0\x1D\0\x01\0A\0\0\0\0\0\0\0\0\0\0\0\0\0";

fn units(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

async fn ping(address: SocketAddr) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(&[0xFE]).await.unwrap();
    let mut reply = Vec::new();
    timeout(TIMEOUT, socket.read_to_end(&mut reply))
        .await
        .unwrap()
        .unwrap();
    reply
}

#[tokio::test]
async fn slow_clients_delay_no_other_and_all_are_kicked_at_the_end() {
    let mut config = GameServerConfig {
        world: WorldKind::Flat,
        motd: "A".into(),
        ..GameServerConfig::default()
    };
    config.limits.logins = 500;
    config.limits.logins_per_ip = 500;
    config.limits.connections_per_ip = 500;
    let local = "127.0.0.1:0".parse().unwrap();
    let mut server = GameServer::bind(&[local, local], config).await.unwrap();
    let addresses = server.local_addrs().unwrap();
    let mut events = server.events().unwrap();
    assert!(server.events().is_none());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async move { drop(stopped.await) }));

    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(addresses[0]).await.unwrap());
    }
    // A player who never reads.
    let mut deaf = TcpStream::connect(addresses[1]).await.unwrap();
    deaf.write_all(OLD_HELLO).await.unwrap();
    deaf.write_all(OLD_LOGIN).await.unwrap();
    let joined = timeout(TIMEOUT, events.recv()).await.unwrap();
    assert!(matches!(joined, Some(ServerEvent::Joined { name, .. }) if name == "A"));
    for address in addresses {
        assert_eq!(
            ping(address).await,
            [b"\xFF\0\x06", &units("A§1§20")[..]].concat(),
            "one of twenty"
        );
    }

    stop.send(()).unwrap();
    let mut chat = Vec::new();
    timeout(TIMEOUT, deaf.read_to_end(&mut chat))
        .await
        .unwrap()
        .unwrap();
    assert!(chat.starts_with(b"\x02\0\x01\0-\x01") && chat.ends_with(&units("Server closed")));
    drop((idle, deaf));
    timeout(TIMEOUT, running).await.unwrap().unwrap();
    let rest = async { while events.recv().await.is_some() {} };
    timeout(TIMEOUT, rest).await.unwrap();
}

#[tokio::test]
async fn address_in_use_is_reported() {
    let first = GameServer::bind(
        &["127.0.0.1:0".parse().unwrap()],
        GameServerConfig::default(),
    )
    .await
    .unwrap();
    let taken = first.local_addrs().unwrap();
    let error = GameServer::bind(&taken, GameServerConfig::default())
        .await
        .err()
        .unwrap();
    assert!(matches!(error, GameServerError::Listen { address, .. } if address == taken[0]));
    assert_eq!(error.to_string(), format!("cannot listen on {}", taken[0]));
}
