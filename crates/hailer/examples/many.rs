//! Queries many servers at the same time, each with its own socket.
//!
//! ```sh
//! cargo run --example many -- play.example.com ugp://192.0.2.7:22000
//! ```

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let servers: Vec<String> = std::env::args().skip(1).collect();
    let client = hailer::Client::builder().retries(1).build();
    let mut results = client.query_many(servers, 100);
    while let Some((server, result)) = results.next().await {
        match result.as_ref().map(|answers| &answers.best().status) {
            Ok(status) => println!("{server}: {} players", status.players.count()),
            Err(error) => println!("{server}: {}", error.kind()),
        }
    }
}
