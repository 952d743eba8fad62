//! Network namespaces of our own and links between them: real interfaces that can be cut, and nothing sent there leaves the machine.
//! Needs `unshare` and `nsenter` (util-linux), `ip` (iproute2), and a system that lets its users make namespaces, or root.
//!
//! A program enters a namespace by starting itself again with [`enter`]. In there it starts others [`apart`], each in a namespace of its
//! own, and makes a [`link`] to each. The bench uses this too.

use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Set for a program that was started in a namespace of ours.
const INSIDE: &str = "HAILER_IN_NAMESPACE";
/// Set where there must be namespaces, so that to skip is to fail.
const NEEDED: &str = "HAILER_NEEDS_NAMESPACES";

/// Whether this program runs in a namespace of ours.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Whether a test may go on: it is in a namespace of its own then. Outside, it is started again inside, and has had its say when this
/// returns. Where there can be no namespaces, a line says that the test is skipped.
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
            let said = String::from_utf8_lossy(&output.stdout);
            print!("{said}");
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            assert!(
                said.contains("1 passed"),
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

/// A program in a new namespace without any link, as root in there; or why there can be none here, in one line.
pub fn enter(program: impl AsRef<OsStr>) -> Result<Command, String> {
    let mut command = Command::new("unshare");
    command.args(way()?).arg(program).env(INSIDE, "1");
    Ok(command)
}

/// A program in one more namespace without any link. Its process has the id of the child.
pub fn apart(program: impl AsRef<OsStr>) -> Command {
    assert!(
        is_inside(),
        "links are made between namespaces of ours only"
    );
    let mut command = Command::new("unshare");
    command.arg("--net").arg(program);
    command
}

/// This side of a link.
pub fn near(link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link, 1)
}

/// The other side of a link.
pub fn far(link: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, link, 2)
}

/// Links the interface `near0` here with `far0` in the namespace of a process that was started [`apart`], and so on with other numbers.
pub fn link(pid: u32, link: u8) -> io::Result<()> {
    assert!(
        is_inside(),
        "links are made between namespaces of ours only"
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

/// The program `ip` in this namespace, its words separated by blanks.
pub fn ip(words: &str) -> io::Result<()> {
    assert!(is_inside(), "no network but ours is changed");
    finish(words, Command::new("ip").args(words.split(' ')))
}

/// The same in the namespace of another process.
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

/// How to make a namespace: as root of a namespace of users as well, which takes no privilege. Where that is refused, root needs none.
fn way() -> Result<&'static [&'static str], String> {
    let ways: [&[&str]; 2] = [&["--user", "--map-root-user", "--net"], &["--net"]];
    let mut reasons = Vec::new();
    for way in ways {
        // To be let in is not enough: some systems let everybody in and allow nothing there.
        let mut command = Command::new("unshare");
        command
            .args(way)
            .args(["ip", "link", "add", "type", "veth"])
            .stdin(Stdio::null());
        match command.output() {
            Ok(output) if output.status.success() => return Ok(way),
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
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "ip {words}: {}",
            complaint(&output)
        ))),
    }
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .next()
        .unwrap_or("no reason was given")
        .to_owned()
}
