//! `hailer watch`.

use crate::farm::port;
use crate::terminal::Terminal;
use crate::tool::{Serve, Temporary, command, run};

#[test]
fn shows_changes_and_details_of_servers() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let farm = ["127.79.0.0/24", "--protocol", "minecraft-query", "--port"];
    let serve = Serve::farm(1, farm.into_iter().chain(["minecraft-query=0"]));
    let port = port(&serve.listening[0]);
    let target = format!("minecraft-query://127.79.0.1:{port}");
    let file = Temporary::file(
        "targets",
        format!("# mine\n{target} and words that mean nothing\n\n{target}\n"),
    );
    let quick = ["watch", "--interval", "1s", "--timeout", "300ms"];
    let mut watch = Terminal::start(quick.iter().chain(&["--targets", file.text()]));
    watch.sees("●");
    // Opens the view of one server and returns to the list.
    watch.press("\r");
    watch.sees("online players");
    watch.press("\r");
    watch.sees("trend");
    // The selected row is visible without colors too.
    let mut plain = command(quick.iter().chain(&[&*target]));
    plain.env("NO_COLOR", "1");
    let mut plain = Terminal::start_with(plain);
    plain.writes("\x1b[7m", &["\x1b[;m", "\x1b[38;"]);
    plain.ends_by("INT");
    // The protocol of a target without a scheme is detected.
    let mut other = Terminal::start(quick.iter().chain(&[&*format!("127.79.0.2:{port}")]));
    other.sees("●");
    other.ends_by("TERM");
    assert_eq!(serve.stop("TERM").0, Some(0));
    watch.sees("✗");
    watch.ends_by("key");
}

#[test]
fn usage_errors_are_reported() {
    run(["watch", "127.0.0.1"]).fails_as_usage("needs a terminal");
    run(["watch", "--monitor", "127.0.0.1:8080"]).fails_as_usage("`hailer query --json`");
    run(["watch", "telnet://127.0.0.1"]).fails_as_usage("`hailer protocols`");
    run(["watch", "--monitor", "ftp://127.0.0.1"]).fails_as_usage("http://127.0.0.1:8080");
    run(["watch", "--targets", "/no/such/file"]).fails_as_usage("--targets /no/such/file: ");
    run([
        "watch",
        "--targets",
        Temporary::file("none", "# nobody\n").text(),
    ])
    .fails_as_usage("no target in this file");
    run([
        "watch",
        "--config",
        Temporary::file("plan", "[[server]]\nname = \"a\"\n").text(),
    ])
    .fails_as_usage("missing key `target`");
    run(["watch", "--config", Temporary::file("plan", "").text()]).fails_as_usage("no [[server]]");
    run(["watch"]).ends_with(2);
    run(["watch", "--interval", "10ms", "127.0.0.1"]).ends_with(2);
    run(["watch", "127.0.0.1", "--monitor", "http://127.0.0.1:1"]).ends_with(2);
    // An unreachable monitor is not a usage error.
    let mut watch = Terminal::start(["watch", "--monitor", "http://127.0.0.1:1"]);
    watch.sees("error: no monitor at http://127.0.0.1:1: ");
    assert_eq!(watch.wait(), Some(1));
}
