//! Packages of npm that tests run: third-party clients and servers.
//!
//! `npm/package.json` pins them; `npm install --package-lock-only` in its folder writes the lock
//! file. `npm/minecraft` has those of Minecraft clients:
//! `npm ci --prefix target/npm-minecraft` after a copy of its files.
//!
//! In: a script and its arguments. Out: its output.
//!
//! May import: nothing of this workspace.

use std::path::PathBuf;
use std::process::Command;

/// Protocols that have a responder, and the types of node-gamedig that speak them.
pub const GAMEDIG_TYPES: &[(&str, &str)] = &[
    ("a2s", "protocol-valve"),
    ("ase", "protocol-ase"),
    ("battlefield", "protocol-battlefield"),
    ("doom3", "protocol-doom3"),
    ("gamespy1", "protocol-gamespy1"),
    ("gamespy2", "protocol-gamespy2"),
    ("gamespy3", "protocol-gamespy3"),
    ("minecraft-bedrock", "protocol-minecraftbedrock"),
    ("minecraft-query", "protocol-gamespy3"),
    ("minecraft-status", "protocol-minecraftvanilla"),
    ("mumble", "protocol-mumbleping"),
    ("quake1", "protocol-quake1"),
    ("quake2", "protocol-quake2"),
    ("quake3", "protocol-quake3"),
    ("samp", "protocol-samp"),
    ("satisfactory", "protocol-satisfactory"),
    ("starmade", "protocol-starmade"),
    ("teamspeak2", "protocol-teamspeak2"),
    ("teamspeak3", "protocol-teamspeak3"),
    ("unreal2", "protocol-unreal2"),
];

/// Returns the folder of a package's modules, for `NODE_PATH`: `target/npm`, where `.ci/run` installs
/// them. The clients of Minecraft are in `target/npm-minecraft`, since they bring 500 MB of data.
/// Without the package, prints that the test was skipped.
///
/// # Panics
///
/// If the package is missing and `HAILER_NEEDS_NPM` is set, or `HAILER_NEEDS_NPM_MINECRAFT` for the
/// clients of Minecraft.
pub fn modules(package: &str) -> Option<PathBuf> {
    let (folder, needs) = match package {
        "mineflayer" => ("npm-minecraft", "HAILER_NEEDS_NPM_MINECRAFT"),
        _ => ("npm", "HAILER_NEEDS_NPM"),
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    let root = PathBuf::from(root).join(folder).join("node_modules");
    if root.join(package).is_dir() {
        return Some(root);
    }
    let reason = format!("the npm package {package} is not in {}", root.display());
    assert!(std::env::var_os(needs).is_none(), "{reason}");
    eprintln!("skipped: {reason}");
    None
}

/// Returns a command that runs the text of a JavaScript module, which imports a package; arguments
/// can be added. Without the package, like [`modules`].
///
/// # Panics
///
/// As [`modules`].
pub fn run_module(package: &str, text: &str) -> Option<Command> {
    let modules = modules(package)?;
    let mut command = Command::new("node");
    // `import` ignores NODE_PATH and searches from the current folder.
    command
        .current_dir(modules.parent()?)
        .args(["--input-type=module", "--eval", text, "--"]);
    Some(command)
}
