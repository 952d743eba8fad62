//! The command line. Help, completions and man pages are generated from it.

/// Text of the help that only Unix has.
#[cfg(unix)]
macro_rules! unix_only {
    ($text:literal) => {
        $text
    };
}
#[cfg(not(unix))]
macro_rules! unix_only {
    ($text:literal) => {
        ""
    };
}

mod check;
#[cfg(feature = "game")]
mod game;
#[cfg(feature = "monitor")]
mod monitor;
mod problem;

pub(crate) use self::check::Check;
#[cfg(feature = "game")]
pub(crate) use self::game::*;
#[cfg(feature = "monitor")]
pub(crate) use self::monitor::*;
pub(crate) use self::problem::line as problem_line;
use crate::log::LogArgs;
#[cfg(feature = "top")]
use crate::print::icon::IconMode;
use crate::values;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use hailer::proto::games::GAMES as GAMES_TABLE;
use hailer::proto::{Charset, Direction, Protocol, Tls};
use hailer::support::condition::Condition;
use hailer::sweep::Shard;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const TARGETS: &str = "\
A TARGET is a host, host:port, [v6]:port, game://host:port or protocol://host:port; `hailer games`
and `hailer protocols` list them. Without a game or protocol, the common protocols are tried. SRV
records of Minecraft servers are followed.";

const QUERY: &str = "\
A TARGET is a host, host:port, [v6]:port, game://host:port or protocol://host:port; `hailer games`
and `hailer protocols` list them. Without a game or protocol, the common protocols are tried. SRV
records of Minecraft servers are followed.

A CONDITION compares fields with = != < <= > >= and joins them with and, or, not and parentheses.
Fields: players, max, bots, ping, map, name, version, motd, game, mode, password, anti_cheat,
online, ready (players can join), rules.NAME and extra.NAME. * in a text matches any characters. A
field that the server does not report is unknown; an unknown number of players is never 0.

Exit codes: 0 if every server replied and the condition is true, 1 if a server did not reply, 2 for
invalid arguments, 3 if the condition is false or unknown, 130 after Ctrl-C.

Examples:
  hailer query play.example.com
  hailer query valheim://192.0.2.7 minecraft://play.example.com --json
  hailer query rust://192.0.2.7 --if 'players = 0' && ./update
  hailer query rust://192.0.2.7 --until 'players = 0' --hold 5min --for 2h && ./update
  hailer query minecraft://192.0.2.7 --wait-ready 5min";

const SERVE: &str = concat!(
    unix_only!("SIGHUP reads the configuration file again.\n\n"),
    "\
Examples:
  hailer serve --demo
  hailer serve --name \"My server\" --motd \"&aWelcome\" --max-players 20 --player Alice
  hailer serve --example > servers.toml
  hailer serve --config servers.toml --check-config
  hailer serve --config servers.toml --metrics 127.0.0.1:9570
  hailer serve status"
);

const GAMEDIG: &str = "\
Prints one line of JSON: `name`, `map`, `password`, `raw`, `version`, `maxplayers`, `numplayers`,
`players`, `bots`, `queryPort`, `connect` and `ping`; after a failure `error`, as node-gamedig words
it, and `reason`. The exit code is 0 in both cases. Options that node-gamedig does not have are
ignored. A program named gamedig, such as a link to hailer, is this command.

Options of node-gamedig:
      --type ID                 Game, by its present or an old id, or protocol-NAME
      --host HOST               Host, as an alternative to HOST:PORT
      --port PORT               Port of the game, or of its query
      --address ADDRESS         IP address to query instead of that of the host
      --givenPortOnly           Query no other port of the game
      --maxRetries N            Number of tries [default: 1]
      --socketTimeout MS        Longest time to wait for a reply [default: 2000]
      --attemptTimeout MS       Longest time for a try [default: 10000]
      --ipFamily N              4 or 6: use only addresses of this version
      --listenUdpPort PORT      Local port to send from
      --requestRules            Request rules from games that speak A2S
      --no-requestPlayers       Do not request the list of players
      --requestRulesRequired    Fail without rules
      --requestPlayersRequired  Fail without a list of players
      --no-stripColors          Keep color codes
      --teamspeakQueryPort PORT Port of TeamSpeak's queries
      --token TOKEN             Auth token, for games that have one
      --password PASSWORD       Password of the administrator, for Palworld
      --guildId ID              Id of a Discord server
      --pretty                  Print the JSON in several lines
      --debug                   Print the JSON in several lines, and the cause of an error

Examples:
  hailer gamedig --type valheim play.example.com:2456
  hailer gamedig --type csgo --requestRules 192.0.2.7:27015 | jq .raw.rules
  ln -s \"$(command -v hailer)\" /usr/local/bin/gamedig";

const FARM: &str = if cfg!(target_os = "linux") {
    "\
Every address of the networks is a different server. Only this machine can reach them.

Examples:
  hailer farm
  hailer farm 127.1.0.0/16 --protocol ugp --port ugp=22000
  hailer farm 127.0.0.0/8 --silent 20% --loss 1% --delay 40ms"
} else {
    "\
Every address of the networks is a different server. Only this machine can reach them. This system needs
a socket for each address and port, and allows 4,096.

Examples:
  hailer farm
  hailer farm 127.0.0.0/24 --protocol ugp --port ugp=22000
  hailer farm 127.0.0.0/26 --silent 20% --loss 1% --delay 40ms"
};

/// Network of a farm without arguments. macOS has only one loopback address, and other systems than
/// Linux need a socket for each address and port.
const FARM_NETWORK: &str = if cfg!(target_os = "linux") {
    "127.0.0.0/8"
} else if cfg!(windows) {
    "127.0.0.0/26"
} else {
    "127.0.0.1/32"
};

const STATUS: &str = concat!(
    "\
The exit code is 0 if every server has a status, 1 if one has none or if no hailer serve runs.

Examples:
  hailer serve status
  hailer serve status --json | jq '.listeners[].counts.received'",
    unix_only!("\n  sudo hailer serve status --control /run/hailer/serve.sock")
);

#[cfg(feature = "top")]
const TOP: &str = "\
Keys: q, Esc or Ctrl-C quits; Tab and the arrow keys select a listener; p pauses; ? shows the help.
If hailer serve restarts, the display reconnects.";

const DECODE: &str = "\
Examples:
  hailer decode fefd0900000001
  tcpdump -U -w - -i any udp port 25565 | hailer decode
  hailer decode session.hlr --only Chat,Kick
  hailer decode capture.pcap --secrets secrets.txt --summary
  hailer decode --build 1.3.2 --stream to-server 00000000ff";

const SWEEP: &str = "\
A TARGET is a host, host:port, [v6]:port, game://host, protocol://host:port or a range, such as
192.0.2.0/24 or ugp://192.0.2.1-192.0.2.9:22000. Files have one target at the start of each line;
comments start with #. Without a game or protocol, a target is queried in minecraft-query, ugp and
onequery. --targets also accepts master servers: dpmaster://HOST/GAME, quake2-master://HOST,
quakeworld-master://HOST, doom3-master://HOST/VERSION, teeworlds-master://HOST, valve-master://HOST,
and lists over HTTP: teeworlds+https://HOST/PATH, also for fivem, luanti, beammp,
vintage-story and veloren.
Each target is queried once, in random order, with a rate limit for each network. Servers of a game
are queried at its query port; if a target has another port, that one is tried first.

Sweep only networks that you are allowed to query. Operators may mistake a sweep for an attack: ask
before you sweep their networks, keep the default rate unless they agree to more, and list those
that opt out in a file for --exclude.

A sweep that writes to a file can be interrupted at any time, by Ctrl-C or by a crash; the same
command with --resume continues it. Exit codes: 0 if any server answered, 1 if none did, 2 for
invalid arguments, 130 after Ctrl-C.

Examples:
  hailer sweep 192.0.2.0/24 --protocol minecraft-query
  hailer sweep rust://192.0.2.0/24 valheim://192.0.2.7
  hailer sweep --game rust --targets servers.txt -o servers.csv
  hailer sweep --targets dpmaster://dpmaster.example.com/xonotic
  hailer sweep --targets servers.txt --exclude leave-alone.txt -o servers.parquet
  hailer sweep --targets servers.txt -o servers.csv --fields target,name,players_online --rate 5k
  list-servers | hailer sweep - --json | jq .target";

const DISCOVER: &str = "\
Sends the broadcasts with which games find servers on the local network, listens for announcements
of Minecraft worlds, and queries each server that replies or announces itself. Datagrams go only to
the networks of the interfaces, with a TTL of 1; replies from other networks are ignored. Without
--interface, all interfaces with a private address are used.

Exit codes: 0 if any server was found, 1 if none was, 2 for invalid arguments.

Examples:
  hailer discover
  hailer discover --game xonotic
  hailer discover --protocol a2s --port 27016 --interface eth0
  hailer discover --watch --json | jq .target";

const GAMES: &str = "\
A SEARCH finds games by words of their id, name, aliases and protocols. Ports marked with ~ are not
confirmed by any source.

Examples:
  hailer games                    list all games that can be queried
  hailer games counter strike     find games by name
  hailer games a2s                list the games of a protocol
  hailer games --json | jq .id    print every row as JSON";

const EXAMPLES: &str = "\
Examples:
  hailer demo                                    try hailer on this machine
  hailer query play.example.com                  show the status of a server
  hailer query ugp://192.0.2.7 --json | jq .     the same as JSON
  hailer discover                                find servers on the local network
  hailer sweep --targets FILE -o servers.csv     query many servers, at a limited rate
  hailer serve --demo                            simulate a server
  hailer decode fefd0900000001                   explain the bytes of a datagram
  hailer join play.example.com --for 30s         join the game and show its events
  hailer proxy --to play.example.com:25565       show the packets between game and server";

/// Arguments of the program.
#[derive(Parser)]
#[command(name = "hailer", version, about, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[cfg(feature = "probe")]
const PROBE: &str = "\
hailer-probe is `hailer query` alone: one small file, for container images and health checks. It
takes the same arguments and prints the same lines.

A TARGET is a host, host:port, [v6]:port, game://host:port or protocol://host:port. Without a game
or protocol, the common protocols are tried. SRV records of Minecraft servers are followed.

Examples:
  hailer-probe minecraft://127.0.0.1
  hailer-probe rust://play.example.com --json";

/// Arguments of `hailer-probe`.
#[cfg(feature = "probe")]
#[derive(Parser)]
#[command(name = "hailer-probe", version, about = "Query game servers for their status", after_help = PROBE, max_term_width = 110)]
pub(crate) struct Probe {
    #[command(flatten)]
    pub(crate) query: Query,
}

impl Command {
    /// Returns the file that adds games, if one is given.
    pub(crate) fn games_file(&self) -> Option<&Path> {
        let games = match self {
            Self::Query(args) => &args.query_args.targets.games,
            Self::Discover(args) => &args.games,
            Self::Ping(args) => &args.query_args.targets.games,
            Self::Check(args) => &args.targets.games,
            #[cfg(feature = "monitor")]
            Self::Watch(args) => &args.query_args.targets.games,
            Self::Sweep(args) => &args.games,
            #[cfg(feature = "monitor")]
            Self::Monitor(args) => &args.games,
            Self::Games(args) => &args.games,
            _ => return None,
        };
        games.file.as_deref()
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Query servers for their status
    #[command(after_help = QUERY)]
    Query(Box<Query>),
    /// Query a server with the arguments of node-gamedig, and print its JSON
    #[command(after_help = GAMEDIG, override_usage = "hailer gamedig [OPTIONS] HOST[:PORT]")]
    Gamedig(Gamedig),
    /// Find servers on the local network and query them
    #[command(after_help = DISCOVER)]
    Discover(Box<Discover>),
    /// Query many servers and write each answer as it arrives
    #[command(after_help = SWEEP)]
    Sweep(Box<Sweep>),
    /// Measure round-trip times to a server
    #[command(after_help = TARGETS)]
    Ping(Box<Ping>),
    /// Test whether a server or a client conforms to its protocol
    #[command(after_help = check::CHECK)]
    Check(Box<Check>),
    /// Respond to queries, on loopback addresses by default
    #[command(after_help = SERVE, args_conflicts_with_subcommands = true, subcommand_value_name = "ACTION")]
    #[command(
        subcommand_help_heading = "Actions",
        override_usage = "hailer serve [OPTIONS]\n       hailer serve status [OPTIONS]"
    )]
    #[command(disable_help_subcommand = true)]
    Serve(Box<Serve>),
    /// Simulate many servers on loopback addresses, to test programs that query many servers
    #[command(after_help = FARM)]
    Farm(Box<Farm>),
    /// Serve a small Minecraft world of 1.2.5 to 1.3.2, on loopback by default
    #[cfg(feature = "game")]
    #[command(after_help = WORLD)]
    World(Box<World>),
    #[cfg(not(feature = "game"))]
    #[command(hide = true, disable_help_flag = true)]
    World(AbsentCommand),
    /// Monitor servers over time: history, web page, API and alerts
    #[cfg(feature = "monitor")]
    #[command(after_help = MONITOR, args_conflicts_with_subcommands = true, subcommand_value_name = "ACTION")]
    #[command(
        subcommand_help_heading = "Actions",
        override_usage = "hailer monitor [OPTIONS] [TARGET]...\n       hailer monitor <ACTION> [OPTIONS]"
    )]
    #[command(disable_help_subcommand = true, subcommand_precedence_over_arg = true)]
    Monitor(Box<Monitor>),
    #[cfg(not(feature = "monitor"))]
    #[command(hide = true, disable_help_flag = true)]
    Monitor(AbsentCommand),
    /// Show a running hailer serve live: rates, drops, budget, sources, busiest clients
    #[cfg(feature = "top")]
    #[command(after_help = TOP)]
    Top(Box<Top>),
    #[cfg(not(feature = "top"))]
    #[command(hide = true, disable_help_flag = true)]
    Top(AbsentCommand),
    /// Show servers live: a table with trends and charts, polled from here or by a running hailer monitor
    #[cfg(feature = "monitor")]
    #[command(after_help = WATCH)]
    Watch(Box<Watch>),
    #[cfg(not(feature = "monitor"))]
    #[command(hide = true, disable_help_flag = true)]
    Watch(AbsentCommand),
    /// Explain datagrams and game sessions field by field
    #[command(after_help = DECODE)]
    Decode(Box<Decode>),
    /// Join a Minecraft server of 1.2.5 to 1.3.2 and show the events of the game
    #[cfg(feature = "game")]
    #[command(after_help = JOIN)]
    Join(Box<Join>),
    #[cfg(not(feature = "game"))]
    #[command(hide = true, disable_help_flag = true)]
    Join(AbsentCommand),
    /// Forward game clients to a server and show every packet
    #[cfg(feature = "game")]
    #[command(after_help = PROXY)]
    Proxy(Box<Proxy>),
    #[cfg(not(feature = "game"))]
    #[command(hide = true, disable_help_flag = true)]
    Proxy(AbsentCommand),
    /// Start simulated servers on this machine, query them and show the answers
    Demo(Box<Demo>),
    /// Show the supported protocols
    Protocols(Box<Protocols>),
    /// Show the games that can be queried, their protocols and ports
    #[command(after_help = GAMES)]
    Games(Box<Games>),
    /// Print a completion script for a shell
    Completions {
        /// Shell to write the script for
        shell: Shell,
    },
    /// Write the man pages
    Man {
        /// Folder for hailer.1, hailer-query.1 and so on [default: only hailer.1, to standard output]
        #[arg(value_hint = ValueHint::DirPath)]
        folder: Option<PathBuf>,
    },
}

// Arguments of a command that is not part of this build.
#[cfg(not(all(feature = "game", feature = "monitor")))]
#[derive(Args)]
pub(crate) struct AbsentCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Query {
    /// Servers to query; `-` reads more from standard input, one per line
    #[arg(required = true, value_name = "TARGET", value_hint = ValueHint::Hostname)]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) query_args: QueryArgs,
    /// Retries after a timeout, 0 to 100
    #[arg(long, help_heading = "Queries", default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// Longest time for one query, including retries [default: 10s, or timeout × (retries + 1) if that is longer]
    #[arg(long, help_heading = "Queries", value_parser = values::duration, value_name = "TIME")]
    pub(crate) deadline: Option<Duration>,
    /// Host name to send instead of that of the target, for proxies that choose a server by it
    #[arg(long, help_heading = "Queries", value_name = "NAME")]
    pub(crate) send_host: Option<String>,
    /// Begin connections over TCP with a PROXY protocol header, for servers that accept players only through a proxy
    #[arg(long, help_heading = "Queries")]
    pub(crate) proxy_header: bool,
    #[command(flatten)]
    pub(crate) auth: Auth,
    /// Try every protocol, also those that disturb some servers, and show each answer separately
    #[arg(long, help_heading = "Queries")]
    pub(crate) all: bool,
    /// Print one line of JSON for each target, as in schema/answer-v2.json; with --all, for each answer
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Show every datagram in hexadecimal, with an explanation
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Write the icon of the server to a PNG file
    #[arg(long, help_heading = "Output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) icon: Option<PathBuf>,
    #[cfg(feature = "top")]
    /// Show icons in terminals: auto, always or never; --show-icon alone means always
    #[arg(long, help_heading = "Output", value_enum, hide_possible_values = true, value_name = "HOW", default_value = "auto", default_missing_value = "always", num_args = 0..=1, require_equals = true)]
    pub(crate) show_icon: IconMode,
    /// Show all details of each server, even if there are several servers
    #[arg(long, help_heading = "Output", short)]
    pub(crate) long: bool,
    /// List the players (the default)
    #[arg(long, help_heading = "Output", overrides_with = "no_players")]
    pub(crate) players: bool,
    /// Do not request the list of players
    #[arg(long, help_heading = "Queries")]
    pub(crate) no_players: bool,
    /// Request only the short reply of the protocol
    #[arg(long, help_heading = "Queries")]
    pub(crate) basic: bool,
    /// Character set of texts that are not UTF-8, such as GBK, in protocols that declare none [default: a guess by content]
    #[arg(long, value_parser = values::charset, value_name = "NAME")]
    pub(crate) charset: Option<Charset>,
    /// Reject replies that deviate from the protocol
    #[arg(long, help_heading = "Queries")]
    pub(crate) strict: bool,
    /// Servers queried at the same time, 1 to 1024
    #[arg(long, help_heading = "Queries", default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) condition: ConditionArgs,
}

// Conditions about the answers. `--all` has several answers for each server.
#[derive(Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct ConditionArgs {
    /// Exit with 0 if a condition such as 'players = 0' is true of every server, with 3 if it is false or unknown
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["until", "wait_ready", "all", "raw", "icon"])]
    pub(crate) r#if: Option<Condition>,
    /// Query again until the condition is true of every server, then exit with 0
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["wait_ready", "all", "raw", "icon"])]
    pub(crate) until: Option<Condition>,
    /// Query again until players can join every server; short for --until ready --for TIME
    #[arg(long, value_parser = values::duration, value_name = "TIME", conflicts_with_all = ["all", "raw", "icon"])]
    pub(crate) wait_ready: Option<Duration>,
    /// Longest time for --until, after which the exit code is 3 [default: no limit]
    #[arg(long, value_parser = values::duration, value_name = "TIME", requires = "until")]
    pub(crate) r#for: Option<Duration>,
    /// How long the condition must stay true before the command exits with 0 [default: one query is enough]
    #[arg(long, value_parser = values::duration, value_name = "TIME", conflicts_with = "if")]
    pub(crate) hold: Option<Duration>,
    /// Time between two queries, at least 100ms [default: 10s]
    #[arg(long, value_parser = values::poll_interval, value_name = "TIME", conflicts_with = "if")]
    pub(crate) every: Option<Duration>,
}

#[derive(Args)]
pub(crate) struct Gamedig {
    /// Options and HOST[:PORT], in any order
    #[arg(
        hide = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::Hostname
    )]
    pub(crate) words: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct Discover {
    /// Search only in this protocol; may be given several times [default: all with broadcasts or announcements]
    #[arg(long, short, value_parser = values::protocol, value_name = "PROTOCOL")]
    pub(crate) protocol: Vec<&'static dyn Protocol>,
    /// Search only for servers of this game, at its ports; `hailer games` lists them
    #[arg(long, short, value_parser = GameIds, hide_possible_values = true, value_name = "GAME", conflicts_with = "protocol")]
    pub(crate) game: Option<String>,
    #[command(flatten)]
    pub(crate) games: MoreGames,
    /// Send broadcasts to this port; may be given several times [default: those of protocols and games]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Vec<u16>,
    /// Interface to search, by name or address; may be given several times [default: all with a private address]
    #[arg(long, short, value_name = "NAME|ADDRESS")]
    pub(crate) interface: Vec<String>,
    /// Time to wait for replies and announcements, 100ms to 1min; queries end at most 3 s later
    #[arg(long, default_value = "3s", value_parser = values::search_time, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Maximum number of servers
    #[arg(long, default_value_t = 1_024, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_servers: u16,
    /// Maximum number of servers at one address
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_ports: u16,
    /// Search until stopped
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Stop --watch after this time
    #[arg(long = "for", value_parser = values::duration, value_name = "TIME", requires = "watch")]
    pub(crate) r#for: Option<Duration>,
    /// Print one line of JSON for each server, as in schema/answer-v2.json
    #[arg(long)]
    pub(crate) json: bool,
}

// Options shared by the commands that name servers.
#[derive(Args)]
pub(crate) struct TargetArgs {
    /// Use only this protocol [default: the common ones, in waves]
    #[arg(long, help_heading = "Targets", short, value_parser = values::protocol, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<&'static dyn Protocol>,
    /// Game of targets without GAME://; `hailer games` lists them
    #[arg(long, help_heading = "Targets", short, value_parser = GameIds, hide_possible_values = true, value_name = "GAME", conflicts_with = "protocol")]
    pub(crate) game: Option<String>,
    #[command(flatten, next_help_heading = "Targets")]
    pub(crate) games: MoreGames,
    /// Longest time to wait for a reply, before a retry
    #[arg(long, help_heading = "Queries", default_value = "1s", value_parser = values::duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Name server for host names [default: the system's]
    #[arg(long, help_heading = "Targets", value_parser = values::name_server, value_name = "ADDRESS:PORT")]
    pub(crate) name_server: Option<SocketAddr>,
}

// Options shared by the commands that query a few servers.
#[derive(Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    /// Time for other protocols of the same game, once one has answered [default: three times the latency,
    /// 100 ms to 1 s]
    #[arg(long, help_heading = "Queries", value_parser = values::duration, value_name = "TIME")]
    pub(crate) wait: Option<Duration>,
    /// Local address to send from, with or without a port; over TCP, the port is any
    #[arg(long, help_heading = "Queries", value_parser = values::source, value_name = "ADDRESS[:PORT]")]
    pub(crate) source: Option<SocketAddr>,
    /// Encryption of protocols over HTTP: off, verified (HTTPS with a certificate for this name that a known
    /// authority signed), or any (HTTPS with any certificate) [default: that of the protocol]
    #[arg(long, help_heading = "Queries", value_parser = values::tls, value_name = "MODE")]
    pub(crate) tls: Option<Tls>,
}

// A file that adds games.
#[derive(Args)]
pub(crate) struct MoreGames {
    /// Add the games of a TOML file to the games table
    #[arg(long = "games", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}

// Authentication, for protocols that have it.
#[derive(Args)]
#[command(next_help_heading = "Queries")]
pub(crate) struct Auth {
    /// Auth token, for protocols that use one (prefer --auth-token-file: other users can see command lines)
    #[arg(
        long,
        value_name = "TOKEN",
        env = "HAILER_AUTH_TOKEN",
        hide_env_values = true
    )]
    pub(crate) auth_token: Option<String>,
    /// Read the auth token from the first line of a file; overrides --auth-token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) auth_token_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Sweep {
    /// Servers or address ranges to query; `-` reads them from standard input while the sweep runs
    #[arg(value_name = "TARGET", value_hint = ValueHint::Hostname)]
    pub(crate) given: Vec<String>,
    /// Read targets from a file or an http or https URL, one per line, or from a master server such as
    /// dpmaster://HOST/GAME; may be given several times
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath, help_heading = "Targets")]
    pub(crate) targets: Vec<PathBuf>,
    /// Query servers of master servers at private addresses too, also on networks of this machine
    #[arg(long, help_heading = "Targets")]
    pub(crate) allow_private: bool,
    /// Skip the addresses and ranges listed in a file or at a URL; may be given several times
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath, help_heading = "Targets")]
    pub(crate) exclude: Vec<PathBuf>,
    /// Protocol of targets without a game or protocol; may be given several times [default: minecraft-query, ugp, onequery]
    #[arg(long, short, value_parser = values::protocol, value_name = "PROTOCOL", help_heading = "Targets")]
    pub(crate) protocol: Vec<&'static dyn Protocol>,
    /// Game of targets without a game or protocol; `hailer games` lists them
    #[arg(long, short, value_parser = GameIds, hide_possible_values = true, value_name = "GAME", conflicts_with = "protocol", help_heading = "Targets")]
    pub(crate) game: Option<String>,
    #[command(flatten, next_help_heading = "Targets")]
    pub(crate) games: MoreGames,
    /// Query only one shard of the targets: 2/4 is the second of four, which together cover all targets
    #[arg(long, value_name = "I/N", help_heading = "Targets")]
    pub(crate) shard: Option<Shard>,
    /// Seed of the target order
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Targets")]
    pub(crate) seed: u64,
    /// Name server for host names [default: the system's]
    #[arg(long, value_parser = values::name_server, value_name = "ADDRESS:PORT", help_heading = "Targets")]
    pub(crate) name_server: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) pace: Pacing,
    #[command(flatten)]
    pub(crate) what: QueryContent,
    #[command(flatten)]
    pub(crate) writing: Writing,
}

// Rates, timeouts and limits of a sweep.
#[derive(Args)]
#[command(next_help_heading = "Rates and limits")]
pub(crate) struct Pacing {
    /// Maximum datagrams per second, such as 500, 20k or unlimited
    #[arg(long, default_value = "1000", value_parser = values::quantity, value_name = "N")]
    pub(crate) rate: f64,
    /// Maximum bits per second, such as 10M
    #[arg(long, default_value = "unlimited", value_parser = values::quantity, value_name = "N")]
    pub(crate) bandwidth: f64,
    /// Maximum datagrams per second to one network: a /24 of IPv4, a /48 of IPv6
    #[arg(long, default_value = "50", value_parser = values::quantity, value_name = "N")]
    pub(crate) per_network: f64,
    /// Local address to send from, with or without a port; over TCP, the port is any
    #[arg(long, value_parser = values::source, value_name = "ADDRESS[:PORT]")]
    pub(crate) source: Option<SocketAddr>,
    /// Longest time to wait for a reply, before a retry; shorter where measured delays allow it
    #[arg(long, default_value = "1s", value_parser = values::duration, value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Maximum retries after a timeout, 0 to 100; more than one only where datagrams get lost
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) retries: u32,
    /// Longest time for one query, including retries [default: 10s, or timeout × (retries + 1) if that is longer]
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) deadline: Option<Duration>,
    /// Threads that query servers, 1 to 64; rates and limits are for all of them together
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) threads: u8,
    /// How TCP connections are closed: reset is faster, fin is orderly
    #[arg(long, value_enum, default_value = "reset", value_name = "HOW")]
    pub(crate) tcp_close: TcpClose,
    /// Servers queried at the same time, at about 42 bytes of memory each
    #[arg(long, default_value_t = 4_000_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub(crate) max_in_flight: u32,
    /// Memory for incomplete answers, such as 64MiB; above this limit, the largest are ended early
    #[arg(long, default_value = "256MiB", value_parser = values::byte_size, value_name = "SIZE")]
    pub(crate) max_memory: usize,
    /// Stop after this time, including the time to read the targets; --resume continues the sweep
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
}

// Content of the queries of a sweep.
#[derive(Args)]
#[command(next_help_heading = "Queries")]
pub(crate) struct QueryContent {
    #[command(flatten)]
    pub(crate) auth: Auth,
    /// Request the list of players, and write it even if it is not among the default fields
    #[arg(long, overrides_with = "no_players")]
    pub(crate) players: bool,
    /// Do not request the list of players
    #[arg(long)]
    pub(crate) no_players: bool,
    /// Do not send separate requests for rules, which a2s and ugp have
    #[arg(long)]
    pub(crate) no_rules: bool,
    /// Request only the short reply of the protocol
    #[arg(long)]
    pub(crate) basic: bool,
    /// Character set of texts that are not UTF-8, such as GBK, in protocols that declare none [default: a guess by content]
    #[arg(long, value_parser = values::charset, value_name = "NAME")]
    pub(crate) charset: Option<Charset>,
    /// Reject replies that deviate from the protocol
    #[arg(long)]
    pub(crate) strict: bool,
}

// Output of a sweep.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Writing {
    /// File to write answers to, ending in .ndjson, .jsonl, .csv or .parquet
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Output format [default: by the name of the file; human-readable lines on standard output]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Print one line of JSON for each answer, as in schema/answer-v2.json; same as --format ndjson
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
    /// Fields to write, such as target,name,players_online; `list` shows all fields
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) fields: Vec<String>,
    /// Write failed queries too, not only answers
    #[arg(long)]
    pub(crate) failed: bool,
    /// Overwrite an existing file
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
    /// Continue where the same command stopped
    #[arg(long)]
    pub(crate) resume: bool,
    /// Checkpoint file, updated every second [default: name of the output file plus .checkpoint]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) checkpoint: Option<PathBuf>,
    /// At the end, write a JSON summary to a file, as in schema/sweep-summary-v2.json; `-` is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) summary: Option<PathBuf>,
    /// Print no progress and no human-readable summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// How a sweep closes TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TcpClose {
    /// With RST; sockets are reused, and none stays in TIME_WAIT
    Reset,
    /// With FIN; each server gets a new socket
    Fin,
}

/// Format of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Human-readable lines
    Lines,
    /// Lines of JSON
    #[value(alias = "json", alias = "jsonl")]
    Ndjson,
    /// Comma-separated values
    Csv,
    /// Parquet, compressed with zstd
    #[cfg(feature = "parquet")]
    Parquet,
}

#[derive(Args)]
pub(crate) struct Ping {
    /// Server to measure
    #[arg(value_hint = ValueHint::Hostname)]
    pub(crate) target: String,
    /// Number of round trips; 0 continues until Ctrl-C
    #[arg(long, short, default_value_t = 5, value_name = "N")]
    pub(crate) count: u32,
    /// Time between round trips, at least 100ms
    #[arg(long, short, default_value = "1s", value_parser = values::poll_interval, value_name = "TIME")]
    pub(crate) interval: Duration,
    /// Print one line of JSON for each round trip, and one for the summary
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) query_args: QueryArgs,
}

#[derive(Args)]
pub(crate) struct Serve {
    /// Read the servers from a TOML file
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Check the configuration file, report all mistakes, and stop
    #[arg(long, requires = "config")]
    pub(crate) check_config: bool,
    /// Print a complete configuration file with comments, and stop
    #[arg(long, exclusive = true)]
    pub(crate) example: bool,
    /// Address to listen on: ADDRESS (each protocol on its port), ADDRESS:PORT (all on one) or PROTOCOL=ADDRESS:PORT
    #[arg(long, short, value_name = "WHERE", conflicts_with = "config")]
    pub(crate) listen: Vec<String>,
    /// Protocol to respond in; may be given several times [default: minecraft-query, ugp, onequery]
    #[arg(long, short, value_parser = values::served_protocol, value_name = "PROTOCOL", conflicts_with = "config")]
    pub(crate) protocol: Vec<&'static dyn Protocol>,
    /// Simulate a server whose players come and go
    #[arg(long, conflicts_with = "config")]
    pub(crate) demo: bool,
    /// Seed of the simulated players
    #[arg(long, default_value_t = 1, value_name = "N", requires = "demo")]
    pub(crate) seed: u64,
    /// Name of the server
    #[arg(long, conflicts_with_all = ["config", "demo"])]
    pub(crate) name: Option<String>,
    /// Message of the day; color codes with & or the section sign
    #[arg(long, conflicts_with_all = ["config", "demo"])]
    pub(crate) motd: Option<String>,
    /// Icon: a PNG file of at most 64 KiB, usually 64 × 64 pixels
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["config", "demo"])]
    pub(crate) icon: Option<PathBuf>,
    /// Name of the game
    #[arg(long, conflicts_with_all = ["config", "demo"])]
    pub(crate) game: Option<String>,
    /// Game mode
    #[arg(long, conflicts_with_all = ["config", "demo"])]
    pub(crate) mode: Option<String>,
    /// Map or world
    #[arg(long, conflicts_with_all = ["config", "demo"])]
    pub(crate) map: Option<String>,
    /// Version of the game or the server
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["config", "demo"])]
    pub(crate) game_version: Option<String>,
    /// Maximum number of players
    #[arg(long, value_name = "N", conflicts_with_all = ["config", "demo"])]
    pub(crate) max_players: Option<i64>,
    /// Name of an online player; may be given several times
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "demo"])]
    pub(crate) player: Vec<String>,
    /// Rule of the server; may be given several times
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["config", "demo"])]
    pub(crate) rule: Vec<String>,
    /// Option of a protocol, with a TOML value; `hailer protocols PROTOCOL` lists them
    #[arg(
        long,
        short,
        value_name = "PROTOCOL.KEY=VALUE",
        conflicts_with = "config"
    )]
    pub(crate) option: Vec<String>,
    /// Announce the server to the local network, as Minecraft worlds do; needs --protocol minecraft-status
    #[arg(long, conflicts_with = "config")]
    pub(crate) lan_announce: bool,
    /// Stop after this time
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
    #[command(flatten)]
    pub(crate) observe: Observe,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) action: Option<ServeAction>,
}

#[derive(Args)]
pub(crate) struct Farm {
    /// Networks inside 127.0.0.0/8; every address becomes a server
    #[arg(value_name = "NETWORK", default_value = FARM_NETWORK, value_parser = values::network)]
    pub(crate) network: Vec<(Ipv4Addr, u8)>,
    /// Protocol to respond in; may be given several times [default: all]
    #[arg(long, short, value_parser = values::served_protocol, value_name = "PROTOCOL")]
    pub(crate) protocol: Vec<&'static dyn Protocol>,
    /// Port of a protocol; may be given several times; port 0 takes a free one [default: its usual port]
    #[arg(long, value_name = "PROTOCOL=PORT", value_parser = values::farm_port)]
    pub(crate) port: Vec<(&'static dyn Protocol, u16)>,
    /// Seed of the simulated servers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Number of different servers for each protocol, 1 to 1048576
    #[arg(long, default_value_t = 4096, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) variants: u32,
    /// Share of servers that never reply, such as 20% or 0.2
    #[arg(long, default_value = "0", value_parser = values::share, value_name = "SHARE", help_heading = "Network conditions")]
    pub(crate) silent: f64,
    /// Share of the other servers that reset TCP connections, such as 10% or 0.1
    #[arg(long, default_value = "0", value_parser = values::share, value_name = "SHARE", help_heading = "Network conditions")]
    pub(crate) refusing: f64,
    /// Share of datagrams lost in each direction, such as 1% or 0.01
    #[arg(long, default_value = "0", value_parser = values::share, value_name = "SHARE", help_heading = "Network conditions")]
    pub(crate) loss: f64,
    /// Share of replies sent twice, such as 1% or 0.01
    #[arg(long, default_value = "0", value_parser = values::share, value_name = "SHARE", help_heading = "Network conditions")]
    pub(crate) duplicates: f64,
    /// Delay of replies [default: none]
    #[arg(long, value_parser = values::duration, value_name = "TIME", help_heading = "Network conditions")]
    pub(crate) delay: Option<Duration>,
    /// Additional random delay of up to this time, which reorders replies
    #[arg(long, value_parser = values::duration, value_name = "TIME", help_heading = "Network conditions")]
    pub(crate) jitter: Option<Duration>,
    /// Stop after this time
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

#[derive(Subcommand)]
pub(crate) enum ServeAction {
    /// Show the state of a running hailer serve
    #[command(after_help = STATUS)]
    Status(ServeStatus),
    /// Start the game behind a door of a running hailer serve
    ///
    /// The game starts even if no player may wake it, and in the pause after a failure. The command
    /// does not wait until the game answers: see hailer serve status.
    Wake(ServeOrder),
    /// Stop the game behind a door of a running hailer serve
    ///
    /// The game stops even if players are online, and in the times of `keep`. The next join starts
    /// it again.
    Sleep(ServeOrder),
}

#[derive(Args)]
pub(crate) struct ServeOrder {
    /// Name of the server, as in hailer serve status
    #[arg(value_name = "NAME")]
    pub(crate) door: String,
    #[command(flatten)]
    pub(crate) running: Running,
}

#[derive(Args)]
pub(crate) struct ServeStatus {
    #[command(flatten)]
    pub(crate) running: Running,
    /// Print one line of JSON, as in schema/serve-status-v2.json
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "top")]
#[derive(Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) running: Running,
    /// Time between updates, 100ms to 1h
    #[arg(long, default_value = "1s", value_parser = values::update_interval, value_name = "TIME")]
    pub(crate) every: Duration,
}

// Selects a running `hailer serve`.
#[derive(Args)]
pub(crate) struct Running {
    #[cfg_attr(
        not(windows),
        doc = "Control socket of hailer serve [default: $XDG_RUNTIME_DIR/hailer/serve.sock, or else /run/hailer/serve.sock]"
    )]
    #[cfg_attr(
        windows,
        doc = r"Control pipe of hailer serve [default: \\.\pipe\hailer-serve]"
    )]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) control: Option<PathBuf>,
}

// Metrics and control socket of `hailer serve`.
#[derive(Args)]
#[command(next_help_heading = "Metrics and status")]
pub(crate) struct Observe {
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics, on loopback only
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::observe::loopback)]
    pub(crate) metrics: Option<SocketAddr>,
    #[cfg_attr(
        not(windows),
        doc = "Unix socket for `hailer serve status` and `hailer top`, or `off`\n[default: $XDG_RUNTIME_DIR/hailer/serve.sock, or else /run/hailer/serve.sock]"
    )]
    #[cfg_attr(
        windows,
        doc = r"Named pipe for `hailer serve status` and `hailer top`, or `off` [default: \\.\pipe\hailer-serve]"
    )]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) control: Option<PathBuf>,
}

impl Observe {
    /// Returns the addresses of the metrics and of the control socket.
    pub(crate) fn config(&self) -> crate::observe::ObserverConfig {
        use crate::observe::Control;
        let control = self.control.clone();
        crate::observe::ObserverConfig {
            metrics: self.metrics,
            control: control.map_or(Control::Default, Control::at),
        }
    }
}

#[derive(Args)]
pub(crate) struct Decode {
    /// Datagrams in hexadecimal, capture files (pcap, pcapng) or recorded game sessions (.hlr); `-` or no input reads
    /// one of these from standard input, with one hexadecimal datagram per line
    #[arg(value_name = "HEX|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<String>,
    /// Protocol of the bytes [default: detected]
    #[arg(long, short, value_parser = values::protocol, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<&'static dyn Protocol>,
    /// Direction of the bytes; in game sessions, show only packets of this direction
    #[arg(long, value_parser = values::direction, value_name = "request|reply")]
    pub(crate) direction: Option<Direction>,
    /// Print one line of JSON for each datagram or packet, as in schema/datagram-v2.json and schema/packet-v2.json
    #[arg(long)]
    pub(crate) json: bool,
    /// Show datagrams of unknown protocols in capture files too
    #[arg(long)]
    pub(crate) all: bool,
    #[cfg(feature = "game")]
    #[command(flatten)]
    pub(crate) game: DecodeGame,
}

#[derive(Args)]
pub(crate) struct Demo {
    /// Seed of the simulated servers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

#[derive(Args)]
pub(crate) struct Protocols {
    /// Protocol to show in full
    #[arg(value_parser = values::protocol, value_name = "PROTOCOL")]
    pub(crate) protocol: Option<&'static dyn Protocol>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Games {
    /// Words to find
    #[arg(value_parser = GameIds, hide_possible_values = true, value_name = "SEARCH")]
    pub(crate) search: Vec<String>,
    /// Show the games that cannot be queried too, with the reason
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) games: MoreGames,
    /// Print one line of JSON for each game, as in schema/game-v1.json
    #[arg(long)]
    pub(crate) json: bool,
}

/// Accepts any text. Completion scripts offer the ids of all games.
#[derive(Clone)]
struct GameIds;

impl TypedValueParser for GameIds {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let ids = GAMES_TABLE
            .iter()
            .map(|game| PossibleValue::new(game.id).help(game.name));
        Some(Box::new(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definitions_are_valid() {
        Arguments::command().debug_assert();
    }

    /// README and all guides.
    fn pages() -> Vec<String> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths = vec![root.join("README.md")];
        for entry in std::fs::read_dir(root.join("docs")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
        let read = |path| std::fs::read_to_string(path).unwrap();
        paths.into_iter().map(read).collect()
    }

    /// Splits a command into words. Quoted text may contain spaces.
    fn shell_words(command: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for c in command.chars() {
            match quote {
                Some(mark) if c == mark => quote = None,
                None if matches!(c, '\'' | '"') => quote = Some(c),
                None if c == ' ' => words.push(String::new()),
                _ => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    #[cfg(all(feature = "game", feature = "monitor", feature = "parquet"))]
    fn commands_of_the_guides_parse() {
        let mut parsed = 0;
        for page in pages() {
            let blocks = page
                .split("```sh\n")
                .skip(1)
                .filter_map(|rest| Some(rest.split_once("```")?.0));
            let lines = blocks
                .flat_map(str::lines)
                .filter_map(|line| line.split("  #").next());
            let commands = lines
                .flat_map(|line| line.split(" | "))
                .flat_map(|part| part.split(" && "))
                .filter(|part| part.starts_with("hailer "));
            for command in commands {
                if let Err(error) = Arguments::try_parse_from(shell_words(command)) {
                    panic!("{command}: {error}");
                }
                parsed += 1;
            }
        }
        assert!(parsed >= 40, "{parsed} commands found");
    }
}
