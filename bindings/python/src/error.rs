//! Errors of queries as Python exceptions.

use crate::convert::{latency_free_facts, strings};
use hailer::Error;
use hailer::client::ProtocolFailure;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};

/// `make_error` of the package, which chooses the class.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Returns the exception of a failed query.
pub(crate) fn exception<'py>(
    py: Python<'py>,
    target: &str,
    error: &Error,
) -> PyResult<Bound<'py, PyAny>> {
    let make = MAKE.get_or_try_init(py, || {
        let module = py.import("hailer_query._errors")?;
        module.getattr("make_error").map(Bound::unbind)
    })?;
    let failures: Vec<Bound<'py, PyAny>> = match error {
        Error::NoProtocol { failures } => failures
            .iter()
            .map(|ProtocolFailure { error, .. }| exception(py, target, error))
            .collect::<PyResult<_>>()?,
        _ => Vec::new(),
    };
    let place = error.fault_place();
    let cut = place.filter(|place| place.is_cut());
    let refused: &[&str] = match error {
        Error::Refused { endpoints, .. } => endpoints,
        _ => &[],
    };
    let (protocol, address, sent, received) = latency_free_facts(error.transcript());
    make.bind(py).call1((
        error.kind().as_str(),
        error.to_string(),
        target,
        protocol,
        address,
        sent,
        received,
        strings(py, refused)?,
        place.map(|place| PyBytes::new(py, place.shown())),
        cut.map(|place| place.start),
        cut.map(|place| place.message.len()),
        PyTuple::new(py, failures)?,
    ))
}

/// Returns the error to raise.
pub(crate) fn raised(py: Python<'_>, target: &str, error: &Error) -> PyErr {
    match exception(py, target, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
