//! Name servers of the operating system.
//!
//! In: `/etc/resolv.conf`, or the network adapters of Windows. Out: addresses, at most
//! [`MAX_SERVERS`].
//!
//! May import: nothing.

use std::net::SocketAddr;

/// Maximum number of name servers. The C library uses as many.
const MAX_SERVERS: usize = 3;
/// Port of name servers.
const PORT: u16 = 53;

/// Returns the name servers in the order in which they are tried. They are read for each lookup,
/// because they change when a computer joins another network. None if they are unknown.
#[cfg(unix)]
pub(super) fn name_servers() -> Vec<SocketAddr> {
    use std::io::Read;
    /// Maximum size of the file.
    const MAX_BYTES: u64 = 64 * 1024;
    let mut text = Vec::new();
    // A missing file is like an empty one.
    let _ = std::fs::File::open("/etc/resolv.conf")
        .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
    in_file(&text)
}

/// Returns the name servers that a file in the form of `/etc/resolv.conf` has. Without any, it is this
/// machine, as for the C library.
#[cfg(unix)]
fn in_file(text: &[u8]) -> Vec<SocketAddr> {
    use resolv_conf::{Config, ScopedIp};
    use std::net::ToSocketAddrs;
    let (config, _) = Config::parse_with_errors(text);
    let addresses = config.nameservers.into_iter();
    let servers = addresses.filter_map(|ip| match ip {
        // The system knows the interfaces that zones name. It asks no name server for that.
        ScopedIp::V6(ip, Some(zone)) => (format!("{ip}%{zone}"), PORT)
            .to_socket_addrs()
            .ok()?
            .next(),
        ip => Some(SocketAddr::new(ip.into(), PORT)),
    });
    let mut servers: Vec<SocketAddr> = servers.take(MAX_SERVERS).collect();
    if servers.is_empty() {
        servers.push((std::net::Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

/// Returns the name servers of all adapters that are connected. None if they are unknown.
#[cfg(windows)]
pub(super) fn name_servers() -> Vec<SocketAddr> {
    let adapters = ipconfig::get_adapters().unwrap_or_default();
    let connected = adapters
        .iter()
        .filter(|adapter| adapter.oper_status() == ipconfig::OperStatus::IfOperStatusUp);
    let servers = connected.flat_map(|adapter| adapter.dns_servers());
    // Windows lists these addresses, which are not in use, for adapters without a name server.
    let servers = servers.filter(|ip| !ip.to_string().starts_with("fec0:"));
    servers
        .map(|ip| SocketAddr::new(*ip, PORT))
        .take(MAX_SERVERS)
        .collect()
}

/// Returns no name servers, so that SRV records are not found.
#[cfg(not(any(unix, windows)))]
pub(super) fn name_servers() -> Vec<SocketAddr> {
    Vec::new()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_the_first_three_of_the_file() {
        let text =
            b"# comment\nsearch example.test\nnameserver 192.0.2.1\noptions edns0 nonsense\n\
            nameserver 2001:db8::1\nnameserver fe80::1%lo\nnameserver 192.0.2.2\nbroken line\n";
        let servers: Vec<String> = in_file(text).iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers.len(), MAX_SERVERS);
        assert_eq!(servers[..2], ["192.0.2.1:53", "[2001:db8::1]:53"]);
        assert!(servers[2].starts_with("[fe80::1%"), "{servers:?}");
        assert_eq!(in_file(b""), [SocketAddr::from(([127, 0, 0, 1], 53))]);
    }
}
