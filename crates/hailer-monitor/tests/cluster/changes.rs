//! Changes through one node are seen by the others, and a node that starts knows all statuses.

use super::monitor::Process;
use super::{count, databases, farm, samples, until};
use std::time::Duration;

const SERVERS: u32 = 20;
/// Parts of the stream of statuses.
const PARTS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_statuses_are_visible_on_all_nodes() {
    let databases = databases("changes", SERVERS, farm).await;
    let Some((postgres, redis, pool, port)) = databases else {
        return;
    };
    let mut raw = redis.raw();
    let start = || Process::start(&redis.url(), &postgres.url());
    let (one, two) = (start(), start());
    let few = Duration::from_secs(12);
    until("each server has a sample", few, async || {
        samples(&pool).await.len() == SERVERS as usize
    })
    .await;

    for round in 0..10 {
        let name = format!("late-{round}");
        let describe = |group: &str| {
            let target = format!("minecraft-query://127.9.{round}.9:{port}");
            format!(r#"{{"name":"{name}","target":"{target}","group":"{group}"}}"#)
        };
        // After one node has confirmed it, the other one lists, shows and changes it immediately.
        let path = format!("servers/{name}");
        let quoted = format!(r#""name":"{name}""#);
        let added = one.api("POST", "servers", Some(&describe("a")));
        assert!(added.contains(&quoted), "{added}");
        match round % 4 {
            0 => assert!(
                two.api("GET", "servers", None).contains(&quoted),
                "the list"
            ),
            1 => assert!(two.page("/").contains(&name), "the overview"),
            2 => assert!(
                two.page(&format!("/server/{name}")).contains("<h1"),
                "the page"
            ),
            _ => {}
        }
        let changed = two.api("PUT", &path, Some(&describe("b")));
        assert!(changed.contains(r#""group":"b""#), "{changed}");
        assert_eq!(two.api("DELETE", &path, None), "");
        until("a removed server is on no node", few, async || {
            [&one, &two].iter().all(|node| {
                node.api("GET", &path, None).contains("404")
                    && !node.api("GET", "servers", None).contains(&quoted)
            })
        })
        .await;
    }

    // The streams have only the newest statuses, so a node that starts asks for all.
    until("every event is stored", few, async || {
        count(&pool, "SELECT COUNT(*) FROM event").await >= i64::from(SERVERS)
    })
    .await;
    for part in 0..PARTS {
        let _: i64 = raw.run(&format!("XTRIM {{test:{part}}}:2:statuses MAXLEN 0"));
    }
    let three = start();
    until("the new node has each status", few, async || {
        (1..=SERVERS).all(|number| {
            let shown = three.api("GET", &format!("servers/server-{number}"), None);
            shown.contains(r#""version":""#)
        })
    })
    .await;
}
