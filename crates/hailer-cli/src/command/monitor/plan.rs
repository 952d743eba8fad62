//! What to watch, and how: from a TOML file to a checked plan.
//!
//! ```toml
//! [monitor]
//! listen = "127.0.0.1:8080"               # the page, the API, metrics
//! history = "hailer.db"                   # a file, from this folder; or "postgres://USER@HOST/DATABASE"
//! interval = "60s"                        # how often each server is asked
//! down-after = 2                          # silent samples in a row
//! players = "names"                       # or "hashed", or "off": names are personal data
//! keep = { raw = "7d", five-minutes = "60d", hour = "2years", day = "10years" }
//! rate = 20000                            # datagrams in a second, to all servers together
//! token-file = "token"                    # who may add and remove servers by the API; nobody, without it
//! server-metrics = true                   # gauges for each server at /metrics
//! page = "https://status.example.com"     # where people find it, for links in alerts
//! hosts = ["status.example.com"]          # names by which it may be called, beside addresses, localhost and that of `page`
//! behind-proxy = false                    # true: a proxy on this machine says in X-Forwarded-For who asks
//! badges = true                           # pictures at /badge/NAME.svg, for all web sites
//! widgets = true                          # cards at /widget/NAME, for frames of all web sites
//! max-servers = 200000                    # the API adds none beyond so many
//!
//! [cluster]                               # more than one machine; the history must be in PostgreSQL
//! url = "redis://10.0.0.1"                # or rediss:, redis+cluster:, redis+sentinel://HOST,HOST/MASTER
//! name = "hailer"                         # first word of all keys
//! lease = "15s"                           # how long the servers of a dead process are nobody's
//! roles = ["poll", "write", "page"]       # what this process does
//! backlog = 10000000                      # samples that wait in Redis while PostgreSQL is away
//! user = "hailer"                         # and password-file, ca-file, certificate-file, key-file
//!
//! [[server]]
//! name = "lobby"                          # in addresses of the page: letters, digits, ".", "_" and "-"
//! target = "minecraft-query://127.0.0.1"  # as for `hailer query`, with a protocol
//! group = "Europe"
//! labels = { owner = "me" }
//! interval = "30s"
//!
//! [[alert]]
//! name = "lobby is down"
//! when = "down"
//! servers = ["lobby*"]
//! to = ["chat"]
//!
//! [[receiver]]
//! name = "chat"
//! form = "discord"
//! url-file = "discord-url"                # secrets stand in files of their own
//! ```

use crate::config::table::{Document, Item, Table, Wrong, close};
use crate::config::{self, MIN_TOKEN};
use crate::exit::usage;
use hailer::link::RedisConfig;
use hailer::registry;
use hailer_monitor::alert::{self, Receiver, Rule};
use hailer_monitor::cluster::{self, Roles};
use hailer_monitor::history::{NewServer, Retention};
use hailer_monitor::schedule::MIN_INTERVAL_MS;
use hailer_monitor::server::{self, Origin};
use hailer_monitor::web::api::Token;
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// A plan, checked.
pub(crate) struct Plan {
    pub(crate) listen: SocketAddr,
    pub(crate) history: String,
    pub(crate) interval: Duration,
    pub(crate) down_after: u8,
    pub(crate) players: Players,
    pub(crate) keep: Retention,
    /// Datagrams in a second.
    pub(crate) rate: f64,
    pub(crate) token: Option<Token>,
    pub(crate) server_metrics: bool,
    /// Names by which it may be called, if any were written; and the one that people find it by.
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) page_host: Option<String>,
    pub(crate) is_behind_proxy: bool,
    pub(crate) badges: bool,
    pub(crate) widgets: bool,
    pub(crate) max_servers: usize,
    pub(crate) servers: Vec<NewServer>,
    /// What the file says of all else, as it stands there.
    pub(crate) others: toml::Table,
    pub(crate) alerts: alert::CheckedConfig,
    pub(crate) cluster: Option<Cluster>,
}

/// Others to share the work with.
pub(crate) struct Cluster {
    pub(crate) redis: RedisConfig,
    name: String,
    /// `None`: by the interval.
    lease: Option<Duration>,
    roles: Roles,
    backlog: Option<u64>,
}

impl Cluster {
    /// All as it is without a plan.
    pub(crate) fn new(redis: RedisConfig) -> Self {
        Self {
            redis,
            name: "hailer".into(),
            lease: None,
            roles: Roles::default(),
            backlog: None,
        }
    }

    pub(crate) fn settings(&self, interval: Duration) -> cluster::ClusterConfig {
        let mut settings = cluster::ClusterConfig::new(self.redis.clone(), interval);
        settings.name.clone_from(&self.name);
        (settings.roles, settings.lease) = (self.roles, self.lease.unwrap_or(settings.lease));
        settings.backlog = self.backlog.unwrap_or(settings.backlog);
        settings
    }
}

/// What the library reads itself.
#[derive(serde::Deserialize)]
struct Alerts {
    #[serde(default)]
    alert: Vec<Rule>,
    #[serde(default)]
    receiver: Vec<Receiver>,
}

/// What becomes of the names of players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Players {
    Names,
    Hashed,
    Off,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            history: sqlite(Path::new("hailer.db")),
            interval: Duration::from_secs(60),
            down_after: 2,
            players: Players::Names,
            keep: Retention::default(),
            rate: 20_000.0,
            token: None,
            server_metrics: true,
            hosts: None,
            page_host: None,
            is_behind_proxy: false,
            badges: true,
            widgets: true,
            max_servers: 200_000,
            servers: Vec::new(),
            others: toml::Table::new(),
            alerts: alert::CheckedConfig::default(),
            cluster: None,
        }
    }
}

impl Plan {
    /// Names by which it may be called; `None`: by any. Who listens on loopback is reached from here alone, and a page of somebody
    /// else must not read it through a browser of ours by pointing its own name at us. On another address whoever reaches it may
    /// read it anyway.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let is_strict = self.hosts.is_some() || self.listen.ip().is_loopback();
        is_strict.then(|| {
            self.hosts
                .iter()
                .flatten()
                .chain(&self.page_host)
                .cloned()
                .collect()
        })
    }
}

/// The URL of a file.
pub(crate) fn sqlite(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    let text = config::text(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut plan, page) =
        match Document::parse(&text).and_then(|document| plan(&document.root(), folder)) {
            Ok(plan) => plan,
            Err(Wrong { line, problem }) => usage!("{}:{line}: {problem}", path.display()),
        };
    let Alerts {
        alert: rules,
        receiver: receivers,
    } = match toml::from_str(&text) {
        Ok(alerts) => alerts,
        Err(error) => {
            let line = text[..error.span().map_or(0, |span| span.start)]
                .matches('\n')
                .count()
                + 1;
            usage!(
                "{}:{line}: {}",
                path.display(),
                error.message().replace('\n', "; ")
            );
        }
    };
    // It was read before.
    plan.others = toml::from_str(&text).unwrap_or_default();
    plan.others.remove("server");
    match (alert::AlertConfig {
        rules,
        receivers,
        page,
    })
    .check(folder)
    {
        Ok(alerts) => plan.alerts = alerts,
        Err(error) => usage!("{}: {error}", path.display()),
    }
    Ok(plan)
}

fn plan(root: &Table<'_>, folder: &Path) -> Result<(Plan, Option<String>), Wrong> {
    const BLOCKS: &str = "server: write [[server]], with two brackets, before each server";
    let (monitor, shared) = (root.take("monitor"), root.take("cluster"));
    let blocks = root
        .take("server")
        .map_or(Ok(Vec::new()), |item| item.list(BLOCKS))?;
    let _ = (root.take("alert"), root.take("receiver"));
    root.finish()?;
    let default = (
        Plan {
            history: sqlite(&folder.join("hailer.db")),
            ..Plan::default()
        },
        None,
    );
    let (mut plan, page) = monitor.map_or(Ok(default), |item| monitor_table(item, folder))?;
    plan.cluster = shared.map(|item| cluster_table(item, folder)).transpose()?;
    let mut lines: HashMap<String, usize> = HashMap::new();
    for block in blocks {
        let server = server(&block.table("[[server]]", BLOCKS)?)?;
        if let Some(first) = lines.insert(server.name.clone(), block.line) {
            let problem = format!(
                "name {:?}: the server in line {first} has it; write another",
                server.name
            );
            return Err(Wrong::at(block.line, problem));
        }
        plan.servers.push(server);
    }
    Ok((plan, page))
}

fn monitor_table(item: Item<'_>, folder: &Path) -> Result<(Plan, Option<String>), Wrong> {
    let table = item.table(
        "[monitor]",
        "monitor: write [monitor], and what it is to do in the lines after it",
    )?;
    let mut plan = Plan {
        history: sqlite(&folder.join("hailer.db")),
        ..Plan::default()
    };
    if let Some(item) = table.take("listen") {
        let fix = "an \"ADDRESS:PORT\" such as \"127.0.0.1:8080\"";
        plan.listen = config::address("listen", &item.text(&format!("listen: write {fix}"))?, fix)?;
    }
    if let Some(item) = table.take("history") {
        plan.history = history(item, folder)?;
    }
    if let Some(item) = table.take("interval") {
        plan.interval = interval(item)?;
    }
    if let Some(item) = table.take("down-after") {
        plan.down_after = item.number("down-after", 1..=100)? as u8;
    }
    if let Some(item) = table.take("players") {
        const FIX: &str = "players: write \"names\", \"hashed\" or \"off\"";
        plan.players = match item.text(FIX)?.it {
            "names" => Players::Names,
            "hashed" => Players::Hashed,
            "off" => Players::Off,
            _ => return Err(Wrong::at(item.line, FIX)),
        };
    }
    if let Some(item) = table.take("keep") {
        plan.keep = keep(item)?;
    }
    if let Some(item) = table.take("rate") {
        plan.rate = item.number("rate", 1..=10_000_000)? as f64;
    }
    if let Some(item) = table.take("token-file") {
        let token = Token::new(config::token("token-file", item, folder, MIN_TOKEN)?.reveal());
        plan.token =
            Some(token.map_err(|problem| Wrong::at(item.line, format!("token-file: {problem}")))?);
    }
    if let Some(item) = table.take("server-metrics") {
        plan.server_metrics = item.flag("server-metrics")?;
    }
    for (key, switch) in [
        ("behind-proxy", &mut plan.is_behind_proxy),
        ("badges", &mut plan.badges),
        ("widgets", &mut plan.widgets),
    ] {
        if let Some(item) = table.take(key) {
            *switch = item.flag(key)?;
        }
    }
    if let Some(item) = table.take("max-servers") {
        plan.max_servers = item.number("max-servers", 0..=10_000_000)? as usize;
    }
    let page = table.take("page").map(|item| {
        item.text("page: write \"https://HOST\"")
            .map(|text| text.it.to_owned())
    });
    let page = page.transpose()?;
    plan.page_host = page.as_deref().and_then(host_of).map(str::to_owned);
    plan.hosts = table.take("hosts").map(hosts).transpose()?;
    table.finish()?;
    Ok((plan, page))
}

/// The name in `https://NAME:PORT/…`.
fn host_of(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    Some(name).filter(|name| !name.is_empty())
}

/// Names, without ports: they come and go on the way.
fn hosts(item: Item<'_>) -> Result<Vec<String>, Wrong> {
    let fix = "hosts: write names such as [\"status.example.com\"], without scheme and port";
    let names = item.texts(fix)?;
    let is_good = |name: &str| {
        let is_part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        name.len() <= 253 && name.split('.').all(is_part)
    };
    match names.iter().find(|name| !is_good(&name.it)) {
        Some(bad) => Err(Wrong::at(bad.line, format!("{fix}, not {:?}", bad.it))),
        None => Ok(names.into_iter().map(|name| name.it).collect()),
    }
}

fn cluster_table(item: Item<'_>, folder: &Path) -> Result<Cluster, Wrong> {
    const URL: &str = "\"redis://HOST:PORT\", rediss: for TLS, redis+cluster:, or redis+sentinel://HOST,HOST/MASTER";
    const ROLES: &str = "roles: write a list of \"poll\", \"write\" and \"page\"";
    let table = item.table(
        "[cluster]",
        "cluster: write [cluster], and url = … in the line after it",
    )?;
    let url = table.need("url", URL)?;
    let redis = RedisConfig::new(url.text(&format!("url: write {URL}"))?.it);
    let mut cluster = Cluster::new(redis.map_err(|error| Wrong::at(url.line, error.to_string()))?);
    config::redis_keys(&table, folder, &mut cluster.redis)?;
    if let Some(item) = table.take("name") {
        cluster.name = item.text("name: write a text in quotes")?.it.into();
        cluster::check_name(&cluster.name)
            .map_err(|problem| Wrong::at(item.line, format!("name: {problem}")))?;
    }
    if let Some(item) = table.take("lease") {
        cluster.lease = Some(item.duration("lease", cluster::SHORTEST_LEASE)?);
    }
    if let Some(item) = table.take("backlog") {
        cluster.backlog = Some(item.number("backlog", 1_000..=1_000_000_000_000)? as u64);
    }
    if let Some(item) = table.take("roles") {
        cluster.roles = Roles {
            poll: false,
            write: false,
            page: false,
        };
        for role in item.list(ROLES)? {
            match role.text(ROLES)?.it {
                "poll" => cluster.roles.poll = true,
                "write" => cluster.roles.write = true,
                "page" => cluster.roles.page = true,
                _ => return Err(Wrong::at(role.line, ROLES)),
            }
        }
    }
    table.finish()?;
    Ok(cluster)
}

/// A file, from the folder of the plan, or PostgreSQL by its URL.
fn history(item: Item<'_>, folder: &Path) -> Result<String, Wrong> {
    let fix = "history: write the path of a file, or \"postgres://USER@HOST/DATABASE\"";
    let text = item.text(fix)?.it;
    match text.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(text.into()),
        Some(_) => Err(Wrong::at(item.line, fix)),
        None if text.is_empty() => Err(Wrong::at(item.line, fix)),
        None => Ok(sqlite(
            &folder.join(text.strip_prefix("sqlite:").unwrap_or(text)),
        )),
    }
}

fn interval(item: Item<'_>) -> Result<Duration, Wrong> {
    item.duration("interval", Duration::from_millis(MIN_INTERVAL_MS as u64))
}

fn keep(item: Item<'_>) -> Result<Retention, Wrong> {
    let fix = "keep: write { raw = \"7d\", five-minutes = \"60d\", hour = \"2years\", day = \"10years\" }";
    let table = item.table("keep", fix)?;
    let mut keep = Retention::default();
    let levels = [
        ("raw", &mut keep.raw),
        ("five-minutes", &mut keep.five_minutes),
        ("hour", &mut keep.hour),
        ("day", &mut keep.day),
    ];
    for (key, level) in levels {
        if let Some(item) = table.take(key) {
            let text = item.text(fix)?;
            // Roll-ups are made of what is finer: that must last until they are made.
            *level = humantime::parse_duration(text.it).map_err(|_| Wrong::at(item.line, fix))?;
            if *level < Duration::from_secs(2 * 86_400) {
                return Err(Wrong::at(
                    item.line,
                    format!("keep: {key}: write at least \"2d\""),
                ));
            }
        }
    }
    table.finish()?;
    Ok(keep)
}

fn server(table: &Table<'_>) -> Result<NewServer, Wrong> {
    let name = table
        .need("name", "name = \"lobby\"")?
        .text("name: write a text")?
        .it
        .to_owned();
    let target = table.need("target", "target = \"minecraft-query://127.0.0.1\"")?;
    let target = target
        .text("target: write a text such as \"minecraft-query://127.0.0.1\"")?
        .it
        .to_owned();
    let group = table.take("group").map(|item| {
        item.text("group: write a text")
            .map(|text| text.it.to_owned())
    });
    let labels = table.take("labels").map_or(Ok(BTreeMap::new()), labels)?;
    let interval = table.take("interval").map(interval).transpose()?;
    table.finish()?;
    let group = group.transpose()?.unwrap_or_default();
    let new = NewServer {
        name,
        target,
        group,
        labels,
        interval,
        origin: Origin::Plan,
    };
    match server::check(&new).first() {
        None => Ok(new),
        Some(wrong) => {
            let scheme = new
                .target
                .split_once("://")
                .map(|(scheme, _)| scheme)
                .filter(|_| wrong.field == "target");
            let near = scheme
                .and_then(|scheme| close(scheme, registry::PROTOCOLS.iter().map(|p| p.info().id)));
            let near = near
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            let line = table
                .all()
                .iter()
                .find(|(key, _)| key.it == wrong.field)
                .map_or(table.line, |(key, _)| key.line);
            Err(Wrong::at(
                line,
                format!("{}: {}{near}", wrong.field, wrong.message),
            ))
        }
    }
}

fn labels(item: Item<'_>) -> Result<BTreeMap<String, String>, Wrong> {
    const FIX: &str = "labels: write { key = \"value\" }";
    let table = item.table("labels", FIX)?;
    table
        .all()
        .iter()
        .map(|(key, item)| Ok((key.it.to_owned(), item.words(FIX)?)))
        .collect()
}

/// A name for a target: what was typed, with dashes for what a name may not hold.
pub(crate) fn name_of(target: &str) -> String {
    let (protocol, rest) = target.split_once("://").unwrap_or(("", target));
    let mut name = String::new();
    for char in format!("{rest}-{protocol}").chars().take(64) {
        let is_good = char.is_ascii_alphanumeric() || matches!(char, '.' | '_');
        match is_good {
            true => name.push(char),
            false if name.ends_with('-') => {}
            false => name.push('-'),
        }
    }
    name.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Plan, String> {
        let document =
            Document::parse(text).map_err(|wrong| format!("{}: {}", wrong.line, wrong.problem))?;
        let read = plan(&document.root(), Path::new("/plans"));
        read.map(|(plan, _)| plan)
            .map_err(|wrong| format!("{}: {}", wrong.line, wrong.problem))
    }

    #[test]
    fn the_plan_on_the_front_page_is_sound() {
        let text = include_str!("plan.rs");
        let lines = text
            .lines()
            .skip_while(|line| *line != "//! ```toml")
            .skip(1)
            .take_while(|line| *line != "//! ```");
        let text: Vec<&str> = lines
            .map(|line| line.trim_start_matches("//!").trim_start())
            .collect();
        // What stands in files that are not here.
        let without_files = |text: &[&str]| {
            let lines = text.iter().filter(|line| {
                !["token-file", "user"]
                    .iter()
                    .any(|key| line.starts_with(key))
            });
            lines.copied().collect::<Vec<_>>().join("\n")
        };
        let plan = read(&without_files(&text)).unwrap();
        assert_eq!(
            plan.names().unwrap(),
            ["status.example.com", "status.example.com"]
        );
        assert_eq!(
            (plan.servers.len(), plan.max_servers, plan.badges),
            (1, 200_000, true)
        );
        let readme = include_str!("../../../../../README.md")
            .split("```toml\n")
            .find(|text| text.starts_with("[monitor]"));
        let (example, _) = readme.unwrap().split_once("```").unwrap();
        assert_eq!(
            read(&without_files(&example.lines().collect::<Vec<_>>()))
                .unwrap()
                .servers
                .len(),
            1
        );
    }

    #[test]
    fn whoever_listens_on_loopback_is_called_by_its_own_names_only() {
        let hosts = |rest: &str| read(&format!("[monitor]\n{rest}")).unwrap().names();
        assert_eq!(hosts(""), Some(Vec::new()));
        assert_eq!(
            hosts("page = \"https://status.example.com:8443/x\"").unwrap(),
            ["status.example.com"]
        );
        assert_eq!(hosts("listen = \"0.0.0.0:80\""), None);
        assert_eq!(
            hosts("listen = \"0.0.0.0:80\"\nhosts = [\"a\"]").unwrap(),
            ["a"]
        );
        assert_eq!(
            read("").unwrap().names(),
            Some(Vec::new()),
            "as without a plan"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_the_fix() {
        for (text, wanted) in [
            ("hosts = 7", "2: hosts: write names such as"),
            ("hosts = [\"https://a\"]", "2: hosts: write names such as"),
            ("hosts = [\"a:80\"]", "without scheme and port"),
            ("behind-proxy = 1", "2: behind-proxy: "),
            ("badges = \"no\"", "2: badges: "),
            ("widgets = 0", "2: widgets: "),
            ("max-servers = -1", "2: max-servers: "),
            ("max-servers = \"many\"", "2: max-servers: "),
            ("max_servers = 5", "max-servers"),
            ("behind_proxy = true", "behind-proxy"),
        ] {
            let problem = read(&format!("[monitor]\n{text}"))
                .err()
                .unwrap_or_default();
            assert!(
                problem.contains(wanted),
                "{text}: {problem:?} has no {wanted:?}"
            );
        }
    }
}
