//! Options of queries and sweeps, with the names of the tool's flags.

use crate::invalid;
use hailer::Target;
use hailer::client::{ClientConfig, QueryLimits};
use hailer::proto::{Ask, Charset, Depth, Protocol, Tls};
use hailer::support::{catalog, parse_source};
use hailer::sweep::{DefaultKinds, Shard, SweepConfig};
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest time that an option can set: a day.
const MAX_TIME_MS: f64 = 86_400_000.0;
/// Largest number of retries.
const MAX_RETRIES: u32 = 100;
/// Largest number of queries at the same time.
const MAX_CONCURRENCY: usize = 1_024;

/// Options that queries and sweeps share.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Options {
    protocol: Option<OneOrMore>,
    game: Option<String>,
    timeout: Option<f64>,
    retries: Option<u32>,
    deadline: Option<f64>,
    players: Option<bool>,
    rules: Option<bool>,
    basic: bool,
    strict: bool,
    auth_token: Option<String>,
    charset: Option<String>,
    source: Option<String>,
    name_server: Option<SocketAddr>,
    // Queries only.
    wait: Option<f64>,
    tls: Option<String>,
    send_host: Option<String>,
    proxy_header: bool,
    given_port_only: bool,
    pub(crate) concurrency: Option<usize>,
    // Sweeps only.
    rate: Option<f64>,
    bandwidth: Option<f64>,
    per_network: Option<f64>,
    pub(crate) exclude: Vec<String>,
    pub(crate) failed: Option<bool>,
    shard: Option<String>,
    pub(crate) seed: u64,
    max_in_flight: Option<usize>,
    max_memory: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl Options {
    /// Parses the options.
    pub(crate) fn parse(json: &str) -> napi::Result<Self> {
        let options: Self = serde_json::from_str(json).map_err(|error| {
            // The place in the JSON means nothing to the caller.
            let text = error.to_string();
            let problem = text.split(" at line ").next().unwrap_or_default();
            invalid(problem)
        })?;
        if options.game.is_some() && options.protocol.is_some() {
            return Err(invalid("game and protocol exclude each other"));
        }
        Ok(options)
    }

    /// Parses a target. Game and protocol of the options apply if it has none.
    pub(crate) fn target(&self, text: &str) -> Result<Target, hailer::Error> {
        let target: Target = text.parse()?;
        if target.protocol.is_some() {
            return Ok(target);
        }
        if let Some(game) = self.game.as_deref().and_then(catalog::game) {
            return Ok(target.with_game(game)?);
        }
        let protocol = self.protocols().into_iter().flatten().next();
        Ok(match protocol {
            Some(protocol) => target.with_protocol(protocol),
            None => target,
        })
    }

    /// Returns the named protocols.
    fn protocols(&self) -> napi::Result<Vec<&'static dyn Protocol>> {
        let ids = match &self.protocol {
            None => &[][..],
            Some(OneOrMore::One(id)) => std::slice::from_ref(id),
            Some(OneOrMore::More(ids)) => ids,
        };
        let find = |id: &String| {
            let found = catalog::protocol(id);
            found.ok_or_else(|| invalid(format!("protocol: {id} is unknown")))
        };
        ids.iter().map(find).collect()
    }

    /// Returns what targets without a game or protocol are queried in by a sweep.
    pub(crate) fn kinds(&self) -> napi::Result<DefaultKinds> {
        let kinds = match &self.game {
            Some(id) => {
                let game = catalog::game(id);
                DefaultKinds::of_game(
                    game.ok_or_else(|| invalid(format!("game: {id} is unknown")))?,
                )
            }
            None => DefaultKinds::new(&self.protocols()?),
        };
        kinds.map_err(invalid)
    }

    /// Returns the share of a sweep.
    pub(crate) fn shard(&self) -> napi::Result<Shard> {
        let shard = self.shard.as_deref().map(str::parse::<Shard>);
        let shard = shard.transpose();
        Ok(shard
            .map_err(|error| invalid(format!("shard: {error}")))?
            .unwrap_or_default())
    }

    pub(crate) fn name_server(&self) -> Option<SocketAddr> {
        self.name_server
    }

    /// Returns the number of queries at the same time.
    pub(crate) fn concurrency(&self) -> usize {
        self.concurrency.unwrap_or(64).clamp(1, MAX_CONCURRENCY)
    }

    fn source(&self) -> napi::Result<Option<SocketAddr>> {
        let source = self.source.as_deref().map(parse_source);
        source
            .transpose()
            .map_err(|error| invalid(format!("source: {error}")))
    }

    fn ask(&self, mut ask: Ask) -> napi::Result<Ask> {
        ask.has_players = self.players.unwrap_or(true);
        ask.has_rules = self.rules.unwrap_or(true);
        if self.basic {
            ask.depth = Depth::Basic;
        }
        ask.auth_token = self.auth_token.clone().map(Into::into);
        if let Some(name) = &self.charset {
            let charset = Charset::find(name);
            ask.charset =
                Some(charset.ok_or_else(|| invalid(format!("charset: {}", Charset::EXPECTED)))?);
        }
        ask.to.host = self.send_host.as_deref().unwrap_or_default().into();
        Ok(ask)
    }

    /// Applies the times. Without a deadline, there is time for all retries.
    fn limits(&self, mut limits: QueryLimits) -> napi::Result<QueryLimits> {
        if let Some(timeout) = self.timeout {
            limits.timeout = time("timeout", timeout)?;
        }
        if let Some(retries) = self.retries {
            limits.retries = retries.min(MAX_RETRIES);
        }
        let all_tries = limits
            .timeout
            .saturating_mul(limits.retries.saturating_add(1));
        limits.deadline = match self.deadline {
            Some(deadline) => time("deadline", deadline)?,
            None => limits.deadline.max(all_tries),
        };
        Ok(limits)
    }

    /// Builds the configuration of a client.
    pub(crate) fn client(&self) -> napi::Result<ClientConfig> {
        self.check_names()?;
        let mut config = ClientConfig::default();
        config.ask = self.ask(config.ask)?;
        config.limits = self.limits(config.limits)?;
        config.is_strict = self.strict;
        config.has_proxy_header = self.proxy_header;
        config.is_port_exact = self.given_port_only;
        config.source = self.source()?;
        config.name_server = self.name_server;
        if let Some(wait) = self.wait {
            config.wait = Some(time("wait", wait)?);
        }
        config.tls = match self.tls.as_deref() {
            None => None,
            Some("off") => Some(Tls::Off),
            Some("verified") => Some(Tls::Verified),
            Some("any") => Some(Tls::AnyCertificate),
            Some(_) => return Err(invalid("tls: expected off, verified or any")),
        };
        Ok(config)
    }

    fn check_names(&self) -> napi::Result<()> {
        self.protocols()?;
        match self.game.as_deref() {
            Some(id) if catalog::game(id).is_none() => {
                Err(invalid(format!("game: {id} is unknown")))
            }
            _ => Ok(()),
        }
    }

    /// Builds the configuration of a sweep.
    pub(crate) fn sweep(&self) -> napi::Result<SweepConfig> {
        let mut config = SweepConfig::default();
        config.ask = self.ask(config.ask)?;
        config.limits = self.limits(config.limits)?;
        config.is_strict = self.strict;
        config.source = self.source()?;
        let limits = &mut config.rate_limits;
        for (name, given, limit) in [
            ("rate", self.rate, &mut limits.rate),
            ("bandwidth", self.bandwidth, &mut limits.bandwidth),
            ("perNetwork", self.per_network, &mut limits.per_network),
        ] {
            match given {
                Some(rate) if rate > 0.0 => *limit = rate,
                Some(_) => return Err(invalid(format!("{name}: expected a number above 0"))),
                None => {}
            }
        }
        config.max_in_flight = self.max_in_flight.unwrap_or(config.max_in_flight).max(1);
        config.max_memory = self.max_memory.unwrap_or(config.max_memory);
        Ok(config)
    }
}

/// Converts milliseconds.
fn time(name: &str, ms: f64) -> napi::Result<Duration> {
    if ms > 0.0 && ms <= MAX_TIME_MS {
        return Ok(Duration::from_micros((ms * 1e3) as u64));
    }
    let problem = format!("{name}: expected milliseconds above 0 and up to {MAX_TIME_MS}");
    Err(invalid(problem))
}
