//! HTTP without I/O: requests and responses as bytes, and exchanges that read files.
//!
//! ```text
//!   HttpFiles ─► exchange ─► request      response ─► exchange ─► Status
//! ```
//!
//! The messages have the form of HTTP/1.1. The caller carries them: it adds and removes what
//! concerns the connection only, such as chunks. A protocol is a value, [`HttpFiles`].
//!
//! Limits: a head of 64 KiB, 100 header fields, and a body of 1 MiB, which the caller enforces while
//! it receives; those of [`json`](crate::wire::json).
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

pub mod assetto;
mod client;
pub mod discord;
pub mod eco;
pub mod factorio;
pub mod farming_simulator;
pub mod fivem_http;
pub mod kspdmp;
mod members;
mod message;
pub mod minecraft_nethernet;
pub mod nitrado;
pub mod openspades;
pub mod palworld;
pub mod satisfactory_api;
mod server;
pub mod tshock;

#[cfg(test)]
pub(crate) use client::status_of;
pub use client::{Body, File, HttpFiles, REFUSED, ReadFile};
pub use members::Members;
pub use message::{
    MAX_BODY, MAX_HEAD, MAX_HEADERS, Request, Response, encoded, response_end, write_request,
    write_response,
};
pub use server::{FileServer, ServedFile, write_not_found};
