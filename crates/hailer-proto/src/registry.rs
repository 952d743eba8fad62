//! Every protocol, in the order in which a shared port offers them a datagram.

use crate::minecraft_query::MinecraftQuery;
//use crate::onequery::OneQuery;
use crate::protocol::Protocol;
//use crate::ugp::Ugp;

/// The protocols. To add one: a folder beside the others, a line here, and `cargo test` asks you for the rest.
pub static PROTOCOLS: &[&dyn Protocol] = &[
    &MinecraftQuery, //
                     //     &Ugp,Ugp,
                     // &OneQuery,
];

/// The protocol of this id.
pub fn find(id: &str) -> Option<&'static dyn Protocol> {
    PROTOCOLS.iter().copied().find(|protocol| protocol.info().id == id)
}
