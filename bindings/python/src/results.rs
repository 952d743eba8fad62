//! Result of one target of a stream. The dataclasses are made when they are first used, because a sweep has 100,000 results per
//! second and most programs read a few facts of each.

use crate::{convert, error};
use hailer::client::Transcript;
use hailer::support::report::milliseconds;
use hailer::{Answer, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

/// A result of a stream.
pub(crate) struct Record {
    /// Target as typed. `None`: an address of a sweep.
    pub(crate) name: Option<Arc<str>>,
    /// When the result was known.
    pub(crate) at: SystemTime,
    pub(crate) outcome: Result<Answer, Error>,
    /// How a search found the server.
    pub(crate) sighting: Option<Box<Sighting>>,
}

/// Where a search saw a server.
pub(crate) struct Sighting {
    pub(crate) interface: Arc<str>,
    pub(crate) protocols: Vec<&'static str>,
}

impl Record {
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.outcome.as_ref().ok()
    }

    pub(crate) fn transcript(&self) -> Option<&Transcript> {
        match &self.outcome {
            Ok(answer) => Some(&answer.transcript),
            Err(error) => error.transcript(),
        }
    }

    /// Returns the target as typed, or `protocol://address`.
    pub(crate) fn target(&self) -> Cow<'_, str> {
        match (&self.name, self.transcript()) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, Some(transcript)) => Cow::Owned(format!(
                "{}://{}",
                transcript.protocol.id, transcript.address
            )),
            (None, None) => Cow::Borrowed(""),
        }
    }
}

/// Result of one target: `answer` or `error`. `_types.pyi` and the package document the members.
#[pyclass(frozen, name = "Result", module = "hailer_query._native")]
pub(crate) struct ResultObject {
    source: Source,
    answer: PyOnceLock<Py<PyAny>>,
}

enum Source {
    Record(Record),
    /// Made by Python, such as a result that was pickled.
    Parts {
        target: String,
        error: Option<Py<PyAny>>,
        interface: Option<String>,
        seen_in: Vec<String>,
    },
}

impl From<Record> for ResultObject {
    fn from(record: Record) -> Self {
        Self {
            source: Source::Record(record),
            answer: PyOnceLock::new(),
        }
    }
}

impl ResultObject {
    /// Returns an attribute of the answer or, without one, of the error.
    fn fact<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let part = match (self.answer.get(py), &self.source) {
            (Some(answer), _) => answer,
            (
                None,
                Source::Parts {
                    error: Some(error), ..
                },
            ) => error,
            _ => return Ok(None),
        };
        Ok(part
            .bind(py)
            .getattr_opt(name)?
            .filter(|value| !value.is_none()))
    }

    /// Returns a number of the players of the answer.
    fn players(&self, py: Python<'_>, name: &str) -> PyResult<Option<i64>> {
        let Some(status) = self.fact(py, "status")? else {
            return Ok(None);
        };
        status.getattr("players")?.getattr(name)?.extract()
    }
}

#[pymethods]
impl ResultObject {
    #[new]
    #[pyo3(signature = (target, answer = None, error = None, interface = None, seen_in = Vec::new()))]
    fn new(
        py: Python<'_>,
        target: String,
        answer: Option<Py<PyAny>>,
        error: Option<Py<PyAny>>,
        interface: Option<String>,
        seen_in: Vec<String>,
    ) -> PyResult<Self> {
        if answer.is_some() == error.is_some() {
            return Err(pyo3::exceptions::PyValueError::new_err(
                "a result has an answer or an error",
            ));
        }
        let cell = PyOnceLock::new();
        if let Some(answer) = answer {
            let _ = cell.set(py, answer);
        }
        Ok(Self {
            source: Source::Parts {
                target,
                error,
                interface,
                seen_in,
            },
            answer: cell,
        })
    }

    #[getter]
    fn target(&self) -> Cow<'_, str> {
        match &self.source {
            Source::Record(record) => record.target(),
            Source::Parts { target, .. } => Cow::Borrowed(target),
        }
    }

    #[getter]
    fn ok(&self) -> bool {
        match &self.source {
            Source::Record(record) => record.outcome.is_ok(),
            Source::Parts { error, .. } => error.is_none(),
        }
    }

    #[getter]
    fn answer<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Source::Record(Record {
            name,
            outcome: Ok(answer),
            ..
        }) = &self.source
        {
            let made = self.answer.get_or_try_init(py, || {
                convert::answer(py, name.as_deref(), answer).map(Bound::unbind)
            })?;
            return Ok(Some(made.bind(py).clone()));
        }
        Ok(self.answer.get(py).map(|answer| answer.bind(py).clone()))
    }

    /// A new exception each time: a raised one refers to the frames that it passed, and they to this object.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.source {
            Source::Record(record) => match &record.outcome {
                Ok(_) => Ok(None),
                Err(error) => error::exception(py, &record.target(), error).map(Some),
            },
            Source::Parts {
                error: Some(error), ..
            } => py.import("copy")?.call_method1("copy", (error,)).map(Some),
            Source::Parts { error: None, .. } => Ok(None),
        }
    }

    #[getter]
    fn protocol(&self, py: Python<'_>) -> PyResult<Option<Cow<'_, str>>> {
        if let Source::Record(record) = &self.source {
            return Ok(record
                .transcript()
                .map(|transcript| transcript.protocol.id.into()));
        }
        let text = self.fact(py, "protocol")?;
        text.map(|text| text.extract::<String>().map(Cow::Owned))
            .transpose()
    }

    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if let Source::Record(record) = &self.source {
            return Ok(record
                .transcript()
                .map(|transcript| transcript.address.to_string()));
        }
        self.fact(py, "address")?
            .map(|text| text.extract())
            .transpose()
    }

    #[getter]
    fn latency_ms(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        if let Source::Record(record) = &self.source {
            return Ok(record.answer().map(|answer| milliseconds(answer.latency)));
        }
        self.fact(py, "latency_ms")?
            .map(|number| number.extract())
            .transpose()
    }

    #[getter]
    fn title(&self, py: Python<'_>) -> PyResult<Option<String>> {
        if let Source::Record(record) = &self.source {
            return Ok(record.answer().and_then(|answer| answer.status.title()));
        }
        self.fact(py, "title")?
            .map(|text| text.extract())
            .transpose()
    }

    #[getter]
    fn players_online(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        match &self.source {
            Source::Record(record) => Ok(record
                .answer()
                .and_then(|answer| answer.status.players.online)),
            Source::Parts { .. } => self.players(py, "online"),
        }
    }

    #[getter]
    fn players_max(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        match &self.source {
            Source::Record(record) => {
                Ok(record.answer().and_then(|answer| answer.status.players.max))
            }
            Source::Parts { .. } => self.players(py, "max"),
        }
    }

    #[getter]
    fn interface(&self) -> Option<&str> {
        match &self.source {
            Source::Record(record) => record
                .sighting
                .as_ref()
                .map(|sighting| &*sighting.interface),
            Source::Parts { interface, .. } => interface.as_deref(),
        }
    }

    #[getter]
    fn seen_in<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match &self.source {
            Source::Record(record) => {
                let protocols = record
                    .sighting
                    .as_ref()
                    .map(|sighting| &*sighting.protocols);
                PyTuple::new(py, protocols.unwrap_or_default())
            }
            Source::Parts { seen_in, .. } => PyTuple::new(py, seen_in),
        }
    }

    /// Returns the answer, or raises the error.
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(answer) = self.answer(py)? {
            return Ok(answer);
        }
        let error = self.error(py)?.unwrap_or_else(|| py.None().into_bound(py));
        Err(PyErr::from_value(error))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let target = self.target().into_pyobject(py)?.repr()?.to_string();
        let facts = match self.error(py)? {
            None => {
                let title = self.title(py)?.into_pyobject(py)?.repr()?.to_string();
                format!(
                    "title={title}, latency_ms={}",
                    self.latency_ms(py)?.unwrap_or_default()
                )
            }
            Some(error) => format!("error={}", error.repr()?),
        };
        Ok(format!("Result({target}, {facts})"))
    }

    fn __eq__(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let (own, others) = (self.parts(py)?, other.parts(py)?);
        own.eq(others)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.target().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<Self>().into_any();
        Ok((class, self.parts(py)?))
    }
}

impl ResultObject {
    /// Returns the arguments that make an equal object.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let seen_in = self.seen_in(py)?.to_list();
        (
            self.target(),
            self.answer(py)?,
            self.error(py)?,
            self.interface(),
            seen_in,
        )
            .into_pyobject(py)
    }
}
