//! Query parameters. Parsing is strict: unknown or invalid parameters are errors that name them.

use super::{Api, Problem};
use crate::server::FieldError;
use crate::state::ServerRow;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Maximum number of parameters.
const MAX_PARAMS: usize = 32;

/// Server name in the path.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name))
            .map_err(|_| Problem::not_found("the server name in the path is not valid UTF-8"))
    }
}

/// The server that the path names. Rejects unknown names with 404.
pub(super) struct NamedServer(pub(super) ServerRow);

impl FromRequestParts<Api> for NamedServer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let Name(name) = Name::from_request_parts(parts, api).await?;
        let row = api.named(&name).await;
        row.map(Self).ok_or_else(|| Problem::no_server(&name))
    }
}

/// A URL without parameters. Rejects all others.
pub(super) struct NoParams;

impl<S: Send + Sync> FromRequestParts<S> for NoParams {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Params::read(&parts.uri, &[], &[]).end().map(|()| Self)
    }
}

/// The parameters of one request.
pub(super) struct Params {
    pairs: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl Params {
    /// Parses the parameters of a URL. `known` may occur once, `repeatable` several times.
    pub(super) fn read(uri: &Uri, known: &[&str], repeatable: &[&str]) -> Self {
        let mut pairs = Vec::<(String, String)>::new();
        let mut errors = Vec::new();
        let all = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        for (number, (key, value)) in all.into_owned().enumerate() {
            let is_repeatable = repeatable.contains(&&*key);
            if number >= MAX_PARAMS {
                errors.push(FieldError::new(
                    &key,
                    format!("at most {MAX_PARAMS} parameters are allowed"),
                ));
                break;
            }
            if !is_repeatable && !known.contains(&&*key) {
                let known: Vec<&str> = known.iter().chain(repeatable).copied().collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                errors.push(FieldError::new(
                    &key,
                    format!("unknown parameter; allowed: {known}"),
                ));
            } else if !is_repeatable && pairs.iter().any(|(other, _)| *other == key) {
                errors.push(FieldError::new(&key, "must occur only once"));
            } else {
                pairs.push((key, value));
            }
        }
        Self { pairs, errors }
    }

    /// Takes a text of at most `most` characters; `None` if it is missing or empty.
    pub(super) fn text(&mut self, key: &str, most: usize) -> Option<String> {
        let text = self.take(key)?;
        match text.chars().count() {
            0 => None,
            count if count <= most => Some(text),
            _ => self.refuse(key, format!("must have at most {most} characters")),
        }
    }

    /// Takes an integer in `range`.
    pub(super) fn number<T>(&mut self, key: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.take(key)?;
        match text.parse::<T>() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => self.refuse(
                key,
                format!(
                    "must be an integer from {} to {}",
                    range.start(),
                    range.end()
                ),
            ),
        }
    }

    /// Takes one of the keywords, and returns its value.
    pub(super) fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.take(key)?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Some(*meaning),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.refuse(key, format!("must be one of: {}", words.join(", ")))
            }
        }
    }

    /// Takes all values of a repeatable parameter.
    pub(super) fn all(&mut self, key: &str) -> Vec<String> {
        let all = std::mem::take(&mut self.pairs);
        let (these, others): (Vec<_>, _) = all.into_iter().partition(|(other, _)| other == key);
        self.pairs = others;
        these.into_iter().map(|(_, value)| value).collect()
    }

    /// Records an error of a parameter, and returns `None`.
    pub(super) fn refuse<T>(&mut self, key: &str, message: impl Into<String>) -> Option<T> {
        self.errors.push(FieldError::new(key, message));
        None
    }

    /// Returns the recorded errors, if any.
    pub(super) fn end(self) -> Result<(), Problem> {
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(Problem::invalid(StatusCode::BAD_REQUEST, self.errors))
        }
    }

    /// Takes a parameter; it may be empty.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(other, _)| other == key)?;
        Some(self.pairs.swap_remove(at).1)
    }
}
