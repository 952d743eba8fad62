//! Web.

pub mod api;
