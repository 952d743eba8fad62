//! All protocols, in the order in which a shared port offers them a datagram.

use crate::model::encoding;
use crate::protocol::{DatagramContext, Explanation, Protocol, Transport};
use crate::protocols::a2s::A2s;
use crate::protocols::armagetron::Armagetron;
use crate::protocols::ase::Ase;
use crate::protocols::battlefield::Battlefield;
use crate::protocols::beammp::BeamMp;
use crate::protocols::cs2d::Cs2d;
use crate::protocols::gamespy::gamespy1::GameSpy1;
use crate::protocols::gamespy::gamespy2::GameSpy2;
use crate::protocols::gamespy::gamespy3::GameSpy3;
use crate::protocols::gamespy::minecraft_query::MinecraftQuery;
use crate::protocols::http::assetto::Assetto;
use crate::protocols::http::discord::Discord;
use crate::protocols::http::eco::Eco;
use crate::protocols::http::factorio::Factorio;
use crate::protocols::http::farming_simulator::FarmingSimulator;
use crate::protocols::http::fivem_http::FiveMHttp;
use crate::protocols::http::kspdmp;
use crate::protocols::http::nitrado::Nitrado;
use crate::protocols::http::openspades::OpenSpades;
use crate::protocols::http::palworld::Palworld;
use crate::protocols::http::satisfactory_api::SatisfactoryApi;
use crate::protocols::http::tshock::TShock;
use crate::protocols::lhmp::Lhmp;
use crate::protocols::luanti::Luanti;
use crate::protocols::minecraft_bedrock::MinecraftBedrock;
use crate::protocols::minecraft_status::MinecraftStatus;
use crate::protocols::mumble::Mumble;
use crate::protocols::netquake::NetQuake;
use crate::protocols::netquake::ffow::Ffow;
use crate::protocols::onequery::OneQuery;
use crate::protocols::openttd::{self, openttd_udp};
use crate::protocols::quake::doom3::Doom3;
use crate::protocols::quake::quake1::Quake1;
use crate::protocols::quake::quake2::Quake2;
use crate::protocols::quake::quake3::Quake3;
use crate::protocols::samp::Samp;
use crate::protocols::single::gbx_remote::GbxRemote;
use crate::protocols::single::mafia2mp::Mafia2Mp;
use crate::protocols::single::rfactor::RFactor;
use crate::protocols::single::satisfactory::Satisfactory;
use crate::protocols::single::seven_days::SevenDays;
use crate::protocols::single::teamspeak_voice::TeamSpeakVoice;
use crate::protocols::single::terraria_join::TerrariaJoin;
use crate::protocols::single::tibia::Tibia;
use crate::protocols::single::tribes1::Tribes1;
use crate::protocols::single::vintage_story::VintageStory;
use crate::protocols::single::{savage2, starmade};
use crate::protocols::teamspeak::teamspeak2::TeamSpeak2;
use crate::protocols::teamspeak::teamspeak3::TeamSpeak3;
use crate::protocols::teeworlds::Teeworlds;
use crate::protocols::ugp::Ugp;
use crate::protocols::unreal2::Unreal2;
use crate::wire::Notes;
use alloc::{string::String, vec::Vec};

/// All protocols. To add one, add a folder below `protocols` and a line here; `cargo test` names
/// the missing parts.
pub static PROTOCOLS: &[&dyn Protocol] = &[
    &MinecraftQuery, //
    &Ugp,
    &OneQuery,
    &MinecraftStatus,
    &A2s,
    &GameSpy1,
    &GameSpy2,
    &GameSpy3,
    &MinecraftBedrock,
    &Quake3,
    &Quake2,
    &Quake1,
    &Doom3,
    &Teeworlds,
    &Samp,
    &Unreal2,
    &Ase,
    &Mumble,
    &Satisfactory,
    &Battlefield,
    // Before other servers that send first, because its clients send nothing.
    &SevenDays,
    &TeamSpeak3,
    &TeamSpeak2,
    &TeamSpeakVoice,
    &openttd::PROTOCOL,
    &openttd_udp::PROTOCOL,
    &Tibia,
    &starmade::PROTOCOL,
    &TerrariaJoin,
    &VintageStory,
    &BeamMp,
    &Eco,
    &FiveMHttp,
    &Palworld,
    &TShock,
    &Assetto,
    &OpenSpades,
    &FarmingSimulator,
    &kspdmp::PROTOCOL,
    &Discord,
    &Factorio,
    &SatisfactoryApi,
    &Luanti,
    &Cs2d,
    &Armagetron,
    &NetQuake,
    &Ffow,
    &savage2::PROTOCOL,
    &Tribes1,
    &Mafia2Mp,
    &Lhmp,
    &RFactor,
    &Nitrado,
    &GbxRemote,
    &crate::protocols::http::minecraft_nethernet::PROTOCOL,
    &crate::protocols::veloren::Veloren,
    &crate::protocols::single::perfect_dark::PROTOCOL,
];

/// Order in which a host without a protocol is probed: the protocols with the most servers first.
/// Protocols that are not listed come last. Ids that the registry lacks have no effect.
pub static DETECTION: &[&str] = &[
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

/// Returns the rank of a protocol in [`DETECTION`].
pub fn rank(id: &str) -> usize {
    let place = DETECTION.iter().position(|known| *known == id);
    place.unwrap_or(DETECTION.len())
}

/// Protocols that a sweep queries and a responder serves if none is named. The list is short: in a
/// sweep, each protocol costs a datagram for each address; on a responder, each is another port that
/// can be abused. No request of them disturbs other servers at its default port.
pub static DEFAULTS: &[&str] = &["minecraft-query", "ugp", "onequery"];

/// Returns the protocols of [`DEFAULTS`].
pub fn defaults() -> impl Iterator<Item = &'static dyn Protocol> {
    DEFAULTS.iter().filter_map(|id| find(id))
}

/// Returns the protocols that use datagrams, in the same order.
pub fn datagram() -> impl Iterator<Item = &'static dyn Protocol> {
    PROTOCOLS
        .iter()
        .copied()
        .filter(|protocol| protocol.info().transport == Transport::Datagram)
}

/// Returns the protocols that have a responder, in the same order.
pub fn responders() -> Vec<&'static dyn Protocol> {
    let mut protocols = PROTOCOLS.to_vec();
    protocols.retain(|protocol| protocol.info().has_responder);
    protocols
}

/// Returns the protocols that use datagrams and have a responder, in the same order.
pub fn datagram_responders() -> impl Iterator<Item = &'static dyn Protocol> {
    datagram().filter(|protocol| protocol.info().has_responder)
}

/// Returns the protocol with this id.
pub fn find(id: &str) -> Option<&'static dyn Protocol> {
    PROTOCOLS
        .iter()
        .copied()
        .find(|protocol| protocol.info().id == id)
}

/// Returns the ids of all protocols, separated by commas, for error messages.
pub fn known() -> String {
    let ids: Vec<&str> = PROTOCOLS
        .iter()
        .map(|protocol| protocol.info().id)
        .collect();
    ids.join(", ")
}

/// Explains a datagram of unknown protocol, direction or both. Chooses the protocol that recognizes
/// it by a magic number, or else the one whose format it has, preferably without errors; of several
/// such protocols, the first.
pub fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
) -> Option<(&'static dyn Protocol, Explanation, Notes)> {
    let explained = PROTOCOLS.iter().rev().filter_map(|&protocol| {
        let mut notes = Notes::explaining();
        let explanation = protocol.explain(bytes, seen, &mut notes)?;
        Some((protocol, explanation, notes))
    });
    let best = explained
        .max_by_key(|(_, explanation, _)| (explanation.is_certain, explanation.error.is_none()));
    let (protocol, explanation, mut notes) = best?;
    if !protocol.info().declares_charset {
        encoding::decode_fields(&mut notes, bytes);
    }
    Some((protocol, explanation, notes))
}

/// Explains a datagram of a known protocol; `None` if it does not belong to it.
pub fn explain_as(
    protocol: &dyn Protocol,
    bytes: &[u8],
    seen: DatagramContext<'_>,
) -> (Option<Explanation>, Notes) {
    let mut notes = Notes::explaining();
    let explanation = protocol.explain(bytes, seen, &mut notes);
    if !protocol.info().declares_charset {
        encoding::decode_fields(&mut notes, bytes);
    }
    (explanation, notes)
}
