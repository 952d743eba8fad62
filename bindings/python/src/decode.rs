//! Explanations of datagrams.

use crate::options::{invalid, protocol};
use hailer::proto::wire::{Field, Notes};
use hailer::proto::{DatagramContext, Direction, Explanation, Info, registry};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Explains a datagram. Returns the arguments of the dataclass `Datagram`.
#[pyfunction]
pub(crate) fn decode<'py>(
    py: Python<'py>,
    data: &[u8],
    protocol_id: Option<&str>,
    direction: Option<&str>,
    request: Option<&[u8]>,
) -> PyResult<Bound<'py, PyTuple>> {
    let seen = match (direction, request) {
        (None | Some("reply"), Some(request)) => DatagramContext::ReplyTo(request),
        (None, None) => DatagramContext::Unknown,
        (Some("request"), None) => DatagramContext::Request,
        (Some("reply"), None) => DatagramContext::Reply,
        (Some("request"), Some(_)) => {
            return Err(invalid("request", "only a reply has a request before it"));
        }
        _ => return Err(invalid("direction", "expected \"request\" or \"reply\"")),
    };
    let (found, notes): (Option<(&Info, Explanation)>, Notes) = match protocol_id {
        Some(id) => {
            let protocol = protocol(id)?;
            let (found, notes) = registry::explain_as(protocol, data, seen);
            (found.map(|found| (protocol.info(), found)), notes)
        }
        None => match registry::explain(data, seen) {
            Some((protocol, found, notes)) => (Some((protocol.info(), found)), notes),
            None => (None, Notes::default()),
        },
    };
    let shown = without_secrets(data, &notes);
    let fields = notes.fields().iter().map(|field| {
        let value = if field.is_secret {
            "not shown"
        } else {
            &*field.value
        };
        (field.range.start, field.range.end, &*field.name, value)
    });
    let deviations = notes
        .deviations()
        .iter()
        .map(|(deviation, at)| (deviation.name, *at, deviation.help));
    let error = found.and_then(|(_, explanation)| explanation.error);
    let direction = found.map(|(_, explanation)| match explanation.direction {
        Direction::Request => "request",
        Direction::Reply => "reply",
    });
    (
        found.map(|(info, _)| info.id),
        found.map(|(_, explanation)| explanation.message),
        direction,
        found.map(|(_, explanation)| explanation.is_certain),
        PyBytes::new(py, &shown),
        fields.collect::<Vec<_>>(),
        deviations.collect::<Vec<_>>(),
        error.map(|error| (error.field, error.at, error.to_string())),
    )
        .into_pyobject(py)
}

/// Returns the bytes with zeros in place of secrets.
fn without_secrets(data: &[u8], notes: &Notes) -> Vec<u8> {
    let mut shown = data.to_vec();
    for Field { range, .. } in notes.fields().iter().filter(|field| field.is_secret) {
        let end = range.end.min(shown.len());
        shown
            .get_mut(range.start.min(end)..end)
            .unwrap_or_default()
            .fill(0);
    }
    shown
}
