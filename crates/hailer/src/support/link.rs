//! Connections to Redis: a single server, the master named by Sentinels, or a cluster.
//!
//! In: a configuration. Out: connections.
//!
//! May import: nothing of this workspace.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, Pipeline, RedisError, RedisFuture, RedisResult, TlsCertificates, Value,
    cmd,
};
use std::fmt;
use std::time::Duration;
use tokio::sync::watch;

/// Time limit to connect, and for the reply to one command.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Time limit to connect, including all name lookups, Sentinels and cluster nodes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of redirections of a command in a cluster.
const RETRIES: u32 = 3;

/// Address and credentials of a Redis server. `Debug` output and errors never contain passwords or
/// keys.
#[derive(Clone)]
pub struct RedisConfig {
    pub(crate) info: ConnectionInfo,
    /// Whether the server is a node of a cluster. Its other nodes are discovered.
    pub is_cluster: bool,
    /// Certificate authorities in PEM. They replace those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Client certificate and its key, both in PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Sentinels, and the name of the master. They are queried before each connection.
    sentinels: Option<(Vec<ConnectionAddr>, String)>,
}

/// An invalid URL of a Redis server. Contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("url: {problem}")]
pub struct RedisUrlError {
    /// Problem, and how to fix it.
    pub problem: &'static str,
}

impl RedisConfig {
    /// Parses `redis://user:password@host:port/database`, or `rediss:` for TLS. Only the host is
    /// required. `redis+cluster:` names a node of a cluster;
    /// `redis+sentinel://user:password@host:26379,host:26379/MASTER/database` names sentinels, with
    /// user and password of Redis itself.
    ///
    /// # Errors
    /// The URL is invalid. The error contains no secrets.
    pub fn new(url: &str) -> Result<Self, RedisUrlError> {
        let wrong = |problem| RedisUrlError { problem };
        // The error of the parser may contain the password.
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !matches!(scheme, "redis" | "rediss") || !matches!(kind, "" | "cluster" | "sentinel") {
            return Err(wrong("must begin with redis:// or, for TLS, rediss://"));
        }
        if url.contains('#') {
            return Err(wrong("must not have a #; in a password write %23 for it"));
        }
        if kind == "sentinel" {
            return Self::behind_sentinels(scheme, rest);
        }
        let form = "must look like redis://user:password@host:6379/0; in a password write %40 for @, %3A for :, %2F for /";
        let info = format!("{scheme}://{rest}")
            .into_connection_info()
            .map_err(|_| wrong(form))?;
        Ok(Self {
            info,
            is_cluster: kind == "cluster",
            authorities: None,
            identity: None,
            sentinels: None,
        })
    }

    fn behind_sentinels(scheme: &str, rest: &str) -> Result<Self, RedisUrlError> {
        let wrong = || RedisUrlError {
            problem: "must look like redis+sentinel://user:password@host:26379,host:26379/MASTER/0",
        };
        let (user, rest) = rest
            .rsplit_once('@')
            .map_or(("", rest), |(user, rest)| (user, rest));
        let (hosts, path) = rest.split_once('/').ok_or_else(wrong)?;
        let (master, database) = path.split_once('/').unwrap_or((path, "0"));
        if master.is_empty() || hosts.split(',').count() > 64 {
            return Err(wrong());
        }
        let mut sentinels = Vec::new();
        for host in hosts.split(',') {
            let has_port = host
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let port = if has_port { "" } else { ":26379" };
            let info = format!("{scheme}://{host}{port}")
                .into_connection_info()
                .map_err(|_| wrong())?;
            sentinels.push(info.addr().clone());
        }
        let at = if user.is_empty() { "" } else { "@" };
        let first = hosts.split(',').next().unwrap_or_default();
        let info = format!("{scheme}://{user}{at}{first}/{database}")
            .into_connection_info()
            .map_err(|_| wrong())?;
        let sentinels = Some((sentinels, master.to_owned()));
        Ok(Self {
            info,
            is_cluster: false,
            authorities: None,
            identity: None,
            sentinels,
        })
    }

    /// Sets user and password. They need no escapes here, unlike in a URL.
    pub fn log_in(&mut self, user: Option<&str>, password: &str) {
        let mut config = self.info.redis_settings().clone().set_password(password);
        if let Some(user) = user {
            config = config.set_username(user);
        }
        self.info = self.info.clone().set_redis_settings(config);
    }

    pub(crate) fn certificates(&self) -> TlsCertificates {
        let identity = |(client_cert, client_key)| ClientTlsConfig {
            client_cert,
            client_key,
        };
        TlsCertificates {
            client_tls: self.identity.clone().map(identity),
            root_cert: self.authorities.clone(),
        }
    }

    /// Removes the password from a text, because servers repeat unknown commands in errors.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        match self
            .info
            .redis_settings()
            .password()
            .filter(|password| !password.is_empty())
        {
            Some(password) => text.replace(password, "…"),
            None => text.into(),
        }
    }
}

impl RedisConfig {
    /// Connects within 4 s, including all name lookups. A broken connection is not repaired; connect
    /// again.
    ///
    /// # Errors
    /// The connection failed. The text contains the address and no secrets.
    pub async fn connect(&self) -> Result<RedisConnection, String> {
        match tokio::time::timeout(CONNECT_TIMEOUT, RedisConnection::open(self)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.describe(&error)),
            Err(_) => Err(format!(
                "Redis at {self}: no connection within {CONNECT_TIMEOUT:?}"
            )),
        }
    }

    /// Formats an error with the address in front and without secrets.
    pub fn describe(&self, error: &RedisError) -> String {
        format!(
            "Redis at {self}: {}",
            self.without_secrets(&error.to_string())
        )
    }
}

/// Waits until `stop` is true or its sender is gone.
pub async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

impl PartialEq for RedisConfig {
    /// Returns whether both configurations lead to the same Redis with the same credentials.
    fn eq(&self, other: &Self) -> bool {
        let own = self.info.redis_settings();
        let others = other.info.redis_settings();
        self.info.addr() == other.info.addr()
            && (own.db(), own.username(), own.password())
                == (others.db(), others.username(), others.password())
            && self.is_cluster == other.is_cluster
            && self.authorities == other.authorities
            && self.identity == other.identity
            && self.sentinels == other.sentinels
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisConfig({self})")
    }
}

impl fmt::Display for RedisConfig {
    /// Formats host and port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(f)
    }
}

/// Connection to Redis. Clones share it.
#[derive(Clone)]
pub struct RedisConnection(Kind);

#[derive(Clone)]
enum Kind {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisConnection")
    }
}

impl RedisConnection {
    /// Connects. The error may contain the password.
    async fn open(redis: &RedisConfig) -> RedisResult<Self> {
        let tls = matches!(redis.info.addr(), ConnectionAddr::TcpTls { .. });
        if tls {
            // Keeps a provider that the program has selected. Without a selection, rustls panics if
            // it finds two.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // Closing discards unsent data. Otherwise the system tries to send it for minutes, and
        // outdated writes reach Redis after newer ones.
        let tcp = TcpSettings::default().set_linger_time(Duration::ZERO);
        let info = match &redis.sentinels {
            Some((sentinels, master)) => redis
                .info
                .clone()
                .set_addr(master_of(redis, sentinels, master, &tcp).await?),
            None => redis.info.clone(),
        };
        let info = info.set_tcp_settings(tcp.clone());
        if redis.is_cluster {
            let builder = ClusterClientBuilder::new([info]).tcp_settings(tcp);
            let builder = builder
                .connection_timeout(TIMEOUT)
                .response_timeout(TIMEOUT);
            // Passing certificates enables TLS.
            let builder = if tls {
                builder.certs(redis.certificates())
            } else {
                builder
            };
            let client = builder.retries(RETRIES).build()?;
            return Ok(Self(Kind::Cluster(client.get_async_connection().await?)));
        }
        Ok(Self(Kind::Single(connect(redis, info).await?)))
    }
}

async fn connect(redis: &RedisConfig, info: ConnectionInfo) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new();
    let config = config
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT));
    let client = match info.addr() {
        ConnectionAddr::TcpTls { .. } => Client::build_with_tls(info, redis.certificates())?,
        _ => Client::open(info)?,
    };
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Returns the address of the master from the first sentinel that knows it.
async fn master_of(
    redis: &RedisConfig,
    sentinels: &[ConnectionAddr],
    master: &str,
    tcp: &TcpSettings,
) -> RedisResult<ConnectionAddr> {
    let mut last = None;
    for sentinel in sentinels {
        // Sentinels have no databases, and their users differ from those of Redis: connect without
        // credentials.
        let info = sentinel
            .clone()
            .into_connection_info()?
            .set_tcp_settings(tcp.clone());
        let reply = async {
            let mut link = connect(redis, info).await?;
            let ask = cmd("SENTINEL")
                .arg("get-master-addr-by-name")
                .arg(master)
                .to_owned();
            ask.query_async::<Option<(String, u16)>>(&mut link).await
        };
        match reply.await {
            Ok(Some((host, port))) => {
                return Ok(match sentinel {
                    ConnectionAddr::TcpTls { .. } => ConnectionAddr::TcpTls {
                        host,
                        port,
                        insecure: false,
                        tls_params: None,
                    },
                    _ => ConnectionAddr::Tcp(host, port),
                });
            }
            Ok(None) => last = Some(format!("{sentinel} knows no master {master:?}")),
            Err(error) => last = Some(format!("{sentinel}: {error}")),
        }
    }
    let last = last.unwrap_or_default();
    Err(RedisError::from((
        redis::ErrorKind::Io,
        "no sentinel names a master",
        last,
    )))
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.0 {
            Kind::Single(link) => link.req_packed_command(cmd),
            Kind::Cluster(link) => link.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.0 {
            Kind::Single(link) => link.req_packed_commands(pipeline, offset, count),
            Kind::Cluster(link) => link.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match &self.0 {
            Kind::Single(link) => link.get_db(),
            Kind::Cluster(link) => link.get_db(),
        }
    }
}
