//! Adds a game that targets can name: its servers speak UGP one port above that of the game.
//!
//! ```sh
//! cargo run --example own_game -- harbour-wars://192.0.2.7:7777
//! ```

use hailer::proto::games::{Game, QueryPort};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    hailer::support::catalog::add_game(Game {
        id: "harbour-wars",
        name: "Harbour Wars",
        protocols: &["ugp"],
        port: Some(7777),
        query: QueryPort::Offset(1),
        ..Game::EMPTY
    })?;
    let server = std::env::args().nth(1).unwrap_or_default();
    let answer = hailer::blocking::query(server)?;
    println!("{} players", answer.status.players.count());
    Ok(())
}
