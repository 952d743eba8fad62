//! Totals of all servers.

use super::params::Params;
use super::{Api, Problem, answer};
use crate::health::State as Health;
use crate::state::StateTable;
use crate::state::find;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Maximum number of groups listed; the others count only in the sum.
const GROUPS: usize = 1_000;
/// How long totals are cached.
const KEEP: Duration = Duration::from_secs(1);

/// Totals of all servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Totals {
    #[serde(flatten)]
    pub(super) all: Sum,
    groups: BTreeMap<String, Sum>,
    protocols: BTreeMap<String, Sum>,
}

/// Totals of some servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sum {
    pub(super) servers: u64,
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) unknown: u64,
    pub(super) flapping: u64,
    #[serde(rename = "players_online")]
    pub(super) players: u64,
}

/// Cached totals.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<(Instant, Arc<Totals>)>>);

impl Kept {
    /// Returns totals that are at most one second old.
    pub(super) async fn now(&self, live: &StateTable) -> Arc<Totals> {
        let mut kept = self.0.lock().await;
        match &*kept {
            Some((made, totals)) if made.elapsed() < KEEP => totals.clone(),
            _ => {
                let totals = Arc::new(Totals::of(live));
                *kept = Some((Instant::now(), totals.clone()));
                totals
            }
        }
    }
}

impl Totals {
    fn of(live: &StateTable) -> Self {
        let mut totals = Self::default();
        live.pick::<()>(|row| {
            let (server, state, players) = (
                &*row.server,
                row.state,
                row.last_sample.and_then(|last| last.players),
            );
            let is = |other| u64::from(state == other);
            let one = Sum {
                servers: 1,
                up: is(Health::Up),
                down: is(Health::Down),
                unknown: is(Health::Unknown),
                flapping: u64::from(row.is_flapping),
                players: u64::from(players.unwrap_or_default()),
            };
            totals.all.add(one);
            add(&mut totals.protocols, find::protocol(server), one);
            if totals.groups.len() < GROUPS || totals.groups.contains_key(&server.group) {
                add(&mut totals.groups, &server.group, one);
            }
            None
        });
        totals
    }
}

fn add(sums: &mut BTreeMap<String, Sum>, key: &str, one: Sum) {
    match sums.get_mut(key) {
        Some(sum) => sum.add(one),
        None => drop(sums.insert(key.to_owned(), one)),
    }
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.servers += other.servers;
        self.up += other.up;
        self.down += other.down;
        self.unknown += other.unknown;
        self.flapping += other.flapping;
        self.players += other.players;
    }
}

/// `GET /api/v1/totals`
pub(super) async fn now(
    State(api): State<Api>,
    uri: Uri,
    asked: HeaderMap,
) -> Result<Response, Problem> {
    Params::read(&uri, &[], &[]).end()?;
    Ok(answer::json(&asked, &*api.0.totals.now(api.live()).await))
}
