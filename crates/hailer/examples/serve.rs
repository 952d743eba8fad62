//! Responds to queries in the default protocols, from separate threads.
//!
//! ```sh
//! cargo run --features respond --example serve -- 127.0.0.1:25565
//! ```

use hailer::proto::{Player, Status, Text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1".into());
    let mut status = Status::default();
    let server = hailer::serve(&status, address)?;
    println!("answering on {:?}", server.addresses());
    status.name = Some(Text::unformatted("My server"));
    let alice = Player::named(Text::unformatted("Alice"));
    status.players.set_list(vec![alice]);
    server.publish(&status)?;
    server.wait()
}
