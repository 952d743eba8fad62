//! Parsers of argument values that several commands use.
//!
//! A parser returns the value, or a sentence with the expected form.

use hailer::Target;
use hailer::proto::registry;
use hailer::proto::{Charset, Direction, Game, Protocol, Tls};
use hailer::support::catalog;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Returns the game with an id or alias, or the problem and its fix.
pub(crate) fn game_of(id: &str) -> Result<&'static Game, String> {
    catalog::game(&id.to_ascii_lowercase()).ok_or_else(|| match catalog::suggestion(id) {
        Some(close) if close == id => format!("it is a protocol; write --protocol {id}"),
        Some(close) => format!("unknown game; did you mean {close}?"),
        None => "unknown game; `hailer games` lists them".into(),
    })
}

/// Returns whether the URL of a target names a protocol, or another game.
pub(crate) fn names_another(target: &Target, game: &Game) -> bool {
    match target.game {
        Some(other) => other.id != game.id,
        None => target.protocol.is_some(),
    }
}

pub(crate) fn protocol(id: &str) -> Result<&'static dyn Protocol, String> {
    registry::find(id).ok_or_else(|| no_protocol(id))
}

/// Returns why a word is no protocol, and the closest one.
fn no_protocol(id: &str) -> String {
    let ids = registry::PROTOCOLS.iter().map(|known| known.info().id);
    let game = catalog::game(&id.to_ascii_lowercase());
    let own = game.and_then(|game| Some((game, catalog::protocols_of(game).first()?.info().id)));
    match own {
        _ if id == GAME => format!("{id} is the game itself; its status is minecraft-status"),
        _ if id.is_empty() => format!("the known protocols are {}", registry::known()),
        _ if id.parse::<u16>().is_ok() => {
            format!("a port belongs to the target, as in HOST:{id}")
        }
        Some((game, protocol)) => {
            format!("{} is a game; its protocol is {protocol}", game.name)
        }
        None => match catalog::closest(id, ids) {
            Some(close) => format!("did you mean {close}?"),
            None => "unknown protocol; `hailer protocols` lists them".into(),
        },
    }
}

/// Name of the game's own protocol, which `hailer world` serves.
pub(crate) const GAME: &str = "minecraft-12w";

/// Parses a protocol that `hailer serve` can respond in.
pub(crate) fn served_protocol(id: &str) -> Result<&'static dyn Protocol, String> {
    if id == GAME {
        return Err(format!(
            "{id} is the game itself: run `hailer world` for it"
        ));
    }
    match protocol(id)? {
        protocol if protocol.info().has_responder => Ok(protocol),
        _ => Err("it has no responder; Hailer only queries its servers".into()),
    }
}

/// Parses `500`, `20k`, `1.5M`, `unlimited`; at least 0.1.
pub(crate) fn quantity(text: &str) -> Result<f64, String> {
    if text == "unlimited" {
        return Ok(f64::INFINITY);
    }
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        Some(b'G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().ok().map(|number| number * factor);
    let number = number.filter(|number| number.is_finite() && *number >= 0.1);
    number.ok_or_else(|| {
        "expected a number such as 500, 20k or 1.5M, at least 0.1, or unlimited".into()
    })
}

pub(crate) fn byte_size(text: &str) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    for (unit, shift) in units {
        let number = text
            .strip_suffix(unit)
            .and_then(|digits| digits.trim_end().parse::<usize>().ok());
        if let Some(bytes) = number.and_then(|number| number.checked_mul(1 << shift)) {
            return Ok(bytes);
        }
    }
    Err("expected a size such as 512KiB, 256MiB or 2GiB".into())
}

pub(crate) fn charset(text: &str) -> Result<Charset, String> {
    Charset::find(text).ok_or_else(|| Charset::EXPECTED.into())
}

pub(crate) fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "request" | "to-server" => Ok(Direction::Request),
        "reply" | "to-client" => Ok(Direction::Reply),
        _ => {
            Err("expected request or reply (or to-server or to-client, which mean the same)".into())
        }
    }
}

pub(crate) fn tls(text: &str) -> Result<Tls, String> {
    match text {
        "off" => Ok(Tls::Off),
        "verified" => Ok(Tls::Verified),
        "any" => Ok(Tls::AnyCertificate),
        _ => Err("expected off, verified or any".into()),
    }
}

/// Parses an interval that the control socket accepts: 100 ms to 1 h.
#[cfg(feature = "top")]
pub(crate) fn update_interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    let fits = (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time);
    if fits {
        Ok(time)
    } else {
        Err("expected a time from 100ms to 1h".into())
    }
}

pub(crate) fn name_server(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an IP address and a port, such as 192.0.2.53:53".into())
}

/// Parses a local address, and checks that it can be used.
pub(crate) fn source(text: &str) -> Result<SocketAddr, String> {
    let source = hailer::support::parse_source(text)?;
    hailer::support::check_source(source)?;
    Ok(source)
}

pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        wrong_port(text).unwrap_or_else(|| {
            "expected an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080".into()
        })
    })
}

/// Explains the port of an address to listen on, if only the port is wrong or the address is missing.
pub(crate) fn wrong_port(text: &str) -> Option<String> {
    const RANGE: &str = "must be a number from 1 to 65535";
    let port = text.strip_prefix(':').unwrap_or(text);
    if !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some(match port.parse::<u16>() {
            Ok(port) => format!(
                "the address is missing; write 127.0.0.1:{port}, or 0.0.0.0:{port} for all networks"
            ),
            Err(_) => format!("the address is missing, and the port {port} {RANGE}"),
        });
    }
    let (host, port) = text.rsplit_once(':')?;
    if host == "localhost" {
        return Some(format!("expected an IP address, such as 127.0.0.1:{port}"));
    }
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    host.parse::<IpAddr>().ok()?;
    let is_valid = port.parse::<u16>().is_ok();
    (!is_valid).then(|| format!("the port {port} {RANGE}"))
}

pub(crate) fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let network = address
        .parse()
        .ok()
        .zip(bits.parse().ok().filter(|bits| *bits <= 32));
    network.ok_or_else(|| "expected a network such as 127.0.0.0/8".into())
}

pub(crate) fn farm_port(text: &str) -> Result<(&'static dyn Protocol, u16), String> {
    let (id, port) = text
        .split_once('=')
        .ok_or("expected PROTOCOL=PORT, such as ugp=22000")?;
    let port = port
        .parse()
        .map_err(|_| "expected a port from 0 to 65535")?;
    Ok((protocol(id)?, port))
}

/// Parses `20%` or `0.2` into a share from 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent
            .trim_end()
            .parse()
            .map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share such as 20% or 0.2, at most 100%".into())
}

/// Longest time that arguments and configuration files accept.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(366 * 86_400);

/// Parses `1s`, `500ms` or `1m 30s`; a number without a unit is in seconds. At most 366 days.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = || Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let time = seconds().or_else(|| humantime::parse_duration(text).ok());
    let time = time.ok_or("expected a time such as 1s, 500ms or 2m")?;
    if time.is_zero() || time > MAX_TIME {
        return Err("expected a time above 0 and up to 366 days".into());
    }
    Ok(time)
}

/// Parses the length of a search: 100 ms to 1 min.
pub(crate) fn search_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(60)).contains(&time) {
        Ok(time)
    } else {
        Err("expected a time from 100ms to 1min".into())
    }
}

/// Parses an interval of at least 100 ms. Shorter ones would flood the server.
pub(crate) fn poll_interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_millis(100) {
        Err("expected a time of at least 100ms".into())
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, expected) in [
            ("500", 500.0),
            ("20k", 20e3),
            ("1.5M", 1.5e6),
            ("1G", 1e9),
            ("unlimited", f64::INFINITY),
        ] {
            assert_eq!(quantity(text), Ok(expected), "{text}");
        }
        for wrong in [
            "", "k", "0", "-1", "inf", "NaN", "1e308M", "many", "10m", "é",
        ] {
            assert!(quantity(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "soon", "1e300", "NaN", "900y"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(poll_interval("10ms").is_err());
    }

    #[test]
    fn shares() {
        assert_eq!(
            ["20%", "0.2", "100 %", "1", "0"].map(share),
            [Ok(0.2), Ok(0.2), Ok(1.0), Ok(1.0), Ok(0.0)]
        );
        for wrong in ["", "%", "20", "-1%", "101%", "NaN", "half"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks() {
        assert_eq!(network("127.3.0.0/16"), Ok(([127, 3, 0, 0].into(), 16)));
        assert_eq!(network("127.3.2.1"), Ok(([127, 3, 2, 1].into(), 32)));
        for wrong in [
            "",
            "/8",
            "127.0.0.0/33",
            "127/8",
            "::1/128",
            "127.0.0.0/8/8",
            "127.0.0.0/-1",
        ] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
