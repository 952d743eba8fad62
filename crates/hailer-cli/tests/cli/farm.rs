//! `hailer farm`.

use crate::support::{ids, protocol};
use crate::tool::{Serve, run};
use hailer::proto::registry;
use hailer::respond::farm::{Farm, FarmConfig};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Protocols of these farms: some over UDP, and those over TCP and HTTP.
fn simulated() -> Vec<&'static str> {
    let responders = registry::responders();
    let infos = responders.iter().map(|protocol| protocol.info());
    let streams = infos.filter(|info| info.transport.is_connected());
    let streams = streams.map(|info| info.id);
    ids().into_iter().chain(streams).collect()
}

/// Starts a farm on free ports, one for each protocol. `None` if the system does not support farms.
fn start(args: &[&str]) -> Option<Serve> {
    let ids = simulated();
    let ports = ids.iter().flat_map(|id| {
        let port = format!("{id}=0");
        ["--protocol", id, "--port", &port].map(String::from)
    });
    let args = ["127.0.0.0/8"]
        .iter()
        .chain(args)
        .map(|arg| (*arg).to_owned());
    cfg!(target_os = "linux").then(|| Serve::farm(ids.len(), args.chain(ports)))
}

/// Returns the port of a line such as `listening on 127.0.0.0/8:41234 for ugp`.
pub(crate) fn port(line: &str) -> u16 {
    line.split([':', ' '])
        .find_map(|word| word.parse().ok())
        .unwrap()
}

#[test]
fn every_address_has_the_status_of_the_library() {
    let Some(serve) = start(&["--seed", "7", "--silent", "30%"]) else {
        return;
    };
    let mut config = FarmConfig::new([127, 0, 0, 0].into(), 8);
    config.seed = 7;
    config.silent = 0.3;
    let farm = Farm::new(config).unwrap();
    for (line, id) in serve.listening.iter().zip(simulated()) {
        assert!(
            line.starts_with("listening on 127.0.0.0/8:") && line.ends_with(&format!(" for {id}")),
            "{line}"
        );
        let addresses: Vec<SocketAddr> = ["127.1.2.3", "127.200.0.255", "127.0.0.1"]
            .map(|ip| SocketAddr::new(ip.parse().unwrap(), port(line)))
            .into();
        for address in addresses {
            let output = run([
                "query",
                "--json",
                "--timeout",
                "200ms",
                "--retries",
                "2",
                &format!("{id}://{address}"),
            ]);
            match farm.status(protocol(id), address) {
                Some(status) => {
                    let answer = &output.ends_with(0).json()[0];
                    assert_eq!(
                        answer["status"],
                        serde_json::to_value(&status).unwrap(),
                        "{address}"
                    );
                }
                None => drop(output.ends_with(1)),
            }
        }
    }
    let (code, output) = serve.stop("INT");
    assert_eq!(code, Some(0));
    assert!(
        output.contains(" connections received: ") && output.contains(" replies sent"),
        "{output}"
    );
}

#[test]
fn counts_late_lost_and_duplicated_replies() {
    let weather = [
        "--loss",
        "0.1",
        "--duplicates",
        "50%",
        "--delay",
        "5ms",
        "--jitter",
        "10ms",
    ];
    let Some(serve) = start(&weather) else { return };
    let targets: Vec<String> = (1..=30)
        .map(|host| format!("127.9.9.{host}:{}", port(&serve.listening[0])))
        .collect();
    let ask = [
        "query",
        "--json",
        "--timeout",
        "100ms",
        "--retries",
        "9",
        "--protocol",
        "minecraft-query",
    ];
    let output = run(ask.into_iter().chain(targets.iter().map(String::as_str))).ends_with(0);
    assert_eq!(output.json().len(), 30);
    let (code, output) = serve.stop("TERM");
    assert_eq!(code, Some(0));
    assert!(
        output.contains(" twice)") && output.contains(" lost by the simulated network"),
        "{output}"
    );
}

#[test]
fn answers_for_its_network_only_and_from_the_queried_address() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (serve, port) = Serve::minecraft_farm("127.77.0.0/16");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let ask = |ip: &str| -> Option<IpAddr> {
        socket
            .send_to(b"\xFE\xFD\x09\x01\x02\x03\x04", (ip, port))
            .unwrap();
        socket
            .recv_from(&mut [0; 64])
            .ok()
            .map(|(_, from)| from.ip())
    };
    assert_eq!(ask("127.77.1.2"), Some([127, 77, 1, 2].into()));
    assert_eq!(ask("127.78.1.2"), None);
    assert_eq!(ask("127.77.255.255"), Some([127, 77, 255, 255].into()));
    // A public address of this machine, if it has one. No datagram leaves the machine.
    let outside = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let outside = outside.ok().filter(|outside| !outside.ip().is_loopback());
    if let Some(outside) = outside {
        let socket = UdpSocket::bind((outside.ip(), 0)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        for to in [outside.ip(), [127, 77, 1, 2].into()] {
            // The system itself may refuse datagrams from other addresses to loopback.
            if socket
                .send_to(b"\xFE\xFD\x09\x01\x02\x03\x04", (to, port))
                .is_ok()
            {
                assert!(socket.recv_from(&mut [0; 64]).is_err(), "{to}");
            }
        }
    }
    let (_, output) = serve.stop("INT");
    assert!(
        output.contains(": 2 replies sent; ")
            && output.contains(" not to the farm, or not from this machine"),
        "{output}"
    );
}

#[test]
fn rejects_invalid_farms_in_one_line() {
    run(["farm", "10.0.0.0/8"]).fails_as_usage("not inside 127.0.0.0/8");
    run(["farm", "127.0.0.0/7"]).fails_as_usage("not inside 127.0.0.0/8");
    let output = run(["farm", "--protocol", "minecraft-12w"]).ends_with(2);
    output.warns(&["run `hailer world`"]);
    run(["farm", "--delay", "2m"]).fails_as_usage("at most a minute");
    run(["farm", "--protocol", "ugp", "--port", "onequery=0"])
        .fails_as_usage("add --protocol onequery");
    for wrong in [
        &["localhost"][..],
        &["--loss", "20"],
        &["--port", "ugp"],
        &["--port", "x=1"],
        &["--demo"],
        &["--config", "f"],
    ] {
        run(["farm"].iter().chain(wrong)).ends_with(2);
    }
    if cfg!(target_os = "linux") {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = format!("ugp={}", taken.local_addr().unwrap().port());
        let output = run(["farm", "--protocol", "ugp", "--port", &port]).ends_with(1);
        let fix = "it is that of ugp: --port ugp=PORT chooses another";
        output.warns(&[fix]);
        assert_eq!(output.err.lines().count(), 1, "{}", output.err);
    }
}

/// The farm and the game server were flags of `hailer serve`.
#[test]
fn former_flags_name_their_replacement() {
    for (old, new) in [
        (
            &["--farm", "127.0.0.0/8"][..],
            "run `hailer farm 127.0.0.0/8`",
        ),
        (
            &["--silent", "20%", "--farm", "127.0.0.0/8"],
            "run `hailer farm 127.0.0.0/8`",
        ),
        (&["--protocol", "minecraft-12w"], "run `hailer world`"),
        (
            &["--build", "1.3.2", "--protocol", "minecraft-12w"],
            "run `hailer world`",
        ),
        (&["--only-build"], "run `hailer world`"),
    ] {
        let output = run(["serve"].iter().chain(old)).ends_with(2);
        assert!(output.err.contains(new), "{old:?}: {}", output.err);
        assert!(output.out.is_empty());
    }
    let help = run(["serve", "--help"]).ends_with(0).out;
    assert!(
        !help.contains("--farm") && !help.contains("--build"),
        "{help}"
    );
}
