//! Checks the order in which hosts without a protocol are probed.

use hailer_proto::registry::{self, PROTOCOLS};
use hailer_proto::{Ask, Cookie, Input, Transport, Wave};

/// Protocols with a fixed place, in this order.
const ORDER: [&str; 19] = [
    "minecraft-status",
    "minecraft-query",
    "a2s",
    "minecraft-bedrock",
    "quake3",
    "gamespy3",
    "ugp",
    "onequery",
    "gamespy1",
    "samp",
    "ase",
    "unreal2",
    "openttd-udp",
    "gamespy2",
    "satisfactory",
    "battlefield",
    "terraria-join",
    "satisfactory-api",
    "teamspeak-voice",
];

#[test]
fn common_protocols_are_probed_first() {
    let mut placed = PROTOCOLS.to_vec();
    placed.retain(|protocol| protocol.info().place < u8::MAX);
    placed.sort_by_key(|protocol| protocol.info().place);
    let ids: Vec<&str> = placed.iter().map(|protocol| protocol.info().id).collect();
    assert_eq!(ids, ORDER);
    for (place, protocol) in placed.iter().enumerate() {
        assert_eq!(usize::from(protocol.info().place), place);
    }
}

#[test]
fn the_first_wave_is_small() {
    let first = PROTOCOLS.iter().map(|protocol| protocol.info());
    let first = first.filter(|info| info.wave == Wave::First);
    let (streams, datagrams): (Vec<_>, Vec<_>) =
        first.partition(|info| info.transport == Transport::Stream);
    assert!(streams.len() <= 2, "at most two connections");
    assert!(
        datagrams.len() <= 4,
        "a quarter of the 12 datagrams is for retries"
    );
    let query = registry::find("minecraft-query").unwrap().info();
    assert_eq!(query.wave, Wave::First);
}

/// Servers that use RakNet block senders of packets whose first byte is an unknown id below 80.
#[test]
fn requests_that_raknet_servers_punish_come_last_or_go_only_to_known_ports() {
    for protocol in registry::datagram() {
        let id = protocol.info().id;
        let mut request = Vec::new();
        let mut exchange = protocol.exchange(&Ask::default(), Cookie(7));
        exchange.handle(Input::Start, &mut request);
        let is_risky = request.first().is_none_or(|byte| *byte < 80);
        let wave = protocol.info().wave;
        assert!(
            !is_risky || wave >= Wave::Last || id == "minecraft-bedrock",
            "{id}: its request begins with {:?}; give it Wave::Last or Wave::OwnPorts",
            request.first()
        );
    }
}
