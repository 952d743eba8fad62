//! Network namespaces and links between them. The interfaces are real and can be cut, and nothing
//! sent there leaves the machine.
//!
//! Needs `unshare` and `nsenter` (util-linux), `ip` (iproute2), and either root or a system on
//! which users may create namespaces.
//!
//! A program enters a namespace by running itself again with [`enter`]. Inside, it starts other
//! programs with [`apart`], each in a separate namespace, and creates a [`link`] to each. The bench
//! uses this too.
//!
//! In: commands to run. Out: their output inside of a namespace.
//!
//! May import: nothing of this workspace.

use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Set for programs that [`enter`] or [`apart`] started.
const INSIDE: &str = "HAILER_IN_NAMESPACE";
/// Set where namespaces are required: a test fails instead of being skipped.
const NEEDED: &str = "HAILER_NEEDS_NAMESPACES";

/// Returns whether this program runs in a namespace of this module.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Returns whether the test runs in a namespace and may continue. Outside, runs the test again in a
/// namespace, fails if that run fails, and returns `false`. If namespaces are not available, prints
/// that the test is skipped.
pub fn is_inside_for(test: &str) -> bool {
    if is_inside() {
        return true;
    }
    let again = std::env::current_exe().map(enter);
    match again.expect("the path of this program") {
        Ok(mut again) => {
            let output = again
                .args(["--exact", test, "--nocapture"])
                .output()
                .expect("this program again");
            let line = String::from_utf8_lossy(&output.stdout);
            print!("{line}");
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            assert!(
                line.contains("1 passed"),
                "{test} in a namespace: {}",
                output.status
            );
        }
        Err(reason) => {
            assert!(std::env::var_os(NEEDED).is_none(), "{reason}");
            eprintln!("skipped: {reason}");
        }
    }
    false
}

/// Returns a command that runs a program as root in a new namespace without links.
///
/// # Errors
///
/// If namespaces cannot be created here: the reason, in one line.
pub fn enter(program: impl AsRef<OsStr>) -> Result<Command, String> {
    let mut command = Command::new("unshare");
    command
        .args(unshare_options()?)
        .arg(program)
        .env(INSIDE, "1");
    Ok(command)
}

/// Returns a command that runs a program in another namespace without links. The id of the child is
/// the id of the program.
pub fn apart(program: impl AsRef<OsStr>) -> Command {
    assert!(
        is_inside(),
        "links connect only namespaces that a test created"
    );
    let mut command = Command::new("unshare");
    command.arg("--net").arg(program);
    command
}

/// Returns the address of this side of a link.
pub fn near(link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link, 1)
}

/// Returns the address of the other side of a link.
pub fn far(link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link, 2)
}

/// Links the interface `near0` here with `far0` in the namespace of a process that was started with
/// [`apart`]. The number in both names is that of the link.
///
/// # Errors
///
/// If `ip` or `nsenter` fails.
pub fn link(pid: u32, link: u8) -> io::Result<()> {
    assert!(
        is_inside(),
        "links connect only namespaces that a test created"
    );
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net"));
    let deadline = Instant::now() + Duration::from_secs(5);
    while namespace(&pid.to_string())? == namespace("self")? {
        if Instant::now() > deadline {
            return Err(io::Error::other(
                "the other process stays in this namespace",
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    ip(&format!(
        "link add near{link} type veth peer name far{link} netns {pid}"
    ))?;
    ip(&format!("address add {}/30 dev near{link}", near(link)))?;
    ip_there(pid, &format!("address add {}/30 dev far{link}", far(link)))?;
    for name in ["lo".to_owned(), format!("near{link}")] {
        ip(&format!("link set {name} up"))?;
    }
    for name in ["lo".to_owned(), format!("far{link}")] {
        ip_there(pid, &format!("link set {name} up"))?;
    }
    Ok(())
}

/// Runs `ip` in this namespace. Arguments are separated by blanks.
///
/// # Errors
///
/// If `ip` fails.
pub fn ip(words: &str) -> io::Result<()> {
    assert!(is_inside(), "no network but ours is changed");
    finish(words, Command::new("ip").args(words.split(' ')))
}

/// Runs `ip` in the namespace of another process. Arguments are separated by blanks.
///
/// # Errors
///
/// If `ip` or `nsenter` fails.
pub fn ip_there(pid: u32, words: &str) -> io::Result<()> {
    assert!(is_inside(), "no network but ours is changed");
    let namespace = format!("--net=/proc/{pid}/ns/net");
    finish(
        words,
        Command::new("nsenter")
            .arg(namespace)
            .arg("ip")
            .args(words.split(' ')),
    )
}

/// Returns the options that create a namespace: with a user namespace, which needs no privileges,
/// or without one, as root.
fn unshare_options() -> Result<&'static [&'static str], String> {
    let candidates: [&[&str]; 2] = [&["--user", "--map-root-user", "--net"], &["--net"]];
    let mut reasons = Vec::new();
    for options in candidates {
        // Some systems allow new namespaces but nothing inside them, so create an interface as
        // well.
        let mut command = Command::new("unshare");
        command
            .args(options)
            .args(["ip", "link", "add", "type", "veth"])
            .stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => return Ok(options),
            Ok(output) => reasons.push(complaint(&output)),
            Err(error) => reasons.push(format!("unshare: {error}")),
        }
    }
    Err(format!(
        "no network namespaces here, or no iproute2: {}",
        reasons.swap_remove(0)
    ))
}

fn finish(words: &str, command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "ip {words}: {}",
            complaint(&output)
        )))
    }
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .next()
        .unwrap_or("no reason was given")
        .to_owned()
}
