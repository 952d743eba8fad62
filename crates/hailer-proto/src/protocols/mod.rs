//! The protocols, in families: a folder for each group of protocols that share code, named after
//! the shared part, and one for each other protocol. A family imports only shared modules, never
//! another family.
//!
//! A protocol has the name of its id, in its family. [`registry`](crate::registry) lists them all.
//!
//! In: bytes of replies, or a status. Out: a status, or bytes of replies.
//!
//! May import: `crate::model`, `crate::one_request`, `crate::protocol`, `crate::sample`,
//! `crate::token`, `crate::wire`.

pub mod a2s;
pub mod armagetron;
pub mod ase;
pub mod battlefield;
pub mod beammp;
pub mod cs2d;
pub mod gamespy;
pub mod http;
pub mod lhmp;
pub mod luanti;
pub mod minecraft_bedrock;
pub mod minecraft_status;
pub mod mumble;
pub mod netquake;
pub mod onequery;
pub mod openttd;
pub mod quake;
pub mod samp;
pub mod single;
pub mod teamspeak;
pub mod teeworlds;
pub mod ugp;
pub mod unreal2;
pub mod veloren;
