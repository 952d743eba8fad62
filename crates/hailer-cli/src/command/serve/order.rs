//! `hailer serve wake` and `hailer serve sleep`: start and stop the game behind a door of a running
//! `hailer serve`.

use crate::args::ServeOrder;
use crate::exit::Exit;
use crate::observe::DoorOrder;
use crate::observe::control::{Client, default_path};
use crate::print::line;
use std::io::Write;

/// Maximum length of a printed reply, in columns.
const REPLY_WIDTH: usize = 200;

pub(crate) async fn run(args: ServeOrder, order: DoorOrder) -> anyhow::Result<Exit> {
    let path = args.running.control.unwrap_or_else(default_path);
    let mut client = Client::connect(&path).await?;
    let done = client.order(order, &args.door).await?;
    writeln!(crate::print::stdout(), "{}", line(&done, REPLY_WIDTH))?;
    Ok(Exit::Success)
}
