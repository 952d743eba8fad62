//! Options of queries and sweeps, from dictionaries whose keys are the arguments of the Python functions.

use hailer::client::ClientConfig;
use hailer::proto::model::Charset;
use hailer::proto::{Ask, Depth, Protocol};
use hailer::support::{catalog, check_source, parse_source};
use hailer::sweep;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Port of name servers.
const DNS_PORT: u16 = 53;

/// Options that queries and sweeps share.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct QueryOptions {
    timeout: Option<f64>,
    retries: Option<u32>,
    deadline: Option<f64>,
    depth: String,
    players: bool,
    rules: bool,
    charset: Option<String>,
    auth_token: Option<String>,
    strict: bool,
    source: Option<String>,
    name_server: Option<String>,
}

/// Options of sweeps alone.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SweepOptions {
    pub(crate) protocols: Vec<String>,
    pub(crate) game: Option<String>,
    pub(crate) exclude: Vec<String>,
    pub(crate) rate: f64,
    pub(crate) per_network: f64,
    pub(crate) bandwidth: Option<f64>,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) shard: Option<(u64, u64)>,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) max_memory: Option<usize>,
    pub(crate) failures: bool,
}

/// Returns the error of an option.
pub(crate) fn invalid(name: &str, problem: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {problem}"))
}

/// Returns a time that is above zero.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    let time = Duration::try_from_secs_f64(seconds);
    match time {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(invalid(name, "expected a number of seconds above 0")),
    }
}

/// Returns the protocol with this id.
pub(crate) fn protocol(id: &str) -> PyResult<&'static dyn Protocol> {
    catalog::protocol(id).ok_or_else(|| {
        let hint = catalog::suggestion(id)
            .map_or_else(String::new, |near| format!("; did you mean {near}?"));
        invalid("protocol", format!("no protocol has the id {id:?}{hint}"))
    })
}

fn name_server(text: &str) -> PyResult<SocketAddr> {
    let address = text.parse::<SocketAddr>();
    let address = address.or_else(|_| {
        text.parse::<IpAddr>()
            .map(|ip| SocketAddr::new(ip, DNS_PORT))
    });
    address.map_err(|_| {
        invalid(
            "name_server",
            "expected an address such as 192.0.2.53 or 192.0.2.53:5353",
        )
    })
}

impl QueryOptions {
    fn ask(&self, default: Ask) -> PyResult<Ask> {
        let depth = match &*self.depth {
            "full" => Depth::Full,
            "basic" => Depth::Basic,
            "ping" => Depth::Ping,
            _ => return Err(invalid("depth", "expected \"full\", \"basic\" or \"ping\"")),
        };
        let charset = match &self.charset {
            Some(name) => {
                Some(Charset::find(name).ok_or_else(|| invalid("charset", Charset::EXPECTED))?)
            }
            None => None,
        };
        Ok(Ask {
            depth,
            has_players: self.players,
            has_rules: self.rules,
            charset,
            auth_token: self.auth_token.as_deref().map(Into::into),
            ..default
        })
    }

    fn source(&self) -> PyResult<Option<SocketAddr>> {
        let Some(text) = &self.source else {
            return Ok(None);
        };
        let source = parse_source(text).and_then(|source| check_source(source).map(|()| source));
        source
            .map(Some)
            .map_err(|problem| invalid("source", problem))
    }

    pub(crate) fn name_server(&self) -> PyResult<Option<SocketAddr>> {
        self.name_server.as_deref().map(name_server).transpose()
    }

    /// Returns the configuration of a client.
    pub(crate) fn client(&self) -> PyResult<ClientConfig> {
        let mut config = ClientConfig::default();
        config.ask = self.ask(config.ask)?;
        self.limit(&mut config.limits)?;
        config.is_strict = self.strict;
        config.source = self.source()?;
        config.name_server = self.name_server()?;
        Ok(config)
    }

    fn limit(&self, limits: &mut hailer::client::QueryLimits) -> PyResult<()> {
        if let Some(timeout) = self.timeout {
            limits.timeout = seconds("timeout", timeout)?;
        }
        limits.retries = self.retries.unwrap_or(limits.retries);
        let deadline = self.deadline.map(|deadline| seconds("deadline", deadline));
        limits.leave_time(deadline.transpose()?);
        Ok(())
    }

    /// Returns the configuration of a sweep.
    pub(crate) fn sweep(&self, of_sweep: &SweepOptions) -> PyResult<sweep::SweepConfig> {
        let mut config = sweep::SweepConfig::default();
        config.ask = self.ask(config.ask)?;
        self.limit(&mut config.limits)?;
        config.is_strict = self.strict;
        config.source = self.source()?;
        let rate = |name: &str, rate: f64| match rate {
            rate if rate > 0.0 => Ok(rate),
            _ => Err(invalid(name, "expected a number above 0")),
        };
        config.rate_limits.rate = rate("rate", of_sweep.rate)?;
        config.rate_limits.per_network = rate("per_network", of_sweep.per_network)?;
        if let Some(bandwidth) = of_sweep.bandwidth {
            config.rate_limits.bandwidth = rate("bandwidth", bandwidth)?;
        }
        config.max_in_flight = of_sweep.max_in_flight.unwrap_or(config.max_in_flight);
        config.max_memory = of_sweep.max_memory.unwrap_or(config.max_memory);
        if config.max_in_flight == 0 {
            return Err(invalid("max_in_flight", "expected a number above 0"));
        }
        if !(1..=64).contains(&of_sweep.threads) {
            return Err(invalid("threads", "expected a number from 1 to 64"));
        }
        if of_sweep.threads > 1 && config.source.is_some_and(|source| source.port() != 0) {
            return Err(invalid(
                "source",
                "with a port, a sweep has one thread: threads cannot share a port",
            ));
        }
        Ok(config)
    }
}
