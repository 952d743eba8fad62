//! The table `network` of a server: its membership in a OneQuery network.

use super::checker::{Checker, RedisKeys};
use super::reader::{FromText, IntegerBetween, Parsed, Time};
use hailer::Status;
pub(crate) use hailer::respond::network::{Health, Mode, Network, NetworkConfig};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// A table `network`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NetworkInput {
    url: Spanned<String>,
    server_id: Spanned<String>,
    network_id: Option<Spanned<String>>,
    prefix: Option<Spanned<String>>,
    host: Option<String>,
    port: Option<IntegerBetween<1, 65_535>>,
    mode: Option<Parsed<Mode>>,
    #[serde(default)]
    cluster: bool,
    heartbeat: Option<Spanned<Parsed<Time<1_000>>>>,
    refresh: Option<Spanned<Parsed<Time<1_000>>>>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    certificate_file: Option<Spanned<PathBuf>>,
    key_file: Option<Spanned<PathBuf>>,
}

impl FromText for Mode {
    const EXPECTED: &'static str = "\"publish\", \"sync\" or \"aggregate\"";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("{text:?}: expected {}", Self::EXPECTED))
    }
}

/// Converts the table `network` of a server with this status, if the file has it.
pub(super) fn config(
    input: &Spanned<NetworkInput>,
    status: Option<&Status>,
    checker: &mut Checker<'_>,
) -> Option<NetworkConfig> {
    let NetworkInput {
        url,
        server_id,
        network_id,
        prefix,
        heartbeat,
        refresh,
        ..
    } = input.get_ref();
    let mut config = match NetworkConfig::new(url.get_ref()) {
        Ok(config) => config,
        Err(error) => return checker.wrong(&url.span(), format!("server.network.{error}")),
    };
    config.server_id.clone_from(server_id.get_ref());
    if let Some(id) = network_id {
        config.network_id.clone_from(id.get_ref());
    }
    if let Some(prefix) = prefix {
        config.prefix.clone_from(prefix.get_ref());
    }
    // 0 stands for the listener's port, which is not known yet.
    config.host.clone_from(&input.get_ref().host);
    config.port = input
        .get_ref()
        .port
        .and_then(|IntegerBetween(port)| port.try_into().ok())
        .unwrap_or(0);
    config.mode = input
        .get_ref()
        .mode
        .as_ref()
        .map_or(config.mode, |Parsed(mode)| *mode);
    config.redis.is_cluster = input.get_ref().cluster;
    config.heartbeat = heartbeat
        .as_ref()
        .map_or(config.heartbeat, |time| time.get_ref().0.0);
    config.refresh = refresh
        .as_ref()
        .map_or(config.refresh, |time| time.get_ref().0.0);
    let keys = RedisKeys {
        user: &input.get_ref().user,
        password_file: &input.get_ref().password_file,
        ca_file: &input.get_ref().ca_file,
        certificate_file: &input.get_ref().certificate_file,
        key_file: &input.get_ref().key_file,
    };
    keys.apply("server.network", &mut config.redis, checker)?;
    if let Err(error) = config.check() {
        let span = match error.key {
            "server-id" => server_id.span(),
            "network-id" => network_id.as_ref().map_or(input.span(), Spanned::span),
            "prefix" => prefix.as_ref().map_or(input.span(), Spanned::span),
            "heartbeat" => heartbeat.as_ref().map_or(input.span(), Spanned::span),
            "refresh" => refresh.as_ref().map_or(input.span(), Spanned::span),
            _ => input.span(),
        };
        return checker.wrong(&span, format!("server.network.{error}"));
    }
    let players = status.map_or(&[][..], |status| &status.players.list);
    let without = players
        .iter()
        .filter(|player| player.uuid.is_none())
        .count();
    if without > 0 {
        let text = format!(
            "server.status.players: {without} without a uuid, which other servers of the network do not see; write {{ name = …, uuid = … }}"
        );
        checker.warn(&input.span(), text);
    }
    Some(config)
}
