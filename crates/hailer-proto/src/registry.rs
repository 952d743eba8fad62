//! All protocols, in the order in which a shared port offers them a datagram.

use crate::model::encoding;
use crate::protocol::{DatagramContext, Explanation, Protocol, Transport};
use crate::protocols::{
    a2s, armagetron, ase, battlefield, beammp, cs2d, gamespy, http, lhmp, luanti,
    minecraft_bedrock, minecraft_status, mumble, netquake, onequery, openttd, quake, samp, single,
    teamspeak, teeworlds, ugp, unreal2, veloren,
};
use crate::wire::{Deviation, Notes, UNREADABLE_MESSAGE};
use alloc::{string::String, vec::Vec};

/// All protocols. To add one, add a file or folder below `protocols` and a line here; `cargo test` names
/// the missing parts.
pub static PROTOCOLS: &[&dyn Protocol] = &[
    &gamespy::minecraft_query::PROTOCOL, //
    &ugp::PROTOCOL,
    &onequery::PROTOCOL,
    &minecraft_status::PROTOCOL,
    &a2s::PROTOCOL,
    &gamespy::gamespy1::PROTOCOL,
    &gamespy::gamespy2::PROTOCOL,
    &gamespy::gamespy3::PROTOCOL,
    &minecraft_bedrock::PROTOCOL,
    &quake::quake3::PROTOCOL,
    &quake::quake2::PROTOCOL,
    &quake::quake1::PROTOCOL,
    &quake::doom3::PROTOCOL,
    &teeworlds::PROTOCOL,
    &samp::PROTOCOL,
    &unreal2::PROTOCOL,
    &ase::PROTOCOL,
    &mumble::PROTOCOL,
    &single::satisfactory::PROTOCOL,
    &battlefield::PROTOCOL,
    // Before other servers that send first, because its clients send nothing.
    &single::seven_days::PROTOCOL,
    &teamspeak::teamspeak3::PROTOCOL,
    &teamspeak::teamspeak2::PROTOCOL,
    &single::teamspeak_voice::PROTOCOL,
    &openttd::PROTOCOL,
    &openttd::openttd_udp::PROTOCOL,
    &single::tibia::PROTOCOL,
    &single::starmade::PROTOCOL,
    &single::terraria_join::PROTOCOL,
    &single::vintage_story::PROTOCOL,
    &beammp::PROTOCOL,
    &http::eco::PROTOCOL,
    &http::fivem_http::PROTOCOL,
    &http::palworld::PROTOCOL,
    &http::tshock::PROTOCOL,
    &http::assetto::PROTOCOL,
    &http::openspades::PROTOCOL,
    &http::farming_simulator::PROTOCOL,
    &http::kspdmp::PROTOCOL,
    &http::discord::PROTOCOL,
    &http::factorio::PROTOCOL,
    &http::satisfactory_api::PROTOCOL,
    &luanti::PROTOCOL,
    &cs2d::PROTOCOL,
    &armagetron::PROTOCOL,
    &netquake::PROTOCOL,
    &netquake::ffow::PROTOCOL,
    &single::savage2::PROTOCOL,
    &single::tribes1::PROTOCOL,
    &single::mafia2mp::PROTOCOL,
    &lhmp::PROTOCOL,
    &single::rfactor::PROTOCOL,
    &http::nitrado::PROTOCOL,
    &single::gbx_remote::PROTOCOL,
    &http::minecraft_nethernet::PROTOCOL,
    &veloren::PROTOCOL,
    &single::perfect_dark::PROTOCOL,
];

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

/// Returns the deviation of a protocol with this name.
pub fn deviation(name: &str) -> Option<&'static Deviation> {
    let mut all = PROTOCOLS
        .iter()
        .flat_map(|protocol| protocol.info().deviations.iter().copied())
        .chain([&UNREADABLE_MESSAGE]);
    all.find(|deviation| deviation.name == name)
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
