//! Results as Arrow record batches, handed out through the C data interface. The columns are those of `hailer sweep -o FILE.parquet`.

use crate::results::Record;
use crate::stream::{Consumer, Filled, SLICE};
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch as ArrowBatch, RecordBatchReader, StringArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, Field, Fields, Schema, SchemaRef};
use hailer::Status;
use hailer::proto::model::{Rule, uuid_text};
use hailer::proto::{Player, Text};
use hailer::support::report::{json, milliseconds};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::{Arc, LazyLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Rows of a batch of a stream.
const ROWS: usize = 4_096;
/// Longest time that the first result of a batch waits for the others.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Names and types of the columns.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let columns = columns(&[]);
    let fields = columns.into_iter();
    let fields = fields.map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
});

/// Columns of results.
fn columns(records: &[Record]) -> Vec<(&'static str, ArrayRef)> {
    let columns = facts(records).into_iter();
    let columns = columns.chain(texts(records)).chain(numbers(records));
    let columns = columns.chain(lists(records)).chain(failures(records));
    columns.collect()
}

fn strings<T: AsRef<str>>(records: &[Record], get: impl Fn(&Record) -> Option<T>) -> ArrayRef {
    Arc::new(records.iter().map(get).collect::<StringArray>())
}

/// A column of texts that borrow from the results.
fn words<'a>(records: &'a [Record], get: impl Fn(&'a Status) -> Option<&'a str>) -> ArrayRef {
    let texts = records.iter().map(|record| status(record).and_then(&get));
    Arc::new(texts.collect::<StringArray>())
}

fn ints(records: &[Record], get: impl Fn(&Record) -> Option<i64>) -> ArrayRef {
    Arc::new(records.iter().map(get).collect::<Int64Array>())
}

fn flags(records: &[Record], get: impl Fn(&Record) -> Option<bool>) -> ArrayRef {
    Arc::new(records.iter().map(get).collect::<BooleanArray>())
}

fn status(record: &Record) -> Option<&Status> {
    record.answer().map(|answer| &*answer.status)
}

/// Columns about the query.
fn facts(records: &[Record]) -> Vec<(&'static str, ArrayRef)> {
    let times = records.iter().map(|record| {
        let since = record.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    });
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let address = |record: &Record| record.transcript().map(|transcript| transcript.address);
    let latencies = records
        .iter()
        .map(|record| record.answer().map(|answer| milliseconds(answer.latency)));
    let oks = records.iter().map(|record| Some(record.outcome.is_ok()));
    vec![
        (
            "target",
            strings(records, |record| Some(record.target().into_owned())),
        ),
        ("time", Arc::new(times)),
        ("ok", Arc::new(oks.collect::<BooleanArray>())),
        (
            "protocol",
            strings(records, |record| {
                record.transcript().map(|transcript| transcript.protocol.id)
            }),
        ),
        (
            "address",
            strings(records, |record| {
                address(record).map(|address| address.to_string())
            }),
        ),
        (
            "ip",
            strings(records, |record| {
                address(record).map(|address| address.ip().to_string())
            }),
        ),
        (
            "port",
            ints(records, |record| {
                address(record).map(|address| address.port().into())
            }),
        ),
        ("latency_ms", Arc::new(latencies.collect::<Float64Array>())),
        (
            "datagrams_sent",
            ints(records, |record| {
                record.transcript().map(|transcript| transcript.sent.into())
            }),
        ),
        (
            "datagrams_received",
            ints(records, |record| {
                record
                    .transcript()
                    .map(|transcript| transcript.received.into())
            }),
        ),
    ]
}

/// Columns of texts of the status.
fn texts(records: &[Record]) -> Vec<(&'static str, ArrayRef)> {
    let plain = |text: Option<&Text>| text.map(Text::plain);
    vec![
        ("title", strings(records, |record| status(record)?.title())),
        (
            "name",
            strings(records, |record| plain(status(record)?.name.as_ref())),
        ),
        (
            "name_raw",
            words(records, |status| status.name.as_ref().map(Text::raw)),
        ),
        (
            "motd",
            strings(records, |record| plain(status(record)?.motd.as_ref())),
        ),
        (
            "motd_raw",
            words(records, |status| status.motd.as_ref().map(Text::raw)),
        ),
        ("game", words(records, |status| status.game.as_deref())),
        ("mode", words(records, |status| status.mode.as_deref())),
        ("map", words(records, |status| status.map.as_deref())),
        (
            "version",
            words(records, |status| status.version.as_deref()),
        ),
    ]
}

/// Columns about players, and flags.
fn numbers(records: &[Record]) -> Vec<(&'static str, ArrayRef)> {
    vec![
        (
            "players_online",
            ints(records, |record| status(record)?.players.online),
        ),
        (
            "players_max",
            ints(records, |record| status(record)?.players.max),
        ),
        ("players", players(records)),
        ("bots", ints(records, |record| status(record)?.players.bots)),
        (
            "roster",
            words(records, |status| Some(json::roster(status.players.roster))),
        ),
        ("rules", rules(records)),
        (
            "reported_host",
            words(records, |status| status.address.as_ref()?.host.as_deref()),
        ),
        (
            "reported_port",
            ints(records, |record| {
                status(record)?.address.as_ref()?.port.map(i64::from)
            }),
        ),
        (
            "password",
            flags(records, |record| status(record)?.has_password),
        ),
        (
            "anti_cheat",
            flags(records, |record| status(record)?.has_anti_cheat),
        ),
    ]
}

/// Columns of extras and deviations.
fn lists(records: &[Record]) -> Vec<(&'static str, ArrayRef)> {
    let extra = strings(records, |record| {
        let mut text = Vec::new();
        json::extras(&mut text, &status(record)?.extra);
        String::from_utf8(text).ok()
    });
    let names = list(
        records,
        |status| &status.deviations,
        |deviations| {
            let names = deviations.iter().map(|deviation| Some(deviation.name));
            Arc::new(names.collect::<StringArray>())
        },
    );
    vec![("extra", extra), ("deviations", names)]
}

fn failures(records: &[Record]) -> Vec<(&'static str, ArrayRef)> {
    vec![
        (
            "error_kind",
            strings(records, |record| {
                record
                    .outcome
                    .as_ref()
                    .err()
                    .map(|error| error.kind().as_str())
            }),
        ),
        (
            "error_message",
            strings(records, |record| {
                record.outcome.as_ref().err().map(ToString::to_string)
            }),
        ),
    ]
}

/// A column of lists. `values` makes one array of the elements of all lists.
fn list<'a, T: 'a>(
    records: &'a [Record],
    get: impl Fn(&'a Status) -> &'a Vec<T>,
    values: impl FnOnce(&[&'a T]) -> ArrayRef,
) -> ArrayRef {
    let lists: Vec<Option<&Vec<T>>> = records
        .iter()
        .map(|record| status(record).map(&get))
        .collect();
    let elements: Vec<&T> = lists
        .iter()
        .flatten()
        .flat_map(|list| list.iter())
        .collect();
    let values = values(&elements);
    let lengths = lists.iter().map(|list| list.map_or(0, Vec::len));
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls = lists.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(field, offsets, values, Some(nulls)))
}

/// An array of structs with these members.
fn structs(members: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let fields = members.iter().map(|(name, array)| {
        Field::new(
            *name,
            array.data_type().clone(),
            *name != "name" && *name != "key",
        )
    });
    let fields: Fields = fields.collect();
    let arrays = members.into_iter().map(|(_, array)| array).collect();
    Arc::new(StructArray::new(fields, arrays, None))
}

fn players(records: &[Record]) -> ArrayRef {
    list(
        records,
        |status| &status.players.list,
        |players: &[&Player]| {
            let each = || players.iter();
            let times = each().map(|player| player.time_s.map(f64::from));
            structs(vec![
                (
                    "name",
                    Arc::new(StringArray::from_iter_values(
                        each().map(|player| player.name.plain()),
                    )),
                ),
                (
                    "uuid",
                    Arc::new(
                        each()
                            .map(|player| player.uuid.as_ref().map(uuid_text))
                            .collect::<StringArray>(),
                    ),
                ),
                (
                    "score",
                    Arc::new(each().map(|player| player.score).collect::<Int64Array>()),
                ),
                ("time_s", Arc::new(times.collect::<Float64Array>())),
                (
                    "team",
                    Arc::new(
                        each()
                            .map(|player| player.team.as_deref())
                            .collect::<StringArray>(),
                    ),
                ),
                (
                    "latency_ms",
                    Arc::new(
                        each()
                            .map(|player| player.latency_ms)
                            .collect::<Int32Array>(),
                    ),
                ),
            ])
        },
    )
}

fn rules(records: &[Record]) -> ArrayRef {
    list(
        records,
        |status| &status.rules,
        |rules: &[&Rule]| {
            structs(vec![
                (
                    "key",
                    Arc::new(StringArray::from_iter_values(
                        rules.iter().map(|rule| &*rule.key),
                    )),
                ),
                (
                    "value",
                    Arc::new(StringArray::from_iter_values(
                        rules.iter().map(|rule| &*rule.value),
                    )),
                ),
            ])
        },
    )
}

/// A batch that collects its rows.
pub(crate) struct Pending {
    records: Vec<Record>,
    rows: usize,
    since: Instant,
}

/// State of a batch.
pub(crate) enum Collected {
    /// It is complete.
    Batch,
    /// More rows may follow.
    Waiting,
    /// There are no rows, and none will arrive; the reason if the producer failed.
    Ended(Option<String>),
}

impl Pending {
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            records: Vec::new(),
            rows: rows.max(1),
            since: Instant::now(),
        }
    }

    /// Takes rows, and waits for more for at most this time.
    pub(crate) fn collect(&mut self, consumer: &Consumer, wait: Duration) -> Collected {
        self.take(consumer);
        let is_late = !self.records.is_empty() && self.since.elapsed() >= MAX_DELAY;
        if self.records.len() >= self.rows || is_late {
            return Collected::Batch;
        }
        match consumer.fill(wait) {
            Filled::Open => {
                self.take(consumer);
                if self.records.len() >= self.rows {
                    Collected::Batch
                } else {
                    Collected::Waiting
                }
            }
            // A failure is reported after the rows before it.
            Filled::Ended(_) if !self.records.is_empty() => Collected::Batch,
            Filled::Ended(problem) => Collected::Ended(problem),
        }
    }

    fn take(&mut self, consumer: &Consumer) {
        if self.records.is_empty() {
            self.since = Instant::now();
        }
        while self.records.len() < self.rows
            && let Some(record) = consumer.pop()
        {
            self.records.push(record);
        }
    }

    pub(crate) fn finish(self) -> PyResult<ArrowBatch> {
        self.batch()
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn batch(self) -> Result<ArrowBatch, ArrowError> {
        let arrays = columns(&self.records).into_iter().map(|(_, array)| array);
        ArrowBatch::try_new(SCHEMA.clone(), arrays.collect())
    }
}

/// Record batch of results, for any library that reads Arrow.
#[pyclass(frozen, module = "hailer_query._native")]
pub(crate) struct RecordBatch(pub(crate) ArrowBatch);

#[pymethods]
impl RecordBatch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[getter]
    fn column_names(&self) -> Vec<&'static str> {
        columns(&[]).into_iter().map(|(name, _)| name).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!(
            "RecordBatch({} rows, {} columns)",
            self.0.num_rows(),
            self.0.num_columns()
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py)
    }

    /// `requested_schema` is ignored, as the interface allows: consumers cast.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let data = StructArray::from(self.0.clone()).to_data();
        let (array, _): (FFI_ArrowArray, _) = to_ffi(&data).map_err(unreadable)?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema_capsule(py)?, array))
    }
}

fn unreadable(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the columns as an `ArrowSchema`.
pub(crate) fn schema_capsule(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(SCHEMA.as_ref()).map_err(unreadable)?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// Returns the results of a stream as an `ArrowArrayStream`.
pub(crate) fn stream(py: Python<'_>, consumer: Arc<Consumer>) -> PyResult<Bound<'_, PyCapsule>> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?;
    let is_main = threading.call_method0("current_thread")?.is(&main);
    let main_thread = is_main.then(|| thread::current().id());
    let stream = FFI_ArrowArrayStream::new(Box::new(Batches {
        consumer,
        main_thread,
    }));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// Batches of a stream. Consumers may ask for them in any of their threads, with or without the GIL.
struct Batches {
    consumer: Arc<Consumer>,
    /// The main thread of Python, if the stream was made there.
    main_thread: Option<ThreadId>,
}

impl Batches {
    /// Runs the handlers of signals that arrived. Returns the end of the stream if one raised an exception. Only the main thread,
    /// which handles signals, looks; the others must not wait for the GIL, because the thread that has it may wait for them.
    ///
    /// The consumer would replace the exception by another error. So the stream just ends at `Ctrl-C`, and the signal is
    /// repeated: Python raises `KeyboardInterrupt` when the consumer returns. With a handler of the program, which may do nothing
    /// the second time, the stream fails instead.
    fn interruption(&self) -> Option<Option<Result<ArrowBatch, ArrowError>>> {
        if self.main_thread != Some(thread::current().id()) {
            return None;
        }
        let end = Python::try_attach(|py| {
            let error = py.check_signals().err()?;
            Some(match repeat_interrupt(py, &error) {
                Ok(true) => None,
                _ => Some(Err(ArrowError::ExternalError(error.into()))),
            })
        });
        end.flatten()
    }
}

/// Repeats an interrupt that the default handler made an exception. Returns whether it was one.
fn repeat_interrupt(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let signal = py.import("signal")?;
    let handler = signal.call_method1("getsignal", (signal.getattr("SIGINT")?,))?;
    let is_default = handler.is(&signal.getattr("default_int_handler")?);
    if is_default && error.is_instance_of::<PyKeyboardInterrupt>(py) {
        py.import("_thread")?.call_method0("interrupt_main")?;
        return Ok(true);
    }
    Ok(false)
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        SCHEMA.clone()
    }
}

impl Iterator for Batches {
    type Item = Result<ArrowBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Pending::new(ROWS);
        loop {
            match batch.collect(&self.consumer, SLICE) {
                Collected::Batch => return Some(batch.batch()),
                Collected::Ended(problem) => {
                    return problem.map(|problem| Err(ArrowError::ExternalError(problem.into())));
                }
                Collected::Waiting => {}
            }
            if let Some(end) = self.interruption() {
                self.consumer.stop();
                return end;
            }
        }
    }
}
