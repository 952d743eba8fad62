//! Answers as the dataclasses of the package. All values equal those of the tool's JSON.

use hailer::Answer;
use hailer::client::Transcript;
use hailer::proto::model::{Extra, Rule, Value, uuid_text};
use hailer::proto::{Player, Status, Text};
use hailer::support::report::{json, milliseconds};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

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

/// Returns an answer as its dataclass.
pub(crate) fn answer<'py>(
    py: Python<'py>,
    target: &str,
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
        sources_dict.set_item(&*source.field, &*source.protocol)?;
    }
    types.answer.bind(py).call1((
        target,
        transcript.protocol.id,
        transcript.address.to_string(),
        milliseconds(answer.latency),
        of.title(),
        transcript.sent,
        transcript.received,
        strings(py, of.refused)?,
        status(py, types, of)?,
        sources_dict,
        PyTuple::new(py, notes)?,
    ))
}

fn status<'py>(py: Python<'py>, types: &Types, of: &Status) -> PyResult<Bound<'py, PyAny>> {
    let text = |text: &Option<Text>| {
        text.as_ref()
            .map(|it| self::text(py, types, it))
            .transpose()
    };
    let address = match &of.address {
        Some(address) => Some(
            types
                .address
                .bind(py)
                .call1((address.host.as_deref(), address.port))?,
        ),
        None => None,
    };
    let list = of.players.list.iter().map(|it| player(py, types, it));
    let players = types.players.bind(py).call1((
        of.players.online,
        of.players.max,
        of.players.bots,
        json::roster(of.players.roster),
        PyList::new(py, list.collect::<PyResult<Vec<_>>>()?)?,
    ))?;
    let rules = of
        .rules
        .iter()
        .map(|Rule { key, value }| types.rule.bind(py).call1((&**key, &**value)));
    let names: Vec<&str> = of
        .deviations
        .iter()
        .map(|deviation| deviation.name)
        .collect();
    // A Rust tuple converts with at most twelve values.
    let facts: [Bound<'py, PyAny>; 14] = [
        any(py, text(&of.name)?)?,
        any(py, text(&of.motd)?)?,
        any(py, of.game.as_deref())?,
        any(py, of.mode.as_deref())?,
        any(py, of.map.as_deref())?,
        any(py, of.version.as_deref())?,
        players,
        PyList::new(py, rules.collect::<PyResult<Vec<_>>>()?)?.into_any(),
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

fn text<'py>(py: Python<'py>, types: &Types, text: &Text) -> PyResult<Bound<'py, PyAny>> {
    types.text.bind(py).call1((text.plain(), text.raw()))
}

fn player<'py>(py: Python<'py>, types: &Types, player: &Player) -> PyResult<Bound<'py, PyAny>> {
    // The shortest decimal number, as in JSON: 12.3 and not 12.300000190734863.
    let time_s = player.time_s.filter(|time| time.is_finite());
    let time_s = time_s.and_then(|time| time.to_string().parse::<f64>().ok());
    types.player.bind(py).call1((
        text(py, types, &player.name)?,
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
        dict.set_item(&*extra.key, value(py, &extra.value)?)?;
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
            let values = values.iter().map(|it| value(py, it));
            Ok(PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Value::Table(entries) => {
            let dict = PyDict::new(py);
            for (key, it) in entries {
                dict.set_item(&**key, value(py, it)?)?;
            }
            Ok(dict.into_any())
        }
        Value::Rows(rows) => {
            let list = PyList::empty(py);
            for row in rows.iter() {
                let dict = PyDict::new(py);
                for (name, cell) in row {
                    dict.set_item(name, cell)?;
                }
                list.append(dict)?;
            }
            Ok(list.into_any())
        }
        Value::Point(axes) => any(py, axes.map(finite).to_vec()),
        // Future kinds of values.
        other => any(py, other.to_string()),
    }
}
