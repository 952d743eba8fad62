//! The one connection to Redis, or to a cluster.

use super::settings::Redis;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, Pipeline, RedisFuture, RedisResult, Value};
use std::time::Duration;

/// Time to connect, and to answer one command. A network that swallows everything is noticed after so long.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Other nodes that a command is sent on to. To look for a cluster that is lost is the session's business.
const RETRIES: u32 = 3;

/// A connection.
pub(super) enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Link {
    pub(super) async fn connect(redis: &Redis) -> RedisResult<Self> {
        let tls = matches!(redis.info.addr(), ConnectionAddr::TcpTls { .. });
        if tls {
            // A program that has chosen a provider keeps it; without a choice, rustls panics where it finds two.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // Who gives a connection up takes back what it has not delivered. Else the system goes on trying to, for minutes, and what was
        // true when a network broke reaches Redis after what is true now.
        let tcp = TcpSettings::default().set_linger_time(Duration::ZERO);
        let info = redis.info.clone().set_tcp_settings(tcp.clone());
        if redis.cluster {
            let builder = ClusterClientBuilder::new([info]).tcp_settings(tcp);
            let builder = builder.connection_timeout(TIMEOUT).response_timeout(TIMEOUT);
            // Certificates would turn TLS on.
            let builder = if tls { builder.certs(redis.certificates()) } else { builder };
            let client = builder.retries(RETRIES).build()?;
            return Ok(Self::Cluster(client.get_async_connection().await?));
        }
        let config = AsyncConnectionConfig::new();
        let config = config.set_connection_timeout(Some(TIMEOUT)).set_response_timeout(Some(TIMEOUT));
        let client = match tls {
            true => Client::build_with_tls(info, redis.certificates())?,
            false => Client::open(info)?,
        };
        Ok(Self::Single(client.get_multiplexed_async_connection_with_config(&config).await?))
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Single(link) => link.req_packed_command(cmd),
            Self::Cluster(link) => link.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Single(link) => link.req_packed_commands(pipeline, offset, count),
            Self::Cluster(link) => link.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Single(link) => link.get_db(),
            Self::Cluster(link) => link.get_db(),
        }
    }
}
