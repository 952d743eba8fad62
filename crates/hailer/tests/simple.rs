//! Serving and sweeping in one call.

use hailer::client::ErrorKind;
use hailer::proto::{Status, Text};
use hailer::sweep::{Sweep, SweepError};
use std::time::Duration;

fn status(name: &str) -> Status {
    Status {
        name: Some(Text::unformatted(name)),
        ..Status::default()
    }
}

#[test]
fn a_served_status_is_queried_swept_and_replaced() {
    let server = hailer::serve(&status("First"), "ugp://127.0.0.1:0").unwrap();
    let address = server.addresses()[0];
    let target = format!("ugp://{address}");
    let name = || {
        let answer = hailer::blocking::query(&target)?;
        Ok::<_, hailer::Error>(answer.status.title())
    };
    assert_eq!(name().unwrap().as_deref(), Some("First"));
    server.publish(&status("Second")).unwrap();
    assert_eq!(name().unwrap().as_deref(), Some("Second"));
    for threads in [1, 2] {
        let mut names = Vec::new();
        let sweep = Sweep::new([&target]).threads(threads);
        let counts = sweep.run(|probe| names.push(probe.result.unwrap().status.title()));
        assert_eq!((counts.unwrap().answered, names.len()), (1, 1));
        assert_eq!(names[0].as_deref(), Some("Second"));
    }
    server.silence();
    let client = hailer::Client::builder()
        .timeout(Duration::from_millis(50))
        .retries(0);
    let client = hailer::blocking::Client::new(client.build()).unwrap();
    assert_eq!(
        client.query(&target).unwrap_err().kind(),
        ErrorKind::Silence
    );
    drop(server);
    assert_eq!(
        client.query(&target).unwrap_err().kind(),
        ErrorKind::PortClosed
    );
}

#[test]
fn results_of_a_sweep_wait_for_the_caller() {
    // Nothing listens there, so every probe ends immediately.
    for threads in [1, 2] {
        let sweep = Sweep::new(["ugp://127.77.0.0/20:9"])
            .rate(f64::INFINITY)
            .per_network(f64::INFINITY)
            .threads(threads);
        let mut results = sweep.start().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let mut addresses: Vec<_> = results
            .by_ref()
            .map(|probe| probe.result.unwrap_err().transcript().unwrap().address)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 4_096, "{threads} threads");
        assert_eq!(results.counts().port_closed, 4_096);
        let counts = results.finish().unwrap();
        assert_eq!((counts.probes, counts.port_closed), (4_096, 4_096));
    }
}

#[test]
fn dropping_the_results_stops_a_sweep() {
    let sweep = || Sweep::new(["ugp://127.77.0.0/16:9"]).rate(1_000.0);
    let mut results = sweep().start().unwrap();
    assert!(results.next().is_some());
    let counts = results.finish().unwrap();
    assert!((1..10_000).contains(&counts.probes), "{counts:?}");
    drop(sweep().start().unwrap());
}

#[test]
fn mistakes_are_reported_before_the_first_probe() {
    let error = Sweep::new(["a..b"]).start().map(drop).unwrap_err();
    assert!(matches!(error, SweepError::Target(_)), "{error}");
    let error = Sweep::new(["127.0.0.1"]).exclude(["127.0.0.1/33"]);
    let error = error.run(|_| ()).unwrap_err();
    assert!(matches!(error, SweepError::Target(_)), "{error}");
    let excluded = Sweep::new(["ugp://127.0.0.1:9"]).exclude(["127.0.0.0/8"]);
    assert_eq!(excluded.run(|_| panic!("a result")).unwrap().probes, 0);
    let taken = hailer::serve(&Status::default(), "ugp://127.0.0.1:0").unwrap();
    let address = taken.addresses()[0];
    let error = hailer::serve(&Status::default(), address).unwrap_err();
    assert!(error.to_string().contains("cannot listen on"), "{error}");
}
