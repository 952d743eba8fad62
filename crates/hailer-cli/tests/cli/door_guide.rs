//! docs/door.md: the picture and the table of the states, and its guides before simulated games.

use crate::door::{ARRIVED, House, join_host};
use crate::tool::{Temporary, run};
use hailer::door::State;
use hailer::door::machine::{Effect, TABLE};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// Size of a state in the picture, and where its middle is.
const BOX: (f64, f64) = (120.0, 44.0);

fn place(state: State) -> (f64, f64) {
    match state {
        State::Asleep => (90.0, 250.0),
        State::Starting => (430.0, 50.0),
        State::Running => (810.0, 250.0),
        State::Stopping => (430.0, 450.0),
        State::Failed => (430.0, 270.0),
    }
}

/// How far the arrow bends to its right, in pixels.
fn bend(from: State, to: State) -> f64 {
    match (from, to) {
        (State::Asleep, State::Running) => -130.0,
        (State::Starting, State::Stopping) => 170.0,
        (State::Running, State::Failed) => -8.0,
        (State::Stopping, State::Running) => -4.0,
        _ => -36.0,
    }
}

/// Draws the table: a box for each state, an arrow for each pair of them.
fn picture() -> String {
    let mut arrows: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    let index = |state: State| State::ALL.iter().position(|known| *known == state).unwrap();
    for row in TABLE {
        let key = (index(row.from), index(row.to));
        arrows
            .entry(key)
            .or_default()
            .push(row.trigger.name().into());
    }
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 520\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <title>States of a door</title>\n\
         <rect width=\"900\" height=\"520\" fill=\"#ffffff\"/>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#555555\"/></marker></defs>\n",
    );
    for ((from, to), labels) in arrows {
        let (from, to) = (State::ALL[from], State::ALL[to]);
        let (path, middle) = arrow(from, to);
        writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#555555\" marker-end=\"url(#end)\"/>"
        )
        .unwrap();
        let top = middle.1 - 8.0 * (labels.len() as f64 - 1.0) + 5.0;
        for (line, label) in labels.iter().enumerate() {
            let y = top + 16.0 * line as f64;
            writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"{y:.0}\" text-anchor=\"middle\" fill=\"#222222\" stroke=\"#ffffff\" stroke-width=\"4\" paint-order=\"stroke\">{label}</text>",
                middle.0
            )
            .unwrap();
        }
    }
    for state in State::ALL {
        let (x, y) = place(state);
        let (width, height) = BOX;
        writeln!(
            svg,
            "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#e8f0fe\" stroke=\"#30507a\"/>\n\
             <text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\" font-weight=\"bold\" fill=\"#111111\">{}</text>",
            x - width / 2.0,
            y - height / 2.0,
            y + 5.0,
            state.name()
        )
        .unwrap();
    }
    svg + "</svg>\n"
}

/// Returns the path of an arrow, and its middle.
fn arrow(from: State, to: State) -> (String, (f64, f64)) {
    let (a, b) = (place(from), place(to));
    if from == to {
        let (x, y) = (a.0 - BOX.0 / 2.0, a.1);
        let path = format!(
            "M{x:.0} {:.0}C{:.0} {:.0} {:.0} {:.0} {x:.0} {:.0}",
            y - 10.0,
            x - 70.0,
            y - 30.0,
            x - 70.0,
            y + 30.0,
            y + 10.0
        );
        return (path, (x - 70.0, y));
    }
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx.hypot(dy);
    let bend = bend(from, to);
    let control = (
        (a.0 + b.0) / 2.0 - dy / length * bend * 2.0,
        (a.1 + b.1) / 2.0 + dx / length * bend * 2.0,
    );
    let start = edge(a, control);
    let end = edge(b, control);
    let path = format!(
        "M{:.0} {:.0}Q{:.0} {:.0} {:.0} {:.0}",
        start.0, start.1, control.0, control.1, end.0, end.1
    );
    let middle = |start: f64, control: f64, end: f64| (start + 2.0 * control + end) / 4.0;
    let at = (
        middle(start.0, control.0, end.0),
        middle(start.1, control.1, end.1),
    );
    (path, at)
}

/// Returns where the line from the middle of a box to a point leaves the box.
fn edge(middle: (f64, f64), to: (f64, f64)) -> (f64, f64) {
    let (dx, dy) = (to.0 - middle.0, to.1 - middle.1);
    let scale = (BOX.0 / 2.0 / dx.abs()).min(BOX.1 / 2.0 / dy.abs());
    (middle.0 + dx * scale, middle.1 + dy * scale)
}

fn table() -> String {
    let mut page = String::from(
        "# States of a door\n\nGenerated from the table in `crates/hailer/src/door/machine/table.rs`. Other events change nothing. \
         [door.md](../door.md) explains the states.\n\n| state | event | next state | action |\n| --- | --- | --- | --- |\n",
    );
    for row in TABLE {
        writeln!(
            page,
            "| {} | {}: {} | {} | {} |",
            row.from.name(),
            row.trigger.name(),
            row.trigger.text(),
            row.to.name(),
            match row.effect {
                Effect::None => "",
                effect => effect.text(),
            }
        )
        .unwrap();
    }
    page
}

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_picture_and_the_table_of_the_states_match_the_code() {
    for (name, text) in [
        ("images/door-states.svg", picture()),
        ("reference/door-states.md", table()),
    ] {
        let file = docs().join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            stored == text,
            "docs/{name} is outdated: run BLESS=1 cargo test -p hailer-cli --test cli door_guide"
        );
    }
}

/// Returns the configuration of a guide, by the start of its heading.
fn guide(heading: &str) -> String {
    let page = std::fs::read_to_string(docs().join("door.md")).unwrap();
    let start = page
        .find(&format!("\n## {heading}"))
        .unwrap_or_else(|| panic!("no guide {heading:?}"));
    let (_, rest) = page[start..].split_once("```toml\n").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let lines = block.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 15, "{heading}: {lines} lines");
    block.to_owned()
}

/// Runs a guide with a simulated game: a join wakes it, arrives, and it sleeps again. `changes`
/// replace the parts that only the machine of a reader has.
fn run_guide(house: &mut House, heading: &str, changes: &[(&str, String)]) {
    let mut text = guide(heading);
    let mut replace = |from: &str, to: &str| {
        assert!(text.contains(from), "{heading}: no {from:?}");
        text = text.replace(from, to);
    };
    replace("0.0.0.0:25565", &format!("127.0.0.1:{}", house.port));
    replace(
        "idle = \"10min\"",
        "idle = \"1s\"\nmin-uptime = \"0s\"\nevery = \"300ms\"\nstate-file = \"off\"",
    );
    for (from, to) in changes {
        replace(from, to);
    }
    house.set_configuration(&text);
    house.open();
    house.wait_for("asleep", 0);
    let kick = house.join("Alice");
    assert!(
        kick.contains(ARRIVED),
        "{heading}: {kick:?}: {}",
        house.log()
    );
    house.wait_for("asleep after", 0);
}

#[test]
fn the_guide_for_systemd_works() {
    let mut house = House::new("");
    // A program in the place of systemctl, which starts and stops the simulated game.
    let folder = house.folder.text().to_owned();
    let script = format!(
        "#!/bin/sh\ncd {folder}\ncase \"$*\" in\n\
         *' start -- minecraft.service') sh start && echo active > state ;;\n\
         *' stop -- minecraft.service') sh stop; echo inactive > state ;;\n\
         *' show -- minecraft.service') echo LoadState=loaded; echo ActiveState=$(cat state 2>/dev/null || echo inactive) ;;\n\
         *) exit 5 ;;\nesac\n"
    );
    let program = Path::new(&folder).join("systemctl");
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    house.path_variable = Some(format!("{folder}:{}", std::env::var("PATH").unwrap()));
    let game = house.game;
    run_guide(
        &mut house,
        "A Minecraft server under systemd",
        &[("127.0.0.1:25566", format!("127.0.0.1:{game}"))],
    );
    assert_eq!((house.calls("start"), house.calls("stop")), (1, 1));
}

/// Lets a fake of an API start and stop the simulated game.
fn changer(house: &House) -> impl FnMut(bool) + Send + 'static {
    let folder = house.folder.text().to_owned();
    move |is_started| {
        let script = if is_started { "start" } else { "stop" };
        let mut command = std::process::Command::new("sh");
        let status = command.arg(script).current_dir(&folder).status();
        assert!(status.unwrap().success());
    }
}

#[test]
fn the_guide_for_a_container_works() {
    let mut house = House::new("");
    let docker = hailer_testkit::api::Docker::start("mc");
    docker.on_change(changer(&house));
    let socket = format!(
        "container = \"mc\", socket = \"{}\"",
        docker.socket().display()
    );
    let game = house.game;
    run_guide(
        &mut house,
        "A container of itzg's image",
        &[
            ("\"mc:25565\"", format!("\"127.0.0.1:{game}\"")),
            ("container = \"mc\"", socket),
        ],
    );
    assert_eq!((house.calls("start"), house.calls("stop")), (1, 1));
}

#[test]
fn the_guide_for_panels_works() {
    let mut house = House::new("");
    let panel = hailer_testkit::api::Panel::start("1a7ce997", "ptlc_0123456789");
    panel.on_change(changer(&house));
    let token = Temporary::file("panel-token", "ptlc_0123456789\n");
    let game = house.game;
    run_guide(
        &mut house,
        "Pterodactyl and Pelican",
        &[
            ("10.0.0.5:25566", format!("127.0.0.1:{game}")),
            ("https://panel.example.com", panel.url().to_owned()),
            (
                "token-file = \"token\"",
                format!("token-file = \"{}\"", token.text()),
            ),
        ],
    );
    assert_eq!((house.calls("start"), house.calls("stop")), (1, 1));
}

#[test]
fn the_guide_for_a_game_without_known_joins_works() {
    let mut house = House::new("");
    house.set_game("a2s");
    let query = house.game;
    let second = crate::door::free_port();
    let text = guide("A Palworld or Valheim server")
        .replace("0.0.0.0:2456", &format!("127.0.0.1:{}", house.port))
        .replace("0.0.0.0:2457", &format!("127.0.0.1:{second}"))
        .replace("127.0.0.1:2466", &format!("127.0.0.1:{query}"))
        .replace("127.0.0.1:2467", &format!("127.0.0.1:{query}"))
        .replace(
            "start = { unit = \"valheim.service\" }",
            crate::door::SCRIPTS,
        )
        .replace(
            "idle = \"10min\"",
            "idle = \"1s\"\nmin-uptime = \"0s\"\nevery = \"300ms\"\nstate-file = \"off\"",
        );
    house.set_configuration(&text);
    house.open();
    house.wait_for("asleep", 0);
    let name = |port: u16| {
        let target = format!("a2s://127.0.0.1:{port}");
        let shown = run(["query", "--json", "--timeout", "5s", &target]).ends_with(0);
        shown.json()[0]["status"]["name"]["plain"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for port in [house.port, second] {
        assert_eq!(name(port), "Valheim (asleep)");
    }
    assert_eq!(house.calls("start"), 0);
    // A client of the game repeats its first datagram.
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    house.wait("started by traffic", || {
        client
            .send_to(b"any first datagram", ("127.0.0.1", house.port))
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        house.calls("start") > 0
    });
    house.wait_for("running after", 0);
    house.wait_for("asleep after", 0);
    assert_eq!((house.calls("start"), house.calls("stop")), (1, 1));
}

#[test]
fn the_guide_for_several_servers_on_one_port_works() {
    let mut survival = House::new("");
    let creative = House::new("");
    let text = guide("Several servers on one port")
        .replace("0.0.0.0:25565", &format!("127.0.0.1:{}", survival.port))
        .replace(
            "idle = \"10min\"",
            "idle = \"1s\"\nmin-uptime = \"0s\"\nevery = \"300ms\"\nstate-file = \"off\"",
        );
    let mut text = text;
    for (game, unit, house) in [
        ("127.0.0.1:25566", "survival", &survival),
        ("127.0.0.1:25567", "creative", &creative),
    ] {
        let folder = house.folder.text();
        text = text
            .replace(game, &format!("127.0.0.1:{}", house.game))
            .replace(
                &format!("start = {{ unit = \"{unit}.service\" }}"),
                &format!(
                    "start = {{ command = [\"sh\", \"{folder}/start\"] }}\n\
                     stop = {{ command = [\"sh\", \"{folder}/stop\"] }}"
                ),
            );
    }
    survival.set_configuration(&text);
    survival.open();
    survival.wait("both asleep", || {
        survival.log().matches(": asleep").count() == 2
    });
    let kick = join_host(survival.port, "creative.example.com", "Alice");
    assert!(kick.contains(ARRIVED), "{kick:?}: {}", survival.log());
    assert_eq!((survival.calls("start"), creative.calls("start")), (0, 1));
    let kick = join_host(survival.port, "Survival.Example.COM.", "Bob");
    assert!(kick.contains(ARRIVED), "{kick:?}: {}", survival.log());
    assert_eq!((survival.calls("start"), creative.calls("start")), (1, 1));
    survival.wait("both asleep again", || {
        (survival.calls("stop"), creative.calls("stop")) == (1, 1)
    });
}
