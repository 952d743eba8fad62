//! What the linker is told so that a query takes little memory.
//!
//! - Relative relocations, packed: some kilobytes in place of several hundred, all of which the loader reads at each start. C
//!   libraries before glibc 2.36 cannot start such a program, so it is done only where the one at hand can.
//! - The code that a query runs, in one place of the file (`order.ld`). Done in release builds, and only where Rust's
//!   own linker is usual and nobody chose another: not every linker knows such scripts.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=order.ld");
    let target =
        ["CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"].map(|name| var(name).unwrap_or_default());
    if target == ["linux", "gnu"]
        && var("HOST") == var("TARGET")
        && glibc().is_some_and(|version| version >= (2, 36))
    {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_usual =
        var("RUSTC_LINKER").is_err() && !flags.contains("fuse-ld") && !flags.contains("linker");
    let is = |name, value: &str| var(name).is_ok_and(|set| set == value);
    if target == ["linux", "gnu"]
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("PROFILE", "release")
        && is_usual
    {
        let directory = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{directory}/order.ld");
    }
}

/// As `getconf` tells it: `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
