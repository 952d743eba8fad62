//! What an address says behind its question mark, read strictly: what is not understood is refused with its name.

use super::Problem;
use crate::server::FieldError;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// More parameters are none of ours.
const MOST: usize = 32;

/// The name in an address.
pub(super) struct Name(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name))
            .map_err(|_| Problem::not_found("no name has such letters"))
    }
}

/// The parameters of one request.
pub(super) struct Params {
    pairs: Vec<(String, String)>,
    wrong: Vec<FieldError>,
}

impl Params {
    /// Reads those that are `known`; only those of `often` may be there more than once.
    pub(super) fn read(uri: &Uri, known: &[&str], often: &[&str]) -> Self {
        let (mut pairs, mut wrong) = (Vec::<(String, String)>::new(), Vec::new());
        let all = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        for (number, (key, value)) in all.into_owned().enumerate() {
            let is_often = often.contains(&&*key);
            if number >= MOST {
                wrong.push(FieldError::new(
                    &key,
                    format!("there are {MOST} parameters at most"),
                ));
                break;
            }
            if !is_often && !known.contains(&&*key) {
                let known: Vec<&str> = known.iter().chain(often).copied().collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                wrong.push(FieldError::new(
                    &key,
                    format!("there is no such parameter; there are: {known}"),
                ));
            } else if !is_often && pairs.iter().any(|(other, _)| *other == key) {
                wrong.push(FieldError::new(&key, "say it once"));
            } else {
                pairs.push((key, value));
            }
        }
        Self { pairs, wrong }
    }

    /// A text of so many characters at most; an empty one is none.
    pub(super) fn text(&mut self, key: &str, most: usize) -> Option<String> {
        let text = self.take(key)?;
        match text.chars().count() {
            0 => None,
            count if count <= most => Some(text),
            _ => self.refuse(key, format!("at most {most} characters")),
        }
    }

    /// A number.
    pub(super) fn number<T>(&mut self, key: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        let text = self.take(key)?;
        match text.parse::<T>() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => self.refuse(
                key,
                format!("a whole number from {} to {}", range.start(), range.end()),
            ),
        }
    }

    /// One of these words.
    pub(super) fn word<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.take(key)?;
        match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Some(*meaning),
            None => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.refuse(key, format!("one of: {}", words.join(", ")))
            }
        }
    }

    /// All values of a parameter that may be there more than once.
    pub(super) fn all(&mut self, key: &str) -> Vec<String> {
        let all = std::mem::take(&mut self.pairs);
        let (these, others): (Vec<_>, _) = all.into_iter().partition(|(other, _)| other == key);
        self.pairs = others;
        these.into_iter().map(|(_, value)| value).collect()
    }

    /// Notes that a parameter is wrong.
    pub(super) fn refuse<T>(&mut self, key: &str, message: impl Into<String>) -> Option<T> {
        self.wrong.push(FieldError::new(key, message));
        None
    }

    /// Whether all was understood.
    pub(super) fn end(self) -> Result<(), Problem> {
        match self.wrong.is_empty() {
            true => Ok(()),
            false => Err(Problem::invalid(StatusCode::BAD_REQUEST, self.wrong)),
        }
    }

    /// A parameter as it is, an empty one as well.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(other, _)| other == key)?;
        Some(self.pairs.swap_remove(at).1)
    }
}
