//! The binary of the tool. Everything is in the library next to it.

fn main() -> std::process::ExitCode {
    hailer_cli::main()
}
