//! Queries address ranges at a limited rate, from one socket.
//!
//! ```sh
//! cargo run --features sweep --example sweep -- ugp://192.0.2.0/24 a2s://192.0.2.7:27015
//! ```

use hailer::sweep::{Sweep, SweepError};

fn main() -> Result<(), SweepError> {
    let sweep = Sweep::new(std::env::args().skip(1)).rate(500.0);
    let counts = sweep.per_network(20.0).run(|probe| match probe.result {
        Ok(answer) => {
            let players = answer.status.players.count();
            println!("{}: {players} players", answer.transcript.address);
        }
        Err(error) => eprintln!("{error}"),
    })?;
    println!("{} of {} probes answered", counts.answered, counts.probes);
    Ok(())
}
