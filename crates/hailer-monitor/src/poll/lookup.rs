//! Lookups of the names of polled servers.

use super::PollShared;
use super::table::PolledServer;
use hailer::client::ClientConfig;
use hailer::{Client, Error};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Limit of DNS lookups at a time.
const MAX_LOOKUPS: usize = 32;
/// How long a DNS result is reused. Failed lookups, and names of silent servers, are refreshed
/// every polling interval.
const LOOKUP_LIFETIME: Duration = Duration::from_secs(300);

/// Resolves host names, and refreshes the results because addresses may change.
pub(super) async fn run(shared: Arc<PollShared>) {
    let mut config = ClientConfig::default();
    config.name_server = shared.config.name_server;
    let client = Arc::new(Client::new(config));
    let places = Arc::new(Semaphore::new(MAX_LOOKUPS));
    loop {
        let again = |watched: &PolledServer| match watched.address {
            Ok(_) if !watched.health.is_silent() => LOOKUP_LIFETIME,
            // The server may be silent because its address has changed.
            _ => shared.config.interval.min(LOOKUP_LIFETIME),
        };
        let mut wanted = Vec::new();
        for (id, watched) in &mut shared.table().watched {
            let is_due = watched
                .looked_up
                .is_none_or(|at| at.elapsed() >= again(watched));
            if watched.is_name && is_due {
                watched.looked_up = Some(Instant::now());
                wanted.extend(watched.server.target().map(|target| (*id, target)));
            }
        }
        for (id, target) in wanted {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let client = client.clone();
            let shared = shared.clone();
            tokio::spawn(async move {
                let found = client.candidates(&target).await;
                let list = &mut *shared.table();
                if let Some(watched) = list.watched.get_mut(&id) {
                    match found {
                        Ok(found) => {
                            watched.set_addresses(&found.addresses, &list.listed);
                            watched.srv = found.srv.map(Into::into);
                        }
                        // A failing DNS server does not remove known addresses.
                        Err(Error::NameNotFound { .. }) => {
                            watched.address = Err("there is no such name".into());
                        }
                        Err(error) if watched.address.is_err() => {
                            watched.address = Err(error.to_string().into());
                        }
                        Err(_) => {}
                    }
                }
                drop(place);
            });
        }
        tokio::select! {
            () = shared.lookups.notified() => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
        }
    }
}
