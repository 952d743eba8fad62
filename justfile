# `just` shows the list; each recipe is a line that works without `just` too.

_default:
    @just --list

# What CI checks
check:
    ./.ci/run

# All tests
test:
    cargo test --workspace

# Rewrite the golden files; read the diff before committing it
bless:
    BLESS=1 cargo test --workspace

# Fuzz with so many random inputs a target, after the corpora (`cargo bolero` runs the same targets with coverage)
fuzz inputs="5000000":
    BOLERO_RANDOM_ITERATIONS={{inputs}} cargo test --release -p hailer-proto -p hailer-minecraft --test fuzz

# Benches of codecs and sockets, each beside a baseline in the same run
bench:
    cargo bench -p hailer-proto -p hailer-minecraft -p hailer-udp

# Instructions of the hot paths next to golden/instructions.txt; needs valgrind. BLESS=1 writes them
count:
    cargo run --release -p hailer-bench -- count

# The tests of the crate that has unsafe code, with valgrind looking on, as CI does
memcheck:
    cargo test -p hailer-udp --tests --config "target.'cfg(unix)'.runner = ['valgrind', '-q', '--error-exitcode=9', '--suppressions={{justfile_directory()}}/crates/hailer-udp/tests/valgrind.supp']"

# The sweep against bare loops: some ten minutes on a machine that does nothing else
bench-sweep:
    cargo build --release -p hailer-cli
    cargo run --release -p hailer-bench -- all

# The monitor with a hundred thousand servers for five minutes, while pages are read
bench-monitor minutes="5":
    cargo build --release -p hailer-cli
    cargo run --release -p hailer-bench -- monitor --minutes {{minutes}}

# The responder for ten minutes under a flood from forged sources, in network namespaces: answers, bytes sent, memory
soak minutes="10":
    cargo run --release -p hailer-bench -- flood --minutes {{minutes}}

# Sweeps of a million servers in bad weather, whole and in four shares: what is written is what grows there
prove-sweep targets="1000000":
    HAILER_SWEEP_TARGETS={{targets}} cargo test --release -p hailer-cli --test cli harvest -- --nocapture

# Licences, bans and sources of all dependencies
deny:
    cargo deny check licenses bans sources

demo:
    cargo run -- demo
