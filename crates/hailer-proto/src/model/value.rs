//! Values of what only one protocol says, and of options.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// A value: of an extra field, or of an option.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text without formatting.
    Str(CompactString),
    /// Several values.
    List(Vec<Value>),
    /// Named values, in order. Names that a protocol gives are not allocated.
    #[cfg_attr(feature = "serde", serde(serialize_with = "table"))]
    Table(Vec<(Cow<'static, str>, Value)>),
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Str(value.into())
    }
}

impl From<CompactString> for Value {
    fn from(value: CompactString) -> Self {
        Self::Str(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Str(value.into())
    }
}

impl core::fmt::Display for Value {
    /// As a person would write it: lists separated by commas, tables as `key=value`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Bool(true) => f.write_str("yes"),
            Self::Bool(false) => f.write_str("no"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Str(text) => f.write_str(text),
            Self::List(values) => {
                for (i, value) in values.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{value}")?;
                }
                Ok(())
            }
            Self::Table(entries) => {
                for (i, (key, value)) in entries.iter().enumerate() {
                    let comma = if i > 0 { " " } else { "" };
                    write!(f, "{comma}{key}={value}")?;
                }
                Ok(())
            }
        }
    }
}

/// What only one protocol says: a key documented in its [`Info`](crate::Info), and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// Kebab-case name from `Info::fields` or `Info::player_fields`.
    pub key: &'static str,
    /// What the server said.
    pub value: Value,
}

impl Extra {
    /// An extra of this key.
    pub fn new(key: &'static str, value: impl Into<Value>) -> Self {
        Self { key, value: value.into() }
    }
}

#[cfg(feature = "serde")]
pub(super) fn extras<S: serde::Serializer>(extras: &[Extra], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(extras.iter().map(|extra| (extra.key, &extra.value)))
}

#[cfg(feature = "serde")]
fn table<S: serde::Serializer>(entries: &[(Cow<'static, str>, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
}

#[cfg(feature = "serde")]
pub(super) fn uuid<S: serde::Serializer>(uuid: &Option<[u8; 16]>, serializer: S) -> Result<S::Ok, S::Error> {
    match uuid {
        Some(uuid) => serializer.serialize_some(&super::uuid_text(uuid)),
        None => serializer.serialize_none(),
    }
}
