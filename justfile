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

# Fuzz for so many seconds a target (random inputs and the corpora; `cargo bolero` runs the same targets with coverage)
fuzz seconds="60":
    BOLERO_RANDOM_TEST_TIME_MS={{seconds}}000 cargo test --release -p hailer-proto --test fuzz

# Codec benches, each beside a copy of as many bytes
bench:
    cargo bench -p hailer-proto --features serde

# Licences, bans and sources of all dependencies
deny:
    cargo deny check licenses bans sources

demo:
    cargo run --release -- demo
