//! Invalid configurations of `hailer monitor --cluster` fail with one line that names the
//! correction. `hailer-monitor` tests the cluster itself.

use crate::tool::{Temporary, run};

#[test]
fn invalid_cluster_is_one_line() {
    let target = "ugp://127.0.0.1";
    let there = "redis://127.0.0.1:1";
    run(["monitor", "--cluster", there, target]).fails_as_usage("history = \"postgres://");
    run(["monitor", "--cluster", "http://127.0.0.1", target]).fails_as_usage("redis://");
    run(["monitor", "--cluster", "redis+sentinel://127.0.0.1", target]).fails_as_usage("MASTER");
    let check = |text: &str| {
        let config = Temporary::file(
            "cluster.toml",
            format!("[monitor]\nhistory = \"postgres:///x\"\n[cluster]\n{text}"),
        );
        run(["monitor", "--check-config", "--config", config.text()])
    };
    let sound = "url = \"redis+sentinel://127.0.0.1,127.0.0.2:26380/mine/3\"\nlease = \"5s\"\nroles = [\"write\"]\nname = \"a\"\n";
    check(sound).ends_with(0);
    for (text, error) in [
        ("name = \"a\"\n", ":3: cluster: missing key `url`"),
        (
            "url = \"redis://x\"\nroles = [\"think\"]\n",
            ":5: cluster.roles: ",
        ),
        (
            "url = \"redis://x\"\nlease = \"1ms\"\n",
            ":5: cluster.lease",
        ),
        (
            "url = \"redis://x\"\nname = \"{a}\"\n",
            ":5: cluster.name: ",
        ),
        ("url = \"redis://x\"\nleese = \"5s\"\n", "lease"),
    ] {
        check(text).fails_as_usage(error);
    }
}
