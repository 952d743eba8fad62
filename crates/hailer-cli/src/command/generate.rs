//! `hailer completions` and `hailer man`, generated from the definitions in args.rs.
//!
//! In: definitions in args.rs. Out: scripts and man pages.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`.

use crate::args::Arguments;
use crate::exit::Exit;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;
use std::path::Path;

pub(crate) fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "hailer", &mut script);
    crate::print::stdout().write_all(&script)?;
    Ok(Exit::Success)
}

pub(crate) fn man_pages(folder: Option<&Path>) -> anyhow::Result<Exit> {
    match folder {
        None => clap_mangen::Man::new(Arguments::command()).render(&mut crate::print::stdout())?,
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            clap_mangen::generate_to(Arguments::command(), folder)
                .with_context(|| folder.display().to_string())?;
        }
    }
    Ok(Exit::Success)
}
