//! Auth tokens and the endpoints that they permit (spec/onequery.md#6).

use super::message::{Endpoint, MAX_AUTH_TOKEN};
use crate::model::Value;
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// A set of endpoints. Empty by default, so that access must be granted explicitly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Name, MOTD, counts, version.
    pub has_basic: bool,
    /// The list of players.
    pub has_players: bool,
}

impl Endpoints {
    /// Both endpoints.
    pub const ALL: Self = Self {
        has_basic: true,
        has_players: true,
    };

    /// Returns whether an endpoint is in the set.
    pub fn contains(self, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Basic => self.has_basic,
            Endpoint::Players => self.has_players,
        }
    }

    /// Returns the endpoints with their names.
    pub fn names(self) -> &'static [&'static str] {
        match (self.has_basic, self.has_players) {
            (false, false) => &[],
            (true, false) => &["basic"],
            (false, true) => &["players"],
            (true, true) => &["basic", "players"],
        }
    }

    /// Parses a list of names. The error names the problem, without quoting the value.
    pub(super) fn read(value: &Value) -> Result<Self, Cow<'static, str>> {
        let Value::List(names) = value else {
            return Err("must be a list of endpoints, such as [\"basic\", \"players\"]".into());
        };
        let mut endpoints = Self::default();
        for name in names {
            match name {
                Value::Str(name) if name == "basic" => endpoints.has_basic = true,
                Value::Str(name) if name == "players" => endpoints.has_players = true,
                // The value is not quoted: it may be a token in the wrong place.
                _ => return Err("must list endpoints; known are \"basic\", \"players\"".into()),
            }
        }
        Ok(endpoints)
    }
}

/// Valid auth tokens as SHA-256 digests: the tokens themselves are neither in memory nor in logs.
#[derive(Clone, Default)]
pub struct AuthTokens(Vec<([u8; 32], Endpoints)>);

impl core::fmt::Debug for AuthTokens {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AuthTokens({} secret)", self.0.len())
    }
}

impl AuthTokens {
    /// Parses a table from tokens, or `sha256:` and a digest, to lists of endpoints. Errors
    /// identify entries by number, never by token.
    pub(super) fn read(value: &Value) -> Result<Self, Cow<'static, str>> {
        let Value::Table(entries) = value else {
            return Err("must be a table from token to a list of endpoints".into());
        };
        let mut tokens = Self::default();
        for (index, (token, endpoints)) in entries.iter().enumerate() {
            let entry = |problem: Cow<'static, str>| format!("entry {}: {problem}", index + 1);
            let endpoints = Endpoints::read(endpoints).map_err(entry)?;
            tokens.add(token, endpoints).map_err(entry)?;
        }
        Ok(tokens)
    }

    /// Adds a token, or `sha256:` and the digest of one in hexadecimal.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the token, without quoting it.
    pub fn add(&mut self, token: &str, endpoints: Endpoints) -> Result<(), Cow<'static, str>> {
        self.0.push((digest(token)?, endpoints));
        Ok(())
    }

    /// Returns whether this token opens this endpoint. Checks every entry, so that the time does
    /// not depend on the match.
    pub(super) fn permit(&self, token: &[u8], endpoint: Endpoint) -> bool {
        let offered: [u8; 32] = Sha256::digest(token).into();
        let mut open = Choice::from(0);
        for (digest, endpoints) in &self.0 {
            open |= digest.ct_eq(&offered) & Choice::from(u8::from(endpoints.contains(endpoint)));
        }
        open.into()
    }
}

fn digest(token: &str) -> Result<[u8; 32], Cow<'static, str>> {
    if let Some(hex) = token.strip_prefix("sha256:") {
        return from_hex(hex).ok_or("\"sha256:\" must be followed by 64 hexadecimal digits".into());
    }
    if token.is_empty() {
        return Err("an empty token cannot be sent".into());
    }
    if token.len() > MAX_AUTH_TOKEN {
        return Err(format!("the token must have at most {MAX_AUTH_TOKEN} bytes").into());
    }
    Ok(Sha256::digest(token.as_bytes()).into())
}

fn from_hex(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// An auth token to send, which is never logged.
#[derive(Clone)]
pub(super) struct AuthToken(pub(super) Vec<u8>);

impl core::fmt::Debug for AuthToken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("AuthToken(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;

    fn tokens(entries: &[(&str, &[&str])]) -> Result<AuthTokens, String> {
        let list =
            |names: &[&str]| Value::List(names.iter().map(|name| Value::from(*name)).collect());
        let entries = entries
            .iter()
            .map(|(token, names)| (String::from(*token).into(), list(names)))
            .collect();
        AuthTokens::read(&Value::Table(entries)).map_err(Into::into)
    }

    #[test]
    fn a_token_opens_what_its_entry_lists() {
        let tokens = tokens(&[
            ("all", &["basic", "players"]),
            ("some", &["players"]),
            ("none", &[]),
        ])
        .unwrap();
        assert!(tokens.permit(b"all", Endpoint::Basic) && tokens.permit(b"all", Endpoint::Players));
        assert!(
            !tokens.permit(b"some", Endpoint::Basic) && tokens.permit(b"some", Endpoint::Players)
        );
        assert!(
            !tokens.permit(b"none", Endpoint::Basic),
            "an empty entry opens nothing"
        );
        for unknown in [&b""[..], b"al", b"all\0", b"ALL", &[0xFF; 9000]] {
            assert!(!tokens.permit(unknown, Endpoint::Basic));
        }
    }

    #[test]
    fn a_hashed_token_opens_like_a_plain_one() {
        // SHA-256 of "secret", in either case.
        let hash = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let upper = hash.to_uppercase().replace("SHA", "sha");
        for entry in [hash, &upper] {
            let tokens = tokens(&[(entry, &["players"])]).unwrap();
            assert!(tokens.permit(b"secret", Endpoint::Players));
            assert!(
                !tokens.permit(entry.as_bytes(), Endpoint::Players),
                "the hash is not the token"
            );
        }
    }

    #[test]
    fn errors_and_logs_do_not_betray_tokens() {
        let cases: [(&str, &[&str], &str); 4] = [
            (
                "hush",
                &["basic", "rcon"],
                "entry 1: must list endpoints; known are \"basic\", \"players\"",
            ),
            ("", &["basic"], "entry 1: an empty token cannot be sent"),
            (
                "sha256:hush",
                &["basic"],
                "entry 1: \"sha256:\" must be followed by 64 hexadecimal digits",
            ),
            (
                &"hush".repeat(20_000),
                &["basic"],
                "entry 1: the token must have at most 1347 bytes",
            ),
        ];
        for (token, names, problem) in cases {
            assert_eq!(tokens(&[(token, names)]).unwrap_err(), problem);
        }
        assert_eq!(
            format!("{:?}", tokens(&[("hush", &["basic"])]).unwrap()),
            "AuthTokens(1 secret)"
        );
        assert!(AuthTokens::read(&Value::from(true)).is_err());
        let not_a_list = Value::Table(vec![("hush".into(), Value::from("basic"))]);
        assert!(
            AuthTokens::read(&not_a_list)
                .unwrap_err()
                .contains("must be a list")
        );
    }
}
