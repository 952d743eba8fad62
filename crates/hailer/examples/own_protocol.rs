//! Adds a protocol with one request and one reply. `add_a_protocol.rs` has one with both roles.
//!
//! ```text
//!   client  "WHO?"  ─►
//!                   ◄─  "HERE" online        online: 1 byte
//! ```
//!
//! ```sh
//! cargo run --example own_protocol -- who://127.0.0.1:4242
//! ```

use hailer::proto::one_request::OneDatagram;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let who = OneDatagram::define("who", 4242, b"WHO?", |reply, status| {
        reply.constant(b"HERE", "magic")?;
        status.players.online = Some(reply.u8("players")?.into());
        Ok(())
    });
    hailer::support::catalog::add_protocol(who)?;
    let server = std::env::args().nth(1).unwrap_or_default();
    let answer = hailer::blocking::query(server)?;
    println!("{} players", answer.status.players.count());
    Ok(())
}
