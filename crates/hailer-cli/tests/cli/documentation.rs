//! README and guides: configurations are valid, reference pages match the tool.

use crate::tool::{command, finish, run};
use hailer::proto::wire::counted;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README and all guides, with their paths.
fn pages() -> Vec<(PathBuf, String)> {
    let mut paths = vec![root().join("README.md")];
    for folder in ["docs", "docs/tutorials"] {
        for entry in std::fs::read_dir(root().join(folder)).expect(folder) {
            let path = entry.expect("an entry of a folder").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a page");
            (path, text)
        })
        .collect()
}

/// Code blocks in this language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence)
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("```")?.0))
        .collect()
}

/// A folder with the secret files that the examples mention, removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path =
            std::env::temp_dir().join(format!("hailer-documentation-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for the test");
        for (name, text) in [
            ("token", "0123456789abcdef0123456789abcdef\n"),
            ("discord-url", "https://discord.example/api/webhooks/1/a\n"),
            ("status.json", "{}\n"),
            ("redis-password", "a good password\n"),
        ] {
            std::fs::write(path.join(name), text).expect("a file for the test");
        }
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn guides_have_valid_configurations() {
    let folder = Folder::new();
    let file = folder.0.join("example.toml");
    let mut checked = 0;
    for (path, text) in pages() {
        for block in blocks(&text, "toml") {
            let is_monitor = block.contains("[monitor]") || block.contains("[cluster]");
            let tool = if is_monitor { "monitor" } else { "serve" };
            std::fs::write(&file, block).expect("a file for the test");
            let mut command = command([tool, "--check-config", "--config"]);
            command.arg(&file).current_dir(&folder.0);
            let output = finish(command, None);
            assert_eq!(
                output.code(),
                Some(0),
                "{}: {block}\n{}",
                path.display(),
                output.err
            );
            checked += 1;
        }
    }
    assert!(checked >= 4, "{checked} configurations found");
}

/// The configurations of the Debian package and of the container are valid.
#[test]
fn packages_have_valid_configurations() {
    for folder in ["deb", "container"] {
        for tool in ["serve", "monitor"] {
            let name = if tool == "serve" { "servers" } else { tool };
            let file = root().join(format!("contrib/{folder}/{name}.toml"));
            let mut command = command([tool, "--check-config", "--config"]);
            command.arg(&file);
            let output = finish(command, None);
            assert_eq!(output.code(), Some(0), "{}: {}", file.display(), output.err);
        }
    }
}

/// Links to other files in the repository lead somewhere.
#[test]
fn guides_have_valid_links() {
    let mut broken = Vec::new();
    for (path, text) in pages() {
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links {
            let file = link.split('#').next().unwrap_or_default();
            let folder = path.parent().expect("a folder");
            if !link.contains("://") && !folder.join(file).exists() {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// Compares a page with what the tool prints. `BLESS=1` rewrites the page.
fn assert_page(name: &str, text: &str) {
    let file = root().join("docs").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, text).expect("a writable page");
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        stored == text,
        "docs/{name} is outdated: run BLESS=1 cargo test -p hailer-cli documentation"
    );
}

/// Text for a cell of a Markdown table.
fn cell(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('|', "\\|")
}

#[test]
fn protocol_reference_matches_the_tool() {
    let output = run(["protocols", "--json"]).ends_with(0).out;
    let protocols: Value = serde_json::from_str(&output).expect("JSON");
    let mut page = String::from(
        "# Protocols\n\nGenerated from the protocol table in the code, as `hailer protocols` shows it.\n\n\
         | id | protocol | port | client must prove | unverified reply |\n| --- | --- | --- | --- | --- |\n",
    );
    for protocol in protocols.as_array().expect("a list") {
        let id = cell(&protocol["id"]);
        let amplification = &protocol["amplification"];
        let factor = amplification["reply"].as_f64().expect("bytes")
            / amplification["request"].as_f64().expect("bytes");
        let reply = if protocol["responder"] == false {
            "no responder".to_owned()
        } else if factor == 0.0 {
            "none".to_owned()
        } else {
            format!("at most ×{factor:.1}")
        };
        writeln!(
            page,
            "| [`{id}`](../../spec/{id}.md) | {} | {} {} | {} | {reply} |",
            cell(&protocol["title"]),
            cell(&protocol["transport"]).to_uppercase(),
            protocol["port"],
            cell(&protocol["proof"]),
        )
        .expect("a string grows");
    }
    page.push_str("\nThe last column is the largest reply of `hailer serve` to an unverified address, relative to the request, with\ndefault options. A budget limits such replies further.\n");
    for protocol in protocols.as_array().expect("a list") {
        let id = cell(&protocol["id"]);
        let request = &protocol["amplification"]["request"];
        let reply = &protocol["amplification"]["reply"];
        let response = if protocol["responder"] == true {
            let [reply, request] = [reply, request].map(|bytes| counted(bytes, "byte"));
            format!("Unverified reply: at most {reply} per {request}.")
        } else {
            "No responder.".to_owned()
        };
        write!(
            page,
            "\n## {}\n\n`{id}`, {} port {}. Specification: [spec/{id}.md](../../spec/{id}.md). {response}\n",
            cell(&protocol["title"]),
            cell(&protocol["transport"]).to_uppercase(),
            protocol["port"],
        )
        .expect("a string grows");
        if let Some(srv) = protocol["srv"].as_str() {
            write!(page, "\nSRV service: `{srv}`.\n").expect("a string grows");
        }
        let games = protocol["games"].as_array().expect("a list").iter();
        let games: Vec<String> = games.map(|id| format!("`{}`", cell(id))).collect();
        if !games.is_empty() {
            let games = games.join(", ");
            write!(
                page,
                "\n[Games](../games.md), the best known first: {games}.\n"
            )
            .expect("a string grows");
        }
        for (member, title) in [
            ("fields", "Additional field"),
            ("player_fields", "Additional field of players"),
            ("deviations", "Accepted deviation"),
            ("options", "Option of `hailer serve`"),
        ] {
            let rows = protocol[member].as_array().expect("a list");
            if !rows.is_empty() {
                write!(page, "\n| {title} | meaning |\n| --- | --- |\n").expect("a string grows");
            }
            for row in rows {
                writeln!(page, "| `{}` | {} |", cell(&row["key"]), cell(&row["help"]))
                    .expect("a string grows");
            }
        }
    }
    assert_page("reference/protocols.md", &page);
}

#[test]
fn requirement_reference_matches_the_tool() {
    let output = run(["check", "--list", "--json"]).ends_with(0).out;
    let mut page = String::from(
        "# Requirements\n\nGenerated from the tests of `hailer check`, as `hailer check --list` shows them. \
         [check.md](../check.md) explains the results.\n",
    );
    let mut last = (String::new(), String::new());
    for line in output.lines() {
        let requirement: Value = serde_json::from_str(line).expect("JSON");
        let protocol = cell(&requirement["protocol"]);
        let role = cell(&requirement["role"]);
        if role == "client" {
            if role != last.1 {
                page += "\n| id | a client must do | severity | effect of a failure |\n| --- | --- | --- | --- |\n";
            }
            writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                cell(&requirement["id"]),
                cell(&requirement["title"]),
                cell(&requirement["severity"]),
                cell(&requirement["effect"]),
            )
            .expect("a string grows");
            last = (protocol, role);
            continue;
        }
        if protocol != last.0 {
            write!(
                page,
                "\n## {protocol}\n\n| id | a server must do | severity | effect of a failure | specification | deviations by name |\n\
                 | --- | --- | --- | --- | --- | --- |\n"
            )
            .expect("a string grows");
        }
        last = (protocol, role);
        let section = cell(&requirement["section"]);
        let (file, number) = section.split_once('#').expect("a section");
        let names = requirement["deviations"].as_array().expect("a list").iter();
        let names: Vec<String> = names
            .map(|deviation| {
                format!(
                    "`{}`: {}",
                    cell(&deviation["name"]),
                    cell(&deviation["help"])
                )
            })
            .collect();
        let cost = match (requirement["waits_s"].as_u64(), &requirement["is_load"]) {
            (Some(seconds), _) => format!(" (waits up to {seconds} s)"),
            (None, load) if load == true => " (only with `--load`)".into(),
            _ => String::new(),
        };
        writeln!(
            page,
            "| `{}` | {}{cost} | {} | {} | [{number}](../../{file}) | {} |",
            cell(&requirement["id"]),
            cell(&requirement["title"]),
            cell(&requirement["severity"]),
            cell(&requirement["effect"]),
            names.join("; "),
        )
        .expect("a string grows");
    }
    assert_page("reference/requirements.md", &page);
}

#[test]
fn field_reference_matches_the_tool() {
    let output = run(["sweep", "--fields", "list"]).ends_with(0).out;
    let page = format!(
        "# Output fields\n\nColumns of `hailer sweep` for `--fields`, CSV and Parquet, as `--fields list` prints them.\n\n```text\n{output}```\n"
    );
    assert_page("reference/fields.md", &page);
}

/// Returns what a property refers to, or itself.
fn resolved<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let name = property["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(property, |name| &schema["$defs"][name])
}

/// Appends a row for each key below `parent`.
fn write_keys(schema: &Value, parent: &Value, path: &str, page: &mut String) {
    let parent = resolved(schema, parent);
    for (key, property) in parent["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{key}");
        let target = resolved(schema, property);
        let description = [property, target].map(|value| &value["description"]);
        let description = description.into_iter().find(|text| text.is_string());
        let description = cell(description.unwrap_or_else(|| panic!("no description of {path}")));
        writeln!(page, "| `{path}` | {description} |").expect("a string grows");
        write_keys(schema, target, &format!("{path}."), page);
    }
    let variants = parent["oneOf"].as_array().into_iter().flatten();
    for nested in variants.chain(parent.get("items")) {
        write_keys(schema, nested, path, page);
    }
}

#[test]
fn configuration_reference_matches_the_schemas() {
    let mut page = String::from(
        "# Configuration keys\n\nGenerated from the JSON schemas in [schema/](../../schema/). \
         `hailer serve --example` and `hailer monitor --example` print complete files with comments. \
         Tables that can occur several times, such as `[[server]]`, are listed once.\n",
    );
    for command in ["serve", "monitor"] {
        let file = root().join(format!("schema/{command}-config-v1.json"));
        let schema = std::fs::read_to_string(file).expect("a schema");
        let schema: Value = serde_json::from_str(&schema).expect("JSON");
        writeln!(
            page,
            "\n## `hailer {command} --config`\n\n| key | meaning |\n| --- | --- |"
        )
        .expect("a string grows");
        write_keys(&schema, &schema, "", &mut page);
    }
    assert_page("reference/configuration.md", &page);
}

#[test]
fn list_of_games_matches_the_tool() {
    let output = run(["games", "--json"]).ends_with(0).out;
    let games: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut page = String::from(
        "# Games\n\nGenerated from the games table in the code, as `hailer games` shows it. \
         A target may name a game: `hailer query valheim://HOST`. Ports are defaults. \
         Ports marked with ~ are not confirmed by any source.\n",
    );
    let (queried, others): (Vec<_>, Vec<_>) =
        games.iter().partition(|game| game["obstacle"].is_null());
    let port = |game: &Value| {
        let mark = match game["is_port_confirmed"].as_bool() {
            Some(true) => "",
            _ => "~",
        };
        game["port"]
            .as_u64()
            .map(|port| format!("{mark}{port}"))
            .unwrap_or_default()
    };
    let list = |value: &Value| {
        let items = value.as_array().expect("a list").iter();
        items.map(cell).collect::<Vec<_>>().join(", ")
    };
    writeln!(page, "\n## Games that can be queried ({})\n", queried.len()).expect("a string grows");
    page += "| id | game | protocols | game port | query port | notes | listed by | other ids |\n";
    page += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for game in queried {
        let quirks = game["quirks"].as_array().expect("a list").iter();
        let notes: Vec<String> = quirks.map(|quirk| cell(&quirk["help"])).collect();
        writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            cell(&game["id"]),
            cell(&game["name"]),
            list(&game["protocols"]),
            port(game),
            cell(&game["query_port"]),
            notes.join("; "),
            list(&game["sources"]),
            list(&game["aliases"]),
        )
        .expect("a string grows");
    }
    writeln!(
        page,
        "\n## Games that cannot be queried ({})\n",
        others.len()
    )
    .expect("a string grows");
    page += "| id | game | game port | reason | listed by | other ids |\n";
    page += "| --- | --- | --- | --- | --- | --- |\n";
    for game in others {
        writeln!(
            page,
            "| `{}` | {} | {} | {} | {} | {} |",
            cell(&game["id"]),
            cell(&game["name"]),
            port(game),
            cell(&game["obstacle"]),
            list(&game["sources"]),
            list(&game["aliases"]),
        )
        .expect("a string grows");
    }
    assert_page("games.md", &page);
}
