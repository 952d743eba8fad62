//! Checks the order in which hosts without a protocol are probed.

use hailer_proto::registry::{self, DETECTION, Wave};
use hailer_proto::{Ask, Cookie, Input, Transport};
use std::collections::BTreeSet;

#[test]
fn ids_are_unique_and_the_first_wave_is_small() {
    let ids: BTreeSet<&str> = DETECTION.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids.len(), DETECTION.len());
    let first = DETECTION.iter().filter(|(_, wave)| *wave == Wave::First);
    let (streams, datagrams): (Vec<_>, Vec<_>) = first
        .filter_map(|(id, _)| registry::find(id))
        .partition(|protocol| protocol.info().transport == Transport::Stream);
    assert!(streams.len() <= 2, "at most two connections");
    assert!(
        datagrams.len() <= 4,
        "a quarter of the 12 datagrams is for retries"
    );
    assert_eq!(
        registry::detection("no-such-protocol"),
        (DETECTION.len(), Wave::Later)
    );
    assert_eq!(registry::detection("minecraft-query").1, Wave::First);
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
        let (_, wave) = registry::detection(id);
        assert!(
            !is_risky || wave >= Wave::Last || id == "minecraft-bedrock",
            "{id}: its request begins with {:?}; give it Wave::Last or Wave::OwnPorts",
            request.first()
        );
    }
}
