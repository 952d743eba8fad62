# `just` lists the recipes. Each is a line that also works without `just`.

_default:
    @just --list

# The checks of CI
check:
    ./.ci/run

# All tests
test:
    cargo test --workspace

# Rewrite the golden files; read the diff before committing it
bless:
    BLESS=1 cargo test --workspace

# Begin a protocol with one request and one reply over UDP, such as `just new-protocol harbour-wars 7777`; CONTRIBUTING.md has the next steps
new-protocol id port:
    contrib/new-protocol {{id}} {{port}}
    BLESS=1 cargo test -p hailer-proto
    BLESS=1 cargo test -p hailer-cli --test cli documentation

# Fuzz with this many random inputs per target, after the corpora (`cargo bolero` runs the same targets with coverage)
fuzz inputs="5000000":
    BOLERO_RANDOM_ITERATIONS={{inputs}} cargo test --release -p hailer-proto -p hailer-minecraft --test fuzz

# Cut the replies of vectors and responders at every byte, not only at the borders and at every seventh
cuts:
    HAILER_ALL_CUTS=1 cargo test -p hailer-proto --test properties cut_replies

# Benchmarks of codecs and sockets, next to a baseline in the same run
bench:
    cargo bench -p hailer-proto -p hailer-minecraft -p hailer-udp -p hailer

# Instructions of the hot paths next to the recorded figures; needs valgrind
count:
    cargo run --release -p hailer-bench -- count

# Tests of the crate with unsafe code under valgrind
memcheck:
    cargo test -p hailer-udp --tests --config "target.'cfg(unix)'.runner = ['valgrind', '-q', '--error-exitcode=9', '--suppressions={{justfile_directory()}}/crates/hailer-udp/tests/valgrind.supp']"

# The sweep next to bare loops: about 10 minutes on an idle machine
bench-sweep:
    cargo build --release -p hailer-cli
    cargo run --release -p hailer-bench -- all

# The Python package next to the tool and to mcstatus, python-a2s and opengsq
bench-python:
    cargo build --release -p hailer-cli
    python3 -m venv target/python/bench
    target/python/bench/bin/pip install -r bindings/python/tests/requirements.txt ./bindings/python
    HAILER_BIN=target/release/hailer target/python/bench/bin/python bindings/python/bench.py

# The monitor with 100,000 servers for 5 minutes, while pages are read
bench-monitor minutes="5":
    cargo build --release -p hailer-cli
    cargo run --release -p hailer-bench -- monitor --minutes {{minutes}}

# The responder for 10 minutes under a flood from forged sources, in network namespaces: replies, bytes sent, memory
soak minutes="10":
    cargo run --release -p hailer-bench -- flood --minutes {{minutes}}

# Sweeps of a million servers with loss and silence, complete and in four shards: each server once, none missing
prove-sweep targets="1000000":
    HAILER_SWEEP_TARGETS={{targets}} cargo test --release -p hailer-cli --test cli harvest -- --nocapture

# Licenses, bans and sources of all dependencies
deny:
    cargo deny check licenses bans sources

# The tool for Windows, run under Wine; Debian as root, 1 GB below target/cross
windows:
    contrib/cross/windows

# A static binary for Linux, run in an empty folder with name lookups and TLS; Debian as root
static:
    contrib/cross/static

# Compile for Windows with the tests, for AArch64 Linux and for macOS; Debian as root
cross-check:
    contrib/cross/check

# Package all crates, and compile each from its archive; `contrib/release` has more steps of a release
archives:
    contrib/release archives

# `hailer query` alone, as a small binary for container images: target/probe/hailer-probe
probe:
    cargo build --profile probe --locked -p hailer-cli --bin hailer-probe --no-default-features --features probe

# Rewrite the images of the README; needs Chromium
screenshots:
    contrib/screenshots

# The README's first command
demo:
    cargo demo

# The Debian package, installed in a scratch system, used and removed; needs cargo-deb and root
deb profile="dist":
    cargo build --profile {{profile}} -p hailer-cli
    contrib/deb/build {{profile}}
    contrib/deb/test target/debian/*.deb

# The documentation site in target/site/book, with its links checked; needs mdbook 0.5
site:
    contrib/site/build

# Every shell block of README and guides, against simulated servers; needs root
blocks:
    cargo build -p hailer-cli
    contrib/site/run-blocks

# The picture of a terminal session for README and site; needs root
session:
    cargo build -p hailer-cli
    contrib/site/terminal
