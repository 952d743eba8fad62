//! Answers as the dataclasses of the package. All values equal those of the tool's JSON.

use hailer::Answer;
use hailer::client::Transcript;
use hailer::proto::model::{Extra, Rule, Value, uuid_text};
use hailer::proto::{Player, Status, Text};
use hailer::support::report::{json, milliseconds};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

/// The dataclasses.
struct Types {
    answer: Py<PyAny>,
    status: Py<PyAny>,
    players: Py<PyAny>,
    player: Py<PyAny>,
    text: Py<PyAny>,
    rule: Py<PyAny>,
    address: Py<PyAny>,
}

static TYPES: PyOnceLock<Types> = PyOnceLock::new();

impl Types {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        TYPES.get_or_try_init(py, || {
            let module = py.import("hailer_query._types")?;
            let class = |name: &str| module.getattr(name).map(Bound::unbind);
            Ok(Self {
                answer: class("Answer")?,
                status: class("Status")?,
                players: class("Players")?,
                player: class("Player")?,
                text: class("Text")?,
                rule: class("Rule")?,
                address: class("ServerAddress")?,
            })
        })
    }
}

/// Strings of names that the program has, by place and length. A sweep has the same few names in all of its answers.
static NAMES: Mutex<Option<NameTable>> = Mutex::new(None);

type NameTable = HashMap<(usize, usize), Py<PyString>, BuildHasherDefault<PlaceHasher>>;

/// Hashes the address of a name of the program. Servers cannot choose it.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(byte.into());
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(26);
    }
}

/// Returns a name that the program has as a string, always the same one.
fn name<'py>(py: Python<'py>, name: &'static str) -> Bound<'py, PyString> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let made = names
        .get_or_insert_default()
        .entry((name.as_ptr().addr(), name.len()))
        .or_insert_with(|| PyString::intern(py, name).unbind());
    made.bind(py).clone()
}

/// Returns a key. Those of answers that were read from JSON are not names of the program.
#[expect(clippy::ptr_arg, reason = "a borrowed key is a name of the program")]
fn key<'py>(py: Python<'py>, key: &Cow<'static, str>) -> Bound<'py, PyString> {
    match key {
        Cow::Borrowed(key) => name(py, key),
        Cow::Owned(key) => PyString::new(py, key),
    }
}

/// Returns a tuple of texts.
pub(crate) fn strings<'py>(py: Python<'py>, texts: &[&str]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, texts)
}

/// Returns protocol, address, datagrams sent and datagrams received of an exchange.
pub(crate) fn latency_free_facts(
    transcript: Option<&Transcript>,
) -> (
    Option<&'static str>,
    Option<String>,
    Option<u32>,
    Option<u32>,
) {
    match transcript {
        Some(transcript) => (
            Some(transcript.protocol.id),
            Some(transcript.address.to_string()),
            Some(transcript.sent),
            Some(transcript.received),
        ),
        None => (None, None, None, None),
    }
}

/// Returns an answer as its dataclass. Without a target as typed, it is `protocol://address`.
pub(crate) fn answer<'py>(
    py: Python<'py>,
    target: Option<&str>,
    answer: &Answer,
) -> PyResult<Bound<'py, PyAny>> {
    let types = Types::get(py)?;
    let Answer {
        transcript,
        status: of,
        sources,
        notes,
        ..
    } = answer;
    let sources_dict = PyDict::new(py);
    for source in sources {
        sources_dict.set_item(key(py, &source.field), key(py, &source.protocol))?;
    }
    let protocol = transcript.protocol.id;
    let mut of_address = format!("{protocol}://{}", transcript.address);
    let target = match target {
        Some(target) => PyString::new(py, target),
        None => PyString::new(py, &of_address),
    };
    let address = of_address.split_off(protocol.len() + "://".len());
    let texts = |it| text(py, types, it);
    let server_name = of.name.as_ref().map(texts).transpose()?;
    let motd = of.motd.as_ref().map(texts).transpose()?;
    let title = title(py, server_name.as_ref(), motd.as_ref());
    types.answer.bind(py).call1((
        target,
        name(py, protocol),
        address,
        milliseconds(answer.latency),
        title,
        transcript.sent,
        transcript.received,
        strings(py, of.refused)?,
        status(py, types, of, server_name.as_ref(), motd.as_ref())?,
        sources_dict,
        PyTuple::new(py, notes)?,
    ))
}

/// Returns [`Status::title`]. It is the string of the name or the message of the day, if it is all of it.
fn title<'py>(
    py: Python<'py>,
    name: Option<&PlainText<'_, 'py>>,
    motd: Option<&PlainText<'_, 'py>>,
) -> Option<Bound<'py, PyString>> {
    let title = Status::title_of(name.map(|text| &*text.plain), motd.map(|text| &*text.plain))?;
    let whole = [name, motd]
        .into_iter()
        .flatten()
        .find(|text| text.plain == title);
    Some(whole.map_or_else(|| PyString::new(py, title), |text| text.string.clone()))
}

/// An object, or the exception that ends the list that it would be in.
struct Made<'py>(PyResult<Bound<'py, PyAny>>);

impl<'py> IntoPyObject<'py> for Made<'py> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, _: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0
    }
}

/// A text with the string of its plain form, which is the title of most servers.
struct PlainText<'a, 'py> {
    plain: Cow<'a, str>,
    string: Bound<'py, PyString>,
    object: Bound<'py, PyAny>,
}

fn status<'py>(
    py: Python<'py>,
    types: &Types,
    of: &Status,
    name: Option<&PlainText<'_, 'py>>,
    motd: Option<&PlainText<'_, 'py>>,
) -> PyResult<Bound<'py, PyAny>> {
    let object = |text: Option<&PlainText<'_, 'py>>| text.map(|text| text.object.clone());
    let address = match &of.address {
        Some(address) => Some(
            types
                .address
                .bind(py)
                .call1((address.host.as_deref(), address.port))?,
        ),
        None => None,
    };
    let list = of.players.list.iter().map(|it| Made(player(py, types, it)));
    let players = types.players.bind(py).call1((
        of.players.online,
        of.players.max,
        of.players.bots,
        self::name(py, json::roster(of.players.roster)),
        PyList::new(py, list)?,
    ))?;
    let rules = of
        .rules
        .iter()
        .map(|Rule { key, value }| Made(types.rule.bind(py).call1((&**key, &**value))));
    let names: Vec<&str> = of
        .deviations
        .iter()
        .map(|deviation| deviation.name)
        .collect();
    // A Rust tuple converts with at most twelve values.
    let facts: [Bound<'py, PyAny>; 14] = [
        any(py, object(name))?,
        any(py, object(motd))?,
        any(py, of.game.as_deref())?,
        any(py, of.mode.as_deref())?,
        any(py, of.map.as_deref())?,
        any(py, of.version.as_deref())?,
        players,
        PyList::new(py, rules)?.into_any(),
        any(py, address)?,
        any(py, of.has_password)?,
        any(py, of.has_anti_cheat)?,
        any(py, of.icon.as_ref().map(|icon| icon.data_uri()))?,
        extras(py, &of.extra)?.into_any(),
        strings(py, &names)?.into_any(),
    ];
    let facts = PyTuple::new(py, facts)?;
    types.status.bind(py).call1(facts)
}

/// Returns any value as an object.
fn any<'py, T: IntoPyObject<'py>>(py: Python<'py>, value: T) -> PyResult<Bound<'py, PyAny>>
where
    PyErr: From<T::Error>,
{
    use pyo3::BoundObject;
    let object = value.into_pyobject(py)?;
    Ok(object.into_any().into_bound())
}

fn text<'a, 'py>(py: Python<'py>, types: &Types, text: &'a Text) -> PyResult<PlainText<'a, 'py>> {
    // Most texts have nothing to remove: then both are one string.
    let raw = PyString::new(py, text.raw());
    let plain = text.to_plain();
    let string = if plain == text.raw() {
        raw.clone()
    } else {
        PyString::new(py, &plain)
    };
    let object = types.text.bind(py).call1((&string, raw))?;
    Ok(PlainText {
        plain,
        string,
        object,
    })
}

fn player<'py>(py: Python<'py>, types: &Types, player: &Player) -> PyResult<Bound<'py, PyAny>> {
    // The shortest decimal number, as in JSON: 12.3 and not 12.300000190734863.
    let time_s = player.time_s.filter(|time| time.is_finite());
    let time_s = time_s.and_then(|time| time.to_string().parse::<f64>().ok());
    types.player.bind(py).call1((
        text(py, types, &player.name)?.object,
        player.uuid.as_ref().map(uuid_text),
        player.score,
        time_s,
        player.team.as_deref(),
        player.latency_ms,
        extras(py, &player.extra)?,
    ))
}

fn extras<'py>(py: Python<'py>, extras: &[Extra]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for extra in extras {
        dict.set_item(key(py, &extra.key), value(py, &extra.value)?)?;
    }
    Ok(dict)
}

fn value<'py>(py: Python<'py>, it: &Value) -> PyResult<Bound<'py, PyAny>> {
    // JSON has no infinite numbers.
    let finite = |number: f64| Some(number).filter(|number| number.is_finite());
    match it {
        Value::Bool(flag) => any(py, *flag),
        Value::Int(number) => any(py, *number),
        Value::Float(number) => any(py, finite(*number)),
        Value::Str(text) => any(py, &**text),
        Value::List(values) => {
            let values = values.iter().map(|it| Made(value(py, it)));
            Ok(PyList::new(py, values)?.into_any())
        }
        Value::Table(entries) => {
            let dict = PyDict::new(py);
            for (key, it) in entries {
                dict.set_item(&**key, value(py, it)?)?;
            }
            Ok(dict.into_any())
        }
        Value::Rows(rows) => {
            let mut columns: Vec<(&'static str, Bound<'py, PyString>)> = Vec::new();
            let rows = rows.iter().map(|row| {
                let dict = PyDict::new(py);
                for (column, cell) in row {
                    let known = columns
                        .iter()
                        .find(|(known, _)| std::ptr::eq(*known, column));
                    let key = match known {
                        Some((_, key)) => key.clone(),
                        None => {
                            columns.push((column, name(py, column)));
                            name(py, column)
                        }
                    };
                    dict.set_item(key, cell)?;
                }
                Ok(dict.into_any())
            });
            Ok(PyList::new(py, rows.map(Made))?.into_any())
        }
        Value::Point(axes) => any(py, axes.map(finite).to_vec()),
        // Future kinds of values.
        other => any(py, other.to_string()),
    }
}
