//! Serves the pages with simulated servers: `cargo run -p hailer-monitor --example page [COUNT]`.

use hailer_monitor::server::ServerId;
use hailer_monitor::state::Update;
use hailer_monitor::web::{App, LIMITS, serve};
use hailer_testkit::fleet;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let now = fleet::now();
    let count: i64 = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let live = if count > 0 {
        fleet::crowd(count, now)
    } else {
        fleet::fleet(now)
    };
    let changing = live.clone();
    tokio::spawn(async move {
        for round in 0_i64.. {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let id = ServerId(round % 12 + 1);
            let seed = round as u32;
            changing.change(Update::of(vec![id]), |row| {
                if let Some(last) = row.last_sample.as_mut().filter(|last| last.is_answered) {
                    last.players = last
                        .players
                        .map(|players| (players + seed * 7 % 5).saturating_sub(2));
                    last.at = fleet::now();
                }
            });
        }
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("http://{}/", listener.local_addr()?);
    serve(
        listener,
        App::new(live, fleet::history(now).await),
        LIMITS,
        std::future::pending(),
    )
    .await;
    Ok(())
}
