//! The sources of `hailer serve`: each a task that runs beside the answering and hands on what is to be answered.

use crate::config::{Feed, Origin};
use crate::print::tell;
use anyhow::Context;
use hailer::source::file::File;
use hailer::source::push::{Door, Place, Push};
use hailer::source::{Published, keep, truths};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// Takes what is to be answered from now on.
pub(crate) type Publish = Box<dyn FnMut(Published) + Send>;

/// Sources that run. They stop when this is dropped, and what they listen on is closed.
pub(crate) struct Sources(#[allow(dead_code, reason = "to be dropped")] JoinSet<()>);

/// Starts the sources, each with whoever publishes what it says, within a runtime. The first thing published is what is
/// said before a source has spoken. Servers that are pushed to at one place share one listener.
pub(crate) async fn start(fed: Vec<(Feed, Publish)>) -> anyhow::Result<Sources> {
    let mut tasks = JoinSet::new();
    let mut pushed: BTreeMap<Place, (bool, Vec<Door>)> = BTreeMap::new();
    for (feed, publish) in fed {
        let (sender, receiver) = truths();
        tasks.spawn(keep(feed.policy, receiver, publish));
        match feed.from {
            Origin::File(path) => drop(tasks.spawn(File::new(path).run(sender, complain))),
            Origin::Poll(poll) => drop(tasks.spawn(poll.run(sender, complain))),
            Origin::Push(push) => {
                let (insecure, doors) = pushed.entry(push.place).or_default();
                *insecure |= push.insecure;
                doors.push(Door::new(push.name, &push.token, sender));
            }
        }
    }
    for (place, (insecure, doors)) in pushed {
        let push = Push::bind(&place, insecure, doors).await;
        let push = push.with_context(|| format!("cannot listen on {place} for what is pushed"))?;
        let place = push.place()?;
        tell!("\x1b[2mtakes statuses on {place}\x1b[0m");
        tasks.spawn(push.run());
    }
    Ok(Sources(tasks))
}

#[allow(clippy::needless_pass_by_value, reason = "as sources call it")]
fn complain(line: String) {
    tell!("\x1b[33msource:\x1b[0m {line}");
}
