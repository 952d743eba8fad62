//! All protocols, in the order in which a shared port offers them a datagram.

use crate::a2s::A2s;
use crate::minecraft_12w::Minecraft12w;
use crate::minecraft_query::MinecraftQuery;
use crate::onequery::OneQuery;
use crate::protocol::{DatagramContext, Explanation, Protocol, Transport};
use crate::ugp::Ugp;
use crate::wire::Notes;
use alloc::{string::String, vec::Vec};

/// All protocols. To add one, add a folder next to the others and a line here; `cargo test` names
/// the missing parts.
pub static PROTOCOLS: &[&dyn Protocol] = &[
    &MinecraftQuery, //
    &Ugp,
    &OneQuery,
    &Minecraft12w,
    &A2s,
];

/// Returns the protocols that use datagrams, in the same order.
pub fn datagram() -> impl Iterator<Item = &'static dyn Protocol> {
    PROTOCOLS
        .iter()
        .copied()
        .filter(|protocol| protocol.info().transport == Transport::Datagram)
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
/// it by a magic number, or else the one whose format it has, preferably without errors.
pub fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
) -> Option<(&'static dyn Protocol, Explanation, Notes)> {
    let explained = PROTOCOLS.iter().filter_map(|&protocol| {
        let mut notes = Notes::explaining();
        let explanation = protocol.explain(bytes, seen, &mut notes)?;
        Some((protocol, explanation, notes))
    });
    explained
        .max_by_key(|(_, explanation, _)| (explanation.is_certain, explanation.error.is_none()))
}
