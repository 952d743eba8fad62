//! The binary for container images: `hailer query` alone. Everything is in the library next to it.
//!
//! In: arguments of the process. Out: its exit code.
//!
//! May import: `hailer_cli`.

fn main() -> std::process::ExitCode {
    hailer_cli::probe()
}
