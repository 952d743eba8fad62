//! Host names that belong to this monitor.

use std::net::IpAddr;

/// Returns the name of `NAME:PORT`.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a host name belongs to this monitor: an address, `localhost`, or one of `allowed`. Other
/// names may point to this address without permission, to make browsers read the pages for another
/// site (DNS rebinding).
pub(crate) fn is_own_host(name: &str, allowed: &[String]) -> bool {
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address
        || name.eq_ignore_ascii_case("localhost")
        || allowed.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_configured_names_are_own_hosts() {
        let hosts = ["Status.example.com".to_owned()];
        let is_own = |host: &str| is_own_host(without_port(host), &hosts);
        for good in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "localhost",
            "LOCALHOST:80",
            "status.example.com:443",
        ] {
            assert!(is_own(good), "{good}");
        }
        for bad in [
            "evil.example.com",
            "localhost.example.com",
            "status.example.com.:80",
            "",
            "a:b",
            "127.0.0.1.example",
        ] {
            assert!(!is_own(bad), "{bad}");
        }
    }
}
