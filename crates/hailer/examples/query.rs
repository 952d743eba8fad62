//! Queries one server and prints its players.
//!
//! ```sh
//! cargo run --example query -- play.example.com
//! cargo run --example query -- ugp://192.0.2.7:22000
//! ```

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hailer::Error> {
    let server = std::env::args().nth(1).unwrap_or("127.0.0.1".into());
    let answer = hailer::Client::default().query(&server).await?;
    let status = answer.status;
    let players = status.players.count();
    println!("{}: {players} players", status.title().unwrap_or(server));
    for player in &status.players.list {
        println!("  {}", player.name.plain());
    }
    Ok(())
}
