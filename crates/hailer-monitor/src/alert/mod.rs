//! placeholder
mod deliver;
mod engine;
mod message;
mod quiet;
mod rule;
