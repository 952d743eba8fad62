//! `hailer protocols`: the registry as a table.

use crate::args::Protocols;
use crate::exit::Exit;
use crate::print::table::{self, Fit};
use hailer::proto::registry;
use hailer::proto::wire::counted;
use hailer::proto::{Doc, Info, Proof};
use hailer::support::catalog;
use serde_json::{Value, json};
use std::io::Write;

/// Maximum number of games named for a protocol in the table of all protocols.
const MAX_EXAMPLES: usize = 4;

pub(crate) fn run(args: &Protocols) -> anyhow::Result<Exit> {
    let mut out = crate::print::stdout();
    let all = || registry::PROTOCOLS.iter().map(|protocol| protocol.info());
    match (args.protocol.map(|protocol| protocol.info()), args.json) {
        (Some(info), true) => writeln!(out, "{:#}", describe(info))?,
        (None, true) => writeln!(out, "{:#}", all().map(describe).collect::<Value>())?,
        (Some(info), false) => details(&mut out, info)?,
        (None, false) => {
            let header = [
                ("protocol", Fit::Whole),
                ("title", Fit::Spare(0)),
                ("port", Fit::Whole),
                ("client proves", Fit::Spare(1)),
                ("unverified reply", Fit::Spare(2)),
                ("games", Fit::Fold),
            ];
            let rows = all().map(|info| {
                let row = [
                    info.id,
                    info.title,
                    &port(info),
                    proof(info),
                    &unverified(info),
                    &examples(info),
                ];
                row.map(str::to_owned).to_vec()
            });
            table::print(&mut out, &header, &rows.collect::<Vec<_>>())?;
            writeln!(out, "\nGames, fields, options: `hailer protocols PROTOCOL`")?;
        }
    }
    Ok(Exit::Success)
}

/// Names the best known games of a protocol, as in `Quake II, Kingpin and others`.
fn examples(info: &Info) -> String {
    let games = catalog::games_of(info);
    let names: Vec<&str> = games
        .iter()
        .take(MAX_EXAMPLES)
        .map(|game| game.name)
        .collect();
    let others = if games.len() > MAX_EXAMPLES {
        " and others"
    } else {
        ""
    };
    names.join(", ") + others
}

fn port(info: &Info) -> String {
    format!("{} {}", info.transport, info.port)
}

fn proof(info: &Info) -> &'static str {
    match info.proof {
        Proof::Nothing => "nothing",
        Proof::Token | Proof::Connection => "its address",
    }
}

/// Returns the size of the largest unverified reply, relative to its request.
fn unverified(info: &Info) -> String {
    match info.amplification.reply {
        _ if !info.has_responder => "no responder".into(),
        0 => "none".into(),
        _ => format!("at most ×{:.1}", info.amplification.factor()),
    }
}

fn details(out: &mut impl Write, info: &Info) -> anyhow::Result<()> {
    writeln!(
        out,
        "\x1b[1m{}\x1b[0m ({}), {} port {}",
        info.title, info.id, info.transport, info.port
    )?;
    let amplification = info.amplification;
    match amplification.reply {
        _ if !info.has_responder => writeln!(out, "No responder: Hailer only queries servers.")?,
        0 => writeln!(out, "Unverified reply: none.")?,
        reply => writeln!(
            out,
            "Unverified reply: at most {} for {} (×{:.1}), by default.",
            counted(reply, "byte"),
            amplification.request,
            amplification.factor()
        )?,
    }
    if let Some(srv) = catalog::srv(info.id) {
        writeln!(out, "SRV service: {srv}.")?;
    }
    let games = catalog::games_of(info);
    if !games.is_empty() {
        let names: Vec<&str> = games.iter().map(|game| game.name).collect();
        writeln!(out, "\n\x1b[1mGames\x1b[0m")?;
        writeln!(out, "{}.", names.join(", "))?;
    }
    let mut section = |title: &str, rows: Vec<(&str, &str)>| -> anyhow::Result<()> {
        if !rows.is_empty() {
            writeln!(out, "\n\x1b[1m{title}\x1b[0m")?;
            let rows: Vec<_> = rows
                .into_iter()
                .map(|(name, help)| vec![name.to_owned(), help.to_owned()])
                .collect();
            table::print(out, &[("name", Fit::Whole), ("meaning", Fit::Fold)], &rows)?;
        }
        Ok(())
    };
    let docs = |docs: &'static [Doc]| docs.iter().map(|doc| (doc.key, doc.help)).collect();
    section("Fields of its own", docs(info.fields))?;
    section("Fields of players", docs(info.player_fields))?;
    section(
        "Deviations accepted",
        info.deviations
            .iter()
            .map(|deviation| (deviation.name, deviation.help))
            .collect(),
    )?;
    section("Options of `hailer serve`", docs(info.options))
}

fn describe(info: &Info) -> Value {
    let docs = |docs: &[Doc]| {
        docs.iter()
            .map(|doc| json!({"key": doc.key, "help": doc.help}))
            .collect::<Value>()
    };
    json!({
        "id": info.id,
        "title": info.title,
        "games": catalog::games_of(info).iter().map(|game| game.id).collect::<Value>(),
        "transport": info.transport.to_string().to_ascii_lowercase(),
        "port": info.port,
        "srv": catalog::srv(info.id),
        "proof": proof(info),
        "responder": info.has_responder,
        "amplification": {"request": info.amplification.request, "reply": info.amplification.reply},
        "fields": docs(info.fields),
        "player_fields": docs(info.player_fields),
        "deviations": info.deviations.iter().map(|d| json!({"key": d.name, "help": d.help})).collect::<Value>(),
        "options": docs(info.options),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_names_every_protocol() {
        let readme = include_str!("../../../../README.md");
        let start = readme.find("## Games and protocols").expect("a section");
        for info in registry::PROTOCOLS.iter().map(|protocol| protocol.info()) {
            let id = format!("`{}`", info.id);
            assert!(readme[start..].contains(&id), "README.md lacks {id}");
        }
    }
}
