//! Actions on a running monitor, through its API, and on its history.
//!
//! In: arguments, responses of the API, the history. Out: lines of text or JSON, changes of the
//! watchlist.
//!
//! May import: `crate::args`, `crate::command::monitor`, `crate::command::monitor::parquet`,
//! `crate::command::watch`, `crate::config`, `crate::exit`, `crate::files`, `crate::print`,
//! `hailer`, `hailer_monitor`.

#[cfg(feature = "parquet")]
use super::parquet::TableFile;
use crate::args::{
    MonitorAdd, MonitorExport, MonitorImport, MonitorName, MonitorRemote, MonitorTest,
};
use crate::command::watch::remote::{away, escape, reach};
use crate::config::monitor as config;
use crate::exit::{Exit, OrUsage, usage};
use crate::files::create_private;
use crate::print::{line, stderr, table};
use anyhow::{Context, bail};
use futures_util::StreamExt;
use hailer::proto::wire::counted;
use hailer_monitor::alert;
use hailer_monitor::history::{
    ExportSelection, Format, History, HistoryError, Record, RecordWriter, Records, Table, read,
};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use table::Fit;

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;
/// Number of servers per page of a list.
const SERVERS_PER_PAGE: usize = 500;
/// Maximum length of a cell in characters.
const MAX_CELL_CHARS: usize = 60;

/// Runs `hailer monitor add`.
pub(super) fn add(args: &MonitorAdd) -> anyhow::Result<Exit> {
    let labels: Map<String, Value> = (args.label.iter())
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let target = super::in_game(&args.target, args.game.as_deref())?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| config::name_of(&target));
    let server = json!({
        "name": name,
        "target": target,
        "group": args.group,
        "labels": labels,
        "interval_s": args.interval.map(|interval| interval.as_secs_f64()),
    });
    let added = Api::new(&args.remote)?.send("POST", "servers", Some(server))?;
    let shown = added["name"].as_str().unwrap_or(&name);
    writeln!(
        crate::print::stdout(),
        "watching {} as {}",
        line(&target, 300),
        line(shown, MAX_CELL_CHARS)
    )?;
    Ok(Exit::Success)
}

/// Runs `hailer monitor remove`.
pub(super) fn remove(args: &MonitorName) -> anyhow::Result<Exit> {
    // The name becomes part of a URL.
    if !args
        .name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        || args.name.starts_with('.')
    {
        usage!(
            "{}: not the name of a server; `hailer monitor list` shows the names",
            args.name
        );
    }
    Api::new(&args.remote)?.send("DELETE", &format!("servers/{}", args.name), None)?;
    writeln!(
        crate::print::stdout(),
        "removed {}; its history is kept",
        args.name
    )?;
    Ok(Exit::Success)
}

/// Runs `hailer monitor list`.
pub(super) fn list(remote: &MonitorRemote, as_json: bool) -> anyhow::Result<Exit> {
    let api = Api::new(remote)?;
    let mut out = BufWriter::new(crate::print::stdout());
    let mut rows = Vec::new();
    let mut next = Some(format!("servers?limit={SERVERS_PER_PAGE}"));
    while let Some(path) = next.take() {
        let page = api.send("GET", &path, None)?;
        for server in page["servers"]
            .as_array()
            .context("the reply of the monitor has no servers")?
        {
            if as_json {
                writeln!(out, "{server}")?;
                continue;
            }
            let text = |value: &Value| {
                value
                    .as_str()
                    .map(|text| line(text, MAX_CELL_CHARS))
                    .unwrap_or_default()
            };
            let last = &server["last_sample"];
            let players = match (
                last["players_online"].as_u64(),
                last["players_max"].as_u64(),
            ) {
                (Some(on), Some(max)) => format!("{on}/{max}"),
                (Some(on), None) => on.to_string(),
                _ => String::new(),
            };
            let latency = last["latency_ms"].as_f64().map(|latency| match latency {
                ..10.0 => format!("{latency:.1} ms"),
                _ => format!("{latency:.0} ms"),
            });
            let latency = latency.unwrap_or_default();
            let cells = [&server["state"], &server["name"], &server["group"]].map(text);
            rows.push(
                cells
                    .into_iter()
                    .chain([players, latency, text(&server["target"])])
                    .collect(),
            );
        }
        next = page["next"]
            .as_str()
            .map(|cursor| format!("servers?limit={SERVERS_PER_PAGE}&cursor={}", escape(cursor)));
    }
    if !as_json {
        let header = [
            ("state", Fit::Whole),
            ("name", Fit::Whole),
            ("group", Fit::Whole),
            ("players", Fit::Number),
            ("latency", Fit::Number),
            ("target", Fit::Whole),
        ];
        table::print(&mut out, &header, &rows)?;
    }
    out.flush()?;
    Ok(Exit::Success)
}

/// Runs `hailer monitor test-alert`. Reads the configuration and sends from this process, so that
/// it works before the monitor runs.
pub(super) fn test_alert(args: &MonitorTest) -> anyhow::Result<Exit> {
    let config = config::read(&args.config)?;
    let receivers: Vec<String> = config
        .alerts
        .receivers()
        .map(|outlet| outlet.name.clone())
        .collect();
    if receivers.is_empty() {
        usage!(
            "{}: no [[receiver]] in this file; add one",
            args.config.display()
        );
    }
    let chosen = match &args.receiver {
        None => receivers,
        Some(name) if receivers.contains(name) => vec![name.clone()],
        Some(name) => usage!(
            "{name}: not a receiver of this configuration; it has {}",
            receivers.join(", ")
        ),
    };
    let mut exit = Exit::Success;
    for name in chosen {
        let alerts: &alert::CheckedConfig = &config.alerts;
        match alerts.test(&name) {
            Ok(()) => writeln!(crate::print::stdout(), "{name}: arrived")?,
            Err(why) => {
                stderr!("\x1b[31m{name}:\x1b[0m {}", line(&why, 300));
                exit = Exit::Partial;
            }
        }
    }
    Ok(exit)
}

/// Runs `hailer monitor export`.
pub(super) async fn export(args: &MonitorExport) -> anyhow::Result<Exit> {
    let format = format_of(args)?;
    let url = super::history_of(args.config.as_deref(), args.history.as_deref())?;
    // Opening a missing history would create it.
    if let Some(path) = url
        .strip_prefix("sqlite:")
        .filter(|path| !Path::new(path).exists())
    {
        usage!("{path}: no such history; name it with --history or --config");
    }
    let history = History::open(&url).await?;
    let mut selection = ExportSelection::default();
    if !args.table.is_empty() {
        // Keep the order of the tables, which an import needs.
        selection.tables.retain(|table| args.table.contains(table));
    }
    // Write to a second file and rename it at the end, so that the named file is always complete.
    let mut partial = args.output.clone().into_os_string();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    let file = create(&partial).or_usage_in(partial.display())?;
    let written = write_all(&history, selection, format, file).await;
    let count = match written {
        Ok(count) => count,
        Err(error) => {
            let _ = std::fs::remove_file(&partial);
            return Err(error.context(args.output.display().to_string()));
        }
    };
    std::fs::rename(&partial, &args.output).with_context(|| args.output.display().to_string())?;
    stderr!("{} in {}", counted(count, "record"), args.output.display());
    Ok(Exit::Success)
}

/// Creates a file that only its owner can read, since an export contains player names.
fn create(path: &Path) -> std::io::Result<File> {
    // The mode applies only to new files, so remove what an interrupted export left.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    create_private(path)
}

/// File format of an export.
enum ExportKind {
    Lines(Format),
    #[cfg(feature = "parquet")]
    Parquet(Table),
}

/// Determines the format by the file extension.
fn format_of(args: &MonitorExport) -> anyhow::Result<ExportKind> {
    let extension = args
        .output
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    let one = || match &args.table[..] {
        [one] => anyhow::Ok(*one),
        _ => usage!(
            "{}: this format holds one table; select it with --table servers, samples, rollups, events or sessions",
            args.output.display()
        ),
    };
    Ok(match extension {
        "ndjson" | "jsonl" => ExportKind::Lines(Format::Ndjson),
        "csv" => ExportKind::Lines(Format::Csv(one()?)),
        #[cfg(feature = "parquet")]
        "parquet" => ExportKind::Parquet(one()?),
        #[cfg(not(feature = "parquet"))]
        "parquet" => usage!("{}", crate::exit::without("parquet")),
        _ => {
            usage!(
                "{}: unknown format; use a name that ends in .ndjson, .csv or .parquet",
                args.output.display()
            )
        }
    })
}

async fn write_all(
    history: &History,
    selection: ExportSelection,
    format: ExportKind,
    file: File,
) -> anyhow::Result<u64> {
    enum ExportTarget {
        Lines(RecordWriter<BufWriter<File>>),
        #[cfg(feature = "parquet")]
        Parquet(Box<TableFile>),
    }
    let file = BufWriter::with_capacity(1 << 18, file);
    let mut to = match format {
        ExportKind::Lines(format) => ExportTarget::Lines(RecordWriter::new(format, file)?),
        #[cfg(feature = "parquet")]
        ExportKind::Parquet(table) => ExportTarget::Parquet(Box::new(TableFile::new(table, file)?)),
    };
    let mut records = std::pin::pin!(history.export(selection));
    let mut count = 0_u64;
    while let Some(record) = records.next().await {
        let record: Record = record?;
        match &mut to {
            ExportTarget::Lines(lines) => lines.write(&record)?,
            #[cfg(feature = "parquet")]
            ExportTarget::Parquet(sheet) => sheet.write(&record)?,
        }
        count += 1;
    }
    let file = match to {
        ExportTarget::Lines(lines) => lines.finish()?,
        #[cfg(feature = "parquet")]
        ExportTarget::Parquet(sheet) => sheet.finish()?,
    };
    file.into_inner()
        .map_err(std::io::IntoInnerError::into_error)?
        .sync_all()?;
    Ok(count)
}

/// Runs `hailer monitor import`.
pub(super) async fn import(args: &MonitorImport) -> anyhow::Result<Exit> {
    let file = File::open(&args.file).or_usage_in(args.file.display())?;
    let records = records(file).or_usage_in(args.file.display())?;
    let history = History::open(&super::history_of(
        args.config.as_deref(),
        args.history.as_deref(),
    )?)
    .await?;
    let imported = match history.import(records).await {
        Err(error @ HistoryError::Import { .. }) => usage!("{}: {error}", args.file.display()),
        imported => imported.with_context(|| args.file.display().to_string())?,
    };
    history.close().await;
    stderr!(
        "{} read; new: {}, {}, {}, {}, {}",
        counted(imported.records, "record"),
        counted(imported.servers, "server"),
        counted(imported.samples, "sample"),
        counted(imported.rollups, "roll-up"),
        counted(imported.events, "event"),
        counted(imported.sessions, "session")
    );
    Ok(Exit::Success)
}

/// Reads the records of a file, whose first bytes identify the format.
fn records(file: File) -> Result<Records<'static>, HistoryError> {
    #[cfg_attr(not(feature = "parquet"), allow(unused_mut))]
    let mut file = BufReader::with_capacity(1 << 18, file);
    #[cfg(feature = "parquet")]
    if super::parquet::begins(&mut file)? {
        return super::parquet::read(file.into_inner());
    }
    read(file)
}

/// API client of a running monitor.
struct Api {
    agent: ureq::Agent,
    url: String,
    token: Option<String>,
}

impl Api {
    fn new(remote: &MonitorRemote) -> anyhow::Result<Self> {
        let token = match &remote.token_file {
            None => None,
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => Some(text.lines().next().unwrap_or_default().trim().to_owned()),
                Err(error) => usage!("--token-file {}: {error}", path.display()),
            },
        };
        // Do not follow redirects: they could send the token to another server.
        let (agent, url) = reach(&remote.monitor, 0)?;
        Ok(Self { agent, url, token })
    }

    fn send(&self, method: &str, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let url = format!("{}/api/v1/{path}", self.url);
        let mut request = ureq::http::Request::builder().method(method).uri(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        if !body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let mut answer = self
            .agent
            .run(request.body(body)?)
            .map_err(|error| away(&self.url, error))?;
        let text = answer
            .body_mut()
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_string()?;
        let reply: Value = serde_json::from_str(&text).unwrap_or_default();
        let status = answer.status().as_u16();
        let is_written = method != "GET" && status == 204;
        if answer.status().is_success() && (is_written || reply.is_object()) {
            return Ok(reply);
        }
        // A monitor describes errors in `detail`; other servers do not.
        let Some(detail) = reply["detail"].as_str() else {
            bail!(
                "{} is not a hailer monitor, or one of another version: HTTP status {status}",
                self.url
            );
        };
        let errors = reply["errors"].as_array().map_or(&[][..], Vec::as_slice);
        let all = errors.iter().map(|error| {
            let [field, message] =
                ["field", "message"].map(|key| line(error[key].as_str().unwrap_or_default(), 200));
            format!("{field}: {message}")
        });
        let words = if errors.is_empty() {
            line(detail, 300)
        } else {
            all.collect::<Vec<_>>().join("; ")
        };
        let mut problem = format!("the monitor rejected the request ({status}): {words}");
        if status == 401 {
            problem.push_str(match self.token {
                None => "; give the token with --token-file FILE",
                Some(_) => "; --token-file must contain the token of the monitor's token-file",
            });
        }
        // The request is invalid: exit code 2.
        if matches!(status, 400..500) && status != 429 {
            usage!("{problem}");
        }
        bail!(problem)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_owner_can_read_an_export() {
        let name = format!("hailer-export-{}.part", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A file of an interrupted export that all users can read.
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let file = create(&path).unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(
            (metadata.permissions().mode() & 0o777, metadata.len()),
            (0o600, 0)
        );
        std::fs::remove_file(&path).unwrap();
    }
}
