//! What is asked of a running monitor, over its API, and of its history.

use super::plan;
use crate::args::{MonitorAdd, MonitorExport, MonitorImport, MonitorName, MonitorRemote, MonitorTest};
use crate::command::watch::remote::escape;
use crate::exit::{Exit, usage};
use crate::print::{line, table, tell};
use anyhow::{Context, bail};
use futures_util::StreamExt;
use hailer_monitor::alert;
use hailer_monitor::history::{Format, History, Lines, Record, Selection, Table, read};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Duration;
use table::Fit;

/// For one question and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Servers of one page of a list.
const PAGE: usize = 500;
/// Characters of a cell.
const CELL: usize = 60;

/// `hailer monitor add`
pub(super) fn add(args: &MonitorAdd) -> anyhow::Result<Exit> {
    let labels: Map<String, Value> = (args.label.iter()).map(|(key, value)| (key.clone(), json!(value))).collect();
    let name = args.name.clone().unwrap_or_else(|| plan::name_of(&args.target));
    let server = json!({
        "name": name,
        "target": args.target,
        "group": args.group,
        "labels": labels,
        "interval_s": args.interval.map(|interval| interval.as_secs_f64()),
    });
    let added = Api::new(&args.remote)?.send("POST", "servers", Some(server))?;
    let shown = added["name"].as_str().unwrap_or(&name);
    writeln!(anstream::stdout(), "watching {} as {}", line(&args.target, 300), line(shown, CELL))?;
    Ok(Exit::Success)
}

/// `hailer monitor remove`
pub(super) fn remove(args: &MonitorName) -> anyhow::Result<Exit> {
    // It becomes part of an address.
    if !args.name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) || args.name.starts_with('.') {
        usage!("{}: no name of a server; `hailer monitor list` shows them", args.name);
    }
    Api::new(&args.remote)?.send("DELETE", &format!("servers/{}", args.name), None)?;
    writeln!(anstream::stdout(), "{} is watched no more; what was seen of it is kept", args.name)?;
    Ok(Exit::Success)
}

/// `hailer monitor list`
pub(super) fn list(remote: &MonitorRemote, as_json: bool) -> anyhow::Result<Exit> {
    let api = Api::new(remote)?;
    let mut out = BufWriter::new(anstream::stdout());
    let (mut rows, mut next) = (Vec::new(), Some(format!("servers?limit={PAGE}")));
    while let Some(path) = next.take() {
        let page = api.send("GET", &path, None)?;
        for server in page["servers"].as_array().context("the monitor answers without servers")? {
            if as_json {
                writeln!(out, "{server}")?;
                continue;
            }
            let text = |value: &Value| value.as_str().map(|text| line(text, CELL)).unwrap_or_default();
            let last = &server["last"];
            let players = match (last["players"].as_u64(), last["max"].as_u64()) {
                (Some(on), Some(max)) => format!("{on}/{max}"),
                (Some(on), None) => on.to_string(),
                _ => String::new(),
            };
            let latency = last["latency_ms"].as_f64().map(|latency| format!("{latency:.0} ms")).unwrap_or_default();
            let cells = [&server["state"], &server["name"], &server["group"]].map(text);
            rows.push(cells.into_iter().chain([players, latency, text(&server["target"])]).collect());
        }
        next = page["next"].as_str().map(|cursor| format!("servers?limit={PAGE}&cursor={}", escape(cursor)));
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

/// `hailer monitor test-alert`: from here, with the plan, so that it works before the monitor runs.
pub(super) fn test_alert(args: &MonitorTest) -> anyhow::Result<Exit> {
    let plan = plan::read(&args.config)?;
    let receivers: Vec<String> = plan.alerts.receivers().map(|outlet| outlet.name.clone()).collect();
    if receivers.is_empty() {
        usage!("{}: it has no [[receiver]]; write one", args.config.display());
    }
    let chosen = match &args.receiver {
        None => receivers,
        Some(name) if receivers.contains(name) => vec![name.clone()],
        Some(name) => usage!("{name}: no receiver of the plan; it has {}", receivers.join(", ")),
    };
    let mut exit = Exit::Success;
    for name in chosen {
        let alerts: &alert::Checked = &plan.alerts;
        match alerts.test(&name) {
            Ok(()) => writeln!(anstream::stdout(), "{name}: arrived")?,
            Err(why) => {
                tell!("\x1b[31m{name}:\x1b[0m {}", line(&why, 300));
                exit = Exit::Partial;
            }
        }
    }
    Ok(exit)
}

/// `hailer monitor export`
pub(super) async fn export(args: &MonitorExport) -> anyhow::Result<Exit> {
    let history = History::open(&super::history_of(args.config.as_deref(), args.history.as_deref())?).await?;
    let is_csv = args.output.extension().is_some_and(|extension| extension == "csv");
    let one = || match &args.table[..] {
        [one] => Ok(*one),
        _ => {
            usage!("a file of CSV has one table; say which with --table servers, samples, rollups, events or sessions")
        }
    };
    let format = if is_csv { Format::Csv(one()?) } else { Format::Ndjson };
    let mut selection = Selection::default();
    if !args.table.is_empty() {
        selection.tables.clone_from(&args.table);
    }
    // Beside it, and renamed at the end: a file of that name is always whole.
    let partial = args.output.with_extension("partial");
    let file = File::create(&partial).with_context(|| partial.display().to_string())?;
    let mut lines = Lines::new(format, BufWriter::new(file))?;
    let mut records = std::pin::pin!(history.export(selection));
    let mut count = 0_u64;
    while let Some(record) = records.next().await {
        let record: Record = record?;
        lines.write(&record).context("the file cannot be written")?;
        count += 1;
    }
    let file = lines.finish()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.sync_all()?;
    std::fs::rename(&partial, &args.output).with_context(|| args.output.display().to_string())?;
    tell!("{count} records in {}", args.output.display());
    Ok(Exit::Success)
}

/// `hailer monitor import`
pub(super) async fn import(args: &MonitorImport) -> anyhow::Result<Exit> {
    let file = match File::open(&args.file) {
        Ok(file) => file,
        Err(error) => usage!("{}: {error}", args.file.display()),
    };
    let history = History::open(&super::history_of(args.config.as_deref(), args.history.as_deref())?).await?;
    let name = |path: &Path| path.display().to_string();
    let imported = history.import(read(BufReader::new(file))?).await.with_context(|| name(&args.file))?;
    tell!(
        "{} records read; new: {} servers, {} samples, {} roll-ups, {} events, {} sessions",
        imported.records,
        imported.servers,
        imported.samples,
        imported.rollups,
        imported.events,
        imported.sessions
    );
    Ok(Exit::Success)
}

/// The tables of an export by their words.
pub(crate) fn table_of(word: &str) -> Result<Table, String> {
    let known = || Table::ALL.map(Table::word).join(", ");
    Table::ALL.into_iter().find(|table| table.word() == word).ok_or_else(|| format!("there is {}", known()))
}

/// A running monitor.
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
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .user_agent(concat!("hailer/", env!("CARGO_PKG_VERSION")));
        Ok(Self { agent: config.build().new_agent(), url: remote.monitor.trim_end_matches('/').to_owned(), token })
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
        let answer = self.agent.run(request.body(body)?);
        let mut answer = answer.with_context(|| format!("no monitor at {}", self.url))?;
        let text = answer.body_mut().with_config().limit(64 << 20).read_to_string()?;
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        if answer.status().is_success() {
            return Ok(said);
        }
        let detail = said["detail"].as_str().or(said["title"].as_str()).unwrap_or("it says no more");
        let mut problem = format!("the monitor refuses ({}): {}", answer.status().as_u16(), line(detail, 300));
        for error in said["errors"].as_array().into_iter().flatten() {
            let [field, message] = ["field", "message"].map(|key| line(error[key].as_str().unwrap_or_default(), 200));
            problem.push_str(&format!("; {field}: {message}"));
        }
        if matches!(answer.status().as_u16(), 401 | 403) && self.token.is_none() {
            problem.push_str("; give its token with --token-file FILE");
        }
        bail!(problem)
    }
}
