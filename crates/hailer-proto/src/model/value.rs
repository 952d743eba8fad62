//! Values of extra fields and of options.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Value of an extra field or of an option.
///
/// Values are equal if they mean the same in JSON: rows are equal to a list of tables, a point to a
/// list of three numbers, and all numbers that JSON does not have, such as NaN, to each other.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
#[non_exhaustive]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// Signed 64-bit integer.
    Int(i64),
    /// Floating-point number.
    Float(f64),
    /// Text without formatting.
    Str(CompactString),
    /// Several values.
    List(Vec<Value>),
    /// Named values, in order.
    #[cfg_attr(feature = "serde", serde(serialize_with = "table"))]
    Table(Vec<(CompactString, Value)>),
    /// A list of tables of text that all have the same names.
    Rows(Rows),
    /// Position: x, y, z.
    Point([f64; 3]),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => is_same_number(*a, *b),
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Table(a), Self::Table(b)) => a == b,
            (Self::Rows(a), Self::Rows(b)) => a == b,
            (Self::Rows(rows), Self::List(list)) | (Self::List(list), Self::Rows(rows)) => {
                rows.is_list(list)
            }
            (Self::Point(a), Self::Point(b)) => {
                a.iter().zip(b).all(|(a, b)| is_same_number(*a, *b))
            }
            (Self::Point(point), Self::List(list)) | (Self::List(list), Self::Point(point)) => {
                let is_axis = |(axis, value): (&f64, &Self)| *value == Self::Float(*axis);
                list.len() == point.len() && point.iter().zip(list).all(is_axis)
            }
            _ => false,
        }
    }
}

/// Returns whether two numbers are equal, or both are none that JSON has.
pub(super) fn is_same_number(a: f64, b: f64) -> bool {
    a == b || !a.is_finite() && !b.is_finite()
}

/// Tables of text with the same names, in one allocation. A list of [tables](Value::Table) needs
/// one for each.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Names of the columns. A reference to the slice reference, which keeps a value small.
    columns: &'static &'static [&'static str],
    cells: Vec<Option<CompactString>>,
}

/// Rows are equal if they have the same names and texts.
impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        let (rows, others) = (self.iter(), other.iter());
        rows.len() == others.len() && rows.zip(others).all(|(row, other)| row.eq(other))
    }
}

impl Rows {
    /// Returns whether a list has the same tables.
    fn is_list(&self, list: &[Value]) -> bool {
        self.len() == list.len()
            && self.iter().zip(list).all(|(mut row, value)| {
                let Value::Table(entries) = value else {
                    return false;
                };
                let is_same = entries
                    .iter()
                    .all(|(key, value)| match (row.next(), value) {
                        (Some((name, cell)), Value::Str(text)) => {
                            key.as_str() == name && text.as_str() == cell
                        }
                        _ => false,
                    });
                is_same && row.next().is_none()
            })
    }

    /// Creates an empty list with this capacity.
    pub fn with_capacity(columns: &'static &'static [&'static str], rows: usize) -> Self {
        Self {
            columns,
            cells: Vec::with_capacity(rows * columns.len()),
        }
    }

    /// Adds a row with a cell for each column. Missing cells are left out, surplus ones dropped.
    pub fn push<'a>(&mut self, row: impl IntoIterator<Item = Option<&'a str>>) {
        let end = self.cells.len() + self.columns.len();
        self.cells.extend(
            row.into_iter()
                .take(self.columns.len())
                .map(|cell| cell.map(CompactString::from)),
        );
        self.cells.resize(end, None);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.iter().len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the rows as names and texts.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = impl Iterator<Item = (&'static str, &str)>> {
        let rows = self.cells.chunks_exact(self.columns.len().max(1));
        rows.map(|cells| {
            self.columns
                .iter()
                .zip(cells)
                .filter_map(|(name, cell)| Some((*name, cell.as_deref()?)))
        })
    }
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

impl Value {
    /// Calls `visit` for every text in the value, except those in rows.
    pub(crate) fn visit_strings(&mut self, visit: &mut impl FnMut(&mut CompactString)) {
        match self {
            Self::Str(text) => visit(text),
            Self::List(values) => {
                for value in values {
                    value.visit_strings(visit);
                }
            }
            Self::Table(entries) => {
                for (key, value) in entries {
                    visit(key);
                    value.visit_strings(visit);
                }
            }
            _ => {}
        }
    }
}

impl core::fmt::Display for Value {
    /// Formats the value for people: lists separated by commas, tables as `key=value`. Lists and
    /// tables in a table have brackets.
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
            Self::Table(entries) => named(
                f,
                entries.iter().map(|(key, value)| (&**key, Nested(value))),
            ),
            Self::Rows(rows) => rows.iter().enumerate().try_for_each(|(i, row)| {
                f.write_str(if i > 0 { ", " } else { "" })?;
                named(f, row)
            }),
            Self::Point([x, y, z]) => write!(f, "{x}, {y}, {z}"),
        }
    }
}

/// Value of an entry of a table.
struct Nested<'a>(&'a Value);

impl core::fmt::Display for Nested<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            list @ (Value::List(_) | Value::Rows(_)) => write!(f, "[{list}]"),
            table @ Value::Table(_) => write!(f, "{{{table}}}"),
            value => value.fmt(f),
        }
    }
}

fn named<'a, T: core::fmt::Display>(
    f: &mut core::fmt::Formatter<'_>,
    entries: impl Iterator<Item = (&'a str, T)>,
) -> core::fmt::Result {
    entries.enumerate().try_for_each(|(i, (key, value))| {
        let blank = if i > 0 { " " } else { "" };
        write!(f, "{blank}{key}={value}")
    })
}

/// A field of one protocol: a key documented in its [`Info`](crate::Info), and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// Kebab-case name from `Info::fields` or `Info::player_fields`. One that was read from JSON may
    /// be from another version.
    pub key: Cow<'static, str>,
    /// Value as the server sent it.
    pub value: Value,
}

impl Extra {
    /// Creates an extra field.
    pub fn new(key: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
        }
    }
}

#[cfg(feature = "serde")]
pub(super) fn extras<S: serde::Serializer>(
    extras: &[Extra],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(extras.iter().map(|extra| (&*extra.key, &extra.value)))
}

#[cfg(feature = "serde")]
fn table<S: serde::Serializer>(
    entries: &[(CompactString, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
}

#[cfg(feature = "serde")]
impl serde::Serialize for Rows {
    /// Returns the value as a list of tables.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Row<I>(core::cell::Cell<Option<I>>);
        impl<'a, I: Iterator<Item = (&'static str, &'a str)>> serde::Serialize for Row<I> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.take().into_iter().flatten())
            }
        }
        serializer.collect_seq(self.iter().map(|row| Row(core::cell::Cell::new(Some(row)))))
    }
}

/// Values as JSON has them: rows are read as a list of tables, a point as a list of numbers, and
/// `null` as NaN.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

#[cfg(feature = "serde")]
struct ValueVisitor;

#[cfg(feature = "serde")]
impl<'de> serde::de::Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Float(f64::NAN))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Table(entries))
    }
}

/// Reads extras in the order of the object.
#[cfg(feature = "serde")]
pub(crate) fn read_extras<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Extra>, D::Error> {
    struct ExtrasVisitor;
    impl<'de> serde::de::Visitor<'de> for ExtrasVisitor {
        type Value = Vec<Extra>;

        fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str("an object of values")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Vec<Extra>, A::Error> {
            let mut extras = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, Value>()? {
                extras.push(Extra::new(key, value));
            }
            Ok(extras)
        }
    }
    deserializer.deserialize_map(ExtrasVisitor)
}

/// Reads a UUID, or `null`.
#[cfg(feature = "serde")]
pub(super) fn read_uuid<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<[u8; 16]>, D::Error> {
    let text: Option<String> = serde::Deserialize::deserialize(deserializer)?;
    let read = |text: String| {
        let problem = || serde::de::Error::custom("a UUID has 32 hexadecimal digits");
        super::uuid_from_text(&text).ok_or_else(problem)
    };
    text.map(read).transpose()
}

/// Reads a time. `null` is a time that is no number; a time that is not there is unknown.
#[cfg(feature = "serde")]
pub(super) fn read_time<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f32>, D::Error> {
    let time: Option<f32> = serde::Deserialize::deserialize(deserializer)?;
    Ok(Some(time.unwrap_or(f32::NAN)))
}

#[cfg(feature = "serde")]
pub(super) fn uuid<S: serde::Serializer>(
    uuid: &Option<[u8; 16]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match uuid {
        Some(uuid) => serializer.serialize_some(&super::uuid_text(uuid)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn nested_values_have_brackets() {
        let inner = Value::Table(vec![("a".into(), 1.into())]);
        let value = Value::Table(vec![
            ("queue".into(), 1.into()),
            ("list".into(), Value::List(vec![1.into(), inner.clone()])),
            ("deep".into(), inner),
        ]);
        assert_eq!(value.to_string(), "queue=1 list=[1, a=1] deep={a=1}");
    }

    #[test]
    fn rows_are_a_list_of_tables() {
        let mut rows = Rows::with_capacity(&(&["name", "version"] as &[_]), 2);
        rows.push([Some("WorldEdit"), Some("5.3")]);
        rows.push([Some("Shy"), None]);
        rows.push([]);
        assert_eq!(rows.len(), 3);
        let table = |entries: &[(&'static str, &str)]| {
            Value::Table(
                entries
                    .iter()
                    .map(|(key, value)| ((*key).into(), (*value).into()))
                    .collect(),
            )
        };
        let list = vec![
            table(&[("name", "WorldEdit"), ("version", "5.3")]),
            table(&[("name", "Shy")]),
            table(&[]),
        ];
        let rows = Value::Rows(rows);
        let list = Value::List(list);
        assert_eq!(rows.to_string(), list.to_string());
        #[cfg(feature = "serde")]
        assert_eq!(
            serde_json::to_string(&rows).unwrap(),
            serde_json::to_string(&list).unwrap()
        );
        assert_eq!((size_of::<Value>(), size_of::<Option<Value>>()), (32, 32));
    }
}
