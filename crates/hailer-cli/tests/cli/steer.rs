//! Doors that are steered and observed: `hailer serve wake`, `sleep` and `status`, metrics,
//! notifications, lists of players, and the API of Docker.

use crate::door::House;
use crate::schema::check;
use crate::tool::{Finished, run};
use hailer_testkit::api::{Docker, Receiver};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// Requests the page of the metrics.
fn metrics(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn a_door_is_steered_and_observed() {
    let docker = Docker::start("mc");
    let receiver = Receiver::new();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let container = format!(
        "{{ container = \"mc\", socket = '{}' }}",
        docker.socket().display()
    );
    let mut house = House::new(&format!(
        "start = {container}\nstop = {container}\nevery = \"300ms\"\n\
         who = {{ allow-files = [\"whitelist.json\"] }}\n\
         [[receiver]]\nname = \"ops\"\nform = \"json\"\nurl = \"{}\"\n\
         [observe]\ncontrol = \"s\"\nmetrics = \"127.0.0.1:{port}\"\n",
        receiver.url()
    ));
    let folder: PathBuf = AsRef::<Path>::as_ref(&house.folder).to_owned();
    let whitelist = folder.join("whitelist.json");
    std::fs::write(&whitelist, "[{\"name\": \"Alice\"}]").unwrap();
    let scripts = folder.clone();
    docker.on_change(move |runs| House::script(&scripts, if runs { "start" } else { "stop" }));
    house.open_with_control();
    house.wait_for("asleep", 0);

    let control = folder.join("s");
    let serve = |words: &[&str]| -> Finished {
        let words = words.iter().map(std::ffi::OsStr::new);
        let socket = ["--control".as_ref(), control.as_os_str()];
        run(["serve".as_ref()].into_iter().chain(words).chain(socket))
    };
    let door = || -> Value {
        let shown = serve(&["status", "--json"]);
        check("serve-status-v2.json", &shown)[0]["doors"][0].clone()
    };
    let name = format!("127.0.0.1:{}", house.port);
    let asleep = door();
    assert_eq!(
        (&asleep["name"], &asleep["state"]),
        (&Value::from(&*name), &"asleep".into())
    );

    // A player who is not on the list reads the reason, and wakes nothing.
    let kick = house.join("Mallory");
    assert!(kick.contains("you may not wake it"), "{kick:?}");
    assert!(!docker.is_running());
    house.wait("counted", || door()["refused_joins"] == 1);
    let wrong = serve(&["wake", "creative"]).ends_with(1);
    assert!(
        wrong
            .err
            .contains(&format!("no door \"creative\"; known are {name}")),
        "{}",
        wrong.err
    );

    let woken = serve(&["wake", &name]).ends_with(0);
    assert!(
        woken.out.contains("starting now; it was asleep"),
        "{}",
        woken.out
    );
    house.wait("running", || door()["state"] == "running");
    let running = door();
    assert_eq!(
        (&running["starts"], &running["woken_by"]),
        (&1.into(), &"the operator".into())
    );
    assert!(running["last_start_s"].as_f64().unwrap() > 0.0);
    let page = metrics(port);
    for line in [
        format!("hailer_serve_door_state{{door=\"{name}\",state=\"running\"}} 1"),
        format!("hailer_serve_door_starts_total{{door=\"{name}\"}} 1"),
        format!("hailer_serve_door_refused_joins_total{{door=\"{name}\"}} 1"),
    ] {
        assert!(page.contains(&line), "{line}\n{page}");
    }

    let slept = serve(&["sleep", &name]).ends_with(0);
    assert!(
        slept.out.contains("stopping now; it was running"),
        "{}",
        slept.out
    );
    house.wait("asleep", || door()["state"] == "asleep");
    assert!(!docker.is_running());
    let requests = docker.requests();
    let changes: Vec<_> = requests
        .iter()
        .filter(|request| request.method == "POST")
        .map(|request| &*request.path)
        .collect();
    assert_eq!(
        changes,
        ["/containers/mc/start", "/containers/mc/stop?t=120"]
    );

    let titles: Vec<Value> = receiver
        .wait(4)
        .iter()
        .map(|request| serde_json::from_str::<Value>(&request.body).unwrap()["title"].take())
        .collect();
    let states = ["starting", "running", "stopping", "asleep"];
    let expected: Vec<Value> = states
        .map(|state| format!("{name} is {state}").into())
        .into();
    assert_eq!(titles, expected);

    // The list is read again: Mallory is on it now.
    std::fs::write(&whitelist, "[\"Mallory\", \"Alice\"]").unwrap();
    house.wait("admitted", || {
        !house.join("Mallory").contains("you may not wake it")
    });
    house.wait("running", || door()["state"] == "running");
    assert!(
        door()["woken_by"]
            .as_str()
            .unwrap()
            .starts_with("\"Mallory\" at 127.0.0.1:")
    );
}
