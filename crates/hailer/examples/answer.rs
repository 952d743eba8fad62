//! Responds for one server in every protocol, on one socket.
//!
//! ```sh
//! cargo run --example answer -- 127.0.0.1:25565
//! ```

use hailer::Status;
use hailer::proto::{Player, Text, registry};
use hailer::respond::{Board, Budget, Service};
use std::net::UdpSocket;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut status = Status {
        name: Some(Text::unformatted("My server")),
        ..Status::default()
    };
    status.players.online = Some(1);
    status.players.max = Some(10);
    status
        .players
        .set_list(vec![Player::named(Text::unformatted("Alice"))]);

    // When the status changes, call `board.publish(&status)` from any thread.
    let board = Board::new(&registry::responders(), &status)?;
    let mut service = Service::new(board, Budget::default());
    let socket = UdpSocket::bind(std::env::args().nth(1).unwrap_or("127.0.0.1:0".into()))?;
    println!("answering on {}", socket.local_addr()?);
    let mut buffer = [0; 2048];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        for reply in service.answer(from, &buffer[..length]) {
            socket.send_to(reply, from)?;
        }
    }
}
