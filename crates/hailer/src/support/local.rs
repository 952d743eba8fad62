//! Local addresses that queries are sent from.
//!
//! In: a source address. Out: connections from it, or the problem with it.
//!
//! May import: nothing of this workspace.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use tokio::net::{TcpSocket, TcpStream};

/// Parses a local address: `ADDRESS` or `ADDRESS:PORT`. Without a port, the port is 0: any.
///
/// # Errors
/// The text is neither of them. The error has an example.
pub fn parse_source(text: &str) -> Result<SocketAddr, String> {
    let ip = text.trim_matches(['[', ']']).parse::<IpAddr>();
    let address = ip
        .map(|ip| SocketAddr::new(ip, 0))
        .or_else(|_| text.parse());
    address.map_err(|_| {
        "expected a local address, with or without a port, such as 192.0.2.7 or 192.0.2.7:27020"
            .into()
    })
}

/// Checks that datagrams can be sent from a local address.
///
/// # Errors
/// The address is not local, or another program uses the port. The text names the address.
pub fn check_source(source: SocketAddr) -> Result<(), String> {
    UdpSocket::bind(source)
        .map(drop)
        .map_err(|error| explain(source, &error))
}

fn explain(source: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrNotAvailable => {
            format!(
                "{} is not an address of this machine; `ip address` lists them",
                source.ip()
            )
        }
        ErrorKind::AddrInUse => format!("port {source} is in use by another program"),
        ErrorKind::PermissionDenied => format!("port {source} needs more rights"),
        _ => format!("{source}: {error}"),
    }
}

/// Returns a connection over TCP from a local address, on any port.
pub(crate) async fn connect_from(
    address: SocketAddr,
    source: Option<SocketAddr>,
) -> io::Result<TcpStream> {
    let Some(source) = source else {
        return TcpStream::connect(address).await;
    };
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.bind((source.ip(), 0).into())?;
    socket.connect(address).await
}

/// Returns whether a server can be reached from a source address: both have the same IP version.
pub(crate) fn can_reach(source: Option<SocketAddr>, server: SocketAddr) -> bool {
    source.is_none_or(|source| source.is_ipv4() == server.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_an_optional_port() {
        for (text, expected) in [
            ("192.0.2.7", "192.0.2.7:0"),
            ("192.0.2.7:27020", "192.0.2.7:27020"),
            ("2001:db8::7", "[2001:db8::7]:0"),
            ("[2001:db8::7]", "[2001:db8::7]:0"),
            ("[2001:db8::7]:5", "[2001:db8::7]:5"),
        ] {
            assert_eq!(parse_source(text), Ok(expected.parse().unwrap()), "{text}");
        }
        assert!(parse_source("example.com").is_err() && parse_source(":7").is_err());
    }

    #[test]
    fn unusable_sources_are_explained() {
        assert_eq!(check_source(([127, 0, 0, 1], 0).into()), Ok(()));
        let foreign = check_source(([192, 0, 2, 7], 0).into()).unwrap_err();
        assert!(
            foreign.contains("192.0.2.7 is not an address of this machine"),
            "{foreign}"
        );
        let used = UdpSocket::bind("127.0.0.1:0").unwrap();
        let used = check_source(used.local_addr().unwrap()).unwrap_err();
        assert!(used.contains("in use by another program"), "{used}");
    }
}
