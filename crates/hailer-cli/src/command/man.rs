//! `hailer man`: man pages, generated from the definitions in args.rs and the table below.
//!
//! In: definitions in args.rs. Out: pages on standard output or in a folder.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`.

use crate::args::Arguments;
use crate::exit::Exit;
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write};
use std::path::Path;

/// Parts of the page of a command that its help does not have.
struct Page {
    /// Command, and action after a `-`. The page `hailer` has an empty one.
    command: &'static str,
    /// Examples of a command whose help has none.
    examples: &'static [&'static str],
    /// Meaning of each exit code except 2.
    codes: &'static [(u8, &'static str)],
    /// Paths that the command uses by default, and their purpose.
    files: &'static [(&'static str, &'static str)],
}

const WRONG_ARGUMENTS: &str = "Wrong arguments or an invalid configuration; nothing was sent.";
const STOPPED: (u8, &str) = (0, "It was stopped, by Ctrl-C, SIGTERM or --for.");
const DONE: (u8, &str) = (0, "The output is complete.");
const FAILED: (u8, &str) = (1, "Input or output failed; the error names the file.");
const INTERRUPTED: (u8, &str) = (
    130,
    "Ctrl-C ended it before its work was done. The results so far are printed.",
);
const MONITOR_TOML: (&str, &str) = (
    "/etc/hailer/monitor.toml",
    "Configuration of the service hailer-monitor of the packages.",
);
const SERVE_TOML: (&str, &str) = (
    "/etc/hailer/servers.toml",
    "Configuration of the service hailer-serve of the packages.",
);
const CONTROL: (&str, &str) = (
    "$XDG_RUNTIME_DIR/hailer/serve.sock, /run/hailer/serve.sock",
    "Control socket of hailer serve, in the first folder that is set.",
);

const PAGES: &[Page] = &[
    Page {
        command: "",
        examples: &[],
        codes: &[
            (0, "Every server replied; the command is complete."),
            (1, "A server did not reply, or the input contains errors."),
            INTERRUPTED,
        ],
        files: &[SERVE_TOML, MONITOR_TOML, CONTROL],
    },
    Page {
        command: "query",
        examples: &["hailer query ugp://192.0.2.7 --json | jq .status.players.online"],
        codes: &[
            (0, "Every server replied, and the condition is true."),
            (1, "A server did not reply. With a condition: 3."),
            (3, "The condition is false or unknown."),
            INTERRUPTED,
        ],
        files: &[],
    },
    Page {
        command: "gamedig",
        examples: &[],
        codes: &[(0, "The JSON was printed, with the result or with an error.")],
        files: &[],
    },
    Page {
        command: "discover",
        examples: &[],
        codes: &[(0, "A server was found."), (1, "No server was found.")],
        files: &[],
    },
    Page {
        command: "sweep",
        examples: &[],
        codes: &[
            (0, "A server replied."),
            (1, "No server replied, or a master server sent no list."),
            INTERRUPTED,
        ],
        files: &[],
    },
    Page {
        command: "ping",
        examples: &[
            "hailer ping minecraft://play.example.com",
            "hailer ping ugp://192.0.2.7 --count 0 --interval 5s",
        ],
        codes: &[
            (0, "Every round trip was answered."),
            (1, "A round trip was not answered."),
        ],
        files: &[],
    },
    Page {
        command: "check",
        examples: &[],
        codes: &[
            (0, "The server conforms."),
            (
                1,
                "A failure or a deviation has at least the severity of --fail-on.",
            ),
            INTERRUPTED,
        ],
        files: &[],
    },
    Page {
        command: "serve",
        examples: &[],
        codes: &[STOPPED, FAILED],
        files: &[SERVE_TOML, CONTROL],
    },
    Page {
        command: "serve-status",
        examples: &[],
        codes: &[
            (0, "Every server has a status."),
            (1, "A server has no status, or no hailer serve runs."),
        ],
        files: &[CONTROL],
    },
    Page {
        command: "farm",
        examples: &[],
        codes: &[STOPPED, FAILED],
        files: &[],
    },
    Page {
        command: "world",
        examples: &[],
        codes: &[STOPPED, FAILED],
        files: &[],
    },
    Page {
        command: "monitor",
        examples: &[],
        codes: &[STOPPED, (1, "Records could not be written.")],
        files: &[
            MONITOR_TOML,
            (
                "hailer.db",
                "History, unless the configuration names another database.",
            ),
        ],
    },
    Page {
        command: "monitor-add",
        examples: &[
            "hailer monitor add ugp://192.0.2.7 --name lobby --group Europe --token-file token",
        ],
        codes: &[DONE, (1, "The monitor did not accept the change.")],
        files: &[],
    },
    Page {
        command: "monitor-remove",
        examples: &["hailer monitor remove lobby --token-file token"],
        codes: &[DONE, (1, "The monitor did not accept the change.")],
        files: &[],
    },
    Page {
        command: "monitor-list",
        examples: &[
            "hailer monitor list",
            "hailer monitor list --monitor http://192.0.2.1:8080",
        ],
        codes: &[DONE, (1, "The monitor did not reply.")],
        files: &[],
    },
    Page {
        command: "monitor-test-alert",
        examples: &["hailer monitor test-alert --config monitor.toml"],
        codes: &[DONE, (1, "A receiver did not accept the message.")],
        files: &[MONITOR_TOML],
    },
    Page {
        command: "monitor-export",
        examples: &[
            "hailer monitor export --config monitor.toml -o history.ndjson",
            "hailer monitor export --config monitor.toml --table samples -o samples.parquet",
        ],
        codes: &[DONE, FAILED],
        files: &[MONITOR_TOML],
    },
    Page {
        command: "monitor-import",
        examples: &["hailer monitor import --config monitor.toml history.ndjson"],
        codes: &[DONE, FAILED],
        files: &[MONITOR_TOML],
    },
    Page {
        command: "top",
        examples: &[
            "hailer top",
            "sudo hailer top --control /run/hailer/serve.sock --every 5s",
        ],
        codes: &[STOPPED, (1, "No hailer serve runs.")],
        files: &[CONTROL],
    },
    Page {
        command: "watch",
        examples: &[],
        codes: &[STOPPED, FAILED],
        files: &[],
    },
    Page {
        command: "decode",
        examples: &[],
        codes: &[
            (0, "Everything is valid."),
            (1, "The input contains errors."),
        ],
        files: &[],
    },
    Page {
        command: "join",
        examples: &[],
        codes: &[
            STOPPED,
            (
                1,
                "The server did not let the player join, or ended the game.",
            ),
        ],
        files: &[],
    },
    Page {
        command: "proxy",
        examples: &[],
        codes: &[STOPPED, FAILED],
        files: &[],
    },
    Page {
        command: "demo",
        examples: &["hailer demo", "hailer demo --seed 7"],
        codes: &[
            (0, "Every simulated server replied."),
            (1, "A simulated server did not reply."),
        ],
        files: &[],
    },
    Page {
        command: "protocols",
        examples: &[
            "hailer protocols",
            "hailer protocols minecraft-query",
            "hailer protocols --json | jq '.[].id'",
        ],
        codes: &[DONE, FAILED],
        files: &[],
    },
    Page {
        command: "games",
        examples: &[],
        codes: &[(0, "A game was found."), (1, "No game matches.")],
        files: &[],
    },
    Page {
        command: "completions",
        examples: &[
            "hailer completions bash > ~/.local/share/bash-completion/completions/hailer",
            "hailer completions zsh > \"${fpath[1]}/_hailer\"",
            "hailer completions fish > ~/.config/fish/completions/hailer.fish",
        ],
        codes: &[DONE, FAILED],
        files: &[],
    },
    Page {
        command: "man",
        examples: &[
            "hailer man | man -l -",
            "hailer man ~/.local/share/man/man1",
        ],
        codes: &[DONE, FAILED],
        files: &[],
    },
];

/// Writes the page of `hailer` to standard output, or all pages to a folder.
pub(crate) fn write(folder: Option<&Path>) -> anyhow::Result<Exit> {
    let mut tool = Arguments::command().disable_help_subcommand(true);
    tool.build();
    match folder {
        None => render(tool, &mut crate::print::stdout())?,
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
            write_to(&tool, folder).with_context(|| folder.display().to_string())?;
        }
    }
    Ok(Exit::Success)
}

/// Writes the pages of a command and its actions.
fn write_to(command: &Command, folder: &Path) -> io::Result<()> {
    for action in command
        .get_subcommands()
        .filter(|action| !action.is_hide_set())
    {
        write_to(action, folder)?;
    }
    let mut page = Vec::new();
    render(command.clone(), &mut page)?;
    std::fs::write(folder.join(format!("{}.1", name(command))), page)
}

/// `hailer`, `hailer-serve` or `hailer-serve-status`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// Writes one page. `clap_mangen` knows no examples, exit codes and files.
fn render(command: Command, out: &mut dyn Write) -> io::Result<()> {
    let id = name(&command)
        .trim_start_matches("hailer")
        .trim_start_matches('-');
    let page = PAGES.iter().find(|page| page.command == id);
    let help = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    // The examples are the last part of a help text.
    let (notes, examples) = help.split_once("Examples:\n").unwrap_or((&help, ""));
    let (notes, mut examples): (_, Vec<_>) = (
        notes.trim().to_owned(),
        examples.lines().map(str::trim).map(str::to_owned).collect(),
    );
    if let Some(page) = page {
        examples.extend(page.examples.iter().map(ToString::to_string));
    }
    let has_options = command.get_arguments().any(|arg| !arg.is_hide_set());
    let has_actions = command
        .get_subcommands()
        .any(|action| !action.is_hide_set());

    let man = Man::new(command);
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    if has_options {
        man.render_options_section(out)?;
    }
    if has_actions {
        man.render_subcommands_section(out)?;
    }
    let mut roff = Roff::new();
    if !notes.is_empty() {
        section(&mut roff, "NOTES");
        for paragraph in notes.split("\n\n") {
            roff.control("PP", []);
            // Lists are indented.
            if paragraph.contains("\n  ") {
                roff.control("nf", []);
                roff.text(
                    paragraph
                        .lines()
                        .map(|line| roman(format!("{line}\n")))
                        .collect::<Vec<_>>(),
                );
                roff.control("fi", []);
            } else {
                roff.text([roman(paragraph.replace('\n', " "))]);
            }
        }
    }
    if !examples.is_empty() {
        section(&mut roff, "EXAMPLES");
        roff.control("nf", []);
        roff.text(
            examples
                .iter()
                .map(|line| roman(format!("{line}\n")))
                .collect::<Vec<_>>(),
        );
        roff.control("fi", []);
    }
    if let Some(page) = page {
        section(&mut roff, "EXIT STATUS");
        let mut codes = page.codes.to_vec();
        codes.push((2, WRONG_ARGUMENTS));
        codes.sort_unstable();
        for (code, meaning) in codes {
            roff.control("TP", [])
                .text([bold(code.to_string())])
                .text([roman(meaning)]);
        }
        if !page.files.is_empty() {
            section(&mut roff, "FILES");
            for &(path, meaning) in page.files {
                roff.control("TP", [])
                    .text([bold(path)])
                    .text([roman(meaning)]);
            }
        }
    }
    roff.to_writer(out)
}

fn section(roff: &mut Roff, title: &'static str) {
    roff.control("SH", [title]);
}
