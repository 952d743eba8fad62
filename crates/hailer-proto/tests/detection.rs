//! Checks the order in which hosts without a protocol are probed.

use hailer_proto::registry::{self, PROTOCOLS};
use hailer_proto::{Ask, Cookie, Input, Transport, Wave};

/// Protocols with a place of their own, in this order.
const ORDER: [&str; 18] = [
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
fn temporary_order() {
    let old = [
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
        "teeworlds",
        "gamespy2",
        "quake2",
        "quake1",
        "doom3",
        "mumble",
        "satisfactory",
        "openttd-udp",
        "battlefield",
        "teamspeak-voice",
        "teamspeak2",
        "teamspeak3",
        "seven-days",
        "openttd",
        "tibia",
        "starmade",
        "terraria-join",
        "vintage-story",
        "netquake",
        "beammp",
        "farming-simulator",
        "eco",
        "assetto",
        "discord",
        "factorio",
        "satisfactory-api",
        "fivem-http",
        "kspdmp",
        "openspades",
        "palworld",
        "tshock",
        "ffow",
        "luanti",
        "cs2d",
        "armagetron",
        "savage2",
        "tribes1",
        "mafia2mp",
        "lhmp",
        "rfactor",
        "nitrado",
        "gbx-remote",
    ];
    let old_rank = |id: &str| old.iter().position(|known| *known == id).unwrap_or(99);
    for port in 1..=u16::MAX {
        let games = hailer_proto::games::GAMES.iter();
        let first: Vec<&str> = games
            .filter(|game| game.query_ports(None).contains(&port) || game.port == Some(port))
            .flat_map(|game| game.protocols.iter().copied())
            .collect();
        let mut home = PROTOCOLS.to_vec();
        home.retain(|protocol| {
            protocol.info().port == port
                || first.contains(&protocol.info().id)
                || protocol.info().wave < Wave::OwnPorts
        });
        let mut by_old = home.clone();
        by_old.sort_by_key(|protocol| old_rank(protocol.info().id));
        home.sort_by_key(|protocol| protocol.info().place);
        let ids = |list: &[&'static dyn hailer_proto::Protocol]| {
            list.iter().map(|p| p.info().id).collect::<Vec<_>>()
        };
        if ids(&by_old) != ids(&home) {
            println!("{port}: {:?} {:?}", ids(&by_old), ids(&home));
        }
    }
    panic!("look");
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
