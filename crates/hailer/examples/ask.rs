//! Queries one server and prints its players.
//!
//! ```sh
//! cargo run --example ask -- play.example.com
//! cargo run --example ask -- ugp://192.0.2.7:22000
//! ```

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hailer::Error> {
    let server = std::env::args().nth(1).unwrap_or("127.0.0.1".into());
    let answer = hailer::Client::default().query(server.as_str()).await?;
    let players = &answer.status.players;
    println!(
        "{}: {} of {} players",
        answer.status.title().unwrap_or(server),
        known(players.online),
        known(players.max)
    );
    for player in &players.list {
        println!("  {}", player.name.plain());
    }
    Ok(())
}

fn known(count: Option<i64>) -> String {
    count.map_or("?".into(), |count| count.to_string())
}
