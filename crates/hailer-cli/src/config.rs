//! What to answer, and where: from a TOML file or from flags to a checked plan.
//!
//! ```toml
//! [[server]]
//! listen = ["127.0.0.1"]                  # ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT; a string or a list
//! protocols = ["minecraft-query", "ugp"]  # all over UDP, if left out
//! status = { name = "My server", max-players = 20, players = ["Alice", "Bob"], rules = { Owner = "me" } }
//! options.minecraft-query = { encoding = "utf-8" }
//! secret = "00112233445566778899aabbccddeeff"  # only if several nodes accept each other's challenge tokens
//! ```

use crate::args::Serve;
use crate::exit::{Usage, usage};
use crate::population::Population;
use hailer::proto::model::{Address, Extra, Rule, Value};
use hailer::proto::{Keys, Options, Protocol, Transport};
use hailer::{Player, Status, Text, registry};
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// One server to answer for, checked.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) source: Source,
    pub(crate) listeners: Vec<Listener>,
}

/// Where the status comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// It never changes.
    Fixed(Box<Status>),
    /// An invented population.
    Demo(Population),
}

/// One address and the protocols answered there.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) protocols: Vec<(&'static dyn Protocol, Options)>,
    /// The secret behind challenge tokens, if several nodes share one. Otherwise it is random and changes by itself.
    pub(crate) secret: Option<[u8; 16]>,
}

impl Source {
    /// The status at a time, in seconds since the start, for a listener on a port. A population talks in the manner of
    /// the listener's protocol.
    pub(crate) fn status(&self, listener: &Listener, port: u16, seconds: u64) -> Status {
        let mut status = match self {
            Self::Fixed(status) => (**status).clone(),
            Self::Demo(population) => population.status(listener.protocols[0].0.info(), seconds),
        };
        // The game is most likely on the same port; whoever knows better says so.
        status.address.get_or_insert_default().port.get_or_insert(port);
        status
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    server: Vec<Server>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Server {
    listen: OneOrMany,
    protocols: Vec<String>,
    demo: Option<u64>,
    status: Option<Said>,
    // Not of the types that they must have: the parser's own complaint would repeat what was written.
    options: Option<toml::Value>,
    secret: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT, or a list of them")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// A status as people write it.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Said {
    name: Option<String>,
    motd: Option<String>,
    game: Option<String>,
    mode: Option<String>,
    map: Option<String>,
    version: Option<String>,
    software: Option<String>,
    online: Option<i64>,
    max_players: Option<i64>,
    players: Vec<Member>,
    rules: toml::map::Map<String, toml::Value>,
    host: Option<String>,
    port: Option<u16>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a name, or { name = \"…\", uuid = \"…\" }")]
enum Member {
    Name(String),
    #[serde(rename_all = "kebab-case")]
    Known {
        name: String,
        uuid: Option<String>,
    },
}

/// Reads a configuration file. Every error is one line that names file and place.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Plan>> {
    let name = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => usage!("{name}: {error}"),
    };
    let file: File = match toml::from_str(&text) {
        Ok(file) => file,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            usage!("{name}:{line}: {}", error.message().replace('\n', " "));
        }
    };
    if file.server.is_empty() {
        usage!("{name}: no server; write at least one [[server]] block");
    }
    let plans = file.server.into_iter().enumerate().map(|(i, server)| {
        plan(server).map_err(|Usage(problem)| Usage(format!("{name}: server {}: {problem}", i + 1)).into())
    });
    plans.collect()
}

/// A plan from flags.
pub(crate) fn from_flags(args: &Serve) -> Result<Plan, Usage> {
    let rules = args.rule.iter().map(|rule| match rule.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), toml::Value::from(value))),
        None => Err(Usage(format!("--rule {rule}: write KEY=VALUE"))),
    });
    let said = Said {
        name: args.name.clone(),
        motd: args.motd.clone(),
        game: args.game.clone(),
        mode: args.mode.clone(),
        map: args.map.clone(),
        version: args.game_version.clone(),
        max_players: args.max_players,
        players: args.player.iter().cloned().map(Member::Name).collect(),
        rules: rules.collect::<Result<_, _>>()?,
        ..Said::default()
    };
    plan(Server {
        listen: OneOrMany::Many(args.listen.clone()),
        protocols: args.protocol.iter().map(|protocol| protocol.info().id.to_owned()).collect(),
        demo: args.demo.then_some(args.seed),
        status: (!args.demo).then_some(said),
        options: Some(options_from_flags(&args.option)?.into()),
        secret: None,
    })
}

/// `onequery.v1=true` to a table of tables. Values may be secrets, so that no error repeats them.
fn options_from_flags(flags: &[String]) -> Result<toml::Table, Usage> {
    let mut options = toml::Table::new();
    for flag in flags {
        let wrong =
            || Usage("--option: write PROTOCOL.KEY=VALUE, with a key that `hailer protocols PROTOCOL` shows".into());
        let (path, value) = flag.split_once('=').ok_or_else(wrong)?;
        let (protocol, key) = path.split_once('.').ok_or_else(wrong)?;
        if !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(wrong());
        }
        // A word that is no TOML value is a string: nobody wants to quote twice on a command line.
        let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"));
        let value = parsed.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| value.into());
        let table = options.entry(protocol).or_insert_with(|| toml::Table::new().into());
        table.as_table_mut().map(|table| table.insert(key.into(), value));
    }
    Ok(options)
}

fn plan(server: Server) -> Result<Plan, Usage> {
    let protocols = protocols(&server)?;
    let listeners = listeners(&server, &protocols)?;
    let source = match (server.demo, server.status) {
        (Some(_), Some(_)) => return Err(Usage("demo and status exclude each other; keep one".into())),
        (Some(seed), None) => Source::Demo(Population { seed }),
        (None, said) => Source::Fixed(Box::new(status(said.unwrap_or_default())?)),
    };
    for listener in &listeners {
        for (protocol, options) in &listener.protocols {
            let check = protocol.responder(&Status::default(), &Keys::new([0; 16]), options);
            check.map_err(|error| Usage(format!("options.{}.{error}", protocol.info().id)))?;
        }
    }
    Ok(Plan { source, listeners })
}

type Chosen = Vec<(&'static dyn Protocol, Options)>;

fn protocols(server: &Server) -> Result<Chosen, Usage> {
    let find = |id: &str| {
        registry::find(id).ok_or_else(|| Usage(format!("unknown protocol {id:?}; known are {}", registry::known())))
    };
    let served = |id: &String| match find(id)? {
        protocol if protocol.info().transport == Transport::Datagram => Ok(protocol),
        _ => Err(Usage(format!("{id} travels over TCP and is served alone: hailer serve --protocol {id}"))),
    };
    let mut chosen: Vec<_> = registry::datagram().collect();
    if !server.protocols.is_empty() {
        chosen = server.protocols.iter().map(served).collect::<Result<_, _>>()?;
    }
    let all_options = match &server.options {
        Some(options) => options.as_table().ok_or_else(|| Usage("options: must be a table of tables".into()))?,
        None => &toml::Table::new(),
    };
    for (id, options) in all_options {
        find(id)?;
        if !options.is_table() {
            return Err(Usage(format!("options.{id}: must be a table such as {{ key = value }}")));
        }
    }
    let options = |id: &str| match all_options.get(id).and_then(toml::Value::as_table) {
        Some(table) => Options(table.iter().map(|(key, option)| (key.clone(), value(option))).collect()),
        None => Options::default(),
    };
    Ok(chosen.into_iter().map(|protocol| (protocol, options(protocol.info().id))).collect())
}

fn value(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => Value::Int(*number),
        toml::Value::Float(number) => Value::Float(*number),
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => Value::List(values.iter().map(self::value).collect()),
        toml::Value::Table(table) => {
            Value::Table(table.iter().map(|(key, value)| (key.clone().into(), self::value(value))).collect())
        }
    }
}

/// Loopback unless told otherwise.
fn listeners(server: &Server, protocols: &Chosen) -> Result<Vec<Listener>, Usage> {
    let secret = server.secret.as_ref().map(secret).transpose()?;
    let texts = match &server.listen {
        OneOrMany::One(text) => std::slice::from_ref(text),
        OneOrMany::Many(texts) => texts,
    };
    let each_on_its_own_port = |ip: IpAddr| {
        protocols.iter().map(move |(protocol, options)| Listener {
            address: (ip, protocol.info().port).into(),
            protocols: vec![(*protocol, options.clone())],
            secret,
        })
    };
    if texts.is_empty() {
        return Ok(each_on_its_own_port(Ipv4Addr::LOCALHOST.into()).collect());
    }
    let mut listeners = Vec::new();
    for text in texts {
        let wrong = || Usage(format!("listen {text:?}: write ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT"));
        if let Some((id, address)) = text.split_once('=') {
            let chosen = protocols.iter().find(|(protocol, _)| protocol.info().id == id);
            let (protocol, options) =
                chosen.ok_or_else(|| Usage(format!("listen {text:?}: {id:?} is not among the protocols")))?;
            let address = address.parse().map_err(|_| wrong())?;
            listeners.push(Listener { address, protocols: vec![(*protocol, options.clone())], secret });
        } else if let Ok(address) = text.parse() {
            listeners.push(Listener { address, protocols: protocols.clone(), secret });
        } else {
            let ip = text.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| wrong())?;
            listeners.extend(each_on_its_own_port(ip));
        }
    }
    Ok(listeners)
}

/// Never repeats what was written: it is a secret.
fn secret(value: &toml::Value) -> Result<[u8; 16], Usage> {
    let digits = value.as_str().filter(|text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
    let wrong = || Usage("secret: write 32 hexadecimal digits, the same on every node that shares it".into());
    number.map(u128::to_be_bytes).ok_or_else(wrong)
}

fn status(said: Said) -> Result<Status, Usage> {
    let mut status = Status {
        name: said.name.map(Text::legacy),
        motd: said.motd.map(|motd| Text::legacy(coloured(&motd))),
        game: said.game.map(Into::into),
        mode: said.mode.map(Into::into),
        map: said.map.map(Into::into),
        version: said.version.map(Into::into),
        ..Status::default()
    };
    status.extra.extend(said.software.map(|software| Extra::new("software", software)));
    if said.host.is_some() || said.port.is_some() {
        status.address = Some(Address { host: said.host.map(Into::into), port: said.port });
    }
    for (key, value) in said.rules {
        let value = match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        status.rules.push(Rule { key: key.into(), value: value.into() });
    }
    let players = said.players.into_iter().map(player).collect::<Result<Vec<_>, _>>()?;
    status.players.online = Some(said.online.unwrap_or(players.len() as i64));
    status.players.max = Some(said.max_players.unwrap_or(20));
    for count in [status.players.online, status.players.max].into_iter().flatten() {
        if i32::try_from(count).is_err() || count < 0 {
            return Err(Usage(format!("status: {count} players; write a number from 0 to {}", i32::MAX)));
        }
    }
    status.players.set_list(players);
    Ok(status)
}

fn player(member: Member) -> Result<Player, Usage> {
    let (name, uuid) = match member {
        Member::Name(name) => (name, None),
        Member::Known { name, uuid } => (name, uuid),
    };
    if name.trim_matches('\0').is_empty() {
        return Err(Usage("status.players: a name is empty".into()));
    }
    let uuid = uuid.map(|text| {
        let digits = text.replace('-', "");
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
        number.map(u128::to_be_bytes).ok_or_else(|| Usage(format!("status.players: {text:?} is no UUID")))
    });
    Ok(Player { uuid: uuid.transpose()?, ..Player::named(Text::legacy(name)) })
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

    fn problem(text: &str) -> String {
        let path = std::env::temp_dir().join(format!("hailer-config-{}-{}.toml", std::process::id(), text.len()));
        std::fs::write(&path, text).unwrap();
        let result = read(&path);
        std::fs::remove_file(&path).unwrap();
        match result {
            Ok(_) => String::new(),
            Err(error) => error.to_string().replace(&path.display().to_string(), "FILE"),
        }
    }

    #[test]
    fn the_documented_example_is_accepted() {
        let example: String = include_str!("config.rs")
            .lines()
            .skip_while(|line| !line.ends_with("```toml"))
            .skip(1)
            .take_while(|line| !line.ends_with("```"))
            .map(|line| format!("{}\n", line.trim_start_matches("//!")))
            .collect();
        assert_eq!(problem(&example), "");
        let readme = include_str!("../../../README.md");
        let (_, example) = readme.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        assert_eq!(problem(example), "");
    }

    #[test]
    fn mistakes_are_one_line_with_the_fix() {
        let cases = [
            ("", "no server; write at least one [[server]]"),
            ("[[server]]\nlisten = [1]", "FILE:2: "),
            ("[[server]]\n\nporp = 1", "FILE:3: unknown field `porp`"),
            ("[[server]]\nstatus = { max-players = -1 }", "-1 players; write a number from 0"),
            ("[[server]]\nstatus = { max-players = 99999999999 }", "99999999999 players"),
            ("[[server]]\nlisten = \"nowhere\"", "write ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT"),
            ("[[server]]\nlisten = \"gopher=127.0.0.1:1\"", "not among the protocols"),
            ("[[server]]\nprotocols = [\"gopher\"]", "unknown protocol \"gopher\"; known are minecraft-query"),
            ("[[server]]\nprotocols = [\"minecraft-12w\"]", "minecraft-12w travels over TCP"),
            ("[[server]]\noptions.gopher = {}", "unknown protocol"),
            ("[[server]]\noptions.minecraft-query = 1", "must be a table"),
            (
                "[[server]]\noptions.minecraft-query = { encoding = 1 }",
                "options.minecraft-query.encoding: must be one of",
            ),
            (
                "[[server]]\noptions.minecraft-query = { enc = 1 }",
                "options.minecraft-query.enc: unknown; known are encoding",
            ),
            ("[[server]]\nstatus.players = [{ name = \"a\", uuid = \"12\" }]", "is no UUID"),
            ("[[server]]\nstatus.players = [\"\"]", "a name is empty"),
            ("[[server]]\ndemo = 1\nstatus = {}", "exclude each other"),
            ("[[server]", "FILE:1: "),
        ];
        for (text, expected) in cases {
            let problem = problem(text);
            assert!(problem.contains(expected) && problem.starts_with("FILE"), "{text:?}: {problem}");
            assert!(!problem.contains('\n'), "{problem}");
        }
    }

    #[test]
    fn colours_are_typed_with_an_ampersand() {
        assert_eq!(coloured("&aGreen &&c R&D & &r"), "\u{A7}aGreen &c R&D & \u{A7}r");
    }
}
