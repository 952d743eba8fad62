//! Quake and its descendants: infostrings over UDP.

pub mod doom3;
pub mod infostring;
pub mod quake1;
pub mod quake2;
pub mod quake3;
