//! What to answer, where, and where the truth comes from: from a TOML file or from flags to a checked plan.
//!
//! ```toml
//! [[server]]
//! listen = ["127.0.0.1"]                  # ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT; a string or a list
//! protocols = ["minecraft-query", "ugp"]  # all over UDP, if left out
//! status = { name = "My server", max-players = 20, players = ["Alice", "Bob"], rules = { Owner = "me" } }
//! options.minecraft-query = { encoding = "utf-8" }
//! secret = "00112233445566778899aabbccddeeff"  # only if several nodes accept each other's challenge tokens
//! relay = "127.0.0.1:25570"               # datagrams that no protocol claims go to the game server there
//!
//! [[server]]
//! listen = "127.0.0.2"
//! # One of source.file, source.poll, source.push and source.redis, or demo = SEED. Without any, `status` is the truth; with one, it is
//! # what is answered until the source has spoken for the first time. Without it nobody is answered until then.
//! source.poll = { target = "minecraft-query://127.0.0.1:25566", every = "5s" }
//! stale-after = "1min"                    # a truth that old is stale; never, if left out
//! stale = "say"                           # then: serve it all the same, say so, or be silent
//! stale-text = "{text} (last seen {age} ago)"
//!
//! [engine]
//! workers = 0                             # threads that answer; 0 is one for each core
//! # Bytes of replies in a second, and how many replies.
//! budget.unverified-per-source = "8KiB"
//! budget.unverified-total = { bytes = "1MiB", packets = 5000 }
//! budget.verified-per-source = "1MiB"
//! relay.sessions = 1024                   # players behind a relay, for each address and thread; each is an open file
//! relay.idle = "1min"                     # a session in which nothing moves ends after so long
//!
//! [observe]
//! metrics = "127.0.0.1:9100"
//! control = "/run/hailer.sock"            # relative paths count from this file
//! ```
//!
//! The others: `source.file = "status.json"`, and `source.push = { listen = "127.0.0.1:8080", token-file = "token" }` with
//! `listen = "unix:/run/hailer/push.sock"` for a Unix socket, `name = "NAME"` for one of several servers, and
//! `insecure = true` for an address that is not a loopback one. And `source.redis = { url = "redis://127.0.0.1", server-id = "lobby",
//! network = "default", mode = "aggregate" }` for a server of a OneQuery network, which says of itself what `status` says; with `user`,
//! `password-file`, `cluster`, `prefix`, `host`, `port`, `heartbeat` and `refresh`, and for TLS `ca-file`, `certificate-file` and
//! `key-file`.

pub(crate) mod table;

use self::table::{At, Document, Item, Table, Wrong, close};
use crate::args::Serve;
use crate::exit::{Usage, usage};
use crate::population::Population;
use hailer::network;
use hailer::proto::model::{Address, Extra, Rule, Value, uuid_from_text};
use hailer::proto::{Keys, Options, Protocol, Secret, Transport};
use hailer::source::poll::{MIN_EVERY, Poll};
use hailer::source::push::Place;
use hailer::source::{Policy, Published, Stale, TimedStatus, Wording};
use hailer::{ClientConfig, Player, Status, Target, Text, registry};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shorter tokens can be guessed.
pub(crate) const MIN_TOKEN: usize = 16;

/// All that a file says, checked.
#[derive(Default)]
pub(crate) struct Config {
    pub(crate) servers: Vec<Plan>,
    pub(crate) engine: Engine,
    pub(crate) observe: Observe,
}

/// One server to answer for, checked.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) listeners: Vec<Listener>,
    /// Where datagrams go that no protocol claims.
    pub(crate) relay: Option<SocketAddr>,
}

/// Where the status comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// It never changes.
    Fixed(Box<Status>),
    /// An invented population.
    Demo(Population),
    /// Something outside.
    Fed(Box<Feed>),
}

/// A source outside, and what becomes of what it says.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) from: Origin,
    /// What is said before its first word, and when it has been silent for long.
    pub(crate) policy: Policy,
}

/// Where the truth comes from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// JSON in a file.
    File(PathBuf),
    /// Another server, which is asked.
    Poll(Box<Poll>),
    /// HTTP.
    Push(Push),
    /// The network of OneQuery, by way of Redis.
    Redis(Box<network::NetworkConfig>),
}

impl Origin {
    /// By what one tells after a reload that it is the same as before: what it said is still good. No secrets.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::File(path) => format!("file {}", path.display()),
            Self::Poll(poll) => format!("poll {} {}", poll.target, poll.keep_address),
            Self::Push(push) => format!(
                "push {} {}",
                push.place,
                push.name.as_deref().unwrap_or_default()
            ),
            Self::Redis(settings) => {
                let network::NetworkConfig {
                    redis,
                    prefix,
                    network_id,
                    server_id,
                    ..
                } = &**settings;
                format!("redis {redis} {prefix} {network_id} {server_id}")
            }
        }
    }
}

/// Who pushes, and where to.
#[derive(Clone)]
pub(crate) struct Push {
    pub(crate) place: Place,
    pub(crate) name: Option<String>,
    pub(crate) token: Secret,
    pub(crate) insecure: bool,
}

/// One address and the protocols answered there.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) protocols: Vec<(&'static dyn Protocol, Options)>,
    /// The secret behind challenge tokens, if several nodes share one. Otherwise it is random and changes by itself.
    pub(crate) secret: Option<[u8; 16]>,
}

/// How answering is done.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Engine {
    /// Threads; `None`: one for each core.
    pub(crate) workers: Option<usize>,
    pub(crate) relay_sessions: Option<usize>,
    pub(crate) relay_idle: Option<Duration>,
    pub(crate) unverified_per_source: Allowance,
    pub(crate) unverified_total: Allowance,
    pub(crate) verified_per_source: Allowance,
}

/// What may be sent in a second; `None`: as by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) bytes: Option<u32>,
    pub(crate) packets: Option<u32>,
}

/// Where what is going on can be seen.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Observe {
    /// Metrics over HTTP.
    pub(crate) metrics: Option<SocketAddr>,
    /// A Unix socket for `hailer serve status`.
    pub(crate) control: Option<PathBuf>,
}

impl Source {
    /// The status at a time, in seconds since the start, for a listener on a port. A population talks in the manner of
    /// the listener's protocol; a source outside may have said something. `None`: nobody is answered.
    pub(crate) fn status(
        &self,
        listener: &Listener,
        port: u16,
        seconds: u64,
        said: Option<&TimedStatus>,
    ) -> Option<Status> {
        let status = match self {
            Self::Fixed(status) => (**status).clone(),
            Self::Demo(population) => population.status(listener.protocols[0].0.info(), seconds),
            Self::Fed(feed) => match feed.policy.decide(said, Instant::now()).0 {
                Published::Status(status) => (*status).clone(),
                Published::Silence => return None,
            },
        };
        Some(at_port(status, port))
    }

    /// The source outside, if it is one.
    pub(crate) fn fed(&self) -> Option<&Feed> {
        if let Self::Fed(feed) = self {
            Some(feed)
        } else {
            None
        }
    }
}

/// The game is most likely on the same port; whoever knows better says so.
pub(crate) fn at_port(mut status: Status, port: u16) -> Status {
    status
        .address
        .get_or_insert_default()
        .port
        .get_or_insert(port);
    status
}

/// Reads a configuration file. Every error is one line that names file, line and fix.
pub(crate) fn read(path: &Path) -> anyhow::Result<Config> {
    let (name, text) = (path.display(), text(path)?);
    let folder = path.parent().unwrap_or(Path::new(""));
    match Document::parse(&text).and_then(|document| config(&document.root(), folder)) {
        Ok(Some(config)) => Ok(config),
        Ok(None) => usage!("{name}: no server; write at least one [[server]] block"),
        Err(Wrong { line, problem }) => usage!("{name}:{line}: {problem}"),
    }
}

/// What a file of this kind holds.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            usage!("{name}:{line}: not UTF-8; save the file as UTF-8");
        }
        Err(error) => usage!("{name}: {error}"),
    }
}

fn config(root: &Table<'_>, folder: &Path) -> Result<Option<Config>, Wrong> {
    const BLOCKS: &str = "server: write [[server]], with two brackets, before each server";
    let blocks = root
        .take("server")
        .map_or(Ok(Vec::new()), |item| item.list(BLOCKS))?;
    let engine = root.take("engine").map_or(Ok(Engine::default()), engine)?;
    let observe = root
        .take("observe")
        .map_or(Ok(Observe::default()), |item| observe(item, folder))?;
    root.finish()?;
    let servers: Vec<_> = blocks
        .iter()
        .map(|item| block(&item.table("[[server]]", BLOCKS)?, folder))
        .collect::<Result<_, _>>()?;
    doors(&servers)?;
    let servers = servers
        .into_iter()
        .map(plan)
        .collect::<Result<Vec<_>, _>>()?;
    let mut taken = BTreeMap::new();
    for (item, server) in blocks.iter().zip(&servers) {
        for address in server
            .listeners
            .iter()
            .map(|listener| listener.address)
            .filter(|address| address.port() != 0)
        {
            if let Some(first) = taken.insert(address, item.line) {
                let fix = "each needs an address or a port of its own; write another listen";
                return Err(Wrong::at(
                    item.line,
                    format!("listens on {address}, and so does the server of line {first}; {fix}"),
                ));
            }
        }
    }
    Ok((!servers.is_empty()).then_some(Config {
        servers,
        engine,
        observe,
    }))
}

/// Two servers behind one door: what is pushed would be one's or the other's.
fn doors(servers: &[Block]) -> Result<(), Wrong> {
    let mut doors = BTreeMap::new();
    for server in servers {
        let Some(Told::Source(At {
            it: Origin::Push(push),
            line,
        })) = &server.told
        else {
            continue;
        };
        if let Some(first) = doors.insert((&push.place, &push.name), *line) {
            let fix = "give each its own name, as in source.push = { name = \"lobby\", … }";
            return Err(Wrong::at(
                *line,
                format!("source.push: the same as that of line {first}; {fix}"),
            ));
        }
    }
    Ok(())
}

/// What is written of a server, each with its line.
#[derive(Default)]
struct Block {
    listen: Vec<At<String>>,
    protocols: Vec<At<String>>,
    told: Option<Told>,
    status: Option<Status>,
    stale_after: Option<Duration>,
    stale: Option<Stale>,
    options: Written,
    secret: Option<[u8; 16]>,
    relay: Option<At<SocketAddr>>,
}

/// Who tells what is true.
enum Told {
    Demo(u64),
    Source(At<Origin>),
}

fn block(table: &Table<'_>, folder: &Path) -> Result<Block, Wrong> {
    const LISTEN: &str =
        "listen: write ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT, or a list of them";
    let listen = table
        .take("listen")
        .map_or(Ok(Vec::new()), |item| item.texts(LISTEN))?;
    let fix = "protocols: write a list such as [\"minecraft-query\", \"ugp\"]";
    let protocols = table
        .take("protocols")
        .map_or(Ok(Vec::new()), |item| item.texts(fix))?;
    let fixed = table
        .take("status")
        .map(|item| status(item).map(|status| item.located(status)))
        .transpose()?;
    let demo = table.take("demo").map(|item| {
        item.number("demo", 0..=i64::MAX)
            .map(|seed| item.located(seed))
    });
    let demo = demo.transpose()?;
    let source = table
        .take("source")
        .map(|item| source(item, folder))
        .transpose()?;
    let stale_after = table.take("stale-after");
    let (stale, wording) = (table.take("stale"), table.take("stale-text"));
    let options = table.take("options").map_or(Ok(Vec::new()), options)?;
    let secret = table.take("secret").map(secret).transpose()?;
    let relay = table.take("relay").map(relay).transpose()?;
    table.finish()?;

    if let (Some(demo), Some(_)) = (&demo, &fixed) {
        return Err(demo.wrong("demo and status exclude each other; keep one"));
    }
    if let (Some(demo), Some(_)) = (&demo, &source) {
        return Err(demo.wrong("demo and source exclude each other; keep one"));
    }
    if let (None, Some(item)) = (&source, stale_after.or(stale).or(wording)) {
        let fix = "only the truth of a source grows old; add source.file, source.poll or source.push, or remove it";
        return Err(Wrong::at(item.line, format!("stale: {fix}")));
    }
    if let (None, Some(item)) = (stale_after, stale.or(wording)) {
        return Err(Wrong::at(
            item.line,
            "stale: needs stale-after as well, such as stale-after = \"1min\"",
        ));
    }
    Ok(Block {
        listen,
        protocols,
        told: source
            .map(Told::Source)
            .or(demo.map(|seed| Told::Demo(seed.it as u64))),
        status: fixed.map(|status| status.it),
        stale: stale_after
            .map(|_| self::stale(stale, wording))
            .transpose()?,
        stale_after: stale_after
            .map(|item| item.duration("stale-after", Duration::from_secs(1)))
            .transpose()?,
        options,
        secret,
        relay,
    })
}

/// Whoever says when a truth is stale and not what then wants it said.
fn stale(stale: Option<Item<'_>>, wording: Option<Item<'_>>) -> Result<Stale, Wrong> {
    const WORDS: [&str; 3] = ["serve", "say", "silent"];
    let fix = "stale: write \"serve\", \"say\" or \"silent\"";
    let said = stale.map(|item| item.text(fix)).transpose()?;
    if let (Some(said), Some(wording)) = (said.as_ref().filter(|said| said.it != "say"), wording)
        && WORDS.contains(&said.it)
    {
        return Err(Wrong::at(
            wording.line,
            format!("stale-text: only with stale = \"say\", not {:?}", said.it),
        ));
    }
    let text = wording
        .map(|item| item.text("stale-text: write a text in quotes"))
        .transpose()?;
    Ok(match said.as_ref().map_or("say", |said| said.it) {
        "serve" => Stale::Serve,
        "silent" => Stale::Silent,
        "say" => Stale::Say(match text {
            Some(text) => coloured(text.it)
                .parse()
                .map_err(|error| text.wrong(format!("stale-text: {error}")))?,
            None => Wording::default(),
        }),
        other => {
            let meant =
                close(other, WORDS.into_iter()).map(|word| format!("; did you mean {word:?}?"));
            return Err(Wrong::at(
                stale.map_or(0, |item| item.line),
                format!("{fix}{}", meant.unwrap_or_default()),
            ));
        }
    })
}

fn source(item: Item<'_>, folder: &Path) -> Result<At<Origin>, Wrong> {
    let fix = "source: write source.file = \"PATH\", source.poll = { target = … }, source.push = { listen = … } or \
               source.redis = { url = … }";
    let table = item.table("source", fix)?;
    let (file, poll, push, redis) = (
        table.take("file"),
        table.take("poll"),
        table.take("push"),
        table.take("redis"),
    );
    table.finish()?;
    let all: Vec<_> = [file, poll, push, redis].into_iter().flatten().collect();
    let [one] = all[..] else {
        let line = all.get(1).map_or(item.line, |item| item.line);
        return Err(Wrong::at(
            line,
            fix.replacen("source: write", "source: exactly one is needed: write", 1),
        ));
    };
    let from = match (file, poll, redis) {
        (Some(item), ..) => file_source(item, folder)?,
        (_, Some(item), _) => Origin::Poll(Box::new(poll_source(item, folder)?)),
        (.., Some(item)) => Origin::Redis(Box::new(redis_source(item, folder)?)),
        _ => Origin::Push(push_source(one, folder)?),
    };
    Ok(one.located(from))
}

fn file_source(item: Item<'_>, folder: &Path) -> Result<Origin, Wrong> {
    let text = item.text("source.file: write the path of a JSON file in quotes")?;
    let path = folder.join(text.it);
    let parent = path
        .parent()
        .filter(|parent| *parent != Path::new(""))
        .unwrap_or(Path::new("."));
    // The file itself may come later; a folder that is not there is a slip of the pen.
    if text.it.is_empty() || path.is_dir() || !parent.is_dir() {
        let why = if path.is_dir() {
            "is a folder"
        } else {
            "is in no folder that exists"
        };
        return Err(text.wrong(format!(
            "source.file: {} {why}; write the path of a JSON file",
            path.display()
        )));
    }
    Ok(Origin::File(path))
}

fn poll_source(item: Item<'_>, folder: &Path) -> Result<Poll, Wrong> {
    const TARGET: &str = "a server such as \"minecraft-query://127.0.0.1:25566\"";
    let read = |item: Item<'_>| {
        let text = item.text(&format!("source.poll: write {TARGET}"))?;
        text.it
            .parse::<Target>()
            .map_err(|error| text.wrong(format!("source.poll: {error}; write {TARGET}")))
    };
    if !item.is_table() {
        return read(item).map(Poll::new);
    }
    let table = item.table("source.poll", "")?;
    let mut poll = Poll::new(read(table.need("target", TARGET)?)?);
    if let Some(item) = table.take("every") {
        poll.every = item.duration("every", MIN_EVERY)?;
    }
    if let Some(item) = table.take("keep-address") {
        poll.keep_address = item.flag("keep-address")?;
    }
    let mut settings = ClientConfig::default();
    if let Some(item) = table.take("auth-token-file") {
        settings.ask.auth_token = Some(token("auth-token-file", item, folder, 1)?);
    }
    poll.settings = settings;
    table.finish()?;
    Ok(poll)
}

/// A server of a network. What it says of itself is `status`.
fn redis_source(item: Item<'_>, folder: &Path) -> Result<network::NetworkConfig, Wrong> {
    const URL: &str = "\"redis://HOST:PORT\", or rediss: for TLS";
    let table = item.table(
        "source.redis",
        &format!("source.redis: write {{ url = {URL}, server-id = \"NAME\" }}"),
    )?;
    let url = table.need("url", URL)?;
    let id = table.need("server-id", "another one for each server of the network")?;
    // The line of the key that is wrong, where there is one.
    let located = |line| {
        move |error: network::NetworkConfigError| Wrong::at(line, format!("source.redis: {error}"))
    };
    let mut settings = network::NetworkConfig::new(url.text(&format!("url: write {URL}"))?.it)
        .map_err(located(url.line))?;
    settings.server_id = id.text("server-id: write a text in quotes")?.it.into();
    if let Some(item) = table.take("network") {
        settings.network_id = item.text("network: write a text in quotes")?.it.into();
    }
    if let Some(item) = table.take("prefix") {
        settings.prefix = item.text("prefix: write a text in quotes")?.it.into();
    }
    if let Some(item) = table.take("host") {
        settings.host = Some(
            item.text("host: write a name or an address in quotes")?
                .it
                .into(),
        );
    }
    if let Some(item) = table.take("port") {
        settings.port = item.number("port", 1..=65_535)? as u16;
    }
    if let Some(item) = table.take("mode") {
        let text = item.text("mode: write \"publish\", \"sync\" or \"aggregate\"")?;
        settings.mode = text.it.parse().map_err(located(text.line))?;
    }
    if let Some(item) = table.take("cluster") {
        settings.redis.cluster = item.flag("cluster")?;
    }
    redis_keys(&table, folder, &mut settings.redis)?;
    for (key, time) in [
        ("heartbeat", &mut settings.heartbeat),
        ("refresh", &mut settings.refresh),
    ] {
        if let Some(item) = table.take(key) {
            *time = item.duration(key, Duration::from_secs(1))?;
        }
    }
    table.finish()?;
    settings.check().map_err(located(item.line))?;
    Ok(settings)
}

/// As whom Redis is asked, and whom we believe to be it.
pub(crate) fn redis_keys(
    table: &Table<'_>,
    folder: &Path,
    redis: &mut network::RedisConfig,
) -> Result<(), Wrong> {
    let (user, password) = (table.take("user"), table.take("password-file"));
    if let Some(item) = password {
        let password = token("password-file", item, folder, 1)?;
        let user = user
            .map(|item| item.text("user: write a text in quotes"))
            .transpose()?;
        redis.log_in(user.map(|user| user.it), password.reveal());
    } else if let Some(user) = user {
        return Err(Wrong::at(user.line, "user: needs password-file as well"));
    }
    if let Some(item) = table.take("ca-file") {
        redis.authorities = Some(pem("ca-file", item, folder)?);
    }
    match (table.take("certificate-file"), table.take("key-file")) {
        (Some(certificate), Some(key)) => {
            let certificate = pem("certificate-file", certificate, folder)?;
            redis.identity = Some((certificate, pem("key-file", key, folder)?));
        }
        (None, None) => {}
        (one, other) => {
            let line = one.or(other).map_or(0, |item| item.line);
            return Err(Wrong::at(
                line,
                "certificate-file and key-file: one needs the other as well",
            ));
        }
    }
    Ok(())
}

fn push_source(item: Item<'_>, folder: &Path) -> Result<Push, Wrong> {
    const LISTEN: &str = "\"ADDRESS:PORT\" or \"unix:PATH\"";
    const TOKEN: &str = "the path of a file whose first line is the token";
    let table = item.table(
        "source.push",
        "source.push: write { listen = \"127.0.0.1:8080\", token-file = \"PATH\" }",
    )?;
    let listen = table.need("listen", LISTEN)?;
    let token_file = table.need("token-file", TOKEN)?;
    let (name, insecure) = (table.take("name"), table.take("insecure"));
    table.finish()?;
    let insecure = insecure.map_or(Ok(false), |item| item.flag("insecure"))?;
    let text = listen.text(&format!("listen: write {LISTEN}"))?;
    let place = match text.it.strip_prefix("unix:") {
        Some(path) if !path.is_empty() => Place::Path(folder.join(path)),
        _ => Place::Address(address("listen", &text, LISTEN)?),
    };
    if let Place::Address(address) = &place
        && !insecure
        && !address.ip().is_loopback()
    {
        let fix = "listen on 127.0.0.1, or write insecure = true as well";
        return Err(text.wrong(format!(
            "listen {:?}: tokens would travel there in the open; {fix}",
            text.it
        )));
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let name = name.map(|item| {
        let fix = "name: write a name of letters, digits, dots, hyphens and underscores";
        let text = item.text(fix)?;
        if is_name(text.it) {
            Ok(text.it.to_owned())
        } else {
            Err(text.wrong(fix))
        }
    });
    Ok(Push {
        place,
        name: name.transpose()?,
        token: token("token-file", token_file, folder, MIN_TOKEN)?,
        insecure,
    })
}

/// The first line of a file. What is in it is never repeated.
pub(crate) fn token(
    key: &str,
    item: Item<'_>,
    folder: &Path,
    least: usize,
) -> Result<Secret, Wrong> {
    let fix = "the path of a file whose first line is the token";
    let text = item.text(&format!("{key}: write {fix}"))?;
    let path = folder.join(text.it);
    let path_ = path.display();
    let read = std::fs::read_to_string(&path)
        .map_err(|error| text.wrong(format!("{key}: {path_}: {error}; write {fix}")))?;
    let token = read.lines().next().unwrap_or_default().trim();
    match token.len() {
        0 => Err(text.wrong(format!(
            "{key}: {path_}: its first line is empty; it should hold the token"
        ))),
        length if length < least => {
            let fix = "make a longer one, as with `openssl rand -hex 16`";
            Err(text.wrong(format!(
                "{key}: {path_}: the token has {length} bytes, and {least} are the least; {fix}"
            )))
        }
        _ => Ok(token.into()),
    }
}

/// A file for TLS. What is in it is never repeated.
fn pem(key: &str, item: Item<'_>, folder: &Path) -> Result<Vec<u8>, Wrong> {
    let fix = "the path of a file in PEM";
    let text = item.text(&format!("{key}: write {fix}"))?;
    let path = folder.join(text.it);
    let wrong =
        |problem: &str| text.wrong(format!("{key}: {}: {problem}; write {fix}", path.display()));
    let bytes = std::fs::read(&path).map_err(|error| wrong(&error.to_string()))?;
    let is_pem = bytes.windows(11).any(|window| window == b"-----BEGIN ");
    if is_pem {
        Ok(bytes)
    } else {
        Err(wrong("nothing in it begins with -----BEGIN"))
    }
}

pub(crate) fn address(key: &str, text: &At<&str>, fix: &str) -> Result<SocketAddr, Wrong> {
    text.it
        .parse()
        .map_err(|_| text.wrong(format!("{key} {:?}: write {fix}", text.it)))
}

fn relay(item: Item<'_>) -> Result<At<SocketAddr>, Wrong> {
    let fix = "the game server's \"ADDRESS:PORT\"";
    let text = item.text(&format!("relay: write {fix}"))?;
    let address = address("relay", &text, fix)?;
    if address.port() == 0 || address.ip().is_unspecified() {
        return Err(text.wrong(format!("relay {:?}: nobody is there; write {fix}", text.it)));
    }
    Ok(item.located(address))
}

fn engine(item: Item<'_>) -> Result<Engine, Wrong> {
    let table = item.table("[engine]", "engine: write [engine] and its keys below")?;
    let mut engine = Engine::default();
    let workers = table
        .take("workers")
        .map_or(Ok(0), |item| item.number("workers", 0..=1024))?;
    engine.workers = usize::try_from(workers).ok().filter(|workers| *workers > 0);
    if let Some(item) = table.take("budget") {
        let table = item.table(
            "budget",
            "budget: write { unverified-per-source = \"8KiB\" }",
        )?;
        let take = |key| {
            table
                .take(key)
                .map_or(Ok(Allowance::default()), |item| allowance(key, item))
        };
        engine.unverified_per_source = take("unverified-per-source")?;
        engine.unverified_total = take("unverified-total")?;
        engine.verified_per_source = take("verified-per-source")?;
        table.finish()?;
    }
    if let Some(item) = table.take("relay") {
        let table = item.table("relay", "relay: write { sessions = 1024, idle = \"1min\" }")?;
        let sessions = table
            .take("sessions")
            .map(|item| item.number("sessions", 1..=65_536))
            .transpose()?;
        engine.relay_sessions = sessions.and_then(|sessions| usize::try_from(sessions).ok());
        let idle = table
            .take("idle")
            .map(|item| item.duration("idle", Duration::from_secs(1)));
        engine.relay_idle = idle.transpose()?;
        table.finish()?;
    }
    table.finish()?;
    Ok(engine)
}

fn allowance(key: &'static str, item: Item<'_>) -> Result<Allowance, Wrong> {
    let fix = format!(
        "{key}: write bytes in a second such as \"8KiB\", or {{ bytes = \"8KiB\", packets = 40 }}"
    );
    if !item.is_table() {
        return Ok(Allowance {
            bytes: Some(bytes(item, &fix)?),
            packets: None,
        });
    }
    let table = item.table(key, &fix)?;
    let allowance = Allowance {
        bytes: table
            .take("bytes")
            .map(|item| bytes(item, "bytes: write bytes in a second such as \"8KiB\""))
            .transpose()?,
        packets: table
            .take("packets")
            .map(|item| item.number("packets", 1..=u32::MAX.into()))
            .transpose()?
            .and_then(|packets| u32::try_from(packets).ok()),
    };
    table.finish()?;
    Ok(allowance)
}

/// A number of bytes with its unit.
fn bytes(item: Item<'_>, fix: &str) -> Result<u32, Wrong> {
    let text = item.text(fix)?;
    let digits = text
        .it
        .trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text.it[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "b" | "" => Some(1_u64),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "kib" => Some(1 << 10),
        "mib" => Some(1 << 20),
        _ => None,
    };
    let all = unit
        .zip(digits.parse::<u32>().ok())
        .and_then(|(unit, number)| unit.checked_mul(number.into()));
    let bytes = all
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| {
        text.wrong(format!(
            "{fix}; units are B, kB, MB, KiB and MiB, up to 4 GiB"
        ))
    })
}

fn observe(item: Item<'_>, folder: &Path) -> Result<Observe, Wrong> {
    let table = item.table("[observe]", "observe: write [observe] and its keys below")?;
    let (metrics, control) = (table.take("metrics"), table.take("control"));
    table.finish()?;
    let mut observe = Observe::default();
    if let Some(item) = metrics {
        let fix = "a loopback address and a port, such as \"127.0.0.1:9100\"";
        let text = item.text(&format!("metrics: write {fix}"))?;
        let address = address("metrics", &text, fix)?;
        if !address.ip().is_loopback() {
            return Err(text.wrong(format!(
                "metrics {:?}: everybody there could read them; write {fix}",
                text.it
            )));
        }
        observe.metrics = Some(address);
    }
    if let Some(item) = control {
        let text = item.text("control: write the path of a Unix socket in quotes")?;
        let path = folder.join(text.it);
        if text.it.is_empty() || path.is_dir() {
            return Err(text.wrong(format!(
                "control {:?}: write the path of a Unix socket",
                text.it
            )));
        }
        observe.control = Some(path);
    }
    Ok(observe)
}

/// Of each protocol's options the values, and where they are.
type Written = Vec<(At<String>, Vec<(String, At<Value>)>)>;

fn options(item: Item<'_>) -> Result<Written, Wrong> {
    let table = item.table("options", "options: must be a table of tables")?;
    let of_protocol = |(id, item): &(At<&str>, Item<'_>)| {
        find(&At {
            it: id.it.to_owned(),
            line: id.line,
        })?;
        let fix = format!(
            "options.{}: must be a table such as {{ key = value }}",
            id.it
        );
        let values = item.table("options", &fix)?;
        let value = |(key, item): &(At<&str>, Item<'_>)| {
            Ok((key.it.to_owned(), item.located(item.value()?)))
        };
        let values = values.all().iter().map(value).collect::<Result<_, _>>()?;
        Ok((
            At {
                it: id.it.to_owned(),
                line: id.line,
            },
            values,
        ))
    };
    table.all().iter().map(of_protocol).collect()
}

/// Never repeats what was written: it is a secret.
fn secret(item: Item<'_>) -> Result<[u8; 16], Wrong> {
    let fix = "secret: write 32 hexadecimal digits, the same on every node that shares it";
    let text = item.text(fix)?;
    let is_good = text.it.len() == 32 && text.it.bytes().all(|b| b.is_ascii_hexdigit());
    let number = u128::from_str_radix(text.it, 16).ok().filter(|_| is_good);
    number.map(u128::to_be_bytes).ok_or_else(|| text.wrong(fix))
}

/// A status as people write it.
#[derive(Default)]
struct Said {
    name: Option<String>,
    motd: Option<String>,
    game: Option<String>,
    mode: Option<String>,
    map: Option<String>,
    version: Option<String>,
    software: Option<String>,
    online: Option<At<i64>>,
    max_players: Option<At<i64>>,
    players: Vec<Member>,
    rules: Vec<(String, String)>,
    host: Option<String>,
    port: Option<u16>,
}

/// A player as people write one.
struct Member {
    name: At<String>,
    uuid: Option<At<String>>,
}

fn status(item: Item<'_>) -> Result<Status, Wrong> {
    let table = item.table(
        "status",
        "status: write a table such as { name = \"My server\" }",
    )?;
    let text = |key: &'static str| {
        let item = table.take(key);
        item.map(|item| {
            Ok(item
                .text(&format!("status.{key}: write a text in quotes"))?
                .it
                .to_owned())
        })
        .transpose()
    };
    let count = |key: &'static str| {
        let item = table.take(key);
        item.map(|item| {
            Ok(item.located(item.number(&format!("status.{key}"), 0..=i32::MAX.into())?))
        })
        .transpose()
    };
    let players = match table.take("players") {
        Some(item) => {
            let fix = "status.players: write a list such as [\"Alice\", { name = \"Bob\", uuid = \"…\" }]";
            item.list(fix)?
                .into_iter()
                .map(|item| member(item, fix))
                .collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    let rules = match table.take("rules") {
        Some(item) => {
            let table = item.table(
                "status.rules",
                "status.rules: write a table such as { Owner = \"me\" }",
            )?;
            let rule = |(key, item): &(At<&str>, Item<'_>)| {
                let fix = format!("status.rules: {}: write a text in quotes", key.it);
                Ok((key.it.to_owned(), item.words(&fix)?))
            };
            table.all().iter().map(rule).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    let port = table
        .take("port")
        .map(|item| item.number("status.port", 0..=u16::MAX.into()))
        .transpose()?;
    let said = Said {
        name: text("name")?,
        motd: text("motd")?,
        game: text("game")?,
        mode: text("mode")?,
        map: text("map")?,
        version: text("version")?,
        software: text("software")?,
        online: count("online")?,
        max_players: count("max-players")?,
        players,
        rules,
        host: text("host")?,
        port: port.and_then(|port| u16::try_from(port).ok()),
    };
    table.finish()?;
    said.status()
}

fn member(item: Item<'_>, fix: &str) -> Result<Member, Wrong> {
    if !item.is_table() {
        let name = item.text(fix)?;
        return Ok(Member {
            name: item.located(name.it.to_owned()),
            uuid: None,
        });
    }
    let table = item.table("a player", fix)?;
    let name = table.need("name", "{ name = \"Bob\" }")?;
    let uuid = table.take("uuid");
    table.finish()?;
    Ok(Member {
        name: name.located(name.text(fix)?.it.to_owned()),
        uuid: uuid
            .map(|item| Ok(item.located(item.text(fix)?.it.to_owned())))
            .transpose()?,
    })
}

impl Said {
    fn status(self) -> Result<Status, Wrong> {
        let mut status = Status {
            name: self.name.map(Text::legacy),
            motd: self.motd.map(|motd| Text::legacy(coloured(&motd))),
            game: self.game.map(Into::into),
            mode: self.mode.map(Into::into),
            map: self.map.map(Into::into),
            version: self.version.map(Into::into),
            ..Status::default()
        };
        status.extra.extend(
            self.software
                .map(|software| Extra::new("software", software)),
        );
        if self.host.is_some() || self.port.is_some() {
            status.address = Some(Address {
                host: self.host.map(Into::into),
                port: self.port,
            });
        }
        status.rules = self
            .rules
            .into_iter()
            .map(|(key, value)| Rule {
                key: key.into(),
                value: value.into(),
            })
            .collect();
        for count in [&self.online, &self.max_players].into_iter().flatten() {
            if i32::try_from(count.it).is_err() || count.it < 0 {
                return Err(count.wrong(format!(
                    "status: {} players; write a number from 0 to {}",
                    count.it,
                    i32::MAX
                )));
            }
        }
        let players = self
            .players
            .into_iter()
            .map(player)
            .collect::<Result<Vec<_>, _>>()?;
        status.players.online = Some(self.online.map_or(players.len() as i64, |online| online.it));
        status.players.max = Some(self.max_players.map_or(20, |max| max.it));
        status.players.set_list(players);
        Ok(status)
    }
}

fn player(member: Member) -> Result<Player, Wrong> {
    if member.name.it.trim_matches('\0').is_empty() {
        return Err(member
            .name
            .wrong("status.players: a name is empty; write one"));
    }
    let uuid = member.uuid.map(|text| {
        let wrong = || {
            text.wrong(format!(
                "status.players: {:?} is no UUID; it has 32 hexadecimal digits",
                text.it
            ))
        };
        uuid_from_text(&text.it).ok_or_else(wrong)
    });
    Ok(Player {
        uuid: uuid.transpose()?,
        ..Player::named(Text::legacy(member.name.it))
    })
}

/// A plan from flags.
pub(crate) fn from_flags(args: &Serve) -> Result<Plan, Usage> {
    let rules = args.rule.iter().map(|rule| match rule.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(Usage(format!("--rule {rule}: write KEY=VALUE"))),
    });
    let said = Said {
        name: args.name.clone(),
        motd: args.motd.clone(),
        game: args.game.clone(),
        mode: args.mode.clone(),
        map: args.map.clone(),
        version: args.game_version.clone(),
        max_players: args.max_players.map(At::flag),
        players: args
            .player
            .iter()
            .map(|name| Member {
                name: At::flag(name.clone()),
                uuid: None,
            })
            .collect(),
        rules: rules.collect::<Result<_, _>>()?,
        ..Said::default()
    };
    let in_words = |Wrong { problem, .. }: Wrong| Usage(problem);
    let block = Block {
        listen: args.listen.iter().cloned().map(At::flag).collect(),
        protocols: args
            .protocol
            .iter()
            .map(|protocol| At::flag(protocol.info().id.to_owned()))
            .collect(),
        told: args.demo.then_some(Told::Demo(args.seed)),
        status: Some(said.status().map_err(in_words)?),
        options: options_from_flags(&args.option)?,
        ..Block::default()
    };
    plan(block).map_err(in_words)
}

/// `onequery.v1=true` to options. Values may be secrets, so that no error repeats them.
fn options_from_flags(flags: &[String]) -> Result<Written, Usage> {
    let mut options: Written = Vec::new();
    for flag in flags {
        let wrong = || {
            Usage("--option: write PROTOCOL.KEY=VALUE, with a key that `hailer protocols PROTOCOL` shows".into())
        };
        let (path, value) = flag.split_once('=').ok_or_else(wrong)?;
        let (protocol, key) = path.split_once('.').ok_or_else(wrong)?;
        if !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(wrong());
        }
        find(&At::flag(protocol.to_owned())).map_err(|Wrong { problem, .. }| Usage(problem))?;
        // A word that is no TOML value is a string: nobody wants to quote twice on a command line.
        let text = format!("value = {value}");
        let parsed = Document::parse(&text).and_then(|document| match document.root().all() {
            [(_, item)] => item.value(),
            _ => Err(Wrong::at(0, "several")),
        });
        let value = At::flag(parsed.unwrap_or_else(|_| value.into()));
        match options.iter_mut().find(|(id, _)| id.it == protocol) {
            Some((_, values)) => values.push((key.into(), value)),
            None => options.push((At::flag(protocol.into()), vec![(key.into(), value)])),
        }
    }
    Ok(options)
}

fn plan(block: Block) -> Result<Plan, Wrong> {
    let protocols = protocols(&block)?;
    let listeners = listeners(&block, &protocols)?;
    for (id, values) in &block.options {
        let Some((protocol, options)) = protocols
            .iter()
            .find(|(protocol, _)| protocol.info().id == id.it)
        else {
            continue;
        };
        let check = protocol.responder(&Status::default(), &Keys::new([0; 16]), options);
        check.map_err(|error| {
            let line = values
                .iter()
                .find(|(key, _)| *key == error.key)
                .map_or(id.line, |(_, value)| value.line);
            Wrong::at(line, format!("options.{}.{error}", id.it))
        })?;
    }
    let is_here = |relay: SocketAddr, at: SocketAddr| {
        let is_any =
            at.ip().is_unspecified() && relay.ip().is_loopback() && at.is_ipv4() == relay.is_ipv4();
        at.port() == relay.port() && (at.ip() == relay.ip() || is_any)
    };
    if let Some(relay) = &block.relay
        && listeners
            .iter()
            .any(|listener| is_here(relay.it, listener.address))
    {
        return Err(relay.wrong(format!(
            "relay {}: that is where this server listens; write where the game is",
            relay.it
        )));
    }
    let source = match block.told {
        Some(Told::Demo(seed)) => Source::Demo(Population { seed }),
        Some(Told::Source(At { it: from, .. })) => {
            let before = block.status.map(Arc::new);
            let stale = block.stale.unwrap_or_default();
            Source::Fed(Box::new(Feed {
                from,
                policy: Policy {
                    before,
                    stale_after: block.stale_after,
                    stale,
                },
            }))
        }
        None => match block.status {
            Some(status) => Source::Fixed(Box::new(status)),
            None => Source::Fixed(Box::new(Said::default().status()?)),
        },
    };
    Ok(Plan {
        source,
        listeners,
        relay: block.relay.map(|relay| relay.it),
    })
}

type Chosen = Vec<(&'static dyn Protocol, Options)>;

fn find(id: &At<String>) -> Result<&'static dyn Protocol, Wrong> {
    registry::find(&id.it).ok_or_else(|| {
        let known = registry::PROTOCOLS
            .iter()
            .map(|protocol| protocol.info().id);
        let meant = close(&id.it, known).map(|id| format!("; did you mean {id:?}?"));
        let fix = meant.unwrap_or_else(|| format!("; known are {}", registry::known()));
        id.wrong(format!("unknown protocol {:?}{fix}", id.it))
    })
}

fn protocols(block: &Block) -> Result<Chosen, Wrong> {
    let served = |id: &At<String>| match find(id)? {
        protocol if protocol.info().transport == Transport::Datagram => Ok(protocol),
        _ => Err(id.wrong(format!(
            "{0} travels over TCP and is served alone: hailer serve --protocol {0}",
            id.it
        ))),
    };
    let mut chosen: Vec<_> = registry::datagram().collect();
    if !block.protocols.is_empty() {
        chosen = block
            .protocols
            .iter()
            .map(served)
            .collect::<Result<_, _>>()?;
    }
    let options = |id: &str| match block.options.iter().find(|(name, _)| name.it == id) {
        Some((_, values)) => Options(
            values
                .iter()
                .map(|(key, value)| (key.clone(), value.it.clone()))
                .collect(),
        ),
        None => Options::default(),
    };
    Ok(chosen
        .into_iter()
        .map(|protocol| (protocol, options(protocol.info().id)))
        .collect())
}

/// Loopback unless told otherwise.
fn listeners(block: &Block, protocols: &Chosen) -> Result<Vec<Listener>, Wrong> {
    let secret = block.secret;
    let each_on_its_own_port = |ip: IpAddr| {
        protocols.iter().map(move |(protocol, options)| Listener {
            address: (ip, protocol.info().port).into(),
            protocols: vec![(*protocol, options.clone())],
            secret,
        })
    };
    if block.listen.is_empty() {
        return Ok(each_on_its_own_port(Ipv4Addr::LOCALHOST.into()).collect());
    }
    let mut listeners = Vec::new();
    for at in &block.listen {
        let text = &at.it;
        let wrong = || {
            at.wrong(format!(
                "listen {text:?}: write ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT"
            ))
        };
        if let Some((id, address)) = text.split_once('=') {
            let chosen = protocols
                .iter()
                .find(|(protocol, _)| protocol.info().id == id);
            let (protocol, options) = chosen.ok_or_else(|| {
                at.wrong(format!(
                    "listen {text:?}: {id:?} is not among the protocols"
                ))
            })?;
            let address = address.parse().map_err(|_| wrong())?;
            listeners.push(Listener {
                address,
                protocols: vec![(*protocol, options.clone())],
                secret,
            });
        } else if let Ok(address) = text.parse() {
            listeners.push(Listener {
                address,
                protocols: protocols.clone(),
                secret,
            });
        } else {
            let ip = text
                .trim_start_matches('[')
                .trim_end_matches(']')
                .parse()
                .map_err(|_| wrong())?;
            listeners.extend(each_on_its_own_port(ip));
        }
    }
    Ok(listeners)
}

/// `&a` as people type it to the section sign that the wire wants; `&&` for the character itself.
pub(crate) fn coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let code = |c: &char| "0123456789abcdefklmnorx".contains(*c);
        if c == '&' && chars.next_if_eq(&'&').is_none() && chars.peek().is_some_and(code) {
            out.push('\u{A7}');
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// What is wrong with a file in a folder that has a token.
    fn problem(text: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("hailer-config-{}-{next}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("FILE");
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.join("token"), "0123456789abcdef\n").unwrap();
        let result = read(&path);
        std::fs::remove_dir_all(&folder).unwrap();
        match result {
            Ok(_) => String::new(),
            Err(error) => error
                .to_string()
                .replace(&path.display().to_string(), "FILE"),
        }
    }

    #[test]
    fn the_documented_examples_are_accepted() {
        let own: String = include_str!("config.rs")
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .fold(String::new(), |all, line| {
                all + line.trim_start_matches(' ') + "\n"
            });
        let mut count = 0;
        for text in [own.as_str(), include_str!("../../../README.md")] {
            for example in text.split("```toml\n").skip(1) {
                let (example, _) = example.split_once("```").unwrap();
                // A plan of the monitor, which has a test of its own.
                if !example.starts_with("[monitor]") {
                    assert_eq!(problem(example), "", "{example}");
                    count += 1;
                }
            }
        }
        assert!(count >= 3, "{count}");
    }

    #[test]
    fn what_is_written_is_what_is_meant() {
        let folder = std::env::temp_dir().join(format!("hailer-config-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let text = r#"
            [[server]]
            source.file = "s.json"
            status.rules = { z = 1, a = true }
            stale-after = "90s"
            relay = "127.0.0.1:25570"
            [[server]]
            listen = "127.0.0.2"
            [server.source.push]
            listen = "unix:push.sock"
            token-file = "token"
            name = "lobby"
            [[server]]
            listen = "127.0.0.3"
            source.poll = "ugp://127.0.0.1:1"
            stale-after = "1min"
            stale = "silent"
            [engine]
            workers = 3
            relay = { sessions = 9, idle = "5s" }
            [engine.budget]
            unverified-per-source = "8KiB"
            unverified-total = { packets = 40 }
            verified-per-source = { bytes = "2 MB", packets = 1 }
            [observe]
            metrics = "[::1]:9100"
            control = "control.sock"
        "#;
        std::fs::write(folder.join("config.toml"), text).unwrap();
        std::fs::write(folder.join("token"), " 0123456789abcdef \nmore").unwrap();
        let config = read(&folder.join("config.toml"));
        std::fs::remove_dir_all(&folder).unwrap();
        let config = config.unwrap();
        let allow = |bytes, packets| Allowance { bytes, packets };
        let engine = Engine {
            workers: Some(3),
            relay_sessions: Some(9),
            relay_idle: Some(Duration::from_secs(5)),
            unverified_per_source: allow(Some(8192), None),
            unverified_total: allow(None, Some(40)),
            verified_per_source: allow(Some(2_000_000), Some(1)),
        };
        assert_eq!(config.engine, engine);
        let control = Some(folder.join("control.sock"));
        assert_eq!(
            config.observe,
            Observe {
                metrics: Some("[::1]:9100".parse().unwrap()),
                control
            }
        );
        let feeds: Vec<&Feed> = config
            .servers
            .iter()
            .map(|plan| match &plan.source {
                Source::Fed(feed) => &**feed,
                _ => panic!(),
            })
            .collect();
        assert!(matches!(&feeds[0].from, Origin::File(path) if *path == folder.join("s.json")));
        assert_eq!(feeds[0].policy.stale, Stale::Say(Wording::default()));
        assert_eq!(feeds[0].policy.stale_after, Some(Duration::from_secs(90)));
        let rules = &feeds[0].policy.before.as_ref().unwrap().rules;
        assert_eq!(
            rules
                .iter()
                .map(|rule| format!("{}={}", rule.key, rule.value))
                .collect::<Vec<_>>(),
            ["z=1", "a=true"]
        );
        assert_eq!(
            config.servers[0].relay,
            Some("127.0.0.1:25570".parse().unwrap())
        );
        let Origin::Push(push) = &feeds[1].from else {
            panic!()
        };
        assert_eq!(
            (&push.place, push.name.as_deref()),
            (&Place::Path(folder.join("push.sock")), Some("lobby"))
        );
        assert_eq!(
            (push.token.reveal(), &feeds[1].policy.before),
            ("0123456789abcdef", &None)
        );
        assert!(
            matches!(&feeds[2].from, Origin::Poll(poll) if poll.every == Duration::from_secs(5) && !poll.keep_address)
        );
        assert_eq!(feeds[2].policy.stale, Stale::Silent);
    }

    #[test]
    fn mistakes_are_one_line_with_the_fix() {
        let cases = [
            ("", "FILE: no server; write at least one [[server]]"),
            (
                "[server]",
                "FILE:1: server: write [[server]], with two brackets",
            ),
            (
                "[[server]]\nlisten = [1]",
                "FILE:2: listen: write ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT",
            ),
            (
                "[[server]]\nstatus = { max-players = -1 }",
                "FILE:2: status.max-players: write a whole number from 0 to 2147483647",
            ),
            (
                "[[server]]\nstatus = { max-players = 99999999999 }",
                "FILE:2: status.max-players: write a whole number from 0",
            ),
            (
                "[[server]]\nstatus = { rules = 1 }",
                "FILE:2: status.rules: write a table",
            ),
            (
                "[[server]]\nstatus = { port = 65536 }",
                "FILE:2: status.port: write a whole number from 0 to 65535",
            ),
            (
                "[[server]]\nlisten = \"gopher=127.0.0.1:1\"",
                "FILE:2: listen \"gopher=127.0.0.1:1\": \"gopher\" is not among",
            ),
            (
                "[[server]]\nprotocols = [\n\"ugp\",\n\"minecraft-12w\"]",
                "FILE:4: minecraft-12w travels over TCP",
            ),
            (
                "[[server]]\noptions.gopher = {}",
                "FILE:2: unknown protocol",
            ),
            (
                "[[server]]\noptions.minecraft-query = 1",
                "FILE:2: options.minecraft-query: must be a table",
            ),
            (
                "[[server]]\n[server.options.minecraft-query]\nencoding = 1",
                "FILE:3: options.minecraft-query.encoding: must be one of",
            ),
            (
                "[[server]]\noptions.minecraft-query = { enc = 1 }",
                "FILE:2: options.minecraft-query.enc: unknown; known are encoding",
            ),
            (
                "[[server]]\nstatus.players = [{ name = \"a\",\nuuid = \"12\" }]",
                "FILE:3: status.players: \"12\" is no UUID",
            ),
            (
                "[[server]]\nstatus.players = [{ uuid = \"12\" }]",
                "FILE:2: a player needs `name`",
            ),
            (
                "[[server]]\ndemo = 1\nstatus = {}",
                "FILE:2: demo and status exclude each other",
            ),
            (
                "[[server]]\ndemo = 1\nsource.file = \"x\"",
                "FILE:2: demo and source exclude each other",
            ),
            (
                "[[server]]\nsource = \"file\"",
                "FILE:2: source: write source.file = \"PATH\", source.poll",
            ),
            (
                "[[server]]\nsource.file = 1",
                "FILE:2: source.file: write the path of a JSON file in quotes",
            ),
            (
                "[[server]]\nsource = {}",
                "FILE:2: source: exactly one is needed",
            ),
            (
                "[[server]]\nstale = \"say\"",
                "FILE:2: stale: only the truth of a source grows old",
            ),
            (
                "[[server]]\nsource.poll = \"ugp://h\"\nstale = \"say\"",
                "FILE:3: stale: needs stale-after as well",
            ),
            (
                "[[server]]\nsource.poll = \"ugp://h\"\nstale-after = \"5s\"\nstale = \"silent\"\nstale-text = \"{age}\"",
                "FILE:5: stale-text: only with stale = \"say\", not \"silent\"",
            ),
            (
                "[[server]]\nsource.poll = \"ugp://h\"\nstale-after = \"5s\"\nstale-text = \"{old}\"",
                "FILE:4: stale-text: braces stand only around {text} and {age}",
            ),
            (
                "[engine]\nbudget.unverified-total = \"8 apples\"",
                "FILE:2: unverified-total: write bytes in a second",
            ),
            (
                "[engine]\nbudget.unverified-total = \"8GiB\"",
                "FILE:2: unverified-total: write bytes in a second",
            ),
            (
                "[engine]\nbudget.unverified-total = { packets = 0 }",
                "FILE:2: packets: write a whole number from 1",
            ),
            (
                "[engine]\nrelay.sessions = 0",
                "FILE:2: sessions: write a whole number from 1 to 65536",
            ),
            ("[engine]\nrelay.idle = \"1ms\"", "FILE:2: idle: "),
            (
                "[engine]\nrelay = \"127.0.0.1:1\"",
                "FILE:2: relay: write { sessions = 1024",
            ),
            (
                "[[server]]\nlisten = \"0.0.0.0:5520\"\nrelay = \"127.0.0.1:5520\"",
                "FILE:3: relay 127.0.0.1:5520: that is where this server listens",
            ),
            ("[[server]", "FILE:1: "),
        ];
        for (text, expected) in cases {
            let problem = problem(text);
            assert!(problem.starts_with(expected), "{text:?}: {problem}");
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn colours_are_typed_with_an_ampersand() {
        assert_eq!(
            coloured("&aGreen &&c R&D & &r"),
            "\u{A7}aGreen &c R&D & \u{A7}r"
        );
    }
}
