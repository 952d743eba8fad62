//! Both roles of protocols with one request and one reply, without the format.

pub mod datagram;
pub mod stream;
