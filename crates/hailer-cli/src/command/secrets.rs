//! File of session secrets. `join` and `proxy` write it, so that captures can be decrypted.
//!
//! ```text
//! 2012-08-16T12:00:00Z 127.0.0.1:50001 127.0.0.1:25566 client 1.3.2 000102030405060708090a0b0c0d0e0f
//! time                 client          server          side   build secret
//! ```
//!
//! One line for each encrypted TCP connection. `client` is a connection between client and proxy,
//! `server` one between proxy or bot and server. The secret is valid for both directions. Lines
//! that begin with `#` are comments.
//!
//! In: secrets of sessions, or a file. Out: lines of the file, or secrets.
//!
//! May import: `crate::exit`, `crate::files`, `hailer`.

use crate::exit::{OrUsage, usage};
use crate::files::append_private;
use hailer::minecraft::game::Build;
use hailer::minecraft::proxy;
use hailer::proto::wire::hexadecimal;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Opens the file to append lines. A new file is readable by its owner only.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn append(path: &Path) -> anyhow::Result<File> {
    Ok(append_private(path).or_usage_in(format_args!("--secrets {}", path.display()))?)
}

/// Appends a line.
pub(crate) fn write(
    file: &mut File,
    now: SystemTime,
    secret: &proxy::SessionSecret<'_>,
) -> std::io::Result<()> {
    let proxy::SessionSecret {
        side,
        client,
        server,
        build,
        secret,
    } = secret;
    let hex = hexadecimal(secret);
    let time = humantime::format_rfc3339_seconds(now);
    // A single write, so that two proxies can share the file.
    file.write_all(format!("{time} {client} {server} {side} {build} {hex}\n").as_bytes())
}

/// The secrets of a file.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Vec<SecretLine>);

struct SecretLine {
    time: Duration,
    client: SocketAddr,
    server: SocketAddr,
    build: Build,
    secret: Vec<u8>,
}

impl std::fmt::Debug for SecretLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SecretLine({} {} {})",
            self.client, self.server, self.build
        )
    }
}

impl Secrets {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or a line is invalid.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .or_usage_in(format_args!("--secrets {}", path.display()))?;
        let mut lines = Vec::new();
        for (number, line) in (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty())
        {
            if line.starts_with('#') {
                continue;
            }
            match parse(line) {
                Some(line) => lines.push(line),
                // Do not quote the line, which may contain a secret.
                None => usage!(
                    "--secrets {}: line {number}: should be time, two addresses, side, build, secret",
                    path.display()
                ),
            }
        }
        Ok(Self(lines))
    }

    /// Returns the secret of a connection at a time since 1970. Ports are reused: if several lines
    /// match the addresses, the nearest in time is used.
    pub(crate) fn of(
        &self,
        client: SocketAddr,
        server: SocketAddr,
        seen: Duration,
    ) -> Option<(Build, &[u8])> {
        let fitting = self
            .0
            .iter()
            .filter(|line| (line.client, line.server) == (client, server));
        let nearest = fitting.min_by_key(|line| line.time.abs_diff(seen))?;
        Some((nearest.build, &nearest.secret))
    }
}

fn parse(line: &str) -> Option<SecretLine> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [time, client, server, _side, build, secret] = words[..] else {
        return None;
    };
    let time = humantime::parse_rfc3339(time)
        .ok()?
        .duration_since(UNIX_EPOCH)
        .ok()?;
    let (pairs, odd) = secret.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let secret: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    let secret = secret.filter(|secret| odd.is_empty() && !secret.is_empty())?;
    Some(SecretLine {
        time,
        client: client.parse().ok()?,
        server: server.parse().ok()?,
        build: build.parse().ok()?,
        secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_written_secrets_and_uses_the_nearest() {
        let path = std::env::temp_dir().join(format!("hailer-secrets-{}", std::process::id()));
        let mut file = append(&path).unwrap();
        let addresses: [SocketAddr; 2] = [
            "127.0.0.1:5".parse().unwrap(),
            "[::1]:25566".parse().unwrap(),
        ];
        for (second, byte) in [(1_000, 1), (2_000, 2), (3_000, 3)] {
            let [client, server] = addresses;
            let side = proxy::Side::Client;
            let build = Build::W25a;
            let secret = &[byte; 16][..];
            let now = UNIX_EPOCH + Duration::from_secs(second);
            write(
                &mut file,
                now,
                &proxy::SessionSecret {
                    side,
                    client,
                    server,
                    build,
                    secret,
                },
            )
            .unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let secrets = Secrets::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(
            text.starts_with("1970-01-01T00:16:40Z 127.0.0.1:5 [::1]:25566 client 12w25a 0101"),
            "{text}"
        );
        let secrets = secrets.unwrap();
        let [client, server] = addresses;
        let of = |second| {
            secrets
                .of(client, server, Duration::from_secs(second))
                .map(|(_, secret)| secret[0])
        };
        assert_eq!([of(0), of(1_900), of(9_999)], [Some(1), Some(2), Some(3)]);
        assert_eq!(secrets.of(server, client, Duration::ZERO), None);
        assert!(!format!("{secrets:?}").contains("01, 01"));
    }

    #[test]
    fn wrong_lines_are_refused() {
        let good = "2012-08-16T12:00:00Z 127.0.0.1:1 127.0.0.1:2 client 1.3.2 0102";
        assert!(parse(good).is_some());
        for wrong in [
            "",
            "x",
            &good[..good.len() - 1],
            &good.replace("1.3.2", "2.0"),
            &good.replace(":1 ", " "),
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
