//! Queries servers one after the other, without an async runtime.
//!
//! ```sh
//! cargo run --example blocking -- play.example.com ugp://192.0.2.7:22000
//! ```

use hailer::blocking::Client;

fn main() -> std::io::Result<()> {
    let client = Client::new(hailer::Client::default())?;
    for server in std::env::args().skip(1) {
        match client.query(&server) {
            Ok(answer) => println!("{server}: {} players", answer.status.players.count()),
            Err(error) => println!("{error}"),
        }
    }
    Ok(())
}
